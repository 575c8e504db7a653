"""Statements of ours about progressive rescaling in any norm, measured on the rows of `any_norm`."""

from __future__ import annotations

from typing import Any

from prgd.claims import Finding, claim
from prgd.reproduce.any_norm import (
    CORNERED,
    GATED,
    INSIDE,
    LARGE,
    PLAIN,
    RADIAL,
    TINY,
    Settings,
    is_frozen,
    last_of,
    nearest_eta,
    plane_of,
    shares_of,
)
from prgd.reproduce.curves import where
from prgd.reproduce.experiment import OURS


@claim("ours-any-norm-plane", where=OURS, experiment="any-norm")
def planes_are_exponential(rows: Any, settings: Settings) -> Finding:
    """In the plane, progressive sign descent and coordinate descent reach an error of 1e-12 where plain steps
    stay above 1e-6.

    Count the draws that do, for steps inside the ball.
    """
    plane = plane_of(rows)
    inside, radial = shares_of(plane, INSIDE), shares_of(plane, RADIAL)
    words = "; ".join(
        f"{norm} on {name}: {share:.0%} inside, {radial[name, norm]:.0%} with radial projection"
        for (name, norm), share in inside.items()
    )
    plain = plane[plane.norm.isin(CORNERED)]
    exact = plain[plain[PLAIN] <= LARGE]
    return Finding(
        (min(inside.values()), ">=", 0.95),
        f"Share of draws at most {TINY:.0e}, of those where plain steps are above {LARGE:.0e}: {words}. "
        f"Plain steps are below that in {len(exact)} of {len(plain)} draws; w_star is a corner of the ball "
        f"in {(exact.corner > 0).sum()} of these.",
        setting=f"Sets I and II with eta = {settings.paper_eta:g}, Gaussian rows in the plane with eta = "
        f"{settings.plane_eta:g}; {settings.warm_up:,} plain steps, then {settings.steps:,} with a "
        f"rescaling by {settings.growth:g} every {settings.phase}; {plain.seed.nunique()} draws of each.",
        what="smallest share of draws at most 1e-12",
        would_change="A set or a norm with fewer than 95 of 100 draws at most 1e-12.",
    )


@claim("ours-any-norm-corner", where=OURS, experiment="any-norm")
def radial_steps_freeze_on_corners(rows: Any, settings: Settings) -> Finding:
    """In the plane, progressive steps with radial projection freeze only if w_star is a corner of the ball.

    Count the draws that they leave above 1e-12 though w_star is no corner.
    """
    plane = plane_of(rows)
    some = plane[plane.norm.isin(CORNERED)]
    fails = some[some[RADIAL] > TINY]
    off_corner, corner = fails[fails.corner == 0], some[(some.corner > 0) & (some.active == 1)]
    return Finding(
        (len(off_corner) / max(len(some[some.corner == 0]), 1), "<=", 0.05),
        f"Radial steps leave {len(fails)} of {len(some)} draws above {TINY:.0e}; in "
        f"{len(fails) - len(off_corner)} of them w_star is a corner. Of {len(corner)} draws with one active "
        f"row and w_star a corner, {(corner[RADIAL] > TINY).sum()} freeze, and "
        f"{(corner[INSIDE] > TINY).sum()} with steps inside the ball.",
        setting="The draws of the plane, l1 and l-infinity; "
        f"{settings.steps:,} steps after {settings.warm_up:,} of warm-up.",
        what="share of draws off corners that freeze",
        would_change="More than 5 in 100 draws that freeze though w_star is no corner.",
    )


@claim("ours-any-norm-growth", where=OURS, experiment="any-norm")
def fast_growth_freezes(rows: Any, settings: Settings) -> Finding:
    """In every norm, radii that grow too fast freeze the direction.

    Compare the shares of runs that do not freeze, with the smallest and with the largest growth.
    """
    swept = where(rows, part="sweep")
    swept = swept[swept.eta == nearest_eta(settings, settings.space_eta)]
    cells = [swept["set"], swept.norm, swept.growth]
    goes_on = (~is_frozen(swept)).groupby(cells).mean().unstack("growth")
    slow, fast = goes_on[goes_on.columns[0]], goes_on[goes_on.columns[-1]]
    words = "; ".join(
        f"{norm} on {name} {slow[name, norm]:.0%} and {fast[name, norm]:.0%}" for name, norm in goes_on.index
    )
    return Finding(
        (float((slow - fast).min()), ">", 0.0),
        f"Share of runs that do not freeze with growth {goes_on.columns[0]:g} and with growth "
        f"{goes_on.columns[-1]:g}: {words}.",
        setting=f"Gaussian rows in 2 and 5 dimensions, {settings.sweep_draws} draws, eta = "
        f"{swept.eta.iloc[0]:g}, until the radius has grown {settings.sweep_radius:.0e} times.",
        what="smallest difference of the shares",
        would_change="A norm in which as many runs freeze with the smaller growth.",
    )


@claim("ours-any-norm-gate", where=OURS, experiment="any-norm")
def gate_does_not_freeze(rows: Any, settings: Settings) -> Finding:
    """Radii that grow when the first part of the gap is at most half of the second leave a smaller error than
    plain steps do.

    Divide the median error of the gated steps by that of plain ones, on each set and in each norm.
    """
    last = where(last_of(rows), part="space")
    some = last[last.method.isin([PLAIN, GATED])]
    table = some.groupby(["set", "norm", "method"]).error.median().unstack("method")
    ratio = table[GATED] / table[PLAIN]
    words = ", ".join(f"{norm} on {name} {value:.0e}" for (name, norm), value in ratio.items())
    return Finding(
        (float(ratio.max()), "<", 1.0),
        f"Median error of gated steps over that of plain ones after {settings.space_steps:,} steps: {words}.",
        setting=f"Gaussian rows in {settings.dimensions} dimensions, digit-01, and sets of several classes "
        f"in the spectral norm; after {settings.warm_up:,} plain steps with eta = {settings.space_eta:g}.",
        what="largest ratio of median errors",
        would_change="A set and a norm in which gated steps end above plain ones.",
    )
