"""`max_margin_batch`: the certified maximum margins of many label sets over the same rows."""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from prgd.core.checks import check_integer, check_positive, checked_price
from prgd.core.threads import each, single_blas, threads_of
from prgd.core.types import Indices
from prgd.maxmargin.batch_on_device import solve_on_device
from prgd.maxmargin.batch_result import BatchResult
from prgd.maxmargin.label_sets import LabelledRows, SharedProducts, errors_naming, read_blocks
from prgd.maxmargin.price import choose_C, choose_label_set_C, row_hashes
from prgd.maxmargin.soft import soft_margin
from prgd.maxmargin.solve import Solve
from prgd.maxmargin.solver import max_margin, solve_hard
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.rows.arrays import DenseRows
from prgd.running.history import Status
from prgd.running.progress import live_line
from prgd.running.result import Result
from prgd.solvers.coordinate_descent import suits
from prgd.solvers.gram_newton import GramNewton

# One Gram matrix serves all label sets if it has at most so many rows, and if the rows are not many more than
# the columns: few columns have few support vectors, which a working set finds by cheap passes.
_MAX_ROWS, _MAX_ROWS_PER_COLUMN = 4096, 4
_HARD_PRICE = 1e9  # price of squared slacks, in units of the rows, at which a soft margin is nearly hard


def max_margin_batch(
    X: Any,
    Y: Any,
    *,
    C: float | str = math.inf,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_passes: int = 1000,
    max_seconds: float = math.inf,
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
        Each column is a label set: 1 and -1, and 0 for rows that it leaves out. Booleans are classes, and so
        are 1 and 0 if no label is -1: these are predicted, too. With a list of X, one Y for each block, or
        one for all.
    C : float or "cv"
        Price of the squared slacks of soft margins, as that of `prgd.soft_margin`; the default is the hard
        margin. ``"cv"`` chooses one for each label set by its error on five held-out folds (``batch.C``).
    fit_intercept : bool
        Fit a true, unpenalised intercept.
    tol : float
        Relative gap to certify for every label set. 1e-4, a cosine of 0.9999 with the direction of largest
        margin, takes about half of the time.
    max_passes : int
        Passes over the rows of one label set after which its best certified interval is returned.
    max_seconds : float
        Seconds after which the best certified intervals are returned. The search for C is not limited.
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
    if isinstance(C, str) and C != "cv":
        raise ValueError(f"C must be a positive number or 'cv', which chooses one by folds; got {C!r}.")
    price = None if isinstance(C, str) else checked_price(C)
    threads, blocks, end = threads_of(n_jobs), read_blocks(X, Y), time.perf_counter() + max_seconds
    sizes = [len(block.Y) for block in blocks]
    results: list[Result] = []
    with live_line(progress) as show:

        def tell(done: int) -> None:
            show(f"{len(results) + done:,} of {sum(sizes):,} label sets")

        for block in blocks:
            own = threads if block.takes_threads else 1
            results += _solve_block(block, price, fit_intercept, tol, max_passes, end, own, tell)
    column = np.concatenate([np.arange(size) for size in sizes])
    reading = "labels 0 and 1, both classes" if any(block.is_binary for block in blocks) else ""
    return BatchResult(tuple(results), np.repeat(np.arange(len(sizes)), sizes), column, reading)


def _solve_block(
    block: LabelledRows,
    price: float | None,
    fit_intercept: bool,
    tol: float,
    max_passes: int,
    end: float,
    threads: int,
    tell: Callable[[int], None],
) -> list[Result]:
    """Solve all label sets of a block: together on the device of the rows, or one by one in threads.

    ``price`` is that of soft margins, infinite for hard ones; None chooses one for each label set.
    """
    with errors_naming(block.name):
        problem = Problem(block.rows.with_labels(block.labels(0)), fit_intercept=fit_intercept, scale="none")
    is_small = problem.n <= min(_MAX_ROWS, _MAX_ROWS_PER_COLUMN * problem.d)
    found: dict[int, Result] = {}
    if block.rows.is_on_device:
        found = solve_on_device(problem, block, tol, tell, end) if price == math.inf else {}
        if len(found) == len(block.Y):
            return [found[k] for k in range(len(block.Y))]
        if is_small:  # the host solves what is left faster than one solve after the other on the device
            rows = DenseRows(block.rows.take(np.arange(problem.n)), n_jobs=1)
            problem = Problem(rows.with_labels(block.labels(0)), fit_intercept=fit_intercept, scale="none")
        threads = threads if is_small else 1
    # Coordinate descent on sparse rows needs no Gram matrix, and is faster than solves on it.
    shared = SharedProducts.of(problem, threads) if is_small and not suits(problem) else None
    spread = partial(_spread, threads=min(threads, len(block.Y)), tell=tell)
    options: Any = {"fit_intercept": fit_intercept, "tol": tol}

    def solve(k: int, C: float | None, **start: Any) -> Result:
        if k in found:
            return found[k]
        own, seconds = problem.with_labels(block.labels(k)), max(end - time.perf_counter(), 1e-9)
        if C is None:
            (kept,) = np.nonzero(block.Y[k])
            codes = (block.Y[k, kept] > 0).astype(np.int64)
            C = choose_C(problem.rows.take(kept), codes, np.ones(kept.size), fit_intercept, 1)
        if math.inf > C:
            return soft_margin(own.rows, C=C, max_seconds=seconds, **start, **options)
        result = None
        if shared is not None:
            one = Solve(own, tol, max_passes, max_seconds=seconds)
            result = one.run(lambda: solve_hard(one, 1, True, None, shared.label_set(own)))
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            if result.status is not Status.STALLED:
                return result
        other = max_margin(own.rows, max_passes=max_passes, max_seconds=seconds, **options)
        return other if result is None or other.status is not Status.STALLED else result

    with single_blas():
        if shared is None or shared.exponent or found:
            return spread(lambda k: solve(k, price), len(block.Y))
        return _solve_by_newton(problem, block, price, tol, shared, spread, solve)


def _solve_by_newton(
    problem: Problem,
    block: LabelledRows,
    price: float | None,
    tol: float,
    shared: SharedProducts,
    spread: Callable[..., list[Any]],
    solve: Callable[..., Result],
) -> list[Result]:
    """Return the margins of all label sets, from Newton's method over one Gram matrix.

    Hard ones are soft margins of a very high price. What is not certified then is left to ``solve(k, C)``.
    """
    G, X, Y, fit_intercept = shared.G, shared.X, block.Y.astype(np.float64), problem.fit_intercept
    prices = np.full(len(Y), price or 0.0)
    if price is None:
        prices = choose_label_set_C(G, row_hashes(X), Y, fit_intercept, spread)
    results: list[Any] = [None] * len(Y)
    for C in np.unique(prices).tolist():
        (some,) = np.nonzero(prices == C)
        c = 2.0 * C if math.inf > C else _HARD_PRICE / float(np.diag(G).mean())
        newton = GramNewton(G, c, is_shared=some.size > 1)

        def prove(j: int, C: float = C, some: Indices = some, newton: GramNewton = newton) -> None:
            k = int(some[j])
            at = newton.minimise(Y[k], fit_intercept, Y[k] != 0.0)
            w, p = np.asarray(X.T @ at.beta), np.maximum(Y[k] * at.beta, 0.0)
            b = at.b - (0.0 if shared.center is None else float(shared.center @ w))
            one = Solve(problem.with_labels(block.labels(k)), tol, math.inf, C=C)
            one.prove(w, b, DualWeights(np.flatnonzero(p), p[p > 0.0]))
            start: Any = {"w0": w, "intercept0": b} if math.inf > C else {}
            results[k] = one.result(Status.CERTIFIED) if one.is_certified else solve(k, C, **start)

        spread(prove, some.size)
    return results


def _spread(solve: Callable[[int], Any], count: int, threads: int, tell: Callable[[int], None]) -> list[Any]:
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
