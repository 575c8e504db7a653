r"""The smallest centripetal velocity over a cylinder, found by optimisation beside the proven bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd.core.types import Array
from prgd_paper.theory.cylinder import Constants, Cylinder, favorable_cylinder
from prgd_paper.theory.ray_geometry import Geometry, facets, inradius, require_nondegenerate

POLISHED = 5  # number of the best starts, no two of them alike, that are polished
ALIKE = 0.99  # two starts are alike if the cosine between them is at least this
ITERATIONS = 80  # projected gradient steps of the polish
Found = tuple[float, Array, float]  # a velocity, with its direction v and its share tau
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
    """

    value: float
    v: Array
    D: float
    h: float

    def __repr__(self) -> str:
        return f"Infimum({self.value:.6g} at D={self.D:.6g}, h={self.h:.6g})"


def velocity_infimum(data: Any, cylinder: Cylinder, *, starts: int = 200, seed: int = 0) -> Infimum:
    r"""Search a cylinder for the smallest centripetal velocity.

    .. math:: \inf_{w \in C(D_1, D_2; H)} \varphi(w)

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

    Returns
    -------
    Infimum

    Raises
    ------
    NotSeparableError, ValueError
        As `favorable_cylinder`.

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
    D, H = cylinder.D1, cylinder.H
    best, v, tau = _worst(g, D, H, _starts(g, starts, seed), shares=(1.0, 0.3, 0.03, 1e-4))
    h = H - math.log(tau) / g.delta if tau > 0.0 else math.inf if g.n > g.n_support else H
    return Infimum(best, g.basis @ v, D, h)


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
        value, v, _ = _worst(g, middle, 0.0, V, shares=(1.0, 0.3, 0.03))
        V = np.vstack([V, v])
        low, high = (middle, high) if value < share * rho else (low, middle)
    found = velocity_infimum(g, Cylinder(high, 2.0 * high, 0.0), starts=starts, seed=seed)
    return Constants("numerical", high, 0.0, math.log(safety * min(found.value, share * rho)), g.scale)


def _worst(g: Geometry, D: float, H: float, V: Array, shares: tuple[float, ...]) -> Found:
    """Return the smallest velocity with its v and tau; tau is 0 in the limit of infinite height."""
    # In the limit only support vectors count. Neither H nor tau changes their weights, so tau = 1 serves.
    nothing = np.zeros(g.n_support)
    value, v, _ = _search(_Velocity(g.U[g.is_support], D, nothing, nothing), V, (1.0,))
    far = (value, v, 0.0)
    if g.n == g.n_support:
        return far
    near = _search(_Velocity(g.U, D, H * g.excess, g.excess / g.delta), V, shares)
    return min(far, near, key=lambda found: found[0])


def _starts(g: Geometry, count: int, seed: int) -> Array:
    """Return unit directions: facet normals, the rows themselves, principal axes, random ones."""
    U = g.U[g.is_support]
    _, axes = np.linalg.eigh(U.T @ U)
    drawn = np.random.default_rng(seed).standard_normal((count, U.shape[1]))
    hull = facets(g)
    V = np.vstack([U, -U, axes.T, -axes.T, drawn, *([] if hull is None else [hull.normals])])
    lengths: Array = np.linalg.norm(V, axis=1)
    return V[lengths > 0.0] / lengths[lengths > 0.0, None]


def _search(velocity: _Velocity, V: Array, shares: tuple[float, ...]) -> Found:
    """Return the smallest velocity found from all directions and shares, its v and its tau."""
    x = np.vstack([np.column_stack([V, np.full(len(V), share)]) for share in shares])
    x = _polished(velocity, x[_distinct(velocity.at(x)[0], x[:, :-1])])
    values, _ = velocity.at(x)
    best = int(np.argmin(values))
    return float(values[best]), x[best, :-1], float(x[best, -1])


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

    def at(self, x: Array) -> tuple[Array, Array]:
        """Return the velocity at each row of x, and its slopes along the sphere of v and along tau."""
        v, tau = x[:, :-1], x[:, -1]
        along = v @ self.U.T
        exponent = self.D * along - self.offset + np.multiply.outer(np.log(tau), self.powers)
        p = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        values = (p * along).sum(axis=1)
        centred = along - values[:, None]
        slope = (p * (1.0 + self.D * centred)) @ self.U
        slope -= (slope * v).sum(axis=1, keepdims=True) * v
        return values, np.column_stack([slope, ((p * centred) @ self.powers) / tau])


def _polished(velocity: _Velocity, x: Array) -> Array:
    """Descend from each point at once: projected gradients, steps of Barzilai and Borwein, backtracking."""
    value, slope = velocity.at(x)
    step = 1.0 / (1.0 + velocity.D * (velocity.U**2).sum(axis=1).max()) * np.ones(len(x))
    for _ in range(ITERATIONS):
        trial = x - step[:, None] * slope
        trial[:, :-1] /= np.linalg.norm(trial[:, :-1], axis=1, keepdims=True)
        trial[:, -1] = np.clip(trial[:, -1], TINY_SHARE, 1.0)
        moved = trial - x
        trial_value, trial_slope = velocity.at(trial)
        falls = trial_value <= value + 1e-4 * (slope * moved).sum(axis=1)
        bend = (moved * (trial_slope - slope)).sum(axis=1)
        size = (moved**2).sum(axis=1)
        longer = np.where(bend > 0.0, size / np.where(bend > 0.0, bend, 1.0), 4.0 * step)
        step = np.clip(np.where(falls, longer, 0.25 * step), 1e-12, 1e6)
        x, value = np.where(falls[:, None], trial, x), np.where(falls, trial_value, value)
        slope = np.where(falls[:, None], trial_slope, slope)
        if size.max() < 1e-24:
            break
    return x
