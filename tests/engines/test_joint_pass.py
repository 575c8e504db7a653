"""The joint pass of the engines of arrays against pairs that are formed one by one."""

from __future__ import annotations

import grid
import numpy as np
import pytest
import scipy.sparse as sp

from prgd.losses import EXPONENTIAL, LOGISTIC
from prgd.rows import DenseRows, JointMarginsAt, JointSmallestAt, JointTallyAt, Labels, SparseRows, arrays
from prgd.rows.tally import COUNT, MARGIN

SHAPES = [(2, 1, 1.0), (3, 7, 0.0), (4, 8, 0.1), (5, 50, 2.0), (7, 3, 40.0), (10, 17, 5.0), (12, 9, 1.0)]
KINDS = [(EXPONENTIAL, False), (LOGISTIC, False), (EXPONENTIAL, True)]


def read_only_part(X):
    """Return X as some columns of a wider matrix, whose rows lie apart."""
    wide = np.zeros((len(X), X.shape[1] + 3), X.dtype)
    wide[:, 1:-2] = X
    return wide[:, 1:-2]


def backwards(X):
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


LAYOUTS = {
    "rows": lambda X: DenseRows(X),
    "columns": lambda X: DenseRows(np.asfortranarray(X)),
    "part": lambda X: DenseRows(read_only_part(X)),
    "backwards": lambda X: DenseRows(backwards(X)),
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
        m = scores[np.arange(len(X)), codes][:, None] - scores
        m[np.arange(len(X)), codes] = np.inf
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
    for log_sum, scalars, vector, group in zip(
        tally.log_sums, tally.scalars, tally.vector, groups, strict=True
    ):
        assert log_sum == pytest.approx(group[0], rel=tol, abs=tol)
        assert scalars[MARGIN] == pytest.approx(group[1], rel=tol, abs=tol)
        assert scalars[COUNT] == pytest.approx(group[2], rel=1e-13)
        mass = scalars[3] if scalars[3] > 0.0 else 1.0
        np.testing.assert_allclose(vector / mass, group[3], rtol=tol, atol=tol * np.abs(group[3]).max())


QUICK = ("rows", "columns", "sparse")  # a kernel is compiled for every further kind of array


@pytest.mark.parametrize(
    "layout", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in LAYOUTS]
)
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
def test_matches_all_pairs(layout, loss, by_class):
    for K, d, scale in [
        (2, 1, 1.0),
        (3, 7, 0.0),
        (4, 8, 0.1),
        (5, 50, 2.0),
        (7, 3, 40.0),
        (10, 17, 5.0),
        (12, 9, 1.0),
    ]:
        X, codes, W = data_of(701, d, K, seed=K)
        rows = LAYOUTS[layout](X)
        for s in (None, np.random.default_rng(1).integers(0, 3, len(X)).astype(float)):
            found = rows.ask(JointTallyAt(scale * W, loss, by_class), labels_of(codes, K, s))
            check(found, expected(X, codes, np.ones(len(X)) if s is None else s, scale * W, loss, by_class))


@pytest.mark.kernels
@pytest.mark.parametrize("layout", QUICK)
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
def test_few_rows(layout, loss, by_class):
    for K, scale in ((3, 1.0), (8, 60.0)):
        X, codes, W = data_of(67, 9, K, seed=5)
        query, rows = JointTallyAt(scale * W, loss, by_class), LAYOUTS[layout](X)
        for s in (np.ones(len(X)), np.random.default_rng(6).integers(0, 3, len(X)).astype(float)):
            found = rows.ask(query, labels_of(codes, K, None if s.all() else s))
            check(found, expected(X, codes, s, query.w, loss, by_class))


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
    made = {"rows": X, "columns": np.asfortranarray(X), "sparse": sp.csr_array(X)}[layout]
    build = SparseRows if layout == "sparse" else DenseRows
    found = [
        build(made, n_jobs=threads).ask(JointTallyAt(W, loss, by_class), labels_of(codes, 5))
        for threads in (1, 2, 3, 7)
    ]
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
    assert not (
        np.isfinite(found.scalars[[0, 1] if by_class else 0]).all() and np.isfinite(found.vector).all()
    )


@pytest.mark.parametrize("engine", grid.QUICK_ENGINES)
@pytest.mark.parametrize(("loss", "by_class"), KINDS)
def test_engines_agree(engine, loss, by_class, tmp_path):
    X, codes, W = data_of(157, 11, 4)
    s = np.random.default_rng(3).integers(0, 3, len(X)).astype(float)
    rows = grid.ENGINES[engine](X, codes, s, tmp_path)
    check(rows.ask(JointTallyAt(W, loss, by_class)), expected(X, codes, s, W, loss, by_class), 1e-10)


@pytest.mark.kernels
@pytest.mark.parametrize("layout", QUICK)
def test_margins_of_all_pairs(layout, monkeypatch):
    monkeypatch.setattr(arrays, "SMALL_ENTRIES", 0)  # else NumPy would answer
    X, codes, W = data_of(701, 9, 6)
    rows, labels, at = LAYOUTS[layout](X), labels_of(codes, 6), np.arange(len(X))
    b = np.random.default_rng(4).standard_normal(6)
    for intercept in (np.zeros(6), b):
        scores = X @ W.T + intercept
        margins = scores[at, codes][:, None] - scores
        margins[at, codes] = np.inf
        if not intercept.any():
            np.testing.assert_allclose(rows.ask(JointMarginsAt(W), labels), margins, rtol=1e-12, atol=1e-12)
        (found,) = rows.ask(JointSmallestAt(W, 20, False, np.array([3]), intercept), labels)
        order = np.argsort(margins, axis=None)
        order = order[order != 3][:20]
        np.testing.assert_array_equal(found.indices, order)
        np.testing.assert_allclose(found.margins, margins.ravel()[order], rtol=1e-12)
        assert found.smallest == pytest.approx(margins.min(), rel=1e-12)
