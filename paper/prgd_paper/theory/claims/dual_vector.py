"""Statements 1 to 7, 9 and 15 to 17 of docs/note/note.md, ours: the gradient's direction as a separator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from prgd.algorithms import SteepestDescent
from prgd.maxmargin import max_margin
from prgd.problem import Problem
from prgd_paper.claims import Finding, claim
from prgd_paper.theory import gradient_checks as checks
from prgd_paper.theory.claims.path import WHERE, no_violation, real_sets
from prgd_paper.theory.path_checks import Reading, Summary, summarise
from prgd_paper.theory.path_limits import IDLE, STRICT
from prgd_paper.theory.sampled_runs import states
from prgd_paper.theory.samples import PathProblem, path_problem

SEEDS, SMALL, STEPS = range(28), 12, 200  # four planted problems of each kind, of so many rows and columns
OTHER_NORMS = ("lp:1.5", "l1", "linf")
NORM_STEPS = 400
SETTING = (
    f"Planted sets of at most {SMALL} rows and columns of the kinds that the statement is about, seeds 0 to "
    f"{SEEDS[-1]}, and 60 rows of digits 0/1 and 0/4, each through the origin and with an intercept. "
    f"Extended precision; runs of {STEPS} steps (where limits are asked, of more)."
)
count = partial(no_violation, setting=SETTING)


@cache
def _sets(*kinds: str, real: bool = True) -> tuple[PathProblem, ...]:
    """Return planted sets of some kinds and real ones, without an intercept and with it."""
    planted = [p for seed in SEEDS if (p := path_problem(seed, SMALL)).kind in kinds]
    found = [*planted, *(p.with_intercept() for p in planted)]
    return (*found, *real_sets(False), *real_sets(True)) if real else tuple(found)


def _ask(
    sets: Iterable[PathProblem], *readings: Callable[..., Iterator[Reading]], **options: Any
) -> dict[str, Summary]:
    return summarise(r for problem in sets for ask in readings for r in ask(problem, **options))


@cache
def _mirror() -> dict[str, Summary]:
    return _ask(_sets(*STRICT, *IDLE), checks.mirror_readings)


@claim("e1-mirror-descent", where=f"{WHERE}, Lemma 1")
def mirror_descent() -> Finding:
    """Along w <- w + eta u with eta <= 4 / D^2, for every p of the simplex, eta (U_+^2 - ||Z^T p||^2) / 2 is
    at most KL(p || p_t) - KL(p || p_+) - eta ||u_t - Z^T p||^2 / 2, so that U does not grow.

    Count the steps at which it fails for p_star or random p.
    """
    return count(
        _mirror(),
        ("E1", "E1 norm"),
        "Steps are 0.2 to 1 times the longest.",
        "A step and a p for which the left side is larger.",
    )


@claim("e3-linear-rate", where=f"{WHERE}, Theorem 3")
def linear_rate_of_the_dual_vector() -> Finding:
    """Under strict complementarity, E_t = exp(D_M ||x_t - c||) - 1 falls by exp(-eta mu) in a step of NGD, up
    to the weight of other rows, which falls like exp(-kappa gamma_star sigma_t), and both bound ||u_t -
    gamma_star w_star||.

    Count the steps at which (a), (b) or (c) fails.
    """
    found = _ask(_sets(*STRICT), checks.rate_readings, steps=STEPS)
    found |= _ask(_sets(*STRICT, *IDLE), checks.centre_readings)
    return count(
        found,
        ("E2 dual", "E2", "E2 other", "E2 zero", "E3 a", "E3 b", "E3 c"),
        f"E_t comes to {found['E3 b'].extreme:.6f} of its bound. E2 is Lemma 2, on rows that carry weight.",
        "A set with strict complementarity and a step of at most 4 / D^2 at which a bound fails.",
    )


@claim("e4-gradient-descent", where=f"{WHERE}, Corollary 4")
def gradient_descent() -> Finding:
    """Under strict complementarity the direction of the gradient of plain GD converges like t^-min(mu /
    gamma_star^2, kappa / gamma_star), up to a logarithm, since GD is NGD with the steps eta L(w_t).

    Count the steps at which L grows, or a bound of Theorem 3 fails.
    """
    found = _ask(_sets(*STRICT), checks.rate_readings, steps=STEPS, loss="exponential")
    return count(
        found,
        ("E4 steps", "E4 a", "E4 b", "E4 c"),
        f"E_t comes to {found['E4 b'].extreme:.3f} of its bound.",
        "A run of GD on which a bound fails.",
    )


@claim("e5-strict-complementarity-is-necessary", where=f"{WHERE}, Proposition 5")
def strict_complementarity_is_necessary() -> Finding:
    """Without strict complementarity the sum of eta ||u_t - gamma_star w_star|| along NGD from 0 diverges;
    along GD 1 / L grows by at least eta gamma_star^2 / 2 in a step.

    Count the sets on which what 1,024 steps add falls below half of what the 512 steps before them added, and
    the steps in which 1 / L grows by less.
    """
    found = _ask(_sets(*IDLE, real=False), checks.sum_readings, checks.loss_readings)
    return count(
        found,
        ("E5", "E5 loss"),
        f"The ratio to the bound is {found['E5'].extreme:.2f} at most.",
        "A set with idle margin rows on which the errors of u are summable.",
    )


@claim("e6-momentum", where=f"{WHERE}, Theorem 6")
def momentum() -> Finding:
    """With constant momentum (1 - q) / (1 + q), q = sqrt(eta mu), from near the limit u converges like (1 -
    q)^t, or like the weight of other rows if that is slower.

    Count roots of the recursion beyond 1 - q, and runs whose exponent is below 0.7 of the
    rate, as a double root adds a factor t.
    """
    found = _ask(_sets(*STRICT), checks.momentum_readings)
    return count(
        found,
        ("E6 roots", "E6"),
        f"Roots come to {found['E6 roots'].extreme:.4f} of 1 - q.",
        "A start near the limit from which u is slower.",
    )


@claim("e7-separator-in-any-norm", where=f"{WHERE}, Proposition 7")
def separator_in_any_norm() -> Finding:
    """The gap of u = Z^T p as its own separator is at most ((2 gamma_star + B) delta + delta^2) /
    gamma_star^2, and in any norm the direction v of norm 1 with the largest <u, v> has a margin of at most
    gamma_star.

    Count random p for which the bound fails, and sets on which the margin of v exceeds an upper bound of
    gamma_star along steepest descent in l_1.5, l1 and l-infinity.
    """
    found = _ask(_sets(*STRICT, *IDLE), checks.separator_readings)
    other = []
    for drawn in map(partial(path_problem, max_size=10), range(4)):
        for norm in OTHER_NORMS:
            bound = max_margin(drawn.Z, norm=norm, fit_intercept=False, n_jobs=1).certificate.upper
            walk = states(
                Problem(drawn.Z, norm=norm, n_jobs=1), SteepestDescent(), times=range(2, NORM_STEPS)
            )
            other.append(Reading("E7 any norm", max(s.at.second_gamma for s in walk), bound, 1e-12 * bound))
    found |= summarise(other)
    return count(
        found,
        ("E7", "E7 delta", "E7 any norm"),
        f"The largest margin of v is {found['E7 any norm'].extreme:.6f} of gamma_star.",
        "A p whose dual vector has a larger gap, or a direction whose margin exceeds gamma_star.",
    )


@claim("e9-dual-acceleration", where=f"{WHERE}, Theorem 9")
def dual_acceleration() -> Finding:
    """Dual acceleration certifies ||u_mean||^2 - gamma(w_t)^2 <= 8 log n / (eta (t + 1)^2) for eta <= 4 /
    D^2, on every separable set.

    Count the steps at which it fails.
    """
    drawn = tuple(path_problem(seed, 60) for seed in SEEDS)
    found = _ask((*drawn, *_sets(*STRICT, *IDLE)), checks.acceleration_readings)
    return count(
        found, ("E9",), f"The gap comes to {found['E9'].extreme:.2f} of its bound.", "A step beyond it."
    )


@claim("e15-one-system", where=f"{WHERE}, Theorem 15")
def one_system() -> Finding:
    """Weights p - D Z x that Newton's step x predicts have the dual vector lam (w + x); below lam_c one
    system on the margin rows certifies any accuracy, for its step changes margins by less than 1/9; from
    points near the path it ends as near, up to 1 / (5 D_M).

    Count random w at which the identity fails, and steps from lam_c and lam_c / 10, and from points near the
    path, to 10, 1e4 and 1e8 times smaller penalties whose certified gap or end exceeds its bound.
    """
    found = _ask(_sets(*STRICT), checks.system_readings)
    return count(
        found,
        ("E15 weights", "E15 change", "E15", "E15 near change", "E15 near"),
        f"Margins change by {found['E15 change'].extreme / 9.0:.4f} at most.",
        "A set with strict complementarity and a penalty below lam_c from which one system is not enough.",
    )


@claim("e16-translation", where=f"{WHERE}, Proposition 16")
def translation() -> Finding:
    """A step of any length s with s ||u_+ - u||^2 <= 2 KL(p_+ || p) satisfies the inequality of Lemma 1.

    Count the longest steps among 4 to 4,096 times 4 / D^2 that pass the test and violate it.
    """
    return count(
        _mirror(),
        ("E16",),
        "Every one of these steps is longer than Lemma 1 allows.",
        "A step that passes the test and violates the inequality.",
    )


@claim("e17-logistic-loss", where=f"{WHERE}, Proposition 17")
def logistic_loss() -> Finding:
    """With the logistic loss <w, u> - min <w, z_i> <= LambertW(2 (n - 1) / e) where w separates, and along GD
    x_t follows the recursion of Theorem 3 with a further error D_M max_M exp(-<w, z_i>).

    Count random w and steps that exceed the bounds.
    """
    sets = [p for p in _sets(*STRICT) if p.groups is None]
    found = _ask(sets, checks.rate_readings, steps=STEPS, loss="logistic") | _ask(
        sets, checks.logistic_readings
    )
    share = found["E17 soft"].extreme
    return count(
        found,
        ("E17 steps", "E17", "E17 soft"),
        f"The second part of the gap comes to {share:.2f} of its bound." if math.isfinite(share) else "",
        "A w that separates, or a step of GD, beyond the bounds.",
    )
