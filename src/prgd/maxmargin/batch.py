"""`max_margin_batch`: the certified maximum margins of many label sets over the same rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from prgd.core.checks import check_integer, check_positive
from prgd.core.threads import each, single_blas, threads_of
from prgd.maxmargin.batch_on_device import solve_on_device
from prgd.maxmargin.batch_result import BatchResult
from prgd.maxmargin.label_sets import LabelledRows, SharedProducts, errors_naming, read_blocks
from prgd.maxmargin.solve import Solve
from prgd.maxmargin.solver import max_margin, solve_hard
from prgd.problem import Problem
from prgd.rows.arrays import DenseRows
from prgd.running.history import Status
from prgd.running.progress import live_line
from prgd.running.result import Result
from prgd.solvers.coordinate_descent import suits

# One Gram matrix serves all label sets if it has at most so many rows, and if the rows are not many more than
# the columns: few columns have few support vectors, which a working set finds by cheap passes.
_MAX_ROWS, _MAX_ROWS_PER_COLUMN = 4096, 4


def max_margin_batch(
    X: Any,
    Y: Any,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_passes: int = 1000,
    n_jobs: int | None = None,
    progress: bool | str = True,
) -> BatchResult:
    r"""Return the maximum-margin separators of many label sets, each with its certificate.

    .. math:: \gamma_k^\star = \max_{\|w\| = 1, b} \min_{i : Y_{ik} \ne 0} Y_{ik} (\langle w, x_i \rangle + b)

    The answers are those of `prgd.max_margin` in l2, its default norm, for every column of Y. The work on the
    rows is shared: one Gram matrix serves all label sets. On a GPU (rows as a CUDA tensor) all of
    them are solved together.

    Parameters
    ----------
    X : array, sparse matrix, tensor or Rows of shape (n, d), or a list of these
        The rows, as for `prgd.max_margin`; labels that an engine has are not used. With a list every block
        has its own rows, e.g. the activations of the layers of a network.
    Y : array, sparse matrix or tensor of shape (n, label sets), or a list of these
        Each column is a label set: 1 and -1, and 0 for rows that it leaves out. Booleans mean 1 and -1. With
        a list of X, one Y for each block, or one for all.
    fit_intercept : bool
        Fit a true, unpenalised intercept.
    tol : float
        Relative gap to certify for every label set. 1e-4, a cosine of 0.9999 with the direction of largest
        margin, takes about half of the time.
    max_passes : int
        Passes over the rows of one label set after which its best certified interval is returned.
    n_jobs : int, optional
        Label sets are spread over so many threads. Default: PRGD_NUM_THREADS, else all cores.
    progress : bool or str
        Show a live line while this takes long, on a terminal only; a str is its label.

    Returns
    -------
    BatchResult
        ``coef``, ``intercept``, ``margin``, ``upper_bound``, ``gap``, ``cosine`` and ``status`` as arrays,
        and a `Result` for each problem. Label sets that do not separate have the status NOT_SEPARABLE or
        QUASI_SEPARABLE and weights that prove it, as `prgd.max_margin` returns them.

    Raises
    ------
    ValueError
        If a column of Y lacks one of the classes or holds other labels, or if shapes do not fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> Y = np.sign(X @ rng.standard_normal((50, 3)))
    >>> batch = max_margin_batch(X, Y)
    >>> batch
    BatchResult(3 problems: 3 CERTIFIED)
    >>> bool((batch.gap <= 1e-6).all()), batch.coef.shape
    (True, (3, 50))
    """
    check_positive("tol", tol)
    check_integer("max_passes", max_passes, minimum=1)
    threads, blocks = threads_of(n_jobs), read_blocks(X, Y)
    sizes = [len(block.Y) for block in blocks]
    results: list[Result] = []
    with live_line(progress) as show:

        def tell(done: int) -> None:
            show(f"{len(results) + done:,} of {sum(sizes):,} label sets")

        for block in blocks:
            own = threads if block.takes_threads else 1
            results += _solve_block(block, fit_intercept, tol, max_passes, own, tell)
    column = np.concatenate([np.arange(size) for size in sizes])
    return BatchResult(tuple(results), np.repeat(np.arange(len(sizes)), sizes), column)


def _solve_block(
    block: LabelledRows,
    fit_intercept: bool,
    tol: float,
    max_passes: int,
    threads: int,
    tell: Callable[[int], None],
) -> list[Result]:
    """Solve all label sets of a block: together on the device of the rows, or one by one in threads."""
    with errors_naming(block.name):
        problem = Problem(block.rows.with_labels(block.labels(0)), fit_intercept=fit_intercept, scale="none")
    is_small = problem.n <= min(_MAX_ROWS, _MAX_ROWS_PER_COLUMN * problem.d)
    found: dict[int, Result] = {}
    if block.rows.is_on_device:
        found = solve_on_device(problem, block, tol, tell)
        if len(found) == len(block.Y):
            return [found[k] for k in range(len(block.Y))]
        if is_small:  # the host solves what is left faster than one solve after the other on the device
            rows = DenseRows(block.rows.take(np.arange(problem.n)), n_jobs=1)
            problem = Problem(rows.with_labels(block.labels(0)), fit_intercept=fit_intercept, scale="none")
        threads = threads if is_small else 1
    # Coordinate descent on sparse rows needs no Gram matrix, and is faster than solves on it.
    shared = SharedProducts.of(problem, threads) if is_small and not suits(problem) else None

    def solve(k: int) -> Result:
        if k in found:
            return found[k]
        own = problem.with_labels(block.labels(k))
        result = None
        if shared is not None:
            one = Solve(own, tol, max_passes)
            result = one.result(solve_hard(one, 1, True, None, shared.label_set(own)))
            if result.status is not Status.STALLED:
                return result
        other = max_margin(own.rows, fit_intercept=fit_intercept, tol=tol, max_passes=max_passes)
        return other if result is None or other.status is not Status.STALLED else result

    threads = min(threads, len(block.Y))
    with single_blas() if threads > 1 or shared is not None else nullcontext():
        return _spread(solve, len(block.Y), threads, tell)


def _spread(
    solve: Callable[[int], Result], count: int, threads: int, tell: Callable[[int], None]
) -> list[Result]:
    """Return ``solve(k)`` for every k, spread over threads; an error ends all of them."""
    results: list[Any] = [None] * count
    waiting, ended = iter(range(count)), []

    def work(_: int) -> None:
        while (k := next(waiting, None)) is not None:
            try:
                results[k] = solve(k)
            except BaseException:
                ended.append(k)
                raise
            if ended:
                return
            tell(k + 1)

    each(work, threads)
    return results
