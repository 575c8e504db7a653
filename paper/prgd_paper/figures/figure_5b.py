"""Figure 5b: VGG-16 on CIFAR-10, drawn from stored rows: the runs need a GPU and hours."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from prgd_paper.claims import Finding, Judgement, claim
from prgd_paper.report.elements import Band, Figure, Line, Panel, Points, Table
from prgd_paper.reproduce.curves import Interval, mean_interval, points, span, where
from prgd_paper.reproduce.experiment import OURS, Experiment, Row
from prgd_paper.reproduce.store import frame, to_csv

REQUIRED = (
    *("setting", "method", "seed", "lr", "schedule", "epoch", "test_accuracy", "train_accuracy"),
    *("log_train_loss", "normalized_margin", "norm"),
)
OTHERS = ("GD", "NGD")  # the methods that PRGD must beat
UNPROJECTED = "PRGD, no projection"
METHODS = (*OTHERS, "PRGD", UNPROJECTED)
NOT_RUN = "No rows are stored yet: the runs need a GPU."
TITLES = {"as printed": "As printed (weight decay, dropout)", "tuned": "Tuned (no regularisation)"}
HELD = (
    "Lines are means over seeds, bands 95 % intervals of the mean, markers the ends of runs; runs end at "
    "different epochs, and a run that has ended keeps its last value."
)
CAPTIONS = {
    "as printed": "The configuration of Appendix E.2: rate 0.001, weight decay 5e-4, dropout, the printed "
    "schedule; 100 epochs.",
    "tuned": "No regularisation, rates and PRGD's schedule tuned. A run ends when all training images are "
    "right and the loss is below 1e-4, or after 200 epochs.",
}
DEGREE = 16  # VGG-16 is homogeneous of this degree in its parameters: one for each layer
ROOT = f"normalized margin, {DEGREE}th root"
WARM_UP = 31  # epochs of the printed warm-up of 24,000 steps, in which PRGD is GD
SHOWN = 0.15  # range of accuracies below the best one that is drawn: the methods differ there


def _content(name: str) -> bytes:
    file = files("prgd_paper.figures").joinpath(name)
    return file.read_bytes() if file.is_file() else b""


@dataclass(frozen=True)
class Settings:
    """The files of the package that hold the rows; their checksum tells old rows from new ones."""

    file: str = "data/figure-5b.csv"
    tuning: str = "data/figure-5b-tuning.csv"
    checksum: str = field(init=False)

    def __post_init__(self) -> None:
        content = _content(self.file) + _content(self.tuning)
        checksum = hashlib.sha256(content).hexdigest()[:12] if content else "none"
        object.__setattr__(self, "checksum", checksum)


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the stored rows, checked; one row of empty values if there are none."""
    content = _content(settings.file)
    if not content:
        return [{name: "none" if name in ("setting", "method") else -1 for name in REQUIRED}]
    found = list(csv.DictReader(content.decode().splitlines()))
    missing = [name for name in REQUIRED if not found or name not in found[0]]
    if missing:
        raise ValueError(
            f"{settings.file} needs rows with the columns {', '.join(REQUIRED)}; it lacks "
            f"{', '.join(missing)}."
        )
    return [dict(row) for row in found]


def _is_run(rows: Any) -> bool:
    return bool((rows.epoch >= 0).any())


def _with_roots(rows: Any) -> Any:
    """Return the rows with the root of the margin, with its sign, and the logarithm of the loss to base 10.

    The margin falls with the power `DEGREE` of the norm, its root with the norm. The loss may underflow, so
    its logarithm is stored.
    """
    margin = rows.normalized_margin
    root = np.sign(margin) * np.abs(margin) ** (1.0 / DEGREE)
    return rows.assign(root=root, loss=rows.log_train_loss / math.log(10.0))


def _curves(rows: Any, setting: str, y: str) -> dict[str, Any]:
    """Return one frame for each method: a column for each seed, an index of all epochs up to the last one.

    A run that has ended holds its last value. So does an epoch that was undone, which has no row.
    """
    some = where(rows, setting=setting)
    epochs = range(int(some.epoch.max()) + 1)
    found = {}
    for method in [m for m in METHODS if m in set(some.method)]:
        runs = where(some, method=method).pivot(index="epoch", columns="seed", values=y)
        found[method] = runs.reindex(epochs).ffill()
    return found


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return test accuracy, then margin and loss, against epochs; no figure without rows."""
    if not _is_run(rows):
        return []
    rows = _with_roots(rows)
    best = float(rows.test_accuracy.max())
    ends = (best - SHOWN, best + 0.1 * SHOWN)
    panels = [_panel(rows, s, "test_accuracy", "test accuracy", y_range=ends) for s in _settings(rows)]
    alt = f"Test accuracy against epochs. {HELD} {_sentence(rows)}"
    figures = [Figure("figure-5b", "VGG-16 on CIFAR-10", alt, tuple(panels), columns=2)]
    labels = {"root": ROOT, "loss": "log10 of the training loss"}
    panels = [_panel(rows, s, y, label, is_ours=True) for y, label in labels.items() for s in _settings(rows)]
    alt = (
        f"Normalized margin, one line for each run, and training loss against epochs. {HELD} The margin is "
        f"shown as its {DEGREE}th root with its sign, as it falls with the power {DEGREE} of the norm; it is "
        "above 0 where all training images are right."
    )
    title = "VGG-16 on CIFAR-10: margin and loss"
    return [*figures, Figure("figure-5b-training", title, alt, tuple(panels), columns=2)]


def _settings(rows: Any) -> list[str]:
    """Return the settings that are stored, the paper's printed one first."""
    known = [name for name in TITLES if name in set(rows.setting)]
    return known + [name for name in rows.setting.unique() if name not in known]


def _panel(rows: Any, setting: str, y: str, label: str, **more: Any) -> Panel:
    """Return the panel of a column; margins are drawn run by run, as their mean is that of no run.

    A margin jumps over 0 when its run separates the training set, and runs do so at different epochs.
    """
    marks: list[Any] = []
    some = where(rows, setting=setting)
    last = _last(some)
    for method, curves in _curves(rows, setting, y).items():
        t = curves.index.to_numpy(dtype=float)
        runs = where(last, method=method)
        if y == "root":
            for seed, end in zip(runs.seed, runs.epoch, strict=True):
                kept = t <= end
                marks.append(Line(method, t[kept], curves[seed][kept], width=1.2, has_markers=False))
        else:
            means = np.array([mean_interval(values.dropna()) for _, values in curves.iterrows()])
            if np.isfinite(means).all():
                marks.append(Band(method, t, means[:, 1], means[:, 2]))
            marks.append(Line(method, t, means[:, 0], has_markers=False))
        marks.append(Points(method, runs.epoch.to_numpy(dtype=float), runs[y].to_numpy(), size=5.0))
    title = setting.capitalize() if more.get("is_ours") else TITLES.get(setting, setting)
    return Panel(title, tuple(marks), "epoch", label, **more)


def _last(rows: Any) -> Any:
    """Return the last row of each run, with the first epoch at which all training images are right."""
    runs = ["setting", "method", "seed"]
    first = rows[rows.train_accuracy == 1.0].groupby(runs).epoch.min().rename("first")
    last = rows.sort_values("epoch").groupby(runs, sort=False).tail(1).join(first, on=runs)
    return last.assign(is_separated=last.train_accuracy == 1.0)


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return the ends of the runs of each setting, the paper's printed one first, and the tuning."""
    if not _is_run(rows):
        return []
    last = _last(_with_roots(rows))
    found = []
    for setting in _settings(rows):
        some = where(last, setting=setting)
        lines = [_line(where(some, method=m)) for m in METHODS if m in set(some.method)]
        caption = (
            f"{CAPTIONS.get(setting, setting)} Means over seeds at the last epoch of each run, with 95 % "
            f"intervals; norm, loss and the {DEGREE}th root of the normalized margin are those of runs that "
            "separate the training set."
        )
        found.append(Table.of(caption, lines, numbers=("rate", *tuple(lines[0])[3:])))
    return [*found, *_tuning(settings)]


def _line(runs: Any) -> dict[str, str]:
    """Return the line of a table: the runs of one method, each at its last epoch."""
    separated = runs[runs.is_separated]
    reached = runs["first"].dropna()
    return {
        "method": str(runs.method.iloc[0]),
        "rate": f"{runs.lr.iloc[0]:g}",
        "schedule": _words(runs.schedule.iloc[0]),
        "separated": f"{len(separated)} of {len(runs)}",
        "first at epoch": span(reached) if len(reached) else "never",
        "last epoch": span(runs.epoch),
        "test accuracy": _mean(100.0 * runs.test_accuracy, ".2f", " %"),
        "loss": f"{10.0 ** separated.loss.mean():.1e}" if len(separated) else "",
        "norm": f"{separated.norm.mean():.1f}" if len(separated) else "",
        "margin, root": _mean(separated.root, ".5f") if len(separated) else "",
    }


def _words(schedule: Any) -> str:
    return schedule.replace("-", " ") if isinstance(schedule, str) else ""


def _mean(values: Any, form: str, unit: str = "") -> str:
    mean, low, high = mean_interval(values)
    return f"{mean:{form}}{unit}" + (f" [{low:{form}}, {high:{form}}]" if math.isfinite(low) else "")


def _tuning(settings: Settings) -> list[Table]:
    """Return the accuracy of every rate and schedule on the validation split, if it is stored."""
    found = list(csv.DictReader(_content(settings.tuning).decode().splitlines()))
    if not found or "chosen" not in found[0]:
        return []
    lines = [
        {
            "method": row["method"],
            "rate": row["lr"],
            "schedule": _words(row["schedule"]),
            "last epoch": row["epochs"],
            "validation accuracy": f"{100 * float(row['accuracy']):.2f} %",
            "training loss": f"{float(row['train_loss']):.1e}".replace("nan", "not finite"),
            "": "chosen" if row["chosen"] == "1" else "",
        }
        for row in found
    ]
    runs = [f"{sum(row['method'] == m for row in found)} runs of {m}" for m in METHODS[:3]]
    caption = (
        "Tuning: a tenth of the training set held out, seed 0, at most 100 epochs, no regularisation; "
        f"{', '.join(runs)}. PRGD's schedules are changes of the printed one, at its best rate."
    )
    numbers = ("rate", "last epoch", "validation accuracy", "training loss")
    return [Table.of(caption, lines, numbers=numbers)]


def _differences(at: Any, others: tuple[str, ...] = OTHERS) -> dict[str, Interval]:
    """Return PRGD less each other method, paired by seed, with intervals; what was not run is left out.

    Parameters
    ----------
    at : mapping of str to Series
        For each method the accuracy of each seed.
    others : tuple of str
    """
    pairs = {other: (at["PRGD"] - at[other]).dropna() for other in others if {"PRGD", other} <= set(at)}
    return {other: mean_interval(d) for other, d in pairs.items() if len(d)}


def _lead(differences: dict[str, Interval]) -> Interval:
    """Return PRGD's lead over the better of GD and NGD: PRGD must beat both, so the smaller lead counts."""
    means, lows, highs = zip(*differences.values(), strict=True)
    return min(means), min(lows), min(highs)


def _at_the_end(rows: Any, others: tuple[str, ...] = OTHERS) -> dict[str, dict[str, Interval]]:
    """Return for each setting the differences at the last epoch of each run, if there are any."""
    found = {}
    for setting in _settings(rows):
        curves = _curves(rows, setting, "test_accuracy")
        found[setting] = _differences({method: c.iloc[-1] for method, c in curves.items()}, others)
    return {setting: differences for setting, differences in found.items() if differences}


def effect_of_projection() -> str:
    """Return the tuned runs of PRGD less those without projection, in test accuracy, from stored rows."""
    return points(_at_the_end(frame(to_csv(compute(Settings(), ""))), (UNPROJECTED,))["tuned"][UNPROJECTED])


def _leads(rows: Any, setting: str) -> Iterator[Interval]:
    """Yield PRGD's lead after each number of epochs that the paper's figure may end at: after the warm-up."""
    curves = _curves(rows, setting, "test_accuracy")
    last = len(curves["PRGD"]) - 1
    for epoch in range(min(WARM_UP, last), last + 1):
        yield _lead(_differences({method: c.loc[epoch] for method, c in curves.items()}))


def _sentence(rows: Any) -> str:
    """Return the differences at the end in words, with the smallest ones that would have shown."""
    words = []
    for setting, differences in _at_the_end(rows, (*OTHERS, UNPROJECTED)).items():
        each = [
            f"PRGD less {other} {points(d)} (more than {50 * (d[2] - d[1]):.2f} points would have shown)"
            for other, d in differences.items()
            if math.isfinite(d[1])
        ]
        words.append(f"{TITLES.get(setting, setting)}: {'; '.join(each)}.")
    return " ".join(words)


@claim(
    "section-7.2-vgg",
    where="Section 7.2, Figure 5b",
    experiment="figure-5b",
    quote="our PRGD algorithm archives better generalization performance and outperforms GD and NGD for "
    "both tasks",
)
def prgd_generalizes_better(rows: Any, settings: Settings) -> Finding:
    """PRGD generalizes better than GD and NGD for VGG-16 on CIFAR-10.

    Compare test accuracies at the last epoch of each run, paired by seed; NOT_RUN if rows are missing.
    """
    if not _is_run(rows):
        return Finding(Judgement.NOT_RUN, NOT_RUN)
    found = _at_the_end(rows)
    if not found or any(len(differences) < len(OTHERS) for differences in found.values()):
        return Finding(Judgement.NOT_RUN, "The stored rows lack a method: GD, NGD and PRGD are needed.")
    # The settings are two readings of the paper: the answers of both count.
    _, lows, highs = zip(*(_lead(differences) for differences in found.values()), strict=True)
    leads = {setting: list(_leads(rows, setting)) for setting in found}
    is_always_behind = all(high < 0.0 for some in leads.values() for _, _, high in some)
    counts = []
    for setting, some in leads.items():
        seeds, below = where(rows, setting=setting).seed.nunique(), sum(high < 0.0 for _, _, high in some)
        middle, above = (sum(lead[k] > 0.0 for lead in some) for k in (0, 1))
        counts.append(
            f"{setting} ({seeds} seeds) it is below 0 after {below} of {len(some)} epoch counts, contains 0 "
            f"after {len(some) - below - above or 'none'} and is above 0 after {above or 'none'} (its middle "
            f"after {middle or 'none'})"
        )
    return Finding(
        ((100 * min(lows), 100 * max(highs)), ">", 0.0),
        f"PRGD's lead over the better of GD and NGD, as a 95 % interval: {'; '.join(counts)}; all chosen "
        f"rates lie at the grid's edge. Epochs count from {WARM_UP} on, where the warm-up ends. At the ends "
        f"of runs, paired by seed: {_sentence(rows)}",
        what="PRGD's lead in test accuracy over the better of GD and NGD, in points",
        setting="Section 7.2 says no explicit regularization, Appendix E.2 weight decay and dropout: both "
        f"are run. {' '.join(CAPTIONS.get(setting, setting) for setting in found)} 4 rates were tried for GD "
        "and for NGD, 4 rates and 9 more schedules for PRGD.",
        not_given="" if is_always_behind else "its number of epochs, and after some the interval contains 0",
        given_in="Section 7.2 and Appendix E.2, two readings; both are tried",
        would_change="The number of epochs of the paper's figure, or an interval above 0 against both.",
    )


def _ratio(last: Any, other: str) -> tuple[int, Interval]:
    """Return pairs of runs that both separate, and PRGD's margin over the other's in them (roots)."""
    roots = last[last.is_separated].pivot(index="seed", columns="method", values="root")
    if "PRGD" not in roots or other not in roots:
        return 0, (math.nan, 0.0, math.inf)
    logs = np.log(roots["PRGD"] / roots[other]).dropna()
    mean, low, high = mean_interval(logs) if len(logs) else (math.nan, -math.inf, math.inf)
    return len(logs), (math.exp(mean), math.exp(low), math.exp(high))


@claim("vgg-margin", where=f"{OURS} (Section 7.2, Figure 5b)", experiment="figure-5b")
def prgd_ends_with_a_larger_margin(rows: Any, settings: Settings) -> Finding:
    """PRGD ends with a larger normalized margin than GD and NGD on VGG-16, at about the same loss.

    The paper shows no margin of a network; it says that the max-margin bias "also exists for homogenized
    neural networks". Divide the margins of runs of the same seed without regularisation that both separate.
    """
    last = where(_last(_with_roots(rows)), setting="tuned")
    if not _is_run(rows) or "PRGD" not in set(last.method):
        return Finding(Judgement.NOT_RUN, NOT_RUN)
    found = {other: _ratio(last, other) for other in OTHERS}
    words = [
        f"{ratio[0]:.3f} of {other}'s [{ratio[1]:.3f}, {ratio[2]:.3f}] in {n} pairs"
        if n > 1
        else f"compared with {other}'s in {n} pair{'s' * (n != 1)}, too few for an interval"
        for other, (n, ratio) in found.items()
    ]
    separated = last[last.is_separated].groupby("method").norm.mean()
    norms = "; ".join(f"{method} {norm:.1f}" for method, norm in separated.items())
    return Finding(
        (tuple(min(ratio[k] for _, ratio in found.values()) for k in (1, 2)), ">", 1.0),  # type: ignore[arg-type]
        f"The {DEGREE}th root of PRGD's normalized margin is {'; '.join(words)}. Mean norms of the "
        f"parameters of runs that separate: {norms}. At the same loss a larger "
        "norm is a smaller normalized margin.",
        what=f"ratio of PRGD's margin to the larger of GD's and NGD's, {DEGREE}th roots",
        setting=CAPTIONS["tuned"],
        would_change="More pairs of runs that separate, or a lower loss at the end.",
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    if not _is_run(rows):
        return (
            f"Not yet run. {NOT_RUN} The figure appears when paper/prgd_paper/figures/{settings.file} exists."
        )
    return (
        "Differences of test accuracy at the end of each run, paired by seed, with 95 % intervals. "
        f"{_sentence(rows)} {HELD} Drawn from stored rows."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=5.2,
    title="Test accuracy of VGG-16 on CIFAR-10",
    where="Figure 5b, Section 7.2",
    quick=Settings(),
    seconds=0.1,
)
