"""`max_margin`: the certified maximum-margin separator. `prgd.maxmargin.moves` says how it is found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from prgd.core.checks import check_integer, check_positive
from prgd.core.namespace import is_out_of_memory
from prgd.core.threads import single_blas, threads_of
from prgd.maxmargin.any_norm import solve_terms
from prgd.maxmargin.bounds import Round
from prgd.maxmargin.costs import has_small_products
from prgd.maxmargin.exactly import solve_exactly
from prgd.maxmargin.moves import SolverState
from prgd.maxmargin.overlap import balancing_weights, status_of
from prgd.norms import L2, Norm
from prgd.problem import Problem
from prgd.problem.certificate import HARD, interval
from prgd.proofs.lifted_rows import LiftedRows
from prgd.running.history import Status
from prgd.running.result import Result
from prgd.separation.search import decide, decide_by_weights
from prgd.separation.verdict import Separation, Verdict
from prgd.solvers import minimal
from prgd.solvers.gram_matrix import ZERO_MARGIN


def max_margin(
    X: Any,
    y: Any = None,
    *,
    fit_intercept: bool = True,
    norm: Norm | str | float = "l2",
    multi_class: str | None = None,
    tol: float = 1e-6,
    max_passes: int = 1000,
    polish: bool = True,
    callback: Callable[[Round], None] | None = None,
    verbose: int = 0,
    n_jobs: int | None = None,
    w0: Any = None,
) -> Result:
    r"""Return the maximum-margin separator with a certified relative gap of at most ``tol``.

    .. math:: \gamma^\star = \max_{\|w\| = 1, b} \min_i y_i (\langle w, x_i \rangle + b)

    Of K classes jointly, the margin is that of all pairs of a row and another class j:

    .. math:: \gamma^\star = \max_{\|W\| = 1, b} \min_{i, j \ne y_i}
        \langle w_{y_i} - w_j, x_i \rangle + b_{y_i} - b_j

    Parameters
    ----------
    X : array, sparse matrix, tensor or Rows of shape (n, d)
        Dense, CSR, memory-mapped or chunked; float32 or float64, as a tensor also float16 or bfloat16. Dense
        rows on a GPU are solved there.
    y : array of shape (n,), optional
        Labels of two classes, or of more with ``multi_class="joint"``; ``None`` if X holds an engine or rows
        z_i.
    fit_intercept : bool
        Fit a true, unpenalised intercept (the distance between the two hulls), as SVC does; of K classes
        jointly, one for each class.
    norm : Norm, {"l2", "l1", "linf", "spectral", "nuclear", "rows", "columns"} or a number p (3 or "l3")
        The norm in which the margin is measured (`prgd.norms`). In l1 and l-infinity HiGHS solves linear
        programs; in l_p and group norms Clarabel solves cone programs (the extra ``cones``). Other
        programs need no further package. Norms of matrices need ``multi_class="joint"``.
    multi_class : {None, "joint"}
        ``"joint"``: separate all classes jointly, by a matrix W with a row for each class.
    tol : float
        Relative gap ``(upper_bound - margin) / upper_bound`` to certify.
    max_passes : int
        Passes over the data after which the best certified interval is returned.
    polish : bool
        Solve for the weights of the identified support by factorisations, or the working set by an interior
        point, if descent is slow; sparse rows of many columns by coordinate descent on the rows. Solves in
        other norms, or of classes jointly, do not depend on it.
    callback : callable, optional
        Called with each `Round` of the history.
    verbose : int
        1 prints each round.
    n_jobs : int, optional
        Threads of the passes over the rows. Default: PRGD_NUM_THREADS, else all cores.
    w0 : array of shape (d,), or (K, d) for K classes jointly, optional
        A warm start, e.g. the ``coef`` of an earlier result: it orders the rows instead of their mean.

    Returns
    -------
    Result
        ``coef`` of shape (d,) and one intercept; of K classes jointly ``coef`` of shape (K, d), with the
        classes in order, and ``intercept`` of shape (K,). The smallest margin at them is 1. Status
        NOT_SEPARABLE or QUASI_SEPARABLE, with weights that prove it, if no hyperplane separates.

    Examples
    --------
    >>> import prgd
    >>> data = prgd.datasets.synthetic_two(0)
    >>> result = prgd.max_margin(data.X, data.y, fit_intercept=False)
    >>> result.status.name, round(result.margin / data.gamma_star, 6)
    ('CERTIFIED', 1.0)
    >>> result.check(data.X, data.y).is_valid
    True
    """
    check_positive("tol", tol)
    check_integer("max_passes", max_passes, minimum=1)
    # The unit of step sizes is not needed here, and it would not exist at norms beyond 1e150.
    options: Any = {"norm": norm, "multi_class": multi_class, "scale": "none", "n_jobs": n_jobs}
    problem = Problem(X, y, fit_intercept=fit_intercept, **options)
    if problem.is_joint and multi_class is None:
        raise ValueError(
            f"y must hold two classes; got {problem.shape[0]}. Use multi_class='joint' to separate "
            "all classes jointly, or prgd.MaxMarginClassifier to separate each class from the rest."
        )
    if w0 is not None:
        w0 = np.array(w0, dtype=np.float64)
        if w0.shape != problem.shape or not np.isfinite(w0).all():
            raise ValueError(f"w0 must be finite, of shape {problem.shape}; got shape {w0.shape}.")
    if problem.is_joint or problem.norm != L2():
        return solve_terms(problem, w0, tol, max_passes, teller(callback, verbose))
    threads = threads_of(n_jobs)
    settings = problem, threads, tol, max_passes, polish, teller(callback, verbose)
    state = SolverState(*settings, on_device=problem.rows.is_on_device)
    with single_blas() if has_small_products(problem, threads) else nullcontext():
        status = _run(state, w0)
        if status is None:  # the device has no room, or its steps ended early: the same moves on the host
            known = state.bounds, state.passes, state.rounds
            state = SolverState(*settings)
            state.bounds, state.passes, state.rounds = known
            status = _run(state, w0)
        return finished(state, status or Status.STALLED)


def _run(state: SolverState, w0: Any) -> Status | None:
    """Make the moves of a solve; return None if they are to be made on the host instead of the device."""
    try:
        status = state.run(w0)
    except KeyboardInterrupt:
        if state.certificate.w is None or state.certificate.dual_weights is None:
            raise  # there is no interval to return
        return Status.INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        if state.on_device and is_out_of_memory(error):
            return None
        raise
    is_short = (
        status is Status.STALLED and state.certificate.lower > 0.0 and state.certificate.gap > state.tol
    )
    return None if state.on_device and is_short else status


def teller(
    callback: Callable[[Round], None] | None, verbose: int, quantity: str = HARD
) -> Callable[[Round], None]:
    """Return a function that prints a round if ``verbose``, and hands it to the callback."""

    def tell(entry: Round) -> None:
        if verbose:
            print(
                f"passes {entry.passes:6.1f}  rows {entry.working_set:6.0f}  "
                f"{interval(entry.margin, entry.upper_bound, quantity)}  gap {entry.gap:.2e}"
            )
        if callback is not None:
            callback(entry)

    return tell


def finished(state: SolverState, status: Status) -> Result:
    """Return the result; if rounding ended the solve, exact proofs are tried first."""
    if status is Status.STALLED:
        found = _proven_overlap(state)
        if found is not None:
            result = state.result(status_of(found))
            certificate = result.certificate.with_upper(0.0, balancing_weights(found))
            return replace(result, certificate=certificate)
        if state.certificate.gap <= state.tol or solve_exactly(state) is Status.CERTIFIED:
            status = Status.CERTIFIED
    return state.result(status)


def _proven_overlap(state: SolverState) -> Separation | None:
    """Prove that no hyperplane separates the rows, if none with a positive margin was found.

    The weights of the solve prove it, or exact ones, or the search of `prgd.separability` decides. If a
    separating hyperplane is found instead, it becomes the best one of the solve.
    """
    problem = state.problem
    if state.certificate.lower > 0.0 or not minimal.HAS_SCIPY:
        return None
    rows = LiftedRows.of(problem)
    found = _by_weights(state, rows)
    if found is None and solve_exactly(state) is None and state.certificate.lower <= 0.0:
        found = _by_weights(state, rows) or decide(rows)
    if found is None or found.dual_weights is not None:
        return found
    if found.verdict is Verdict.SEPARABLE and found.coef is not None:
        c, exact = state.certificate, found.proof.direction
        if exact is None and found.margin == 0.0:  # the margin is positive, and below the floating range
            exact = tuple(Fraction(float(v)) for v in [*found.coef, found.intercept][: rows.width])
        c = replace(c, w=found.coef, intercept=found.intercept, exact_w=exact)
        state.bounds.certificate = replace(c, lower=max(c.lower, found.margin))
    return None


def _by_weights(state: SolverState, rows: LiftedRows) -> Separation | None:
    """Return the verdict that the weights of the solve prove, if they nearly balance the rows."""
    c = state.certificate
    is_near = c.upper <= ZERO_MARGIN * state.problem.max_norm
    return decide_by_weights(rows, c.dual_weights) if is_near else None
