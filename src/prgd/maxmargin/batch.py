"""`max_margin_batch`: the certified maximum margins of many label sets over the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from prgd.core.checks import check_integer, check_positive
from prgd.core.files import OtherFileError, atomic_write, read_npz, whole_file
from prgd.core.threads import each, lazy, single_blas, threads_of
from prgd.core.types import Array, Indices
from prgd.maxmargin.batch_on_device import solve_on_device
from prgd.maxmargin.label_sets import LabelledRows, SharedProducts, errors_naming, is_list, read_blocks
from prgd.maxmargin.solve import Solve
from prgd.maxmargin.solver import max_margin, solve_hard
from prgd.problem import Problem
from prgd.problem.certificate import Certificate
from prgd.rows.arrays import DenseRows
from prgd.rows.readers.columns import in_order
from prgd.running.history import Status
from prgd.running.progress import live_line
from prgd.running.result import Result, from_arrays, to_arrays
from prgd.solvers.coordinate_descent import suits

# One Gram matrix serves all label sets if it has at most so many rows, and if the rows are not many more than
# the columns: few columns have few support vectors, which a working set finds by cheap passes.
_MAX_ROWS, _MAX_ROWS_PER_COLUMN = 4096, 4
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
    cosine = _of_each(
        "cosine", "Lower bounds on the cosines between ``coef`` and the directions of largest margin."
    )

    @lazy
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
        places = zip(self.results, self.block.tolist(), self.column.tolist(), strict=True)
        checks = [r.check(blocks[b].rows.with_labels(blocks[b].labels(k))) for r, b, k in places]
        return BatchCheck(tuple(c.certificate for c in checks), np.array([c.is_valid for c in checks]))

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


def max_margin_batch(
    X: Any,
    Y: Any,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_passes: int = 1000,
    n_jobs: int | None = None,
    progress: bool | str = True,
) -> BatchResult:
    r"""Return the maximum-margin separators of many label sets, each with its certificate.

    .. math:: \gamma_k^\star = \max_{\|w\| = 1, b} \min_{i : Y_{ik} \ne 0} Y_{ik} (\langle w, x_i \rangle + b)

    The answers are those of `prgd.max_margin` in l2, its default norm, for every column of Y. The work on the
    rows is shared: one Gram matrix serves all label sets. On a GPU (rows as a CUDA tensor) all of
    them are solved together.

    Parameters
    ----------
    X : array, sparse matrix, tensor or Rows of shape (n, d), or a list of these
        The rows, as for `prgd.max_margin`; labels that an engine has are not used. With a list every block
        has its own rows, e.g. the activations of the layers of a network.
    Y : array, sparse matrix or tensor of shape (n, label sets), or a list of these
        Each column is a label set: 1 and -1, and 0 for rows that it leaves out. Booleans mean 1 and -1. With
        a list of X, one Y for each block, or one for all.
    fit_intercept : bool
        Fit a true, unpenalised intercept.
    tol : float
        Relative gap to certify for every label set. 1e-4, a cosine of 0.9999 with the direction of largest
        margin, takes about half of the time.
    max_passes : int
        Passes over the rows of one label set after which its best certified interval is returned.
    n_jobs : int, optional
        Label sets are spread over so many threads. Default: PRGD_NUM_THREADS, else all cores.
    progress : bool or str
        Show a live line while this takes long, on a terminal only; a str is its label.

    Returns
    -------
    BatchResult
        ``coef``, ``intercept``, ``margin``, ``upper_bound``, ``gap``, ``cosine`` and ``status`` as arrays,
        and a `Result` for each problem. Label sets that do not separate have the status NOT_SEPARABLE or
        QUASI_SEPARABLE and weights that prove it, as `prgd.max_margin` returns them.

    Raises
    ------
    ValueError
        If a column of Y lacks one of the classes or holds other labels, or if shapes do not fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> Y = np.sign(X @ rng.standard_normal((50, 3)))
    >>> batch = max_margin_batch(X, Y)
    >>> batch
    BatchResult(3 problems: 3 CERTIFIED)
    >>> bool((batch.gap <= 1e-6).all()), batch.coef.shape
    (True, (3, 50))
    """
    check_positive("tol", tol)
    check_integer("max_passes", max_passes, minimum=1)
    threads, blocks = threads_of(n_jobs), read_blocks(X, Y)
    sizes = [len(block.Y) for block in blocks]
    results: list[Result] = []
    with live_line(progress) as show:

        def tell(done: int) -> None:
            show(f"{len(results) + done:,} of {sum(sizes):,} label sets")

        for block in blocks:
            own = threads if block.takes_threads else 1
            results += _solve_block(block, fit_intercept, tol, max_passes, own, tell)
    column = np.concatenate([np.arange(size) for size in sizes])
    return BatchResult(tuple(results), np.repeat(np.arange(len(sizes)), sizes), column)


def _solve_block(
    block: LabelledRows,
    fit_intercept: bool,
    tol: float,
    max_passes: int,
    threads: int,
    tell: Callable[[int], None],
) -> list[Result]:
    """Solve all label sets of a block: together on the device of the rows, or one by one in threads."""
    with errors_naming(block.name):
        problem = Problem(block.rows.with_labels(block.labels(0)), fit_intercept=fit_intercept, scale="none")
    is_small = problem.n <= min(_MAX_ROWS, _MAX_ROWS_PER_COLUMN * problem.d)
    found: dict[int, Result] = {}
    if block.rows.is_on_device:
        found = solve_on_device(problem, block, tol, tell)
        if len(found) == len(block.Y):
            return [found[k] for k in range(len(block.Y))]
        if is_small:  # the host solves what is left faster than one solve after the other on the device
            rows = DenseRows(block.rows.take(np.arange(problem.n)), n_jobs=1)
            problem = Problem(rows.with_labels(block.labels(0)), fit_intercept=fit_intercept, scale="none")
        threads = threads if is_small else 1
    # Coordinate descent on sparse rows needs no Gram matrix, and is faster than solves on it.
    shared = SharedProducts.of(problem, threads) if is_small and not suits(problem) else None

    def solve(k: int) -> Result:
        if k in found:
            return found[k]
        own = problem.with_labels(block.labels(k))
        result = None
        if shared is not None:
            one = Solve(own, tol, max_passes)
            result = one.result(solve_hard(one, 1, True, None, shared.label_set(own)))
            if result.status is not Status.STALLED:
                return result
        other = max_margin(own.rows, fit_intercept=fit_intercept, tol=tol, max_passes=max_passes)
        return other if result is None or other.status is not Status.STALLED else result

    threads = min(threads, len(block.Y))
    with single_blas() if threads > 1 or shared is not None else nullcontext():
        return _spread(solve, len(block.Y), threads, tell)


def _spread(
    solve: Callable[[int], Result], count: int, threads: int, tell: Callable[[int], None]
) -> list[Result]:
    """Return ``solve(k)`` for every k, spread over threads; an error ends all of them."""
    results: list[Any] = [None] * count
    waiting, ended = iter(range(count)), []

    def work(_: int) -> None:
        while (k := next(waiting, None)) is not None:
            try:
                results[k] = solve(k)
            except BaseException:
                ended.append(k)
                raise
            if ended:
                return
            tell(k + 1)

    each(work, threads)
    return results
