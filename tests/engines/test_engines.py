"""The same assertions over every engine and every algorithm."""

from __future__ import annotations

import grid
import numpy as np
import pytest
import torch

import prgd

LOSSES = ("exponential", "logistic")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Let torch not wake threads for a hundred rows: on busy cores it would wait for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def oracle(X, y, s, w, loss):
    """Tally by the textbook, in float64 NumPy without any blocking."""
    Z = X * y[:, None]
    m = Z @ w
    value = np.exp(-m) if loss == "exponential" else np.log1p(np.exp(-m))
    slope = np.exp(-m) if loss == "exponential" else 1.0 / (1.0 + np.exp(m))
    return {
        "log_loss": np.log((s * value).sum() / s.sum()),
        "gradient": -(s * slope) @ Z / (s * value).sum(),
        "dual": (s * slope) @ Z / (s * slope).sum(),
        "margin": m[s > 0].min(),
    }


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((157, 11)) * (rng.random((157, 11)) < 0.6)
    y = np.where(rng.random(157) < 0.4, 1, -1)
    return X, y


@pytest.mark.kernels
@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_matches_the_textbook(engine, loss, weighted, data, tmp_path):
    X, y = data
    rng = np.random.default_rng(7)
    s = rng.integers(0, 4, y.size).astype(float) if weighted else np.ones(y.size)
    rows = grid.ENGINES[engine](X, y, s if weighted else None, tmp_path)
    problem = prgd.Problem(rows, loss=loss)
    for scale in (1e-3, 1.0, 7.0):
        w = scale * rng.standard_normal(X.shape[1])
        expected = oracle(X, y, s, w, loss)
        assert problem.log_loss(w) == pytest.approx(expected["log_loss"], rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(
            problem.normalized_gradient(w), expected["gradient"], rtol=1e-11, atol=1e-13
        )
        np.testing.assert_allclose(problem.dual(w), expected["dual"], rtol=1e-11, atol=1e-13)
        assert problem.smallest_margin(w) == pytest.approx(expected["margin"], rel=1e-13)
        p = problem.weights(w)
        assert p.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(rows.combine(p), expected["dual"], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(rows.margins(w), y * (X @ w), rtol=1e-12, atol=1e-12)
    some = np.array([0, 3, 50, 51, 156])
    np.testing.assert_array_equal(rows.signs(some), y[some])
    taken = rows.take(some)
    np.testing.assert_array_equal(
        taken if isinstance(taken, np.ndarray) else taken.toarray(), (X * y[:, None])[some]
    )
    assert problem.max_norm == pytest.approx(np.linalg.norm(X, axis=1).max(), rel=1e-14)


@pytest.mark.kernels
@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("weighted", [False, True])
def test_intercept_is_the_minimum_over_b(engine, weighted, data, tmp_path):
    X, y = data
    rng = np.random.default_rng(7)
    s = rng.integers(0, 4, y.size).astype(float) if weighted else np.ones(y.size)
    rows = grid.ENGINES[engine](X, y, s if weighted else None, tmp_path)
    problem = prgd.Problem(rows, fit_intercept=True)
    w = rng.standard_normal(X.shape[1])
    b = np.linspace(-5, 5, 20001)[:, None]
    loss = np.log((s * np.exp(-y * (X @ w + b))).sum(axis=1) / s.sum())
    assert problem.log_loss(w) == pytest.approx(loss.min(), abs=1e-6)
    assert problem.log_loss(w) <= loss.min() + 1e-12
    p = problem.weights(w)
    assert p[y > 0].sum() == pytest.approx(0.5)
    np.testing.assert_allclose(problem.dual(w), rows.combine(p), rtol=1e-11, atol=1e-13)
    # the midpoint intercept gives the largest smallest margin over all b
    kept = s > 0
    best = (y * (X @ w + b))[:, kept].min(axis=1).max()
    assert problem.smallest_margin(w) >= best - 1e-12
    assert problem.margins(w)[kept].min() == pytest.approx(problem.smallest_margin(w), abs=1e-12)


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("by_class", [False, True])
def test_worst_rows(engine, by_class, data, tmp_path):
    X, y = data
    rows = grid.ENGINES[engine](X, y, None, tmp_path)
    w = np.random.default_rng(7).standard_normal(X.shape[1])
    margins = y * (X @ w)
    without = np.argsort(margins)[[0, 1, 4, 60]]  # the very smallest counts in `smallest` only
    for most in (5, 1000):
        found = rows.worst(w, most, by_class, without)
        groups = [y > 0, y < 0] if by_class else [y != 0]
        for (smallest, values, indices), group in zip(found, groups, strict=True):
            allowed = np.setdiff1d(np.flatnonzero(group), without)
            np.testing.assert_array_equal(indices, allowed[np.argsort(margins[allowed])[:most]])
            np.testing.assert_allclose(values, margins[indices], rtol=1e-12, atol=1e-12)
            assert smallest == pytest.approx(margins[group].min(), rel=1e-12)


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("name", grid.ALGORITHMS)
@pytest.mark.parametrize("set_name", ["toy", "synthetic-one", "gaussian"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_same_trajectory_on_every_engine(engine, name, set_name, fit_intercept, tmp_path):
    data, entry = grid.PROBLEMS[set_name](), grid.ALGORITHMS[name]
    reference = prgd.Problem(data.X, data.y, fit_intercept=fit_intercept)
    problem = prgd.Problem(grid.ENGINES[engine](data.X, data.y, None, tmp_path), fit_intercept=fit_intercept)
    w0 = grid.start(reference, entry)
    stop = 60
    a = prgd.run(reference, entry.algorithm, w0, stop=stop)
    b = prgd.run(problem, entry.algorithm, w0, stop=stop)
    assert np.linalg.norm(a.w - b.w) <= 1e-12 * np.linalg.norm(a.w)
    np.testing.assert_allclose(
        a.history["margin"], b.history["margin"], rtol=entry.history_tol, atol=1e-2 * entry.history_tol
    )
    assert b.certificate.upper == pytest.approx(a.certificate.upper, rel=1e-10)


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("name", grid.ALGORITHMS)
def test_weight_three_is_three_copies(engine, name, tmp_path):
    data, entry = grid.PROBLEMS["synthetic-two"](), grid.ALGORITHMS[name]
    s = np.ones(len(data.y))
    s[4] = 3.0
    (tmp_path / "copies").mkdir()
    weighted = prgd.Problem(grid.ENGINES[engine](data.X, data.y, s, tmp_path))
    copies = np.r_[np.arange(len(data.y)), 4, 4]
    repeated = prgd.Problem(grid.ENGINES[engine](data.X[copies], data.y[copies], None, tmp_path / "copies"))
    w0 = grid.start(repeated, entry)
    a = prgd.run(weighted, entry.algorithm, w0, stop=60)
    b = prgd.run(repeated, entry.algorithm, w0, stop=60)
    assert np.linalg.norm(a.w - b.w) <= 1e-12 * np.linalg.norm(a.w)
    np.testing.assert_allclose(a.history["log_loss"], b.history["log_loss"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("engine", grid.ENGINES)
def test_single_precision_is_summed_in_double(engine, tmp_path):
    data = grid.PROBLEMS["gaussian"]()
    X = data.X.astype(np.float32)
    # text and Parquet keep the values; so the float64 run on the same rounded rows is the reference
    reference = prgd.run(prgd.Problem(X.astype(np.float64), data.y), prgd.NGD(), stop=50)
    result = prgd.run(prgd.Problem(grid.ENGINES[engine](X, data.y, None, tmp_path)), prgd.NGD(), stop=50)
    assert np.linalg.norm(result.w - reference.w) <= 1e-12 * np.linalg.norm(reference.w)


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_names_the_entry_that_is_not_finite(engine, value, data, tmp_path):
    X, y = data
    X = X.copy()
    X[97, 6] = value
    with pytest.raises(ValueError, match=r"97|98"):  # LIBSVM counts lines from 1
        prgd.Problem(grid.ENGINES[engine](X, y, None, tmp_path))


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("name", grid.ALGORITHMS)
def test_resume_is_bit_identical(engine, name, tmp_path):
    data, entry = grid.PROBLEMS["synthetic-one"](), grid.ALGORITHMS[name]
    problem = prgd.Problem(grid.ENGINES[engine](data.X, data.y, None, tmp_path))
    w0 = grid.start(problem, entry)
    whole = prgd.run(problem, entry.algorithm, w0, stop=40, record=3)
    part = prgd.run(problem, entry.algorithm, w0, stop=23, record=3)
    part.save(tmp_path / "part.npz")
    rest = prgd.run(
        problem, entry.algorithm, resume=prgd.Result.load(tmp_path / "part.npz"), stop=40, record=3
    )
    assert rest.w.tobytes() == whole.w.tobytes()
    np.testing.assert_array_equal(rest.history.rows, whole.history.rows)
    assert (rest.certificate.lower, rest.certificate.upper) == (
        whole.certificate.lower,
        whole.certificate.upper,
    )
    assert all(np.array_equal(rest.state[k], whole.state[k]) for k in whole.state)


@pytest.mark.parametrize("name", grid.ALGORITHMS)
@pytest.mark.parametrize("set_name", ["synthetic-one", "synthetic-two"])
def test_every_algorithm_certifies_the_known_margin(name, set_name):
    data, entry = grid.PROBLEMS[set_name](), grid.ALGORITHMS[name]
    problem = prgd.Problem(data.X, data.y)
    warm = prgd.run(problem, prgd.GD(), stop=1000).w if entry.warm else None
    result = prgd.run(problem, entry.algorithm, warm, stop=entry.steps)
    c = result.certificate
    assert c.lower <= data.gamma_star * (1 + 1e-12)
    assert c.upper >= data.gamma_star * (1 - 1e-12)
    assert c.gap <= entry.gap
    assert problem.gamma(c.w_lower) == pytest.approx(c.lower, rel=1e-14)
