"""The command line: what it prints, writes and refuses, on a terminal, through a pipe, after Ctrl-C."""

from __future__ import annotations

import csv
import importlib
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import prgd
from prgd.cli.app import app
from prgd.plots import gap_figure
from prgd.running.history import History

# SIGINT stays ignored in the children of a shell's background job: make it heard in any case
START = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('prgd', run_name='__main__')"
)
BOX = re.compile(r"[\x1b\u2500-\u257f]")
NGD = ["--algorithm", "ngd"]
WARM = ["--warm-up", "gd:50"]

try:
    RUNNER = CliRunner(mix_stderr=False)  # what click before 8.2 needs to tell the two apart
except TypeError:
    RUNNER = CliRunner()

posix = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are a POSIX thing")


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRGD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def call(*args: object, code: int = 0):
    found = RUNNER.invoke(app, [str(arg) for arg in args], prog_name="prgd", catch_exceptions=False)
    assert found.exit_code == code, found.output
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


def table(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def assert_same_run(a: Path, b: Path) -> None:
    one, two = prgd.Result.load(a / "result.npz"), prgd.Result.load(b / "result.npz")
    assert one.w.tobytes() == two.w.tobytes()
    assert (one.t, one.certificate.lower, one.certificate.upper) == (
        two.t,
        two.certificate.lower,
        two.certificate.upper,
    )
    assert (a / "history.csv").read_bytes() == (b / "history.csv").read_bytes()


# What it prints and writes


def test_run_prints_plain_lines_and_writes_nothing_by_default():
    found = call("run", "toy:0.3", "--radius", "geometric:1.2", "--every", 5, *WARM, "--steps", 40)
    assert found.stderr == ""
    rows = table(found.stdout)
    assert rows["data"] == "toy, 3 x 2, dense"
    assert rows["algorithm"] == "PRGD(R=Geometric(c=1.2), T=Every(steps=5), eta=1.0)"
    assert rows["status"] == prgd.Status.MAX_STEPS.value
    assert rows["warm-up"] == "GD(eta=1.0), 50 steps"
    assert rows["steps"] == "40"
    # one a step, one at w = 0 and perhaps one at the start of the second run
    assert rows["passes over the data"] in ("91", "92")
    lower, upper = float(rows["margin, lower bound"]), float(rows["margin, upper bound"])
    assert 0.0 < lower <= 0.3 <= upper
    # the printed bounds are rounded
    assert float(rows["relative gap"]) == pytest.approx((upper - lower) / upper, abs=1e-2)
    assert rows["time"].endswith(" s")
    assert not list(Path.cwd().iterdir())


def test_out_holds_histories_result_and_figure():
    out = Path("new/folder")
    rows = table(call("run", "toy:0.3", *WARM, "--steps", 40, "--record", 10, "--out", out).stdout)
    assert sorted(rows["files"].split(", ")) == sorted(str(path) for path in out.iterdir())
    with (out / "history.csv").open(newline="") as file:
        assert [row["t"] for row in csv.DictReader(file)] == ["0", "10", "20", "30", "40"]
    assert len((out / "warmup.csv").read_text().splitlines()) == 7
    assert (out / "gap.png").read_bytes().startswith(b"\x89PNG")
    problem = prgd.Problem(*prgd.datasets.toy(0.3), fit_intercept=True)
    warm = prgd.run(problem, prgd.GD(), stop=50)
    expected = prgd.run(problem, prgd.PRGD(), warm.w, stop=40)
    assert prgd.Result.load(out / "result.npz").w.tobytes() == expected.w.tobytes()


def test_missing_matplotlib_is_said_and_forgiven(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = call("run", "toy:0.3", *NGD, "--steps", 5, "--out", "out")
    assert found.stderr.startswith(
        "Warning: gap.png is missing. A figure needs matplotlib: pip install '.[report]' in a checkout"
    )
    assert found.stderr.count("\n") == 1
    assert sorted(path.name for path in Path("out").iterdir()) == ["history.csv", "result.npz"]


def test_quiet_prints_nothing():
    found = call("run", "toy:0.3", *NGD, "--steps", 5, "--out", "out", "--quiet")
    assert found.output == ""
    assert Path("out/result.npz").is_file()


def test_gap_stops_when_certified():
    rows = table(call("run", "toy:0.3", *NGD, "--gap", 0.01, "--steps", 5000).stdout)
    assert rows["status"] == prgd.Status.CERTIFIED.value
    assert float(rows["relative gap"]) <= 0.01
    assert int(rows["steps"]) < 5000


def test_no_separator_is_an_outcome():
    Path("same.csv").write_text("a,b,y\n1,2,0\n1,2,1\n2,4,1\n")
    given = ["run", "same.csv", "--no-intercept", "--algorithm", "gd", "--steps", 300]
    rows = table(call(*given, "--out", "out", code=3).stdout)
    assert rows["status"] == prgd.Status.NOT_SEPARABLE.value
    assert rows["relative gap"] == "none (no hyperplane separates the classes)"


def test_prgd_goes_without_projection():
    rows = table(call("run", "toy:0.3", "--no-project", *WARM, "--steps", 10).stdout)
    assert rows["algorithm"].endswith("project=False)")


@pytest.mark.parametrize(
    "name", [name for name, kind in prgd.algorithms.all_algorithms().items() if hasattr(kind, "eta")]
)
def test_every_algorithm_with_a_step_size_runs_by_name(name):
    loss = {"large-step-gd": ["--loss", "logistic", "--no-intercept"]}.get(name, [])
    given = ["run", "toy:0.3", "--algorithm", name, *WARM, *loss]
    rows = table(call(*given, "--steps", 10, "--eta", 0.5).stdout)
    assert rows["algorithm"].startswith(prgd.algorithms.all_algorithms()[name].__name__)
    assert "eta=0.5" in rows["algorithm"]
    assert rows["warm-up"] == "GD(eta=0.5), 50 steps"


@pytest.mark.parametrize("name", ["normalized-perceptron", "away-step-frank-wolfe", "mdm"])
def test_every_algorithm_without_a_step_size_runs_by_name(name):
    given = ["run", "toy:0.3", "--algorithm", name, "--steps", 10]
    assert table(call(*given).stdout)["algorithm"] == f"{prgd.algorithms.all_algorithms()[name].__name__}()"
    assert "--eta does not apply" in call(*given, "--eta", 0.5, code=2).stderr


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("synthetic-one:0", "synthetic_one, 100 x 2"),
        ("synthetic-two:7", "synthetic_two, 100 x 2"),
        ("digits:0,1", "digit-01, 360 x 64"),
        ("digits:0,4,300", "digit-04, 300 x 64"),
        ("cancer", "cancer, 569 x 30"),
    ],
)
def test_built_in_data(data, name):
    rows = table(call("run", data, *NGD, "--steps", 2, "--threads", 1).stdout)
    assert rows["data"] == f"{name}, dense"


@pytest.mark.slow
def test_files_give_the_same_run_in_memory_and_out_of_core():
    import pandas as pd

    X = np.array([[0.5, 1.0], [0.25, -2.0], [-0.5, -1.5]])
    kind = ["b", "b", "a"]
    np.savez("rows.npz", X=X, y=np.array(kind))
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(kind=kind)
    frame.to_csv("rows.csv", index=False)
    frame.to_parquet("rows.parquet")
    Path("rows.svm").write_text("2 1:0.5 2:1\n2 1:0.25 2:-2\n1 1:-0.5 2:-1.5\n")
    np.save("rows.npy", X * np.array([[1], [1], [-1]]))
    parts = ["--out-of-core", "--max-memory", "16B"]
    commands = [
        ["rows.npz"],
        ["rows.csv", "--label", "kind"],
        ["rows.csv", "--label", "-1"],
        ["rows.parquet", "--label", "kind"],
        ["rows.parquet", "--label", "kind", *parts],
        ["rows.svm"],
        ["rows.svm", *parts],
        ["rows.npy", *parts],
    ]
    w = []
    for k, command in enumerate(commands):
        given = [*NGD, "--no-intercept", "--steps", 30, "--out", f"out{k}"]
        rows = table(call("run", *command, *given).stdout)
        assert ("read in parts" in rows["data"]) == ("--out-of-core" in command)
        w.append(prgd.Result.load(f"out{k}/result.npz").w)
    np.testing.assert_allclose(w, [w[0]] * len(w), rtol=1e-12)


def test_options_reach_the_problem():
    call("run", "digits:0,1", *NGD, "--steps", 3, "--scale", "none", "--out", "a")
    call("run", "digits:0,1", *NGD, "--steps", 3, "--no-intercept", "--loss", "logistic", "--out", "b")
    a, b = prgd.Result.load("a/result.npz"), prgd.Result.load("b/result.npz")
    assert a.problem == "Problem(360 x 64 DenseRows, loss='exponential', fit_intercept=True, scale='none')"
    assert b.problem == "Problem(360 x 64 DenseRows, loss='logistic', fit_intercept=False, scale='max')"
    assert a.intercept != 0.0


def test_phases_reach_prgd():
    found = call(
        "run", "toy:0.3", *WARM, "--steps", 9, "--radius", "polynomial:0.6", "--phases", "polynomial:5,0.6"
    )
    assert "R=Polynomial(a=0.6), T=PolynomialPhases(T_0=5.0, b=0.6)" in found.stdout


# What it refuses


def write_bad_files() -> None:
    Path("bad.svm").write_text("+1 1:0.5\n-1 1:x\n")
    Path("rows.csv").write_text("a,b,y\n1,2,0\n-1,2,1\n")
    Path("torn.npz").write_bytes(b"PK\x03\x04 torn")
    Path("file").touch()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("toy:0.3 --algorithm prdg", "Unknown algorithm 'prdg'. Did you mean prgd?"),
        ("toy:0.3 --warm-up 0", "Leave --warm-up out, or give e.g. --warm-up gd:1000."),
        ("toy:0.3 --warm-up gd", "--warm-up expects NAME:STEPS, e.g. gd:1000, or 0; got 'gd'"),
        ("toy:0.3 --loss logistic", "--intercept needs --loss exponential"),
        ("toy:0.3 --warmup dg:5", "Unknown algorithm 'dg'"),
        ("toy:0.3 --algorithm ngd --no-project", "--no-project does not apply to ngd, which takes --eta"),
        ("toy:0.3 --algorithm ngd --radius constant", "--radius does not apply to ngd, which takes --eta"),
        ("toy:0.3 --algorithm gd --every 5", "--every does not apply to gd"),
        ("toy:0.3 --algorithm gd --phases every:5", "--phases does not apply to gd"),
        ("toy:0.3 --every 5 --phases every:5", "give one of them"),
        ("toy:0.3 --every 1", "at least 2; got 1"),
        ("toy:0.3 --radius geometrik:2", "Unknown radius 'geometrik'. Did you mean geometric?"),
        ("toy:0.3 --algorithm ngd --eta -1", "--eta must be a finite number above 0; got -1.0"),
        ("toy:0.3 --algorithm ngd --gap 0", "--gap must be a finite number above 0; got 0.0"),
        ("toy:0.3 --algorithm ngd --loss hinge", "Unknown loss 'hinge'. Known: exponential, logistic"),
        ("toy:0.3 --algorithm ngd --scale min", "--scale must be 'max' or 'none'; got 'min'"),
        ("toy:0.3 --algorithm ngd --max-memory 1M", "--max-memory is for --out-of-core"),
        ("toy:0.3 --algorithm ngd --label y", "--label is for files"),
        ("toy:0.3 --algorithm ngd --out-of-core", "--out-of-core is for files"),
        ("toy:0.3 --warmup gd:9 --eta 1e308 --scale none --no-intercept", "Use a smaller --eta"),
        ("toy --algorithm ngd", "Expected toy:MARGIN, e.g. toy:0.3; got 'toy'"),
        ("digits:0,x --algorithm ngd", "got 'digits:0,x'"),
        ("cancer:1 --algorithm ngd", "Expected cancer; got 'cancer:1'"),
        ("digit:0,1 --algorithm ngd", "Unknown file or data set 'digit'. Did you mean digits?"),
        ("none.csv --algorithm ngd", "Expected a data file at none.csv, found none"),
        ("bad.svm --algorithm ngd", "bad.svm, line 2: expected a number after the colon, got '1:x'"),
        ("bad.svm --algorithm ngd --out-of-core", "bad.svm, line 2:"),
        (
            "bad.svm --algorithm ngd --out-of-core --label y",
            "can be chosen in Parquet files only",
        ),
        ("bad.svm --algorithm ngd --out-of-core --max-memory much", "such as 64M or 2G; got 'much'"),
        ("rows.csv --algorithm ngd --label z", "Columns: a, b, y"),
        ("rows.csv --algorithm ngd --out-of-core", "unknown kind of file"),
        ("toy:0.3 --algorithm ngd --out file/folder", "Cannot write to the output folder 'file/folder'"),
        ("toy:0.3 --algorithm ngd --resume none.npz", "found no file none.npz"),
        ("toy:0.3 --algorithm ngd --resume torn.npz", "torn.npz: not a whole prgd result file"),
        ("toy:0.3 --algorithm ngd --threads 0", "Invalid value for '--threads'"),
        ("toy:0.3 --algorithm ngd --steps many", "Invalid value for '--steps'"),
        ("toy:0.3 --algorithm ngd --stepz 5", "--stepz"),
        ("", "Missing argument 'DATA'. Try 'prgd run --help'."),
    ],
)
def test_errors_are_one_line(args, said):
    write_bad_files()
    found = call("run", *args.split(), code=2)
    assert found.stdout == ""
    assert found.stderr.startswith("Error: ")
    assert said in found.stderr
    assert found.stderr.count("\n") == 1


def test_debug_shows_the_traceback():
    assert "Traceback" in call("run", "toy:2", *NGD, "--debug", code=2).stderr


def test_a_bug_is_not_hidden(monkeypatch):
    def step(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(prgd.NGD, "step", step)
    with pytest.raises(ZeroDivisionError):
        call("run", "toy:0.3", *NGD)


def test_warnings_are_one_line():
    Path("rows.csv").write_text("a,b,y\n1,2,0\n-1,2,1\n0,0,1\n")
    found = call("run", "rows.csv", *NGD, "--steps", 3, "--no-intercept")
    assert found.stderr.startswith("Warning: 1 of 3 rows are zero")
    assert found.stderr.endswith("or use --intercept.\n")
    assert found.stderr.count("\n") == 1


def test_the_folder_is_checked_before_any_work(monkeypatch):
    def load(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(prgd.datasets, "load", load)
    write_bad_files()
    assert "Cannot write" in call("run", "rows.csv", *NGD, "--out", "file/folder", code=2).stderr


# Resume and interrupt


def interrupt_at(monkeypatch, algorithm: type, t: int) -> None:
    step = algorithm.step

    def interrupted(self, problem, state):
        if state.t == t:
            raise KeyboardInterrupt
        return step(self, problem, state)

    monkeypatch.setattr(algorithm, "step", interrupted)


def test_resume_is_bit_identical():
    options = ["--radius", "polynomial:0.6", "--record", 7]
    call("run", "digits:0,1", *options, *WARM, "--steps", 80, "--out", "whole")
    call("run", "digits:0,1", *options, *WARM, "--steps", 33, "--out", "parts")
    call("run", "digits:0,1", *options, "--steps", 80, "--resume", "parts/result.npz", "--out", "parts")
    assert_same_run(Path("whole"), Path("parts"))


@pytest.mark.slow
def test_interrupted_run_is_saved_and_goes_on(monkeypatch):
    call("run", "toy:0.3", *WARM, "--steps", 40, "--out", "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, prgd.PRGD, 17)
        found = call("run", "toy:0.3", *WARM, "--steps", 40, "--out", "parts", code=130)
    assert table(found.stdout)["status"] == prgd.Status.INTERRUPTED.value
    assert table(found.stdout)["steps"] == "17"
    assert found.stderr.endswith(f"--warm-up replaced by --resume {Path('parts/result.npz')}\n")
    call("run", "toy:0.3", "--steps", 40, "--resume", "parts/result.npz", "--out", "parts")
    assert_same_run(Path("whole"), Path("parts"))


def test_interrupted_warmup_is_saved_and_goes_on(monkeypatch):
    call("run", "toy:0.3", *WARM, "--steps", 40, "--out", "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, prgd.GD, 17)
        found = call("run", "toy:0.3", *WARM, "--steps", 40, "--out", "parts", code=130)
    assert table(found.stdout)["warm-up"] == "GD(eta=1.0), 17 steps"
    assert table(found.stdout)["steps"] == "0"
    saved = Path("parts/warmup-result.npz")
    assert found.stderr.endswith(f"--resume {saved}\n")
    assert sorted(path.name for path in Path("parts").iterdir()) == ["warmup-result.npz", "warmup.csv"]
    call("run", "toy:0.3", *WARM, "--steps", 40, "--resume", saved, "--out", "parts")
    assert_same_run(Path("whole"), Path("parts"))
    assert Path("parts/warmup.csv").read_bytes() == Path("whole/warmup.csv").read_bytes()


def test_interrupt_without_out_says_that_nothing_is_kept(monkeypatch):
    interrupt_at(monkeypatch, prgd.NGD, 3)
    found = call("run", "toy:0.3", *NGD, "--quiet", code=130)
    assert found.stdout == ""
    assert found.stderr == "Interrupted; nothing was saved. Give --out DIR to keep what there is.\n"


def test_interrupt_before_the_first_step(monkeypatch):
    def load(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prgd.datasets, "load", load)
    write_bad_files()
    assert call("run", "rows.csv", *NGD, code=130).stderr == "Interrupted.\n"


def test_interrupt_while_drawing_keeps_the_numbers(monkeypatch):
    def save(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("prgd.plots.save_gap_png", save)
    found = call("run", "toy:0.3", *NGD, "--steps", 3, "--out", "out")
    assert found.stderr == "Warning: gap.png is missing: interrupted while drawing.\n"
    assert Path("out/result.npz").is_file()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--steps", 10], "result.npz has taken 20 steps already: give --steps of at least that"),
        ([*WARM, "--steps", 40], "If the warm-up is done, leave --warm-up out"),
        (["--steps", 40, "--every", 7], "This result belongs to another algorithm"),
        (["--steps", 40, "--scale", "none"], "This result belongs to another problem"),
    ],
)
def test_resume_refuses_what_does_not_fit(args, said):
    call("run", "toy:0.3", *WARM, "--steps", 20, "--out", "out")
    assert said in call("run", "toy:0.3", "--resume", "out/result.npz", *args, code=2).stderr


# The commands themselves


@pytest.mark.parametrize("columns", [80, 120])
def test_help_fits_the_screen(columns):
    out, err = pipe("run", "--help", COLUMNS=str(columns))
    assert err == ""
    assert max(map(len, out.splitlines())) <= columns
    words = " ".join(re.sub(r"[\u2500-\u257f]", " ", out).split())
    for panel in ("Arguments", "Data", "Algorithm", "When to stop", "Output"):
        assert f" {panel} " in words
    for default in ("prgd", "geometric:1.2", "5", "1", "64M", "exponential", "intercept", "max", "1000"):
        assert f"[default: {default}]" in words
    for name in prgd.algorithms.all_algorithms():
        assert name in words


def test_root_help_and_version():
    assert call("--version").stdout == f"prgd {prgd.__version__}\n"
    alone, asked = call(), call("--help")
    assert alone.stdout.strip() == asked.stdout.strip()
    assert "run" in alone.stdout
    assert "reproduce" in alone.stdout
    said = call("runn", code=2).stderr
    assert "No such command 'runn'" in said
    assert "?." not in said


def test_reproduce_passes_its_options_on(monkeypatch):
    given: list[dict[str, object]] = []
    opened: list[str] = []
    module = importlib.import_module("prgd_paper.reproduce")

    def note(chosen, **options):
        given.append({"only": [experiment.name for experiment in chosen], **options})
        return Path("index.html")

    every = [experiment.name for experiment in module.choose()]
    monkeypatch.setattr(module, "reproduce", note)
    monkeypatch.setattr("webbrowser.open", opened.append)
    call("reproduce")
    assert given[0]["jobs"] >= 1
    plain = {"only": every, "quick": False, "seeds": None, "jobs": given[0]["jobs"], "force": False}
    plain |= {"changes": {}, "keep_rows": False}
    assert given[0] == plain | {"out": Path("report")}
    call(
        "reproduce",
        "--only",
        "figure-3",
        "table-2",
        "--seeds",
        3,
        "--jobs",
        2,
        "--out",
        "elsewhere",
        "--open",
    )
    assert given[1] == plain | {
        "only": ["figure-3", "table-2"],
        "seeds": 3,
        "jobs": 2,
        "out": Path("elsewhere"),
    }
    call("reproduce", "--quick", "--force", "--only", "figure-3,table-1", "--only", "table-2")
    assert given[2]["only"] == ["figure-3", "table-1", "table-2"]
    assert given[2]["quick"] is given[2]["force"] is True
    call("reproduce", "--set", "figure-4.alpha=0.9", "--set", "table-2.eta=2", "--keep-rows")
    assert given[3]["only"] == ["figure-4", "table-2"]
    assert given[3]["changes"] == {"figure-4": {"alpha": "0.9"}, "table-2": {"eta": "2"}}
    assert given[3]["keep_rows"] is True
    assert opened == [Path("index.html").resolve().as_uri()]


def test_reproduce_refuses_before_it_works():
    found = call("reproduce", "--only", "figure-44", code=2)
    assert found.stderr.startswith("Error: Unknown experiment 'figure-44'. Did you mean figure-4")
    Path("file").write_text("")
    found = call("reproduce", "--out", "file/report", code=2)
    assert found.stderr.startswith("Error: Cannot write to the output folder")


def test_reproduce_lists_its_experiments():
    found = call("reproduce", "--list")
    assert "table-2" in found.stdout
    assert not Path("report").exists()


def test_import_is_light():
    heavy = ["numba", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "torch"]
    code = f"import sys, prgd.cli; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_entry_point(monkeypatch, capsys):
    (entry,) = entry_points(group="console_scripts", name="prgd")
    monkeypatch.setattr(sys, "argv", ["prgd", "--version"])
    with pytest.raises(SystemExit) as end:
        entry.load()()
    assert end.value.code in (None, 0)
    assert capsys.readouterr().out == f"prgd {prgd.__version__}\n"


# Pipes and terminals, in processes of their own


@pytest.mark.slow
def test_piped_output_has_no_escape_codes():
    out, err = pipe("run", "toy:0.3", *WARM, "--steps", 30, "--out", "out", FORCE_COLOR="1")
    assert table(out)["steps"] == "30"
    assert not BOX.search(out + err)
    out, err = pipe("run", "toy:0.3", *NGD, "--out", "out/gap.png/below", code=2, FORCE_COLOR="1")
    assert out == ""
    assert err.startswith("Error: Cannot write to the output folder")
    assert not BOX.search(err)


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

    def end(self) -> int:
        self.read(None)
        code = self.process.wait(timeout=30)
        os.close(self.master)
        return code


@pytest.mark.slow
@posix
def test_terminal_shows_a_live_line_and_keeps_the_result_after_ctrl_c():
    terminal = Terminal("run", "toy:0.3", *NGD, "--steps", 10**9, "--record", 1000, "--out", "out")
    try:
        # both bounds, after some steps
        terminal.read(r"ngd  step [1-9][\d,]*  [\d.]+ <= gamma_star <= [\d.]+  gap \d")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    finally:
        terminal.process.kill()
        terminal.process.wait()
    after = terminal.seen[terminal.seen.rindex("gamma_star") :]
    assert "Interrupted; the state" in after
    assert "--resume out/result.npz" in after
    saved = prgd.Result.load("out/result.npz")
    assert saved.status is prgd.Status.INTERRUPTED
    assert Path("out/gap.png").is_file()
    end = saved.t + 50
    options = [*NGD, "--record", 1000, "--steps", end]
    call("run", "toy:0.3", *options, "--resume", "out/result.npz", "--out", "out")
    call("run", "toy:0.3", *options, "--out", "whole")
    assert_same_run(Path("whole"), Path("out"))


@posix
def test_quiet_terminal_shows_nothing():
    terminal = Terminal("run", "toy:0.3", *NGD, "--steps", 2000, "--quiet")
    assert terminal.end() == 0
    assert terminal.seen == ""


# The figure


def drawn(data: prgd.datasets.Dataset, algorithm: object, steps: int, flip: int = 0):
    y = data.y.copy()
    y[:flip] *= -1
    problem = prgd.Problem(data.X, y)
    w0 = prgd.run(problem, prgd.GD(), stop=50).w if isinstance(algorithm, prgd.PRGD) else None
    history = prgd.run(problem, algorithm, w0, stop=steps).history
    figure = gap_figure(history, "title " * 100)
    figure.draw_without_rendering()
    return history, *figure.axes


@pytest.mark.parametrize("algorithm", [prgd.PRGD(), prgd.NGD()], ids=["prgd", "ngd"])
def test_figure_shows_best_bounds_and_gap(algorithm):
    history, left, right = drawn(prgd.datasets.toy(0.3), algorithm, 60)
    upper, lower = (line.get_ydata() for line in left.get_lines()[:2])
    assert (np.diff(upper) <= 0).all()
    assert (np.diff(lower) >= 0).all()
    assert lower[-1] <= 0.3 + 1e-12
    assert upper[-1] >= 0.3 - 1e-12
    gap = right.get_lines()[0].get_ydata()
    assert gap[-1] == history.rows[-1].gap
    assert not (gap >= 1.0).any()
    assert left.get_ylabel() == "margin, in the units of the data"
    assert left.get_xscale() == ("linear" if isinstance(algorithm, prgd.PRGD) else "log")


@pytest.mark.parametrize("steps", [0, 1, 100])
def test_figure_without_a_separator_shows_the_upper_bound(steps):
    _, _, right = drawn(prgd.datasets.synthetic_one(0), prgd.NGD(), steps, flip=20)
    assert "no w separates the data" in right.get_title()
    assert np.isfinite(right.get_lines()[0].get_ydata()).all()


def test_figure_needs_a_row():
    with pytest.raises(ValueError, match="at least one row"):
        gap_figure(History(), "empty")
