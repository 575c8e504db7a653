"""Joint problems on every engine: the same sums, margins and trajectories."""

from __future__ import annotations

import grid
import numpy as np
import pytest

import prgd
from prgd.losses import EXPONENTIAL, LOGISTIC
from prgd.rows import JointAccurateAt, JointMarginsAt, JointSmallestAt, JointTallyAt
from prgd.rows.measures import LargestRow

K, D = 4, 5


def rows_of_four_classes():
    rng = np.random.default_rng(11)
    codes = np.repeat(np.arange(K), [40, 3, 25, 33])[rng.permutation(101)]
    X = rng.standard_normal((K, D))[codes] * 2.0 + 0.5 * rng.standard_normal((101, D))
    weight = rng.random(101)
    weight[rng.permutation(101)[:10]] = 0.0
    return X, codes.astype(float), weight, rng.standard_normal((K, D))


def expected_margins(X, codes, W):
    scores = X @ W.T
    margins = scores[np.arange(len(X)), codes.astype(int)][:, None] - scores
    margins[np.arange(len(X)), codes.astype(int)] = np.inf
    return margins


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("has_weights", [False, True])
def test_every_engine_answers_the_joint_queries(engine, has_weights, tmp_path):
    X, codes, weight, W = rows_of_four_classes()
    s = weight if has_weights else None
    rows = grid.ENGINES[engine](X, codes, s, tmp_path)
    mass = weight if has_weights else np.ones(len(X))
    assert rows.labels.classes.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert np.array_equal(rows.labels.codes, codes)
    assert rows.labels.class_weights == pytest.approx([mass[codes == k].sum() for k in range(K)])
    m = expected_margins(X, codes, W)
    np.testing.assert_allclose(rows.ask(JointMarginsAt(W)), m, rtol=1e-12, atol=1e-12)
    counted = np.where(mass[:, None] > 0.0, m, np.inf)
    b = np.array([0.5, -1.0, 0.25, 0.25])
    found = rows.ask(JointAccurateAt(W, b))
    shifted = m + b[codes.astype(int)][:, None] - b
    finite = np.isfinite(m)
    assert (np.abs(found.margins[finite] - shifted[finite]) <= found.errors[finite] + 1e-12).all()
    for by_class in (False, True):
        groups = rows.ask(JointSmallestAt(W, 3, by_class, np.array([], dtype=np.int64), np.zeros(K)))
        flat = counted.ravel()
        if by_class:
            assert len(groups) == K * K
            for k in range(K):
                for j in range(K):
                    low = counted[codes == k, j].min() if j != k else np.inf
                    assert groups[k * K + j].smallest == pytest.approx(low, rel=1e-12)
        else:
            assert groups[0].indices.tolist() == np.argsort(flat, kind="stable")[:3].tolist()
            np.testing.assert_allclose(groups[0].margins, np.sort(flat)[:3], rtol=1e-12)
    assert rows.ask(LargestRow(1.0)) == pytest.approx(np.abs(X).sum(axis=1).max())


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize(("loss", "by_class"), [(EXPONENTIAL, False), (EXPONENTIAL, True), (LOGISTIC, False)])
def test_every_engine_sums_the_same_pairs(engine, has_weights, loss, by_class, tmp_path):
    X, codes, weight, W = rows_of_four_classes()
    rows = grid.ENGINES[engine](X, codes, weight if has_weights else None, tmp_path)
    mass = weight if has_weights else np.ones(len(X))
    found = rows.ask(JointTallyAt(W, loss, by_class))
    m, own = expected_margins(X, codes, W), codes.astype(int)
    if by_class:
        for k in range(K):
            for j in range(K):
                mine = (own == k) & (mass > 0.0)
                scalars, group = found.scalars[k * K + j], k * K + j
                if k == j:
                    assert scalars[5] == 0.0
                    continue
                p = mass[mine] * np.exp(-m[mine, j])
                assert scalars[1] * np.exp(scalars[0]) == pytest.approx(p.sum(), rel=1e-12)
                assert scalars[4] == pytest.approx(m[mine, j].min(), rel=1e-12)
                assert scalars[5] == pytest.approx(mass[own == k].sum())
                np.testing.assert_allclose(
                    found.vector[group] * np.exp(scalars[2]), p @ X[mine], rtol=1e-10, atol=1e-9
                )
        return
    soft = -np.log(np.exp(-m).sum(axis=1))
    value, slope = np.exp(loss.log_value(soft)), np.exp(loss.log_slope(soft))
    p = (mass * slope)[:, None] * np.exp(soft[:, None] - m)
    factors = -p
    factors[np.arange(len(X)), own] = p.sum(axis=1)
    scalars = found.scalars[0]
    assert scalars[1] * np.exp(scalars[0]) == pytest.approx((mass * value).sum(), rel=1e-12)
    assert scalars[4] == pytest.approx(m[mass > 0.0].min(), rel=1e-12)
    assert found.count == pytest.approx(mass.sum())
    np.testing.assert_allclose(
        found.vector[0].reshape(K, D) * np.exp(scalars[2]), factors.T @ X, rtol=1e-10, atol=1e-9
    )


@pytest.mark.parametrize("engine", grid.engines())
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_runs_of_joint_problems_agree_and_resume_bit_by_bit(engine, fit_intercept, tmp_path):
    X, codes, weight, _ = rows_of_four_classes()
    reference = prgd.Problem(X, codes, sample_weight=weight, fit_intercept=fit_intercept)
    rows = grid.ENGINES[engine](X, codes, weight, tmp_path)
    problem = prgd.Problem(rows, fit_intercept=fit_intercept)
    expected = prgd.run(reference, prgd.NGD(), stop=12)
    found = prgd.run(problem, prgd.NGD(), stop=12)
    np.testing.assert_allclose(found.w, expected.w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.history["margin"][1:], expected.history["margin"][1:], rtol=1e-9)
    assert found.passes == 13 + 5  # and one for the margin of u at each of the steps 0, 1, 2, 4 and 8
    assert problem.fingerprint == reference.fingerprint
    half = prgd.run(problem, prgd.NGD(), stop=4)
    half.save(tmp_path / "half.npz")
    resumed = prgd.run(problem, prgd.NGD(), stop=12, resume=prgd.Result.load(tmp_path / "half.npz"))
    assert resumed.passes == found.passes
    assert np.array_equal(resumed.w, found.w)
    assert resumed.certificate.lower == found.certificate.lower
    assert resumed.certificate.upper == found.certificate.upper
