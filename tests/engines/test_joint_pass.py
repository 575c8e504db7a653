"""Joint problems on every engine, against pairs that are formed one by one: sums, margins, trajectories."""

import grid
import numpy as np
import pytest
import scipy.sparse as sp

import prgd
from prgd.losses import EXPONENTIAL, LOGISTIC
from prgd.rows import DenseRows, Labels, LargestRow, SparseRows, arrays, as_rows
from prgd.rows.joint_queries import JointAccurateAt, JointMarginsAt, JointSmallestAt, JointTallyAt
from prgd.rows.tally import COUNT, MARGIN

KINDS = [(EXPONENTIAL, False), (LOGISTIC, False), (EXPONENTIAL, True)]


LAYOUTS = {
    "rows": DenseRows,
    "part": lambda X: DenseRows(np.pad(X, ((0, 0), (1, 2)))[:, 1:-2]),  # its rows lie apart
    "backwards": lambda X: DenseRows(np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]),
    "sparse": lambda X: SparseRows(sp.csr_array(X)),
    "float32": lambda X: DenseRows(X.astype(np.float32)),
    "float32 sparse": lambda X: SparseRows(sp.csr_array(X.astype(np.float32))),
}


def labels_of(codes, K, s=None):
    weight = np.empty(0) if s is None else s
    return Labels(np.ones(len(codes), np.int8), weight, np.arange(K), np.asarray(codes, np.int32))


def data_of(n, d, K, seed=0):
    """Return rows with zeros that have a float32, classes and the vectors of the classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32).astype(np.float64) * (rng.random((n, d)) < 0.7)
    return X, rng.integers(0, K, n), rng.standard_normal((K, d))


def all_margins(X, codes, W, intercept=0.0):
    scores, at = X @ W.T + intercept, np.arange(len(X))
    margins = scores[at, codes][:, None] - scores
    margins[at, codes] = np.inf
    return margins


def expected(X, codes, s, W, loss, by_class):
    """Return log sums, smallest margins, counts and mean vectors of the groups, from all pairs in NumPy."""
    K, d = W.shape
    scores = X @ W.T
    found = []
    for k, j in [(k, j) for k in range(K) for j in range(K)] if by_class else [(None, None)]:
        if by_class:
            mine = (codes == k) & (s > 0.0) & (k != j)
            if not mine.any():
                found.append((-np.inf, np.inf, 0.0 if k == j else s[codes == k].sum(), np.zeros(d)))
                continue
            m = scores[mine, k] - scores[mine, j]
            p = s[mine] * np.exp(m.min() - m)
            found.append((np.log(p.sum()) - m.min(), m.min(), s[mine].sum(), p @ X[mine] / p.sum()))
            continue
        m = all_margins(X, codes, W)
        soft = -np.logaddexp.reduce(-m, axis=1)
        used = s > 0.0
        value, slope = loss.log_value(soft), loss.log_slope(soft)
        top, steep = value[used].max(), slope[used].max()
        rows = np.where(used, s * np.exp(np.minimum(slope - steep, 0.0)), 0.0)
        pairs = rows[:, None] * np.exp(soft[:, None] - m)
        signed = -pairs
        signed[np.arange(len(X)), codes] = pairs.sum(axis=1)
        log_sum = top + np.log((s[used] * np.exp(value[used] - top)).sum())
        found.append((log_sum, m[used].min(), s.sum(), (signed.T @ X).ravel() / rows.sum()))
    return found


def check(tally, groups, tol=1e-11):
    assert len(tally.scalars) == len(groups)
    every = zip(tally.log_sums, tally.scalars, tally.vector, groups, strict=True)
    for log_sum, scalars, vector, group in every:
        assert log_sum == pytest.approx(group[0], rel=tol, abs=tol)
        assert scalars[MARGIN] == pytest.approx(group[1], rel=tol, abs=tol)
        assert scalars[COUNT] == pytest.approx(group[2], rel=1e-13)
        mass = scalars[3] if scalars[3] > 0.0 else 1.0
        np.testing.assert_allclose(vector / mass, group[3], rtol=tol, atol=tol * np.abs(group[3]).max())


QUICK = ("rows", "sparse")  # a kernel is compiled for every further kind of array


@pytest.mark.kernels
@pytest.mark.parametrize(
    "layout", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in LAYOUTS]
)
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
def test_matches_all_pairs(layout, loss, by_class):
    sizes = [(701, 2, 1, 1.0), (701, 3, 7, 0.0), (67, 4, 8, 0.1), (701, 5, 50, 2.0), (701, 7, 3, 40.0)]
    for n, K, d, scale in [*sizes, (67, 8, 9, 60.0), (701, 10, 17, 5.0)]:
        X, codes, W = data_of(n, d, K, seed=K)
        rows = LAYOUTS[layout](X)
        for s in (None, np.random.default_rng(1).integers(0, 3, len(X)).astype(float)):
            found = rows.ask(JointTallyAt(scale * W, loss, by_class), labels_of(codes, K, s))
            check(found, expected(X, codes, np.ones(len(X)) if s is None else s, scale * W, loss, by_class))


@pytest.mark.parametrize("layout", ["rows", "sparse"])
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
def test_classes_that_some_slices_or_all_rows_lack(layout, loss, by_class, monkeypatch):
    monkeypatch.setattr(arrays, "SLICE_BYTES", 2**12)
    X, _, W = data_of(3000, 6, 5)
    codes = np.minimum(np.arange(3000) // 700, 3)  # sorted, and no row is of the last class
    s = np.ones(3000)
    s[codes == 2] = 0.0
    rows = LAYOUTS[layout](X)
    found = rows.ask(JointTallyAt(W, loss, by_class), labels_of(codes, 5, s))
    check(found, expected(X, codes, s, W, loss, by_class))


@pytest.mark.parametrize("layout", QUICK)
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
@pytest.mark.parametrize("scale", [1e3, 1e200, -1e200])
def test_margins_of_any_size(layout, loss, by_class, scale):
    X, codes, W = data_of(900, 11, 6)
    query, labels = JointTallyAt(scale * W, loss, by_class), labels_of(codes, 6)
    found = LAYOUTS[layout](X).ask(query, labels)
    assert not np.isnan(found.scalars).any()
    assert np.isfinite(found.vector).all()
    check(found, expected(X, codes, np.ones(len(X)), scale * W, loss, by_class))


@pytest.mark.parametrize("by_class", [False, True])
def test_few_rows_carry_weight(by_class):
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((4, 20))
    codes = rng.integers(0, 4, 5000)
    X = centres[codes] + 0.3 * rng.standard_normal((5000, 20))
    for scale in (3.0, 20.0, 100.0, 1000.0):  # most rows, some, few or one of each block
        query, labels = JointTallyAt(scale * centres, EXPONENTIAL, by_class), labels_of(codes, 4)
        groups = expected(X, codes, np.ones(len(X)), query.w, EXPONENTIAL, by_class)
        for layout in QUICK:
            check(LAYOUTS[layout](X).ask(query, labels), groups)


@pytest.mark.parametrize("layout", QUICK)
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
def test_results_do_not_depend_on_the_number_of_threads(layout, loss, by_class, monkeypatch):
    monkeypatch.setattr(arrays, "SLICE_BYTES", 2**14)
    X, codes, W = data_of(4000, 13, 5)
    made = {"rows": X, "sparse": sp.csr_array(X)}[layout]
    query, labels = JointTallyAt(W, loss, by_class), labels_of(codes, 5)
    found = [as_rows(made, n_jobs=threads).ask(query, labels) for threads in (1, 2, 3, 7)]
    assert len({tally.vector.tobytes() + tally.scalars.tobytes() for tally in found}) == 1


@pytest.mark.parametrize("by_class", [False, True])
def test_vectors_of_all_slices_take_bounded_memory(by_class, monkeypatch):
    monkeypatch.setattr(arrays, "SLICE_BYTES", 2**12)
    X, codes, W = data_of(4000, 13, 5)
    rows, query = DenseRows(X), JointTallyAt(W, EXPONENTIAL, by_class)
    many, before = rows.ask(query, labels_of(codes, 5)), rows.with_labels(labels_of(codes, 5)).sum_roundings
    monkeypatch.setattr(arrays, "JOINT_BYTES", 3 * 8 * W.size * (5 if by_class else 1))
    few = rows.ask(query, labels_of(codes, 5))
    np.testing.assert_allclose(few.vector, many.vector, rtol=1e-12, atol=1e-12)
    assert rows.with_labels(labels_of(codes, 5)).sum_roundings > before


@pytest.mark.parametrize("layout", QUICK)
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
def test_products_beyond_the_floating_range_are_seen(layout, loss, by_class):
    X, codes, W = data_of(300, 5, 3)
    X[100] = 1.0
    W[0], W[1] = 1e308, -1e308
    with np.errstate(over="ignore", invalid="ignore"):
        found = LAYOUTS[layout](X).ask(JointTallyAt(W, loss, by_class), labels_of(codes, 3))
    scalars = found.scalars[[0, 1] if by_class else 0]
    assert not (np.isfinite(scalars).all() and np.isfinite(found.vector).all())


@pytest.mark.kernels
@pytest.mark.parametrize("layout", QUICK)
def test_margins_of_all_pairs(layout, monkeypatch):
    monkeypatch.setattr(arrays, "SMALL_ENTRIES", 0)  # else NumPy would answer
    X, codes, W = data_of(701, 9, 6)
    rows, labels = LAYOUTS[layout](X), labels_of(codes, 6)
    b = np.random.default_rng(4).standard_normal(6)
    for intercept in (np.zeros(6), b):
        margins = all_margins(X, codes, W, intercept)
        if not intercept.any():
            np.testing.assert_allclose(rows.ask(JointMarginsAt(W), labels), margins, rtol=1e-12, atol=1e-12)
        (found,) = rows.ask(JointSmallestAt(W, 20, False, np.array([3]), intercept), labels)
        order = np.argsort(margins, axis=None)
        order = order[order != 3][:20]
        np.testing.assert_array_equal(found.indices, order)
        np.testing.assert_allclose(found.margins, margins.ravel()[order], rtol=1e-12)
        assert found.smallest == pytest.approx(margins.min(), rel=1e-12)


# Every engine

K, D = 4, 5


def rows_of_four_classes():
    rng = np.random.default_rng(11)
    codes = np.repeat(np.arange(K), [40, 3, 25, 33])[rng.permutation(101)]
    X = rng.standard_normal((K, D))[codes] * 2.0 + 0.5 * rng.standard_normal((101, D))
    weight = rng.random(101)
    weight[rng.permutation(101)[:10]] = 0.0
    return X, codes, weight, rng.standard_normal((K, D))


@pytest.mark.parametrize("engine", grid.ENGINES)
@pytest.mark.parametrize("has_weights", [False, True])
def test_every_engine_answers_the_joint_queries(engine, has_weights, tmp_path):
    X, codes, weight, W = rows_of_four_classes()
    s = weight if has_weights else None
    rows = grid.ENGINES[engine](X, codes.astype(float), s, tmp_path)
    mass = weight if has_weights else np.ones(len(X))
    assert rows.labels.classes.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert np.array_equal(rows.labels.codes, codes)
    assert rows.labels.class_weights == pytest.approx([mass[codes == k].sum() for k in range(K)])
    m = all_margins(X, codes, W)
    np.testing.assert_allclose(rows.ask(JointMarginsAt(W)), m, rtol=1e-12, atol=1e-12)
    counted = np.where(mass[:, None] > 0.0, m, np.inf)
    b = np.array([0.5, -1.0, 0.25, 0.25])
    found = rows.ask(JointAccurateAt(W, b))
    shifted, finite = all_margins(X, codes, W, b), np.isfinite(m)
    assert (np.abs(found.margins[finite] - shifted[finite]) <= found.errors[finite] + 1e-12).all()
    for by_class in (False, True):
        groups = rows.ask(JointSmallestAt(W, 3, by_class, np.array([], dtype=np.int64), np.zeros(K)))
        flat = counted.ravel()
        if by_class:
            lows = [counted[codes == k, j].min() if j != k else np.inf for k in range(K) for j in range(K)]
            assert [group.smallest for group in groups] == pytest.approx(lows, rel=1e-12)
        else:
            assert groups[0].indices.tolist() == np.argsort(flat, kind="stable")[:3].tolist()
            np.testing.assert_allclose(groups[0].margins, np.sort(flat)[:3], rtol=1e-12)
    assert rows.ask(LargestRow(1.0)) == pytest.approx(np.abs(X).sum(axis=1).max())
    for loss, by_class in KINDS:
        check(rows.ask(JointTallyAt(W, loss, by_class)), expected(X, codes, mass, W, loss, by_class), 1e-10)


@pytest.mark.parametrize("engine", grid.engines())
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_runs_of_joint_problems_agree_and_resume_bit_by_bit(engine, fit_intercept, tmp_path):
    X, codes, weight, _ = rows_of_four_classes()
    codes = codes.astype(float)
    reference = prgd.Problem(X, codes, sample_weight=weight, fit_intercept=fit_intercept)
    rows = grid.ENGINES[engine](X, codes, weight, tmp_path)
    problem = prgd.Problem(rows, fit_intercept=fit_intercept)
    best = prgd.run(reference, prgd.NGD(), stop=12)
    found = prgd.run(problem, prgd.NGD(), stop=12)
    np.testing.assert_allclose(found.w, best.w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.history["margin"][1:], best.history["margin"][1:], rtol=1e-9)
    assert found.passes == 13 + 5  # and one for the margin of u at each of the steps 0, 1, 2, 4 and 8
    assert problem.fingerprint == reference.fingerprint
    half = prgd.run(problem, prgd.NGD(), stop=4)
    half.save(tmp_path / "half.npz")
    resumed = prgd.run(problem, prgd.NGD(), stop=12, resume=prgd.Result.load(tmp_path / "half.npz"))
    assert resumed.passes == found.passes
    assert np.array_equal(resumed.w, found.w)
    assert (resumed.margin, resumed.upper_bound) == (found.margin, found.upper_bound)
