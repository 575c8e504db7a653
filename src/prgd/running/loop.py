"""The only loop over algorithms: `prgd.run` drives one, certifies every step and shows it to observers."""

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast, overload

import numpy as np

from prgd.algorithms.base import LENGTH, Algorithm, State, Walk, can_walk, evaluation_of, most_steps, walk
from prgd.core.arithmetic import UNIT_ROUNDOFF, raised, rounding_factor
from prgd.core.checks import check_integer, digest
from prgd.core.errors import RowsLostError
from prgd.core.files import SaveTimer
from prgd.core.threads import cores, each
from prgd.core.types import Array
from prgd.problem import Problem
from prgd.problem.accurate_bounds import accurate_upper, certify_in_double, margin_in_double, weights_at
from prgd.problem.certificate import Certificate, certify, dual_vector_error, term_size
from prgd.problem.coding import balanced_intercept
from prgd.proofs.hyperplanes import proves_overlap
from prgd.rows.base import LeafRows
from prgd.rows.labels import frozen
from prgd.rows.tally import MARGIN, SECOND
from prgd.running.history import AnyOf, Columns, History, Record, Status, Stop, any_of
from prgd.running.progress import progress_line
from prgd.running.result import Result

# If the upper bound falls below this fraction of the largest row norm, a proof that it is zero is tried.
ZERO_BOUND = 1e-12

# A bound that an algorithm proves by weights is summed anew if it closes this fraction of the gap.
WORTH = 0.01

FEW_STEPS = 32  # The first call takes few steps, since a rule may stop soon.

Observer = Callable[[Any, Record, Certificate], None]


@overload
def run(  # type: ignore[overload-overlap]
    problem: Problem, algorithm: Algorithm[Any], w0: Any = None, *, stop: Stop | int,
    record: int | Collection[int] | None = 1, observe: Observer | None = None, progress: bool | str = False,
    resume: Result | None = None, save: str | Path | None = None, save_every: float = 30.0,
) -> Result: ...  # fmt: skip
@overload
def run(
    problem: Problem | Sequence[Problem], algorithm: Algorithm[Any] | Sequence[Algorithm[Any]],
    w0: Any = None, *, stop: Stop | int,
    record: int | Collection[int] | None = 1, observe: Observer | None = None,
) -> list[Result]: ...  # fmt: skip
def run(
    problem: Any,
    algorithm: Any,
    w0: Any = None,
    *,
    stop: Stop | int,
    record: int | Collection[int] | None = 1,
    observe: Observer | None = None,
    progress: bool | str = False,
    resume: Result | None = None,
    save: str | Path | None = None,
    save_every: float = 30.0,
) -> Any:
    """Run an algorithm until a rule says stop, certifying the margin at every step.

    Parameters
    ----------
    problem : Problem, or a list of them
    algorithm : Algorithm, e.g. `prgd.PRGD`, or a list of them
        With a list of problems, of algorithms or both, pairs of equal place are run, in threads, and the
        results are a list: each is that of the same run alone, bit by bit.
    w0 : array of shape (d,), optional
        Start (default 0). A warm start is the ``w`` of an earlier result. Lists may have one each.
    stop : Stop or int
        A rule, such as `prgd.Gap`; an integer is a limit on steps.
    record : int, collection of int, or None
        Keep every ``record``-th step in the history, or the steps of the collection, or none; the last step
        is always kept. The certificate is of every step; with a collection, and rules that do not look at it,
        of the steps that are kept.
    observe : callable, optional
        Called as ``observe(state, record, certificate)`` at every step, the start included.
    progress : bool or str
        Show a live line with both bounds (on a terminal only); text is the label of the line.
    resume : Result, optional
        Go on from there instead of from ``w0``; the result is bit-identical to that of a run that was not
        interrupted. Other rows, labels, weights or options than those of the result are refused.
    save : path, optional
        File for the result so far: written at the first step, soon after, and then every ``save_every``
        seconds, so that a run that is killed goes on with ``resume=Result.load(save)``. The last state is not
        written: the result that is returned saves itself.
    save_every : float

    Returns
    -------
    Result, or a list of them

    Raises
    ------
    ValueError
        If ``resume`` is a result of other data or options, or lists have different lengths.
    TypeError
        If ``algorithm`` is a class, ``w0`` a Result, or ``stop`` neither an integer nor a rule.

    Notes
    -----
    A run makes one pass over the data for each step, and one at the start. The pass also finds the margin
    of the dual vector ``u = Z^T p`` of the step before, and the certificate takes the better of both
    (docs/note/note.md). Rows that are summed in float32 and joint problems have a further pass or two at
    steps that are powers of two. Ctrl-C returns what there is, with status ``INTERRUPTED``. If rows are lost
    (a file, all workers of a cluster), the `RowsLostError` has the result so far as ``error.result``.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> result = prgd.run(problem, prgd.NGD(), stop=prgd.any_of(prgd.Gap(0.01), 1000))
    >>> result.status.name
    'CERTIFIED'
    >>> sweep = prgd.run(problem, [prgd.NGD(eta) for eta in (0.1, 0.3, 1.0)], stop=1000, record=100)
    >>> [len(result.history) for result in sweep]
    [11, 11, 11]
    """
    if isinstance(problem, list) or isinstance(algorithm, list):
        single = {"progress": progress or None, "resume": resume, "save": save}
        return _run_all(problem, algorithm, w0, single, stop=stop, record=record, observe=observe)
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem: pass prgd.Problem(X, y); got {type(problem).__name__}.")
    if isinstance(algorithm, type):
        raise TypeError(f"algorithm must be a value: pass {algorithm.__name__}(), not {algorithm.__name__}.")
    rule, is_due = any_of(stop), _recording(record)
    timer = None if save is None else SaveTimer(save_every)
    # A hash of the data costs a pass, so it waits until a result is saved. Files may be gone by then: their
    # rows are hashed at once.
    origin: str | Callable[[], str] = partial(_fingerprint, problem, algorithm)
    if save is not None or resume is not None or not isinstance(problem.rows, LeafRows):
        origin = _fingerprint(problem, algorithm)
    is_partial = isinstance(record, Collection) and rule.is_uncertified and observe is None
    wants = is_due if is_partial else lambda t: True
    reached = _Reached(problem, algorithm, origin, is_due, wants, problem.passes, History(window=rule.window))
    state = algorithm.init(problem, _start(problem, w0)) if resume is None else reached.resumed(w0, resume)
    error: BaseException | None = None
    with progress_line(progress) if progress else nullcontext() as show:
        try:
            while evaluation_of(state, algorithm, reached.state).is_finite:
                now = reached.see(state)
                if show is not None:
                    show(now.t, reached.certificate)
                if observe is not None:
                    observe(state, now, reached.certificate)
                if (found := rule(now, reached.certificate, reached.history)) is not None:
                    status = found
                    break
                if timer is not None and timer.is_due():
                    timer.time(reached.result(Status.INTERRUPTED).save, save)
                state = reached.next(rule, observe, may_walk=observe is None or timer is None)
            else:
                status = Status.DIVERGED
        except (KeyboardInterrupt, RowsLostError) as stopped:
            if reached.state is None:
                raise
            status, error = Status.INTERRUPTED, stopped
    reached.certify_last()
    if error is None and (proven := _proof_of_overlap(problem, reached.certificate)) is not None:
        status, reached.certificate = Status.NOT_SEPARABLE, proven
    result = reached.result(status)
    if isinstance(error, RowsLostError):
        error.result = result
        raise error
    return result


def _run_all(problem: Any, algorithm: Any, w0: Any, single: dict[str, Any], **options: Any) -> list[Result]:
    """Run pairs of problems and algorithms, each from its start; what is no list is the same for all."""
    if refused := [name for name, value in single.items() if value is not None]:
        raise ValueError(f"{refused[0]} is for one run; got lists of problems or algorithms.")
    given = {"problem": problem, "algorithm": algorithm, "w0": w0}
    lists = {name: value for name, value in given.items() if isinstance(value, list)}
    if len({len(value) for value in lists.values()}) > 1:
        shown = ", ".join(f"{len(value)} of {name}" for name, value in lists.items())
        raise ValueError(f"Lists of runs must have the same length; got {shown}.")
    count = len(next(iter(lists.values())))
    threads = max(min(cores(), count), 1)

    def work(part: int) -> list[Result]:
        found = []
        for k in range(part, count, threads):
            one, *others = (value[k] if name in lists else value for name, value in given.items())
            found.append(run(copy(one), *others, **options))  # a copy counts the passes of its own run
        return found

    parts = each(work, threads)
    return [parts[k % threads][k // threads] for k in range(count)]


@dataclass
class _Reached:
    """What a run has reached: its last complete step, the certificate and the history."""

    problem: Problem
    algorithm: Algorithm[Any]
    origin: str | Callable[[], str]
    is_due: Callable[[int], bool]
    wants: Callable[[int], bool]  # whether a step is certified; the last one always is
    first_pass: int
    history: History
    certificate: Certificate = Certificate()  # noqa: RUF009 - certificates are frozen values
    state: State | None = None
    certified: int = -1  # the last step whose bounds the certificate has
    steps_ahead: int = FEW_STEPS  # The next call takes so many steps; 0 if one at a time is taken.

    def resumed(self, w0: Any, resume: Result) -> State:
        """Return the state of an earlier result of the same data and options, and take over its records."""
        if w0 is not None:
            raise ValueError("Give w0 or resume, not both: a resumed run goes on from its own w.")
        for name in ("algorithm", "problem"):
            if (saved := getattr(resume, name)) != (given := repr(getattr(self, name))):
                raise ValueError(f"This result belongs to another {name}: {saved}; got {given}.")
        resume.check_fingerprint(str(self.origin))
        # A resumed run evaluates its w again, a pass that a run without an interruption does not make.
        self.first_pass -= int(resume.passes) - 1
        # The last row may be off the recording grid: such a row only shows the end of a part. The first step
        # appends the gap of the resumed state again, so the last gap is dropped here.
        self.history.rows.extend(row for row in resume.history.rows if self.is_due(row.t))
        self.history.recent_gaps.extend(list(resume.history.recent_gaps)[:-1])
        self.certificate, self.certified = resume.certificate, resume.t
        return self.algorithm.state_type(at=self.problem.at(resume.w), **resume.state)

    def see(self, state: State) -> Record:
        """Certify and record a step."""
        self.state = state
        if self.wants(state.t):
            self.certify_last()
        now = _record(state, self.certificate)
        self._keep(now)
        return now

    def _keep(self, now: Record) -> None:
        self.history.recent_gaps.append(now.gap)
        if self.is_due(now.t) and self.history.last_t < now.t:
            self.history.add([[number] for number in now])

    def certify_last(self) -> None:
        """Take the bounds of the last step, unless the certificate has them already."""
        if self.state is not None and self.state.t > self.certified:
            self.certificate = _tightened(self.certificate, self.problem, self.state)
            self.certified = self.state.t

    def next(self, rule: AnyOf, observe: Observer | None, may_walk: bool) -> State:
        """Return the next state to be seen: that of the next step, or of the last of many steps."""
        problem, s = self.problem, cast(State, self.state)
        is_own = type(s).own_upper is not State.own_upper  # a bound that its own state knows
        if self.steps_ahead and not (rule.has_met and can_walk(problem, self.algorithm)):
            self.steps_ahead = 0  # this run never takes many steps in one call
        if may_walk and self.steps_ahead and not (is_own and self.wants(s.t + 1)):
            # No rule but a limit on steps stops: there is no need to begin with few.
            most = int(min(most_steps(problem) if rule.is_limit else self.steps_ahead, rule.last_step - s.t))
            wants = np.array([self.wants(t) for t in range(s.t + 1, s.t + 1 + most)], bool)
            wants = wants[: wants.argmax()] if is_own and wants.any() else wants
            if (ahead := walk(problem, self.algorithm, s, wants)) is not None:
                self.steps_ahead = min(4 * self.steps_ahead, most_steps(problem))
                return self._pass(ahead, rule, observe)
        return cast(State, self.algorithm.step(problem.after(s.at) if self.wants(s.t + 1) else problem, s))

    def _pass(self, ahead: Walk, rule: AnyOf, observe: Observer | None) -> State:
        """Certify and record steps up to the first one at which a rule stops, which is returned unseen."""
        lower, upper, is_second = ahead.bounds()
        low = np.maximum.accumulate(np.maximum(lower, self.certificate.lower))
        up = np.minimum.accumulate(np.minimum(upper, self.certificate.upper))
        lengths = ahead.numbers[1 : ahead.steps + 1, LENGTH]
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.where((up > 0.0) & (up < math.inf), (up - low) / up, math.inf)
            margin = np.where(lengths > 0.0, ahead.smallest(MARGIN) / lengths, math.nan)
        before = np.array(self.history.recent_gaps)
        stops = np.flatnonzero(rule.met(Columns(ahead.t, margin, gap, before)))
        last = int(stops[0]) if len(stops) else ahead.steps - 1

        self.problem.passes -= ahead.steps - 1 - last  # those of steps that no rule allows

        def tighten(k: int, j: int) -> None:
            path, column = (ahead.v, SECOND) if is_second[k] else (ahead.w, MARGIN)
            intercept = balanced_intercept(ahead.scalars[k + 1, :, column].tolist())
            best = Certificate(float(lower[k]), float(upper[j]), frozen(path[k].copy()), intercept)
            self.certificate = self.certificate.best(replace(best, w_upper=frozen(ahead.w[j].copy())))

        phase, (log_loss, _, size, _) = np.maximum(ahead.phase - 1, 0), ahead.numbers[1:].T
        columns = (ahead.t, phase, ahead.R_k, log_loss, margin, size, gap)
        if observe is None:
            due = np.array([self.is_due(t) for t in ahead.t[:last].tolist()], bool)
            self.history.add([column[:last][due] for column in columns])
            self.history.recent_gaps.extend(gap[:last].tolist())
        else:
            self.problem.passes -= last
            for k, now in enumerate(map(Record, *(column[:last].tolist() for column in columns))):
                self.problem.passes += 1
                if lower[k] > self.certificate.lower or upper[k] < self.certificate.upper:
                    tighten(k, k)
                self.state, self.certified = ahead.state(k), now.t
                self._keep(now)
                observe(self.state, now, self.certificate)
        tighten(int(lower[: last + 1].argmax()), int(upper[: last + 1].argmin()))
        state = ahead.state(last)
        self.certified = state.t if ahead.wants[last] else self.certified
        return state

    def result(self, status: Status) -> Result:
        """Return the result so far."""
        if (seen := self.state) is None:
            raise ValueError("w0 must be finite and its margins must not overflow.")
        return Result(
            w=seen.w,
            status=status,
            t=seen.t,
            certificate=self.certificate,
            history=self.history.ending_with(_record(seen, self.certificate)),
            passes=float(self.problem.passes - self.first_pass),
            state={f.name: getattr(seen, f.name) for f in fields(seen) if f.name != "at"},
            algorithm=repr(self.algorithm),
            origin=self.origin,
            **self.problem.facts,
        )


def _fingerprint(problem: Problem, algorithm: Algorithm[Any]) -> str:
    """Return hashes of the data, by one pass, and of all options of the algorithm."""
    return f"{problem.fingerprint}-{digest((algorithm, problem.norm))}"


def _recording(record: int | Collection[int] | None) -> Callable[[int], bool]:
    """Return whether a step is to be kept."""
    if record is None or isinstance(record, Collection):
        return frozenset(() if record is None else record).__contains__
    check_integer("record", record, minimum=1)
    return lambda t: t % record == 0


def _start(problem: Problem, w0: Any) -> Array:
    if isinstance(w0, Result):
        raise TypeError("w0 must be an array; got a Result: pass result.w, or resume=result to go on.")
    w = np.zeros(problem.shape) if w0 is None else np.array(w0, dtype=np.float64)
    if w.shape != problem.shape:
        raise ValueError(f"w0 must have shape {problem.shape}; got {w.shape}.")
    if not np.isfinite(w).all():
        raise ValueError("w0 must be finite; it has a NaN or infinite entry.")
    return w


def _tightened(certificate: Certificate, problem: Problem, state: State) -> Certificate:
    certificate = certificate.best(certify(state.at))
    if state.t & (state.t - 1) == 0:  # t = 0 or a power of two: fixed, so that resumed runs agree
        # Further passes find what the pass of a step leaves open: digits, and u of a joint problem.
        is_rough = problem.unit_roundoff > UNIT_ROUNDOFF  # sums in float32 bound gamma_star loosely
        if is_rough:
            certificate = certificate.best(certify_in_double(problem, state.w))
        if (is_rough or problem.is_joint) and (v := state.at.dual_direction) is not None:
            certificate = certificate.best(margin_in_double(problem, v))
    own, weights = state.own_upper, state.own_weights
    if weights is not None:
        gain, gap = certificate.upper - own, certificate.upper - max(certificate.lower, 0.0)
        if gain > WORTH * gap:
            certificate = certificate.with_upper(accurate_upper(problem, weights), weights)
    elif own < certificate.upper:
        # The mean of t dual vectors: each has the error of its pass, and their sum one rounding for each.
        error = dual_vector_error(problem, problem.labels.smallest_weight)
        error += rounding_factor(4 * state.t + 16) * term_size(problem)
        own += problem.norm.dual_ratio(problem.shape) * error
        certificate = certificate.with_upper(raised(own, math.prod(problem.shape) + 8))
    return certificate


def _proof_of_overlap(problem: Problem, certificate: Certificate) -> Certificate | None:
    """Return the certificate with an upper bound of 0, if the weights of its bound prove that."""
    if problem.is_joint:
        return None
    error, weights = dual_vector_error(problem, 1.0), certificate.dual_weights
    is_zero = certificate.upper <= ZERO_BOUND * problem.max_norm + 2.0 * error
    if not is_zero or certificate.lower > 0.0:
        return None
    if weights is None and certificate.w_upper is not None:
        weights = weights_at(problem, certificate.w_upper)
    if weights is None or not proves_overlap(problem, weights):
        return None
    return certificate.with_upper(0.0, weights)


def _record(state: State, certificate: Certificate) -> Record:
    at, phase = state.at, max(state.phase - 1, 0)
    margin = at.gamma if at.length > 0.0 else math.nan
    return Record(state.t, phase, state.R_k, at.log_loss, margin, at.upper, certificate.gap)
