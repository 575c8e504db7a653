"""What an algorithm is: a frozen value with ``init`` and ``step``, both pure.

Of a first-order method the next steps are known as numbers, and thousands are taken in one call. A step is
along ``u``, the gradient, the normalized gradient or the dual vector with the sign of descent, and along a
momentum g, if there is one:

    g <- keep g + add u,    w <- w + along g + eta u,

then projected to the ball of radius R_k; or it is a rescaling, ``w <- R_k w / ||w||``. A method says by
`moves` which numbers its next steps have. `FirstOrder.step` takes the first of them, on any engine and in any
norm. `walk` takes many over small dense rows, by the compiled loop of ``_walk.py``: the same, bit by bit.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from prgd.core.checks import check_positive
from prgd.core.types import Array, Indices, Mask
from prgd.losses import EXPONENTIAL
from prgd.norms import L2, Norm, as_norm
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights, certify_all
from prgd.problem.coding import Evaluation
from prgd.rows.arrays import ArrayRows
from prgd.rows.labels import frozen
from prgd.rows.tally import COUNT, MARGIN, SECOND, SLOPE_MASS, Tally

# The softness Delta = <u, w> - R gamma(w) of a radius R goes to 0 if p_star is uniform on its support. Below
# this it counts as this (docs/algorithms.md): phases would have to come ever nearer to their ends.
SOFT_ENOUGH = 1e-2
INSTEAD_OF_JOINT = "PRGD, or one problem for each class"  # what algorithms for two classes advise
ALONG = ("gradient", "normalized_gradient", "dual_vector")  # in the order of the codes of the kernel
PLAIN, PROJECTED, RESCALED = range(3)  # kinds of steps, as in the kernel
LOG_LOSS, LENGTH, UPPER, SECOND_LENGTH = range(4)  # columns of the numbers that the kernel finds at each step
MOST_STEPS = 4096  # one call takes at most so many steps
CALL_ENTRIES = 2**25  # entries that one call reads at most: a twentieth of a second, so that Ctrl-C is heard
MOST_COLUMNS = 2**13  # up to which norms are products of BLAS
CALL_NUMBERS = 2**20  # one call keeps at most so many numbers


@dataclass(frozen=True, eq=False)
class State:
    """Where an algorithm stands. Arrays are never written to.

    Attributes
    ----------
    t : int
        Steps taken.
    at : Evaluation
        The iterate and the pass at it: who holds the state pays no second pass.
    phase : int
        The number k of the next phase, for algorithms that have phases.
    R_k : float
        The radius of the current phase, NaN for algorithms without one.
    """

    t: int
    at: Evaluation
    phase: int = 0
    R_k: float = math.nan

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # a step that wrote to a state would fail

    @property
    def w(self) -> Array:
        """The iterate w(t)."""
        return self.at.w

    @property
    def own_upper(self) -> float:
        """An upper bound on gamma_star that the algorithm proves beside that of the iterate."""
        return math.inf

    @property
    def own_weights(self) -> DualWeights | None:
        """The weights p behind ``own_upper``, if the algorithm holds them: they prove the bound."""
        return None


S = TypeVar("S", bound=State)


class Algorithm(Protocol[S]):
    """The interface that `prgd.run` drives."""

    state_type: ClassVar[type[State]]

    def init(self, problem: Problem, w0: Array) -> S:
        """Return the state at t = 0."""

    def step(self, problem: Problem, s: S) -> S:
        """Return the state one step later; ``problem.at(w)`` is its one pass."""


def evaluation_of(state: Any, algorithm: Any, before: State | None) -> Evaluation:
    """Return the Evaluation of a state; raise ``TypeError`` if a user's algorithm returned something else."""
    at, name = getattr(state, "at", None), type(algorithm).__name__
    if not (isinstance(at, Evaluation) and isinstance(state, State)):
        of = f" whose at is {type(at).__name__}" if isinstance(state, State) else ""
        raise TypeError(
            f"init and step of {name} must return a state, e.g. prgd.algorithms.State(t + 1, "
            f"problem.at(w)); got {type(state).__name__}{of}."
        )
    if before is not None and not (isinstance(state.t, (int, np.integer)) and state.t > before.t):
        raise TypeError(f"step of {name} must return a state of t + 1 = {before.t + 1}; got {state.t!r}.")
    return at


@dataclass(frozen=True)
class FixedStep:
    """What algorithms with one step size and no further state share.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(norm)``, where norm is that of the algorithm's steps.
    """

    eta: float = 1.0
    state_type: ClassVar[type[State]] = State

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)

    @property
    def step_unit(self) -> tuple[Norm | None, float]:
        """The unit of ``eta``: a norm, None for the problem's, and the power of the largest row in it."""
        return L2(), 2.0

    def init(self, problem: Problem, w0: Array) -> State:
        """Start at ``w0``."""
        return State(0, problem.at(w0))


class Moves(NamedTuple):
    """Consecutive steps of one kind.

    A number is the same for all steps, an array has one for each; if there are arrays, no other Moves follow.
    """

    steps: int
    eta: float | Array = 0.0
    keep: float | Array = 0.0
    add: float | Array = 0.0
    along: float | Array = 0.0
    R_k: float = math.nan
    kind: float = PLAIN
    phase: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentumState(State):
    """State of a method with momentum g."""

    g: Array


class MeanState(MomentumState):
    """State of a method whose momentum g gives a mean of dual vectors, a point of the hull too."""

    @property
    def mean(self) -> Array | None:
        """The mean dual vector; None before there is one."""
        raise NotImplementedError

    @property
    def own_upper(self) -> float:
        """The dual norm of the mean dual vector."""
        mean, problem = self.mean, self.at.problem
        # The weights of a joint step with intercepts balance to rounding only.
        if mean is None or (problem.is_joint and problem.fit_intercept):
            return math.inf
        # The loop adds what rounding may do to a Euclidean norm; other norms bound their own.
        return problem.norm.dual(mean) if problem.norm == L2() else problem.norm.dual_above(mean)


class FirstOrder:
    """What first-order methods share: one step, from the numbers of `moves`."""

    along: ClassVar[str] = "normalized_gradient"

    def norm_of(self, problem: Problem) -> Norm:
        """Return the norm of steps, rescalings and projections."""
        return L2()

    def moves(self, problem: Problem, s: Any, steps: int) -> Iterator[Moves]:
        """Yield the next steps of the method, at least one and at most so many."""
        raise NotImplementedError

    def step(self, problem: Problem, s: Any) -> Any:
        """Take the first step of `moves`."""
        move, norm = next(self.moves(problem, s, 1)), self.norm_of(problem)
        new = {"t": s.t + 1, "phase": move.phase, "R_k": move.R_k}
        if move.kind == RESCALED:
            return replace(s, at=problem.at(norm.rescale(s.w, move.R_k)), **new)
        u = getattr(s.at, self.along)
        u = norm.ascent(u if self.along == "dual_vector" else -u)
        eta, w = _first(move.eta), s.w
        if isinstance(s, MomentumState):
            new["g"] = _first(move.keep) * s.g + _first(move.add) * u
            w = w + _first(move.along) * new["g"]
        w = w + eta * u
        if move.kind == PROJECTED:
            w = norm.project(w, move.R_k)
        return replace(s, at=problem.at(w), **new)


def _first(number: float | Array) -> float:
    return float(number if np.ndim(number) == 0 else np.asarray(number)[0])


@dataclass(frozen=True, eq=False)
class Walk:
    """Steps that were taken in one call, with the Tally of each: `state` makes the state after one of them.

    Attributes
    ----------
    steps : int
    scalars : ndarray of shape (steps + 1, groups, 7), of the start and of each step
    numbers : ndarray of shape (steps + 1, 4): log L, ``||w||``, ``||u||`` and ``||v||``
    w, v, g : ndarray of shape (steps, d), g of no columns for a method without momentum
    phase, R_k : ndarray of shape (steps,)
    wants : ndarray of bool, whether the pass of a step found the margin of v
    """

    problem: Problem
    start: State
    steps: int
    scalars: Array
    vectors: Array
    numbers: Array
    w: Array
    v: Array
    g: Array
    phase: Indices
    R_k: Array
    wants: Mask

    @property
    def t(self) -> Indices:
        """The steps, as a run counts them."""
        return self.start.t + 1 + np.arange(self.steps)

    def smallest(self, column: int) -> Array:
        """Return the smallest margin of w or v after each step, at the best intercept: the classes' mean."""
        return np.asarray(self.scalars[1 : self.steps + 1, :, column].mean(axis=1))

    def bounds(self) -> tuple[Array, Array, Mask]:
        """Return what each step proves, as `certify` does, and whether its lower bound is that of v."""
        numbers, scalars = self.numbers[1 : self.steps + 1], self.scalars[1 : self.steps + 1]
        masses = np.where(scalars[:, :, COUNT] > 0.0, scalars[:, :, SLOPE_MASS], math.inf).min(axis=1)
        margins = np.array([self.smallest(MARGIN), self.smallest(SECOND)])
        lengths = numbers[:, [LENGTH, SECOND_LENGTH]].T
        lower, upper = certify_all(self.problem, margins, lengths, numbers[:, UPPER], masses)
        is_unseen = ~(self.wants[: self.steps] & np.isfinite(numbers[:, :UPPER]).all(axis=1))
        lower[:, is_unseen], upper[is_unseen] = -math.inf, math.inf
        return lower.max(axis=0), upper, lower[1] > lower[0]

    def state(self, k: int) -> State:
        """Return the state after the step of number k, counted from 0."""
        w, v = self.w[k].copy(), self.v[k].copy() if self.wants[k] and self.v[k].any() else None
        tally = Tally(self.scalars[k + 1].copy(), self.vectors[k + 1].copy())
        at = Evaluation(self.problem, w, tally, v)
        w.flags.writeable = False
        log_loss, length, upper, _ = self.numbers[k + 1].tolist()
        vars(at).update(log_loss=log_loss, length=length, upper=upper)
        new: dict[str, Any] = {"g": self.g[k].copy()} if self.g.size else {}
        t, phase, R_k = self.start.t + 1 + k, int(self.phase[k]), float(self.R_k[k])
        return replace(self.start, t=t, at=at, phase=phase, R_k=R_k, **new)


def can_walk(problem: Problem, algorithm: Any) -> bool:
    """Say whether `walk` serves: a first-order method in l2, two classes, dense rows that are few."""
    return (
        isinstance(algorithm, FirstOrder)
        and type(algorithm).step is FirstOrder.step
        and problem.norm == L2() == algorithm.norm_of(problem)
        and not problem.is_joint
        and isinstance(problem.rows, ArrayRows)
        and problem.rows.is_one_block
        and problem.d <= MOST_COLUMNS
    )


def walk(problem: Problem, algorithm: Any, s: Any, wants: Mask) -> Walk | None:
    """Take as many steps as ``wants`` has entries, or fewer; None if not one could be taken.

    The entries say whether a pass shall find the margin of the dual vector before it too.
    """
    from prgd.algorithms import _walk

    moves = list(algorithm.moves(problem, s, wants.size))
    counts, table = [move.steps for move in moves], _table(moves)
    steps, d = len(table), problem.d
    rows: Any = problem.rows
    A, y, weights, block, bounds = rows.arguments(problem.loss, problem.fit_intercept, problem.labels)
    groups = 2 if problem.fit_intercept else 1
    w, v = s.w.copy(), np.zeros(d)
    g = s.g.copy() if isinstance(s, MomentumState) else np.empty(0)
    scalars, vectors = np.empty((steps + 1, groups, SECOND + 1)), np.empty((steps + 1, groups, d))
    scalars[0, :, :SECOND], vectors[0] = s.at.tally.scalars[:, :SECOND], s.at.tally.vector
    paths, numbers = np.empty((3, steps, d)), np.empty((steps + 1, 4))
    taken = _walk.walk(
        A, y, weights, problem.loss.code, block, bounds, ALONG.index(algorithm.along), table, wants,
        w, frozen(w), v, frozen(v), g, scalars, vectors, paths, numbers,
    )  # fmt: skip
    problem.passes += taken
    phase, R_k = (np.repeat([getattr(m, name) for m in moves], counts) for name in ("phase", "R_k"))
    G = paths[2, :, : g.size]
    found = Walk(problem, s, taken, scalars, vectors, numbers, paths[0], paths[1], G, phase, R_k, wants)
    return found if taken else None


def _table(moves: list[Moves]) -> Array:
    """Return the numbers of each step, as the kernel takes them."""
    if len(moves) > 1:
        return np.repeat([move[1:-1] for move in moves], [move.steps for move in moves], axis=0)
    return np.column_stack(np.broadcast_arrays(*moves[0][1:-1], np.empty(moves[0].steps))[:-1])


def most_steps(problem: Problem) -> int:
    """Return how many steps one call takes at most."""
    by_time = CALL_ENTRIES // (problem.n * (problem.d + 16))
    return max(1, min(MOST_STEPS, by_time, CALL_NUMBERS // (4 * problem.d + 16)))


def read_norm(algorithm: Any) -> None:
    """Turn the field ``norm`` of an algorithm, if it is a name or a number, into the norm itself."""
    if algorithm.norm is not None:
        object.__setattr__(algorithm, "norm", as_norm(algorithm.norm))


def norm_for(problem: Problem, norm: Any) -> Norm:
    """Return the norm in which an algorithm steps: that of its field, or else that of the problem."""
    return problem.norm if norm is None else as_norm(norm)


def check_problem(
    algorithm: Any, problem: Problem, *, instead_of_joint: str | None = None, is_exponential: bool = False
) -> None:
    """Raise ``ValueError`` unless margins are in l2 and, if asked, w is a vector and the loss exponential.

    ``instead_of_joint`` says what to use for joint problems, if the algorithm is for two classes alone.
    """
    name = type(algorithm).__name__
    if is_exponential and problem.loss != EXPONENTIAL:
        raise ValueError(
            f"{name} needs loss='exponential': log L is convex there; got loss={str(problem.loss)!r}. The "
            "separator of largest margin is the same."
        )
    if problem.norm != L2():
        raise ValueError(
            f"{name} needs a problem with norm='l2', whose balls and distances it uses; got "
            f"norm={problem.norm.name!r}. Use PRGD or SteepestDescent, which step in any norm."
        )
    if instead_of_joint is not None and problem.is_joint:
        raise ValueError(
            f"{name} is for two classes and w of shape (d,); got a joint problem, with w of shape "
            f"{problem.shape}. Use {instead_of_joint}."
        )
