"""Rows on a Dask cluster: partitions stay on their workers, one round trip ends a pass.

The state of a run is w alone and every task is pure, so a worker that is lost costs one repeated load and
one repeated task, and the answers are the same bit for bit: the driver merges them in the order of the
partitions, never in the order in which they arrive.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.errors import NotFiniteError, RowsLostError
from prgd.core.threads import lazy
from prgd.core.types import Array, Codes, Indices, Signs
from prgd.rows.base import Block, M, Query, Rows
from prgd.rows.blocks import stack_blocks
from prgd.rows.cluster import partitions as worker
from prgd.rows.cluster.partitions import Facts
from prgd.rows.labels import NO_CODES, Labels
from prgd.rows.out_of_core import ChunkedRows

_POLL_S = 2.0  # seconds between two questions whether workers are there, while a pass takes long


class ClusterRows(Rows, AbstractContextManager[Any]):
    """Rows of persisted partitions on the workers of a Dask cluster; made by `open_cluster`.

    A pass sends w to every partition and gets 6 + d numbers back from each, for each class. Labels stay on
    the workers, and come to the driver, one number for each row, only if they are asked for.

    Attributes
    ----------
    names : list of str
        The partitions: file names, or their number. Those without rows are left out.
    dashboard : str
        Address of the cluster's dashboard (served if bokeh is installed with the scheduler).
    """

    def __init__(
        self,
        client: Any,
        partitions: Sequence[Any],
        facts: Sequence[Facts],
        d: int,
        classes: npt.NDArray[Any] | None,
        *,
        worker_timeout: float,
        owned: ExitStack,
    ) -> None:
        self._client, self._partitions, self._owned = client, list(partitions), owned
        self._timeout = worker_timeout
        self.names = [fact.name for fact in facts]
        self._starts = np.concatenate([[0], np.cumsum([fact.n for fact in facts])])
        self.n, self.d = int(self._starts[-1]), d
        self.labels = ClusterLabels(self, facts, classes)
        self._w: Array | None = None  # the last w, a warm start after a loss

    @property
    def _where(self) -> str:
        return f", {len(self.names)} partition{'s' if len(self.names) > 1 else ''}"

    @property
    def dashboard(self) -> str:
        """Address of the cluster's dashboard."""
        return str(self._client.dashboard_link)

    def close(self) -> None:
        """Let the partitions go, and end the cluster if it was started for these rows."""
        self._partitions.clear()
        self._owned.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def map(
        self, task: Callable[..., Any], *own: Sequence[Any], only: Sequence[int] | None = None, **shared: Any
    ) -> list[Any]:
        """Call ``task(partition, *own of it, **shared)`` for each partition, or ``only`` some, in order."""
        if not self._partitions:
            raise ValueError("These rows are closed. Open them again with open_cluster.")
        chosen = self._partitions if only is None else [self._partitions[k] for k in only]
        with naming_losses(self._client, OSError, w=self._w):
            futures = start(self._client, task, chosen, *own, **shared)
            answers = self._client.gather(futures, errors="skip", asynchronous=True)
            found = list(wait_for(self._client, answers, self._timeout))
            if len(found) == len(futures):
                return found
            for future in futures:
                if future.status in ("error", "cancelled"):
                    future.result()  # raises the error of the worker
            raise RowsLostError(f"{len(futures) - len(found)} of {len(futures)} partitions gave no answer.")

    def ask(self, query: Query[M], labels: Labels | None = None) -> M:
        """Answer a query in one round trip; labels other than the partitions' own travel with it."""
        places = [slice(int(a), int(b)) for a, b in pairwise(self._starts)]
        wanted = [k for k, at in enumerate(places) if query.wants(at)] or [0]
        given = [None if labels is None or labels is self.labels else labels.part(places[k]) for k in wanted]
        found = self.map(worker.answer, [places[k] for k in wanted], given, only=wanted, query=query)
        for k, answer in zip(wanted, found, strict=True):
            if isinstance(answer, NotFiniteError):
                error = NotFiniteError(places[k].start + answer.row, answer.column)
                error.add_note(f"It is row {answer.row} of partition {self.names[k]}.")
                raise error
            if isinstance(answer, ValueError):
                raise answer
        self._w = np.array(query.w) if hasattr(query, "w") else self._w
        return query.merge(found)

    def with_labels(self, labels: Labels) -> ClusterRows:
        """Refuse: the labels lie in the partitions."""
        raise TypeError(
            "The labels of rows on a cluster lie in its partitions, and cannot be replaced. Open the rows "
            "once for each label set, or load them into memory."
        )

    def take(self, indices: Indices) -> Block:
        """Return the rows x_i of these ascending indices."""
        held, mine = self.split(indices)
        return stack_blocks(self.map(ChunkedRows.take, mine, only=held))

    def split(self, indices: Indices) -> tuple[list[int], list[Indices]]:
        """Return the partitions that hold these ascending rows, and the places of the rows in each."""
        cuts = np.searchsorted(indices, self._starts)
        held = [k for k in range(len(self.names)) if cuts[k + 1] > cuts[k]]
        return held, [indices[cuts[k] : cuts[k + 1]] - self._starts[k] for k in held]


def start(client: Any, task: Callable[..., Any], *own: Sequence[Any], **shared: Any) -> list[Any]:
    """Return futures of ``task(*own, **shared)``, one for each element of the sequences ``own``."""
    # Tasks are pure, but Dask would spend time on hashing their arguments to recognise equal calls.
    return list(client.map(task, *own, key=f"prgd-{task.__name__}", pure=False, **shared))


@contextmanager
def naming_losses(client: Any, *kinds: type[Exception], w: Array | None = None) -> Iterator[None]:
    """Turn the errors of a cluster that lost rows, and errors of these ``kinds``, into `RowsLostError`."""
    import asyncio

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    # Two classes have one name. Both say that a future was cancelled, e.g. as the scheduler forgot it.
    cancelled = (concurrent.futures.CancelledError, asyncio.CancelledError)
    losses: tuple[type[BaseException], ...] = (CommClosedError, KilledWorker, *cancelled, *kinds)
    try:
        yield
    except RowsLostError as error:
        error.w = w
        raise
    except losses as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        lost = RowsLostError(
            f"The rows on the cluster at {client.scheduler.address} can no longer be read ({reason}). Open "
            "them again, and go on from the last state."
        )
        lost.w = w
        raise lost from error


def wait_for(client: Any, answer: Any, timeout: float) -> Any:
    """Wait for a coroutine of the client as long as there are workers, or some come back in time."""
    import asyncio

    future = asyncio.run_coroutine_threadsafe(answer, client.loop.asyncio_loop)
    seen = time.monotonic()
    try:
        while True:
            with suppress(TimeoutError):
                return future.result(_POLL_S)
            if future.done():  # the answer itself is a TimeoutError
                return future.result()
            if _count_workers(client):
                seen = time.monotonic()
            elif time.monotonic() - seen > timeout:
                raise RowsLostError(
                    f"All workers of the cluster at {client.scheduler.address}, or its scheduler, were "
                    f"lost, and none came back within {timeout:g} s. Start them, open the rows again, and "
                    "go on from the last state."
                )
    finally:
        future.cancel()


def _count_workers(client: Any) -> int:
    """Return how many workers the scheduler has; 0 if the scheduler does not answer."""
    import asyncio

    future = asyncio.run_coroutine_threadsafe(client.scheduler.ncores(), client.loop.asyncio_loop)
    try:
        return len(future.result(_POLL_S))
    except (OSError, TimeoutError):
        future.cancel()
        return 0


class ClusterLabels(Labels):
    """Labels that stay with their partitions; all of them are gathered once, if they are asked for."""

    def __init__(self, rows: ClusterRows, facts: Sequence[Facts], classes: npt.NDArray[Any] | None) -> None:
        self._rows, self.classes = rows, classes
        self._has_weights = any(fact.has_weights for fact in facts)
        masses: Counter[Any] = sum((fact.masses for fact in facts), Counter())
        if classes is None:
            self.class_weights = masses[None], 0.0
        else:
            weights = [masses[label] for label in classes.tolist()]
            self.class_weights = tuple(weights if len(weights) > 2 else weights[::-1])

    @lazy
    def signs(self) -> Signs:  # type: ignore[override]
        """The labels y_i as +1 or -1."""
        return np.concatenate(self._rows.map(worker.signs))

    @lazy
    def codes(self) -> Codes:  # type: ignore[override]
        """The place of each label among the classes, for a problem of all classes jointly."""
        return np.concatenate(self._rows.map(worker.codes)) if self.is_joint else NO_CODES

    @property
    def is_joint(self) -> bool:
        """Whether there are more than two classes."""
        return self.classes is not None and self.classes.size > 2

    def codes_at(self, indices: Indices) -> Codes:
        """Return the codes of these ascending indices."""
        held, mine = self._rows.split(indices)
        return np.concatenate([NO_CODES, *self._rows.map(worker.codes, mine, only=held)])

    @lazy
    def sample_weight(self) -> Array:  # type: ignore[override]
        """The sample weights, empty if all are 1."""
        return np.concatenate(self._rows.map(worker.sample_weight)) if self._has_weights else np.empty(0)

    def at(self, indices: Indices) -> Signs:
        """Return the labels of these ascending indices."""
        held, mine = self._rows.split(indices)
        return np.concatenate([np.empty(0, np.int8), *self._rows.map(worker.signs, mine, only=held)])
