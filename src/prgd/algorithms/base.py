"""What an algorithm is: a frozen value with ``init`` and ``step``, both pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from prgd._types import Array
from prgd.problem import Problem


@dataclass(frozen=True, eq=False)
class State:
    """Where an algorithm stands: the step t and the iterate w. Arrays are never written to.

    A subclass may add the phase ``k``, the radius ``R_k``, or ``dual``, a vector ``Z^T p`` whose norm
    is an upper bound of its own.
    """

    t: int
    w: Array


S = TypeVar("S", bound=State)


class Algorithm(Protocol[S]):
    """The interface that `prgd.run` drives."""

    state_type: ClassVar[type[State]]

    def init(self, problem: Problem, w0: Array) -> S:
        """Return the state at t = 0."""
        ...

    def step(self, problem: Problem, s: S) -> S:
        """Return the state one step later."""
        ...
