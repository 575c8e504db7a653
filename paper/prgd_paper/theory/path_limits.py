r"""Theorems 12 to 14 of docs/note/note.md, asked of one problem: how the path ends.

Statements about limits are asked at two penalties: a remainder of order ``lam^2`` must fall 50 times where
lam falls 10 times. On margin rows F splits, so that ``v(lam)`` is computed without ``gamma_star w_star /
lam``, which is far larger: its digits are all its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from prgd.core.types import Mask
from prgd_paper.theory import expansion
from prgd_paper.theory.dual_vector import diameter
from prgd_paper.theory.entropies import (
    Reals,
    classes_of,
    log_sum_exp,
    minimise_soft_loss,
    softmax_weights,
)
from prgd_paper.theory.path import path_points
from prgd_paper.theory.path_checks import Reading
from prgd_paper.theory.samples import PathProblem

SMALL = 1e-3  # the larger penalty of a pair, in units of the curvature at the end of the path
FALL = 50.0  # a remainder of order lam^2 falls 100 times where lam falls 10 times; half of it is asked
NEXT = 0.05  # the part of a leading term that the next term may be at the smaller penalty
RHO = 8.0
FAR = (1e-2, 1e-12)  # sizes of the other rows' effect on the path at which it is measured, about
STRICT = ("no span", "thin")  # planted kinds in which every margin row carries weight
IDLE = ("zero-weight rows", "uniform weights")
LONG_EPS = float(np.finfo(np.longdouble).eps)


def _accuracy(Y: Any, v: Reals, curvature: float) -> float:
    """Bound the rounding of a minimiser v: that of its margins, times the rows, over the curvature."""
    size, widest = float((abs(Y) @ abs(v)).max()), float(np.abs(Y).sum(axis=1).max())
    return float(4.0 * (sum(Y.shape) + 16) * LONG_EPS * max(size, 1.0) * widest / curvature)


def margin_rows_path(Y: Any, penalties: Any, groups: Any = None) -> Iterator[Reals]:
    """Yield ``v(lam)``, the part of the path orthogonal to w_star, on margin rows alone; penalties fall."""
    for point in path_points(np.asarray(Y).astype(np.float64), penalties, groups=groups):
        yield point.w


def carrying_rows(problem: PathProblem) -> tuple[Reals, Any]:
    """Return the orthogonal parts of the margin rows that carry weight, and their classes."""
    groups = None if problem.groups is None else problem.groups[problem.carrying]
    return expansion.orthogonal_parts(problem.Z[problem.carrying], problem.w_star), groups


def smallest_mean(values: Any, groups: Any) -> Any:
    """Return the smallest value, the mean of both classes' with groups."""
    return np.mean([values[mask].min() for mask in classes_of(len(values), groups)])


def expansion_readings(problem: PathProblem) -> Iterator[Reading]:
    """E12: the remainder of ``c + lam c_1`` is of order lam^2, ``||v|| <= ||c||``, and the whole path splits.

    Tolerances: the rounding of the minimiser.
    """
    Y, groups = carrying_rows(problem)
    found = expansion.path_expansion(Y, groups)
    if not math.isfinite(found.curvature) or float(np.linalg.norm(found.c)) < 1e-9:
        return  # v(lam) = c = 0: nothing remains
    lams = SMALL * found.curvature * np.array([1.0, 0.1])
    points = list(margin_rows_path(Y, lams, groups))
    slack = _accuracy(Y, found.c, found.curvature)
    rests = [np.linalg.norm(v - found.c - lam * found.c_1) for v, lam in zip(points, lams, strict=True)]
    yield Reading("E12", float(rests[1]), float(rests[0]) / FALL, slack)
    leading = lams[1] ** 2 * np.linalg.norm(found.c_2)
    yield Reading("E12 c_2", float(abs(rests[1] - leading)), NEXT * float(leading), slack)
    for v in points:
        yield Reading("E12 norm", float(np.linalg.norm(v)), float(np.linalg.norm(found.c)), slack)
    yield from _whole_path(problem, found, Y, groups)


def _whole_path(problem: PathProblem, found: expansion.Expansion, Y: Any, groups: Any) -> Iterator[Reading]:
    r"""Ask whether ``w(lam) = gamma_star w_star / lam + v(lam) + e`` with a small e.

    So is then ``U - sqrt(gamma_star^2 + lam^2 ||v||^2)``. The bound is
    :math:`\|e\| \le \frac{|N| D}{\lambda} e^{D \|c\| - \kappa \gamma^\star / \lambda}`, N the other rows,
    kappa their smallest distance from the margin, D the diameter; penalties at which it is about 1e-2 and
    1e-12 of c.
    """
    gamma, size = np.longdouble(problem.gamma_star), float(np.linalg.norm(found.c))
    w_star = np.asarray(problem.w_star)
    margins = problem.Z @ w_star
    for mask in classes_of(len(margins), problem.groups):
        margins[mask] -= margins[mask].min()
    others = np.delete(margins, np.concatenate([problem.carrying, problem.idle]))
    kappa = float(gamma) * float(others.min()) if others.size else math.inf
    reach = diameter(problem.Z, groups=problem.groups) * size
    times = [reach + 1.0] * len(FAR)  # kappa / lam, where the bound is FAR times the size of c
    for _ in range(20 if others.size else 0):
        heavy = others.size * reach / (size**2 * kappa)
        times = [max(reach + math.log(heavy * x / rest), 1.0) for x, rest in zip(times, FAR, strict=True)]
    lams = [kappa / x for x in times] if others.size else [SMALL * found.curvature]
    for lam in lams:
        (v,) = margin_rows_path(Y, [lam], groups)
        (point,) = path_points(problem.Z, [lam], groups=problem.groups)
        e = others.size * reach / size / lam * math.exp(reach - kappa / lam) if others.size else 0.0
        slack = float(point.residual(lam)) / lam + _accuracy(Y, v, min(found.curvature, 1.0))
        slack += 64.0 * LONG_EPS * float(point.length)
        apart = np.linalg.norm(point.w - gamma / np.longdouble(lam) * w_star - v)
        yield Reading("E12 whole path", float(apart), e, slack, size)
        U = np.sqrt(gamma**2 + (lam * v) @ (lam * v))
        rounding = 64.0 * LONG_EPS * float(U) + lam * slack
        yield Reading("E12 U", float(abs(point.upper - U)), lam * e, rounding, float(U))


def _h_gap(Y: Any, h: Reals, along: Any, gamma: Any, groups: Any) -> Any:
    """Return the relative margin error of ``along w_star + h``, h orthogonal, without cancellation."""
    length = np.sqrt(along**2 + h @ h)
    return ((h @ h) / (length + along) - smallest_mean(Y @ h, groups) / gamma) / length


def one_system_readings(problem: PathProblem) -> Iterator[Reading]:
    r"""E14: the predictor's error and the remainder of h are of order lam^2, and h's gap falls by rho^2.

    h is ``gamma_star w_star / lam - lam' c_1`` up to order lam^2. The predictor w + (rho - 1) h is Newton's
    step, and its error is ``(lam - lam')^2 / 2`` times the bend. Tolerance: the rounding of v, times rho.
    """
    Y, groups = carrying_rows(problem)
    found = expansion.path_expansion(Y, groups)
    if not math.isfinite(found.curvature) or float(np.linalg.norm(found.c)) < 1e-9:
        return
    gamma = np.longdouble(problem.gamma_star)
    slack = RHO * _accuracy(Y, found.c, found.curvature)
    rests, errors, gaps = [], [], []
    lams = SMALL * found.curvature * np.array([1.0, 0.1])
    for lam in lams:
        v, target = margin_rows_path(Y, [lam, lam / RHO], groups)
        h = expansion.predictor(Y, v, float(lam), RHO, groups)
        rests.append(np.linalg.norm(h + lam / RHO * found.c_1))
        errors.append(v + (RHO - 1.0) * h - target)
        gaps.append(_h_gap(Y, h, gamma / np.longdouble(lam), gamma, groups))
    yield Reading("E14 h", float(rests[1]), float(rests[0]) / FALL, slack)
    sizes = [float(np.linalg.norm(error)) for error in errors]
    yield Reading("E14 predictor", sizes[1], sizes[0] / FALL, slack)
    leading = 0.5 * (lams[1] * (1.0 - 1.0 / RHO)) ** 2 * found.bend
    off, size = (float(np.linalg.norm(vector)) for vector in (errors[1] - leading, leading))
    yield Reading("E14 constant", off, NEXT * size, slack)
    # The same system with lam in place of lam' errs in first order, by lam c_1 (rho - 1)^2 / rho.
    late = v + (RHO - 1.0) * expansion.predictor(Y, v, float(lams[1]), 1.0, groups) - target
    first_order = float(lams[1] * np.linalg.norm(found.c_1)) * (RHO - 1.0) ** 2 / RHO
    yield Reading("E14 with lam", abs(float(np.linalg.norm(late)) - first_order), NEXT * first_order, slack)
    widest = float(np.abs(Y).sum(axis=1).max())
    size = lams[1] ** 2 / (RHO * gamma**2)
    first = -float(size * smallest_mean(-(Y @ found.c_1), groups))
    blur = float(slack * widest * lams[1] / gamma**2)
    yield Reading("E14 gap of h", float(abs(gaps[1] - first)), NEXT * first, blur)
    yield Reading("E14 100-fold", float(gaps[1]), float(gaps[0]) / FALL, blur)


def _margin_rows(problem: PathProblem) -> tuple[Reals, Mask, Any]:
    """Return the orthogonal parts of the margin rows, which of them carry weight, and their classes.

    They have the mean 0 under the limiting weights, in each class with an intercept.
    """
    rows = np.concatenate([problem.carrying, problem.idle])
    groups = None if problem.groups is None else problem.groups[rows]
    Y = expansion.orthogonal_parts(problem.Z[rows], problem.w_star)
    in_s = np.arange(rows.size) < problem.carrying.size
    p = np.zeros(rows.size, np.longdouble)
    p[in_s] = softmax_weights(-(Y[in_s] @ _centre(Y, in_s, groups)), groups=_of(groups, in_s))
    return expansion.centred_rows(Y, p, groups), in_s, groups


def _of(groups: Any, mask: Mask) -> Any:
    return None if groups is None else groups[mask]


def _centre(Y: Reals, in_s: Mask, groups: Any) -> Reals:
    """Return the minimiser of LSE over the rows that carry weight."""
    start = np.zeros(Y.shape[1])
    return minimise_soft_loss(Y[in_s].astype(np.float64), 0.0, start, groups=_of(groups, in_s))


def drift_readings(problem: PathProblem) -> Iterator[Reading]:
    r"""E13, without strict complementarity: bounds on v and on idle rows that force v / s -> b.

    With ``s = log(1/lam)``, c_S the minimiser of LSE over the rows S that carry weight, and C the sum of
    ``exp(-<y_j, c_S>)`` over idle rows divided by that over S, the mean over classes, comparing F at v with F
    at ``c_S + s b`` gives

    .. math::

        \|v\|^2 \le \|c_S + s b\|^2 + 2 C, \qquad \mathrm{LSE}_M(-Y v) - \mathrm{LSE}_S(-Y v) \le K
        = \lambda \left(C + \tfrac12 \|c_S + s b\|^2\right).

    Along b the path is stationary, ``lam <v, b> = sum_T p_j <y_j, b>``: this fixes the weight of idle rows.
    """
    Y, in_s, groups = _margin_rows(problem)
    b = expansion.drift(Y, in_s).astype(np.longdouble)
    c = _centre(Y, in_s, groups)
    masses = np.exp(-(Y @ c))
    classes = list(classes_of(len(Y), groups))
    C = np.mean([masses[mask & ~in_s].sum() / masses[mask & in_s].sum() for mask in classes])
    rounding = 64.0 * sum(Y.shape) * LONG_EPS
    lams = np.array([1e-4, 1e-6, 1e-8, 1e-10])
    for lam, v in zip(lams, margin_rows_path(Y, lams, groups), strict=True):
        s = -np.log(np.longdouble(lam))
        along = c + s * b
        bound = np.sqrt(along @ along + 2.0 * C)
        # v has the rounding of its weights, which are of order lam on idle rows, and b that of float64.
        size = max(1.0, float((abs(Y) @ abs(v)).max()))  # what the rounding of margins is relative to
        blur = float(rounding * size / lam) + 64.0 * float(np.finfo(np.float64).eps)
        yield Reading("E13 length", float(np.linalg.norm(v)), float(bound), blur * float(bound))
        K = float(lam * (C + 0.5 * (along @ along)))
        m = -(Y @ v)
        light = log_sum_exp(m, groups=groups) - log_sum_exp(m[in_s], groups=_of(groups, in_s))
        yield Reading("E13 idle rows", float(light), K, blur * float(s) * K)
        p, step = softmax_weights(m, groups=groups), float(lam * (v @ b))
        off = abs(float(p[~in_s] @ (Y @ b)[~in_s]) - step)
        yield Reading("E13 balance", off, 0.0, blur * float(s) * step + 1e-12 * step, step)


def drift_distance(problem: PathProblem) -> float:
    """Return the relative distance from b of the slope of v in ``s - log s`` between lam = 1e-7 and 1e-10.

    Idle rows weigh ``lam s`` times constants, so that their margins, and v along b, grow like ``s - log s``.
    """
    Y, in_s, groups = _margin_rows(problem)
    b = expansion.drift(Y, in_s)
    first, last = margin_rows_path(Y, [1e-7, 1e-10], groups)
    s = -np.log([1e-7, 1e-10])
    slope = (last - first) / np.diff(s - np.log(s))
    return float(np.linalg.norm(slope - b) / np.linalg.norm(b))
