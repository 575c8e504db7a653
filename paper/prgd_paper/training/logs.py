"""The log of a run: a CSV row an epoch, TensorBoard's files, and a progress bar or lines on the terminal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from prgd.core.files import atomic_write

Row = dict[str, Any]
CSV_NAME = "log.csv"


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write at least one row below a line with the names; the file appears whole or not at all."""
    with atomic_write(path, "w") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


class Log:
    """The rows of a run, in ``OUT/log.csv`` and, if asked for, in TensorBoard's format beside it.

    Parameters
    ----------
    folder : Path or None
        Folder of the files; None keeps the rows in memory only.
    rows : list of Row
        Earlier rows of a run that goes on.
    tensorboard : bool
    """

    def __init__(self, folder: Path | None, rows: list[Row], *, tensorboard: bool = False) -> None:
        self.folder, self.rows = folder, list(rows)
        self._writer: Any = None
        if folder is not None and tensorboard:
            if find_spec("tensorboard") is None:
                raise ImportError("--tensorboard needs TensorBoard: pip install tensorboard.")
            self._writer = import_module("torch.utils.tensorboard").SummaryWriter(folder / "tensorboard")
        if rows:
            self._write()  # without the epochs after the checkpoint from which a run goes on

    def add(self, row: Row) -> None:
        """Add a row, and write it to the files."""
        self.rows.append(row)
        self._write()
        if self._writer is not None:
            for name in (name for name in row if name not in ("epoch", "step") and row[name] != ""):
                self._writer.add_scalar(name, row[name], row["step"])

    def _write(self) -> None:
        if self.folder is not None:
            write_csv(self.folder / CSV_NAME, self.rows)

    def close(self) -> None:
        """Close TensorBoard's file."""
        if self._writer is not None:
            self._writer.close()


def describe(row: Row) -> str:
    """Return one line of text about a row.

    Examples
    --------
    >>> row = {"epoch": 1, "step": 782, "train_loss": 1.5, "train_accuracy": 0.0, "test_accuracy": 0.0}
    >>> row |= {"normalized_margin": 0.0, "norm": 60.0, "lr": 0.0, "undone": 0, "skipped": 0}
    >>> describe(row)
    'epoch 1  step 782  loss 1.5  accuracy 0.00 % train, 0.00 % test  margin 0.00e+00  norm 60  lr 0'
    """
    kkt = f"  KKT {row['kkt_epsilon']:.3g}" if "kkt_epsilon" in row else ""
    undone = "  (undone)" if row["undone"] else ""
    skipped = f"  {row['skipped']:,} steps skipped" if row["skipped"] else ""
    return (
        f"epoch {row['epoch']}  step {row['step']:,}  loss {row['train_loss']:.4g}  accuracy "
        f"{100 * row['train_accuracy']:.2f} % train, {100 * row['test_accuracy']:.2f} % test  margin "
        f"{row['normalized_margin']:.2e}  norm {row['norm']:.4g}  lr {row['lr']:.3g}{kkt}{undone}{skipped}"
    )


@contextmanager
def progress(steps: int, *, quiet: bool) -> Iterator[tuple[Callable[[int], None], Callable[[Row], None]]]:
    """Yield a function to call with the number of steps after a step, and one with the row of an epoch.

    They show a progress bar on a terminal if rich is installed, else a line an epoch.
    """
    if quiet or not (sys.stderr.isatty() and find_spec("rich") is not None):
        yield (lambda step: None), (lambda row: None if quiet else print(describe(row), flush=True))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("steps", total=steps)
        yield (
            lambda step: bar.update(task, completed=step),
            lambda row: bar.console.print(describe(row), highlight=False),
        )
