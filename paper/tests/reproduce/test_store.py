"""Rows on disk: whole or not at all, checked by checksum, the same for any number of processes."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("compute", "words"), [(fails, "ZeroDivisionError: by zero"), (dies, "A process died")]
)
def test_a_task_that_fails_is_named(tmp_path, compute, words):
    e = replace(tiny()["table-2"], compute=compute)
    store = Store(tmp_path, e, e.settings)
    with pytest.raises(TaskError, match=words) as error:
        run_jobs(jobs_of(store, ["seed-0"]), 1)
    assert "table-2 (seed-0)" in str(error.value)


def test_bars_are_drawn_when_asked_for(capsys):
    run_jobs([Call("one", "task", abs, (-1,), lambda _: None)], 1, show=True)
    assert "one" in capsys.readouterr().err


# The whole command


def quick(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "prgd", "reproduce", "--quick", "--out", str(out), *more]


def rows_folder(out: Path) -> Path:
    return next((out / "rows").glob("table-2-*"))


def wait_for(condition, seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def processes_of(parent: int) -> list[int]:
    task = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(pid) for pid in task.read_text().split()] if task.exists() else []


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_a_killed_run_continues_and_ends_with_the_same_rows(tmp_path):
    # The rest of the tasks takes seconds: long enough that the kill comes before their end.
    fewer = ("gd_limit=2000", "ngd_limit=5000", "limit=2000")
    limits = [part for limit in fewer for part in ("--set", f"table-2.{limit}")]
    options = ("--only", "table-2", "--seeds", "5", *limits, "--jobs", "1")
    command = quick(tmp_path / "killed", *options)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: len(list((tmp_path / "killed" / "rows").glob("table-2-*/seed-*.csv"))) >= 2)
        workers = processes_of(process.pid)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: not any(is_alive(pid) for pid in workers))  # nobody is left working for a dead parent
    assert not (tmp_path / "killed" / "index.html").exists()
    before = {p.name: p.stat().st_mtime_ns for p in rows_folder(tmp_path / "killed").glob("*.csv")}
    assert 2 <= len(before) < 5
    subprocess.run(command, check=True, timeout=300)
    after = {p.name: p.stat().st_mtime_ns for p in rows_folder(tmp_path / "killed").glob("*.csv")}
    kept = json.loads((rows_folder(tmp_path / "killed") / "manifest.json").read_text())["tasks"]
    assert len(kept) == 5
    # the last file may have been killed between itself and its checksum: at most one is computed again
    assert sum(after[name] != time_ for name, time_ in before.items()) <= 1
    subprocess.run(quick(tmp_path / "whole", *options[:-1], "2"), check=True, timeout=300)
    assert _contents(rows_folder(tmp_path / "killed")) == _contents(rows_folder(tmp_path / "whole"))
