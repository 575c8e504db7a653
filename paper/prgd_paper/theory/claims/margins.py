"""Lemmas A.1 and C.2: how the margin error and the error of direction bound each other; Lemma A.2."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from prgd.core.types import Array
from prgd_paper.claims import Finding, claim
from prgd_paper.theory.claims.runs import sets
from prgd_paper.theory.path import regularization_path
from prgd_paper.theory.rates import fit_rate
from prgd_paper.theory.ray_geometry import Geometry, geometry, margin_errors
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.velocity import direction_error

N_SETS, N_POINTS = 30, 2000
DRAWN = (
    f"{N_SETS} random sets that meet Assumption 5.4 and {N_SETS} of 30 Gaussian rows in 20 columns (seeds 0 "
    f"to {N_SETS - 1} each), {N_POINTS:,} w on each, at angles from 1e-7 to pi from w_star."
)


def gaussian_rows(seed: int) -> Array:
    """Return 30 separable rows of norm at most 1 in 20 columns; their support vectors do not span them."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((30, 20))
    Z[:, 0] = np.abs(Z[:, 0]) + 0.1
    return np.asarray(Z / np.linalg.norm(Z, axis=1).max())


def _drawn(seed: int, g: Geometry) -> Array:
    """Draw w at angles from 1e-7 to pi from ``w_star``, inside the span of the data and outside it."""
    rng = np.random.default_rng(seed)
    w_star = g.reference.w_star
    v = rng.standard_normal((N_POINTS, w_star.size))
    v[::2] = (v[::2] @ g.basis) @ g.basis.T
    v -= np.outer(v @ w_star, w_star)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    angle = np.minimum(np.geomspace(1e-7, 4.0, N_POINTS), math.pi)[rng.permutation(N_POINTS)]
    return np.cos(angle)[:, None] * w_star + np.sin(angle)[:, None] * v


def _errors() -> Iterator[tuple[Geometry, Array, Array]]:
    """Yield the geometry, the errors of direction and of margin, on non-degenerate and Gaussian sets."""
    for seed in range(N_SETS):
        for data in (random_nondegenerate(seed), gaussian_rows(seed)):
            g = geometry(data)
            W = _drawn(seed, g)
            yield g, direction_error(W, g.reference.w_star), margin_errors(g, W)


@claim(
    "lemma-a.1",
    where="Lemma A.1, Appendix A.2",
    quote=r"for any $\bw\in\bbR^d$, it holds that "
    r"$\gamma^\star-\gamma(\bw)\leq\norm{\frac{\bw}{\norm{\bw}}-\bw^\star}$.",
)
def margin_below_direction() -> Finding:
    """gamma_star - gamma(w) <= ||w/||w|| - w_star|| for every w.

    Find the largest ratio of the two errors.
    """
    worst = max(float((margin / direction).max()) for _, direction, margin in _errors())
    return Finding(
        (worst, "<=", 1.0 + 1e-9),
        f"The largest ratio of the margin error to the error of direction is {worst:.4f}, over "
        f"{2 * N_SETS} sets and {N_POINTS:,} w each, at angles from 1e-7 to pi. (Rows have norm at most 1 "
        "here and in the paper; in general the right side carries the largest row norm.)",
        setting=DRAWN,
        would_change="One w whose margin error is the larger one, on rows of norm at most 1.",
        what="largest ratio of margin error to direction error",
    )


@claim(
    "lemma-a.2",
    where="Lemma A.2, Appendix A.2",
    quote=r"the regularization path also convergences to the $\ell_2$ max-margin solution: "
    r"$\lim\limits_{B\to\infty}\frac{\bw_{\rm reg}^*(B)}{B}=\bw^*$.",
)
def path_converges() -> Finding:
    """The regularisation path converges in direction: w_reg(R) / R -> w_star.

    Follow the path, on data with and without Assumption 5.4.
    """
    penalties = np.geomspace(1e-1, 1e-7, 25)
    worst, exponents = 0.0, []
    for data in [*sets(), *(gaussian_rows(seed) for seed in range(3))]:
        g = geometry(data)
        path = regularization_path(g.Z, penalties)
        error = direction_error(path.w, g.reference.w_star)
        worst = max(worst, float(error[-1]))
        if not g.degenerate:
            found = fit_rate(path.R, error, (float(path.R[10]), math.inf))
            exponents.append(found.constant if found.rate == "t^-a" else math.nan)
    return Finding(
        (worst, "<=", 1e-4),
        f"At R of about gamma_star * 1e7 the error of direction is at most {worst:.1e} on "
        f"{len(exponents) + 3} sets. On the {len(exponents)} non-degenerate ones it falls like R^-a with a "
        f"from {min(exponents):.3f} to {max(exponents):.3f}: like 1/R, as the part off the ray converges "
        "to v_star, where GD and NGD go too.",
        figures={"exponents": [round(a, 4) for a in exponents]},
        setting=f"{len(exponents)} sets that meet Assumption 5.4, those of Theorem 6.4, and 3 of 30 Gaussian "
        "rows in 20 columns (seeds 0 to 2); 25 penalties from 1e-1 to 1e-7.",
        would_change="A separable set on which the error of direction stays away from 0 as R grows.",
        what="largest error of direction at the largest R",
    )


@claim(
    "lemma-c.2",
    where="Lemma C.2, Appendix C.3",
    quote=r"if $\bw$ satisfies $\norm{\bw^\star-\frac{\bw}{\norm{\bw}}}<(\gamma_{\rm "
    r"sub}^\star-\gamma^\star)/2$ ... \frac{\gamma^\star}{2}\norm{\bw^\star-\frac{\bw}{\norm{\bw}}}^2\leq"
    r"\gamma^\star-\gamma(\bw)\leq\norm{\bw^\star-\frac{\bw}{\norm{\bw}}}.",
)
def two_sided_margin_error() -> Finding:
    """For w near w_star, (gamma_star / 2) ||w/||w|| - w_star||^2 <= gamma_star - gamma(w) <= ||w/||w|| -
    w_star||.

    Find the smallest ratio to the lower bound, near w_star and far.
    """
    near = far = math.inf
    upper = 0.0
    for g, direction, margin in _errors():
        ratio = margin / (0.5 * g.reference.gamma_star * np.square(direction))
        is_near = direction < 0.5 * g.delta
        near = min(near, float(ratio[is_near].min(initial=math.inf)))
        far = min(far, float(ratio[~is_near].min(initial=math.inf)))
        upper = max(upper, float((margin / direction).max()))
    return Finding(
        (min(near, far, 1.0 / upper), ">=", 1.0 - 1e-6),
        f"The margin error over the lower bound is at least {near:.4f} near w_star and {far:.4f} elsewhere; "
        f"over the upper bound at most {upper:.4f}. Neither the neighbourhood nor Assumption 5.4 is needed: "
        "gamma(w) <= sum_i alpha_i <w/||w||, z_i> = gamma_star <w/||w||, w_star> for every w, with alpha of "
        "sum 1.",
        figures={"near": near, "elsewhere": far, "upper": upper},
        setting=DRAWN,
        would_change="One w near w_star whose margin error is outside the two bounds.",
        what="smallest ratio of larger to smaller side, both bounds",
    )
