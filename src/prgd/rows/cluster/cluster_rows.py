"""Rows on a Dask cluster: partitions stay on their workers, one round trip ends a pass.

The state of a run is w alone and every task is pure, so a worker that is lost costs one repeated load and
one repeated task, and the answers are the same bit for bit: the driver merges them in the order of the
partitions, never in the order in which they arrive.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.errors import RowsLostError
from prgd.losses import Loss
from prgd.rows.base import Measure, NotFiniteError, Signs, Worst
from prgd.rows.cluster import partitions as worker
from prgd.rows.cluster.partitions import Facts
from prgd.rows.out_of_core import stack_blocks
from prgd.rows.readers.sources import Indices
from prgd.tally import Tally, merge_all

_LOOK_S = 2.0  # between two looks at the workers while a pass takes long


class ClusterRows:
    """Rows of persisted partitions on the workers of a Dask cluster; made by `open_cluster`.

    A pass sends w to every partition and gets 6 + d numbers back from each, for each class. Labels stay on
    the workers. `signs`, `weights` and `margins` gather one number for each row, when they are asked for.

    Attributes
    ----------
    names : list of str
        The partitions: file names, or their number. Those without rows are left out.
    dashboard : str
        Address of the cluster's dashboard (served where bokeh is installed with the scheduler).
    """

    def __init__(
        self,
        client: Any,
        partitions: Sequence[Any],
        facts: Sequence[Facts],
        d: int,
        classes: npt.NDArray[Any] | None,
        *,
        worker_timeout: float = 60.0,
        owned: Sequence[Any] = (),
    ) -> None:
        self._client, self._partitions, self._owned = client, list(partitions), owned
        self._timeout = worker_timeout
        self.names = [fact.name for fact in facts]
        self._starts = np.concatenate([[0], np.cumsum([fact.n for fact in facts])])
        self.n, self.d, self.classes = int(self._starts[-1]), d, classes
        self._has_weights = any(fact.has_weights for fact in facts)
        self.class_weights = _class_weights(facts, classes)
        self._signs: Signs | None = None
        self._weights: Array | None = None
        self._w: Array | None = None

    @property
    def dashboard(self) -> str:
        """Address of the cluster's dashboard."""
        return str(self._client.dashboard_link)

    def close(self) -> None:
        """Let the partitions go, and end the cluster where it was started for these rows."""
        self._partitions.clear()
        for part in self._owned:
            part.close()
        self._owned = ()

    def __enter__(self) -> ClusterRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # A pass: one task for each partition, one answer from each

    def _ask(
        self, task: Callable[..., Any], *own: Sequence[Any], only: Sequence[int] | None = None, **shared: Any
    ) -> list[Any]:
        """Call ``task(partition, *own of it, **shared)`` for each partition, or ``only`` some, in order."""
        if not self._partitions:
            raise ValueError("These rows are closed. Open them again with open_cluster.")
        chosen = self._partitions if only is None else [self._partitions[k] for k in only]
        with self._naming_losses():
            futures = self._client.map(task, chosen, *own, key=f"prgd-{task.__name__}", pure=False, **shared)
            found = list(self._wait(self._client.gather(futures, errors="skip", asynchronous=True)))
            if len(found) == len(futures):
                return found
            for future in futures:
                if future.status in ("error", "cancelled"):
                    future.result()  # raises what happened there
            raise RowsLostError(f"{len(futures) - len(found)} of {len(futures)} partitions gave no answer.")

    @contextmanager
    def _naming_losses(self) -> Iterator[None]:
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        address = self._client.scheduler.address
        # two classes of one name: a future was cancelled, as when the scheduler forgot it
        cancelled = (concurrent.futures.CancelledError, asyncio.CancelledError)
        try:
            yield
        except RowsLostError as error:
            error.w = self._w
            raise
        except (OSError, CommClosedError, KilledWorker, *cancelled) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            lost = RowsLostError(
                f"The rows on the cluster at {address} can no longer be read ({reason}). Open them again, "
                "and go on from the last state."
            )
            lost.w = self._w
            raise lost from error

    def _wait(self, answer: Any) -> Any:
        """Wait for an answer as long as there are workers, or some come back in time."""
        future = asyncio.run_coroutine_threadsafe(answer, self._client.loop.asyncio_loop)
        seen = time.monotonic()
        try:
            while True:
                with suppress(TimeoutError):
                    return future.result(_LOOK_S)
                if future.done():  # the answer itself is an error of that name
                    return future.result()
                if self._count_workers():
                    seen = time.monotonic()
                elif time.monotonic() - seen > self._timeout:
                    raise RowsLostError(
                        f"All workers of the cluster at {self._client.scheduler.address}, or its scheduler, "
                        f"were lost, and none came back within {self._timeout:g} s. Start them, open the "
                        "rows again, and go on from the last state."
                    )
        finally:
            future.cancel()

    def _count_workers(self) -> int:
        """Return how many workers the scheduler has; 0 where it does not answer."""
        asked = self._client.scheduler.ncores()
        future = asyncio.run_coroutine_threadsafe(asked, self._client.loop.asyncio_loop)
        try:
            return len(future.result(_LOOK_S))
        except (OSError, TimeoutError):
            future.cancel()
            return 0

    def tallies(self, w: Array, loss: Loss, by_class: bool = False) -> tuple[Tally, ...]:
        """Sum all rows at ``w``, in one round trip."""
        found = self._ask(worker.tally, w=w, loss=loss, by_class=by_class)
        self._w = w.copy()
        groups = range(2 if by_class else 1)
        return tuple(merge_all(worker.unpack(numbers[g]) for numbers in found) for g in groups)

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for every row: n numbers come to the driver."""
        found = np.concatenate(self._ask(worker.margins, w=w))
        self._w = w.copy()
        return found

    def _split(self, indices: Indices) -> tuple[list[int], list[Indices]]:
        """Return the partitions that hold these ascending rows, and the places of the rows in each."""
        cuts = np.searchsorted(indices, self._starts)
        held = [k for k in range(len(self.names)) if cuts[k + 1] > cuts[k]]
        return held, [indices[cuts[k] : cuts[k + 1]] - self._starts[k] for k in held]

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p``; only weights that are not zero travel."""
        carried = np.flatnonzero(p)
        held, mine = self._split(carried)
        if not held:
            return np.zeros(self.d)
        values = [p[rows + self._starts[k]] for k, rows in zip(held, mine, strict=True)]
        return sum(self._ask(worker.combine, mine, values, only=held), np.zeros(self.d))

    def take(self, indices: Indices) -> Any:
        """Return the rows z_i of these indices, ascending, as a float64 array or CSR matrix."""
        held, mine = self._split(indices)
        return stack_blocks(self._ask(worker.take, mine, only=held))

    def measure(self) -> Measure:
        """Check that all entries are finite, and measure the row norms."""
        found = self._ask(worker.measure)
        for k, facts in enumerate(found):
            if not isinstance(facts, Measure):
                name, row, column = facts
                error = NotFiniteError(int(self._starts[k]) + row, column)
                error.add_note(f"It is row {row} of partition {name}.")
                raise error
        return Measure(max(m.max_norm for m in found), sum(m.zero_rows for m in found))

    def signs(self, indices: Indices | None = None) -> Signs:
        """Return the labels y_i as +1 or -1: of all rows, n bytes that are gathered once, or of some."""
        if indices is not None:
            held, mine = self._split(indices)
            return np.concatenate([np.empty(0, np.int8), *self._ask(worker.signs, mine, only=held)])
        if self._signs is None:
            self._signs = np.concatenate(self._ask(worker.signs))
        return self._signs

    def weights(self) -> Array:
        """Return the sample weights, empty where all are 1; gathered once."""
        if self._weights is None:
            self._weights = np.concatenate(self._ask(worker.weights)) if self._has_weights else np.empty(0)
        return self._weights

    def worst(self, w: Array, most: int, by_class: bool, without: Indices) -> tuple[Worst, ...]:
        """Return the rows of smallest margin, of each class if asked; ``most`` from each partition travel."""
        left_out: list[Indices] = [np.empty(0, np.int64)] * len(self.names)
        for k, rows in zip(*self._split(np.sort(without)), strict=True):
            left_out[k] = rows
        found = self._ask(worker.worst, left_out, w=w, most=most, by_class=by_class)
        self._w = w.copy()
        return tuple(self._merge_worst(parts, most) for parts in zip(*found, strict=True))

    def _merge_worst(self, parts: Sequence[Worst], most: int) -> Worst:
        margins = np.concatenate([part.margins for part in parts])
        indices = np.concatenate([k + part.indices for k, part in zip(self._starts, parts, strict=False)])
        order = np.lexsort((indices, margins))[:most]
        return Worst(min(part.smallest for part in parts), margins[order], indices[order])


def _class_weights(facts: Sequence[Facts], classes: npt.NDArray[Any] | None) -> tuple[float, float]:
    totals: dict[Any, float] = {}
    for fact in facts:
        for label, _, mass in fact.labels:
            totals[label] = totals.get(label, 0.0) + mass
    if classes is None:
        return totals[None], 0.0
    minus, plus = classes.tolist()
    return totals[plus], totals[minus]
