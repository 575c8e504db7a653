"""BatchResult: the results of many label sets, as arrays and one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from prgd.core.files import OtherFileError, atomic_write, read_npz, whole_file
from prgd.core.types import Array, Indices
from prgd.maxmargin.label_sets import is_list, read_blocks
from prgd.problem.certificate import Certificate
from prgd.rows.readers.columns import in_order
from prgd.running.history import Status
from prgd.running.result import Result, from_arrays, to_arrays

FORMAT = "prgd-batch-1"


class BatchCheck(NamedTuple):
    """Both bounds of every problem computed again from the data, and whether they confirm the results."""

    certificates: tuple[Certificate, ...]
    is_valid: npt.NDArray[np.bool_]

    def __str__(self) -> str:
        return f"{np.count_nonzero(self.is_valid)} of {self.is_valid.size} confirmed"


@dataclass(frozen=True, eq=False, repr=False)
class BatchResult(Sequence[Result]):
    """The results of `prgd.max_margin_batch`: a `Result` for each problem, and their numbers as arrays.

    ``len``, indices and iteration are those of a sequence of Results, in the order of the blocks X and in
    each block in that of the columns of Y. Rows that a label set leaves out have the sample weight 0 in its
    Result: ``batch[k].check(X, y > 0, sample_weight=abs(y))`` proves one of them again, with ``y = Y[:, k]``.

    Attributes
    ----------
    results : tuple of Result
    block : ndarray of int of shape (problems,)
        Which X of the list a problem belongs to; 0 if X was one matrix.
    column : ndarray of int of shape (problems,)
        Which column of its Y is the label set of a problem.

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

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> BatchResult: ...
    def __getitem__(self, index: int | slice) -> Result | BatchResult:
        """Return the result of a problem, or the batch of a slice of them."""
        if isinstance(index, slice):
            return BatchResult(self.results[index], self.block[index], self.column[index])
        return self.results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

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
        return f"BatchResult({len(self)} problems: {shown})" if self.results else "BatchResult(0 problems)"

    @cached_property
    def coef(self) -> Array:
        """Normals of the hyperplanes, a row for each problem, scaled as those of `Result`."""
        sizes = {result.w.size for result in self.results}
        if len(sizes) > 1:
            raise ValueError(
                f"The blocks have different numbers of columns, {sorted(sizes)}, so that no one array holds "
                "all normals. Use of_block(b).coef."
            )
        return np.array([result.coef for result in self.results])

    @cached_property
    def intercept(self) -> Array:
        """Intercepts that go with ``coef``."""
        return np.array([result.intercept for result in self.results])

    @cached_property
    def margin(self) -> Array:
        """The certified lower bounds on the largest margins."""
        return np.array([result.margin for result in self.results])

    @cached_property
    def upper_bound(self) -> Array:
        """The certified upper bounds on the largest margins."""
        return np.array([result.upper_bound for result in self.results])

    @cached_property
    def gap(self) -> Array:
        """The certified relative gaps; infinite where no hyperplane separates."""
        return np.array([result.gap for result in self.results])

    @cached_property
    def cosine(self) -> Array:
        """Lower bounds on the cosines between ``coef`` and the directions of largest margin."""
        return np.array([result.cosine for result in self.results])

    @cached_property
    def status(self) -> npt.NDArray[np.object_]:
        """Why the solve of each problem ended."""
        found = np.empty(len(self), dtype=object)
        found[:] = [result.status for result in self.results]
        return found

    def is_status(self, status: Status) -> npt.NDArray[np.bool_]:
        """Return which problems ended with a status."""
        return np.array([result.status is status for result in self.results], dtype=np.bool_)

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
        checks = []
        for result, b, k in zip(self.results, self.block.tolist(), self.column.tolist(), strict=True):
            checks.append(result.check(blocks[b].rows.with_labels(blocks[b].labels(k))))
        return BatchCheck(
            tuple(check.certificate for check in checks), np.array([check.is_valid for check in checks])
        )

    def save(self, path: str | Path) -> None:
        """Write everything to an ``.npz`` file, whole or not at all; no pickle inside."""
        arrays: dict[str, Any] = {
            "meta": np.array(json.dumps({"format": FORMAT})),
            "block": self.block,
            "column": self.column,
        }
        for k, result in enumerate(self.results):
            arrays |= {f"{k}/{name}": array for name, array in to_arrays(result).items()}
        with atomic_write(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> BatchResult:
        """Read a file written by `save`."""
        with whole_file(path, "file of a batch of prgd", "Run again"):
            arrays = read_npz(path)
            meta = json.loads(str(arrays["meta"][()])) if "meta" in arrays else {}
            if meta.get("format") != FORMAT:
                raise OtherFileError(
                    f"{path}: expected the results of a batch, got {meta.get('format', 'other arrays')}."
                )
            parts: list[dict[str, Any]] = [{} for _ in arrays["block"]]
            for name, array in arrays.items():
                k, _, own = name.partition("/")
                if own:
                    parts[int(k)][own] = array
            return cls(tuple(map(from_arrays, parts)), arrays["block"], arrays["column"])
