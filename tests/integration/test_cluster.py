"""Rows on a cluster: what may be opened, what is refused, and what survives."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import grid
import numpy as np
import pandas as pd
import pytest
from command_line import call, table, write_svm

import prgd
from prgd.losses import LOGISTIC
from prgd.rows import MarginsAt, TallyAt, open_cluster
from prgd.rows.cluster import cluster_rows as cluster

dask = pytest.importorskip("dask")
delayed = dask.delayed

RNG = np.random.default_rng(11)
X = RNG.standard_normal((90, 4))
y = np.where(X[:, 0] > 0.0, 1, -1)
X[:, 0] += 0.2 * y
W = RNG.standard_normal(4)
CUTS = [slice(0, 20), slice(20, 55), slice(55, 90)]


def same_as_dense(rows: prgd.rows.ClusterRows) -> None:
    dense = prgd.rows.DenseRows(X, y)
    assert (rows.n, rows.d) == X.shape
    np.testing.assert_allclose(rows.ask(MarginsAt(W)), dense.ask(MarginsAt(W)), rtol=1e-12)
    np.testing.assert_array_equal(rows.labels.signs, dense.labels.signs)
    assert rows.labels.class_weights == dense.labels.class_weights
    found, expected = (engine.ask(TallyAt(W, LOGISTIC, True)) for engine in (rows, dense))
    np.testing.assert_allclose(found.mean_rows, expected.mean_rows, rtol=1e-12)


def opened_z(folder: Path, client=None, **options) -> prgd.Problem:
    """Return the problem of the rows z_i on a cluster, that of all tests unless another one is given."""
    return prgd.Problem(open_cluster(f"{folder}/z-*.npy", client=client or grid.local_client(), **options))


def write_parts(folder: Path) -> None:
    for k, at in enumerate(CUTS):
        np.save(folder / f"x-{k}.npy", X[at])
        np.save(folder / f"z-{k}.npy", X[at] * y[at, None])
        np.save(folder / f"y-{k}.npy", y[at])
        frame = pd.DataFrame(X[at], columns=list("abcd")).assign(kind=y[at])
        frame.to_parquet(folder / f"part-{k}.parquet", index=False, row_group_size=8)
        lines = [
            f"{label} " + " ".join(f"{j}:{float(v)!r}" for j, v in enumerate(row) if j or k)
            for row, label in zip(X[at] * [k > 0, 1, 1, 1], y[at], strict=True)
        ]
        (folder / f"t-{k}.svm").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_fit_never_gathers_a_number_for_each_row(fit_intercept, monkeypatch):
    scheduler = grid.local_client().cluster.scheduler
    settings = scheduler.allowed_failures
    rows = open_cluster([delayed((X[at], y[at])) for at in CUTS], client=grid.local_client())
    assert scheduler.allowed_failures == settings  # The scheduler's own settings are left alone.
    ask, signs_at = prgd.rows.ClusterRows.ask, cluster.ClusterLabels.at

    def of_some(self, indices):
        assert len(indices) < len(y)
        return signs_at(self, indices)

    def ask_little(self, query, labels=None):
        assert not isinstance(query, MarginsAt), "the driver must not hold n numbers"
        return ask(self, query, labels)

    def refuse(self):
        raise AssertionError("the driver must not hold n numbers")

    monkeypatch.setattr(prgd.rows.ClusterRows, "ask", ask_little)
    monkeypatch.setattr(cluster.ClusterLabels, "at", of_some)
    for name in ("signs", "sample_weight"):
        monkeypatch.setattr(cluster.ClusterLabels, name, property(refuse))
    found = prgd.max_margin(rows, fit_intercept=fit_intercept, tol=1e-8)
    expected = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=1e-8)
    assert found.margin == pytest.approx(expected.margin, rel=1e-8)


# What may be opened


@pytest.mark.parametrize("on_disk", [False, True])
def test_files_by_pattern(tmp_path, on_disk):
    write_parts(tmp_path)
    memory = {"max_memory": 400} if on_disk else {}
    loaded = []
    options = {"client": grid.local_client(), "progress": lambda *counts: loaded.append(counts)} | memory
    rows = open_cluster(f"{tmp_path}/part-*.parquet", label="kind", **options)
    same_as_dense(rows)
    assert loaded == [(1, 3), (2, 3), (3, 3)]
    assert rows.names == [f"{tmp_path}/part-{k}.parquet" for k in range(3)]
    assert repr(rows) == "ClusterRows(90 x 4, 3 partitions)"
    labels = [tmp_path / f"y-{k}.npy" for k in range(3)]
    same_as_dense(open_cluster(f"{tmp_path}/x-*.npy", labels, client=grid.local_client(), **memory))
    z = open_cluster([f"{tmp_path}/z-*.npy"], client=grid.local_client(), **memory)
    assert z.labels.classes is None
    np.testing.assert_allclose(z.ask(MarginsAt(W)), y * (X @ W), rtol=1e-12)


def test_text_files_agree_on_where_columns_start(tmp_path):
    # no line of the first file has an index 0: alone it would be read as counted from 1
    write_parts(tmp_path)
    rows = open_cluster(f"{tmp_path}/t-*.svm", client=grid.local_client())
    assert rows.d == 4
    first = X[0] * [0, 1, 1, 1]
    np.testing.assert_allclose(rows.ask(MarginsAt(W))[0], y[0] * first @ W, rtol=1e-12)
    np.testing.assert_allclose(rows.ask(MarginsAt(W))[20:], (y * (X @ W))[20:], rtol=1e-12)
    (tmp_path / "t-3.svm").write_text("")
    assert open_cluster(f"{tmp_path}/t-*.svm", client=grid.local_client()).n == 90


def test_files_elsewhere_are_copied_to_the_worker(tmp_path):
    import fsspec

    write_parts(tmp_path)
    files = fsspec.filesystem("memory")
    for k in range(3):
        files.put_file(str(tmp_path / f"part-{k}.parquet"), f"/prgd/part-{k}.parquet")
    same_as_dense(open_cluster("memory://prgd/part-*.parquet", label="kind", client=grid.local_client()))
    with pytest.raises(ValueError, match="files on the disks of the workers"):
        open_cluster("memory://prgd/part-*.parquet", client=grid.local_client(), max_memory=100)


def test_dask_collections():
    array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    client = grid.local_client()
    cut = array.from_array(X, chunks=(30, 3))
    same_as_dense(open_cluster(cut, y, client=client))
    same_as_dense(open_cluster(cut, array.from_array(y, chunks=45), client=client))
    s = RNG.integers(0, 3, 90).astype(float)
    weighted = open_cluster(cut, y, s, client=client)
    np.testing.assert_array_equal(weighted.labels.sample_weight, s)
    assert weighted.labels.class_weights == (s[y > 0].sum(), s[y < 0].sum())
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=y)
    same_as_dense(open_cluster(frame.from_pandas(table, npartitions=3), label="kind", client=client))


# What is refused


def refused(data, kind, words, **options):
    with pytest.raises(kind, match=words):
        open_cluster(data, client=grid.local_client(), **options)


def test_partitions_that_do_not_fit_together_are_named(tmp_path):
    good = delayed((X, y))
    refused([good, delayed((X[:, :3], y))], ValueError, "partition 0 has 4, and partition 1 has 3")
    refused([good, delayed((X[:5], y))], ValueError, "partition 1: y must hold one label for each of the 5")
    refused([good, delayed(X)], ValueError, "all partitions come with labels or none; partition 1 has none")
    refused([good, delayed((X, np.where(y > 0, np.nan, 1)))], ValueError, "partition 1: y has a label")
    refused([good, delayed((X, y, -np.ones(90)))], ValueError, "partition 1: sample_weight must be finite")
    refused([good, delayed((X, y.astype(str)))], ValueError, "y mixes numbers and text")
    refused([delayed((X, y, np.zeros(90)))], ValueError, "sample_weight is zero everywhere")
    refused([delayed((X, np.ones(90)))], ValueError, "two classes; got 1")
    refused([delayed((X, np.arange(90)))], ValueError, "at most 50 classes; got 90. Is this the label column")
    refused([delayed((X[:0], y[:0]))], ValueError, "All partitions are without rows")
    refused([good, delayed((np.array([["a"]]), [1]))], TypeError, "partition 1: X must hold real numbers")
    refused([good, delayed("x")], TypeError, "partition 1: X must hold real numbers")
    refused([], ValueError, "at least one partition")
    refused(X, TypeError, "got ndarray. Use prgd.Problem")
    refused([good], ValueError, "Delayed blocks hold their labels", y=y)
    write_parts(tmp_path)
    # A label that only one partition has is a class like others.
    third = open_cluster([good, delayed((X[:5], np.full(5, 7)))], client=grid.local_client())
    assert third.labels.classes.tolist() == [-1, 1, 7]
    with pytest.raises(ValueError, match=r"two classes; got 3\. Use multi_class='joint'"):
        prgd.max_margin(third)
    refused(f"{tmp_path}/*.txt", FileNotFoundError, "No file matches")
    refused(f"{tmp_path}/none.npy", FileNotFoundError, r"No file '.*none\.npy'")
    words = "one label file for each of the 3 files; got 1"
    refused(f"{tmp_path}/x-*.npy", ValueError, words, y=f"{tmp_path}/y-0.npy")


def test_an_entry_that_is_not_finite_is_named_with_its_partition():
    bad = X[CUTS[1]].copy()
    bad[4, 2] = np.inf
    rows = open_cluster([delayed((X, y)), delayed((bad, y[CUTS[1]]))], client=grid.local_client())
    with pytest.raises(ValueError, match="row 94, column 2") as caught:
        prgd.Problem(rows)
    assert caught.value.__notes__ == ["It is row 4 of partition partition 1."]


def test_no_scheduler_and_no_worker():
    from distributed import Client

    with pytest.raises(ConnectionError, match=r"No Dask scheduler answered at tcp://127\.0\.0\.1:1 within 0"):
        open_cluster([delayed((X, y))], client="tcp://127.0.0.1:1", connect_timeout=0.3)
    with (
        Client(processes=False, n_workers=0, dashboard_address=":0", set_as_default=False) as client,
        pytest.raises(ConnectionError, match=r"has no worker after 0\.2 s\. Start some with 'dask worker"),
    ):
        open_cluster([delayed((X, y))], client=client, worker_timeout=0.2)


def test_rows_that_are_closed_say_so():
    rows = open_cluster([delayed((X, y))], client=grid.local_client())
    rows.close()
    with pytest.raises(ValueError, match="These rows are closed"):
        rows.ask(MarginsAt(W))


@pytest.mark.slow
def test_a_file_that_vanishes_between_passes(tmp_path):
    write_parts(tmp_path)
    away, kept = tmp_path / "z-1.npy", tmp_path / "away.npy"
    whole = prgd.run(opened_z(tmp_path, max_memory=320), prgd.NGD(), stop=20)

    def leave(state, now, _):
        if now.t == 7:
            away.rename(kept)

    with pytest.raises(prgd.RowsLostError, match=r"z-1\.npy: was there when the rows were opened") as caught:
        prgd.run(opened_z(tmp_path, max_memory=320), prgd.NGD(), stop=20, observe=leave)
    caught.value.result.save(tmp_path / "state.npz")
    kept.rename(away)
    state = prgd.Result.load(tmp_path / "state.npz")
    assert state.t == 7
    rest = prgd.run(opened_z(tmp_path, max_memory=320), prgd.NGD(), stop=20, resume=state)
    assert rest.w.tobytes() == whole.w.tobytes()


# What survives


@pytest.fixture(scope="module")
def workers():
    """Three worker processes, each with a nanny that starts it again."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as three,
        Client(three, set_as_default=False) as client,
    ):
        yield client


def pids(client) -> list[int]:
    return sorted(client.run(os.getpid).values())


@pytest.mark.slow
def test_a_worker_killed_every_few_passes_changes_no_bit(workers, tmp_path):
    write_parts(tmp_path)
    for k in range(8):
        np.save(tmp_path / f"k-{k}.npy", np.repeat(X * y[:, None], 40, axis=0) + 0.01 * k)

    def fit(killing: bool):
        kills = 0
        rows = open_cluster(f"{tmp_path}/k-*.npy", client=workers)

        def kill(state, now, _):
            nonlocal kills
            if killing and now.t % 6 == 3:
                victim = pids(workers)[0]
                # once before the tasks are sent, once while they are on their way or at work
                threading.Timer(0.0 if now.t % 4 == 3 else 0.012, os.kill, (victim, signal.SIGKILL)).start()
                kills += 1

        problem = prgd.Problem(rows)
        return prgd.run(problem, prgd.NGD(), stop=13, observe=kill), kills

    (calm, none), (shaken, kills) = fit(False), fit(True)
    assert (none, kills) == (0, 2)
    assert shaken.w.tobytes() == calm.w.tobytes()
    np.testing.assert_array_equal(shaken.history.rows, calm.history.rows)
    a, b = shaken.certificate, calm.certificate
    assert (a.lower, a.upper) == (b.lower, b.upper)
    assert a.w.tobytes() == b.w.tobytes()
    assert a.w_upper.tobytes() == b.w_upper.tobytes()


@pytest.mark.slow
def test_a_file_that_vanished_before_its_worker_died(workers, tmp_path):
    write_parts(tmp_path)
    rows = open_cluster(f"{tmp_path}/z-*.npy", client=workers)
    rows.ask(MarginsAt(W))
    (tmp_path / "z-2.npy").unlink()
    rows.ask(MarginsAt(W))  # the workers have it in memory
    for pid in pids(workers):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(prgd.RowsLostError, match=r"No file '.*z-2\.npy' on this worker") as caught:
        rows.ask(MarginsAt(W + 1.0))
    np.testing.assert_array_equal(caught.value.w, W)


@pytest.mark.slow
def test_a_fit_that_lost_its_rows_goes_on_by_command(workers, monkeypatch):
    write_parts(Path.cwd())
    command = ["fit", "z-*.npy", "--cluster", workers.scheduler.address, "--no-intercept", "--out", "m.npz"]

    def gone(rows, indices):
        error = prgd.RowsLostError("The rows are gone.")
        error.w = rows._w
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(prgd.rows.ClusterRows, "take", gone)
        said = call(*command, code=2).stderr
    assert "The rows are gone. So far " in said
    assert said.endswith("; go on with --start m.start.npy.\n")
    assert table(call(*command, "--start", "m.start.npy").stdout)["status"] == prgd.Status.CERTIFIED.value


@pytest.mark.slow
def test_fit_on_a_cluster_by_command(workers):
    write_parts(Path.cwd())
    given = ["--label", "kind", "--cluster", workers.scheduler.address, "--out-of-core", "--max-memory", "1K"]
    found = call("fit", "part-*.parquet", *given, "--out", "m.npz")
    assert table(found.stdout)["data"] == "part-*.parquet, 90 x 4, on a cluster"
    assert found.stderr.startswith("dashboard: http://")
    # each is certified for itself; small entries agree as parts of the whole
    expected = prgd.max_margin(X, y).coef
    accuracy = 1e-5 * np.linalg.norm(expected)
    np.testing.assert_allclose(prgd.Result.load("m.npz").coef, expected, rtol=0, atol=accuracy)
    again = table(call("fit", "part-0.parquet", "--label", "kind", "--start", "m.npz").stdout)
    assert again["status"] == prgd.Status.CERTIFIED.value


@pytest.mark.slow
def test_several_classes_on_a_cluster_by_command(workers):
    rng = np.random.default_rng(5)
    codes = np.arange(40) % 3
    rows = rng.normal(size=(40, 4)) + 6.0 * np.eye(4)[codes]
    for name, labels in (("apart", codes), ("mixed", rng.permutation(codes))):
        for part, at in enumerate((slice(25), slice(25, None))):
            write_svm(f"{name}-{part}.svm", rows[at], labels[at])
    where = ["--cluster", workers.scheduler.address]
    found = table(call("fit", "apart-*.svm", *where, "--multi-class", "joint").stdout)
    assert found["classes"] == "0, 1, 2; jointly"
    expected = prgd.max_margin(rows, codes, multi_class="joint")
    assert float(found["margin, lower bound"]) == pytest.approx(expected.margin, rel=1e-6)
    said = call("fit", "apart-*.svm", *where, code=2).stderr
    assert "--cluster separates two classes, or more of them jointly; apart-*.svm has 3." in said
    # Labels of one class against the rest would be needed for soft margins.
    said = call("fit", "mixed-*.svm", *where, "--multi-class", "joint", code=3)
    assert "separable: no, proven" in said.stdout
    assert "the soft margins of several classes are not fitted with --cluster" in said.stderr


@pytest.mark.slow
def test_the_dashboard_of_an_own_cluster_listens_on_this_machine_only():
    psutil = pytest.importorskip("psutil")
    with open_cluster([delayed((X, y))]) as rows:
        shown, port = re.fullmatch(r"http://(.*):(\d+)/status", rows.dashboard).groups()
        sockets = psutil.Process().net_connections("inet")
        heard = [socket.laddr.ip for socket in sockets if socket.laddr.port == int(port) and not socket.raddr]
    assert heard == [shown] == ["127.0.0.1"]


@pytest.mark.slow
def test_rows_that_end_every_worker_are_given_up():
    from distributed import Client, LocalCluster

    def deadly():
        os.kill(os.getpid(), signal.SIGKILL)

    # Nannies may give up workers that end at once, so that other tests must not depend on this one.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as one,
        Client(one, set_as_default=False) as client,
        pytest.raises(prgd.RowsLostError, match="KilledWorker"),
    ):
        open_cluster([delayed(deadly)()], client=client)


@pytest.mark.slow
def test_all_workers_lost_while_they_load(tmp_path, monkeypatch):
    from distributed import Client

    done = tmp_path / "done"

    def wait_for_file():
        while not done.exists():
            time.sleep(0.02)

    monkeypatch.setattr(cluster, "_POLL_S", 0.1)
    with Client(processes=False, n_workers=1, dashboard_address=":0", set_as_default=False) as client:

        def leave():
            client.cluster.scale(0)
            client.cluster.sync(client.cluster._correct_state)

        timer = threading.Timer(0.5, leave)
        timer.start()
        with pytest.raises(prgd.RowsLostError, match=r"All workers .* none came back within 0\.5 s"):
            open_cluster([delayed(wait_for_file)()], client=client, worker_timeout=0.5)
        done.touch()
        timer.join()


@pytest.mark.slow
def test_all_workers_lost_keeps_the_state(workers, tmp_path, monkeypatch):
    """Last in this file: the workers end here."""
    workers.wait_for_workers(3, timeout=60)  # Earlier tests killed some, and nannies start them again.
    monkeypatch.setattr(cluster, "_POLL_S", 0.1)
    write_parts(tmp_path)
    options = {"client": workers, "worker_timeout": 0.5}
    whole = prgd.run(opened_z(tmp_path, **options), prgd.NGD(), stop=12)

    def leave(state, now, _):
        if now.t == 5:
            workers.cluster.scale(0)
            workers.cluster.sync(workers.cluster._correct_state)

    words = r"All workers .* were lost, and none came back within 0\.5 s"
    with pytest.raises(prgd.RowsLostError, match=words) as caught:
        prgd.run(opened_z(tmp_path, **options), prgd.NGD(), stop=12, observe=leave)
    assert caught.value.result.status is prgd.Status.INTERRUPTED
    np.testing.assert_array_equal(caught.value.w, caught.value.result.w)
    rest = prgd.run(opened_z(tmp_path), prgd.NGD(), stop=12, resume=caught.value.result)
    assert rest.w.tobytes() == whole.w.tobytes()
