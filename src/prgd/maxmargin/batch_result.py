"""`BatchResult`: results of many label sets, their numbers as arrays, what they predict, and their file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from prgd.core.files import OtherFileError, read_saved, whole_file, write_saved
from prgd.core.threads import lazy
from prgd.core.types import Array, Indices
from prgd.maxmargin.label_sets import is_list, read_blocks, read_label_sets
from prgd.problem.certificate import Certificate
from prgd.rows.readers.columns import in_order
from prgd.running.result import Result, from_arrays, to_arrays
from prgd.running.scores import scores_of

FORMAT = "prgd-batch-1"


class BatchCheck(NamedTuple):
    """Both bounds of every problem computed again from the data, and whether they confirm the results."""

    certificates: tuple[Certificate, ...]
    is_valid: npt.NDArray[np.bool_]

    def __str__(self) -> str:
        return f"{np.count_nonzero(self.is_valid)} of {self.is_valid.size} confirmed"


def _of_each(name: str, doc: str) -> lazy[Array]:
    """Return an attribute of `BatchResult`: an array of what each `Result` has under this name."""
    found = lazy(lambda self: np.array([getattr(result, name) for result in self.results]))
    found.__doc__ = doc
    return found


@dataclass(frozen=True, eq=False, repr=False)
class BatchResult(Sequence[Result]):
    """The results of `prgd.max_margin_batch`: a `Result` for each problem, and their numbers as arrays.

    ``len``, indices and iteration are those of a sequence of Results, in the order of the blocks X and in
    each block in that of the columns of Y. Rows that a label set leaves out have the sample weight 0 in its
    Result: ``batch[k].check(X, np.where(y > 0, 1, -1), sample_weight=abs(y))``, with ``y = Y[:, k]``, proves
    one of them again.

    Attributes
    ----------
    results : tuple of Result
    block : ndarray of int of shape (problems,)
        Which X of the list a problem belongs to; 0 if X was one matrix.
    column : ndarray of int of shape (problems,)
        Which column of its Y is the label set of a problem.
    reading : str
        Not empty if labels were 0 and 1, or booleans: these are predicted then, in place of -1 and 1.

    Examples
    --------
    >>> import prgd
    >>> X = [[0.0, 1.0], [1.0, 3.0], [4.0, 1.0], [5.0, 2.0]]
    >>> batch = prgd.max_margin_batch(X, [[-1, -1], [-1, 1], [1, -1], [1, 0]])
    >>> batch.margin.round(6), [status.name for status in batch.status]
    (array([1.788854, 1.      ]), ['CERTIFIED', 'CERTIFIED'])
    >>> batch[1].support, bool(batch.check(X, [[-1, -1], [-1, 1], [1, -1], [1, 0]]).is_valid.all())
    (array([0, 1, 2]), True)
    """

    results: tuple[Result, ...]
    block: Indices
    column: Indices
    reading: str = ""

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> BatchResult: ...
    def __getitem__(self, index: int | slice) -> Result | BatchResult:
        """Return the result of a problem, or the batch of a slice of them."""
        if isinstance(index, slice):
            return replace(
                self, results=self.results[index], block=self.block[index], column=self.column[index]
            )
        return self.results[index]

    def of_block(self, block: int) -> BatchResult:
        """Return the results of one X of a list."""
        places = np.flatnonzero(self.block == block)
        if not places.size:
            known = np.unique(self.block).tolist()
            raise IndexError(f"block must be one of {known}, the blocks of these results; got {block}.")
        return self[int(places[0]) : int(places[-1]) + 1]

    def __repr__(self) -> str:
        names, counts = np.unique([status.name for status in self.status], return_counts=True)
        shown = ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True))
        reading = f"; {self.reading}" if self.reading else ""
        return f"BatchResult({len(self)} problems{': ' * bool(shown)}{shown}{reading})"

    @lazy
    def coef(self) -> Array:
        """Normals of the hyperplanes, a row for each problem, scaled as those of `Result`."""
        sizes = {result.w.size for result in self.results}
        if len(sizes) > 1:
            raise ValueError(
                f"The blocks have different numbers of columns, {sorted(sizes)}, so that no one array holds "
                "all normals. Use of_block(b).coef."
            )
        return np.array([result.coef for result in self.results])

    intercept = _of_each("intercept", "Intercepts that go with ``coef``.")
    margin = _of_each("margin", "The certified lower bounds on the largest margins.")
    upper_bound = _of_each("upper_bound", "The certified upper bounds on the largest margins.")
    gap = _of_each("gap", "The certified relative gaps; infinite where no hyperplane separates.")
    C = _of_each("C", "The prices of squared slacks; infinite for hard margins.")
    cosine = _of_each(
        "cosine", "Lower bounds on the cosines between ``coef`` and the directions of largest margin."
    )

    @lazy
    def status(self) -> npt.NDArray[np.object_]:
        """Why the solve of each problem ended: ``status == Status.CERTIFIED`` says where that is proven."""
        found = np.empty(len(self), dtype=object)
        found[:] = [result.status for result in self.results]
        return found

    def decision_function(self, X: Any) -> Any:
        """Return ``<coef, x> + intercept`` of every row of X (n, d) for every problem, as (n, problems).

        Of a list of blocks X, one such array for each block, of its own problems.
        """
        if is_list(X):
            return [self.of_block(b).decision_function(x) for b, x in enumerate(X)]
        return scores_of(X, self.coef, self.intercept, self.results[0].feature_names)

    def predict(self, X: Any) -> Any:
        """Return the labels of every row of X for every problem, shaped as `decision_function`.

        They are 1 and -1, or 1 and 0 if the labels of the fit were.
        """
        scores, other = self.decision_function(X), 0 if self.reading else -1
        return (
            [np.where(s > 0.0, 1, other) for s in scores] if is_list(X) else np.where(scores > 0.0, 1, other)
        )

    def score(self, X: Any, Y: Any) -> Array:
        """Return for each problem the fraction of labels that are predicted right, without those left out.

        X and Y are given as to `prgd.max_margin_batch`; a held-out column may lack a class.
        """
        if is_list(X):
            labels = Y if is_list(Y) else [Y] * len(X)
            parts = [self.of_block(b).score(x, y) for b, (x, y) in enumerate(zip(X, labels, strict=True))]
            return np.concatenate(parts)
        scores = self.decision_function(X)
        truth = read_label_sets(Y, len(scores), is_binary=bool(self.reading))[0].T
        if truth.shape[1] <= self.column.max():
            raise ValueError(f"Y must have all columns of the fit, also for a slice; got {truth.shape[1]}.")
        found, truth = np.where(scores > 0.0, 1, -1), truth[:, self.column]
        with np.errstate(invalid="ignore"):  # a column that leaves all rows out has no accuracy
            return np.asarray((found == truth).sum(axis=0) / (truth != 0).sum(axis=0))

    def check(self, X: Any, Y: Any) -> BatchCheck:
        """Prove both bounds of every problem again from the data and the witnesses (`Result.check`).

        X and Y are those that were given to `prgd.max_margin_batch`, for a slice or `of_block` too: ``block``
        and ``column`` say where its label sets are.
        """
        names = dict(zip(self.block.tolist(), [result.feature_names for result in self.results], strict=True))
        X = [in_order(x, names.get(b)) for b, x in enumerate(X)] if is_list(X) else in_order(X, names.get(0))
        blocks = read_blocks(X, Y)
        sizes = [len(block.Y) for block in blocks]
        for b, k in zip(self.block.tolist(), self.column.tolist(), strict=True):
            if b >= len(sizes) or k >= sizes[b]:
                raise ValueError(
                    f"These results have a problem of column {k} in block {b}; got {sizes} label sets in "
                    f"{len(sizes)} block(s). Give the X and Y that were solved."
                )
        places = zip(self.results, self.block.tolist(), self.column.tolist(), strict=True)
        checks = [r.check(blocks[b].rows.with_labels(blocks[b].labels(k))) for r, b, k in places]
        return BatchCheck(tuple(c.certificate for c in checks), np.array([c.is_valid for c in checks]))

    def save(self, path: str | Path) -> None:
        """Write everything to an ``.npz`` file, whole or not at all; no pickle inside."""
        meta = {"format": FORMAT, "reading": self.reading}
        arrays = {"meta": np.array(json.dumps(meta)), "block": self.block, "column": self.column}
        for k, result in enumerate(self.results):
            arrays |= {f"{k}/{name}": array for name, array in to_arrays(result).items()}
        write_saved(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> BatchResult:
        """Read a file written by `save`."""
        with whole_file(path, "file of a batch of prgd", "Run again"):
            meta, arrays = read_saved(path)
            if meta["format"] != FORMAT:
                raise OtherFileError(f"expected the results of a batch, got {meta['format']}.")
            places = [arrays["block"], arrays["column"]]
            if any(at.dtype.kind != "i" or at.shape != places[0].shape or (at < 0).any() for at in places):
                raise ValueError("block and column are no numbers of the results")
            parts: list[dict[str, Any]] = [{} for _ in arrays["block"]]
            for name, array in arrays.items():
                k, _, own = name.partition("/")
                if own:
                    parts[int(k)][own] = array
            return cls(tuple(map(from_arrays, parts)), places[0], places[1], meta["reading"])
