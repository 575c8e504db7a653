"""Statements E1 to E3 of docs/exponential.md, ours: the dual vector of NGD as a separator."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np

from prgd.algorithms import NGD, SteepestDescent
from prgd.algorithms.base import states
from prgd.maxmargin import max_margin
from prgd.problem import Problem
from prgd_paper.claims import Finding, claim
from prgd_paper.theory.dual_vector import DualRun, dual_run, largest_step, linear_rate
from prgd_paper.theory.rates import RateFit, fit_rate
from prgd_paper.theory.sampled_runs import log_times
from prgd_paper.theory.samples import KINDS, PathProblem, path_problem

WHERE = "beyond the paper: docs/exponential.md"
SEEDS = range(105)  # fifteen problems of each kind
STEPS = 100
# The norm, whether an intercept is fitted, and the dual exponent q.
MODES: dict[str, tuple[dict[str, Any], float]] = {
    "l2": ({}, 2.0),
    "l2 with an intercept": ({"fit_intercept": True}, 2.0),
    "l_1.5": ({"norm": "lp:1.5"}, 3.0),
}
OTHER_NORMS = ("lp:1.5", "l1", "linf")
NORM_STEPS = 400
SMALL = 12  # rows and columns of the sets of E2, at most
RATE_SETS = 10
RATE_STEPS = 3_000
SHOWN = 15.0  # a rate shows if the predicted error falls by e^-15 at least within RATE_STEPS
ERROR_FLOOR = 1e-12


def measure(seed: int, mode: str, steps: int = STEPS, max_size: int = 200) -> DualRun | None:
    """Return the run of E1 on one random problem, or None if labels and intercept leave it non-separable."""
    drawn, (options, q) = path_problem(seed, max_size), MODES[mode]
    X, y = drawn.Z * drawn.signs[:, None], drawn.signs
    solve = {"fit_intercept": False} | options
    found = max_margin(X, y, tol=1e-9, n_jobs=1, **solve).certificate
    if found.dual_weights is None or not found.lower > 0.0:
        return None
    eta = largest_step(drawn.Z, q, y if mode == "l2 with an intercept" else None)
    problem = Problem(X, y, scale="none", n_jobs=1, **options)
    return dual_run(problem, found.dual_weights.dense(len(y)), eta, steps)


def _runs() -> tuple[tuple[str, DualRun], ...]:
    """Return the runs of E1: every problem in l2, a third with an intercept, a third in another norm."""
    found = [("l2", measure(seed, "l2")) for seed in SEEDS]
    for mode, rest, size in (("l2 with an intercept", 1, 200), ("l_1.5", 2, 40)):
        found += [(mode, measure(seed, mode, max_size=size)) for seed in SEEDS if seed % 3 == rest]
    return tuple((mode, run) for mode, run in found if run is not None)


SETTING = (
    f"{len(SEEDS)} random separable sets of 2 to 200 rows and columns, margins down to 1e-6 of the rows, "
    f"fifteen of each kind ({', '.join(KINDS)}) in l2, and a third each with an intercept and in l_1.5 (up "
    f"to 40 rows and columns); {STEPS} steps from w = 0 with eta = 4 / D^2 (l_p: 4 / ((q - 1) D^2)), D the "
    "diameter of the rows, at least half of the largest row norm."
)


@claim("e1-rate-of-the-dual-vector", where=f"{WHERE}, Theorem E1")
def rate_of_the_dual_vector() -> Finding:
    """Along NGD from 0 with eta <= 4 / D^2 the norm U_t of the dual vector never grows, and U_t^2 -
    gamma_star^2 <= 2 (log n - H(p_star)) / (eta t), for every separable set.

    Count the runs in which a step exceeds the bound, or U_t grows, by more than rounding.
    """
    runs = _runs()
    failures = sum(run.worst.is_violated or run.growth > 0.0 for _, run in runs)
    tight = [run.worst.tightness for _, run in runs if not math.isnan(run.worst.tightness)]
    said = ", ".join(f"{count} in {mode}" for mode, count in Counter(mode for mode, _ in runs).items())
    return Finding(
        (failures, "==", 0.0),
        f"{failures} of {len(runs)} runs ({said}) exceed the bound or let U_t grow; the largest t (U_t^2 - "
        f"gamma_star^2) is {max(tight):.2f} of its bound, the median over runs {np.median(tight):.2f}.",
        figures={"runs": len(runs), "tightness": max(tight)},
        setting=SETTING,
        would_change="A separable set and a step at which U_t^2 - gamma_star^2 exceeds the bound.",
        what="runs that exceed the bound or let U_t grow",
    )


def _rate(drawn: PathProblem, eta: float) -> RateFit:
    """Return the fit of ``||u - gamma_star w_star||`` along NGD on a set of known w_star."""
    problem = Problem(drawn.Z, scale="none", n_jobs=1)
    target = float(drawn.gamma_star or math.nan) * np.asarray(drawn.w_star)
    size, t, error = float(np.linalg.norm(target)), [], []
    times = set(log_times(RATE_STEPS).tolist()) | set(range(0, RATE_STEPS + 1, RATE_STEPS // 150))
    for s in islice(states(problem, NGD(eta)), 2, RATE_STEPS + 1):
        now = float(np.linalg.norm(s.at.dual_vector - target)) / size
        if s.t in times:
            t.append(s.t)
            error.append(now)
        if now < ERROR_FLOOR:
            break
    return fit_rate(t, error)


def _strict() -> tuple[tuple[RateFit, float], ...]:
    """Return fits, and the c of E2: strict complementarity, support that does not span, a rate that shows."""
    found: list[tuple[RateFit, float]] = []
    seed = KINDS.index("no span")
    while len(found) < RATE_SETS:
        drawn = path_problem(seed, SMALL)
        eta = largest_step(drawn.Z)
        predicted = linear_rate(drawn.Z, np.asarray(drawn.w_star), drawn.carrying, eta)
        if predicted * RATE_STEPS >= SHOWN:
            found.append((_rate(drawn, eta), predicted))
        seed += len(KINDS)
    return tuple(found)


@claim("e2-linear-rate", where=f"{WHERE}, Theorem E2")
def linear_rate_of_the_dual_vector() -> Finding:
    """Under strict complementarity alone the dual vector of NGD converges linearly: ||u_t - gamma_star
    w_star|| is of order e^-ct.

    Fit the rate of the error of u, and compare it with the c that the limit predicts.
    """
    runs = _strict()
    lowest = min(fit.interval[0] if fit.rate == "e^-ct" else 0.0 for fit, _ in runs)
    ratios = [fit.constant / predicted for fit, predicted in runs if fit.rate == "e^-ct"]
    return Finding(
        (lowest, ">", 0.0),
        f"On {len(ratios)} of {len(runs)} sets whose support vectors do not span the data, so that "
        f"Assumption 5.4 fails, the error falls as e^-ct; the smallest lower end of a 95 % interval of c is "
        f"{lowest:.1e} a step. c is {min(ratios):.2f} to {max(ratios):.2f} times the smaller of -log(1 - eta "
        "lambda) and eta gamma_star (gamma' - gamma_star), with lambda the smallest curvature orthogonal to "
        "w_star and gamma' the smallest margin off the support.",
        figures={"c": [fit.constant for fit, _ in runs], "over the predicted c": ratios},
        setting=f"NGD from 0 with eta = 4 / D^2, up to {RATE_STEPS:,} steps, on the first {RATE_SETS} "
        f"planted sets of at most {SMALL} rows and columns whose predicted error falls by e^-{SHOWN:g} "
        "within them.",
        would_change="A set with strict complementarity on which the interval of c contains 0.",
        what="smallest lower end of a 95 % interval of c",
    )


@claim("e2-without-strict-complementarity", where=f"{WHERE}, after Theorem E2")
def without_strict_complementarity() -> Finding:
    """Without strict complementarity the error of u falls like 1 / t.

    Fit the rate of the error of u on sets with margin rows that carry no weight, and take the exponents.
    """
    idle = [KINDS.index(("zero-weight rows", "uniform weights")[k % 2]) for k in range(RATE_SETS)]
    drawn = [path_problem(kind + len(KINDS) * k, SMALL) for k, kind in enumerate(idle)]
    fits = [_rate(problem, largest_step(problem.Z)) for problem in drawn]
    powers = [fit.constant for fit in fits if fit.rate == "t^-a"]
    linear = sum(fit.rate == "e^-ct" for fit in fits)
    low, high = (min(powers), max(powers)) if powers else (math.nan, math.nan)
    return Finding(
        (float(linear), "==", 0.0),
        f"On {len(powers)} of {len(fits)} sets the error of u falls as t^-a with a from {low:.2f} to "
        f"{high:.2f}, and on {linear} as e^-ct. This is measured, not proven.",
        figures={"a": powers},
        setting=f"NGD from 0 with eta = 4 / D^2, {RATE_STEPS:,} steps, on {RATE_SETS} planted sets of at "
        f"most {SMALL} rows and columns with one to three margin rows that carry no weight.",
        would_change="A set with such rows on which the error of u falls exponentially.",
        what="sets on which the error of u falls as e^-ct",
    )


@claim("e3-separator-in-any-norm", where=f"{WHERE}, Proposition E3")
def separator_in_any_norm() -> Finding:
    """In any norm the direction v of norm 1 with the largest <u, v> is a certificate: its margin is at most
    gamma_star.

    Take the largest margin of v along steepest descent in l_1.5, l1 and l-infinity over an upper bound of
    gamma_star.
    """
    highest = 0.0
    last: dict[str, list[float]] = {norm: [] for norm in OTHER_NORMS}
    for seed in (0, 1, 2, 3):
        drawn = path_problem(seed, 10)
        for norm in OTHER_NORMS:
            bound = max_margin(drawn.Z, norm=norm, fit_intercept=False, n_jobs=1).certificate
            problem, share = Problem(drawn.Z, norm=norm, n_jobs=1), -math.inf
            for s in islice(states(problem, SteepestDescent()), 2, NORM_STEPS + 1):
                share = max(share, s.at.second_gamma / bound.upper)
            highest = max(highest, share)
            last[norm].append(share)
    said = "; ".join(
        f"{norm}: {', '.join(f'{v:.3f}' if v > 0.0 else 'none' for v in found)}"
        for norm, found in last.items()
    )
    return Finding(
        (highest, "<=", 1.0 + 1e-12),
        f"The largest margin of v is {highest:.6f} of gamma_star. The largest within {NORM_STEPS} steps, for "
        f"four sets: {said}. In l1 and l-infinity v comes to w_star only where w_star is the only maximiser "
        "of <u_star, v>.",
        figures=last,
        setting=f"Steepest descent with eta = 1, {NORM_STEPS} steps, on four random sets of at most 10 rows "
        "and columns.",
        would_change="A direction whose margin exceeds gamma_star; by definition there is none.",
        what="largest margin of v over gamma_star",
    )
