"""Nothing is lost: earlier files are kept, a killed command goes on, and a full disk is one sentence."""

import errno
import io
import os
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from command_line import call as invoke
from shared import python

import prgd
from prgd.core.files import atomic_write

NGD = ["--algorithm", "ngd", "--quiet"]
WARM = ["--warmup", "gd:50", "--quiet"]
pytestmark = pytest.mark.usefixtures("quick_figures")
posix = pytest.mark.skipif(os.name != "posix", reason="limits on the size of files are a POSIX thing")


def call(*args: object, code: int = 0) -> str:
    return invoke(*args, code=code).output


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


# prgd run


def test_run_keeps_the_files_of_an_earlier_run():
    call("run", "toy:0.3", *NGD, "--steps", 5, "--out", "out")
    before = contents("out")
    said = call("run", "toy:0.2", *NGD, "--steps", 5, "--out", "out", code=2)
    assert "out has the files of an earlier run (result.npz, history.csv, gap.png)" in said
    assert "--resume out to go on from them, or --force to replace them" in said
    assert contents("out") == before
    call("run", "toy:0.2", *NGD, "--steps", 5, "--out", "out", "--force")
    assert contents("out")["result.npz"] != before["result.npz"]


@pytest.mark.no_cover  # The other tests of resumed runs run the same lines.
@pytest.mark.parametrize(("killed_in", "calls"), [("warm-up", 20), ("warm-up", 51), ("run", 60), ("run", 88)])
def test_a_folder_is_resumed_wherever_the_run_stopped(monkeypatch, killed_in, calls):
    call("run", "toy:0.3", *WARM, "--steps", 40, "--out", "whole")
    monkeypatch.setattr("prgd.core.files.SaveTimer.is_due", lambda timer: True)
    at, count = prgd.Problem.at, 0

    def die(problem, w, v=None):
        nonlocal count
        count += 1
        if count > calls:
            raise SystemExit(99)
        return at(problem, w, v)

    with monkeypatch.context() as patched:
        patched.setattr("prgd.running.loop.can_walk", lambda problem, algorithm: False)  # one call a step
        patched.setattr(prgd.Problem, "at", die)
        call("run", "toy:0.3", *WARM, "--steps", 40, "--out", "parts", code=99)
    assert Path("parts/result.npz").exists() == (killed_in == "run")
    if killed_in == "warm-up":
        assert "give the same --warm-up too" in call("run", "toy:0.3", "--resume", "parts", code=2)
    said = call("run", "toy:0.3", "--warmup", "ngd:50", "--resume", "parts", code=2)
    assert "not of the warm-up NGD" in said
    call("run", "toy:0.3", *WARM, "--steps", 40, "--resume", "parts", "--out", "parts")
    assert contents("parts") == contents("whole")
    call("run", "toy:0.3", *WARM, "--steps", 40, "--resume", "parts", "--out", "parts")
    assert contents("parts") == contents("whole")
    said = call("run", "toy:0.3", *WARM, "--steps", 30, "--resume", "parts", code=2)
    assert "has taken 40 steps already" in said


def test_resume_of_a_folder_without_a_run_is_refused():
    Path("empty").mkdir()
    assert "nothing was saved yet" in call("run", "toy:0.3", *NGD, "--resume", "empty", code=2)
    call("run", "toy:0.3", *NGD, "--steps", 5, "--out", "plain")
    said = call("run", "toy:0.3", *NGD, "--warmup", "gd:5", "--resume", "plain", code=2)
    assert "holds a run without a warm-up" in said


# prgd fit


def test_fit_keeps_an_earlier_model():
    call("fit", "toy:0.3", "--quiet", "--out", "model.npz")
    before = Path("model.npz").read_bytes()
    said = call("fit", "toy:0.2", "--quiet", "--out", "model.npz", code=2)
    assert "model.npz exists. Give another --out, or --force to replace it" in said
    assert Path("model.npz").read_bytes() == before
    call("fit", "toy:0.2", "--quiet", "--out", "model.npz", "--force")
    assert Path("model.npz").read_bytes() != before


# full disks


class FullFile(io.FileIO):
    """A file on a full disk."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def full_disk(monkeypatch):
    """Return a function after whose call nothing more fits on the disk."""
    opened = Path.open

    def on_full_disk(path, mode="r", *args, **options):
        if "x" not in mode:
            return opened(path, mode, *args, **options)
        buffer = io.BufferedWriter(FullFile(path, "w"))
        return buffer if "b" in mode else io.TextIOWrapper(buffer, **options)

    return lambda: monkeypatch.setattr(Path, "open", on_full_disk)


LONG = {
    "run": (["run", "toy:0.3", *NGD, "--steps", "900", "--out", "out"], "out/result.npz"),
    "fit": (["fit", "toy:0.3", "--quiet", "--out", "model.npz"], "model.npz"),
    "predict": (["predict", "model.npz", "toy:0.3", "--out", "found.csv"], "found.csv"),
    "train": (["train", "--epochs", "1", "--device", "cpu", "--quiet", "--out", "out"], "out/checkpoint.pt"),
}


@pytest.mark.parametrize("name", ["run", "fit", "predict"])
def test_a_full_disk_is_one_sentence_with_the_path(full_disk, name):
    call("fit", "toy:0.3", "--quiet", "--out", "other.npz")
    if name == "predict":
        Path("other.npz").rename("model.npz")
    command, file = LONG[name]
    if name == "fit":
        call(*command)
        command = [*command, "--force"]
    before = Path(file).read_bytes() if name == "fit" else None
    full_disk()
    said = call(*command, code=2)
    assert before is None or Path(file).read_bytes() == before
    assert said.startswith(f"Error: Cannot write {str(Path(file))!r}: No space left on device.")
    assert said.count("\n") == 1
    assert not list(Path.cwd().rglob("*.tmp"))


@posix
@pytest.mark.slow
@pytest.mark.parametrize(("name", "limit"), [("run", 30_000), ("fit", 2_000), ("train", 20_000)])
def test_a_limit_on_files_keeps_the_last_good_state(name, limit):
    """The limit lets the first saves of ``run`` through, whose files grow, and no file of the others."""
    if name == "train":
        pytest.importorskip("torch")

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command, file = LONG[name]
    if name == "run":
        command = [*command, "--save-every", "0.001"]
    ended = python("-B", "-m", "prgd", *command, code=2, preexec_fn=limited)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"Error: Cannot write {str(Path(file))!r}: File too large.")
    assert "Traceback" not in ended.stderr
    if name == "run":
        saved = prgd.Result.load(file)
        assert saved.status is prgd.Status.INTERRUPTED
        call(*command, "--resume", "out")
        call(*[part if part != "out" else "whole" for part in command])
        assert prgd.Result.load(file).w.tobytes() == prgd.Result.load("whole/result.npz").w.tobytes()
    else:
        assert not Path(file).exists()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the trials fork")
@pytest.mark.parametrize(("times", "names"), [(3, ["run", "fit"]), (1, ["reproduce", "train"])])
def test_killed_commands_go_on_to_the_same_bits(times, names):
    """A few random moments; ``kills.py`` has many."""
    ended = python(Path(__file__).with_name("kills.py"), times, *names)
    for name, line in zip(names, ended.stdout.splitlines(), strict=True):
        assert line.startswith(f"{name}: {times} of {times} trials gave the same bits")


def test_standard_output_on_a_full_disk_is_one_sentence():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = ["-m", "prgd", "separability", "toy:0.3", "--json", "-"]
    with Path("/dev/full").open("w") as full:
        ended = python(*command, code=2, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    said = "Error: Cannot write standard output: No space left on device. Make room, and run again.\n"
    assert ended.stderr == said


# atomic_write


def test_atomic_write_keeps_permissions_and_removes_leftovers(tmp_path):
    file = tmp_path / "[odd] name.txt"
    file.write_text("old")
    file.chmod(0o640)
    leftover, young = (tmp_path / f".{file.name}.{number}.tmp" for number in range(2))
    for path in (leftover, young):
        path.write_text("half")
    os.utime(leftover, (0, 0))
    with atomic_write(file, "w") as stream:
        stream.write("new")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.exists() for path in (leftover, young)] == [False, True]


SAVERS = """
import time, prgd
from concurrent.futures import ThreadPoolExecutor
from prgd.estimators.model import Model
X, y = [[0.0], [1.0], [3.0]], [-1, -1, 1]
result, batch = prgd.max_margin(X, y), prgd.max_margin_batch(X, [[-1], [-1], [1]])
end = time.monotonic() + 1.5
def save_and_load(_):
    while time.monotonic() < end:
        for value in (result, batch, Model(result.classes, (result,))):
            value.save(type(value).__name__)
            type(value).load(type(value).__name__)
        prgd.run(prgd.Problem(X, y), prgd.NGD(), stop=1, save="run")
with ThreadPoolExecutor(3) as threads:
    list(threads.map(save_and_load, range(3)))
"""


def test_threads_and_processes_save_to_one_path_whole_or_not_at_all():
    with ThreadPoolExecutor(2) as processes:
        list(processes.map(lambda _: python("-c", SAVERS), range(2)))
    assert sorted(path.name for path in Path().iterdir()) == ["BatchResult", "Model", "Result", "run"]


def test_an_error_about_another_file_keeps_its_words(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.csv"), atomic_write(tmp_path / "out.txt"):
        Path("missing.csv").read_bytes()
    with pytest.raises(prgd.RowsLostError, match=r"^gone$"), atomic_write(tmp_path / "out.txt"):
        raise prgd.RowsLostError("gone")
    assert np.array_equal([*tmp_path.glob("*.tmp")], [])
