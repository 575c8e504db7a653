"""Threads: work that is spread over them, and those of BLAS while small matrices are worked on."""

import io
import math

import numba as nb
import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS must be there before the limits are set
from threadpoolctl import threadpool_info, threadpool_limits

import prgd
from prgd.core import threads
from prgd.core.threads import each, single_blas
from prgd.estimators.fitting import Fitting
from prgd.rows import _compiling


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        yield


def test_work_in_threads_may_spread_work_itself():
    inner = each(lambda k: each(lambda j: 10 * k + j, 3), 3)
    assert inner == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]
    assert each(lambda k: k, 3) == [0, 1, 2]


@pytest.mark.parametrize("n_jobs", [0, -1, 1.5, "2", True])
def test_numbers_of_threads_are_positive_integers(n_jobs):
    X, Y = np.eye(4), np.array([[1], [-1], [1], [-1]])
    for solve, labels in ((prgd.max_margin, Y.ravel()), (prgd.max_margin_batch, Y)):
        with pytest.raises(ValueError, match=r"n_jobs must be a positive integer, or None .* got"):
            solve(X, labels, n_jobs=n_jobs)


def test_small_work_has_one_thread_and_large_work_all():
    with single_blas(1e3):
        assert blas_threads() == {1}
        with single_blas(1e3):  # the outer limit holds until its own end
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with single_blas(math.inf):
        assert blas_threads() == {2}


def test_the_limit_is_lifted_after_an_error():
    with pytest.raises(ZeroDivisionError), single_blas(1.0):
        raise ZeroDivisionError
    assert blas_threads() == {2}


def test_a_small_fit_uses_one_thread_of_blas(monkeypatch):
    seen = []
    X = np.array([[0.0, 1.0], [1.0, 1.0], [3.0, 0.0], [4.0, 2.0]])

    def solve(self, *given):
        seen.append(blas_threads())
        return original(self, *given)

    original = Fitting._solve
    monkeypatch.setattr(Fitting, "_solve", solve)
    prgd.MaxMarginClassifier().fit(X, [0, 0, 1, 1])
    assert seen == [{1}]
    assert blas_threads() == {2}


@pytest.mark.parametrize(
    ("load", "count"),
    [("0.10 5.00 5.00 1/99 7", 4), ("2.90 0.00 0.00 3/99 7", 2), ("9.00 9.00 9.00 9/99 7", 1)],
)
def test_threads_are_as_many_as_cores_that_others_leave_free(monkeypatch, load, count):
    monkeypatch.delenv("PRGD_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "cores", lambda: 4)
    monkeypatch.setattr(threads.Path, "read_text", lambda self, **options: load)
    assert threads.threads_of(None) == count
    assert threads.threads_of(3) == 3


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_told_once_that_kernels_are_compiled(monkeypatch, is_terminal):
    shown = io.StringIO()
    shown.isatty = lambda: is_terminal
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr(_compiling.Compiling, "is_said", False)
    for number in (1.0, 2j):  # two types, each of which is compiled
        assert nb.njit(lambda x: x)(number) == number
    assert (
        shown.getvalue()
        == "Compiling kernels of this kind of problem (kept for later runs) ...\n" * is_terminal
    )
