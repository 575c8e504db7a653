"""Figure 5b: VGG-16 on CIFAR-10, drawn from stored rows: the runs need a GPU and hours."""

from __future__ import annotations

import csv
import hashlib
import math
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from prgd.claims import Finding, Verdict, claim
from prgd.reproduce.curves import Interval, mean_interval, where
from prgd.reproduce.experiment import Experiment, Row
from prgd.reproduce.figures import Band, Figure, Line, Panel, Table

REQUIRED = ("setting", "method", "seed", "epoch", "test_accuracy")
METHODS = ("GD", "NGD", "PRGD")
NOT_RUN = "No rows are stored yet: the runs need a GPU."
TRAINING = ("step", "log_train_loss", "normalized_margin")
AT_PAPER_RATE = ", rate "  # marks the name of a setting at the paper's base rate, which was not tuned
DEGREE = 16  # VGG-16 is homogeneous of this degree in its parameters: one for each layer
SHOWN = 0.15  # range of accuracies below the best one that is drawn: the methods differ there


def _content(name: str) -> bytes:
    file = files("prgd.reproduce").joinpath(name)
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


def _methods(rows: Any) -> list[str]:
    known = [m for m in METHODS if m in set(rows.method)]
    return known + [m for m in rows.method.unique() if m not in known]


def draw(rows: Any, settings: Settings) -> list[Figure]:
    """Return test accuracy against epochs, then loss and margin against steps; no figure without rows."""
    if not _is_run(rows):
        return []
    names = sorted(rows.setting.unique(), key=lambda name: AT_PAPER_RATE in name)
    best = float(rows.test_accuracy.max())
    ends = (best - SHOWN, best + 0.1 * SHOWN)
    panels = [_panel(rows, name, "epoch", "test_accuracy", "test accuracy", ends) for name in names]
    alt = "Test accuracy against epochs, mean and range over seeds. " + _sentence(_differences(rows))
    figures = [Figure("figure-5b", "VGG-16 on CIFAR-10", alt, tuple(panels), columns=2)]
    if set(TRAINING) <= set(rows.columns):
        # The loss itself may underflow, so its logarithm is drawn.
        margin = rows.normalized_margin
        root = np.sign(margin) * np.abs(margin) ** (1.0 / DEGREE)
        rows = rows.assign(loss=rows.log_train_loss / math.log(10.0), root=root)
        labels = {"loss": "log10 of the training loss", "root": f"normalized margin, {DEGREE}th root"}
        panels = [_panel(rows, name, "step", y, label) for name in names for y, label in labels.items()]
        alt = (
            "Training loss and normalized margin against steps, mean and range over seeds. The margin is "
            f"shown as its {DEGREE}th root with its sign, as it falls with the power {DEGREE} of the norm."
        )
        title = "VGG-16 on CIFAR-10: training"
        figures.append(Figure("figure-5b-training", title, alt, tuple(panels), columns=2))
    return figures


def _panel(rows: Any, setting: Any, x: str, y: str, label: str, y_range: Any = None) -> Panel:
    marks: list[Any] = []
    for method in _methods(rows):
        some = where(rows, setting=setting, method=method)
        if len(some):
            values = some.groupby(x)[y]
            low, mean, high = values.min(), values.mean(), values.max()
            t = mean.index.to_numpy(dtype=float)
            marks.append(Band(method, t, low.to_numpy(), high.to_numpy()))
            marks.append(Line(method, t, mean.to_numpy(), has_markers=False))
    return Panel(str(setting), tuple(marks), x, label, y_range=y_range)


def _last(rows: Any, setting: str) -> Any:
    some = where(rows, setting=setting)
    last = where(some, epoch=some.epoch.max())
    return last.pivot(index="seed", columns="method", values="test_accuracy")


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return last and best accuracy of each method and setting, and how the rates were chosen."""
    if not _is_run(rows):
        return []
    lines = []
    for setting in rows.setting.unique():
        last = _last(rows, setting)
        for method in [method for method in _methods(rows) if method in last]:
            some = where(rows, setting=setting, method=method)
            lines.append(
                {
                    "setting": str(setting),
                    "method": method,
                    "rate": f"{some.lr.iloc[0]:g}" if "lr" in rows.columns else "not stored",
                    "seeds": f"{last[method].count()}",
                    "last epoch": _spread(last[method]),
                    "best epoch": _spread(some.groupby("seed").test_accuracy.max()),
                }
            )
    numbers = ("rate", "seeds", "last epoch", "best epoch")
    return [Table.of("Test accuracy, mean and range over seeds.", lines, numbers=numbers), *_tuning(settings)]


def _tuning(settings: Settings) -> list[Table]:
    """Return the accuracy of every rate on the validation split, if it is stored."""
    found = list(csv.DictReader(_content(settings.tuning).decode().splitlines()))
    if not found or "chosen" not in found[0]:
        return []
    lines = [
        {
            "setting": row["setting"],
            "method": row["method"],
            "rate": row["lr"],
            "last epoch": f"{100 * float(row['last']):.2f} %",
            "best epoch": f"{100 * float(row['best']):.2f} %",
            "training loss": f"{float(row['train_loss']):.2g}".replace("nan", "not finite"),
            "": "chosen" if row["chosen"] == "1" else "",
        }
        for row in found
    ]
    caption = "Validation accuracy at each rate: a tenth of the training set held out, seed 0."
    return [Table.of(caption, lines, numbers=("rate", "last epoch", "best epoch", "training loss"))]


def _spread(values: Any) -> str:
    return f"{100 * values.mean():.2f} % [{100 * values.min():.2f}, {100 * values.max():.2f}]"


def _differences(rows: Any) -> dict[str, Interval]:
    """Return PRGD less NGD and less GD at the last epoch, with intervals, for each setting."""
    found = {}
    for setting in rows.setting.unique():
        last = _last(rows, setting)
        for other in ("NGD", "GD"):
            if "PRGD" in last and other in last:
                d = (last["PRGD"] - last[other]).dropna()
                interval = mean_interval(d) if len(d) else (math.nan, -math.inf, math.inf)
                found[f"{setting}, PRGD less {other}"] = interval
    return found


def _sentence(found: dict[str, Interval]) -> str:
    return "; ".join(
        f"{name}: {100 * m:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}]"
        for name, (m, low, high) in found.items()
    )


@claim(
    "section-7.2-vgg",
    where="Section 7.2, Figure 5b",
    experiment="figure-5b",
    quote="our PRGD algorithm archives better generalization performance and outperforms GD and NGD for "
    "both tasks",
)
def prgd_generalizes_better(rows: Any, settings: Settings) -> Finding:
    """PRGD generalizes better than GD and NGD for VGG-16 on CIFAR-10.

    Compare test accuracies at the last epoch, paired by seed; NOT_RUN if rows are missing.
    """
    if not _is_run(rows):
        return Finding(Verdict.NOT_RUN, NOT_RUN)
    found = {name: d for name, d in _differences(rows).items() if AT_PAPER_RATE not in name}
    if not found:
        return Finding(Verdict.NOT_RUN, "The stored rows lack a method: GD, NGD and PRGD are needed.")
    surely = sum(low > 0.0 for _, low, _ in found.values())
    below = sum(high < 0.0 for _, _, high in found.values())
    # PRGD must beat both: the smaller lead counts. The settings are two readings: all their answers count.
    readings: dict[str, list[Interval]] = {}
    for name, d in found.items():
        readings.setdefault(name.rpartition(",")[0], []).append(d)
    lows, highs = ([min(d[k] for d in some) for some in readings.values()] for k in (1, 2))
    seeds = int(rows.seed.nunique())
    return Finding(
        ((min(lows), max(highs)), ">", 0.0),
        f"{surely} of {len(found)} intervals lie above 0, {len(found) - surely - below} contain it. At the "
        f"last epoch, paired by seed, with 95 % intervals: {_sentence(found)}.",
        what="PRGD's lead in test accuracy",
        setting=f"{' and '.join(readings)}: Section 7.2 says no explicit regularization, Appendix E.2 "
        f"weight decay and dropout; {seeds} seeds, {rows.epoch.max()} epochs; the schedules of Appendix "
        "E.2, as many rates tuned for each method.",
        not_given="its number of epochs, its tuned rates or its seeds",
        would_change="More seeds: the intervals are as wide as the differences that they should resolve.",
    )


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    if not _is_run(rows):
        return f"Not yet run. {NOT_RUN} The figure appears when src/prgd/reproduce/{settings.file} exists."
    differences = _sentence(_differences(rows))
    untuned = " Rates that are named are the paper's base rate, which was not tuned and decides nothing."
    return (
        f"Differences of test accuracy at the last epoch: {differences}."
        f"{untuned if AT_PAPER_RATE in differences else ''} Drawn from stored rows."
    )


EXPERIMENT = Experiment.of_module(
    __name__,
    order=5.2,
    title="Test accuracy of VGG-16 on CIFAR-10",
    where="Figure 5b, Section 7.2",
    quick=Settings(),
    seconds=0.1,
)
