"""What Problem refuses, what it says, and what it never copies."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import prgd
from prgd.core.threads import default_threads
from prgd.losses import EXPONENTIAL
from prgd.rows import ChunkedRows, Combine, DenseRows, MarginsAt, Measure, SparseRows, TallyAt
from prgd.rows.exact import as_float, check_exact

X = np.array([[1.0, 0.5], [-1.0, 0.5], [2.0, 0.1]])
y = np.array([1, -1, 1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: prgd.Problem(X, [1, 1, 1]), "two classes; got 1"),
        (lambda: prgd.max_margin(X, [0, 1, 2]), r"got 3\. Use multi_class='joint' .* from the rest"),
        (lambda: prgd.soft_margin(np.ones((9, 1)), np.arange(9), C=1.0), r"got 9 .*\.\.\..* from the rest"),
        (lambda: prgd.Problem(X, [0.5, 0.25, 0.1]), "3 different numbers such as 0.1, which looks like a"),
        (lambda: prgd.Problem(X, y, norm="spectral"), "weights of shape .* use prgd.max_margin.* for two"),
        (lambda: prgd.Problem(X, y, norm=0.5), "p of a norm must be a number of at least 1; got 0.5"),
        (lambda: prgd.Problem(X, norm="l0"), "p of a norm must be a number of at least 1; got 0"),
        (lambda: prgd.Problem(X, multi_class="joint"), "joint problem needs the labels y; got rows z_i"),
        (lambda: prgd.Problem(X, y, multi_class="ovr"), "multi_class must be None or 'joint'; got 'ovr'"),
        (lambda: prgd.Problem(X, [1, -1]), "one label for each of the 3 rows"),
        (lambda: prgd.Problem(X, [1.0, np.nan, -1.0]), "not finite, at row 1"),
        (lambda: prgd.Problem(X[0], y), "matrix of shape"),
        (lambda: prgd.Problem(np.empty((0, 2)), []), "at least one row"),
        (lambda: prgd.Problem(np.empty((3, 0)), y), "at least one row and one column"),
        (lambda: prgd.Problem(X, y, loss="hinge"), "exponential, logistic"),
        (lambda: prgd.Problem(X, y, scale="maximum"), "'max' or 'none'"),
        (lambda: prgd.Problem(X, y, loss="logistic", fit_intercept=True), "closed form"),
        (lambda: prgd.Problem(X, y, sample_weight=[1, 2]), "one number for each"),
        (lambda: prgd.Problem(X, y, sample_weight=[1, -2, 1]), "row 1 has"),
        (lambda: prgd.Problem(X, y, sample_weight=[1, np.nan, 1]), "row 1 has"),
        (lambda: prgd.Problem(X, y, sample_weight=[0, 0, 0]), "zero everywhere"),
        (lambda: prgd.Problem(X, y, sample_weight=[1, 0, 1], fit_intercept=True), "both classes"),
        (lambda: prgd.Problem(X * 1e-160, y), "its square overflows"),
        (lambda: prgd.Problem(DenseRows(X, y), y), "holds its labels"),
        (lambda: prgd.Problem([["a", "b"]], [1]), "real numbers"),
        (lambda: prgd.Problem(np.array([["a", 1]], object), [1]), "numbers only"),
        (lambda: prgd.Problem(X + 1j, y), "real numbers"),
        (lambda: prgd.Problem(sp.csr_array(X + 1j), y), "real numbers"),
        (lambda: prgd.Problem(sp.csr_array((0, 3)), []), "at least one row"),
        (lambda: ChunkedRows.from_blocks([]), "at least one block"),
        (lambda: ChunkedRows.from_blocks([(X, y), (X[:, :1], y)]), "same number of columns; got 2, 1"),
        (lambda: ChunkedRows.from_blocks([(X, y), (X, None)]), "block 1 has none"),
        (lambda: ChunkedRows.from_blocks([(X, y), (X, y[:2])]), "Block 1 has 3 rows"),
        (lambda: prgd.Problem(X, y).at(np.zeros(2)).gamma, "not defined at w = 0"),
        (lambda: prgd.Problem(X, y).at(np.zeros(3)).log_loss, r"w must have shape \(2,\)"),
        (lambda: prgd.Problem(X, y).at(np.zeros(2), np.ones(1)), r"v must have shape \(2,\); got \(1,\)"),
        (lambda: prgd.Problem(X, [0, 1, 2]).at(np.zeros((3, 2)), np.ones((3, 2))), "no second direction"),
    ],
)
def test_errors_say_what_was_expected(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.indices.__setitem__(0, 9), "column index lies outside"),
        (lambda m: m.indices.__setitem__(0, -1), "column index lies outside"),
        (lambda m: m.indptr.__setitem__(1, 99), "indptr"),
    ],
)
def test_a_broken_csr_matrix_never_reaches_the_kernels(change, words):
    matrix = sp.csr_array(X)
    assert matrix.has_canonical_format
    change(matrix)
    with pytest.raises(ValueError, match=words):
        SparseRows(matrix, y)


def test_repeated_entries_are_summed():
    matrix = sp.coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2)).tocsr()
    twice = sp.csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    for m in (matrix, twice):
        assert SparseRows(m).ask(Measure()).max_norm == 5.0
        np.testing.assert_array_equal(SparseRows(m).ask(MarginsAt(np.array([1.0, 0.0]))), [3.0, 0.0])


def test_zero_rows_are_allowed_but_said():
    Z = np.vstack([X, np.zeros((2, 2))])
    labels = np.r_[y, 1, -1]
    with pytest.warns(prgd.ZeroRowWarning, match="2 of 5 rows are zero"):
        problem = prgd.Problem(Z, labels)
    assert problem.at(np.array([1.0, 0.0])).gamma == 0.0
    with pytest.warns(prgd.ZeroRowWarning):
        prgd.Problem(sp.csr_array(Z), labels)
    prgd.Problem(Z, labels, fit_intercept=True)  # through any point: nothing to say


def test_all_zero_data_have_unit_steps():
    with pytest.warns(prgd.ZeroRowWarning):
        problem = prgd.Problem(np.zeros((2, 2)), [1, -1])
    assert problem.unit == 1.0
    assert prgd.run(problem, prgd.NGD(), stop=3).status is prgd.Status.NOT_SEPARABLE


@pytest.mark.parametrize("labels", [["b", "a", "b"], [True, False, True], [7, 3, 7], [[1], [-1], [1]]])
def test_the_larger_class_is_plus_one(labels):
    problem = prgd.Problem(X, labels)
    np.testing.assert_array_equal(problem.rows.labels.signs, [1, -1, 1])
    assert len(problem.classes) == 2


@pytest.mark.parametrize(
    "array",
    [X, X.astype(np.float32), X.repeat(2, axis=0)[::2], np.ma.asarray(X)],
    ids=["C", "float32", "strided", "masked"],
)
def test_data_are_not_copied(array):
    rows = DenseRows(array, y)
    assert np.shares_memory(rows._storage.A[0], array)


def test_sparse_data_are_not_copied():
    matrix = sp.csr_array(X)
    assert np.shares_memory(SparseRows(matrix, y)._storage.A[0], matrix.data)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float16, ">f8", object])
def test_other_types_are_converted(dtype):
    Z = np.array([[1, 0], [0, 1], [1, 1]])
    rows = DenseRows(Z.astype(dtype), y)
    np.testing.assert_array_equal(rows.ask(MarginsAt(np.array([1.0, 2.0]))), [1.0, -2.0, 3.0])
    if dtype not in (np.float16, ">f8", object):
        sparse = SparseRows(sp.csr_array(Z.astype(dtype)), y)
        np.testing.assert_array_equal(sparse.ask(MarginsAt(np.array([1.0, 2.0]))), [1.0, -2.0, 3.0])


def test_a_writable_w_that_changes_is_seen():
    problem = prgd.Problem(X, y)
    w = np.array([1.0, 0.0])
    at = problem.at(w)
    first = at.log_loss
    w[0] = 2.0
    assert problem.at(w).log_loss != first
    assert at.w[0] == 1.0


def test_a_second_direction_that_changes_is_not_seen():
    v = np.array([1.0, 0.0])
    at = prgd.Problem(X, y, scale="none").at(np.zeros(2), v)
    v[:] = 1e-9
    assert at.second_gamma == 1.0


def test_an_evaluation_is_one_pass_and_a_problem_keeps_none():
    problem = prgd.Problem(X, y)
    at = problem.at([1.0, 0.0])
    found = at.log_loss, at.gamma, at.upper, at.gap_split, at.normalized_gradient, at.intercept
    assert (len(found), problem.passes) == (6, 1)
    problem.at(at.w)
    assert problem.passes == 2


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((70_000, 9))
    w = rng.standard_normal(9)
    for make in (
        lambda k: DenseRows(Z, n_jobs=k),
        lambda k: DenseRows(np.asfortranarray(Z), n_jobs=k),
        lambda k: SparseRows(sp.csr_array(Z), n_jobs=k),
    ):
        one, many = (make(k).ask(TallyAt(w, EXPONENTIAL)) for k in (1, 3))
        assert one.vector.tobytes() == many.vector.tobytes()
        assert one.scalars.tobytes() == many.scalars.tobytes()
        assert make(1).ask(MarginsAt(w)).tobytes() == make(3).ask(MarginsAt(w)).tobytes()
        p = rng.random(70_000)
        assert make(1).ask(Combine.of(p)).tobytes() == make(3).ask(Combine.of(p)).tobytes()
        assert make(1).ask(Measure()) == make(3).ask(Measure())


def test_number_of_threads_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("PRGD_NUM_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("PRGD_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="PRGD_NUM_THREADS must be a positive integer"):
        default_threads()
    monkeypatch.delenv("PRGD_NUM_THREADS")
    assert default_threads() >= 1


def test_a_gradient_beyond_the_floats_is_infinite_and_never_nan():
    problem = prgd.Problem(np.array([[1.0, 0.0], [0.5, 0.0]]), scale="none")
    gradient = problem.at(np.array([-1e4, 0.0])).gradient
    assert gradient.tolist() == [-np.inf, 0.0]
    near = problem.at(np.array([-705.0, 0.0])).gradient  # exp(705) is a float
    assert near[0] == pytest.approx(-0.5 * np.exp(705.0), rel=1e-12)


# What is taken exactly, and without a copy

BIG = 2**53


@pytest.mark.parametrize(
    "X",
    [
        np.array([[BIG], [-BIG], [2**62], [1]]),
        np.array([[-(2**63)], [1], [0], [1]]),
        np.array([[2**63], [2**64 - 2**11], [0], [1]], np.uint64),
        np.array([[0.1], [0.2], [0.3], [0.4]], np.float32).astype(np.longdouble),
        np.array([[Fraction(1, 4)], [Decimal("0.5")], [True], [2**70]], object),
        [[2**70], [0.1], [True], [1e300]],
        pd.DataFrame({"a": pd.array([1, 2, 3, 2**60], dtype="Int64"), "b": [True, False, True, False]}),
        pl.DataFrame({"a": [1, 2, 3, 2**60], "b": [True, False, True, False]}),
    ],
)
def test_numbers_with_a_float64_are_taken_as_they_are(X):
    wanted = X.to_numpy(dtype=object) if isinstance(X, pd.DataFrame) else X
    rows = X.rows() if isinstance(X, pl.DataFrame) else np.array(wanted, object)
    wanted = [[float(x) for x in row] for row in rows]
    found = as_float(X)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == np.float64
    check_exact(X)
