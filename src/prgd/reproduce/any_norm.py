"""Ours: progressive rescaling in norms other than l2; docs/any_norm.md says what is proven and what is not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prgd import datasets
from prgd._types import Array
from prgd.algorithms import PRGD, SteepestDescent
from prgd.claims import Finding, claim
from prgd.maxmargin import max_margin
from prgd.problem import Problem
from prgd.reproduce import figures as fig
from prgd.reproduce.curves import error_bands, record_times, where
from prgd.reproduce.experiment import OURS, Experiment, Row
from prgd.reproduce.growing_dimension import gaussian
from prgd.reproduce.inside_steps import GatedInside, InsidePRGD
from prgd.reproduce.synthetic import SETS
from prgd.schedules import Every, Geometric

CORNERED = ("l1", "linf")  # norms whose ball has corners, and whose margins are linear programs
NORMS = (*CORNERED, "1.5", "3")
PLAIN, RADIAL, INSIDE, GATED = "plain steps", "progressive", "progressive, inside", "gated, inside"
STYLES = {
    PLAIN: fig.Style(fig.ORANGE, "dash", "square"),
    RADIAL: fig.Style(fig.BLUE, "solid", "circle"),
    INSIDE: fig.Style(fig.VERMILLION, "solid", "triangle-up"),
    GATED: fig.Style(fig.GREEN, "dashdot", "diamond"),
}
COLUMNS = (
    "part", "set", "norm", "seed", "method", "eta", "growth", "t", "error", "start", "active", "corner",
)  # fmt: skip
TINY, LARGE = 1e-12, 1e-6  # what progressive steps must reach in the plane, and what plain steps stay above
ACTIVE = 1e-9  # a row or a bound within this fraction is active


@dataclass(frozen=True)
class Settings:
    """Draws, schedules and step sizes: in the plane, in more dimensions, and of the sweep over growth.

    ``few`` is the number of draws in more dimensions, of norms without corners, and of drawn curves.
    """

    seeds: int = 100
    few: int = 10
    warm_up: int = 1_000
    phase: int = 5
    n: int = 100
    shift: float = 0.5
    steps: int = 1_000
    growth: float = 1.2
    paper_eta: float = 1.0  # on the paper's sets I and II
    plane_eta: float = 30.0  # on Gaussian rows in the plane
    dimensions: tuple[int, ...] = (5, 20)
    space_steps: int = 3_000
    space_growths: tuple[float, ...] = (1.2, 1.05, 1.02)
    space_eta: float = 3.0
    digit_rows: int = 300
    sweep_draws: int = 5
    sweep_growths: tuple[float, ...] = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
    sweep_etas: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)
    sweep_radius: float = 1e6  # the sweep ends when the radius has grown by this factor
    matrix_rows: int = 60


class Run(NamedTuple):
    """One algorithm of a task: its name, its step size and growth (0: none), and its steps."""

    method: str
    algorithm: Any
    eta: float
    growth: float
    steps: int


def tasks(settings: Settings) -> list[str]:
    """Return one task for each part, set, norm and seed."""
    draws = {
        norm: range(settings.seeds if norm in CORNERED else min(settings.few, settings.seeds))
        for norm in NORMS
    }
    few, some = range(min(settings.few, settings.seeds)), range(min(settings.sweep_draws, settings.seeds))
    plane = [f"plane_{name}_{p}_{seed}" for name in (*SETS, "gaussian-2") for p in NORMS for seed in draws[p]]
    sets = [f"gaussian-{d}" for d in settings.dimensions]
    space = [f"space_{name}_{p}_{seed}" for name in sets for p in NORMS for seed in few]
    swept = [
        f"sweep_{name}_{p}_{seed}" for name in ("gaussian-2", "gaussian-5") for p in NORMS for seed in some
    ]
    matrix = [f"space_{name}_spectral_{seed}" for name in ("circle", "clusters") for seed in few]
    return [*plane, *space, *(f"space_digit-01_{p}_0" for p in NORMS), *matrix, *swept]


def data_of(settings: Settings, name: str, seed: int) -> tuple[Array, Array]:
    """Return rows and labels: a set of the paper, Gaussian rows, digits, or three or four classes."""
    kind, _, d = name.partition("-")
    if kind == "gaussian":
        return gaussian(seed, settings.n, int(d), settings.shift)
    if kind == "digit":
        return datasets.digits(0, 1, settings.digit_rows)
    if kind in SETS:
        return SETS[kind](seed, settings.n)
    rng = np.random.default_rng([seed, len(kind)])
    K, columns = (3, 2) if kind == "circle" else (4, 5)
    angles = 2.0 * math.pi * np.arange(K) / K
    centers = (
        np.column_stack([np.cos(angles), np.sin(angles)])
        if kind == "circle"
        else np.eye(K, columns) + 0.3 * rng.standard_normal((K, columns))
    )
    y = np.arange(settings.matrix_rows) % K
    return centers[y] + 0.15 * rng.standard_normal((settings.matrix_rows, columns)), y


def runs(settings: Settings, part: str, name: str, has_corners: bool) -> Iterator[Run]:
    """Yield the runs of a task."""
    kinds = {RADIAL: PRGD, INSIDE: InsidePRGD} if has_corners else {RADIAL: PRGD}
    if part == "sweep":
        cells = [(eta, growth) for eta in settings.sweep_etas for growth in settings.sweep_growths]
    else:
        in_plane = part == "plane"
        eta = (
            settings.space_eta if not in_plane else settings.paper_eta if name in SETS else settings.plane_eta
        )
        steps = settings.steps if in_plane else settings.space_steps
        yield Run(PLAIN, SteepestDescent(eta), eta, 0.0, steps)
        yield Run(GATED, GatedInside(), eta, 0.0, steps)
        cells = [(eta, growth) for growth in ([settings.growth] if in_plane else settings.space_growths)]
    for eta, growth in cells:
        if part == "sweep":
            phases = math.ceil(math.log(settings.sweep_radius) / math.log(growth)) + 1
            steps = settings.phase * phases
        for method, kind in kinds.items():
            yield Run(method, kind(Geometric(growth), Every(settings.phase), eta), eta, growth, steps)


def follow(problem: Problem, algorithm: Any, w0: Array, steps: int) -> tuple[Array, Array]:
    """Return the last w and the margin at every step from 1 on; `prgd.run` would also certify each, in thrice the time."""
    s = algorithm.init(problem, w0)
    margins = np.empty(steps + 1)
    margins[0] = s.at.gamma if s.at.length else -math.inf
    for t in range(1, steps + 1):
        s = algorithm.step(problem, s)
        margins[t] = s.at.gamma
    return s.w, margins


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the relative margin error of every run of a task: along the first draws, else at its end."""
    part, name, norm, seed = task.split("_")
    X, y = data_of(settings, name, int(seed))
    problem = Problem(X, y, norm=norm, n_threads=1)
    is_joint = len(problem.shape) == 2
    found = max_margin(
        X, y, norm=norm, fit_intercept=False, multi_class="joint" if is_joint else None, tol=1e-9, n_threads=1
    ).certificate
    warm = {
        eta: follow(problem, SteepestDescent(eta), np.zeros(problem.shape), settings.warm_up)
        for eta in {run.eta for run in runs(settings, part, name, True)}
    }
    seen = [
        (run, follow(problem, run.algorithm, warm[run.eta][0], run.steps)[1])
        for run in runs(settings, part, name, norm in CORNERED or is_joint)
    ]
    # Linear programs are certified to rounding. Elsewhere the best margin of all runs may be above the solver's.
    gamma_star = found.upper if norm in CORNERED else max(found.lower, *(float(m.max()) for _, m in seen))
    facts = dict(zip(("active", "corner"), _face(X, y, norm, found.w), strict=True)) if not is_joint else {}
    rows = []
    for run, margins in seen:
        is_drawn = part != "sweep" and int(seed) < settings.few
        times = record_times(run.steps, per_decade=12).tolist() if is_drawn else [run.steps]
        base = dict(
            zip(COLUMNS[:7], (part, name, norm, int(seed), run.method, run.eta, run.growth), strict=True)
        )
        base |= {"start": 1.0 - warm[run.eta][1][-1] / gamma_star, "active": 0, "corner": 0} | facts
        rows += [base | {"t": t, "error": 1.0 - margins[t] / gamma_star} for t in times]
    return [{column: row[column] for column in COLUMNS} for row in rows]


def _face(X: Array, y: Array, norm: str, w: Array) -> tuple[int, int]:
    """Return the number of active rows, and by how many bounds w_star lies on a corner of the ball (0: none)."""
    margins, size = y * (X @ w), np.abs(w)
    active = int(np.count_nonzero(margins <= margins.min() * (1.0 + ACTIVE)))
    zeros = int(np.count_nonzero(size <= ACTIVE * size.max()))
    bounds = int(np.count_nonzero(size >= (1.0 - ACTIVE) * size.max()))
    return active, {"l1": zeros, "linf": bounds - 1}.get(norm, 0)


def draw(rows: Any, settings: Settings) -> list[fig.Figure]:
    """Return errors against steps for each norm, and errors after the same growth of the radius."""
    cells = [("gaussian-2", p) for p in NORMS] + [("gaussian-5", "l1"), ("gaussian-5", "linf")]
    panels = []
    for name, norm in [*cells, ("gaussian-20", "l1"), ("gaussian-20", "linf"), ("circle", "spectral")]:
        some = where(rows[(rows.part != "sweep") & (rows.seed < settings.few)], set=name, norm=norm)
        growths = sorted({g for g in some.growth if g})
        # Of several growths the panel shows the smallest, whose error ends lowest or is limited by its steps.
        some = some[some.growth.isin([0.0, *growths[:1]])]
        if some.empty:
            continue
        label = norm if norm == "spectral" or norm.startswith("l") else f"l_{norm}"
        title = f"{label}, {name}, growth {growths[0]:g}"
        marks = [_styled(mark) for mark in error_bands(some, "t")]
        panels.append(
            fig.log_log(title, marks, fig.LEFT_OUT, "1 - gamma(w) / gamma_star", 1e-16, 2.0, is_ours=True)
        )
    alt = (
        "Relative margin error against steps after the warm-up for each norm, medians and bands over draws: in "
        "the plane progressive steps fall to rounding, plain ones stay; in 20 dimensions all stay above 1e-6. "
    )
    errors = fig.Figure(
        "any-norm", "Progressive rescaling in other norms", alt + reading(rows, settings), tuple(panels)
    )
    return [errors, _growth_figure(rows, settings)]


def _styled(mark: Any) -> Any:
    from dataclasses import replace

    return replace(mark, style=STYLES[mark.name])


def _growth_figure(rows: Any, settings: Settings) -> fig.Figure:
    swept, panels = where(rows, part="sweep"), []
    eta_of = {"gaussian-2": settings.sweep_etas[-1], "gaussian-5": settings.space_eta}
    for name in ("gaussian-2", "gaussian-5"):
        for norm in NORMS:
            some = where(swept, set=name, norm=norm)
            some = some[some.eta == min(settings.sweep_etas, key=lambda eta: abs(eta - eta_of[name]))]
            marks: list[Any] = []
            for method in some.method.unique():
                cell = where(some, method=method).groupby("growth").error
                x, y = cell.median().index.to_numpy(), fig.floored(cell.median())
                marks.append(fig.Line(method, x - 1.0, y, style=STYLES[method]))
            title = f"{norm if norm.startswith('l') else f'l_{norm}'}, {name}, eta = {some.eta.iloc[0]:g}"
            y_label = f"error when R_k = {settings.sweep_radius:.0e} R_0"
            panels.append(
                fig.log_log(title, marks, "growth of the radius, less 1", y_label, 1e-13, 1.0, is_ours=True)
            )
    alt = (
        "Median error when the radius has grown a million times, against its growth in a phase: low and flat for "
        "small growth, and frozen near the error of the start beyond a threshold, which is lower in 5 dimensions."
    )
    return fig.Figure("any-norm-growth", "Freezing against growth", alt, tuple(panels), columns=4)


def _last(rows: Any) -> Any:
    keys = ["part", "set", "norm", "seed", "method", "eta", "growth"]
    return rows.sort_values("t", kind="stable").groupby(keys, as_index=False).tail(1)


def _plane(rows: Any) -> Any:
    """Return the last errors in the plane, a column for each method, with the facts of each draw."""
    last = where(_last(rows), part="plane")
    return last.pivot(
        index=["set", "norm", "seed", "active", "corner"], columns="method", values="error"
    ).reset_index()


def tables(rows: Any, settings: Settings) -> list[fig.Table]:
    """Return the counts in the plane, the errors in more dimensions, and what does not freeze."""
    plane = []
    for (name, norm), some in _plane(rows).groupby(["set", "norm"], sort=False):
        inside = (some[INSIDE] <= TINY).sum() if norm in CORNERED else "-"
        plane.append(
            {
                "set": name,
                "norm": norm,
                "draws": f"{len(some)}",
                "w_star is a corner": f"{(some.corner > 0).sum()}",
                "plain above 1e-6": f"{(some[PLAIN] > LARGE).sum()}",
                "progressive at most 1e-12": f"{(some[RADIAL] <= TINY).sum()}",
                "inside at most 1e-12": f"{inside}",
                "plain, median": fig.small(some[PLAIN].median()),
                "gated, median": fig.small(some[GATED].median()),
            }
        )
    space = []
    last = _last(rows)
    for (name, norm, method, growth), some in where(last, part="space").groupby(
        ["set", "norm", "method", "growth"], sort=False
    ):
        space.append(
            {
                "set": name,
                "norm": norm,
                "method": method,
                "growth": f"{growth:g}" if growth else "-",
                "median": fig.small(some.error.median()),
                "smallest": fig.small(some.error.min()),
                "largest": fig.small(some.error.max()),
                "active rows": f"{some.active.median():g}",
                "bounds of a corner": f"{some.corner.median():g}",
            }
        )
    swept = where(last, part="sweep").assign(goes_on=lambda r: ~is_frozen(r))
    frozen = []
    for (name, norm, method, eta), some in swept.groupby(["set", "norm", "method", "eta"], sort=False):
        counts = some.groupby("growth").goes_on.sum()
        line = {"set": name, "norm": norm, "method": method, "eta": f"{eta:g}"}
        frozen.append(line | {f"{growth:g}": f"{counts[growth]}" for growth in settings.sweep_growths})
    growths = tuple(f"{growth:g}" for growth in settings.sweep_growths)
    return [
        fig.Table.of(
            f"In the plane, {settings.steps:,} steps after {settings.warm_up:,} of warm-up: draws by their error.",
            plane,
            numbers=tuple(plane[0])[2:],
        ),
        fig.Table.of(
            f"More dimensions, digits and matrices: relative errors after {settings.space_steps:,} steps.",
            space,
            numbers=tuple(space[0])[3:],
        ),
        fig.Table.of(
            f"Draws of {settings.sweep_draws} that do not freeze, by growth of the radius: the error falls a thousand "
            f"times while the radius grows {settings.sweep_radius:.0e} times.",
            frozen,
            numbers=("eta", *growths),
        ),
    ]


def is_frozen(rows: Any) -> Any:
    """Return for each row whether the error fell less than a thousand times since the warm-up's end."""
    return rows.error > np.maximum(1e-3 * rows.start, TINY)


def _shares(plane: Any, method: str) -> dict[tuple[str, str], float]:
    """Return, for each set and norm with corners, the share of draws that reach 1e-12 where plain steps do not reach 1e-6."""
    some = plane[plane.norm.isin(CORNERED) & (plane[PLAIN] > LARGE)]
    return dict((some[method] <= TINY).groupby([some["set"], some.norm]).mean())


@claim("ours-any-norm-plane", where=OURS, experiment="any-norm")
def planes_are_exponential(rows: Any, settings: Settings) -> Finding:
    """In the plane, progressive sign descent and coordinate descent reach an error of 1e-12 where plain steps stay above 1e-6.

    Count the draws that do, for steps inside the ball.
    """
    plane = _plane(rows)
    inside, radial = _shares(plane, INSIDE), _shares(plane, RADIAL)
    words = "; ".join(
        f"{norm} on {name}: {share:.0%} inside, {radial[name, norm]:.0%} with radial projection"
        for (name, norm), share in inside.items()
    )
    plain = plane[plane.norm.isin(CORNERED)]
    return Finding(
        (min(inside.values()), ">=", 0.95),
        f"Share of draws at most {TINY:.0e}, of those where plain steps are above {LARGE:.0e}: {words}. Plain steps "
        f"are below in {(plain[PLAIN] <= LARGE).sum()} of {len(plain)} draws, all with w_star on an axis in l1.",
        setting=f"Sets I and II with eta = {settings.paper_eta:g}, Gaussian rows in the plane with eta = "
        f"{settings.plane_eta:g}; {settings.warm_up:,} plain steps, then {settings.steps:,} with a rescaling by "
        f"{settings.growth:g} every {settings.phase}; {plain.seed.nunique()} draws of each.",
        what="smallest share of draws at most 1e-12",
        would_change="A set or a norm with fewer than 95 of 100 draws at most 1e-12.",
    )


@claim("ours-any-norm-corner", where=OURS, experiment="any-norm")
def radial_steps_freeze_on_corners(rows: Any, settings: Settings) -> Finding:
    """In the plane, progressive steps with radial projection freeze only if w_star is a corner of the ball.

    Count the draws that they leave above 1e-12 though w_star is no corner.
    """
    plane = _plane(rows)
    some = plane[plane.norm.isin(CORNERED)]
    fails = some[some[RADIAL] > TINY]
    off_corner, corner = fails[fails.corner == 0], some[(some.corner > 0) & (some.active == 1)]
    return Finding(
        (len(off_corner) / max(len(some[some.corner == 0]), 1), "<=", 0.05),
        f"Radial steps leave {len(fails)} of {len(some)} draws above {TINY:.0e}; in {len(fails) - len(off_corner)} of "
        f"them w_star is a corner. Of {len(corner)} draws with one active row and w_star a corner, "
        f"{(corner[RADIAL] > TINY).sum()} freeze, and {(corner[INSIDE] > TINY).sum()} with steps inside the ball.",
        setting=f"The draws of the plane, l1 and l-infinity; {settings.steps:,} steps after {settings.warm_up:,}.",
        what="share of draws off corners that freeze",
        would_change="More than 5 in 100 draws that freeze though w_star is no corner.",
    )


@claim("ours-any-norm-growth", where=OURS, experiment="any-norm")
def fast_growth_freezes(rows: Any, settings: Settings) -> Finding:
    """In every norm, radii that grow too fast freeze the direction, and in 5 dimensions sooner than in 2.

    Compare, at the step size used in 5 dimensions, the draws that do not freeze with the smallest and the largest growth.
    """
    swept = where(rows, part="sweep")
    swept = swept[swept.eta == min(settings.sweep_etas, key=lambda eta: abs(eta - settings.space_eta))]
    goes_on = (~is_frozen(swept)).groupby([swept["set"], swept.norm, swept.growth]).mean().unstack("growth")
    slow, fast = goes_on[goes_on.columns[0]], goes_on[goes_on.columns[-1]]
    words = "; ".join(
        f"{norm} on {name}: {slow[name, norm]:.0%}, {fast[name, norm]:.0%}" for name, norm in goes_on.index
    )
    return Finding(
        (float((slow - fast).min()), ">=", 0.0),
        f"Share of runs that do not freeze with growth {goes_on.columns[0]:g} and {goes_on.columns[-1]:g}: {words}.",
        setting=f"Gaussian rows in 2 and 5 dimensions, {settings.sweep_draws} draws, until the radius has grown "
        f"{settings.sweep_radius:.0e} times.",
        what="smallest difference of the shares",
        would_change="A norm in which more runs freeze with the smaller growth.",
    )


@claim("ours-any-norm-gate", where=OURS, experiment="any-norm")
def gate_never_freezes(rows: Any, settings: Settings) -> Finding:
    """Radii that grow when the first part of the gap is at most half of the second leave a smaller error than plain steps on every set.

    Divide the median error of the gated steps by that of plain ones.
    """
    last = where(_last(rows), part="space")
    table = (
        last[last.method.isin([PLAIN, GATED])]
        .groupby(["set", "norm", "method"])
        .error.median()
        .unstack("method")
    )
    ratio = table[GATED] / table[PLAIN]
    words = ", ".join(f"{norm} on {name} {value:.0e}" for (name, norm), value in ratio.items())
    return Finding(
        (float(ratio.max()), "<", 1.0),
        f"Median error of gated steps over that of plain ones after {settings.space_steps:,} steps: {words}.",
        setting=f"Gaussian rows in {settings.dimensions} dimensions, digit-01, and sets of several classes in the "
        f"spectral norm; after {settings.warm_up:,} plain steps.",
        what="largest ratio of median errors",
        would_change="A set on which gated steps end above plain ones.",
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figures show, in figures."""
    plane = _plane(rows)
    inside = _shares(plane, INSIDE)
    last = where(_last(rows), part="space").groupby(["set", "norm", "method"]).error.median()
    sets = [f"gaussian-{d}" for d in settings.dimensions]
    words = ", ".join(
        f"{last[name, norm, GATED]:.0e} against {last[name, norm, PLAIN]:.0e} ({norm}, {name})"
        for name in sets
        for norm in CORNERED
    )
    return (
        f"In the plane steps inside the ball reach {TINY:.0e} in at least {min(inside.values()):.0%} of the draws where "
        f"plain steps stay above {LARGE:.0e}. In more dimensions a fixed growth freezes on many sets; gated radii "
        f"do not, and end at {words} of plain steps in the median."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=14,
    title="Progressive rescaling in any norm",
    where=OURS,
    quick=Settings(
        seeds=4,
        few=2,
        dimensions=(5,),
        space_steps=1_000,
        sweep_draws=1,
        sweep_growths=(1.05, 1.2, 2.0),
        sweep_etas=(3.0,),
    ),
    seconds=1.0,
)
