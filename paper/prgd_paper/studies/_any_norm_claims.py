"""Statements of ours about progressive rescaling in any norm, measured on the rows of `any_norm`."""

from __future__ import annotations

from typing import Any

from prgd_paper.claims import Finding, Judgement, claim
from prgd_paper.reproduce.curves import where
from prgd_paper.reproduce.experiment import OURS
from prgd_paper.studies import any_norm as study


@claim("ours-any-norm-plane", where=OURS, experiment="any-norm")
def planes_are_exponential(rows: Any, settings: study.Settings) -> Finding:
    """In the plane, progressive sign descent and coordinate descent reach an error of 1e-12 where plain steps
    stay above 1e-6.

    Count the draws that do, for steps inside the ball.
    """
    plane = study.plane_of(rows)
    inside, radial = study.shares_of(plane, study.INSIDE), study.shares_of(plane, study.RADIAL)
    words = "; ".join(
        f"{norm} on {name}: {share:.0%} inside, {radial[name, norm]:.0%} with radial projection"
        for (name, norm), share in inside.items()
    )
    plain = plane[plane.norm.isin(study.CORNERED)]
    exact = plain[plain[study.PLAIN] <= study.LARGE]
    return Finding(
        (min(inside.values()), ">=", 0.95),
        f"Share of draws at most {study.TINY:.0e}, of those where plain steps are above {study.LARGE:.0e}: "
        f"{words}. Plain steps are below that in {len(exact)} of {len(plain)} draws; w_star is a corner of "
        f"the ball in {(exact.corner > 0).sum()} of these.",
        setting=f"Sets I and II with eta = {settings.paper_eta:g}, Gaussian rows in the plane with eta = "
        f"{settings.plane_eta:g}; {settings.warm_up:,} plain steps, then {settings.steps:,} with a "
        f"rescaling by {settings.growth:g} every {settings.phase}; {plain.seed.nunique()} draws of each.",
        what="smallest share of draws at most 1e-12",
        would_change="A set or a norm with fewer than 95 of 100 draws at most 1e-12.",
    )


@claim("ours-any-norm-corner", where=OURS, experiment="any-norm")
def corners_freeze_radial_steps(rows: Any, settings: study.Settings) -> Finding:
    """In the plane, where w_star is a corner of the ball with one active row and plain steps leave an error,
    progressive steps with radial projection freeze, and steps inside the ball do not.

    Take the smaller of two shares of such draws: those that freeze, and those that reach 1e-12.
    """
    plane = study.plane_of(rows)
    cornered = plane[plane.norm.isin(study.CORNERED)]
    some = cornered[(cornered.corner > 0) & (cornered.active == 1) & (cornered[study.PLAIN] > study.LARGE)]
    setting = (
        f"The draws of the plane in l1 and l-infinity, {settings.steps:,} steps after "
        f"{settings.warm_up:,} of warm-up with growth {settings.growth:g}."
    )
    would_change = "Draws on corners in which radial steps reach 1e-12, or steps inside do not."
    if some.empty:
        words = "There is no such draw among these rows."
        return Finding(Judgement.NOT_DECIDED, words, setting=setting, would_change=would_change)
    frozen, reached = (some[study.RADIAL] > study.TINY).sum(), (some[study.INSIDE] <= study.TINY).sum()
    others = cornered[(cornered.corner == 0) | (cornered.active > 1)]
    return Finding(
        (min(frozen, reached) / len(some), ">=", 0.95),
        f"Of {len(some)} such draws {frozen} stay above {study.TINY:.0e} with radial projection, and "
        f"{reached} reach it with steps inside. Of the other {len(others)} draws radial steps leave "
        f"{(others[study.RADIAL] > study.TINY).sum()} above, where this growth is too fast for them.",
        setting=setting,
        what="the smaller share",
        would_change=would_change,
    )


@claim("ours-any-norm-growth", where=OURS, experiment="any-norm")
def fast_growth_freezes(rows: Any, settings: study.Settings) -> Finding:
    """In the plane, in every norm, radii that grow too fast freeze the direction.

    Compare the shares of runs that do not freeze, with the smallest and with the largest growth.
    """
    swept = where(rows, part="sweep")
    swept = swept[swept.eta == study.nearest_eta(settings, settings.space_eta)]
    cells = [swept["set"], swept.norm, swept.growth]
    goes_on = (~study.is_frozen(swept)).groupby(cells).mean().unstack("growth")
    slow, fast = goes_on[goes_on.columns[0]], goes_on[goes_on.columns[-1]]
    words = "; ".join(
        f"{norm} on {name} {slow[name, norm]:.0%} and {fast[name, norm]:.0%}" for name, norm in goes_on.index
    )
    return Finding(
        (float((slow - fast).loc["gaussian-2"].min()), ">", 0.0),
        f"Share of runs that do not freeze with growth {goes_on.columns[0]:g} and with growth "
        f"{goes_on.columns[-1]:g}: {words}.",
        setting=f"Gaussian rows in the plane (and in 5 dimensions), {swept.seed.nunique()} draws, eta = "
        f"{swept.eta.iloc[0]:g}, until the radius has grown {settings.sweep_radius:.0e} times.",
        what="smallest difference of the shares in the plane",
        would_change="A norm in which as many runs freeze in the plane with the smaller growth.",
    )


@claim("ours-any-norm-gate", where=OURS, experiment="any-norm")
def gate_does_not_freeze(rows: Any, settings: study.Settings) -> Finding:
    """Radii that grow when the first part of the gap is at most half of the second leave a smaller error than
    plain steps do.

    Divide the median error of the gated steps by that of plain ones, on each set and in each norm.
    """
    last = where(study.last_of(rows), part="space")
    some = last[last.method.isin([study.PLAIN, study.GATED])]
    table = some.groupby(["set", "norm", "method"]).error.median().unstack("method")
    ratio = table[study.GATED] / table[study.PLAIN]
    words = ", ".join(f"{norm} on {name} {value:.0e}" for (name, norm), value in ratio.items())
    return Finding(
        (float(ratio.max()), "<", 1.0),
        f"Median error of gated steps over that of plain ones after {settings.space_steps:,} steps: {words}.",
        setting=f"Gaussian rows in {settings.dimensions} dimensions, digit-01, and sets of several classes "
        f"in the spectral norm; after {settings.warm_up:,} plain steps with eta = {settings.space_eta:g}.",
        what="largest ratio of median errors",
        would_change="A set and a norm in which gated steps end above plain ones.",
    )
