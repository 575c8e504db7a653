"""`max_margin`: the certified maximum-margin separator. `prgd.maxmargin.hard` says how it is found."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from prgd.core.arithmetic import is_out_of_memory
from prgd.core.checks import check_integer, check_positive
from prgd.core.threads import single_blas, threads_of
from prgd.core.types import Array
from prgd.maxmargin.any_norm import solve_any_norm
from prgd.maxmargin.exactly import prove_exactly
from prgd.maxmargin.hard import Device, HardMargin, Host
from prgd.maxmargin.solve import Solve, reporter
from prgd.norms import L2, Norm
from prgd.problem import Problem
from prgd.running.history import Round, Status
from prgd.running.result import Result
from prgd.solvers.coordinate_descent import row_weights, suits
from prgd.solvers.working_set import WorkingSet

# Rows and columns of systems up to which BLAS gets one thread, beside the threads of products of rows: its
# threads wait by spinning, and on two cores they made solves take two to ten times as long.
_LARGE_SYSTEM = 4096


def max_margin(
    X: Any,
    y: Any = None,
    *,
    fit_intercept: bool = True,
    norm: Norm | str | float = "l2",
    multi_class: str | None = None,
    tol: float = 1e-6,
    max_passes: int = 1000,
    max_seconds: float = math.inf,
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
    max_seconds : float
        Seconds after which the best certified interval is returned. Without a limit only proofs in exact
        arithmetic have one, in proportion to the data.
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
    solve = Solve(problem, tol, max_passes, reporter(callback, verbose), max_seconds=max_seconds)
    if problem.is_joint or problem.norm != L2():
        return solve.run(lambda: solve_any_norm(solve, w0))
    is_large = problem.rows.is_on_device or min(problem.n, problem.d) > _LARGE_SYSTEM
    with nullcontext() if is_large else single_blas():
        return solve.run(lambda: solve_hard(solve, threads_of(n_jobs), polish, w0))


def solve_hard(
    solve: Solve,
    threads: int,
    polish: bool,
    w0: Array | None,
    working: WorkingSet | None = None,
    proves: bool = True,
) -> Status:
    """Find the largest margin of two classes in l2, from a warm start or a given working set.

    If rounding ends the solve, exact proofs are tried, unless ``proves`` is false.
    """
    problem = solve.problem
    if w0 is None and working is None and polish and problem.rows.is_sparse and suits(problem):
        found = row_weights(problem, solve.tol, solve.max_passes)
        if found is not None:
            solve.count(found.passes)
            solve.prove(found.w, found.b, found.weights)
            if solve.is_certified or solve.passes >= solve.max_passes:
                return Status.CERTIFIED if solve.is_certified else Status.MAX_PASSES
            w0 = solve.certificate.w if solve.certificate.lower > 0.0 else None
    for place in (Device(), Host()) if problem.rows.is_on_device else (Host(),):
        method = HardMargin(solve, threads, polish, place, working)
        try:
            method.choose_rows(w0)
            status = solve.repeat(method)
        except (MemoryError, RuntimeError) as error:
            if isinstance(place, Device) and is_out_of_memory(error):
                continue
            raise
        if status is not Status.STALLED or solve.certificate.lower <= 0.0 or solve.is_certified:
            break  # else steps on a device ended early: the same moves follow on the host
    return prove_exactly(solve, method.working) if proves and status is Status.STALLED else status
