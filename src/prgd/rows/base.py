"""What an engine must answer, and the part that dense and CSR rows share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.losses import Loss
from prgd.tally import Tally, merge_all

Signs = npt.NDArray[np.int8]

# A slice is what one thread sums alone. Their number depends on the data only, never on the number
# of threads, so that results are bit-identical on any machine with the same instruction set.
SLICE_BYTES = 2**21
MOST_SLICES = 64


class Measure(NamedTuple):
    """Facts of one pass over the rows: largest row norm and the number of zero rows."""

    max_norm: float
    zero_rows: int


class Worst(NamedTuple):
    """The rows of a group that a w serves worst.

    Attributes
    ----------
    smallest : float
        The smallest margin of all rows of the group, infinite where it has none.
    margins, indices : ndarray
        The rows of smallest margin among those that were asked for, in ascending order of margin.
    """

    smallest: float
    margins: Array
    indices: npt.NDArray[np.int64]


@runtime_checkable
class Rows(Protocol):
    """Who computes a Tally: the one interface of every engine. Rows are ``z_i = y_i x_i``."""

    n: int
    d: int
    classes: npt.NDArray[Any] | None

    @property
    def class_weights(self) -> tuple[float, float]:
        """Total weight of the rows labelled +1 and -1."""
        ...

    def tallies(self, w: Array, loss: Loss, by_class: bool = False) -> tuple[Tally, ...]:
        """Sum all rows at ``w``, in one reading: one Tally, or one for each of the labels +1, -1."""
        ...

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for every row."""
        ...

    def worst(self, w: Array, most: int, by_class: bool, without: npt.NDArray[np.int64]) -> tuple[Worst, ...]:
        """Return the ``most`` rows of smallest ``<w, z_i>``, of all rows or of each of the labels +1, -1.

        Rows ``without`` count in `Worst.smallest` only. One reading, and an answer that does not grow with n.
        """
        ...

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``; rows with ``p_i = 0`` need not be read."""
        ...

    def take(self, indices: npt.NDArray[np.int64]) -> Any:
        """Return the rows z_i of these indices, ascending, as a float64 array or CSR matrix."""
        ...

    def measure(self) -> Measure:
        """Check that all entries are finite, and measure the row norms."""
        ...

    def signs(self, indices: npt.NDArray[np.int64] | None = None) -> Signs:
        """Return the labels y_i as +1 or -1, of all rows or of these indices, ascending."""
        ...

    def weights(self) -> Array:
        """Return the sample weights, empty where all are 1."""
        ...


def read_labels(
    y: Any, n: int, classes: npt.NDArray[Any] | None = None
) -> tuple[Signs, npt.NDArray[Any] | None]:
    """Return labels as +1 and -1 (the larger class is +1), and the two classes in order.

    ``None`` means that the rows are ``z_i`` already. ``classes`` are given where these labels are known to
    be some of many: they may lack one of the two then.
    """
    if y is None:
        return np.ones(n, np.int8), None
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ValueError(f"y must hold one label for each of the {n} rows of X; got shape {labels.shape}.")
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError(f"y has a label that is not finite, at row {_first(~np.isfinite(labels))}.")
    if classes is None:
        classes = np.unique(labels)
    if classes.size != 2:
        shown = ", ".join(repr(c) for c in classes[:5].tolist())
        raise ValueError(
            f"y must hold two classes; got {classes.size} ({shown}{', ...' if classes.size > 5 else ''}). "
            "Keep the rows of two classes, or solve one class against the rest."
        )
    return np.where(labels == classes[1], 1, -1).astype(np.int8), classes


def read_weights(sample_weight: Any, n: int) -> Array:
    """Return sample weights as float64, empty where none are given."""
    weights = check_weights(sample_weight, n)
    if weights.size and not weights.any():
        raise ValueError("sample_weight is zero everywhere: no row is left.")
    return weights


def check_weights(sample_weight: Any, n: int) -> Array:
    """Return the weights of some of the rows, which may all be zero."""
    if sample_weight is None:
        return np.empty(0)
    weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must hold one number for each of the {n} rows; got shape {weights.shape}."
        )
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        bad = _first(~(np.isfinite(weights) & (weights >= 0.0)))
        raise ValueError(f"sample_weight must be finite and not negative; row {bad} has {weights[bad]!r}.")
    return weights


def _first(bad: npt.NDArray[np.bool_]) -> int:
    return int(np.argmax(bad))


def weight_by_class(signs: Signs, weights: Array) -> tuple[float, float]:
    """Return the total weight of the rows labelled +1 and -1."""
    mass = weights if weights.size else np.ones(signs.size)
    return float(mass[signs > 0].sum()), float(mass[signs < 0].sum())


def worst_of(
    margins: Array, signs: Signs | None, most: int, without: npt.NDArray[np.int64]
) -> tuple[Worst, ...]:
    """Pick the answer of `Rows.worst` from all margins; ``signs`` where each class is asked for apart.

    Examples
    --------
    >>> worst_of(np.array([3.0, 1.0, 2.0]), None, 1, np.array([1]))
    (Worst(smallest=1.0, margins=array([2.]), indices=array([2])),)
    """
    rest = np.ones(margins.size, bool)
    rest[without] = False
    found = []
    for members in [rest | ~rest] if signs is None else [signs > 0, signs < 0]:
        outside = np.flatnonzero(members & rest)
        values = margins[outside]
        if values.size > most:
            kept = np.argpartition(values, most - 1)[:most]
            outside, values = outside[kept], values[kept]
        order = np.argsort(values, kind="stable")
        smallest = float(margins[members].min(initial=np.inf))
        found.append(Worst(smallest, values[order], outside[order].astype(np.int64)))
    return tuple(found)


def default_threads() -> int:
    """Return PRGD_NUM_THREADS, else the number of cores that this process may use."""
    given = os.environ.get("PRGD_NUM_THREADS")
    if given is not None:
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"PRGD_NUM_THREADS must be a positive whole number; got {given!r}.")
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - systems without affinity


@cache
def pool(workers: int, pid: int) -> ThreadPoolExecutor:
    """Return the shared threads of this process."""
    # keyed by process: threads do not survive a fork
    return ThreadPoolExecutor(workers, thread_name_prefix="prgd")


def each(work: Callable[[int], Any], threads: int) -> list[Any]:
    """Return ``work(k)`` for each thread k."""
    others = [pool(threads - 1, os.getpid()).submit(work, k) for k in range(threads - 1)]
    mine = work(threads - 1)  # this thread would only wait
    return [*(other.result() for other in others), mine]


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view: one compiled kernel then serves writable and read-only data."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class Storage:
    """Arrays as the kernels take them: ``A = (kind, X, data, indices, indptr)``."""

    A: tuple[Any, ...]
    n: int
    d: int
    block: int
    bounds: npt.NDArray[np.int64]
    locate: Callable[[int], int]  # the first column of a row that is not finite
    gather: Callable[[npt.NDArray[np.int64]], Any]  # rows x_i as float64, dense or CSR


class ArrayRows:
    """Rows that lie in arrays, in memory or mapped, summed by the Numba kernels in threads."""

    def __init__(
        self,
        storage: Storage,
        signs: Signs,
        weights: Array,
        classes: npt.NDArray[Any] | None,
        n_threads: int | None,
    ) -> None:
        self.n, self.d = storage.n, storage.d
        self.classes = classes
        self._storage = storage
        self._signs = cast(Signs, frozen(signs))
        self._weights = cast(Array, frozen(weights))
        self._threads = min(n_threads or default_threads(), storage.bounds.size - 1)

    @property
    def class_weights(self) -> tuple[float, float]:
        """Total weight of the rows labelled +1 and -1; parts of a file are not asked for it."""
        return weight_by_class(self._signs, self._weights)

    def signs(self, indices: npt.NDArray[np.int64] | None = None) -> Signs:
        """Return the labels y_i as +1 or -1, of all rows or of some."""
        return self._signs if indices is None else self._signs[indices]

    def weights(self) -> Array:
        """Return the sample weights, empty where all are 1."""
        return self._weights

    def _each(self, work: Callable[[int, int], Any], pieces: int) -> list[Any]:
        """Call ``work(first, last)`` on consecutive ranges of pieces, one a thread."""
        cuts = [pieces * k // self._threads for k in range(self._threads + 1)]
        return each(lambda k: work(cuts[k], cuts[k + 1]), self._threads)

    def tallies(self, w: Array, loss: Loss, by_class: bool = False) -> tuple[Tally, ...]:
        """Sum all rows at ``w``, in one reading."""
        from prgd.rows import _kernels

        s = self._storage
        slices, groups = s.bounds.size - 1, 2 if by_class else 1
        scalars, vectors = np.empty((slices, groups, 6)), np.empty((slices, groups, self.d))
        w = cast(Array, frozen(w))

        def work(first: int, last: int) -> None:
            _kernels.tally_slices(
                s.A, self._signs, self._weights, w, loss.code, s.block,
                s.bounds, first, last, scalars, vectors,
            )  # fmt: skip

        self._each(work, slices)
        return tuple(
            merge_all(as_tally(scalars[k, g], vectors[k, g]) for k in range(slices)) for g in range(groups)
        )

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for every row."""
        from prgd.rows import _kernels

        s, out = self._storage, np.empty(self.n)
        w = cast(Array, frozen(w))

        def work(first: int, last: int) -> None:
            _kernels.margins(s.A, self._signs, w, s.block, s.bounds[first], s.bounds[last], out)

        self._each(work, s.bounds.size - 1)
        return out

    def worst(self, w: Array, most: int, by_class: bool, without: npt.NDArray[np.int64]) -> tuple[Worst, ...]:
        """Return the rows of smallest margin, of each class if asked."""
        return worst_of(self.margins(w), self._signs if by_class else None, most, without)

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``."""
        from prgd.rows import _kernels

        s = self._storage
        factors = p * self._signs
        vectors = np.zeros((s.bounds.size - 1, self.d))

        def work(first: int, last: int) -> None:
            for k in range(first, last):
                _kernels.weighted_sum(s.A, factors, s.block, s.bounds[k], s.bounds[k + 1], vectors[k])

        self._each(work, s.bounds.size - 1)
        return cast(Array, vectors.sum(axis=0))

    def take(self, indices: npt.NDArray[np.int64]) -> Any:
        """Return the rows z_i of these indices, ascending, as a float64 array or CSR matrix."""
        return times_signs(self._storage.gather(indices), self._signs[indices])

    def measure(self) -> Measure:
        """Check that all entries are finite, and measure the row norms."""
        from prgd.rows import _kernels

        s, norms = self._storage, np.empty(self.n)

        def work(first: int, last: int) -> int:
            return int(_kernels.measure(s.A, s.bounds[first], s.bounds[last], norms))

        for row in self._each(work, s.bounds.size - 1):
            if row >= 0:
                raise NotFiniteError(row, s.locate(row))
        return Measure(float(norms.max()), int(np.count_nonzero(norms == 0.0)))


def times_signs(block: Any, signs: Signs) -> Any:
    """Turn gathered rows x_i into z_i = y_i x_i, in place."""
    if isinstance(block, np.ndarray):
        block *= signs[:, None]
    else:
        block.data *= np.repeat(signs, np.diff(block.indptr))
    return block


class NotFiniteError(ValueError):
    """An entry of X is NaN or infinite; ``row`` and ``column`` count from 0."""

    def __init__(self, row: int, column: int) -> None:
        super().__init__(
            f"X has an entry that is NaN or infinite, at row {row}, column {column} "
            "(counting from 0). Remove the row, or fill the entry in, before fitting."
        )
        self.row, self.column = row, column


def as_tally(scalars: Array, vector: Array) -> Tally:
    """Return a Tally from the six numbers and the vector that a kernel wrote."""
    shift, mass, slope_shift, slope_mass, margin, count = scalars.tolist()
    return Tally(shift, mass, slope_shift, slope_mass, vector, margin, count)


def even_bounds(n: int, row_bytes: float, block: int) -> npt.NDArray[np.int64]:
    """Cut n rows of equal size into slices at multiples of ``block`` rows."""
    slices = int(min(max(n * row_bytes // SLICE_BYTES, 1), MOST_SLICES, -(-n // block)))
    return np.unique(np.append(np.arange(slices) * n // slices // block * block, n)).astype(np.int64)


def check_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Return (n, d) when X is a table with at least one row and one column."""
    if len(shape) != 2:
        raise ValueError(
            f"X must be a table of shape (rows, columns); got shape {tuple(shape)}. "
            "Use X.reshape(-1, 1) for a single feature."
        )
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"X must have at least one row and one column; got shape {tuple(shape)}.")
    return int(shape[0]), int(shape[1])
