"""`open_cluster`: from files, Dask collections and delayed blocks to partitions that fit together."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.checks import check_positive
from prgd.core.errors import imported
from prgd.rows.cluster import partitions as worker
from prgd.rows.cluster.cluster_rows import ClusterRows, naming_losses, start, wait_for
from prgd.rows.cluster.partitions import Facts
from prgd.rows.labels import check_classes, label_array
from prgd.rows.readers.columns import Column, Columns, check_same_names

Show = Callable[[int, int], None]


def open_cluster(
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    client: Any = None,
    label: Column | None = None,
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    n_jobs: int = 1,
    max_memory: int | None = None,
    connect_timeout: float = 20.0,
    worker_timeout: float = 60.0,
    progress: Show | None = None,
) -> ClusterRows:
    """Load partitions on a Dask cluster, and keep them there.

    Parameters
    ----------
    data : path, list of paths, Dask array, Dask data frame or list of delayed blocks
        Paths may be globs and fsspec addresses (``s3://...``) of ``.npy``, Parquet or LIBSVM files, one
        partition each, in the order of their names. A delayed block gives ``(X, y)``, ``(X, y,
        sample_weight)``, or rows z_i alone. Nothing is scattered from here: a worker that is lost has its
        partitions loaded again elsewhere.
    y : optional
        For a Dask array, labels as a Dask or NumPy array; for files without labels, paths of label files,
        ``.npy`` or text with one label on each line.
    sample_weight : optional
        For a Dask array, weights as a Dask or NumPy array.
    client : distributed.Client, address or None
        ``None`` starts workers on this machine, one for each core, which end with ``close``.
    label : str or int, optional
        The label column of data frames and Parquet files, by name or position; by default as in
        `prgd.datasets.load`.
    features, drop : list of str or int, optional
        Columns of data frames and Parquet files to use, or to leave out, by name or position.
    n_jobs : int
        Threads for each partition; partitions of one worker are summed side by side.
    max_memory : int, optional
        Leave ``.npy`` and Parquet files on the workers' disks, and read them at every pass within this many
        bytes for each partition. By default they are loaded into memory.
    connect_timeout : float
        Seconds to wait for the scheduler.
    worker_timeout : float
        Seconds to wait for a worker when there is none, before `RowsLostError` is raised.
    progress : callable, optional
        Called with the number of partitions that are loaded, and of all.

    Returns
    -------
    ClusterRows

    Raises
    ------
    ConnectionError
        When no scheduler answers in time, or it has no worker.
    RowsLostError
        When all workers are lost while they load the partitions, or loading one ends several workers (the
        scheduler's setting ``distributed.scheduler.allowed-failures`` says how many).
    ValueError
        When partitions do not fit together; the message names one.

    Examples
    --------
    >>> from distributed import Client
    >>> from dask import delayed
    >>> from prgd.rows.queries import MarginsAt
    >>> blocks = [delayed((np.eye(2), [1, -1])), delayed((np.ones((1, 2)), [1]))]
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     rows = open_cluster(blocks, client=client)
    ...     rows.ask(MarginsAt(np.array([3.0, 1.0])))
    array([ 3., -1.,  4.])
    """
    check_positive("worker_timeout", worker_timeout)
    columns = Columns(label, None if features is None else tuple(features), tuple(drop), y is None)
    with ExitStack() as owned:  # whatever was started here ends if the rows cannot be opened
        client = _connect(client, connect_timeout, owned)
        loaded = _load(client, data, y, sample_weight, columns, max_memory)
        if not loaded:
            raise ValueError("The cluster needs at least one partition; got none.")
        facts = _gather_facts(client, start(client, worker.describe, loaded), progress, worker_timeout)
        if (error := next((fact.error for fact in facts if fact.error is not None), None)) is not None:
            raise error
        loaded = [future for future, fact in zip(loaded, facts, strict=True) if fact.n]
        facts = [fact for fact in facts if fact.n]
        if not facts:
            raise ValueError("All partitions are without rows. Check the paths, or the filter before.")
        d, first = _columns(facts)
        classes, names = _find_classes(facts), _feature_names(facts)
        if not any(mass for fact in facts for mass in fact.masses.values()):
            raise ValueError("sample_weight is zero everywhere: no row is left.")
        same = {"d": d, "first": first, "classes": classes, "feature_names": names, "n_jobs": n_jobs}
        built = start(client, worker.build, loaded, **same)
        rows = ClusterRows(
            client, built, facts, d, classes, worker_timeout=worker_timeout, owned=owned.pop_all()
        )
        rows.feature_names = names
        return rows


def _connect(client: Any, timeout: float, owned: ExitStack) -> Any:
    """Return a client; what is started for it is added to ``owned``."""
    distributed = imported("distributed", "Reading rows on a cluster", "cluster")
    if client is None:
        # Errors are raised here; workers would write tracebacks too, e.g. of a heartbeat that is cut off.
        cluster = distributed.LocalCluster(
            threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        )
        owned.callback(cluster.close)
        client = distributed.Client(cluster)
    elif isinstance(client, str):
        try:
            client = distributed.Client(client, timeout=timeout)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConnectionError(
                f"No Dask scheduler answered at {client} within {timeout:g} s. Check the address, or start "
                "one with 'dask scheduler' and workers with 'dask worker ADDRESS'."
            ) from error
    else:
        return client
    owned.callback(client.close)
    return client


def _load(
    client: Any, data: Any, y: Any, sample_weight: Any, columns: Columns, max_memory: int | None
) -> list[Any]:
    """Return futures of `Loaded` partitions."""
    if isinstance(data, (str, Path)) or (
        isinstance(data, Sequence) and data and all(isinstance(item, (str, Path)) for item in data)
    ):
        if sample_weight is not None:
            raise ValueError("sample_weight is for Dask arrays and delayed blocks, not for files.")
        urls = _expand(data)
        labels: Sequence[str | None] = [None] * len(urls) if y is None else _expand(y)
        if len(labels) != len(urls):
            raise ValueError(
                f"y must name one label file for each of the {len(urls)} files; got {len(labels)}."
            )
        return start(client, worker.load_file, urls, labels, columns=columns, max_memory=max_memory)
    if max_memory is not None:
        raise ValueError("max_memory is for files. Leave it out: Dask's own partitions lie in memory.")
    blocks = client.compute(_blocks(data, y, sample_weight))
    names = [f"partition {k}" for k in range(len(blocks))]
    return start(client, worker.read_block, blocks, names, columns=columns if _is_frame(data) else None)


def _is_frame(data: Any) -> bool:
    return hasattr(data, "to_delayed") and hasattr(data, "columns")


def _expand(paths: Any) -> list[str]:
    """Return the addresses behind paths and globs, globs in the order of their names."""
    import fsspec.core

    found: list[str] = []
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        url = os.fspath(path)
        files, inner = fsspec.core.url_to_fs(url)
        if not any(mark in url for mark in "*?["):
            found.append(url if "://" in url else inner)
            continue
        names = sorted(files.glob(inner))
        if not names:
            raise FileNotFoundError(f"No file matches {url!r}. Check the path, and quote the pattern.")
        found += [files.unstrip_protocol(name) if "://" in url else name for name in names]
    return found


def _blocks(data: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Return one delayed block for each partition."""
    from dask.delayed import Delayed, delayed

    if isinstance(data, Sequence) and all(isinstance(item, Delayed) for item in data):
        if y is not None or sample_weight is not None:
            raise ValueError("Delayed blocks hold their labels and weights: delayed((X, y, sample_weight)).")
        return list(data)
    if _is_frame(data):
        if y is not None or sample_weight is not None:
            raise ValueError("A data frame holds its labels: name their column with label.")
        return list(data.to_delayed())
    if not (hasattr(data, "to_delayed") and hasattr(data, "chunks")):
        raise TypeError(
            "data must be paths, a Dask array or data frame, or a list of delayed blocks; got "
            f"{type(data).__name__}. Use prgd.Problem(X, y) for data in memory."
        )
    if data.ndim != 2:
        raise ValueError(f"X must be a matrix of shape (rows, columns); got shape {data.shape}.")
    if data.numblocks[1] > 1:
        data = data.rechunk({1: -1})
    columns = [data.to_delayed().ravel().tolist()]
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        columns.append(_aligned(name, values, data.chunks[0]))
    return [delayed(tuple)([X, *rest]) for X, *rest in zip(*columns, strict=True)]


def _aligned(name: str, values: Any, chunks: tuple[Any, ...]) -> list[Any]:
    """Cut labels or weights as the rows are cut."""
    from dask.array import asarray

    if values is None:
        return [None] * len(chunks)
    values = asarray(values)
    if not np.isnan(chunks + values.chunks[0]).any():
        if values.shape != (sum(chunks),):
            raise ValueError(f"{name} must have shape ({sum(chunks)},); got {values.shape}.")
        values = values.rechunk((chunks,))
    elif values.numblocks != (len(chunks),):
        raise ValueError(f"{name} cannot be cut as X is: call compute_chunk_sizes() on both first.")
    return list(values.to_delayed())


def _gather_facts(client: Any, futures: Sequence[Any], progress: Show | None, timeout: float) -> list[Facts]:
    """Wait until every partition is loaded and described."""
    from distributed import as_completed

    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        raise ConnectionError(
            f"The scheduler at {client.scheduler.address} has no worker after {timeout:g} s. Start some with "
            f"'dask worker {client.scheduler.address}'."
        ) from None
    done = as_completed(futures, loop=client.loop)
    with naming_losses(client):
        for count in range(1, len(futures) + 1):
            future = wait_for(client, done.__anext__(), timeout)
            if future.status in ("error", "cancelled"):
                future.result()  # raises the error of the worker
            if progress is not None:
                progress(count, len(futures))
        return list(wait_for(client, client.gather(list(futures), asynchronous=True), timeout))


def _columns(facts: Sequence[Facts]) -> tuple[int, int]:
    """Return the number of columns, and the index that LIBSVM text gives to the first of them."""
    texts = [fact for fact in facts if fact.min_column is not None]
    first = 0 if any(fact.min_column == 0 for fact in texts) else 1
    widths = {fact.name: fact.d for fact in facts}
    if texts:
        width = max(fact.d for fact in texts) - first
        widths.update({fact.name: width for fact in texts})
    common = next(iter(widths.values()))
    for name, width in widths.items():
        if width != common:
            raise ValueError(
                f"All partitions must have the same number of columns; {facts[0].name} has {common}, and "
                f"{name} has {width}."
            )
    return common, first


def _feature_names(facts: Sequence[Facts]) -> tuple[str, ...] | None:
    """Return the names of the columns of all partitions, in the order of the first that has rows."""
    first = facts[0].feature_names
    for fact in facts:
        if fact.feature_names != first:
            if first is None:
                raise ValueError(f"All partitions must have named columns or none; {facts[0].name} has none.")
            check_same_names(first, fact.feature_names, fact.name, facts[0].name)
    return first


def _find_classes(facts: Sequence[Facts]) -> npt.NDArray[Any] | None:
    """Return the classes over all partitions."""
    counts: Counter[Any] = sum((fact.counts for fact in facts), Counter())
    if None in counts:  # partitions without labels hold rows z_i
        if len(counts) > 1:
            bare = next(fact.name for fact in facts if None in fact.counts)
            raise ValueError(f"Either all partitions come with labels or none; {bare} has none.")
        return None
    classes = np.unique(label_array(list(counts)))  # It refuses text among numbers.
    check_classes(classes)
    return classes
