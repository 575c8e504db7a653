"""Status, History and Result: what a run gives back, and how it is kept on disk without pickle."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prgd._types import Array
from prgd.certificate import Certificate


class Status(Enum):
    """Why a run ended; the value is the sentence that a user reads."""

    MAX_STEPS = "The step limit was reached before any other rule."
    MAX_PASSES = "The limit on passes over the data was reached before the gap was certified."
    CERTIFIED = "The certified relative gap fell below the tolerance."
    REACHED = "The margin came within the tolerance of the given gamma_star."
    STALLED = "The certified gap stopped shrinking: a still w is no proof of optimality."
    NOT_SEPARABLE = (
        "The upper bound on the margin fell to zero: no separator has a margin above "
        "1e-12 of the largest row norm."
    )
    DIVERGED = "The iterate left the floating range; its last finite state is kept. Use a smaller eta."
    INTERRUPTED = "The run was interrupted; the state of the last whole step is kept."

    def __str__(self) -> str:
        return self.value


class Record(NamedTuple):
    """One row of the history. Margins and bounds are in the units of the data.

    ``gap`` is the best certified relative gap up to t; ``margin`` is NaN at w = 0, and ``R_k`` is NaN
    for algorithms without a radius.
    """

    t: int
    phase: int
    R_k: float
    log_loss: float
    margin: float
    upper_bound: float
    gap: float


class History:
    """The recorded rows of a run, in the order of t."""

    columns = Record._fields

    def __init__(self, rows: list[Record] | None = None) -> None:
        self.rows: list[Record] = rows if rows is not None else []

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> Array:
        """Return one column as an array of floats."""
        k = self.columns.index(column)
        return np.array([row[k] for row in self.rows], dtype=np.float64)

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install 'prgd[report]'.") from error
        return pd.DataFrame(self.rows, columns=self.columns)

    def to_csv(self, path: str | Path) -> None:
        """Write the rows as CSV with a header; numbers are written so that they read back exactly."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of `prgd.run`.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The last iterate; ``certificate.w_lower`` is the one of largest margin.
    intercept : float
        The matching intercept (0 unless the problem fits one).
    status : Status
    t : int
        Steps taken, over all resumed parts.
    certificate : Certificate
        Best lower and upper bound on gamma_star seen, and their relative gap.
    history : History
    state : State
        All that the algorithm needs to go on: ``run(problem, algorithm, resume=result, ...)``.
    algorithm, problem : str
        Their descriptions.
    """

    w: Array
    intercept: float
    status: Status
    t: int
    certificate: Certificate
    history: History
    state: dict[str, Any] = field(repr=False)
    algorithm: str = ""
    problem: str = ""

    def save(self, path: str | Path) -> None:
        """Write everything to an ``.npz`` file, whole or not at all; no pickle inside."""
        path = Path(path)
        c = self.certificate
        scalars = {k: v for k, v in self.state.items() if not isinstance(v, np.ndarray)}
        meta = {
            "format": "prgd-result-1",
            "status": self.status.name,
            "t": self.t,
            "algorithm": self.algorithm,
            "problem": self.problem,
            "state": {k: _to_text(v) for k, v in scalars.items()},
        }
        arrays: dict[str, Any] = {
            "meta": np.array(json.dumps(meta)),
            "w": self.w,
            "numbers": np.array([self.intercept, c.lower, c.upper]),
            "history": np.array(self.history.rows, dtype=np.float64).reshape(-1, len(Record._fields)),
        }
        arrays |= {f"state_{k}": v for k, v in self.state.items() if k not in scalars}
        arrays |= {k: v for k in ("w_lower", "w_upper") if (v := getattr(c, k)) is not None}
        # a plain open, not mkstemp: the file gets the permissions that the user's umask says
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.savez(file, **arrays)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a file written by `save`."""
        try:
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            meta = json.loads(str(arrays["meta"][()]))
            if meta["format"] != "prgd-result-1":
                raise ValueError(f"format {meta['format']!r}")
            intercept, lower, upper = arrays["numbers"].tolist()
            rows = [Record(int(r[0]), int(r[1]), *r[2:]) for r in arrays["history"].tolist()]
            state = {k: _from_text(v) for k, v in meta["state"].items()}
            state |= {k[6:]: v for k, v in arrays.items() if k.startswith("state_")}
            return cls(
                w=arrays["w"],
                intercept=intercept,
                status=Status[meta["status"]],
                t=meta["t"],
                certificate=Certificate(lower, upper, arrays.get("w_lower"), arrays.get("w_upper")),
                history=History(rows),
                state=state,
                algorithm=meta["algorithm"],
                problem=meta["problem"],
            )
        except FileNotFoundError:
            raise
        except Exception as error:  # a damaged zip raises many kinds of error
            raise ValueError(
                f"{path}: not a whole prgd result file ({error}). Run again, or take an older copy."
            ) from error


def _to_text(value: Any) -> int | str:
    # hex keeps every bit of a float, infinities included
    return value if isinstance(value, int) else float(value).hex()


def _from_text(value: int | str) -> int | float:
    return value if isinstance(value, int) else float.fromhex(value)
