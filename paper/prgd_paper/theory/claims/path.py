"""Statements 8 and 10 to 14 of docs/note/note.md, ours: the gap, the path, and Newton's step on it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from prgd.datasets import digits
from prgd_paper.claims import Finding, claim
from prgd_paper.theory import path_checks as checks
from prgd_paper.theory import path_limits as limits
from prgd_paper.theory.gradient_checks import real_problem
from prgd_paper.theory.path_limits import FALL, NEXT, RHO
from prgd_paper.theory.samples import KINDS, PathProblem, path_problem

WHERE = "beyond the paper: docs/note"
SEEDS = range(7)  # one problem of each kind
SIZE = 12  # rows and columns, at most
POINTS = 4  # penalties of a path, each a hundredth of the one before
LIMIT_SEEDS = range(42)  # six problems of each kind, for statements about limits
SETTING = (
    f"{len(SEEDS)} random separable sets of 2 to {SIZE} rows and columns, one of each kind "
    f"({', '.join(KINDS)}), and 60 rows of digits 0/1 and 0/4, in "
    f"{', '.join(checks.SETTINGS)}: {POINTS} points of the path and as many random points around it, in "
    "extended precision, and random w of lengths up to 3e5, half of them with sample weights, in float64."
)
LIMITS = (limits.expansion_readings, limits.one_system_readings)
LIMIT_SETTING = (
    f"Random separable sets of up to {SIZE} rows and columns, seeds 0 to {LIMIT_SEEDS[-1]}, those of the "
    "kinds that the statement is about, through the origin and with an "
    "intercept; entries of few bits, so that margin rows lie on the margin exactly; under strict "
    "complementarity 60 rows of digits 0/1 and 0/4 too, solved to rounding. "
    "Extended precision."
)


@cache
def _survey() -> dict[str, checks.Summary]:
    """Return readings of E8 to E11 on all sets and settings, summarised."""
    found: list[checks.Reading] = []
    for problem in [*_problems(SEEDS), *real_sets(False)]:
        for setting in checks.SETTINGS:
            found += checks.path_readings(problem, setting, POINTS)
        found += checks.any_point_readings(problem.Z, problem.signs, len(found))
    return checks.summarise(found)


@cache
def real_sets(fit_intercept: bool) -> tuple[PathProblem, ...]:
    """Return 60 rows of digits 0 and 1, and of 0 and 4, solved through the origin or with an intercept."""
    return tuple(real_problem(digits(0, other, 60), fit_intercept) for other in (1, 4))


def _problems(seeds: Iterable[int], kinds: tuple[str, ...] = KINDS) -> list[PathProblem]:
    return [problem for seed in seeds if (problem := path_problem(seed, SIZE)).kind in kinds]


@cache
def _limits(kinds: tuple[str, ...]) -> dict[str, checks.Summary]:
    """Return readings of E12 and E14, or of E13, on sets of some kinds, summarised."""
    asked = (limits.drift_readings,) if kinds == limits.IDLE else LIMITS
    return checks.summarise(r for p in _limit_problems(kinds) for ask in asked for r in ask(p))


@cache
def _limit_problems(kinds: tuple[str, ...]) -> list[PathProblem]:
    """Return planted problems of some kinds, without an intercept and with it."""
    planted = _problems(LIMIT_SEEDS, kinds)
    real = [] if kinds == limits.IDLE else [*real_sets(False), *real_sets(True)]
    return [*planted, *(problem.with_intercept() for problem in planted), *real]


def no_violation(
    found: dict[str, checks.Summary],
    names: tuple[str, ...],
    sentence: str,
    would_change: str,
    setting: str = SETTING,
) -> Finding:
    """Return the count of violations over all readings, which must be 0, with the tightness of each part."""
    parts = {name: found[name] for name in names}
    readings = sum(part.readings for part in parts.values())
    violations = sum(part.violations for part in parts.values())
    return Finding(
        (float(violations), "==", 0.0),
        f"{readings:,} readings, {violations or 'none'} beyond rounding. {sentence}",
        figures={
            name: {
                "readings": part.readings,
                "median": float(f"{part.median:.3g}"),
                "extreme": float(f"{part.extreme:.3g}"),
                "part of the tolerance used": float(f"{part.used:.2g}"),
            }
            for name, part in parts.items()
        },
        what="readings that exceed the bound by more than rounding",
        setting=setting,
        would_change=would_change,
    )


@claim("e8-gap-identity", where=f"{WHERE}, Theorem 8")
def gap_identity() -> Finding:
    """For every w, in every norm, <w, u> - min <w, z_i> = Delta = H_1 - H_inf, so the gap U - gamma(w) is
    [U - <u, w>/R] + Delta/R.

    Count the points at which the two sides differ by more than the rounding of margins and sums.
    """
    found = _survey()
    return no_violation(
        found,
        ("E8", "E8 split"),
        f"The largest error is {found['E8'].extreme:.1e} of Delta (median {found['E8'].median:.0e}) where "
        "Delta is above rounding.",
        "A w at which the sides differ by more than (n + d + 16) eps max_i sum_j |z_ij w_j|, twice.",
    )


@claim("e8-bound-of-delta", where=f"{WHERE}, Theorem 8")
def delta_bound() -> Finding:
    """0 <= Delta <= LambertW((n - 1) / e) < log n, attained; with sample weights LambertW((Q - q_min) /
    (e q_min)), with an intercept the mean of both classes' bounds.

    Count the points at which Delta is negative or above the bound, and evaluate the extreme case.
    """
    found = _survey()
    return no_violation(
        found,
        ("E8 bound", "E8 sign", "E8 log n", "E8 attained"),
        f"Delta is {found['E8 bound'].median:.2f} of the bound in the median, "
        f"{found['E8 bound'].extreme:.3f} at most, and equal to it in the extreme case; the bound is "
        f"{found['E8 log n'].extreme:.2f} of log n at most.",
        "A w whose Delta exceeds the bound.",
    )


@claim("e10-gap-on-the-path", where=f"{WHERE}, Theorem 10")
def gap_on_path() -> Finding:
    """At the minimiser of F_lam, U = lam R, and the relative gap equals lam Delta / U^2, at most lam
    Delta / gamma_star^2.

    Count the points of the path at which they differ by more than the error of the computed minimiser.
    """
    found = _survey()
    return no_violation(
        found,
        ("E10 U = lam R", "E10", "E10 bound"),
        f"Both sides agree to {found['E10'].extreme:.0e} (median {found['E10'].median:.0e}), "
        f"and the gap is {found['E10 bound'].median:.3f} of lam Delta / gamma_star^2 in the median.",
        "A point of the path whose gap differs from lam Delta / U^2 by more than its residual and rounding "
        "allow.",
    )


@claim("e11-rescaling", where=f"{WHERE}, Theorem 11")
def rescaling() -> Finding:
    """Rescaling w by rho and dividing lam by rho gives the duality gap rho G + (rho - 1) (H_1 - H_rho) at
    p = p(w), H_1 - H_rho <= Delta, and at most rho G + (rho - 1) H_1(p) for every p; with sample weights q,
    H_1(p) - log q_min stands in place of H_1(p).

    Count the points at which a side exceeds the other by more than rounding.
    """
    found = _survey()
    return no_violation(
        found,
        ("E11 equality", "E11 Delta", "E11 gap of p(w)", "E11", "E11 sign"),
        f"H_1 - H_rho is {found['E11 Delta'].median:.2f} of Delta in the median and "
        f"{found['E11 Delta'].extreme:.3f} at most; the bound for other p is reached to "
        f"{found['E11'].extreme:.6f}.",
        "A w, p, lam and rho >= 1 whose duality gap exceeds the bound.",
    )


@claim("e12-expansion", where=f"{WHERE}, Theorem 12")
def expansion() -> Finding:
    """In l2, under strict complementarity, w(lam) = gamma_star w_star / lam + c + lam c_1 + O(lam^2),
    with ||v|| <= ||c|| for the part v orthogonal to w_star, and rows off the margin change it by
    exponentially little.

    Count the sets on which the remainder does not fall 50 times where lam falls 10 times, or a bound fails.
    """
    found = _limits(limits.STRICT)
    return no_violation(
        found,
        ("E12", "E12 c_2", "E12 norm", "E12 whole path", "E12 U"),
        "Where lam falls from 1e-3 to 1e-4 of the smallest curvature, the remainder falls "
        f"{FALL / found['E12'].extreme:.1f} times at least, and differs from its leading term lam^2 c_2 by "
        f"{NEXT * found['E12 c_2'].extreme:.1e} of it at most. Rows off the margin come to "
        f"{found['E12 whole path'].extreme:.1e} of the bound on their effect.",
        "A set with strict complementarity whose remainder falls more slowly at ever smaller lam.",
        LIMIT_SETTING,
    )


@claim("e14-newton-step", where=f"{WHERE}, Theorem 14")
def one_system() -> Finding:
    """From the path, the predictor w + (rho - 1) h with the system of the new penalty errs by O(lam^2),
    and h = gamma_star w_star / lam - lam' c_1 + O(lam^2), so that its margin error is lam lam' max <y_i,
    c_1> / gamma_star^2 to leading order: rho^2 times smaller a phase.

    Hold predictor, h and its margin against the leading terms at 1e-4 of the smallest curvature.
    """
    found = _limits(limits.STRICT)
    return no_violation(
        found,
        ("E14 h", "E14 predictor", "E14 constant", "E14 with lam", "E14 gap of h", "E14 100-fold"),
        "The margin error of h differs from its leading term by "
        f"{NEXT * found['E14 gap of h'].extreme:.1e} at most, relative, the error of the predictor by "
        f"{NEXT * found['E14 constant'].extreme:.1e}; where lam falls 10 times they fall "
        f"{FALL / found['E14 100-fold'].extreme:.1f} and {FALL / found['E14 predictor'].extreme:.1f} times "
        f"at least (so {RHO**2:.0f} times a phase for rho = {RHO:g}). With the old penalty in the system the "
        "error is of first order, lam c_1 (rho - 1)^2 / rho.",
        "A set with strict complementarity on which one of these remainders is of lower order.",
        LIMIT_SETTING,
    )


@claim("e13-drift", where=f"{WHERE}, Theorem 13")
def drift_of_the_path() -> Finding:
    """In l2, without strict complementarity, w(lam) = gamma_star w_star / lam + b log(1/lam) +
    o(log(1/lam)), b the shortest vector with <y_i, b> = 0 on rows that carry weight and <y_j, b> >= 1 on
    margin rows that carry none; these weigh ||b||^2 lam log(1/lam) (1 + o(1)).

    Count the points at which one of the two bounds fails that force v / log(1/lam) to b.
    """
    found = _limits(limits.IDLE)
    apart = [limits.drift_distance(problem) for problem in _limit_problems(limits.IDLE)]
    return no_violation(
        found,
        ("E13 length", "E13 idle rows", "E13 balance"),
        f"||v|| is {found['E13 length'].median:.2f} of its bound in the median and "
        f"{found['E13 length'].extreme:.2f} at most, the weight of idle rows "
        f"{found['E13 idle rows'].extreme:.2f}. From lam = 1e-7 to 1e-10 the slope of v in s - log s, s = "
        f"log(1/lam), is within {max(apart):.1%} of b (median {np.median(apart):.1%}).",
        "A set with idle margin rows on which a bound fails, or v / log(1/lam) converges elsewhere.",
        LIMIT_SETTING,
    )
