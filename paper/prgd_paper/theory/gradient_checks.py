r"""Statements 1 to 7, 9 and 15 to 17 of docs/note/note.md, asked of runs in extended precision.

A run is ``w <- w + eta u`` from 0, ``u = Z^T p``. With an intercept p is a softmax of mass 1/2 in each class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import lambertw

from prgd.datasets import Dataset
from prgd.maxmargin import max_margin
from prgd_paper.theory import expansion
from prgd_paper.theory.dual_vector import diameter, largest_step
from prgd_paper.theory.entropies import (
    Reals,
    classes_of,
    log_sum_exp,
    newton_step,
    renyi_entropy,
    softmax_weights,
)
from prgd_paper.theory.path_checks import Reading
from prgd_paper.theory.path_limits import carrying_rows, margin_rows_path, smallest_mean
from prgd_paper.theory.samples import PathProblem

BLUR = 1e-14  # relative rounding of sums in extended precision, with room
ACCELERATED = 60  # steps of readings that need no limit


class Frame:
    """The geometry of a problem whose solution is known: what stands in the note's table of notation."""

    def __init__(self, problem: PathProblem) -> None:
        self.problem, self.groups = problem, problem.groups
        self.Z = problem.Z.astype(np.longdouble)
        self.w_star = np.asarray(problem.w_star).astype(np.longdouble)
        self.target = np.longdouble(problem.gamma_star) * self.w_star
        self.D, self.eta = (
            diameter(problem.Z, groups=self.groups),
            largest_step(problem.Z, groups=self.groups),
        )
        masks = list(classes_of(len(self.Z), self.groups))
        self.log_n = float(np.mean([math.log(mask.sum()) for mask in masks]))
        self.masks, self.on_margin = masks, np.zeros(len(self.Z), bool)
        self.on_margin[np.concatenate([problem.carrying, problem.idle])] = True
        over = problem.Z @ np.asarray(problem.w_star)
        for mask in masks:
            over[mask] -= over[mask].min()
        self.kappa = float(over[~self.on_margin].min(initial=math.inf))

    @cached_property
    def limit(self) -> tuple[expansion.Expansion, Reals, float]:
        """C and the curvature mu, an orthonormal basis of V, and D_M."""
        Y, groups = carrying_rows(self.problem)
        found = expansion.path_expansion(Y, groups)
        p = softmax_weights(-(Y @ found.c), groups=groups)
        _, s, Vt = np.linalg.svd(expansion.centred_rows(Y, p, groups).astype(np.float64), full_matrices=False)
        return found, Vt[s > 1e-9 * s[0]], diameter(Y.astype(np.float64), groups=groups)

    def weights(self, w: Reals) -> Reals:
        """Return p(w)."""
        return softmax_weights(-(self.Z @ w), groups=self.groups)

    def light(self, p: Reals) -> float:
        """Return tau, the weight of the rows off the margin, in the class where it is larger."""
        return max(float(p[mask & ~self.on_margin].sum() / p[mask].sum()) for mask in self.masks)


def real_problem(data: Dataset, fit_intercept: bool) -> PathProblem:
    """Return a real set with its solution, solved on the margin rows to rounding of extended precision."""
    X, y = np.asarray(data.X), np.asarray(data.y, float)
    near = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-12, n_jobs=1).certificate.w
    Z, groups = X * y[:, None], y if fit_intercept else None
    margins = Z @ near
    for mask in classes_of(len(y), groups):
        margins[mask] /= margins[mask].min()
    (rows,) = np.nonzero(abs(margins - 1.0) < 1e-7)
    # The conditions of min ||w||^2 / 2 with equality on these rows.
    A = np.column_stack([Z[rows], y[rows]])[:, : X.shape[1] + fit_intercept]
    K = np.block([[np.eye(A.shape[1]), A.T], [A, np.zeros((len(A), len(A)))]])
    if fit_intercept:
        K[X.shape[1], X.shape[1]] = 0.0
    right = np.append(np.zeros(A.shape[1]), np.ones(len(A)))
    found, wide = np.zeros(len(K), np.longdouble), K.astype(np.longdouble)
    for _ in range(4):  # refined: the residual is formed in extended precision
        found = found + np.linalg.lstsq(K, (right - wide @ found).astype(np.float64), rcond=None)[0]
    w: Any = found[: X.shape[1]]
    gamma_star = 1.0 / np.sqrt(w @ w)
    return PathProblem("real", Z, y, w * gamma_star, gamma_star, rows, groups=groups)


def divergence(p: Reals, q: Reals) -> Any:
    """Return ``KL(p || q)``."""
    kept = p > 0.0
    return (p[kept] * np.log(p[kept] / q[kept])).sum()


def centre_readings(problem: PathProblem) -> Iterator[Reading]:
    """E2: the weights at c are the dual solution of largest entropy, and c = 0 if they are uniform."""
    Y, groups = carrying_rows(problem)
    c, masks = expansion.path_expansion(Y, groups).c, np.array(list(classes_of(len(Y), groups)))
    p, size = softmax_weights(-(Y @ c), groups=groups), float(np.linalg.norm(Y, axis=1).max())
    slack = BLUR * (1.0 + size * float(np.linalg.norm(c)))
    yield Reading("E2 dual", float(np.linalg.norm(Y.T @ p)), 0.0, slack * size, size)
    most = float(log_sum_exp(-(Y @ c), groups=groups))
    yield Reading("E2", abs(float(renyi_entropy(np.log(p), groups=groups)) - most), 0.0, slack, most)
    _, s, Vt = np.linalg.svd(np.vstack([Y.T, masks]).astype(np.float64))
    for way in Vt[int((s > 1e-9 * s[0]).sum()) :]:  # other dual solutions
        other = p + 0.9 * way / float((-way / p).max())
        yield Reading("E2 other", float(renyi_entropy(np.log(other), groups=groups)), most, slack)
    if max(float(np.ptp(p[mask])) for mask in masks) < slack:
        yield Reading("E2 zero", float(np.linalg.norm(c)), 0.0, 1e-9, 1.0)


def mirror_readings(problem: PathProblem, steps: int = ACCELERATED) -> Iterator[Reading]:
    """E1: inequality (2) at each step, for p_star and random p; E16: for long steps that pass (19)."""
    f, rng = Frame(problem), np.random.default_rng([1, *problem.Z.shape])
    w, ones = np.zeros(f.Z.shape[1], np.longdouble), np.zeros(len(f.Z), np.longdouble)
    targets = [softmax_weights(rng.standard_normal(len(f.Z)) * k, groups=f.groups) for k in (1.0, 9.0)]
    Y, groups = carrying_rows(problem)
    ones[problem.carrying] = softmax_weights(-(Y @ expansion.path_expansion(Y, groups).c), groups=groups)
    for t in range(steps):
        p = f.weights(w)
        u = f.Z.T @ p
        long = t % 4 == 3
        for eta in f.eta * (4.0 ** np.arange(6, 0, -1) if long else rng.uniform(0.2, 1.0, 1)):
            q = f.weights(w + eta * u)
            v = f.Z.T @ q
            if not long or eta * (v - u) @ (v - u) <= 2.0 * divergence(q, p):
                break
        else:
            continue
        for target in (*targets, ones):
            s = f.Z.T @ target
            left = 0.5 * eta * (v @ v - s @ s)
            right = divergence(target, p) - divergence(target, q) - 0.5 * eta * (u - s) @ (u - s)
            size = float(abs(left) + divergence(target, q) + eta * (u @ u + s @ s)) + 1.0
            name = "E16" if long else "E1"
            yield Reading(name, float(left - right), 0.0, 100.0 * BLUR * size, size)
        yield Reading("E1 norm", float(v @ v), float(u @ u), BLUR * float(u @ u))
        w = w + eta * u


def rate_readings(problem: PathProblem, steps: int, loss: str = "") -> Iterator[Reading]:
    """E3: (a), (b) and (c) at each step of NGD; E4: of gradient descent; E17: (5) with the logistic loss."""
    f = Frame(problem)
    found, V, D_M = f.limit
    n, mu, name = len(f.Z), found.curvature, {"": "E3", "exponential": "E4", "logistic": "E17"}[loss]
    w, time, first = np.zeros(f.Z.shape[1], np.longdouble), 0.0, log_sum_exp(np.zeros(n), groups=f.groups)
    N, c = n - int(f.on_margin.sum()), V @ found.c
    for _ in range(steps):
        m = f.Z @ w
        p = softmax_weights(-(np.logaddexp(0, m) if loss == "logistic" else m), groups=f.groups)
        u, eta = f.Z.T @ p, f.eta
        if loss:
            slope = log_sum_exp(-(np.logaddexp(0, m) if loss == "logistic" else m), groups=f.groups) - first
            yield Reading(f"{name} steps", float(slope), 0.0, 1e-15)
            eta *= math.exp(slope)
        tau, r = f.light(p), float(np.linalg.norm(V @ w - c))
        after = float(np.linalg.norm(V @ (w + eta * u) - c))
        slack = BLUR * (1.0 + float(np.linalg.norm(w)))
        if loss == "logistic":
            extra = D_M * float(np.exp(-m[f.on_margin].min()))
            fall = eta * mu * -math.expm1(-D_M * r) / D_M
            yield Reading("E17", after, r - fall + eta * (f.D * tau + extra), slack * (1.0 + eta * f.D**2))
        else:
            bound = (
                N * math.exp(-f.kappa * float(problem.gamma_star or 0.0) * time + _drift(f, time))
                if N
                else 0.0
            )
            yield Reading(f"{name} a", tau, bound, slack)
            eps = D_M * f.D * eta * tau
            E = math.exp(eps - eta * mu) * math.expm1(D_M * r) + math.expm1(eps)
            yield Reading(
                f"{name} b",
                math.expm1(D_M * after),
                E,
                slack * D_M * (1.0 + eta * f.D**2) * math.exp(D_M * r),
            )
            off = float(np.linalg.norm(u - f.target))
            yield Reading(f"{name} c", off, 0.25 * D_M**2 * r + f.D * tau, slack * f.D * (1.0 + f.D))
        w, time = w + eta * u, time + eta


def _drift(f: Frame, time: float) -> float:
    return f.D * math.sqrt(2.0 * time * f.log_n)


def sum_readings(problem: PathProblem, steps: int = 2048) -> Iterator[Reading]:
    """E5: without strict complementarity the errors of u from t to 2t add up to half of those before."""
    f, w, sums = Frame(problem), np.zeros(problem.Z.shape[1]), []
    for _ in range(steps):
        u = f.problem.Z.T @ softmax_weights(-(f.problem.Z @ w), groups=f.groups)
        sums.append(float(np.linalg.norm(u - f.target)))
        w = w + f.eta * u
    yield Reading("E5", 0.5 * sum(sums[steps // 4 : steps // 2]), sum(sums[steps // 2 :]), 0.0)


def loss_readings(problem: PathProblem, steps: int = ACCELERATED) -> Iterator[Reading]:
    """E5: along gradient descent 1 / L grows by eta gamma_star^2 / 2 in a step."""
    f, w, inverse = Frame(problem), np.zeros(problem.Z.shape[1], np.longdouble), 1.0
    first, least = log_sum_exp(f.Z @ w, groups=f.groups), 0.5 * f.eta * float(f.target @ f.target)
    for _ in range(steps):
        w = w + f.eta / inverse * (f.Z.T @ f.weights(w))
        grown = math.exp(first - log_sum_exp(-(f.Z @ w), groups=f.groups))
        yield Reading("E5 loss", inverse + least, grown, 10.0 * BLUR * grown)
        inverse = grown


def momentum_readings(problem: PathProblem, max_steps: int = 3000) -> Iterator[Reading]:
    """E6: with constant momentum from near c, u comes nearer by 0.7 of the rate at least; roots of (8)."""
    f = Frame(problem)
    found, V, D_M = f.limit
    for k in np.linspace(0.0, 1.0, 9):
        q = min(math.sqrt(f.eta * found.curvature), 0.99)
        beta, share = (1.0 - q) / (1.0 + q), (1.0 - q * q) * k
        roots = np.abs(np.roots([1.0, -(1.0 + beta) * share, beta * share]))
        yield Reading("E6 roots", float(roots.max()), 1.0 - q, 1e-7)
    rate = -math.log1p(-q)
    steps = math.ceil(10.0 / rate)
    if steps > max_steps:
        return
    # So far out rows off the margin weigh e^-50.
    far = (50.0 + f.D * (1.0 + float(np.linalg.norm(found.c)))) / min(
        f.kappa, float(problem.gamma_star or 0.0)
    )
    w = found.c + np.longdouble(far) * f.w_star + 0.1 / max(D_M, 1.0) * V[0]
    a, errors = w, []
    for _ in range(steps):
        u = f.Z.T @ f.weights(w)
        errors.append(float(np.linalg.norm(u - f.target)))
        new = w + f.eta * u
        w, a = new + beta * (new - a), new
    yield Reading("E6", math.log(errors[-1] / errors[steps // 4]), -0.7 * rate * 0.75 * steps, 0.0)


def separator_readings(problem: PathProblem) -> Iterator[Reading]:
    """E7: the gap of Z^T p as its own separator, for random p and for p on the margin."""
    f, rng = Frame(problem), np.random.default_rng([7, *problem.Z.shape])
    gamma, halves = float(problem.gamma_star or 0.0), [f.Z[mask] for mask in f.masks]
    B = float(np.linalg.norm(f.Z, axis=1).max())
    if len(halves) == 2:
        B = max(float(np.linalg.norm(halves[1] + row, axis=1).max()) for row in halves[0]) / 2.0
    for k in range(20):
        a = rng.standard_normal(len(f.Z)) - (30.0 * ~f.on_margin if k % 2 else 0.0)
        u = f.Z.T @ softmax_weights(a.astype(np.longdouble), groups=f.groups)
        U, delta = float(np.linalg.norm(u)), float(np.linalg.norm(u - f.target))
        gap = float(1.0 - smallest_mean(f.Z @ u, f.groups) / (u @ u))
        yield Reading("E7", gap, ((2.0 * gamma + B) * delta + delta**2) / gamma**2, BLUR * B / gamma)
        yield Reading("E7 delta", delta**2, U**2 - gamma**2, BLUR * B**2)


def acceleration_readings(problem: PathProblem, steps: int = ACCELERATED) -> Iterator[Reading]:
    """E9: the certified gap of (11) at each step."""
    f = Frame(replace(problem, w_star=np.eye(problem.Z.shape[1])[0], gamma_star=1.0))
    w = g = np.zeros(f.Z.shape[1], np.longdouble)
    for t in range(steps):
        u = f.Z.T @ f.weights(w)
        if t:
            mean, margin = 2.0 / (t + 1) * (g + u), smallest_mean(f.Z @ w, f.groups) / np.linalg.norm(w)
            gap = float(mean @ mean - max(margin, 0.0) ** 2)
            yield Reading("E9", gap, 8.0 * f.log_n / (f.eta * (t + 1) ** 2), BLUR * float(mean @ mean))
        g = t / (t + 1) * (g + u)
        w = w + f.eta * (g + u)


def system_readings(problem: PathProblem) -> Iterator[Reading]:
    """E15: the predicted weights at random w, and one system from lambda_c to every accuracy."""
    f, rng = Frame(problem), np.random.default_rng([15, *problem.Z.shape])
    for scale in 10.0 ** rng.uniform(-1.0, 2.0, 5):
        w = np.asarray(scale * (rng.standard_normal(f.Z.shape[1]) + f.w_star))
        yield from _predicted(f.Z, f.groups, w, float(10.0 ** rng.uniform(-3.0, 1.0)), "E15 weights")
    (found, _, D_M), gamma = f.limit, float(problem.gamma_star or 0.0)
    size = float(np.linalg.norm(found.c))
    if not D_M or size < 1e-9:
        return
    Y, groups = carrying_rows(problem)
    for lam in found.curvature / (4.0 * math.e * D_M * size) * np.array([1.0, 0.1]):
        (v,) = margin_rows_path(Y, [lam], groups)
        for smaller in lam * np.array([0.1, 1e-4, 1e-8]):
            change, end = _system(Y, groups, v, smaller)
            yield Reading("E15 change", float(abs(change).max()), 1.0 / 9.0, 0.0)
            upper = math.hypot(gamma, smaller * float(np.linalg.norm(end)))
            along = gamma / smaller
            lower = (gamma * along + float(smallest_mean(Y @ end, groups))) / math.hypot(
                along, float(np.linalg.norm(end))
            )
            s = float(np.linalg.norm(end))
            yield Reading(
                "E15",
                (upper - lower) / upper,
                smaller / gamma**2 * D_M * s + (smaller * s / gamma) ** 2,
                1e-15,
            )
            yield from _near_the_path(f, Y, groups, smaller, rng)


def _near_the_path(
    f: Frame, Y: Reals, groups: Any, lam: float, rng: np.random.Generator
) -> Iterator[Reading]:
    """E15: one system from a point off the path, as far as the note allows."""
    found, V, D_M = f.limit
    side, limit = rng.standard_normal(len(V)) @ V, found.curvature / (4.0 * math.e * D_M)
    for r in 2.0 ** -np.arange(60) / (D_M * float(np.linalg.norm(side))):
        x = found.c + r * side
        slope = -(Y.T @ softmax_weights(-(Y @ x), groups=groups))
        if max(np.linalg.norm(slope), np.linalg.norm(slope + lam * x)) <= limit:
            change, end = _system(Y, groups, x, lam)
            yield Reading("E15 near change", float(abs(change).max()), 0.1022, 0.0)
            far = float(np.linalg.norm(end) - np.linalg.norm(found.c))
            yield Reading("E15 near", far, 0.2 / D_M, 1e-12)
            return


def _system(Z: Any, groups: Any, w: Reals, lam: float) -> tuple[Reals, Reals]:
    """Return by how much Newton's step changes margins less their mean, and its end."""
    p = softmax_weights(-(Z @ w), groups=groups)
    step, centred = np.zeros_like(w), expansion.centred_rows(Z, p, groups)
    for _ in range(4):  # refined: the residual is formed in extended precision
        rest = Z.T @ p - lam * (w + step) - centred.T @ (p * (centred @ step))
        step = step + newton_step(Z, p, lam, rest, groups=groups)
    return centred @ step, w + step


def _predicted(Z: Any, groups: Any, w: Reals, lam: float, name: str) -> Iterator[Reading]:
    p = softmax_weights(-(Z @ w), groups=groups)
    change, end = _system(Z, groups, w, lam)
    off = Z.T @ (p * (1.0 - change)) - lam * end
    size = float(np.linalg.norm(Z, axis=1).max())
    yield Reading(
        name, float(np.linalg.norm(off)), 0.0, 1e-12 * size * (1.0 + float(abs(change).max())), size
    )


def logistic_readings(problem: PathProblem) -> Iterator[Reading]:
    """E17 (a): the second part of the gap at w that separate, without an intercept."""
    Z, rng = problem.Z, np.random.default_rng([17, *problem.Z.shape])
    bound = float(lambertw(2.0 * (len(Z) - 1) / math.e).real)
    for scale in 10.0 ** rng.uniform(-3.0, 4.0, 20):
        w = scale * (
            np.asarray(problem.w_star)
            + 0.1 * float(problem.gamma_star or 0.0) * rng.standard_normal(Z.shape[1])
        )
        m = Z @ w
        if m.min() > 0.0:
            p = softmax_weights(-np.logaddexp(0.0, m))
            yield Reading("E17 soft", float(p @ (m - m.min())), bound, 1e-12)
