"""The interface of every engine: rows that answer queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np

from prgd.core.arithmetic import UNIT_ROUNDOFF
from prgd.core.types import Array, Indices
from prgd.rows.exact import column_names
from prgd.rows.labels import Labels

M = TypeVar("M")

Block = Any  # gathered rows: a float64 array of shape (m, d) or a SciPy CSR array


class Query(ABC, Generic[M]):
    """One pass over the rows as a value: what is asked of them, and how answers of parts merge.

    Leaf engines (arrays, tensors) answer a query, by a fast path of their own or by `answer`. Composite
    engines (files in chunks, clusters) hand it to their parts and merge. So a new kind of pass is one class,
    and no engine changes.
    """

    # Algorithms ask a repeated query at every step, so that compiling a kernel for it always pays. The others
    # are asked a few times, and small rows answer them by NumPy: a kernel would take longer to compile.
    is_repeated: ClassVar[bool] = False

    def part(self, at: slice) -> Query[M]:
        """Return the query for the rows ``at`` of all; indices in its answer count from the first of all."""
        return self

    def wants(self, at: slice) -> bool:
        """Return whether the rows ``at`` can change the answer; others are not read."""
        return True

    @abstractmethod
    def answer(self, rows: LeafRows, labels: Labels) -> M:
        """Return the answer of a leaf engine that has no faster way, from its products alone."""

    @abstractmethod
    def merge(self, parts: Sequence[M]) -> M:
        """Return the answer for all rows from the answers for consecutive parts, at least one."""


class Rows(ABC):
    """The rows x_i of a data set, wherever they lie; labels are an argument of every question.

    Attributes
    ----------
    n, d : int
        Number of rows and of columns.
    labels : Labels
        The labels that came with the rows (in a file, or as an argument); all +1 if none did.
    feature_names : tuple of str or None
        The names of the columns, of a data frame or a file; None if they have none.
    """

    n: int
    d: int
    labels: Labels
    feature_names: tuple[str, ...] | None = None
    is_sparse: bool = False
    is_on_device: bool = False  # solvers compute on the device of the rows, in float64 tensors
    is_in_arrays: bool = False  # the rows lie in arrays of this process, so that gathering them is cheap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n} x {self.d}{self._where})"

    @property
    def _where(self) -> str:
        """What the repr says of where the rows lie, after the number of columns."""
        return ""

    @abstractmethod
    def ask(self, query: Query[M], labels: Labels | None = None) -> M:
        """Answer a query by one pass, with other labels than those that came with the rows if given."""

    @abstractmethod
    def take(self, indices: Indices) -> Block:
        """Return the rows x_i of these ascending indices, in the memory of this process."""

    def gather(self, indices: Indices) -> Block:
        """Return the same rows as a copy in the array namespace in which a solver computes with them."""
        return self.take(indices)

    def with_labels(self, labels: Labels) -> Self:
        """Return an engine of the same rows, which are not copied, with other labels."""
        other = copy(self)
        other.labels = labels
        return other

    def pieces(self) -> Iterator[tuple[int, Rows]]:
        """Yield the first row and the engine of each part that is in memory together, one after the other."""
        yield 0, self

    @property
    def unit_roundoff(self) -> float:
        r"""Unit roundoff u of the least precise sums of a pass, 2^-53 or 2^-24.

        Entries are used as they lie, so only products and sums are rounded. With this u, k = `sum_roundings`
        and :math:`\gamma_k = k u / (1 - k u)`, for `TallyAt`:

        - the margin of a row differs from :math:`\langle w, z_i \rangle` by at most
          :math:`\gamma_{d+1} \sum_j |w_j x_{ij}|`, whatever the order of the sum;
        - ``vector`` differs from :math:`\sum_i c_i z_i` by at most :math:`\gamma_k \sum_i c_i |z_i|`, entry
          by entry, and ``slope_mass`` from :math:`\sum_i c_i` by at most :math:`\gamma_k \sum_i c_i`, for the
          same weights :math:`c_i \ge 0`, those that were computed.

        Underflows add to these errors. `MarginsAt`, `SmallestAt` and `Combine` are summed in float64 on every
        engine: the first bound holds for their margins with u = 2^-53. A composite engine gives the largest u
        of its parts, and all composite engines of prgd have parts that are summed in float64.
        """
        return UNIT_ROUNDOFF

    @property
    def joint_unit_roundoff(self) -> float:
        """Unit roundoff of `JointTallyAt`, in the same sense: the margins here are those of pairs.

        It is infinite where nothing is known about the rounding of sums, those of tensor cores.
        """
        return self.unit_roundoff

    @property
    def sum_roundings(self) -> int:
        """Largest number of roundings that a row meets on its way into the sums of a Tally.

        They are at most n additions of rows and of parts, a rescaling for every block of at least 16 rows,
        and some for every level of merging (slices, parts, partitions).
        """
        return self.n + self.n // 16 + 200

    @property
    def plain_array(self) -> Array | None:
        """X itself if it lies in memory as float64 in C order, else None."""
        return None

    @property
    def csr_arrays(self) -> tuple[Any, Any, Any] | None:
        """X itself as (data, indices, indptr) if it lies in memory as CSR, else None."""
        return None


class LeafRows(Rows):
    """Rows that lie in one place and can be multiplied.

    An engine lists the kinds of query for which it has a faster way than the products in ``own_answers``:
    kind of query -> method of the engine, which takes the query and labels.
    """

    own_answers: ClassVar[dict[type[Query[Any]], Callable[..., Any]]] = {}

    def ask(self, query: Query[M], labels: Labels | None = None) -> M:
        """Answer a query by the engine's own method for its kind, else from the products."""
        labels = self.labels if labels is None else labels
        own = self.own_answers.get(type(query))
        return query.answer(self, labels) if own is None else cast(M, own(self, query, labels))

    @property
    def row_entries(self) -> int:
        """Mean number of stored entries of a row, at least 1."""
        return self.d

    def blocks(self, max_rows: int) -> Iterator[tuple[slice, Block]]:
        """Yield all rows part by part, in float64, where a solver computes with them."""
        for start in range(0, self.n, max_rows):
            at = np.arange(start, min(start + max_rows, self.n))
            yield slice(start, start + at.size), self.take(at)

    @abstractmethod
    def times(self, w: Array) -> Array:
        """Return ``<w, x_i>`` for every row."""

    @abstractmethod
    def combine(self, c: Array) -> Array:
        """Return ``X^T c``; rows with ``c_i = 0`` need not be read."""


def places_within(indices: Indices, at: slice) -> slice:
    """Return which of these ascending indices lie in the range ``at`` of rows."""
    return slice(*np.searchsorted(indices, [at.start, at.stop]).tolist())


_ENGINES: list[tuple[str | Callable[[Any], bool], Callable[..., Rows]]] = []


def register(matches: str | Callable[[Any], bool], make: Callable[..., Rows], *, last: bool = False) -> None:
    """Let ``make(X, y, sample_weight, n_jobs=n_jobs)`` build the engine for data that ``matches``.

    Text is the name of the type of X, or of the package that defines it, such as ``"torch"``.

    An engine is one file or folder in ``prgd/rows`` that calls this when it is imported; all of them are
    imported with the package. ``last`` is for the engine that takes whatever no other does.
    """
    _ENGINES.insert(len(_ENGINES) if last else 0, (matches, make))


def as_rows(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Rows:
    """Return the engine for X: X itself if it is one, else the first that takes it.

    ``feature_names`` are those of a data frame unless they are given.
    """
    if isinstance(X, Rows):
        if any(given is not None for given in (y, sample_weight, n_jobs, feature_names)):
            raise ValueError(
                "X is an engine that holds its labels, weights and threads already: "
                "give y, sample_weight and n_jobs to the engine, not to Problem."
            )
        return X
    names = type(X).__name__, type(X).__module__.partition(".")[0]
    fits = (matches in names if isinstance(matches, str) else matches(X) for matches, _ in _ENGINES)
    make = next(make for fit, (_, make) in zip(fits, _ENGINES, strict=False) if fit)
    rows = make(X, y, sample_weight, n_jobs=n_jobs)
    rows.feature_names = feature_names or column_names(X) or rows.feature_names
    return rows
