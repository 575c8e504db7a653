"""The command line for tests: in this process, in one of its own, or behind a pseudo-terminal."""

import csv
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from prgd.cli.app import app

# SIGINT stays ignored in the children of a shell's background job: make it heard in any case
START = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('prgd', run_name='__main__')"
)
BOX = re.compile(r"[\x1b\u2500-\u257f]")
COLOURS = ["blue", "green", "red"]
posix = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are a POSIX thing")

try:
    RUNNER = CliRunner(mix_stderr=False)  # what click before 8.2 needs to tell the two apart
except TypeError:
    RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRGD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def quick_figures(monkeypatch):
    """Write the length of the history in the place of its figure, which takes longer than a short run."""
    write = "prgd.plots.save_gap_png"
    monkeypatch.setattr(write, lambda history, path, _: Path(path).write_text(str(len(history))))


def call(*args: object, code: int = 0, input: bytes | None = None, **env: str):
    """Run a command in this process, with standard input and variables of the environment."""
    options = {"input": input, "env": env, "prog_name": "prgd", "catch_exceptions": False}
    found = RUNNER.invoke(app, [str(arg) for arg in args], **options)
    assert found.exit_code == code, found.output
    return found


def refused(*args: object) -> str:
    """Return the one line on standard error with which a command refuses its arguments."""
    found = call(*args, code=2).stderr
    assert found.count("\n") == 1, found
    return found


def start(*args: object, **options: object) -> subprocess.Popen:
    forced = ("GITHUB_ACTIONS", "PY_COLORS", "FORCE_COLOR", "NO_COLOR", "TERMINAL_WIDTH", "COLUMNS")
    env = {name: value for name, value in os.environ.items() if name not in forced}
    env |= {"TERM": "xterm"} | options.pop("env", {})
    return subprocess.Popen([sys.executable, "-c", START, *map(str, args)], env=env, **options)


def pipe(*args: object, code: int = 0, **env: str) -> tuple[str, str]:
    with start(*args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    return out, err


def words_of(help: str) -> str:
    """Return what a help says without its frames and lines."""
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", help).split())


def table(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def facts(*args: object, code: int = 0) -> dict:
    """Return what ``--json -`` writes, which is all of standard output."""
    return json.loads(call(*args, "--json", "-", code=code).stdout)


class Terminal:
    """A pseudo-terminal of 100 columns with a process behind it."""

    def __init__(self, *args: object) -> None:
        import fcntl
        import pty
        import termios

        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = start(*args, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self.seen = ""

    def read(self, until: str | None, seconds: float = 60.0) -> None:
        """Read until a pattern appears, or until the process closes its side."""
        deadline = time.monotonic() + seconds
        while until is None or not re.search(until, self.seen):
            left = deadline - time.monotonic()
            if not select.select([self.master], [], [], max(left, 0.0))[0]:
                raise TimeoutError(self.seen)
            try:
                chunk = os.read(self.master, 65536)
            except OSError:  # Linux reports the end of a pseudo-terminal so
                break
            if not chunk:
                break
            self.seen += chunk.decode(errors="replace")

    def interrupt_after(self, pattern: str) -> None:
        """Send SIGINT once a pattern appears, and expect that the process ends as interrupted."""
        try:
            self.read(pattern)
            self.process.send_signal(signal.SIGINT)
            assert self.end() == 130
        finally:
            self.process.kill()
            self.process.wait()

    def end(self) -> int:
        self.read(None)
        code = self.process.wait(timeout=30)
        os.close(self.master)
        return code


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def interrupt_at(monkeypatch, algorithm: type, t: int) -> None:
    step = algorithm.step

    def interrupted(self, problem, state):
        if state.t == t:
            raise KeyboardInterrupt
        return step(self, problem, state)

    monkeypatch.setattr(algorithm, "step", interrupted)


def write_three(file: str = "three.csv", classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Write 45 rows of three classes that separate, or those of the first classes."""
    rng = np.random.default_rng(0)
    codes = np.arange(45) % 3
    X = rng.normal(size=(45, 3)) + 6.0 * np.eye(3)[codes]
    kept = codes < classes
    X, y = X[kept], np.array(COLOURS)[codes[kept]]
    write_csv(file, ["a", "b", "c", "class"], X, y)
    return X, y


def write_csv(file: str, columns: list[str], X: np.ndarray, y: np.ndarray) -> None:
    """Write rows with their labels in the last column."""
    with Path(file).open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(columns)
        writer.writerows([*x, k] for x, k in zip(X.tolist(), y.tolist(), strict=True))


def write_svm(file: str, X: np.ndarray, codes: np.ndarray) -> None:
    """Write rows with the numbers of their classes as LIBSVM text."""
    rows = [" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(x)) for x in X.tolist()]
    Path(file).write_text("".join(f"{k} {row}\n" for k, row in zip(codes, rows, strict=True)))


def interrupt_after(monkeypatch, calls: int) -> None:
    """Let Ctrl-C come when the solver has solved its set so many times."""
    from prgd.maxmargin import hard

    propose, left = hard.HardMargin.propose, [calls]

    def interrupted(*args):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return propose(*args)

    monkeypatch.setattr(hard.HardMargin, "propose", interrupted)
