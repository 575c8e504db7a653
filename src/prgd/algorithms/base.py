"""What an algorithm is: a frozen value with ``init`` and ``step``, both pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from prgd.core.arithmetic import EPSILON
from prgd.core.checks import check_positive
from prgd.core.types import Array
from prgd.losses import EXPONENTIAL
from prgd.norms import L2, Norm, as_norm
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.problem.coding import Evaluation

MAX_SCALE = 1e-3 / EPSILON  # at margins of this size, rounding moves the dual weights by 1e-3
# The softness Delta = <u, w> - R gamma(w) of a radius R goes to 0 if p_star is uniform on its support. Below
# this it counts as this (docs/exponential.md): phases would have to come ever nearer to their ends.
SOFT_ENOUGH = 1e-2
INSTEAD_OF_JOINT = "PRGD, or one problem for each class"  # what algorithms for two classes advise


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


def states(problem: Problem, algorithm: Algorithm[S], w0: Array | None = None) -> Iterator[S]:
    """Yield the states of an algorithm without end, the first at ``w0``, by default 0.

    Steps alone, without the certificates and records of `prgd.run`, are three times as fast.

    Examples
    --------
    >>> import prgd
    >>> walk = states(prgd.Problem([[1.0, 2.0]]), prgd.NGD())
    >>> [next(walk).t for _ in range(3)]
    [0, 1, 2]
    """
    state = algorithm.init(problem, np.zeros(problem.shape) if w0 is None else w0)
    while True:
        yield state
        state = algorithm.step(problem.after(state.at), state)


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
