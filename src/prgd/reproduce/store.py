"""Where rows are kept: one CSV for each task, whole or not at all, with a checksum; a second run reads them.

Why not joblib.Memory: the kept rows are what a reader downloads (CSV and a JSON record with versions, machine
and commit), and they must survive changes of code that leave the settings alone; joblib keeps pickles under
a hash of the code.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prgd.files import atomic_write
from prgd.reproduce.experiment import Experiment, Row, settings_of
from prgd.reproduce.provenance import commit, facts

FORMAT = "prgd-rows-1"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file and the folders above it; a reader finds the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(content)


class Store:
    """The rows of one settings value of one experiment, in ``OUT/rows/<experiment>-<hash>/``.

    Parameters
    ----------
    out : Path
        The folder of the report.
    experiment : Experiment
    settings : Any
    say : callable, optional
        Called with a sentence for each damaged file.
    """

    def __init__(
        self, out: Path, experiment: Experiment, settings: Any, say: Callable[[str], None] = print
    ) -> None:
        self.experiment, self.settings, self.say = experiment, settings, say
        self.tasks = tuple(experiment.tasks(settings))
        self.rows_folder = out / "rows"
        self.folder = self.rows_folder / f"{experiment.rows_name}-{experiment.key(settings)}"
        self.manifest_file = self.folder / "manifest.json"

    def manifest(self) -> dict[str, Any]:
        """Return the record of the stored tasks; an empty one if there is none, or none that can be read."""
        empty: dict[str, Any] = {"format": FORMAT, "tasks": {}}
        if not self.manifest_file.exists():
            return empty
        try:
            found = json.loads(self.manifest_file.read_bytes())
            if found["format"] != FORMAT or not isinstance(found["tasks"], dict):
                raise ValueError(f"format {found['format']!r}")
        except (ValueError, KeyError, TypeError) as error:
            self.say(f"{self.manifest_file} is damaged ({error}); its rows are computed again.")
            return empty
        return dict(found)

    def missing(self, force: bool = False) -> list[str]:
        """Return the tasks whose rows are missing or damaged; warn of each checksum that fails."""
        if force:
            return list(self.tasks)
        known = self.manifest()["tasks"]
        missing = []
        for task in self.tasks:
            file = self.file(task)
            if task not in known or not file.exists():
                missing.append(task)  # The task never finished, so there is nothing to warn of.
            elif hashlib.sha256(file.read_bytes()).hexdigest() != known[task]["sha256"]:
                self.say(f"{file} does not match its checksum; it is computed again.")
                missing.append(task)
        return missing

    def file(self, task: str) -> Path:
        """Return the file of a task's rows."""
        return self.folder / f"{task}.csv"

    def write(self, task: str, found: tuple[list[Row], float]) -> None:
        """Keep the rows of a task, and the seconds that they took: first the file, then its checksum."""
        rows, seconds = found
        content = to_csv(rows)
        write_whole(self.file(task), content)
        manifest = self.manifest()
        manifest |= facts() | {
            "experiment": self.experiment.rows_name,
            "settings": settings_of(self.settings),
        }
        manifest["tasks"][task] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "rows": len(rows),
            "seconds": round(seconds, 3),
            "commit": commit(),
        }
        self._write_manifest(self.manifest_file, manifest)

    def commits(self) -> tuple[str, ...]:
        """Return the commits of the source that the rows were computed from."""
        known = self.manifest()["tasks"]
        return tuple(sorted({known[task]["commit"] for task in self.tasks}))

    def rows(self) -> Any:
        """Return the rows of all tasks as one data frame, in the order of the tasks."""
        return frame(self.csv())

    def csv(self) -> bytes:
        """Return the rows of all tasks as one CSV."""
        parts = [self.file(task).read_bytes() for task in self.tasks]
        head = parts[0].split(b"\n", 1)[0] + b"\n"
        return head + b"".join(part.split(b"\n", 1)[1] for part in parts)

    def publish(self) -> tuple[Path, Path]:
        """Write all rows as ``rows/<experiment>.csv``, with their record beside it, and return both paths."""
        table, record = (self.rows_folder / f"{self.experiment.name}.{end}" for end in ("csv", "json"))
        content = self.csv()
        if not table.exists() or table.read_bytes() != content:
            write_whole(table, content)
        manifest = self.manifest()
        manifest["tasks"] = {task: manifest["tasks"][task] for task in self.tasks}
        manifest["settings"] = settings_of(self.settings)
        self._write_manifest(record, manifest)
        return table, record

    def _write_manifest(self, path: Path, manifest: dict[str, Any]) -> None:
        write_whole(path, (json.dumps(manifest, indent=1, default=repr) + "\n").encode())


def to_csv(rows: Iterable[Row]) -> bytes:
    """Return rows as CSV with a header; floats are written so that they read back exactly.

    Examples
    --------
    >>> to_csv([{"method": "NGD", "margin": 0.1}]).split()
    [b'method,margin', b'NGD,0.1']
    """
    rows = list(rows)
    if not rows:
        raise ValueError("A task must give at least one row; got none.")
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    # NumPy's numbers become plain ones: csv would write np.float64(...).
    writer.writerows({name: getattr(v, "item", lambda v=v: v)() for name, v in row.items()} for row in rows)
    return text.getvalue().encode()


def frame(content: bytes) -> Any:
    r"""Return CSV as a data frame of integers, exact floats (NaN in an empty cell) and text.

    Examples
    --------
    >>> frame(b"t,margin\n1,0.1\n2,\n").dtypes.astype(str).to_list()
    ['int64', 'float64']
    """
    import pandas as pd

    # Why not pandas.read_csv: only some versions read floats exactly, and the newest deprecate the option.
    head, *lines = csv.reader(io.StringIO(content.decode()))
    columns = zip(*lines, strict=True) if lines else ((),) * len(head)
    return pd.DataFrame({name: _column(cells) for name, cells in zip(head, columns, strict=True)})


def _column(cells: tuple[str, ...]) -> list[Any]:
    for kind in (int, float):
        try:
            return [kind(cell) if cell or kind is int else math.nan for cell in cells]
        except ValueError:
            continue
    return list(cells)
