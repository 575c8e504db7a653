"""The only loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from prgd._types import Array
from prgd.algorithms.base import Algorithm, State
from prgd.certificate import Certificate
from prgd.checks import check_integer
from prgd.errors import RowsLostError
from prgd.norms import norm
from prgd.problem import Problem
from prgd.progress import progress_line
from prgd.result import History, Record, Result, Status
from prgd.stopping import Stop, any_of

# below this share of the largest row norm the upper bound leaves no separator worth the name
ZERO_BOUND = 1e-12


def run(
    problem: Problem,
    algorithm: Algorithm[Any],
    w0: Any = None,
    *,
    stop: Stop | int,
    record: int = 1,
    progress: bool | Callable[[Record, Certificate], None] = False,
    resume: Result | None = None,
) -> Result:
    """Run an algorithm until a rule says stop, certifying the margin at every step.

    Parameters
    ----------
    problem : Problem
    algorithm : Algorithm, e.g. `prgd.PRGD`.
    w0 : array of shape (d,), optional
        Start (default 0). A warm start is the ``w`` of an earlier result.
    stop : Stop or int
        A rule of `prgd.stopping`; a whole number is a limit on steps.
    record : int
        Keep every ``record``-th step in the history, and the last. The certificate sees every step.
    progress : bool or callable
        True shows a live line with both bounds (on a terminal only); a callable gets each
        `Record` and `Certificate`.
    resume : Result, optional
        Go on from there instead of from ``w0``; the iterates are bit-identical to those of a run
        that was not interrupted.

    Returns
    -------
    Result

    Notes
    -----
    One reading of the data a step. Ctrl-C ends the run with status ``INTERRUPTED`` and returns what
    there is. Where rows are lost (a file vanished, all workers of a cluster died) the `RowsLostError` that is
    raised has it as ``error.result``: save it, open the rows again, and resume.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> result = prgd.run(problem, prgd.NGD(), stop=prgd.any_of(prgd.Gap(0.01), 1000))
    >>> result.status.name
    'CERTIFIED'
    """
    rule = any_of(stop)
    check_integer("record", record, minimum=1)
    state, certificate, history = _begin(problem, algorithm, w0, resume, record)
    status: Status | None = None
    now: Record | None = None
    with progress_line(progress) as show:
        try:
            while True:
                found = _look(problem, state, certificate)
                if found is None:
                    status = Status.DIVERGED
                    break
                state_seen, (now, certificate) = state, found
                if now.t % record == 0 and not (history.rows and history.rows[-1].t >= now.t):
                    history.rows.append(now)
                show(now, certificate)
                if (status := rule(now, certificate, history)) is not None:
                    break
                state = _freeze(algorithm.step(problem, state))
        except (KeyboardInterrupt, RowsLostError) as stopped:
            if now is None:
                raise
            status = Status.INTERRUPTED
            if isinstance(stopped, RowsLostError):
                stopped.result = _end(problem, algorithm, state_seen, status, now, certificate, history)
                raise
    if now is None:
        raise ValueError("w0 must be finite and its margins must not overflow.")
    return _end(problem, algorithm, state_seen, status, now, certificate, history)


def _end(
    problem: Problem,
    algorithm: Algorithm[Any],
    state: State,
    status: Status,
    now: Record,
    certificate: Certificate,
    history: History,
) -> Result:
    if not history.rows or history.rows[-1].t < now.t:
        history.rows.append(now)
    if certificate.upper <= ZERO_BOUND * problem.max_norm:
        status = Status.NOT_SEPARABLE
    return Result(
        w=state.w,
        intercept=problem.intercept(state.w),
        status=status,
        t=state.t,
        certificate=certificate,
        history=history,
        state={f.name: getattr(state, f.name) for f in fields(state)},
        algorithm=repr(algorithm),
        problem=repr(problem),
    )


def _begin(
    problem: Problem, algorithm: Algorithm[Any], w0: Any, resume: Result | None, record: int
) -> tuple[State, Certificate, History]:
    if resume is None:
        w = np.zeros(problem.d) if w0 is None else np.array(w0, dtype=np.float64)
        if w.shape != (problem.d,):
            raise ValueError(f"w0 must have shape ({problem.d},); got {w.shape}.")
        if not np.isfinite(w).all():
            raise ValueError("w0 must be finite; it has a NaN or infinite entry.")
        w.flags.writeable = False
        return _freeze(algorithm.init(problem, w)), Certificate(), History()
    if w0 is not None:
        raise ValueError("Give w0 or resume, not both: a resumed run goes on from its own w.")
    for name, saved, given in (
        ("algorithm", resume.algorithm, repr(algorithm)),
        ("problem", resume.problem, repr(problem)),
    ):
        if saved != given:
            raise ValueError(f"This result belongs to another {name}: {saved}; got {given}.")
    # a last row off the recording grid is only there to show the end of that part
    rows = [row for row in resume.history.rows if row.t % record == 0]
    return _freeze(algorithm.state_type(**resume.state)), resume.certificate, History(rows)


def _look(problem: Problem, state: State, certificate: Certificate) -> tuple[Record, Certificate] | None:
    """Measure the iterate and tighten the certificate; None where it left the floating range."""
    w = state.w
    length = norm(w)
    if not math.isfinite(length):
        return None
    log_loss = problem.log_loss(w)
    if not math.isfinite(log_loss):
        return None
    upper = problem.upper_bound(w)
    margin = problem.smallest_margin(w) / length if length > 0.0 else math.nan
    certificate = certificate.tightened(margin, upper, w)
    dual: Array | None = getattr(state, "dual", None)
    if dual is not None:
        certificate = certificate.bounded(norm(dual))
    phase = max(getattr(state, "k", 1) - 1, 0)
    R_k = getattr(state, "R_k", math.nan)
    return Record(state.t, phase, R_k, log_loss, margin, upper, certificate.gap), certificate


def _freeze(state: State) -> State:
    """Make the arrays of a state read-only, so that a step that wrote to one would fail."""
    for value in vars(state).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return state
