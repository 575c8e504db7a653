"""Claims of the experiment on the dual vector, ours: its bound, its rate, and what it certifies."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from prgd_paper.claims import Finding, claim
from prgd_paper.reproduce.curves import span
from prgd_paper.reproduce.experiment import OURS
from prgd_paper.studies import _exponential_views as views
from prgd_paper.theory.rates import RateFit, fit_rate

SHOWN = 5.0  # a linear rate shows if the predicted error falls by e^-5 at least within the steps
ROUNDING = 1e-11  # margin errors below this are left out of fits
DECADES = (1e-3, 1e-6, 1e-9)
exponential_claim = partial(claim, experiment=views.NAME)


def _setting(rows: Any, settings: Any) -> str:
    names = "; ".join(dict.fromkeys(f.name for f in views.sets_of(rows)))
    return (
        f"{names}; w = 0, eta = {settings.eta:g} over the largest squared row norm, up to {settings.steps:,} "
        "steps."
    )


@exponential_claim("exponential-bound", where=f"{OURS}: docs/exponential.md, Theorem E1")
def bound_of_the_dual_vector(rows: Any, settings: Any) -> Finding:
    """Along NGD the squared norm of u exceeds gamma_star^2 by at most 2 (log n - H(p_star)) / (eta t).

    Take the largest excess over its bound at the recorded steps.
    """
    shares = {}
    for facts in views.sets_of(rows):
        _, over, bound = views.excess(rows, facts)
        shares[f"{facts.name}, seed {facts.seed}"] = float((over / bound).max())
    return Finding(
        (max(shares.values()), "<=", 1.0),
        f"On {len(shares)} sets the excess is at most {max(shares.values()):.2f} of its bound, between "
        f"{span(shares.values(), '.2f')} by set.",
        figures=shares,
        setting=_setting(rows, settings),
        would_change="A set and a step with a larger excess.",
        what="largest excess over its bound",
    )


def _fit(rows: Any, facts: views.SetFacts) -> RateFit:
    """Fit the error of NGD's u at each step (the smallest so far would be a staircase) down to rounding."""
    curve = views.curve_of(rows, facts, "NGD")
    curve = curve[curve.t > 1]
    t, error = curve.t.to_numpy(float), curve.now.to_numpy(float)
    ended = np.flatnonzero(error <= ROUNDING)
    last = float(t[max(ended[0] - 1, 0)] if ended.size else t[-1])
    return fit_rate(t, error, (last / 10.0, last))


@exponential_claim("exponential-linear-rate", where=f"{OURS}: docs/exponential.md, Theorem E2")
def dual_vector_is_linear(rows: Any, settings: Any) -> Finding:
    """Under strict complementarity the margin error of NGD's u falls linearly, whether or not the support
    vectors span the data; without it, it does not.

    Fit the rate on the sets where the steps are enough to show it, and on the sets without strict
    complementarity.
    """
    sets = views.sets_of(rows)
    steps = {(f.name, f.seed): float(views.curve_of(rows, f, "NGD").t.max()) for f in sets}
    strict = [f for f in sets if f.values["strict complementarity"]]
    shown = [f for f in strict if f.values["predicted rate"] * steps[f.name, f.seed] >= SHOWN]
    idle = [f for f in sets if not f.values["strict complementarity"]]
    fits = {f"{f.name}, seed {f.seed}": _fit(rows, f) for f in (*shown, *idle)}
    brief = [f for f in shown if fits[f"{f.name}, seed {f.seed}"].n < 8]
    wrong = [f for f in shown if f not in brief and fits[f"{f.name}, seed {f.seed}"].rate != "e^-ct"]
    wrong += [f for f in idle if fits[f"{f.name}, seed {f.seed}"].rate == "e^-ct"]
    said = "; ".join(
        f"{name}: {fit.rate}" + (f", {fit.constant:.2g}" if fit.rate != "undecided" else "")
        for name, fit in fits.items()
        if fit.n >= 8
    )
    slow = [1.0 / f.values["predicted rate"] for f in strict if f not in shown]
    words = f" On {len(slow)} further sets 1 / c is {span(slow)} steps: too slow to show." if slow else ""
    return Finding(
        (float(len(wrong)), "==", 0.0),
        f"Fitted: {said}. {len(brief)} runs are at rounding before eight points.{words}",
        setting=_setting(rows, settings),
        would_change="A set with strict complementarity on which enough steps show another rate.",
        what="sets on which the fitted rate is another one",
    )


@exponential_claim("exponential-restarted-digits", where=f"{OURS}: docs/exponential.md, restarted NGD")
def restarted_ngd_certifies_digits(rows: Any, settings: Any) -> Finding:
    """Restarted NGD certifies digits 0/1 and 0/4 to a relative gap of 1e-9 within 20,000 steps.

    Take the steps to the certificate, the largest over the sets of digits.
    """
    level = settings.levels[-1]
    found = {
        f.name: views.passages(rows, f, "restarted NGD", level)[0]
        for f in views.sets_of(rows)
        if f.name.startswith("digits")
    }
    steps = [t if t >= 0 else math.inf for t in found.values()]
    said = "; ".join(f"{name}: {views.step_text(t)}" for name, t in found.items())
    return Finding(
        (max(steps), "<=", 20_000.0),
        f"Steps to a certified gap of {level:.0e}: {said}. By the margin of w no run gets there.",
        figures=found,
        setting=_setting(rows, settings),
        would_change="A rounding of passes by which a run needs more steps.",
        what=f"steps to a certified gap of {level:.0e}, the largest",
    )


@exponential_claim("exponential-restarted-rate", where=f"{OURS}: docs/exponential.md, restarted NGD")
def restarted_ngd_is_exponential(rows: Any, settings: Any) -> Finding:
    """The margin error of u of restarted NGD falls exponentially where Assumption 5.4 fails: measured, not
    proven.

    Compare the steps from an error of 1e-6 to 1e-9 with those from 1e-3 to 1e-6, on the digits.
    """
    ratios = {}
    for facts in views.sets_of(rows):
        if facts.name.startswith("digits"):
            curve = views.curve_of(rows, facts, "restarted NGD")
            error, t = views.error_of(curve, is_second=True), curve.t.to_numpy(float)
            at = [
                float(t[np.argmax(error <= level)]) if (error <= level).any() else math.inf
                for level in DECADES
            ]
            ratios[facts.name] = (at[2] - at[1]) / (at[1] - at[0]) if math.isfinite(at[1]) else math.inf
    return Finding(
        (max(ratios.values()), "<=", 3.0),
        f"The second three decimals take {span(ratios.values(), '.1f')} times the steps of the first three; "
        "errors that fall like 1 / t^2 would take 32 times as many.",
        figures=ratios,
        setting=_setting(rows, settings),
        would_change="A ratio like that of a power of t.",
        what="steps of the second three decimals over those of the first, the largest",
    )


@exponential_claim("exponential-certificates", where=f"{OURS}: docs/exponential.md, certificates by u")
def certificates_by_u(rows: Any, settings: Any) -> Finding:
    """The margin of u makes certificates earlier, and never later, at the cost of one more product per row.

    Take the largest ratio of the steps with u to those without, over methods, sets and gaps of 1e-4 and 1e-6.
    """
    found = [
        views.passages(rows, facts, method, level)
        for facts in views.sets_of(rows)
        for method in views.CERTIFIED
        for level in settings.levels[:2]
    ]
    reached = [(with_u, without) for with_u, without in found if with_u >= 0]
    ratios = [with_u / max(without, 1) for with_u, without in reached if without >= 0]
    only = len(reached) - len(ratios)
    halved = sum(ratio <= 0.5 for ratio in ratios)
    return Finding(
        (max(ratios, default=1.0), "<=", 1.0),
        f"Of {len(found)} certificates {len(reached)} are reached, {only} of them with u only and {halved} "
        "with u in at most half of the steps. In two dimensions, on the synthetic sets, u hardly helps: the "
        "upper bound is what comes late there.",
        figures={"all": len(found), "reached": len(reached), "only with u": only, "halved": halved},
        setting=_setting(rows, settings),
        would_change="A certificate that comes later with u; there is none, since both margins count.",
        what="steps with u over those without, the largest",
    )
