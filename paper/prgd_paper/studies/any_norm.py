"""Ours: progressive rescaling in other norms than l2; docs/any_norm.md says what is proven."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from prgd import datasets
from prgd.algorithms import PRGD, SteepestDescent
from prgd.core.types import Array
from prgd.maxmargin import max_margin
from prgd.problem import Problem
from prgd.schedules import Every, Geometric
from prgd_paper.figures._synthetic import SETS
from prgd_paper.methods import InsidePRGD
from prgd_paper.report import elements as fig
from prgd_paper.reproduce.curves import error_bands, record_times, where
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.studies._gated_inside import GatedInside
from prgd_paper.studies.growing_dimension import gaussian
from prgd_paper.theory.sampled_runs import states

CORNERED = ("l1", "linf")  # norms whose ball has corners, and whose margins are linear programs
NORMS = (*CORNERED, "1.5", "3")
PLANE, SWEPT = (*SETS, "gaussian-2"), ("gaussian-2", "gaussian-5")
PLAIN, GATED = "plain steps", "gated, inside"
RADIAL, FREE, INSIDE = "progressive", "progressive, not projected", "progressive, inside"
STYLES = {
    PLAIN: fig.Style(fig.ORANGE, "dash", "square"),
    RADIAL: fig.Style(fig.BLUE, "solid", "circle"),
    INSIDE: fig.Style(fig.VERMILLION, "solid", "triangle-up"),
    GATED: fig.Style(fig.GREEN, "dashdot", "diamond"),
}
COLUMNS = (
    "part", "set", "norm", "seed", "method", "eta", "growth", "t", "error", "start", "active", "corner",
)  # fmt: skip
ERROR = "1 - gamma(w) / gamma_star"
DRAWN = 1.05  # the growth that a panel shows, where there are several
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
    paper_eta: float = 1.0  # on the paper's sets: I, II and digit-01
    plane_eta: float = 30.0  # on Gaussian rows in the plane
    dimensions: tuple[int, ...] = (5, 20)
    space_steps: int = 3_000
    space_growths: tuple[float, ...] = (1.2, 1.05, 1.02)
    space_eta: float = 3.0
    digit_rows: int = 300
    matrix_rows: int = 60
    sweep_draws: int = 5
    sweep_growths: tuple[float, ...] = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
    sweep_etas: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0)
    sweep_radius: float = 1e6  # the sweep ends when the radius has grown by this factor


class Trial(NamedTuple):
    """One algorithm of a task: its name, its step size and growth (0: none), and its steps."""

    method: str
    algorithm: Any
    eta: float
    growth: float
    steps: int


def tasks(settings: Settings) -> list[str]:
    """Return one task for each part, set, norm and seed."""
    few, some = min(settings.few, settings.seeds), min(settings.sweep_draws, settings.seeds)
    many = {norm: settings.seeds if norm in CORNERED else few for norm in NORMS}
    sets = [f"gaussian-{d}" for d in settings.dimensions]
    cells = [("plane", name, norm, many[norm]) for name in PLANE for norm in NORMS]
    cells += [("space", name, norm, few) for name in sets for norm in NORMS]
    cells += [("space", "digit-01", norm, 1) for norm in NORMS]
    cells += [("space", name, "spectral", few) for name in ("circle", "clusters")]
    cells += [("sweep", name, norm, some) for name in SWEPT for norm in NORMS]
    return [f"{part}_{name}_{norm}_{seed}" for part, name, norm, draws in cells for seed in range(draws)]


def data_of(settings: Settings, name: str, seed: int) -> tuple[Any, Any]:
    """Return rows and labels: a set of the paper, Gaussian rows, digits, or three or four classes."""
    kind, _, d = name.partition("-")
    if kind == "gaussian":
        return gaussian(seed, settings.n, int(d), settings.shift)
    if kind == "digit":
        data = datasets.digits(0, 1, settings.digit_rows)
        return data.X, data.y
    if kind in SETS:
        data = SETS[kind](seed, settings.n)
        return data.X, data.y
    rng = np.random.default_rng([seed, len(kind)])
    K, columns = (3, 2) if kind == "circle" else (4, 5)
    angles = 2.0 * math.pi * np.arange(K) / K
    centers = np.column_stack([np.cos(angles), np.sin(angles)])
    if kind == "clusters":
        centers = np.eye(K, columns) + 0.3 * rng.standard_normal((K, columns))
    y = np.arange(settings.matrix_rows) % K
    return centers[y] + 0.15 * rng.standard_normal((settings.matrix_rows, columns)), y


def runs(settings: Settings, part: str, name: str, has_corners: bool) -> Iterator[Trial]:
    """Yield the runs of a task."""
    kinds: dict[str, Any] = {RADIAL: PRGD, INSIDE: InsidePRGD} if has_corners else {RADIAL: PRGD}
    growths, eta, steps = settings.space_growths, settings.space_eta, settings.space_steps
    if name == "digit-01":
        eta = settings.paper_eta
    if part == "plane":
        growths, steps = (settings.growth,), settings.steps
        eta = settings.paper_eta if name in SETS else settings.plane_eta
        kinds[FREE] = partial(PRGD, project=False)
    cells = [(eta, growth) for growth in growths]
    if part == "sweep":
        cells = [(eta, growth) for eta in settings.sweep_etas for growth in settings.sweep_growths]
    else:
        # Plain steps of coordinate descent do not separate the rows at all with the long steps of the plane.
        plain = settings.paper_eta if part == "plane" else eta
        yield Trial(PLAIN, SteepestDescent(plain), plain, 0.0, steps)
        yield Trial(GATED, GatedInside(), eta, 0.0, steps)
    for eta, growth in cells:
        if part == "sweep":
            phases = math.ceil(math.log(settings.sweep_radius) / math.log(growth)) + 1
            steps = settings.phase * phases
        for method, kind in kinds.items():
            yield Trial(method, kind(Geometric(growth), Every(settings.phase), eta), eta, growth, steps)


def follow(problem: Problem, algorithm: Any, w0: Array, steps: int) -> tuple[Array, Array, float]:
    """Return the last w, the margin at every step, and the smallest upper bound of the dual vectors."""
    margins, upper, w = np.full(steps + 1, -math.inf), math.inf, w0
    for s in islice(states(problem, algorithm, w0), 1, steps + 1):
        margins[s.t], upper, w = s.at.gamma, min(upper, s.at.upper), s.w
    return w, margins, upper


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the relative margin error of every run of a task: along the first draws, else at its end."""
    part, name, norm, seed = task.split("_")
    X, y = data_of(settings, name, int(seed))
    problem = Problem(X, y, norm=norm, n_jobs=1)
    is_joint = len(problem.shape) == 2
    coding = "joint" if is_joint else None
    best = max_margin(X, y, norm=norm, fit_intercept=False, multi_class=coding, tol=1e-9, n_jobs=1)
    todo = list(runs(settings, part, name, norm in CORNERED or is_joint))
    warm = {
        eta: follow(problem, SteepestDescent(eta), np.zeros(problem.shape), settings.warm_up)
        for eta in {run.eta for run in todo}
    }
    seen = [(run, follow(problem, run.algorithm, warm[run.eta][0], run.steps)) for run in todo]
    # An upper bound, so that no error is understated: tight to rounding in l1 and linf.
    gamma_star = min(best.certificate.upper, *(upper for _, (_, _, upper) in seen))
    active, corner = (0, 0) if is_joint else _face(y[:, None] * X, norm, best.w)
    rows = []
    for run, (_, margins, _) in seen:
        is_drawn = part != "sweep" and int(seed) < settings.few
        times = record_times(run.steps, per_decade=12).tolist() if is_drawn else [run.steps]
        base = (part, name, norm, int(seed), run.method, run.eta, run.growth)
        start = 1.0 - warm[run.eta][1][-1] / gamma_star
        cells = [(*base, t, 1.0 - margins[t] / gamma_star, start, active, corner) for t in times]
        rows += [dict(zip(COLUMNS, cell, strict=True)) for cell in cells]
    return rows


def _face(Z: Array, norm: str, w: Array) -> tuple[int, int]:
    """Return the number of active rows, and of the bounds that make w_star a corner (0: none)."""
    margins, size = Z @ w, np.abs(w)
    active = int(np.count_nonzero(margins <= margins.min() * (1.0 + ACTIVE)))
    zeros = int(np.count_nonzero(size <= ACTIVE * size.max()))
    bounds = int(np.count_nonzero(size >= (1.0 - ACTIVE) * size.max()))
    return active, {"l1": zeros, "linf": bounds - 1}.get(norm, 0)


def label_of(norm: str) -> str:
    """Return the name of a norm in titles."""
    return f"l_{norm}" if norm[0].isdigit() else norm


def draw(rows: Any, settings: Settings) -> list[fig.Figure]:
    """Return errors against steps for each norm, and errors after the same growth of the radius."""
    cells = [("gaussian-2", norm) for norm in NORMS]
    cells += [(name, norm) for name in ("gaussian-5", "gaussian-20") for norm in CORNERED]
    panels = []
    for name, norm in [*cells, ("circle", "spectral")]:
        some = where(rows[(rows.part != "sweep") & (rows.seed < settings.few)], set=name, norm=norm)
        # A panel has room for one growth: 1.05 in more dimensions, where 1.2 freezes and 1.02 is slower.
        growths = sorted({g for g in some.growth if g}, key=lambda g: abs(g - DRAWN))
        some = some[some.growth.isin([0.0, *growths[:1]]) & (some.method != FREE)]
        if some.empty:
            continue
        title = f"{label_of(norm)}, {name}, growth {growths[0]:g}"
        bands: list[Any] = error_bands(some, "t")
        marks = [replace(band, style=STYLES[band.name]) for band in bands]
        panels.append(fig.log_log(title, marks, fig.LEFT_OUT, ERROR, 1e-16, 2.0, is_ours=True))
    alt = (
        "Relative margin error against steps after the warm-up for each norm, medians and bands over draws: "
        "in the plane progressive steps fall to rounding and plain ones stay; in 20 dimensions all fall by a "
        "few decades at most. "
    )
    title = "Progressive rescaling in other norms"
    errors = fig.Figure("any-norm", title, alt + reading(rows, settings), tuple(panels))
    return [errors, _growth_figure(rows, settings)]


def nearest_eta(settings: Settings, eta: float) -> float:
    """Return the step size of the sweep nearest to ``eta``."""
    return min(settings.sweep_etas, key=lambda swept: abs(swept - eta))


def _growth_figure(rows: Any, settings: Settings) -> fig.Figure:
    swept, panels = where(rows, part="sweep"), []
    for name in SWEPT:
        for norm in NORMS:
            some = where(swept, set=name, norm=norm, eta=nearest_eta(settings, settings.space_eta))
            marks: list[Any] = []
            for method in some.method.unique():
                medians = where(some, method=method).groupby("growth").error.median()
                x, y = medians.index.to_numpy() - 1.0, fig.floored(medians)
                marks.append(fig.Line(method, x, y, style=STYLES[method]))
            title = f"{label_of(norm)}, {name}, eta = {some.eta.iloc[0]:g}"
            y_label = f"error when R_k = {settings.sweep_radius:.0e} R_0"
            x_label = "growth of the radius in a phase, less 1"
            panels.append(fig.log_log(title, marks, x_label, y_label, 1e-10, 1.0, is_ours=True))
    alt = (
        "Median error when the radius has grown a million times, against its growth in a phase: low and flat "
        "for small growth, and near the error of the start beyond a threshold."
    )
    return fig.Figure("any-norm-growth", "Freezing against growth", alt, tuple(panels), columns=4)


def last_of(rows: Any) -> Any:
    """Return the last row of each run."""
    keys = ["part", "set", "norm", "seed", "method", "eta", "growth"]
    return rows.sort_values("t", kind="stable").groupby(keys, as_index=False).tail(1)


def plane_of(rows: Any) -> Any:
    """Return the last errors in the plane, a column for each method, with the facts of each draw."""
    last = where(last_of(rows), part="plane")
    keys = ["set", "norm", "seed", "active", "corner"]
    return last.pivot(index=keys, columns="method", values="error").reset_index()


def shares_of(plane: Any, method: str) -> dict[tuple[str, str], float]:
    """Return by set and norm the share of draws at most 1e-12, of those where plain steps are above 1e-6."""
    some = plane[plane.norm.isin(CORNERED) & (plane[PLAIN] > LARGE)]
    return dict((some[method] <= TINY).groupby([some["set"], some.norm]).mean())


def is_frozen(rows: Any) -> Any:
    """Return for each row whether the error fell less than a thousand times since the end of the warm-up."""
    return rows.error > np.maximum(1e-3 * rows.start, TINY)


def tables(rows: Any, settings: Settings) -> list[fig.Table]:
    """Return the counts in the plane, the errors in more dimensions, and what does not freeze."""
    return [_plane_table(rows, settings), _space_table(rows, settings), _sweep_table(rows, settings)]


def _plane_table(rows: Any, settings: Settings) -> fig.Table:
    lines = []
    for (name, norm), some in plane_of(rows).groupby(["set", "norm"], sort=False):
        reached = {method: f"{(some[method] <= TINY).sum()}" for method in (RADIAL, FREE, INSIDE)}
        lines.append(
            {
                "set": name,
                "norm": label_of(norm),
                "draws": f"{len(some)}",
                "corner": f"{(some.corner > 0).sum()}",
                "plain > 1e-6": f"{(some[PLAIN] > LARGE).sum()}",
                "radial <= 1e-12": reached[RADIAL],
                "not projected <= 1e-12": reached[FREE],
                "inside <= 1e-12": reached[INSIDE] if norm in CORNERED else "",
                "plain, median": fig.small(some[PLAIN].median()),
                "radial, median": fig.small(some[RADIAL].median()),
                "gated, median": fig.small(some[GATED].median()),
            }
        )
    caption = (
        f"In the plane, {settings.steps:,} steps after {settings.warm_up:,} of warm-up: draws, those where "
        "w_star is a corner of the ball, and those with these errors."
    )
    return fig.Table.of(caption, lines, numbers=tuple(lines[0])[2:])


def _space_table(rows: Any, settings: Settings) -> fig.Table:
    lines = []
    for (name, norm), some in where(last_of(rows), part="space").groupby(["set", "norm"], sort=False):
        medians = some.groupby(["method", "growth"]).error.median()
        is_joint = norm == "spectral"
        line = {
            "set": name,
            "norm": label_of(norm),
            "draws": f"{some.seed.nunique()}",
            "active rows": "" if is_joint else f"{some.active.median():g}",
            "bounds": f"{some.corner.median():g}" if norm in CORNERED else "",
            "plain": fig.small(medians[PLAIN, 0.0]),
        }
        for method, word in ((RADIAL, "radial"), (INSIDE, "inside")):
            for growth in settings.space_growths:
                error = medians.get((method, growth))
                line[f"{word}, {growth:g}"] = "" if error is None else fig.small(error)
        lines.append(line | {"gated": fig.small(medians[GATED, 0.0])})
    caption = (
        f"More dimensions, digits and matrices: median relative errors after {settings.space_steps:,} steps, "
        "by growth of the radius; bounds are those that make w_star a corner."
    )
    return fig.Table.of(caption, lines, numbers=tuple(lines[0])[2:])


def _sweep_table(rows: Any, settings: Settings) -> fig.Table:
    swept, lines = where(rows, part="sweep"), []
    goes_on = swept.assign(goes_on=~is_frozen(swept))
    for (name, norm, eta), some in goes_on.groupby(["set", "norm", "eta"], sort=False):
        counts = some.groupby(["growth", "method"]).goes_on.sum().unstack("method")
        line = {"set": name, "norm": label_of(norm), "eta": f"{eta:g}"}
        for growth in settings.sweep_growths:
            line[f"{growth:g}"] = " / ".join(f"{counts[m][growth]:g}" for m in STYLES if m in counts)
        lines.append(line)
    caption = (
        f"Draws of {swept.seed.nunique()} that do not freeze, by growth of the radius in a phase (radial "
        "steps / steps inside): the error falls at least a thousand times while the radius grows "
        f"{settings.sweep_radius:.0e} times."
    )
    return fig.Table.of(caption, lines, numbers=tuple(lines[0])[2:])


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figures show, in figures."""
    inside = shares_of(plane_of(rows), INSIDE)
    last = where(last_of(rows), part="space").groupby(["set", "norm", "method"]).error.median()
    words = ", ".join(
        f"{last[name, norm, GATED]:.0e} against {last[name, norm, PLAIN]:.0e} ({norm}, {name})"
        for name in (f"gaussian-{d}" for d in settings.dimensions)
        for norm in CORNERED
    )
    return (
        f"In the plane steps inside the ball reach {TINY:.0e} in at least {min(inside.values()):.0%} of the "
        f"draws where plain steps stay above {LARGE:.0e}. In more dimensions a fixed growth freezes on many "
        f"sets. Gated radii end at {words} of plain steps, in the median."
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
        space_steps=500,
        space_growths=(1.05,),
        sweep_draws=1,
        sweep_growths=(1.05, 1.2, 2.0),
        sweep_etas=(3.0,),
    ),
    seconds=0.5,
)
