"""Rows on disk: whole or not at all, checked by checksum, the same for any number of processes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from prgd_paper.reproduce.pool import ONE_THREAD, Call, TaskError, jobs_of, run_jobs
from prgd_paper.reproduce.store import Store, to_csv, write_whole
from reproduce.tiny import tiny

ROWS = [{"method": "NGD", "t": 1, "margin": 0.1 + 0.2}, {"method": "GD", "t": 2, "margin": float("inf")}]


def filled(out: Path) -> Store:
    e = tiny()["table-2"]
    store = Store(out, e, e.settings)
    for task in store.tasks:
        store.write(task, ([row | {"task": task} for row in ROWS], 0.1))
    return store


def test_rows_read_back_exactly(tmp_path):
    rows = filled(tmp_path).rows()
    assert rows.margin[0] == 0.1 + 0.2
    assert rows.margin[1] == float("inf")
    assert list(rows.task) == ["seed-0", "seed-0", "seed-1", "seed-1"]


def test_a_task_without_rows_is_refused():
    with pytest.raises(ValueError, match="at least one row"):
        to_csv([])


@pytest.mark.parametrize(
    ("changes", "force", "missing"),
    [
        ({}, False, []),
        ({}, True, ["seed-0", "seed-1"]),
        ({"seeds": 3}, False, ["seed-2"]),  # more seeds reuse the rows of fewer
        ({"limit": 301}, False, ["seed-0", "seed-1"]),  # other settings have other rows
    ],
)
def test_rows_that_are_missing_after_writing(tmp_path, changes, force, missing):
    e = filled(tmp_path).experiment
    assert Store(tmp_path, e, replace(e.settings, **changes)).missing(force=force) == missing


def test_a_corrupt_file_is_found_and_said(tmp_path, capsys):
    store = filled(tmp_path)
    file = store.file("seed-1")
    file.write_bytes(file.read_bytes().replace(b"0.3", b"0.4"))
    assert store.missing() == ["seed-1"]
    assert "seed-1.csv does not match its checksum" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", '{"format": "other", "tasks": {}}', "[]"])
def test_a_corrupt_manifest_is_found_and_said(tmp_path, content, capsys):
    store = filled(tmp_path)
    store.manifest_file.write_text(content)
    assert store.missing() == ["seed-0", "seed-1"]
    assert "is damaged" in capsys.readouterr().err


def test_a_file_that_was_never_finished_is_silently_missing(tmp_path, capsys):
    store = filled(tmp_path)
    store.file("seed-0").unlink()
    (store.folder / ".seed-0.csv.1.tmp").write_text("method,t\nNG")
    assert store.missing() == ["seed-0"]
    assert capsys.readouterr().err == ""


def test_record_has_what_another_person_needs(tmp_path):
    table, record = filled(tmp_path).publish()
    found = json.loads(record.read_text())
    assert table.read_bytes().count(b"\n") == 5
    assert found["settings"]["seeds"] == 2
    assert {"prgd", "python", "numpy", "numba"} <= set(found["versions"])
    assert found["machine"]["cores"] >= 1
    assert set(found["tasks"]["seed-0"]) == {"sha256", "rows", "seconds", "commit"}


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_whole(tmp_path / "taken", b"rows")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


# Processes


def fails(settings, task):
    raise ZeroDivisionError("by zero.")


def dies(settings, task):
    os._exit(3)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv"))}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_do_not_depend_on_the_number_of_processes(tmp_path, jobs, one_process):
    found = Store(tmp_path, tiny()["table-2"], tiny()["table-2"].settings)
    run_jobs(jobs_of(found, found.tasks), jobs)
    assert _contents(found.folder) == one_process


@pytest.fixture(scope="module")
def one_process():
    e = tiny()["table-2"]
    return {f"{task}.csv": to_csv(e.compute(e.settings, task)) for task in e.tasks(e.settings)}


def test_threads_are_pinned_in_workers_only():
    seen: list[str] = []
    before = dict(os.environ)
    run_jobs([Call("x", name, os.getenv, (name,), seen.append) for name in ONE_THREAD], 1)
    assert seen == ["1"] * len(ONE_THREAD)
    assert dict(os.environ) == before


@pytest.mark.parametrize(("compute", "words"), [(fails, "ZeroDivisionError: by zero"), (dies, "A process")])
def test_a_task_that_fails_is_named(tmp_path, compute, words):
    e = replace(tiny()["table-2"], compute=compute)
    store = Store(tmp_path, e, e.settings)
    with pytest.raises(TaskError, match=words) as error:
        run_jobs(jobs_of(store, ["seed-0"]), 1)
    assert "table-2 (seed-0)" in str(error.value)


def test_bars_are_drawn_when_asked_for(capsys):
    run_jobs([Call("one", "task", abs, (-1,), lambda _: None)], 1, show=True)
    assert "one" in capsys.readouterr().err


def wait_for(condition, seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_workers_end_with_a_parent_that_is_killed():
    code = "import time; from prgd_paper.reproduce.pool import Call, run_jobs; "
    code += "run_jobs([Call('owner', 'task', time.sleep, (600,), print)], 1)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(lambda: len(children.read_text().split()) >= 2)  # a worker, and multiprocessing's tracker
        workers = children.read_text().split()
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(map(is_alive, workers)))
