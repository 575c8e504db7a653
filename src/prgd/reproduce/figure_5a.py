"""Figure 5a: test accuracy on Cancer over many random splits, every method tuned alike."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from prgd._types import Array
from prgd.algorithms import GD, NGD, PRGD, DualAcceleration, GameDynamics
from prgd.claims import Finding, claim
from prgd.datasets import Dataset, cancer
from prgd.loop import run
from prgd.maxmargin import max_margin
from prgd.problem import Problem
from prgd.reproduce.curves import Interval, mean_interval, padded, points, where
from prgd.reproduce.experiment import Experiment, Row
from prgd.reproduce.figures import COUNTED, Band, Figure, Line, Panel, Table
from prgd.schedules import Polynomial, PolynomialPhases

COLUMNS = ("kind", "scaling", "seed", "method", "t", "accuracy", "validation", "chosen", "name", "value")
METHODS = ("GD", "NGD", "PRGD(poly)", "dual acceleration", "game dynamics")
SCALINGS = ("raw", "standardised")
TEST_SHARE = 114 / 341  # rows for testing over rows for training
figure_5a_claim = partial(claim, where="Section 7.2, Figure 5a", experiment="figure-5a")


@dataclass(frozen=True)
class Settings:
    """Nine settings for each method, chosen by validation accuracy at the end of the budget.

    The warm-up of PRGD is part of its budget. Splits are 60 / 20 / 20 %.
    """

    seeds: int = 24
    steps: int = 1_000
    warm_up: int = 100
    times: tuple[int, ...] = (10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900, 1_000)
    etas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    prgd_etas: tuple[float, ...] = (1.0, 10.0, 100.0)
    powers: tuple[float, ...] = (0.3, 0.6, 1.2)  # alpha = beta, as in Section 7.1
    first_phase: int = 5  # T_0, ours


def tasks(settings: Settings) -> list[str]:
    """Return one task for each split, and one for the question whether the set is separable."""
    return ["separable", *(f"split-{seed}" for seed in range(settings.seeds))]


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the test accuracy of every tuned method along one split, or the facts about the whole set."""
    data = cancer()
    if task == "separable":
        rows = _separable(data)
    else:
        seed = int(task.removeprefix("split-"))
        rows = [row for scaling in SCALINGS for row in _split(settings, data, scaling, seed)]
    return padded(rows, COLUMNS)


def _separable(data: Dataset) -> list[Row]:
    """Return the certified margin through the origin, and the smallest margin of w in exact arithmetic."""
    result = max_margin(data.X, data.y, fit_intercept=False, n_threads=1)
    # Floats are rational numbers, so the margins of w as it was returned can be computed exactly.
    w = [Fraction(float(value)) for value in result.coef]
    exact = min(
        int(label) * sum(a * Fraction(float(x)) for a, x in zip(w, row, strict=True))
        for row, label in zip(data.X, data.y, strict=True)
    )
    facts = {
        "margin": result.margin,
        "upper bound": result.upper_bound,
        "gap": result.gap,
        "largest norm": float(np.linalg.norm(np.asarray(data.X), axis=1).max()),
        "smallest exact margin": float(exact),
        "support": float(result.support.size),
        "n": float(len(data.y)),
    }
    return [{"kind": "fact", "name": name, "value": float(value)} for name, value in facts.items()]


def _candidates(settings: Settings, method: str) -> list[tuple[str, Any, float]]:
    """Return the settings of a method that are tried: what they are called, the algorithm, eta."""
    if method == "PRGD(poly)":
        schedules = {a: (Polynomial(a), PolynomialPhases(settings.first_phase, a)) for a in settings.powers}
        return [
            (f"eta = {eta:g}, alpha = beta = {a:g}", PRGD(*schedule, eta), eta)
            for eta in settings.prgd_etas
            for a, schedule in schedules.items()
        ]
    kinds = {"GD": GD, "NGD": NGD, "dual acceleration": DualAcceleration, "game dynamics": GameDynamics}
    return [(f"eta = {eta:g}", kinds[method](eta), eta) for eta in settings.etas]


def _split(settings: Settings, data: Dataset, scaling: str, seed: int) -> list[Row]:
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, validate, test = np.split(order, [341, 455])
    X: Any = data.X
    if scaling == "standardised":
        X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    problem = Problem(X[train], data.y[train], n_threads=1)
    times = [t for t in settings.times if t <= settings.steps]
    rows: list[Row] = []
    for method in METHODS:
        warm_up = settings.warm_up if method == "PRGD(poly)" else 0
        curves: dict[str, list[list[float]]] = {}
        for name, algorithm, eta in _candidates(settings, method):
            curves[name] = [
                [float((X[part] @ w * data.y[part] > 0).mean()) for part in (validate, test)]
                for w in _path(problem, algorithm, eta, warm_up, times)
            ]
        # With 114 rows ties are frequent: the mean accuracy along the run decides them.
        score = {name: (curve[-1][0], np.mean([v for v, _ in curve])) for name, curve in curves.items()}
        chosen = max(score, key=score.__getitem__)
        base = {"kind": "curve", "scaling": scaling, "seed": seed, "method": method, "chosen": chosen}
        rows += [
            base | {"t": t, "accuracy": accuracy, "validation": v}
            for t, (v, accuracy) in zip(times, curves[chosen], strict=True)
        ]
    return rows


def _path(problem: Problem, algorithm: Any, eta: float, warm_up: int, times: list[int]) -> list[Array]:
    """Return w at each time, the warm-up by GD counted; a run that diverges stays where it was."""
    found, w = [], None
    warm = [t for t in times if t <= warm_up]
    parts = [(GD(eta), warm, warm_up)] if warm_up else []
    parts.append((algorithm, [t - warm_up for t in times if t > warm_up], times[-1] - warm_up))
    for method, wanted, last in parts:
        seen: list[Array] = []
        w = run(problem, method, w, stop=last, record=None, observe=lambda s, *_, to=seen: to.append(s.w)).w
        found += [seen[t] if t < len(seen) else w for t in wanted]
    return found


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return mean test accuracy along the budget, with the interval of its mean, for both scalings."""
    panels = []
    for scaling in SCALINGS:
        marks: list[Any] = []
        for method in METHODS:
            some = where(curves_of(rows, scaling), method=method)
            table = some.pivot(index="seed", columns="t", values="accuracy")
            t = table.columns.to_numpy(dtype=float)
            spread = [mean_interval(table[column], TEST_SHARE) for column in table.columns]
            mean, low, high = (np.array(part) for part in zip(*spread, strict=True))
            if np.isfinite(low).all() and method in ("GD", "NGD", "PRGD(poly)"):
                marks.append(Band(method, t, low, np.minimum(high, 1.0)))
            marks.append(Line(method, t, mean))
        ends = (0.3, 1.0) if scaling == "raw" else (0.9, 1.0)
        title = f"{scaling} features"
        panels.append(Panel(title, tuple(marks), COUNTED, "test accuracy", x_log=True, y_range=ends))
    alt = (
        "Mean test accuracy against steps, with intervals. On raw features all methods rise from 37 % to "
        "about 92 %, PRGD first; on standardised ones they lie within each other's intervals: PRGD less NGD "
        f"is {points(difference(rows, 'standardised', 'NGD'))} at the end."
    )
    return [Figure("figure-5a", f"Cancer: {splits(rows)} random splits", alt, tuple(panels), columns=2)]


def curves_of(rows: Any, scaling: str) -> Any:
    """Return the accuracies of the tuned methods on one scaling."""
    return where(rows, kind="curve", scaling=scaling)


def splits(rows: Any) -> int:
    """Return the number of splits."""
    return int(where(rows, kind="curve").seed.nunique())


def difference(rows: Any, scaling: str, other: str, t: int | None = None, later: int = 0) -> Interval:
    """Return PRGD's mean accuracy less another method's at step t (default: the last), with its interval.

    PRGD is taken ``later`` steps later; its warm-up is left out if that is the number of warm-up steps.
    """
    some = curves_of(rows, scaling)
    t = int(some.t.max()) if t is None else t
    table = some.pivot(index="seed", columns=["method", "t"], values="accuracy")
    return mean_interval(table["PRGD(poly)", t + later] - table[other, t], TEST_SHARE)


def early(settings: Settings) -> int:
    """Return a small budget that was recorded: the last time up to a fifth of the whole."""
    last = max(settings.steps // 5, settings.times[0])
    return int(max(t for t in settings.times if t <= last))


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return accuracies at two budgets and the paired differences."""
    lines = []
    for scaling in SCALINGS:
        some = curves_of(rows, scaling)
        for method in METHODS:
            mine = where(some, method=method)
            line = {"features": scaling, "method": method}
            for t, head in ((early(settings), "PRGD less it"), (int(some.t.max()), "PRGD less it, end")):
                line[f"at {t:,} steps"] = f"{100 * where(mine, t=t).accuracy.mean():.2f} %"
                is_prgd = method == "PRGD(poly)"
                line[head] = "-" if is_prgd else points(difference(rows, scaling, method, t))
            chosen = where(mine, t=mine.t.max()).chosen.mode().iloc[0]
            lines.append(line | {"most often chosen": chosen})
    caption = (
        f"Mean test accuracy over {splits(rows)} splits, and PRGD(poly) less each method, paired, with 95 % "
        "intervals (corrected for splits that share rows, Nadeau and Bengio 2003)."
    )
    numbers = (f"at {early(settings):,} steps", f"at {settings.steps:,} steps")
    return [Table.of(caption, lines, numbers=numbers)]


@figure_5a_claim("section-7.2-cancer-separable")
def cancer_is_not_separable(rows: Any, settings: Settings) -> Finding:
    """The Cancer set is not linearly separable.

    Ask for a positive margin through the origin, certified and in exact arithmetic.
    """
    facts = where(rows, kind="fact")
    f = dict(zip(facts.name, facts.value, strict=True))
    return Finding(
        (f["margin"], "<=", 0.0),
        f"All {f['n']:.0f} rows are separable, even through the origin and without scaling: the certified "
        f"margin is {f['margin']:.4e} (relative gap {f['gap']:.0e}), {f['margin'] / f['largest norm']:.1e} "
        f"of the largest row norm, with {f['support']:.0f} support vectors. In exact rational arithmetic the "
        f"smallest y <w, x> of the w returned is {f['smallest exact margin']:.3g}, above 0.",
    )


@figure_5a_claim("section-7.2-cancer")
def prgd_generalizes_better(rows: Any, settings: Settings) -> Finding:
    """PRGD generalizes better than GD and NGD on Cancer.

    Compare test accuracies at the end, paired by split, on both scalings.
    """
    end = {(s, other): difference(rows, s, other) for s in SCALINGS for other in ("NGD", "GD")}
    t = early(settings)
    soon = {s: points(difference(rows, s, "NGD", t)) for s in SCALINGS}
    later = ""
    if t + settings.warm_up in settings.times:
        left_out = points(difference(rows, "raw", "NGD", t, settings.warm_up))
        later = f" ({left_out} on raw ones with its warm-up left out)"
    above = sum(low > 0.0 for _, low, _ in end.values())
    raw, scaled = ({other: points(end[s, other]) for other in ("NGD", "GD")} for s in SCALINGS)
    return Finding(
        (min(low for _, low, _ in end.values()), ">", 0.0),
        f"Over {splits(rows)} splits, every method tuned over as many settings, the test accuracy of PRGD "
        f"after {settings.steps:,} steps less NGD's is {scaled['NGD']} and less GD's {scaled['GD']} on "
        f"standardised features, and {raw['NGD']} and {raw['GD']} on raw ones. At {t} steps it is, less "
        f"NGD's, {soon['raw']} on raw features{later} and {soon['standardised']} on standardised ones. At "
        f"the end {above} of {len(end)} intervals lie above 0. The paper gives neither its preprocessing nor "
        "its budget.",
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    t = early(settings)
    return (
        f"On raw features PRGD less NGD is {points(difference(rows, 'raw', 'NGD', t))} at {t} steps and "
        f"{points(difference(rows, 'raw', 'NGD'))} at {settings.steps:,}; on standardised ones it is "
        f"{points(difference(rows, 'standardised', 'NGD'))} at the end. Where the interval holds 0 the "
        "splits do not tell the methods apart."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=5.1,
    title="Test accuracy on Cancer",
    where="Figure 5a, Section 7.2",
    quick=Settings(seeds=3, steps=200, warm_up=50, times=(10, 20, 40, 75, 100, 150, 200)),
    seconds=2.5,
)
