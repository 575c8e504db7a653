"""Status, Record and History: why a run ended, and what was recorded on the way."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prgd.core.errors import missing_package
from prgd.core.files import atomic_write
from prgd.core.types import Array


class Status(Enum):
    """Why a run ended; the value is the sentence that a user reads."""

    MAX_STEPS = "The limit on steps was reached; both bounds hold, and further steps may tighten them."
    MAX_PASSES = (
        "The limit on passes over the data was reached before the relative gap fell to the tolerance; "
        "both bounds hold."
    )
    CERTIFIED = "Certified: the relative gap between the two bounds on the margin is within the tolerance."
    REACHED = "The margin is within the tolerance of the given maximum, gamma_star."
    STALLED = (
        "The bounds stopped improving before the relative gap fell to the tolerance; both hold, but the "
        "margin is not proven to be the maximum."
    )
    NOT_SEPARABLE = "The classes are not linearly separable; the dual weights prove it."
    QUASI_SEPARABLE = (
        "The classes are only quasi-separable, which is proven: a linear classifier can have no row on its "
        "wrong side, but then some rows lie on the boundary between classes."
    )
    DIVERGED = (
        "The next iterate is infinite or not a number; the last finite one is kept. Use a smaller step size "
        "(eta); if this is step 0, w0 may be 0 and the algorithm divide by its norm: pass a warm start as w0."
    )
    INTERRUPTED = "Interrupted; the state after the last complete step is kept."

    def __str__(self) -> str:
        return self.value


class Record(NamedTuple):
    """One row of the history of a run. Margins and bounds are in the units of the data.

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
    """The recorded rows of a run, in order: named tuples of one kind, such as `Record`.

    Attributes
    ----------
    rows : list of named tuples
        ``history["margin"]`` is NaN where w = 0, as at t = 0 of a run without ``w0``: running maxima are
        ``np.fmax.accumulate``, which passes over NaN.
    recent_gaps : deque of float
        The certified gap after each of the last steps, recorded or not, as far back as a stopping rule looks.
    """

    def __init__(
        self,
        rows: Sequence[Any] = (),
        columns: Sequence[str] = Record._fields,
        recent_gaps: Sequence[float] = (),
        window: int = 0,
    ) -> None:
        self.rows: list[Any] = list(rows)
        self.columns = tuple(columns)
        self.recent_gaps = deque(recent_gaps, maxlen=window + 1)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"History({len(self)} rows of {', '.join(self.columns)})"

    def __getitem__(self, column: str) -> Array:
        """Return one column as an array of floats."""
        k = self.columns.index(column)
        return np.array([row[k] for row in self.rows], dtype=np.float64)

    def ending_with(self, row: Any) -> History:
        """Return these rows and, unless it is the last of them already, another one."""
        is_there = bool(self.rows) and self.rows[-1].t >= row.t
        rows = self.rows if is_there else [*self.rows, row]
        return History(rows, self.columns, list(self.recent_gaps), (self.recent_gaps.maxlen or 1) - 1)

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise missing_package("to_dataframe", "pandas", "report") from error
        return pd.DataFrame(self.rows, columns=self.columns)

    def to_csv(self, path: str | Path) -> None:
        """Write the rows as CSV with a header; numbers are written so that they read back exactly."""
        with atomic_write(path, "w") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)
