"""Where rows are kept: one CSV for each task, whole or not at all, with a checksum; a second run reads them.

Why not joblib.Memory: the kept rows are what a reader downloads, CSV and a JSON record with versions, machine
and commit; joblib keeps pickles.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import io
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import prgd
from prgd.core.files import atomic_write
from prgd_paper.reproduce.experiment import Experiment, Row
from prgd_paper.reproduce.settings import SEEDS, plain_settings, settings_of

FORMAT = "prgd-rows-1"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "matplotlib")


def warn(sentence: str) -> None:
    """Print a warning on standard error."""
    print(f"Warning: {sentence}", file=sys.stderr, flush=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file and the folders above it; a reader finds the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(content)


class Store:
    """The rows of one settings value of one experiment, in ``OUT/rows/<experiment>-<hash>/``.

    The hash covers the settings and the code that computes. Rows that other code computed with the same
    settings lie in folders beside it.

    Parameters
    ----------
    out : Path
        The folder of the report.
    experiment : Experiment
    settings : Any
    keeps_rows : bool
        Take rows of other code for tasks that this code has not computed.
    """

    def __init__(self, out: Path, experiment: Experiment, settings: Any, *, keeps_rows: bool = False) -> None:
        self.experiment, self.settings = experiment, settings
        self.keeps_rows = keeps_rows
        self.tasks = tuple(experiment.tasks(settings))
        self.rows_folder = out / "rows"
        self.folder = self.rows_folder / f"{experiment.rows_name}-{experiment.key(settings)}"
        self.manifest_file = self.folder / "manifest.json"

    def manifest(self, folder: Path | None = None) -> dict[str, Any]:
        """Return the record of a folder's tasks; an empty one if there is none, or none that can be read."""
        file = self.manifest_file if folder is None else folder / "manifest.json"
        empty: dict[str, Any] = {"format": FORMAT, "tasks": {}}
        if not file.exists():
            return empty
        try:
            found = json.loads(file.read_bytes())
            if found["format"] != FORMAT or not isinstance(found["tasks"], dict):
                raise ValueError(f"format {found['format']!r}")
        except (ValueError, KeyError, TypeError) as error:
            warn(f"{file} is damaged ({error}); its rows are computed again.")
            return empty
        return dict(found)

    def folders_of_other_code(self) -> list[Path]:
        """Return the folders with rows of the same settings by other code, the newest first.

        A record of an earlier version may lack fields; they must have the values of the full run here.
        """
        defaults, ours = plain_settings(self.experiment.settings), plain_settings(self.settings)
        found = []
        for file in self.rows_folder.glob(f"{self.experiment.rows_name}-*/manifest.json"):
            if file != self.manifest_file:
                record = self.manifest(file.parent)
                settings = {k: v for k, v in record.get("settings", {}).items() if k != SEEDS}
                is_same = (
                    record.get("experiment") == self.experiment.rows_name and defaults | settings == ours
                )
                found += [(file.stat().st_mtime_ns, file.parent)] if is_same else []
        return [folder for _, folder in sorted(found, reverse=True)]

    def located(self, *, says: bool = False) -> dict[str, Path]:
        """Return the folder of each task that has whole rows; ``says`` warns of each checksum that fails."""
        folders = [self.folder, *(self.folders_of_other_code() if self.keeps_rows else [])]
        found: dict[str, Path] = {}
        for folder in folders:
            known = self.manifest(folder)["tasks"]
            for task in (task for task in self.tasks if task in known and task not in found):
                file = folder / f"{task}.csv"
                if not file.exists():
                    continue  # The task never finished, so there is nothing to warn of.
                if hashlib.sha256(file.read_bytes()).hexdigest() == known[task]["sha256"]:
                    found[task] = folder
                elif says:
                    warn(f"{file} does not match its checksum; it is computed again.")
        return found

    def missing(self, force: bool = False) -> list[str]:
        """Return the tasks whose rows are missing or damaged; warn of each checksum that fails."""
        found = {} if force else self.located(says=True)
        return [task for task in self.tasks if task not in found]

    def why_again(self, tasks: Iterable[str]) -> str:
        """Return why tasks are computed again though rows of other code exist; empty if none exist."""
        for folder in self.folders_of_other_code():
            record = self.manifest(folder)
            if again := [task for task in tasks if task in record["tasks"]]:
                count = f"{len(again)} task{'s are' if len(again) > 1 else ' is'}"
                why = self._difference(record)
                return f"{self.experiment.name}: {count} computed again, since {why}. --keep-rows keeps them."
        return ""

    def other_code(self) -> str:
        """Return which rows other code computed, in words; empty if there are none."""
        parts = []
        located = self.located()
        for folder in dict.fromkeys(located.values()):
            if folder != self.folder:
                record = self.manifest(folder)
                n = sum(where == folder for where in located.values())
                commits = ", ".join(sorted({record["tasks"][t]["commit"] for t in record["tasks"]}))
                parts.append(f"{n} of {len(self.tasks)} (commit {commits}; {self._difference(record)})")
        return "; ".join(parts)

    def _difference(self, record: dict[str, Any]) -> str:
        """Return in words how the code of a record differs from the code of today."""
        before, now = record.get("code", {}), self.experiment.code()
        changed = [name for name in now if before.get(name) != now[name]]
        return f"the code that computes them changed: {', '.join(changed)}"

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
            "code": self.experiment.code(),
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
        return tuple(sorted({entry["commit"] for entry in self._entries().values()}))

    def _entries(self) -> dict[str, Any]:
        """Return the record of each task."""
        located = self.located()
        records = {folder: self.manifest(folder) for folder in dict.fromkeys(located.values())}
        return {task: records[located[task]]["tasks"][task] for task in self.tasks}

    def rows(self) -> Any:
        """Return the rows of all tasks as one data frame, in the order of the tasks."""
        return frame(self.csv())

    def csv(self) -> bytes:
        """Return the rows of all tasks as one CSV."""
        located = self.located()
        parts = [(located[task] / f"{task}.csv").read_bytes() for task in self.tasks]
        head = parts[0].split(b"\n", 1)[0] + b"\n"
        return head + b"".join(part.split(b"\n", 1)[1] for part in parts)

    def publish(self) -> tuple[Path, Path]:
        """Write all rows as ``rows/<experiment>.csv``, with their record beside it, and return both paths."""
        e = self.experiment
        table, record = (self.rows_folder / f"{e.name}.{end}" for end in ("csv", "json"))
        content = self.csv()
        if not table.exists() or table.read_bytes() != content:
            write_whole(table, content)
        # Versions and machine are those of the folder that most recently computed a task.
        manifest = self.manifest(next(iter(dict.fromkeys(self.located().values()))))
        changed = {
            name: {"here": value, "full run": getattr(e.settings, name)}
            for name, value in e.changes(self.settings).items()
        }
        manifest |= {"tasks": self._entries(), "settings": settings_of(self.settings)}
        manifest |= {"changed_settings": changed, "rows_of_other_code": self.other_code()}
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


@cache
def facts() -> dict[str, Any]:
    """Return versions and machine as JSON can hold them.

    Examples
    --------
    >>> sorted(facts())
    ['machine', 'versions']
    """
    versions = {"prgd": prgd.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "missing"
    machine = {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}
    return {"versions": versions, "machine": machine}


@cache
def commit() -> str:
    """Return the git commit of the source, with a plus sign if files changed since; else ``"unknown"``."""
    folder = Path(__file__).parent

    def ask(*command: str) -> str:
        found = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=True
        )
        return found.stdout.strip()

    try:
        # An installed copy may lie inside some other repository, which does not track it.
        ask("ls-files", "--error-unmatch", Path(__file__).name)
        mark = "+" if ask("status", "--porcelain", "--", "../..") else ""
        return ask("rev-parse", "--short=12", "HEAD") + mark
    except (OSError, subprocess.SubprocessError):
        return "unknown"
