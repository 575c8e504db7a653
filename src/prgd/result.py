"""Status, History and Result: what a run or a solver gives back, saved and loaded without pickle."""

from __future__ import annotations

import csv
import json
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array, Indices
from prgd.certificate import Certificate, DualWeights
from prgd.files import atomic_write
from prgd.norms import norm
from prgd.problem import Problem

FORMAT = "prgd-result-2"
_JSON_FIELDS = ("t", "n", "fit_intercept", "algorithm", "problem")  # fields that are saved as text


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
            raise ImportError("to_dataframe needs pandas: pip install 'prgd[report]'.") from error
        return pd.DataFrame(self.rows, columns=self.columns)

    def to_csv(self, path: str | Path) -> None:
        """Write the rows as CSV with a header; numbers are written so that they read back exactly."""
        with atomic_write(path, "w") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)


class Check(NamedTuple):
    """Both bounds computed again from the data, and whether they confirm the result."""

    certificate: Certificate
    is_valid: bool


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of `prgd.run` and of `prgd.max_margin`: a hyperplane and a certificate of its margin.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The last iterate. The hyperplane of largest margin is ``coef``, ``intercept``.
    status : Status
    t : int
        Steps taken, over all resumed parts; rounds of the working set for `max_margin`.
    certificate : Certificate
        Best lower and upper bound on gamma_star seen, and the witnesses of both.
    history : History
    passes : float
        Passes over the rows, fractions for parts of them.
    state : dict
        What the algorithm needs to go on, beside w: ``run(problem, algorithm, resume=result, ...)``.
    algorithm, problem : str
        Their descriptions.
    n : int
        Number of rows.
    fit_intercept : bool
    classes : ndarray of two labels, or None if the rows were z_i
    fingerprint : str
        Hashes of the rows, labels, weights and options of a run, by which `prgd.run` knows on which data it
        may be resumed; empty for `max_margin` and in files of earlier versions.
    """

    w: Array
    status: Status
    t: int
    certificate: Certificate
    history: History = field(repr=False)
    passes: float = math.nan
    state: dict[str, Any] = field(repr=False, default_factory=dict)
    algorithm: str = ""
    problem: str = ""
    n: int = 0
    fit_intercept: bool = False
    classes: npt.NDArray[Any] | None = None
    fingerprint: str = ""

    @property
    def margin(self) -> float:
        """The certified lower bound on gamma_star: the margin of ``coef``, ``intercept``."""
        return self.certificate.lower

    @property
    def upper_bound(self) -> float:
        """The certified upper bound on gamma_star."""
        return self.certificate.upper

    @property
    def gap(self) -> float:
        """The certified relative gap."""
        return self.certificate.gap

    @cached_property
    def _scale(self) -> float:
        # Functional margin 1, as a support vector machine has it; length 1 if nothing is separated.
        c = self.certificate
        length = norm(self.w if c.w is None else c.w)
        return 1.0 / (c.lower * length) if c.lower > 0.0 else 1.0 / (length or 1.0)

    @cached_property
    def coef(self) -> Array:
        """Normal of the hyperplane of largest margin, scaled so that the smallest ``y_i f(x_i)`` is 1."""
        c = self.certificate
        return (self.w if c.w is None else c.w) * self._scale

    @property
    def intercept(self) -> float:
        """Intercept that goes with ``coef``; 0 unless the problem fits one."""
        return self.certificate.intercept * self._scale

    @property
    def dual_weights(self) -> Array:
        """The positive weights p of the upper bound, for the rows in ``support``; empty if not known."""
        p = self.certificate.dual_weights
        return np.empty(0) if p is None else p.values

    @property
    def support(self) -> Indices:
        """The rows that carry the weights p of the upper bound, ascending."""
        p = self.certificate.dual_weights
        return np.empty(0, np.int64) if p is None else p.indices

    @cached_property
    def dual_coef(self) -> Any:
        """The weights p of all rows, as a sparse row."""
        from scipy.sparse import csr_array

        rows = np.zeros(self.support.size, np.int64)
        return csr_array((self.dual_weights, (rows, self.support)), shape=(1, self.n))

    @property
    def is_separable(self) -> bool | None:
        """True if the margin is positive, False if the bound is zero, None if unknown."""
        if self.margin > 0.0:
            return True
        return False if self.status is Status.NOT_SEPARABLE else None

    def check(self, X: Any, y: Any = None) -> Check:
        """Compute both bounds again in float64 from the data; nothing of the solver is used.

        ``is_valid`` says that the weights are those of a certificate and that both bounds agree with
        the stated ones to rounding.
        """
        problem = Problem(X, y, fit_intercept=self.fit_intercept)
        length, p = norm(self.coef), self._dual_weights_over(problem)
        margins = problem.margins(self.coef, self.intercept)
        margin = float(margins.min()) / length if length > 0.0 else 0.0
        found = Certificate(margin, norm(problem.combine(p)), self.coef, self.intercept)
        slack = 1e-9 * found.upper + 64 * np.finfo(np.float64).eps * problem.max_norm
        groups = problem.labels.groups(self.fit_intercept)
        in_simplex = p.min() >= 0.0 and all(abs(p[g].sum() * len(groups) - 1.0) < 1e-12 for g in groups)
        agrees = abs(margin - self.margin) <= slack and abs(found.upper - self.upper_bound) <= slack
        return Check(found, bool(in_simplex and agrees))

    def _dual_weights_over(self, problem: Problem) -> Array:
        c = self.certificate
        if c.dual_weights is None and c.w_upper is not None:
            return problem.dual_weights(c.w_upper)
        return np.zeros(problem.n) if c.dual_weights is None else c.dual_weights.dense(problem.n)

    def check_fingerprint(self, other: str) -> None:
        """Raise ``ValueError`` unless ``other`` is the fingerprint of the result: the same data and options.

        A result without a fingerprint passes.
        """
        parts = ("rows", "labels", "sample weights", "options of the algorithm")
        pairs = zip(parts, self.fingerprint.split("-"), other.split("-"), strict=bool(self.fingerprint))
        if changed := [name for name, then, now in pairs if self.fingerprint and then != now]:
            raise ValueError(
                f"This result belongs to other {' and '.join(changed)} than those given, though their sizes "
                "agree: its bounds would be false here. Give those of the run, or start anew."
            )

    def save(self, path: str | Path) -> None:
        """Write everything to an ``.npz`` file, whole or not at all; no pickle inside."""
        with atomic_write(path) as file:
            np.savez(file, **_to_arrays(self))

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a file written by `save`, of this or an earlier version."""
        try:
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                return _from_arrays({name: file[name] for name in file.files})
        except FileNotFoundError:
            raise
        except Exception as error:  # a damaged zip raises many kinds of error
            raise ValueError(
                f"{path}: not a whole prgd result file ({error}). Run again, or take an older copy."
            ) from error


def _to_arrays(result: Result) -> dict[str, Any]:
    c, history = result.certificate, result.history
    scalars = {k: v for k, v in result.state.items() if not isinstance(v, np.ndarray)}
    meta = {
        "format": FORMAT,
        "status": result.status.name,
        **{name: getattr(result, name) for name in _JSON_FIELDS},
        "fingerprint": result.fingerprint,
        "columns": history.columns,
        # Hexadecimal keeps every bit of a float, infinities included.
        "state": {k: v if isinstance(v, int) else float(v).hex() for k, v in scalars.items()},
    }
    arrays: dict[str, Any] = {
        "meta": np.array(json.dumps(meta)),
        "w": result.w,
        "bounds": np.array([c.lower, c.upper, c.intercept, result.passes]),
        "history": np.array(history.rows, dtype=np.float64).reshape(-1, len(history.columns)),
        "recent_gaps": np.array(history.recent_gaps),
    }
    arrays |= {f"state_{k}": v for k, v in result.state.items() if k not in scalars}
    # Strings of a data frame are objects, which only pickle could save: a list makes plain strings of them.
    classes = None if result.classes is None else np.array(result.classes.tolist())
    optional = {"w_lower": c.w, "w_upper": c.w_upper, "classes": classes}
    arrays |= {k: v for k, v in optional.items() if v is not None}
    if c.dual_weights is not None:
        arrays |= {"support": c.dual_weights.indices, "dual_weights": c.dual_weights.values}
    return arrays


def _from_arrays(arrays: dict[str, Any]) -> Result:
    if str(arrays.get("format")) == "prgd-model-1":
        return _from_model(arrays)
    meta = json.loads(str(arrays["meta"][()]))
    if meta["format"] == "prgd-result-1":
        _upgrade(meta, arrays)
    elif meta["format"] != FORMAT:
        raise ValueError(f"format {meta['format']!r}, which this version of prgd does not know")
    lower, upper, intercept, passes = arrays["bounds"].tolist()
    p = DualWeights(arrays["support"], arrays["dual_weights"]) if "support" in arrays else None
    rows: list[Any] = [tuple(row) for row in arrays["history"].tolist()]
    if tuple(meta["columns"]) == Record._fields:
        rows = [Record(int(row[0]), int(row[1]), *row[2:]) for row in rows]
    state = {k: v if isinstance(v, int) else float.fromhex(v) for k, v in meta["state"].items()}
    state |= {k.removeprefix("state_"): v for k, v in arrays.items() if k.startswith("state_")}
    gaps = arrays["recent_gaps"].tolist()
    return Result(
        w=arrays["w"],
        status=Status[meta["status"]],
        certificate=Certificate(lower, upper, arrays.get("w_lower"), intercept, p, arrays.get("w_upper")),
        history=History(rows, meta["columns"], gaps, window=max(len(gaps) - 1, 0)),
        passes=passes,
        state=state,
        classes=arrays.get("classes"),
        fingerprint=meta.get("fingerprint", ""),
        **{name: meta[name] for name in _JSON_FIELDS},
    )


def _from_model(arrays: dict[str, Any]) -> Result:
    """Return the Result of a model, the format that ``prgd fit`` wrote before it saved results."""
    coef, numbers = arrays["coef"], {k: v.item() for k, v in arrays.items() if v.ndim == 0}
    p = DualWeights(arrays["dual_indices"], arrays["dual_weights"])
    return Result(
        w=coef,
        status=Status[numbers["status"]],
        t=0,
        certificate=Certificate(numbers["margin"], numbers["upper_bound"], coef, numbers["intercept"], p),
        history=History(),
        n=numbers["n_rows"],
        fit_intercept=numbers["fit_intercept"],
        classes=arrays["classes"],
    )


def _upgrade(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Bring what version 1 of the format wrote to the names of this one, in place."""
    intercept, lower, upper = arrays["numbers"].tolist()
    # Version 1 has the intercept of the last w, which is that of the certificate's w if they are the same.
    is_last = "w_lower" in arrays and np.array_equal(arrays["w_lower"], arrays["w"])
    arrays["bounds"] = np.array([lower, upper, intercept if is_last else 0.0, math.nan])
    arrays["recent_gaps"] = arrays["history"][:, -1]
    if "fit_intercept=True" in meta["problem"] and not is_last:
        arrays.pop("w_lower", None)
        arrays["bounds"][0] = -math.inf
    renamed = {"k": "phase", "dual": "dual_vector", "dual_last": "dual_vector_last", "settled": "is_done"}
    meta["state"] = {renamed.get(k, k): v for k, v in meta["state"].items()}
    arrays.pop("state_w", None)
    for old, new in renamed.items():
        if f"state_{old}" in arrays:
            arrays[f"state_{new}"] = arrays.pop(f"state_{old}")
    size = meta["problem"].removeprefix("Problem(").partition(" ")[0]
    meta |= {
        "columns": list(Record._fields),
        "n": int(size) if size.isdigit() else 0,
        "fit_intercept": "fit_intercept=True" in meta["problem"],
    }
