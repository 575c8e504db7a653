"""Figure 5a: test accuracy on Cancer over many random splits, every method tuned alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from prgd.algorithms import GD, NGD, PRGD, DualAcceleration
from prgd.core.types import Array
from prgd.datasets import Dataset, cancer
from prgd.problem import Problem
from prgd.proofs.lifted_rows import LiftedRows
from prgd.running.loop import run
from prgd.schedules import Polynomial, PolynomialPhases
from prgd.separation.search import decide
from prgd_paper.claims import Finding, claim
from prgd_paper.methods import GameDynamics
from prgd_paper.report.elements import COUNTED, Band, Figure, Line, Panel, Table
from prgd_paper.reproduce.curves import Interval, mean_interval, padded, points, where
from prgd_paper.reproduce.experiment import Experiment, Row
from prgd_paper.theory.sampled_runs import iterates

COLUMNS = ("kind", "scaling", "seed", "method", "t", "accuracy", "validation", "chosen", "name", "value")
METHODS = ("GD", "NGD", "PRGD(poly)", "dual acceleration", "game dynamics")
SCALINGS = ("raw", "standardised")
DECIDED = ("separable", "quasi-separable", "not separable")
ROWS = 569  # of Cancer
figure_5a_claim = partial(claim, where="Section 7.2, Figure 5a", experiment="figure-5a")


@dataclass(frozen=True)
class Settings:
    """Grids of settings, from which validation accuracy at the end of the budget chooses.

    PRGD has every combination of its grids, and the other methods have as many step sizes, evenly spaced in
    log eta. The warm-up of PRGD is part of its budget. Splits are 60 / 20 / 20 %: the first rows, in random
    order, are for training, and the next ones for validation. ``few`` are the ends of the
    small budgets that are shown apart.
    """

    seeds: int = 30
    training: int = 341
    validation: int = 114
    steps: int = 1_000
    few: tuple[int, int] = (150, 300)
    times: tuple[int, ...] = (10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900, 1_000)
    eta_range: tuple[float, float] = (0.1, 1000.0)
    prgd_etas: tuple[float, ...] = (1.0, 10.0, 100.0)
    # Section 7.1 has alpha = beta = 0.6, and 1.2 with phases of 5 steps.
    alphas: tuple[float, ...] = (0.6, 1.2)
    betas: tuple[float, ...] = (0.0, 0.6)
    first_phases: tuple[int, ...] = (5, 20)  # T_0
    warm_ups: tuple[int, ...] = (20, 100)

    @property
    def test_share(self) -> float:
        """Rows for testing over rows for training."""
        return (ROWS - self.training - self.validation) / self.training


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


def preprocessed(X: Any) -> dict[str, Any]:
    """Return six preprocessings that one might mean, under their names in the table."""
    mean, deviation, low, high = X.mean(axis=0), X.std(axis=0), X.min(axis=0), X.max(axis=0)
    return {
        "raw": X,
        "divided by their deviations": X / deviation,
        "scaled to norm 1 row by row": X / np.linalg.norm(X, axis=1, keepdims=True),
        "standardised": (X - mean) / deviation,
        "min-max scaled": (X - low) / (high - low),
        "centred": X - mean,
    }


def _separable(data: Dataset) -> list[Row]:
    """Return a proven verdict for each preprocessing, without and with an intercept."""
    rows: list[Row] = []
    for scaling, X in preprocessed(np.asarray(data.X, dtype=np.float64)).items():
        for name, fit_intercept in (("without intercept", False), ("with intercept", True)):
            # The figure asks about the rows only, and the verdicts on 31 coefficients take far longer.
            lifted = LiftedRows(X, data.y, fit_intercept=fit_intercept)
            found = decide(lifted)
            row = {"kind": "separability", "scaling": scaling, "name": name, "chosen": str(found.verdict)}
            rows.append(row | {"t": len(data.y), "value": float(found.check_rows(lifted))})
    return rows


def _prgd_grid(settings: Settings) -> list[tuple[float, float, float, int, int]]:
    """Return each (eta, alpha, beta, T_0, warm-up) that PRGD may have."""
    grids = (settings.prgd_etas, settings.alphas, settings.betas, settings.first_phases, settings.warm_ups)
    return list(product(*grids))


def _candidates(settings: Settings, method: str) -> list[tuple[str, Any, float, int]]:
    """Return the settings of a method that are tried: their name, the algorithm, eta, the warm-up."""
    grid = _prgd_grid(settings)
    if method == "PRGD(poly)":
        return [
            (
                f"eta = {eta:g}, alpha = {a:g}, beta = {b:g}, T_0 = {T_0}, warm-up {warm_up}",
                PRGD(Polynomial(a), PolynomialPhases(T_0, b), eta),
                eta,
                warm_up,
            )
            for eta, a, b, T_0, warm_up in grid
        ]
    kinds = {"GD": GD, "NGD": NGD, "dual acceleration": DualAcceleration, "game dynamics": GameDynamics}
    etas = np.geomspace(*settings.eta_range, len(grid)).tolist()
    return [(f"eta = {eta:.3g}", kinds[method](eta), eta, 0) for eta in etas]


def _split(settings: Settings, data: Dataset, scaling: str, seed: int) -> list[Row]:
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, validate, test = np.split(order, [settings.training, settings.training + settings.validation])
    X: Any = data.X
    if scaling == "standardised":
        X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    problem = Problem(X[train], data.y[train], n_jobs=1)
    times = [t for t in settings.times if t <= settings.steps]
    rows: list[Row] = []
    for method in METHODS:
        curves: dict[str, list[list[float]]] = {}
        for name, algorithm, eta, warm_up in _candidates(settings, method):
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
    found: list[Array] = []
    w = None
    if isinstance(algorithm, GD) or warm_up:
        ended = run(problem, GD(eta), stop=warm_up or times[-1], record=())
        w, early = ended.w, [t for t in times if t <= (warm_up or times[-1])]
        found = [*iterates(problem, GD(eta), [t for t in early if t <= ended.t])]
        found += [w] * (len(early) - len(found))
    later = [t - warm_up for t in times[len(found) :]]
    return [*found, *iterates(problem, algorithm, later, w)]


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return mean test accuracy along the budget, with the interval of its mean, for both scalings."""
    panels = []
    for scaling in SCALINGS:
        marks: list[Any] = []
        for method in METHODS:
            some = where(curves_of(rows, scaling), method=method)
            table = some.pivot(index="seed", columns="t", values="accuracy")
            t = table.columns.to_numpy(dtype=float)
            spread = [mean_interval(table[column], settings.test_share) for column in table.columns]
            mean, low, high = (np.array(part) for part in zip(*spread, strict=True))
            if np.isfinite(low).all() and method in ("GD", "NGD", "PRGD(poly)"):
                marks.append(Band(method, t, low, np.minimum(high, 1.0)))
            marks.append(Line(method, t, mean))
        ends = (0.3, 1.0) if scaling == "raw" else (0.9, 1.0)
        title = f"{scaling} features"
        panels.append(Panel(title, tuple(marks), COUNTED, "test accuracy", x_log=True, y_range=ends))
    alt = (
        "Mean test accuracy against steps, with intervals. At the end PRGD less NGD is "
        f"{points(difference(rows, settings, 'raw', 'NGD'))} on raw features and "
        f"{points(difference(rows, settings, 'standardised', 'NGD'))} on standardised ones."
    )
    return [Figure("figure-5a", f"Cancer: {splits(rows)} random splits", alt, tuple(panels), columns=2)]


def curves_of(rows: Any, scaling: str) -> Any:
    """Return the accuracies of the tuned methods on one scaling."""
    return where(rows, kind="curve", scaling=scaling)


def splits(rows: Any) -> int:
    """Return the number of splits."""
    return int(where(rows, kind="curve").seed.nunique())


def difference(rows: Any, settings: Settings, scaling: str, other: str, t: int | None = None) -> Interval:
    """Return PRGD's mean accuracy less another method's at step t (default: the last), with its interval."""
    some = curves_of(rows, scaling)
    t = int(some.t.max()) if t is None else t
    table = some.pivot(index="seed", columns=["method", "t"], values="accuracy")
    return mean_interval(table["PRGD(poly)", t] - table[other, t], settings.test_share)


def early(settings: Settings) -> list[int]:
    """Return the small budgets that were recorded."""
    return [t for t in settings.times if settings.few[0] <= t <= min(settings.few[1], settings.steps)]


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return accuracies at several budgets with paired differences, and whether the rows are separable."""
    lines = []
    for scaling in SCALINGS:
        some = curves_of(rows, scaling)
        for method in METHODS:
            mine = where(some, method=method)
            line = {"features": scaling, "method": method}
            for t in (*early(settings), int(some.t.max())):
                line[f"at {t:,} steps"] = f"{100 * where(mine, t=t).accuracy.mean():.2f} %"
                is_prgd = method == "PRGD(poly)"
                line[f"PRGD less it, {t:,}"] = (
                    "-" if is_prgd else points(difference(rows, settings, scaling, method, t))
                )
            chosen = where(mine, t=mine.t.max()).chosen.mode().iloc[0]
            lines.append(line | {"most often chosen": chosen})
    caption = (
        f"Mean test accuracy over {splits(rows)} splits, and PRGD(poly) less each method, paired, with 95 % "
        "intervals (corrected for splits that share rows, Nadeau and Bengio 2003)."
    )
    numbers = tuple(f"at {t:,} steps" for t in (*early(settings), settings.steps))
    verdicts = where(rows, kind="separability")
    separable = [
        {"rows": scaling} | dict(zip(some.name, some.chosen, strict=True))
        for scaling, some in verdicts.groupby("scaling", sort=False)
    ]
    proven = (
        f"All {verdicts.t.iloc[0]:.0f} rows of Cancer, linearly separable or not: exact verdicts of "
        f"prgd.separability on float64 rows, {int(verdicts.value.sum())} of {len(verdicts)} proofs confirmed."
    )
    return [Table.of(caption, lines, numbers=numbers), Table.of(proven, separable)]


@figure_5a_claim(
    "section-7.2-cancer-separable",
    quote="we still consider linear models but for classifying a linearly non-separable dataset, "
    r"\texttt{Cancer} in \texttt{Sklearn}",
)
def cancer_is_not_separable(rows: Any, settings: Settings) -> Finding:
    """The Cancer set is not linearly separable.

    Prove or refute it for six preprocessings of the rows: without an intercept, as in the paper's model.
    """
    some = where(rows, kind="separability")
    without = where(some, name="without intercept")
    # A verdict is open if it is not proven, or its proof not confirmed.
    is_open = ~without.chosen.isin(DECIDED) | (without.value != 1.0)
    overlaps = (without.chosen != "separable").astype(float)
    low, high = float(overlaps.mask(is_open, 0.0).min()), float(overlaps.mask(is_open, 1.0).max())
    proven = without[~is_open]
    apart = proven.chosen == "separable"
    groups = {"not separable": list(proven.scaling[~apart]), "separable": list(proven.scaling[apart])}
    groups["not decided"] = list(without.scaling[is_open])
    said = ", and ".join(f"{verdict} when {_either(names)}" for verdict, names in groups.items() if names)
    apart = where(some, name="with intercept").chosen == "separable"
    with_one = "all six are separable" if apart.all() else f"{apart.sum()} of {apart.size} are separable"
    return Finding(
        ((low, high), ">=", 1.0),
        f"Without intercept, as in the paper's model, the {without.t.iloc[0]:.0f} rows are {said}; with an "
        f"intercept {with_one} (exact verdicts). Figure 5a here uses raw and standardised rows, without "
        "intercept.",
        what="1 if not separable, 0 if separable, over six preprocessings",
        setting="All rows of scikit-learn's set, six preprocessings, float64; each verdict has a proof in "
        "exact arithmetic that was checked again.",
        not_given="the preprocessing" if low < high else "",  # six readings that agree decide
        given_in="no preprocessing is given; six readings are tried",
        would_change="The paper's preprocessing, which decides either way.",
    )


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


@figure_5a_claim(
    "section-7.2-cancer",
    quote="our PRGD algorithm archives better generalization performance and outperforms GD and NGD for "
    "both tasks",
)
def prgd_generalizes_better(rows: Any, settings: Settings) -> Finding:
    """PRGD generalizes better than GD and NGD on Cancer.

    Compare test accuracies at the end, paired by split, on both scalings.
    """
    end = {s: {other: difference(rows, settings, s, other) for other in ("NGD", "GD")} for s in SCALINGS}
    # PRGD must beat both: the smaller lead counts. The scalings are two readings: all their answers count.
    lows, highs = ([min(d[k] for d in found.values()) for found in end.values()] for k in (1, 2))
    raw, scaled = ({other: points(d) for other, d in end[s].items()} for s in SCALINGS)
    soon = ", ".join(f"{points(difference(rows, settings, 'raw', 'NGD', t))} at {t}" for t in early(settings))
    return Finding(
        ((min(lows), max(highs)), ">", 0.0),
        f"Over {splits(rows)} splits the test accuracy of PRGD after {settings.steps:,} steps less NGD's is "
        f"{scaled['NGD']} and less GD's {scaled['GD']} on standardised features, and {raw['NGD']} and "
        f"{raw['GD']} on raw ones. With few steps on raw features PRGD less NGD is {soon} steps.",
        what="PRGD's lead in test accuracy",
        setting=f"Random splits of 60 / 20 / 20 %, no intercept; {len(_prgd_grid(settings))} settings of "
        "each method, chosen by validation accuracy: eta for the others; eta, alpha, beta, T_0 and warm-up "
        "for PRGD, whose warm-up counts; 95 % intervals for splits that share rows.",
        not_given="its preprocessing, its split or its number of steps",
        would_change="An interval above 0 on both scalings, or the paper's setting.",
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    soon = ", ".join(
        f"{points(difference(rows, settings, 'raw', 'NGD', t))} at {t} steps" for t in early(settings)
    )
    return (
        f"On raw features PRGD less NGD is {soon} and {points(difference(rows, settings, 'raw', 'NGD'))} at "
        f"{settings.steps:,}; on standardised ones it is "
        f"{points(difference(rows, settings, 'standardised', 'NGD'))} "
        "at the end. Where the interval holds 0 the splits do not tell the methods apart."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=5.1,
    title="Test accuracy on Cancer",
    where="Figure 5a, Section 7.2",
    quick=Settings(
        seeds=3,
        steps=200,
        times=(10, 20, 40, 75, 100, 150, 200),
        prgd_etas=(10.0,),
        alphas=(0.6, 1.2),
        warm_ups=(50,),
    ),
    seconds=5.0,
)
