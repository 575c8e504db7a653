"""Figure 5b: VGG-16 on CIFAR-10, drawn from stored rows: the runs need a GPU and hours."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from prgd.reproduce.curves import mean_interval
from prgd.reproduce.experiment import Experiment, Judged, Pending, Row, judge
from prgd.reproduce.figures import Band, Figure, Line, Panel, Table, style_of
from prgd.theory.claims import Finding

REQUIRED = ("setting", "method", "seed", "epoch", "test_accuracy")
METHODS = ("GD", "NGD", "PRGD")
WHERE = "Section 7.2, Figure 5b"
STATEMENT = "PRGD generalizes better than GD and NGD for VGG-16 on CIFAR-10."
NOT_RUN = "No rows are stored yet: the runs need a GPU."


@dataclass(frozen=True)
class Settings:
    """Where the rows lie inside the package, and what they were made with, to tell old rows from new ones."""

    file: str = "data/figure-5b.csv"
    checksum: str = ""


def _content(name: str) -> bytes:
    file = files("prgd.reproduce").joinpath(name)
    return file.read_bytes() if file.is_file() else b""


def current(name: str = "data/figure-5b.csv") -> Settings:
    """Return the settings for the stored file as it is now."""
    import hashlib

    content = _content(name)
    return Settings(name, hashlib.sha256(content).hexdigest()[:12] if content else "none")


def compute(settings: Settings, task: str) -> list[Row]:
    """Return the stored rows, checked; one row that says so where there are none."""
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
    """Return test accuracy against epochs, mean and range over seeds; no figure without rows."""
    if not _is_run(rows):
        return []
    panels = []
    for setting in rows.setting.unique():
        marks: list[Any] = []
        for method in _methods(rows):
            some = rows[(rows.setting == setting) & (rows.method == method)]
            epochs = some.groupby("epoch").test_accuracy
            mean, t = epochs.mean(), epochs.mean().index.to_numpy(dtype=float)
            marks.append(Band(method, t, epochs.min().to_numpy(), epochs.max().to_numpy(), style_of(method)))
            marks.append(Line(method, t, mean.to_numpy(), style_of(method)))
        panels.append(Panel(str(setting), tuple(marks), "epoch", "test accuracy"))
    alt = "Test accuracy against epochs, mean and range over seeds. " + _sentence(rows)
    return [Figure("figure-5b", "VGG-16 on CIFAR-10", alt, tuple(panels), columns=2)]


def _last(rows: Any, setting: str) -> Any:
    some = rows[rows.setting == setting]
    return some[some.epoch == some.epoch.max()].pivot(index="seed", columns="method", values="test_accuracy")


def tables(rows: Any, settings: Settings) -> list[Table]:
    """Return last and best accuracy of each method and setting."""
    if not _is_run(rows):
        return []
    lines = []
    for setting in rows.setting.unique():
        last = _last(rows, setting)
        for method in _methods(rows):
            if method not in last:
                continue
            some = rows[(rows.setting == setting) & (rows.method == method)]
            best = some.groupby("seed").test_accuracy.max()
            lines.append(
                (str(setting), method, f"{last[method].count()}", _spread(last[method]), _spread(best))
            )
    columns = ("setting", "method", "seeds", "last epoch", "best epoch")
    return [Table("Test accuracy, mean and range over seeds.", columns, tuple(lines), numbers=columns[2:])]


def _spread(values: Any) -> str:
    return f"{100 * values.mean():.2f} % [{100 * values.min():.2f}, {100 * values.max():.2f}]"


def _differences(rows: Any) -> dict[str, tuple[float, float, float]]:
    """Return PRGD less NGD and less GD at the last epoch, with intervals, for each setting."""
    found = {}
    for setting in rows.setting.unique():
        last = _last(rows, setting)
        for other in ("NGD", "GD"):
            if "PRGD" in last and other in last:
                d = (last["PRGD"] - last[other]).dropna()
                found[f"{setting}, PRGD less {other}"] = (
                    mean_interval(d) if len(d) else (math.nan, -math.inf, math.inf)
                )
    return found


def _sentence(rows: Any) -> str:
    return "; ".join(
        f"{name}: {100 * m:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}]"
        for name, (m, low, high) in _differences(rows).items()
    )


def claims(rows: Any, settings: Settings) -> list[Judged]:
    """Return the verdict, or say that the runs are missing."""
    name = "section-7.2-vgg"
    if not _is_run(rows):
        return [Pending(name, WHERE, STATEMENT, NOT_RUN)]
    found = _differences(rows)
    if not found:
        return [
            Pending(name, WHERE, STATEMENT, "The stored rows lack a method: GD, NGD and PRGD are needed.")
        ]
    worst = min(low for _, low, _ in found.values())
    sentence = f"At the last epoch, paired by seed, with 95 % intervals: {_sentence(rows)}."
    return [judge(name, WHERE, STATEMENT, Finding(worst, 0.0, ">", sentence))]


def reading(rows: Any, settings: Settings) -> str:
    """Return what the figure shows, in figures."""
    if not _is_run(rows):
        return f"Not yet run. {NOT_RUN} The figure appears when src/prgd/reproduce/{settings.file} exists."
    return f"Differences of test accuracy at the last epoch: {_sentence(rows)}. Drawn from stored rows."


EXPERIMENT = Experiment(
    name="figure-5b",
    title="Test accuracy of VGG-16 on CIFAR-10",
    where="Figure 5b, Section 7.2",
    settings=current(),
    quick=current(),
    tasks=lambda settings: ("stored",),
    compute=compute,
    draw=draw,
    claims=claims,
    reading=reading,
    tables=tables,
    seconds=0.1,
)
