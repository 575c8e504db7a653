r"""Interior point: the maximum margin over a set of rows, in as many dimensions as it has columns or rows.

Pairwise descent needs ever more steps as the margin shrinks against the row norms. Mehrotra's predictor and
corrector take 10 to 40 steps for any margin. Each step solves systems in :math:`I + Z^\top D Z`, with a
positive diagonal D: over the columns (`Columns`) if the rows are many, else over the rows (`Products`), where
``w = Z^T c`` is held by its coefficients c and the Gram matrix is all that is needed of Z.

Arrays are those of NumPy or torch. Products also take a batch: many label sets over one Gram matrix, all
arrays with one more axis in front, of which each problem ends on its own.

References
----------
S. Mehrotra (1992). On the implementation of a primal-dual interior point method. SIAM J. Optim. 2(4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from prgd.core.arithmetic import at_least, dot, like, namespace, smallest, to_host, total
from prgd.core.types import Array
from prgd.norms import norm
from prgd.solvers.linear_systems import Columns, Coordinates, Products
from prgd.solvers.working_set import SMALL_MARGIN, WorkingSet

_MAX_STEPS = 80
_STEP_FRACTION = 0.99  # fraction of the step to the boundary that is taken
_START_FRACTION = 0.1  # smallest margin g to aim at, in units of the mean size of the margins at the start
_MIN_UPPER = 1e-300  # a bound of zero would divide
_MIN_TARGET = 1e-12  # smallest margin g to aim at, in units of the largest row norm
_CLOSE = 1e-3  # a gap below which it falls from step to step, until rounding ends that
# A system over the rows is as expensive as one over the columns if the rows are about twice as many.
_MAX_ROWS_PER_COLUMN = 1.5
_FEW_COLUMNS = 64  # systems over so few columns are cheap, and more accurate than products of rows


class InteriorPoint(NamedTuple):
    """A point of the interior-point method, and the bounds that it gives over the rows.

    With a batch, all have one more axis in front.

    Attributes
    ----------
    x : array, the direction in its coordinates
    p : array of shape (m,), positive weights of sum 1 (in each class, with an intercept)
    is_active : array of bool, shape (m,)
        Rows whose weight is larger than their slack: the support, once the gap is small.
    upper, gap : number
        The norm ``||Z^T p||`` in units of the largest row norm, and its relative distance to the margin of w.
        Both are rounded like any float64 sum: they steer, and prove nothing.
    """

    x: Any
    p: Any
    is_active: Any
    upper: Any
    gap: Any


@dataclass(eq=False)
class _Path:
    r"""The iterates ``x, b, s, lam`` towards the solution, and one step of the method.

    .. math:: \min \tfrac12 \|w\|^2 \quad \text{subject to} \quad \langle w, z_i \rangle + b y_i \ge g

    with g near the margin, so that ``||w||`` ends near 1; s are the slacks and lam the multipliers.
    """

    at: Coordinates
    signs: Any
    groups: list[Any]
    left_out: Any  # mask of the rows that each problem of a batch leaves out; None without a batch
    g: Any
    x: Any
    b: Any
    s: Any
    lam: Any
    margins: Any

    @classmethod
    def start(cls, at: Coordinates, signs: Any, fit_intercept: bool, x: Any) -> _Path:
        """Begin with the direction x and slacks of half of its median margin at least."""
        xp = namespace(signs)
        left_out = signs == 0 if signs.ndim > 1 else None
        groups = groups_of(signs, fit_intercept)
        x = x / at.length(x)
        margins = at.margins(x)
        b = 0.0 * total(margins)
        if fit_intercept:
            plus, minus = (smallest_in(margins, group) for group in groups)
            b = 0.5 * (minus - plus)
        reached = margins + b * signs
        # A start that separates few rows has a median near zero; slacks as small would leave no room to move.
        sizes = xp.abs(reached) if left_out is None else xp.where(left_out, 0.0, xp.abs(reached))
        least = _START_FRACTION * total(sizes) / at_least(total(sizes > 0.0), 1)
        g = at_least(xp.maximum(_median(reached, left_out), least), _MIN_TARGET)
        s = xp.where(reached > 1.5 * g, reached - g, 0.5 * g)
        inverse = 1.0 / s if left_out is None else xp.where(left_out, 0.0, 1.0 / s)
        lam = inverse / (g * total(inverse))
        return cls(at, signs, groups, left_out, g, x, b, s, lam, margins)

    def keep(self, some: Any) -> _Path:
        """Return the path of some problems of a batch."""
        at, groups = replace(cast(Products, self.at), signs=self.signs[some]), [g[some] for g in self.groups]
        numbers = (v[some] for v in (self.g, self.x, self.b, self.s, self.lam, self.margins))
        return _Path(at, self.signs[some], groups, self.left_out[some], *numbers)

    def _counted(self, v: Any) -> Any:
        """Return v, zero in the places of rows that are left out."""
        return v if self.left_out is None else namespace(v).where(self.left_out, 0.0, v)

    def measure(self) -> InteriorPoint:
        """Return the bounds of the point, from its weights and its direction."""
        groups = self.groups
        p = normalized(self.lam, groups)
        length = self.at.length(self.x)
        upper = self.at.bound(p) / len(groups)
        lower = sum(smallest_in(self.margins, group) for group in groups) / (len(groups) * length)
        positive = at_least(upper, _MIN_UPPER)
        gap = at_least((positive - lower) / positive, 0.0)
        # Weights and slacks in units of the margin have no unit, so they can be compared.
        return InteriorPoint(self.x, p, p * (positive * length) > self.s, upper, gap)

    def step(self) -> Any:
        """Take a step; return, for each problem, whether its numbers stayed finite."""
        xp, s, lam = namespace(self.s), self.s, self.lam
        count = len(s) if self.left_out is None else (~self.left_out).sum(-1, keepdims=True)
        mu, dual = dot(s, lam) / count, self.at.combine(lam) - self.at.gradient(self.x)
        primal = self._counted(self.margins + self.b * self.signs - s - self.g)
        signs = self.signs if len(self.groups) == 2 else None
        move = linearised(self.at, s, lam, primal, dual, signs, self.left_out)
        # The predictor aims at mu = 0; how far its step reaches says how much of mu the corrector keeps.
        _, _, ds, dlam = move(0.0, 0.0)
        reached = dot(s + reach(s, ds) * ds, lam + reach(lam, dlam) * dlam) / count
        dx, db, ds, dlam = move(mu * (reached / mu) ** 3, ds * dlam)
        size = _STEP_FRACTION * xp.minimum(reach(s, ds), reach(lam, dlam))
        is_finite = xp.isfinite(size * (total(dx) + total(dlam)))
        if bool(is_finite.all()):
            self.x, self.b = self.x + size * dx, self.b + size * db
            self.s, self.lam = s + size * ds, lam + size * dlam
        else:  # problems whose numbers left the floating range stay where they were
            changes = ((self.x, dx), (self.b, db), (s, ds), (lam, dlam))
            self.x, self.b, self.s, self.lam = (xp.where(is_finite, v + size * dv, v) for v, dv in changes)
        self.margins = self.at.margins(self.x)
        return is_finite


def linearised(
    at: Coordinates, s: Any, lam: Any, primal: Any, dual: Any, signs: Any = None, left_out: Any = None
) -> Callable[..., tuple[Any, Any, Any, Any]]:
    """Linearise the KKT conditions: stationarity, primal feasibility, complementarity of s and lam.

    Parameters
    ----------
    primal, dual : arrays
        The residuals of primal feasibility and of stationarity.
    signs : array, optional
        The coefficients of an intercept. It borders the system by one row and column, and is eliminated.
    left_out : array of bool, optional

    Returns
    -------
    callable
        ``move(target, second_order, removed=1.0)`` returns the changes of x, b, s and lam that bring
        ``s lam`` to the target for these second-order terms, and remove a fraction of the residuals.
    """
    ratio = lam / s
    solve, q, mq, curvature = at.solver(ratio), None, None, None
    if signs is not None:
        q = solve(at.combine(ratio * signs))
        mq = at.margins(q)
        curvature = dot(ratio * signs, signs - mq)

    def move(target: Any, second_order: Any, removed: float = 1.0) -> tuple[Any, Any, Any, Any]:
        right = (target - second_order) / s - lam
        if left_out is not None:
            right = namespace(s).where(left_out, 0.0, right)
        v = right - ratio * (removed * primal)
        dx = solve(removed * dual + at.combine(v))
        ds, db = at.margins(dx), 0.0
        if q is not None:
            db = dot(signs, lam + v - ratio * ds) / curvature
            dx, ds = dx - db * q, ds - db * mq + db * signs
        ds = ds + removed * primal
        return dx, db, ds, right - ratio * ds

    return move


def maximise_margin(
    at: Coordinates, signs: Any, fit_intercept: bool, start: Any, tol: float, patience: int = _MAX_STEPS
) -> InteriorPoint:
    r"""Maximise the margin of m rows until the relative gap over them is at most ``tol``.

    Parameters
    ----------
    at : Columns or Products
        The rows, and the coordinates of w.
    signs : array of shape (m,), the labels as +1 and -1
    fit_intercept : bool
    start : array
        A direction in these coordinates, not zero, e.g. the answer for a smaller set.
    tol : float
    patience : int
        Steps without a smaller gap after which rounding is taken to have ended the progress of a problem that
        is not in a batch, once its gap is small.

    Returns
    -------
    InteriorPoint
        The best point seen; its gap is above ``tol`` if rounding ends the steps, or its bound vanishes.

    Examples
    --------
    >>> Z = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> found = maximise_margin(Columns(Z, 5.0), np.ones(3), False, np.ones(2), 1e-9)
    >>> found.p.round(6), found.is_active
    (array([0.2, 0.8, 0. ]), array([ True,  True, False]))
    >>> maximise_margin(Products(Z @ Z.T, 5.0), np.ones(3), False, np.ones(3), 1e-9).p.round(6)
    array([0.2, 0.8, 0. ])
    """
    # What leaves the floating range is found by its numbers: such a point is never the best.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        path = _Path.start(at, signs, fit_intercept, start)
        best = path.measure()
        return _follow(path, best, best.gap <= tol, tol, _MAX_STEPS, patience)


def _follow(
    path: _Path, best: InteriorPoint, ended: Any, tol: float, max_steps: int, patience: int
) -> InteriorPoint:
    """Take steps until all problems have ended; if half of a batch have, the others go on without them."""
    xp, last_better = namespace(path.s), max_steps
    for step in range(max_steps):
        if bool(ended.all()) or step > last_better + patience:
            break
        if path.left_out is not None and 2 * int(ended.sum()) >= len(ended) > 1:
            rest = ~ended[:, 0]
            own = path.keep(rest), InteriorPoint(*(v[rest] for v in best)), ended[rest]
            for whole, part in zip(best, _follow(*own, tol, max_steps - step, patience), strict=True):
                whole[rest] = part
            break
        try:
            is_finite = path.step()
        except np.linalg.LinAlgError:  # the system is not definite to rounding
            break
        now = path.measure()
        has_vanished = now.upper <= path.at.vanished
        better = ~ended & is_finite & (has_vanished | (now.gap < best.gap))
        if better.ndim == 0:
            # As long as no direction separates the rows, the smallest bound says most about the margin.
            is_lower = best.gap >= 1.0 and now.upper < best.upper
            best = now if bool(better) or bool(is_finite and is_lower) else best
            last_better = step if bool(better) or not best.gap < _CLOSE else last_better
        elif bool(better.any()):
            best = InteriorPoint(*(xp.where(better, a, b) for a, b in zip(now, best, strict=True)))
        ended = ended | ~is_finite | has_vanished | (best.gap <= tol)
    return best


def groups_of(signs: Any, fit_intercept: bool) -> list[Any]:
    """Return masks of the rows whose weights have the sum 1: those of each class, or all (None: no mask)."""
    return [signs > 0, signs < 0] if fit_intercept else [signs != 0 if signs.ndim > 1 else None]


def smallest_in(v: Any, group: Any) -> Any:
    """Return the smallest entry of v in a group; with a batch, that of each problem."""
    xp = namespace(v)
    return smallest(v if group is None else xp.where(group, v, xp.inf))


def normalized(v: Any, groups: list[Any]) -> Any:
    """Return weights v, zero outside the groups, divided by their sum in each group."""
    xp = namespace(v)
    first, *others = (v / total(v if group is None else xp.where(group, v, 0.0)) for group in groups)
    return xp.where(groups[0], first, others[0]) if others else first


def _median(v: Any, left_out: Any) -> Any:
    """Return the median along the last axis, without the entries that are left out."""
    if isinstance(v, np.ndarray):
        return np.median(v)
    return v.median() if left_out is None else v.where(~left_out, np.nan).nanmedian(-1, keepdim=True).values


def reach(v: Any, change: Any) -> Any:
    """Return the largest step, at most 1, that keeps the positive vector v from turning negative."""
    quotients = change / v if v.ndim == 1 else change / namespace(v).where(v > 0.0, v, 1.0)
    return 1.0 / at_least(-smallest(quotients), 1.0)


def interior_weights(working: WorkingSet, start: Array, tol: float, p: Array) -> tuple[Array, Array]:
    """Return weights and direction of a set by interior point, to a gap of ``tol`` if rounding allows.

    The method starts with the direction ``start``, or with ``Z^T p`` if it works in row space. If the weights
    of the support alone are good enough, all others are zero.
    """
    at, begin = _coordinates(working, start, p)
    signs = like(begin, np.where(working.group == 0, 1.0, -1.0))
    found = maximise_margin(at, signs, working.groups == 2, begin, tol)
    p, w = to_host(found.p), to_host(found.x)
    if isinstance(at, Products):
        w = working.combine(w)
    if float(found.upper) <= at.vanished or float(found.gap) > tol:
        return p, w
    active = np.where(to_host(found.is_active), p, 0.0)
    sums = np.bincount(working.group, active, minlength=working.groups)
    if sums.min() > 0.0:
        active = active / sums[working.group]
        upper = norm(working.combine(p))
        lower = upper * (1.0 - float(found.gap))
        if norm(working.combine(active)) <= max(upper, lower / (1.0 - tol)):
            return active, w
    return p, w


def _coordinates(working: WorkingSet, start: Array, p: Array) -> tuple[Coordinates, Any]:
    """Choose between systems over the rows and over the columns; return where the path starts, too."""
    d, is_tiny = working.dimensions, norm(start) <= SMALL_MARGIN * working.largest_norm
    if working.size > _MAX_ROWS_PER_COLUMN * d or d <= _FEW_COLUMNS or is_tiny:
        return Columns(working.Z, working.largest_norm), like(working.Z, start)
    G = working.gram_of(np.arange(working.size))
    return Products(G, working.largest_norm), like(G, p)
