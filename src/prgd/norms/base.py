"""What every norm answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from prgd.core.types import Array, Indices


class Norm(ABC):
    r"""A norm of weights w of shape (d,) or (K, d), its dual norm and its direction of steepest ascent.

    .. math::

        \|u\|_* = \max_{\|s\| \le 1} \langle u, s\rangle, \qquad s(u) \in \arg\max_{\|s\| \le 1} \langle u,
        s\rangle

    A norm is a value: a frozen dataclass that compares equal to another one of the same fields. A subclass
    gives the abstract methods below; text is turned into it if `prgd.norms.NORMS` has a line for it.
    Numbers from 1e-300 to 1e300 neither overflow nor underflow in any method.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The text that `prgd.norms.as_norm` reads back as this norm."""

    @property
    @abstractmethod
    def row_exponent(self) -> float:
        """The q for which ``||x||_q`` is the dual norm of a row x of a problem of two classes."""

    @property
    @abstractmethod
    def pair_factor(self) -> float:
        """The c for which ``c ||x||_q`` is the dual norm of the matrix ``(e_y - e_j) x^T`` of two classes."""

    @property
    def program(self) -> str:
        """The program of `prgd.solvers.programs` that maximises margins in this norm."""
        raise NotImplementedError(f"{self.name} states no program: max_margin does not solve in this norm.")

    @property
    def is_rotation_invariant(self) -> bool:
        """Whether rotations of the columns of w do not change the norm."""
        return False

    @abstractmethod
    def __call__(self, w: Array) -> float:
        """Return ``||w||``."""

    @abstractmethod
    def dual(self, u: Array) -> float:
        """Return the dual norm, the largest ``<u, w>`` over ``||w|| <= 1``."""

    @abstractmethod
    def steepest(self, u: Array) -> Array:
        """Return a w of norm 1 with ``<u, w> = dual(u)``, the direction of steepest ascent; 0 at u = 0."""

    @abstractmethod
    def above(self, w: Array) -> float:
        """Return a number that is at least ``||w||`` in exact arithmetic, and larger by rounding alone."""

    @abstractmethod
    def dual_above(self, u: Array) -> float:
        """Return a number that is at least ``dual(u)`` in exact arithmetic, and larger by rounding alone."""

    @abstractmethod
    def dual_ratio(self, shape: tuple[int, ...]) -> float:
        """Return a number that is at least ``dual(v) / ||v||_2`` for every v of the shape."""

    def dual_of_bounds(self, bounds: Array) -> float:
        """Return a number that is at least ``dual(E)`` for every E of entries ``|E_i| <= bounds_i``.

        Most dual norms depend on absolute values alone and grow with each of them, so that
        ``dual_above(bounds)`` is such a number. The nuclear norm does not, and `Spectral` has its own.
        """
        return self.dual_above(bounds)

    def ascent(self, u: Array) -> Array:
        """Return ``dual(u) steepest(u)``, the step that maximises ``<u, v> - ||v||^2 / 2`` over v."""
        return self.dual(u) * self.steepest(u)

    def rescale(self, w: Array, R: float) -> Array:
        """Return the multiple of w whose norm is R; w must not be zero."""
        return (w / self(w)) * R

    def project(self, w: Array, R: float) -> Array:
        """Return w if it lies in the ball of radius R, else its multiple of norm R."""
        return w if self(w) <= R else self.rescale(w, R)

    def cone_groups(self, entries: Indices) -> Indices:
        """Return entries of w in groups, as rows, if the norm is the sum of the l2 norms of groups."""
        raise NotImplementedError(f"The ball of {self.name} is no product of second-order cones.")

    def check_shape(self, shape: tuple[int, ...]) -> None:  # noqa: B027, as most norms take every shape
        """Raise ``ValueError`` if the norm does not measure weights of this shape."""

    def __str__(self) -> str:
        return self.name
