"""The model that ``prgd fit --out`` writes and ``prgd predict`` reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.maxmargin import MaxMarginResult
from prgd.result import Status
from prgd.rows import Rows

_FORMAT = "prgd-model-1"


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted hyperplane with its certificate, as ``prgd fit --out`` keeps it: plain arrays, no pickle.

    The weights of the certificate are ``dual_weights`` on the rows ``dual_indices`` of the ``n_rows``.
    """

    coef: Array
    intercept: float
    classes: npt.NDArray[Any]
    margin: float
    upper_bound: float
    status: str
    fit_intercept: bool
    n_features: int
    n_rows: int
    dual_indices: npt.NDArray[np.int64]
    dual_weights: Array

    @classmethod
    def of(cls, result: MaxMarginResult, rows: Rows) -> Model:
        """Take what a result says about these rows."""
        return cls(
            coef=result.coef,
            intercept=result.intercept,
            classes=classes_of(rows),
            margin=result.margin,
            upper_bound=result.upper_bound,
            status=result.status.name,
            fit_intercept=result.fit_intercept,
            n_features=rows.d,
            n_rows=rows.n,
            dual_indices=result.dual_coef.indices.astype(np.int64),
            dual_weights=result.dual_coef.data,
        )

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT), **vars(self)}
        write_whole(path, "wb", lambda file: np.savez(file, **arrays))

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read a file that `save` wrote."""
        if not path.is_file():
            raise FileNotFoundError(f"MODEL expects a file that prgd fit --out wrote; found none at {path}.")
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            if str(arrays.pop("format")) != _FORMAT:
                raise ValueError("another format")
            model = cls(**{name: a if a.ndim else a.item() for name, a in arrays.items()})
            if model.coef.shape != (model.n_features,) or model.classes.shape != (2,):
                raise ValueError("shapes that do not fit")
        except Exception as error:  # a damaged zip raises many kinds of error
            raise ValueError(f"{path}: not a whole model of prgd fit ({error}). Fit it again.") from error
        if not model.margin > 0.0:
            raise ValueError(
                f"{path}: holds no separator to predict with. {Status[model.status]} "
                "See prgd separability; a regularised classifier may serve on such data."
            )
        return model


def classes_of(rows: Rows) -> npt.NDArray[Any]:
    """Return the two classes; rows z_i = y_i x_i without labels have -1 and 1."""
    # through a list: strings of a data frame are objects, which only pickle can save
    return np.array([-1.0, 1.0] if rows.classes is None else rows.classes.tolist())


def class_text(label: Any) -> str:
    """Return a class as its file had it: 1, not 1.0."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def write_whole(path: Path, mode: str, write: Callable[[IO[Any]], object]) -> None:
    """Write a file whole or not at all."""
    # a plain open, not mkstemp: the file gets the permissions that the user's umask says
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text: dict[str, Any] = {} if "b" in mode else {"newline": "", "encoding": "utf-8"}
    try:
        with temporary.open(mode, **text) as file:
            write(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
