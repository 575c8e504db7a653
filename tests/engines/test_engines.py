"""The same assertions over every engine and every algorithm."""

from fractions import Fraction

import grid
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import prgd
from prgd.core.arithmetic import UNIT_ROUNDOFF, rounding_factor
from prgd.losses import EXPONENTIAL, LOSSES
from prgd.rows import AccurateAt, Combine, CurvatureAt, Labels, MarginsAt, Query, SmallestAt, TallyAt


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
        at, expected = problem.at(w), oracle(X, y, s, w, loss)
        assert at.log_loss == pytest.approx(expected["log_loss"], rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(at.normalized_gradient, expected["gradient"], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(at.dual_vector, expected["dual"], rtol=1e-11, atol=1e-13)
        assert at.smallest_margin == pytest.approx(expected["margin"], rel=1e-13)
        p = problem.dual_weights(w)
        assert p.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(rows.ask(Combine.of(p)), expected["dual"], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(rows.ask(MarginsAt(w)), y * (X @ w), rtol=1e-12, atol=1e-12)
        some = np.flatnonzero(p)[::2]
        vector, total = rows.ask(CurvatureAt(w, some, p[some]))
        products = p[some] * (X[some] @ w)
        np.testing.assert_allclose(vector, products @ X[some], rtol=1e-11, atol=1e-13)
        assert total == pytest.approx(products.sum(), rel=1e-11, abs=1e-13)
    some = np.array([0, 3, 50, 51, 156])
    np.testing.assert_array_equal(rows.labels.at(some), y[some])
    np.testing.assert_array_equal(sp.csr_array(problem.take(some)).toarray(), (X * y[:, None])[some])
    assert problem.max_norm == pytest.approx(np.linalg.norm(X, axis=1).max(), rel=1e-14)


@pytest.mark.kernels
@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_second_direction_changes_no_bit_of_the_first(engine, loss, weighted, data, tmp_path):
    X, y = data
    rng = np.random.default_rng(7)
    w, v = rng.standard_normal((2, X.shape[1]))
    margins, s = y * (X @ v), np.ones(y.size)
    s[np.argsort(margins)[:9]] = 0.0 if weighted else 1.0
    rows = grid.ENGINES[engine](X, y, s if weighted else None, tmp_path)
    for by_class in (False, True) if loss == "exponential" else (False,):
        plain = rows.ask(TallyAt(w, LOSSES[loss], by_class))
        found = rows.ask(TallyAt(w, LOSSES[loss], by_class, v))
        assert found.scalars[:, :6].tobytes() == plain.scalars.tobytes()
        assert found.vector.tobytes() == plain.vector.tobytes()
        groups = [y > 0, y < 0] if by_class else [y != 0]
        expected = [margins[group & (s > 0.0)].min() for group in groups]
        np.testing.assert_allclose(found.second_margins, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.kernels
@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("by_class", [False, True])
def test_a_second_margin_that_is_not_finite_proves_nothing(engine, by_class, tmp_path):
    X, y = np.ones((40, 3)), np.where(np.arange(40) % 2, 1, -1)
    X[17:19] = [1e200, 1e200, 1.0]  # one row of each class, whose products are inf - inf
    rows = grid.ENGINES[engine](X, y, None, tmp_path)
    with np.errstate(over="ignore", invalid="ignore"):
        for v in (np.array([1e200, -1e200, 1.0]), np.array([np.nan, 1.0, 1.0])):
            found = rows.ask(TallyAt(np.zeros(3), EXPONENTIAL, by_class, v)).second_margins
            assert all(np.isnan(margin) or margin == -np.inf for margin in found)


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_wide_rows_in_pairs(dtype):
    """Rows of so many columns that two of them are multiplied by w and a second direction at once."""
    rng = np.random.default_rng(5)
    for d in (1025, 1063, 2048, 3071):
        X, (w, v) = rng.standard_normal((37, d)).astype(dtype), rng.standard_normal((2, d)) / np.sqrt(d)
        rows = prgd.rows.DenseRows(X, np.where(np.arange(37) % 2, 1, -1))
        plain, found = (rows.ask(TallyAt(w, EXPONENTIAL, second=second)) for second in (None, v))
        assert found.scalars[:, :6].tobytes() == plain.scalars.tobytes()
        assert found.vector.tobytes() == plain.vector.tobytes()
        for direction, smallest in ((w, found.margins), (v, found.second_margins)):
            expected = (rows.labels.signs * (X.astype(float) @ direction)).min()
            assert smallest == [pytest.approx(expected, rel=1e-12)]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", [np.ascontiguousarray, np.asfortranarray, sp.csr_array])
def test_a_second_direction_in_slices_and_threads(kind):
    """Slices of many rows, and rows of one class in the first of them, give one answer on 1 and 3 threads."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((70_003, 9)), np.where(np.arange(70_003) < 50_000, 1, -1)
    w, v = rng.standard_normal((2, 9))
    query, other = TallyAt(w, EXPONENTIAL, True, v), TallyAt(w, EXPONENTIAL, True)
    one, three = (prgd.rows.as_rows(kind(X), y, None, threads).ask(query) for threads in (1, 3))
    plain = prgd.rows.as_rows(kind(X), y, None, 3).ask(other)
    assert one.scalars.tobytes() == three.scalars.tobytes()
    assert one.vector.tobytes() == three.vector.tobytes() == plain.vector.tobytes()
    assert one.scalars[:, :6].tobytes() == plain.scalars.tobytes()
    margins = y * (X @ v)
    np.testing.assert_allclose(one.second_margins, [margins[y > 0].min(), margins[y < 0].min()], rtol=1e-12)


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
    b = np.linspace(-5, 5, 4001)[:, None]
    at, loss = problem.at(w), np.log((s * np.exp(-y * (X @ w + b))).sum(axis=1) / s.sum())
    assert at.log_loss == pytest.approx(loss.min(), abs=1e-6)
    assert at.log_loss <= loss.min() + 1e-12
    p = problem.dual_weights(w)
    assert p[y > 0].sum() == pytest.approx(0.5)
    np.testing.assert_allclose(at.dual_vector, rows.ask(Combine.of(p)), rtol=1e-11, atol=1e-13)
    # the midpoint intercept gives the largest smallest margin over all b
    kept = s > 0
    best = (y * (X @ w + b))[:, kept].min(axis=1).max()
    assert at.smallest_margin >= best - 1e-12
    assert problem.margins(w)[kept].min() == pytest.approx(at.smallest_margin, abs=1e-12)


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("zeros", [0, 9])
def test_rows_of_smallest_margin(engine, by_class, zeros, data, tmp_path):
    X, y = data
    w = np.random.default_rng(7).standard_normal(X.shape[1])
    margins, s = y * (X @ w), np.ones(y.size)
    order = np.argsort(margins)
    s[order[:zeros]] = 0.0  # rows of weight zero are never the smallest
    rows = grid.ENGINES[engine](X, y, s if zeros else None, tmp_path)
    # The very smallest of those that count is left out, and counts in `smallest` only.
    without = np.sort(order[zeros + np.array([0, 1, 4, 60])])
    for max_rows in (5, 1000):
        found = rows.ask(SmallestAt(w, max_rows, by_class, without))
        groups = [y > 0, y < 0] if by_class else [y != 0]
        for (smallest, values, indices), group in zip(found, groups, strict=True):
            counted = np.flatnonzero(group & (s > 0.0))
            allowed = np.setdiff1d(counted, without)
            np.testing.assert_array_equal(indices, allowed[np.argsort(margins[allowed])[:max_rows]])
            np.testing.assert_allclose(values, margins[indices], rtol=1e-12, atol=1e-12)
            assert smallest == pytest.approx(margins[counted].min(), rel=1e-12)


def offset_data(kind, rng):
    """Rows whose products with w are far larger than their sums, and w."""
    n, d = 40, 9
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    if kind == "offset":
        X += 10.0 ** rng.integers(0, 13, d)
        w[-1] = -(X[0, :-1] @ w[:-1]) / X[0, -1]
    elif kind == "units":
        X *= 10.0 ** rng.integers(-8, 9, d)
        w *= 10.0 ** rng.integers(-8, 9, d)
    elif kind == "float32":
        X = (X + 1e6).astype(np.float32)
    elif kind == "zeros":
        X *= (rng.random((n, d)) < 0.3) * 1e9
        X[7] = 0.0
    elif kind == "underflow":
        X *= 1e-200
        w *= 10.0 ** rng.integers(-130, -90, d)
    return X, np.where(np.arange(n) % 3 == 0, 1, -1), w


@pytest.mark.kernels
@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("kind", ["offset", "units", "float32", "zeros", "underflow"])
def test_accurate_margins_lie_within_their_bounds(engine, kind, tmp_path):
    X, y, w = offset_data(kind, np.random.default_rng(11))
    rows = grid.ENGINES[engine](X, y, None, tmp_path)
    b = -float(np.median(X.astype(float) @ w))
    margins, errors = rows.ask(AccurateAt(w, b))
    fractions = [Fraction(v) for v in w.tolist()]
    for row, sign, margin, error in zip(X.tolist(), y.tolist(), margins, errors, strict=True):
        terms = [Fraction(x) * v for x, v in zip(row, fractions, strict=True)]
        exact = sign * (sum(terms) + Fraction(b))
        assert abs(Fraction(float(margin)) - exact) <= Fraction(float(error))
        size = float(sum(map(abs, terms)) + abs(Fraction(b)))
        allowed = 4.0 * UNIT_ROUNDOFF * abs(margin) + 1e-28 * len(row) ** 2 * size + len(row) * 1e-322
        assert error <= allowed
    # Every engine adds the same products in the same order, so all agree bit by bit.
    expected = AccurateAt(w, b).answer(prgd.rows.DenseRows(X, y), Labels.read(y, None, len(y)))
    assert margins.tobytes() == expected.margins.tobytes()
    assert errors.tobytes() == expected.errors.tobytes()


@pytest.mark.parametrize("engine", ["dense", "sparse", "tensor"])
def test_accurate_margins_beyond_the_floating_range_have_infinite_errors(engine, tmp_path):
    X = np.array([[1e300, 1e300, 0.0], [1e308, 1.0, 1.0], [1.0, 2.0, 3.0], [1e160, 1.0, -1e160]])
    margins, errors = grid.ENGINES[engine](X, np.array([1, -1, -1, 1]), None, tmp_path).ask(
        AccurateAt(np.array([1e150, -1e150, 1e150]), 1.0)
    )
    np.testing.assert_array_equal(margins[[0, 1, 3]], 0.0)
    np.testing.assert_array_equal(errors[[0, 1, 3]], np.inf)
    assert errors[2] < 1e136


@pytest.mark.parametrize("engine", grid.ENGINES)
def test_sums_of_every_engine_on_the_host_are_in_double(engine, data, tmp_path):
    X, y = data
    X = X + 1e9
    rows = grid.ENGINES[engine](X, y, None, tmp_path)
    assert rows.unit_roundoff == UNIT_ROUNDOFF
    w = np.random.default_rng(7).standard_normal(X.shape[1])
    Z = [[Fraction(x) * sign for x in row] for row, sign in zip(X.tolist(), y.tolist(), strict=True)]
    margin = min(sum(a * Fraction(b) for a, b in zip(row, w.tolist(), strict=True)) for row in Z)
    allowed = rounding_factor(rows.d + 1) * float((np.abs(X) @ np.abs(w)).max())
    for found in (rows.ask(TallyAt(w, EXPONENTIAL)).margins[0], rows.ask(MarginsAt(w)).min()):
        assert abs(Fraction(float(found)) - margin) <= allowed
    tally = rows.ask(TallyAt(np.zeros(rows.d), EXPONENTIAL))  # all weights are 1
    for j, total in enumerate(tally.vector[0].tolist()):
        exact, size = sum(row[j] for row in Z), float(np.abs(X[:, j]).sum())
        assert abs(Fraction(total) - exact) <= rounding_factor(rows.sum_roundings) * size


@pytest.mark.parametrize("engine", grid.ENGINES)
def test_the_same_numbers_have_the_same_fingerprint(engine, data, tmp_path):
    X, y = data
    s = np.random.default_rng(7).integers(0, 4, y.size).astype(float)
    found = prgd.Problem(grid.ENGINES[engine](X, y, s, tmp_path), fit_intercept=True).fingerprint
    assert found == prgd.Problem(X, y, sample_weight=s, fit_intercept=True).fingerprint


@pytest.mark.no_cover  # test_a_run_makes_one_pass_for_each_step_and_one_at_the_start runs the same lines.
@pytest.mark.parametrize(("engine", "name", "fit_intercept", "set_name"), grid.trajectories())
def test_same_trajectory_on_every_engine(engine, name, fit_intercept, set_name, tmp_path):
    data, entry = grid.PROBLEMS[set_name](), grid.ALGORITHMS[name]
    reference = entry.problem(data.X, data.y, fit_intercept=fit_intercept)
    problem = entry.problem(grid.ENGINES[engine](data.X, data.y, None, tmp_path), fit_intercept=fit_intercept)
    w0 = grid.start(reference, entry)
    a = prgd.run(reference, entry.algorithm, w0, stop=grid.trace(engine, entry))
    b = prgd.run(problem, entry.algorithm, w0, stop=grid.trace(engine, entry))
    assert np.linalg.norm(a.w - b.w) <= 1e-12 * np.linalg.norm(a.w)
    margins, tol = (result.history["margin"] for result in (a, b)), entry.history_tol
    np.testing.assert_allclose(*margins, rtol=tol, atol=1e-2 * tol)
    assert b.certificate.upper == pytest.approx(a.certificate.upper, rel=1e-10)


@pytest.mark.no_cover  # test_a_run_makes_one_pass_for_each_step_and_one_at_the_start runs the same lines.
@pytest.mark.parametrize(("engine", "name"), grid.runs_without_intercept())
def test_weight_three_is_three_copies(engine, name, tmp_path):
    data, entry = grid.PROBLEMS["synthetic-two"](), grid.ALGORITHMS[name]
    s = np.ones(len(data.y))
    s[4] = 3.0
    (tmp_path / "copies").mkdir()
    weighted = entry.problem(grid.ENGINES[engine](data.X, data.y, s, tmp_path))
    copies = np.r_[np.arange(len(data.y)), 4, 4]
    repeated = entry.problem(grid.ENGINES[engine](data.X[copies], data.y[copies], None, tmp_path / "copies"))
    w0 = grid.start(repeated, entry)
    a = prgd.run(weighted, entry.algorithm, w0, stop=grid.trace(engine, entry))
    b = prgd.run(repeated, entry.algorithm, w0, stop=grid.trace(engine, entry))
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


@pytest.mark.parametrize("engine", ["dense", "fortran", "sparse"])
def test_an_entry_that_is_not_finite_is_named_by_its_row_in_all_slices(engine, tmp_path):
    X = np.ones((5000, 80))
    X[4993, 2] = X[4993, 3] = X[4995, 0] = np.nan
    with pytest.raises(ValueError, match="row 4993, column 2 "):
        prgd.Problem(grid.ENGINES[engine](X, None, None, tmp_path))


@pytest.mark.parametrize("name", grid.ALGORITHMS)
def test_many_runs_and_many_steps_at_once_are_those_of_one_run_step_by_step(name, monkeypatch):
    data, entry = grid.PROBLEMS["synthetic-one"](), grid.ALGORITHMS[name]
    problem = entry.problem(prgd.rows.DenseRows(data.X, data.y))
    w0 = grid.start(problem, entry)
    found = prgd.run([problem, problem], entry.algorithm, w0, stop=150, record=7)
    found.append(prgd.run(problem, entry.algorithm, w0, stop=150, record=7))
    monkeypatch.setattr("prgd.running.loop.can_walk", lambda problem, algorithm: False)
    steps = prgd.run(problem, entry.algorithm, w0, stop=150, record=7)
    for result in found:
        assert result.w.tobytes() == steps.w.tobytes()
        for name in ("margin", "upper_bound", "passes"):
            assert getattr(result, name) == getattr(steps, name)
        np.testing.assert_array_equal(result.history.rows, steps.history.rows)


@pytest.mark.no_cover  # test_a_run_makes_one_pass_for_each_step_and_one_at_the_start runs the same lines.
@pytest.mark.parametrize(("engine", "name"), grid.runs_without_intercept())
def test_resume_is_bit_identical(engine, name, tmp_path):
    data, entry = grid.PROBLEMS["synthetic-one"](), grid.ALGORITHMS[name]
    problem = entry.problem(grid.ENGINES[engine](data.X, data.y, None, tmp_path))
    w0 = grid.start(problem, entry)
    whole = prgd.run(problem, entry.algorithm, w0, stop=20, record=3)
    part = prgd.run(problem, entry.algorithm, w0, stop=11, record=3)
    part.save(tmp_path / "part.npz")
    part = prgd.Result.load(tmp_path / "part.npz")
    rest = prgd.run(problem, entry.algorithm, resume=part, stop=20, record=3)
    assert rest.w.tobytes() == whole.w.tobytes()
    np.testing.assert_array_equal(rest.history.rows, whole.history.rows)
    assert (rest.margin, rest.upper_bound) == (whole.margin, whole.upper_bound)
    assert all(np.array_equal(rest.state[k], whole.state[k], equal_nan=True) for k in whole.state)


@pytest.mark.no_cover  # test_a_run_makes_one_pass_for_each_step_and_one_at_the_start runs the same lines.
@pytest.mark.parametrize("name", grid.ALGORITHMS)
@pytest.mark.parametrize("set_name", ["synthetic-one", "synthetic-two"])
def test_every_algorithm_certifies_the_known_margin(name, set_name):
    data, entry = grid.PROBLEMS[set_name](), grid.ALGORITHMS[name]
    problem, gamma_star = entry.problem(data.X, data.y), grid.gamma_star(data, entry)
    warm = prgd.run(problem, prgd.GD(), stop=1000).w if entry.warm else None
    result = prgd.run(problem, entry.algorithm, warm, stop=entry.steps)
    c = result.certificate
    assert c.lower <= gamma_star * (1 + 1e-12)
    assert c.upper >= gamma_star * (1 - 1e-12)
    assert c.gap <= entry.gap
    assert problem.at(c.w).gamma == pytest.approx(c.lower, rel=1e-14)


@pytest.mark.parametrize(("engine", "name", "fit_intercept"), grid.runs())
def test_a_run_makes_one_pass_for_each_step_and_one_at_the_start(engine, name, fit_intercept, tmp_path):
    data, entry = grid.PROBLEMS["gaussian"](), grid.ALGORITHMS[name]
    rows = grid.ENGINES[engine](data.X, data.y, None, tmp_path)
    problem = entry.problem(rows, fit_intercept=fit_intercept)
    w0 = np.full(problem.shape, np.sqrt(problem.unit / problem.d))  # short: no algorithm begins elsewhere
    result = prgd.run(problem, entry.algorithm, w0, stop=12, record=None)
    extra = 12 * (entry.passes - 1)
    if name == "progressive-newton":  # passes find the active rows, others try steps that fail
        extra = problem.passes - 13
        assert 1 <= extra <= result.history["phase"][-1] + 6
    if problem.is_joint:  # the margin of the dual vector takes a pass at steps 0, 1, 2, 4 and 8
        extra += 5
    assert problem.passes == 13 + extra
    assert result.passes == problem.passes


@pytest.mark.parametrize("engine", grid.ENGINES)
def test_other_labels_over_the_same_rows(engine, data, tmp_path):
    X, y = data
    rows = grid.ENGINES[engine](X, y, None, tmp_path)
    rng = np.random.default_rng(3)
    other, s = np.where(rng.random(len(y)) < 0.3, 1, -1), rng.random(len(y))
    w = rng.standard_normal(X.shape[1])
    labels = Labels.read(other, s, len(y))
    np.testing.assert_allclose(rows.ask(MarginsAt(w), labels), other * (X @ w), rtol=1e-12, atol=1e-12)
    found = rows.ask(TallyAt(w, EXPONENTIAL, True), labels)
    expected = prgd.rows.DenseRows(X, other, s).ask(TallyAt(w, EXPONENTIAL, True))
    np.testing.assert_allclose(found.scalars, expected.scalars, rtol=1e-11)
    np.testing.assert_allclose(found.vector, expected.vector, rtol=1e-10, atol=1e-12)
    p = rng.random(len(y)) * (rng.random(len(y)) < 0.2)
    np.testing.assert_allclose(rows.ask(Combine.of(p), labels), (other * p) @ X, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(rows.ask(Combine.of(0.0 * p), labels), np.zeros(X.shape[1]))


def test_a_new_kind_of_pass_is_one_class(data, tmp_path):
    """A query that no engine knows is answered by all of them, from their products."""

    class SumOfSquares(Query):
        def __init__(self, w):
            self.w = w

        def answer(self, rows, labels):
            return float(np.sum((rows.times(self.w) * labels.signs) ** 2))

        def merge(self, parts):
            return sum(parts)

    X, y = data
    w = np.arange(1.0, 1.0 + X.shape[1])
    for name, engine in grid.ENGINES.items():
        if name == "cluster":  # a local class does not travel to workers
            continue
        found = engine(X, y, None, tmp_path).ask(SumOfSquares(w))
        assert found == pytest.approx(np.sum((X @ w) ** 2), rel=1e-12)
