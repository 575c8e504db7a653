r"""The smallest centripetal velocity over a cylinder, found by optimisation beside the proven bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd._types import Array
from prgd.theory.cylinder import Constants, Cylinder, favorable_cylinder, velocity_bound
from prgd.theory.ray_geometry import Geometry, facets, inradius, require_nondegenerate

POLISHED = 5  # number of the best starts, no two of them alike, that are polished
ALIKE = 0.99  # two starts are alike if the cosine between them is at least this
ITERATIONS = 80  # projected gradient steps of the polish
TINY_SHARE = 1e-30  # smallest tau of the polish, whose logarithm is taken


@dataclass(frozen=True, eq=False)
class Infimum:
    """The smallest velocity found over a cylinder.

    Attributes
    ----------
    value : float
        An upper bound of the infimum: the velocity at the worst point found, or its limit.
    v : ndarray of shape (d,)
        The unit direction off the ray of that point ``h w_star + D v``.
    D, h : float
        Its radius and height; ``h`` is infinite if the infimum is the limit of infinite height.
    at_infinity : float
        The smallest velocity in the limit of infinite height, where only support vectors count.
    lower : float
        The proven bound of `velocity_bound`.
    """

    value: float
    v: Array
    D: float
    h: float
    at_infinity: float
    lower: float

    def __repr__(self) -> str:
        return f"Infimum({self.value:.6g} at D={self.D:.6g}, h={self.h:.6g}; proven >= {self.lower:.6g})"


def velocity_infimum(
    data: Any, cylinder: Cylinder, *, starts: int = 200, seed: int = 0, directions: Any = None
) -> Infimum:
    r"""Search a cylinder for the smallest centripetal velocity.

    Along each direction the velocity is the derivative of a convex function of D, so it is smallest at
    ``D1``: the search is over unit directions v and over the share
    :math:`\tau = e^{-(h - H) \Delta} \in [0, 1]` of the rows off the support, whose end 0 is the limit of
    infinite height, in closed form. Many starts, among them the normals of the hull's facets, the best
    polished by projected gradients.

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
        Non-degenerate.
    cylinder : Cylinder
    starts : int
        Random directions beside the chosen ones.
    seed : int
    directions : array of shape (m, d), optional
        Further starts, orthogonal to ``w_star`` and in the span of the data.

    Returns
    -------
    Infimum

    Raises
    ------
    NotSeparableError, ValueError
        As `favorable_cylinder`; ``ValueError`` too for directions outside the span.

    References
    ----------
    The infimum of Theorem 5.5 of the paper.

    Examples
    --------
    >>> Z = [[0.2, 0.1], [0.2, -0.01]]
    >>> printed = favorable_cylinder(Z).printed
    >>> round(velocity_infimum(Z, printed.cylinder).value, 6)  # negative: not favourable
    -0.024482
    """
    g = require_nondegenerate(data)
    given = [] if directions is None else [_direction(g, row) for row in np.atleast_2d(directions)]
    V = np.vstack([*given, _starts(g, starts, seed)])
    D, H = cylinder.D1, cylinder.H
    (best, v, tau), far = _worst(g, D, H, V, shares=(1.0, 0.3, 0.03, 1e-4))
    h = H - math.log(tau) / g.delta if tau > 0.0 else math.inf if g.n > g.n_support else H
    return Infimum(best, g.basis @ v, D, h, far, velocity_bound(g, cylinder))


@dataclass(frozen=True, eq=False)
class BoundCheck:
    """A velocity bound against the infimum found, compared in logarithms.

    Attributes
    ----------
    constants : Constants
    infimum : Infimum
    holds : bool
        Whether ``log(infimum) >= log_mu``.
    looseness : float
        ``log(infimum) - log_mu``: by what power of e the bound is loose; NaN if the velocity is not
        positive.
    """

    constants: Constants
    infimum: Infimum

    @property
    def looseness(self) -> float:
        """``log(infimum) - log_mu``."""
        value = self.infimum.value
        return math.log(value) - self.constants.log_mu if value > 0.0 else math.nan

    @property
    def holds(self) -> bool:
        """Whether the infimum found is at least mu."""
        return self.looseness >= 0.0


def check_bound(data: Any, kind: str = "corrected", *, starts: int = 200, seed: int = 0) -> BoundCheck:
    r"""Compare the bound of Theorem 5.5 with the infimum found by optimisation.

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
    kind : {"printed", "corrected", "convexity"}
    starts, seed : as in `velocity_infimum`.

    Returns
    -------
    BoundCheck

    References
    ----------
    Theorem 5.5 of the paper.

    Examples
    --------
    >>> Z = [[0.2, 0.1], [0.2, -0.01]]
    >>> [check_bound(Z, kind).holds for kind in ("printed", "corrected", "convexity")]
    [False, True, True]
    """
    found = favorable_cylinder(data)
    constants = found[kind]
    infimum = velocity_infimum(found.geometry, constants.cylinder, starts=starts, seed=seed)
    return BoundCheck(constants, infimum)


def numerical_constants(
    data: Any, *, share: float = 0.5, safety: float = 0.9, starts: int = 100, seed: int = 0
) -> Constants:
    r"""Return constants found by optimisation: the smallest D whose velocity is a share of the largest.

    The velocity over :math:`C(D, 2D; 0)` rises with D to the inradius rho at least. D is found by
    bisection so that its infimum is ``share * rho``; mu is ``safety`` times that, since a search proves
    nothing.

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
    share, safety : float, in (0, 1).
    starts, seed : as in `velocity_infimum`.

    Returns
    -------
    Constants
        Of kind ``"numerical"``, with H = 0.

    References
    ----------
    These constants stand in for those of Theorem 5.5 if the latter are out of reach.

    Examples
    --------
    >>> Z = [[0.6, 0.8], [0.6, -0.8]]
    >>> round(numerical_constants(Z).D, 3)  # 0.8 tanh(0.8 D) = 0.4
    0.687
    """
    for name, number in (("share", share), ("safety", safety)):
        if not 0.0 < number < 1.0:
            raise ValueError(f"{name} must lie strictly between 0 and 1; got {number!r}.")
    g = require_nondegenerate(data)
    rho = inradius(g).value
    V = _starts(g, starts, seed)
    # At the upper end the proven bound is share * rho already.
    low, high = 0.0, math.log(g.n) / ((1.0 - share) * rho)
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        (value, v, _), _ = _worst(g, middle, 0.0, V, shares=(1.0, 0.3, 0.03))
        V = np.vstack([V, v])
        low, high = (middle, high) if value < share * rho else (low, middle)
    found = velocity_infimum(g, Cylinder(high, 2.0 * high, 0.0), starts=starts, seed=seed)
    return Constants("numerical", high, 0.0, math.log(safety * min(found.value, share * rho)), g.scale)


def _worst(
    g: Geometry, D: float, H: float, V: Array, shares: tuple[float, ...]
) -> tuple[tuple[float, Array, float], float]:
    """Return the smallest velocity with its v and tau, and the smallest in the limit of infinite height."""
    far = _search(g, D, H, V, shares=(0.0,))
    if g.n == g.n_support:
        return far, far[0]
    return min(far, _search(g, D, H, V, shares), key=lambda found: found[0]), far[0]


def _direction(g: Geometry, v: Array) -> Array:
    """Return a unit direction in the coordinates of the basis."""
    off = g.point(0.0, v)
    if not np.any(off):
        raise ValueError("A direction must not be zero.")
    coordinates: Array = g.basis.T @ (off / np.linalg.norm(off))
    return coordinates


def _starts(g: Geometry, count: int, seed: int) -> Array:
    """Return unit directions: facet normals, the rows themselves, principal axes, random ones."""
    U = g.U[g.is_support]
    _, axes = np.linalg.eigh(U.T @ U)
    drawn = np.random.default_rng(seed).standard_normal((count, U.shape[1]))
    hull = facets(g)
    V = np.vstack([U, -U, axes.T, -axes.T, drawn, *([] if hull is None else [hull.normals])])
    lengths: Array = np.linalg.norm(V, axis=1)
    starts: Array = V[lengths > 0.0] / lengths[lengths > 0.0, None]
    return starts


def _search(
    g: Geometry, D: float, H: float, V: Array, shares: tuple[float, ...]
) -> tuple[float, Array, float]:
    """Return the smallest velocity over directions (and shares, unless they are (0,)), its v and its tau."""
    far = shares == (0.0,)
    rows = g.is_support if far else slice(None)
    velocity = _Velocity(
        g.U[rows], D, H * g.excess[rows], np.zeros(g.n_support) if far else g.excess / g.delta
    )
    q = V.shape[1]
    x = np.vstack([np.column_stack([V, np.full(len(V), share)]) for share in shares])
    if far:
        x[:, q] = 1.0  # No support vector depends on tau, and log 1 = 0.
    x = _polished(velocity, x[_distinct(velocity.values(x), x[:, :q])])
    values = velocity.values(x)
    best = int(np.argmin(values))
    return float(values[best]), x[best, :q], 0.0 if far else float(x[best, q])


def _distinct(values: Array, V: Array) -> list[int]:
    """Return which starts are best, no two with nearly the same direction."""
    chosen: list[int] = []
    for row in np.argsort(values)[: 50 * POLISHED].tolist():
        if len(chosen) < POLISHED and (V[chosen] @ V[row] < ALIKE).all():
            chosen.append(row)
    return chosen


class _Velocity:
    """The velocity at points (v, tau): a unit direction and the share of the rows off the support."""

    def __init__(self, U: Array, D: float, offset: Array, powers: Array) -> None:
        self.U, self.D, self.offset, self.powers = U, D, offset, powers

    def _weights(self, x: Array) -> tuple[Array, Array]:
        along = x[:, :-1] @ self.U.T
        exponent = self.D * along - self.offset + np.multiply.outer(np.log(x[:, -1]), self.powers)
        p = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return along, p / p.sum(axis=1, keepdims=True)

    def values(self, x: Array) -> Array:
        along, p = self._weights(x)
        return np.asarray((p * along).sum(axis=1))

    def slopes(self, x: Array) -> Array:
        along, p = self._weights(x)
        centred = along - (p * along).sum(axis=1, keepdims=True)
        slope = (p * (1.0 + self.D * centred)) @ self.U
        slope -= (slope * x[:, :-1]).sum(axis=1, keepdims=True) * x[:, :-1]
        return np.column_stack([slope, ((p * centred) @ self.powers) / x[:, -1]])


def _polished(velocity: _Velocity, x: Array) -> Array:
    """Descend from each point at once: projected gradients, steps of Barzilai and Borwein, backtracking."""
    value, slope = velocity.values(x), velocity.slopes(x)
    step = 1.0 / (1.0 + velocity.D * (velocity.U**2).sum(axis=1).max()) * np.ones(len(x))
    for _ in range(ITERATIONS):
        trial = x - step[:, None] * slope
        trial[:, :-1] /= np.linalg.norm(trial[:, :-1], axis=1, keepdims=True)
        trial[:, -1] = np.clip(trial[:, -1], TINY_SHARE, 1.0)
        moved = trial - x
        trial_value = velocity.values(trial)
        falls = trial_value <= value + 1e-4 * (slope * moved).sum(axis=1)
        trial_slope = velocity.slopes(trial)
        bend = (moved * (trial_slope - slope)).sum(axis=1)
        size = (moved**2).sum(axis=1)
        longer = np.where(bend > 0.0, size / np.where(bend > 0.0, bend, 1.0), 4.0 * step)
        step = np.clip(np.where(falls, longer, 0.25 * step), 1e-12, 1e6)
        x, value = np.where(falls[:, None], trial, x), np.where(falls, trial_value, value)
        slope = np.where(falls[:, None], trial_slope, slope)
        if size.max() < 1e-24:
            break
    return x
