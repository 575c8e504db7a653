"""The command line: what it prints, writes and refuses, on a terminal, through a pipe, after Ctrl-C."""

import csv
import json
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from command_line import BOX, Terminal, call, interrupt, interrupt_at, pipe, posix, table, words_of
from shared import python

import prgd

NGD = ["--algorithm", "ngd"]
WARM = ["--warm-up", "gd:50"]
COMMANDS = ["run", "fit", "predict", "separability", "doctor"]


def assert_same_run(a: Path, b: Path) -> None:
    one, two = prgd.Result.load(a / "result.npz"), prgd.Result.load(b / "result.npz")
    assert one.w.tobytes() == two.w.tobytes()
    for name in ("t", "margin", "upper_bound"):
        assert getattr(one, name) == getattr(two, name)
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
    given = ["--steps", 40, "--record", 10, "--out", out, "--json", out / "facts.json"]
    rows = table(call("run", "toy:0.3", *WARM, *given).stdout)
    assert json.loads((out / "facts.json").read_text())["t"] == 40  # The folder was made for both.
    assert {*rows["files"].split(", "), str(out / "facts.json")} == {str(path) for path in out.iterdir()}
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
    said = "Warning: gap.png is missing. A figure needs matplotlib: pip install '.[report]' in a checkout"
    assert found.stderr.startswith(said)
    assert found.stderr.count("\n") == 1
    assert sorted(path.name for path in Path("out").iterdir()) == ["history.csv", "result.npz"]


@pytest.mark.parametrize(("command", "file"), [("run", "out/result.npz"), ("fit", "model.npz")])
def test_files_are_written_quietly_and_checked_before_any_work(monkeypatch, command, file):
    out = file.partition("/")[0]
    assert call(command, "toy:0.3", "--quiet", "--out", out).output == ""
    assert Path(file).is_file()
    Path("rows.csv").write_text("a,y\n1,0\n-1,1\n")
    monkeypatch.setattr(prgd.datasets, "load", lambda *_, **__: pytest.fail("the file was read"))
    assert "Cannot write" in call(command, "rows.csv", "--out", "rows.csv/below", code=2).stderr


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


@pytest.mark.usefixtures("quick_figures")
def test_options_reach_the_problem():
    call("run", "digits:0,1", *NGD, "--steps", 3, "--scale", "none", "--out", "a")
    call("run", "digits:0,1", *NGD, "--steps", 3, "--no-intercept", "--loss", "logistic", "--out", "b")
    a, b = prgd.Result.load("a/result.npz"), prgd.Result.load("b/result.npz")
    assert a.problem == "Problem(360 x 64 DenseRows, loss='exponential', fit_intercept=True, scale='none')"
    assert b.problem == "Problem(360 x 64 DenseRows, loss='logistic', fit_intercept=False, scale='max')"
    assert a.intercept != 0.0


@pytest.mark.parametrize(
    ("given", "algorithm"),
    [
        ("--no-project", "T=Every(steps=5), eta=1.0, project=False)"),
        (
            "--radius polynomial:0.6 --phases polynomial:5,0.6",
            "R=Polynomial(a=0.6), T=PolynomialPhases(T_0=5.0, b=0.6), eta=1.0)",
        ),
    ],
)
def test_options_reach_prgd(given, algorithm):
    rows = table(call("run", "toy:0.3", *WARM, "--steps", 9, *given.split()).stdout)
    assert rows["algorithm"].endswith(algorithm)


# What it refuses


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


# Resume and interrupt


@pytest.mark.usefixtures("quick_figures")
def test_resume_is_bit_identical():
    options = ["--radius", "polynomial:0.6", "--record", 7]
    call("run", "digits:0,1", *options, *WARM, "--steps", 80, "--out", "whole")
    call("run", "digits:0,1", *options, *WARM, "--steps", 33, "--out", "parts")
    call("run", "digits:0,1", *options, "--steps", 80, "--resume", "parts/result.npz", "--out", "parts")
    assert_same_run(Path("whole"), Path("parts"))


@pytest.mark.usefixtures("quick_figures")
@pytest.mark.parametrize("warm", [WARM, []], ids=["given", "default"])
@pytest.mark.parametrize("algorithm", [prgd.GD, prgd.PRGD])
def test_an_interrupted_run_is_saved_and_goes_on_as_it_says(monkeypatch, algorithm, warm):
    in_warm_up = algorithm is prgd.GD
    call("run", "toy:0.3", *warm, "--steps", 40, "--out", "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, algorithm, 17)
        found = call("run", "toy:0.3", *warm, "--steps", 40, "--out", "parts", code=130)
    rows = table(found.stdout)
    assert (rows["status"], rows["steps"]) == (prgd.Status.INTERRUPTED.value, "0" if in_warm_up else "17")
    *change, resume, saved = found.stderr.split("repeat the command with ")[1].split()
    said = {(True, False): ["--warm-up", "gd:1000"], (False, True): ["--warm-up", "replaced", "by"]}
    assert (change, resume) == (said.get((in_warm_up, bool(warm)), []), "--resume")
    if in_warm_up:
        assert rows["warm-up"] == "GD(eta=1.0), 17 steps"
        assert sorted(path.name for path in Path("parts").iterdir()) == ["warmup-result.npz", "warmup.csv"]
    again = (warm or change) if in_warm_up else []
    call("run", "toy:0.3", *again, "--steps", 40, "--resume", saved, "--out", "parts")
    assert_same_run(Path("whole"), Path("parts"))
    assert Path("parts/warmup.csv").read_bytes() == Path("whole/warmup.csv").read_bytes()


def test_interrupt_without_out_says_that_nothing_is_kept(monkeypatch):
    interrupt_at(monkeypatch, prgd.NGD, 3)
    found = call("run", "toy:0.3", *NGD, "--quiet", code=130)
    assert found.stdout == ""
    assert found.stderr == "Interrupted; nothing was saved. Give --out DIR to keep what there is.\n"


def test_interrupt_before_the_first_step(monkeypatch):
    monkeypatch.setattr(prgd.datasets, "load", interrupt)
    Path("rows.csv").write_text("a,y\n1,0\n-1,1\n")
    assert call("run", "rows.csv", *NGD, code=130).stderr == "Interrupted.\n"


def test_interrupt_while_drawing_keeps_the_numbers(monkeypatch):
    monkeypatch.setattr("prgd.plots.save_gap_png", interrupt)
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


@pytest.mark.parametrize(("command", "columns"), [("run", 120), *((c, 80) for c in COMMANDS)])
def test_help_fits_the_screen(command, columns):
    out = call(command, "--help", COLUMNS=str(columns)).stdout
    assert max(map(len, out.splitlines())) <= columns
    assert f"Example: prgd {command} " in words_of(out)


def test_help_shows_panels_and_defaults():
    words = words_of(call("fit", "--help").stdout)
    for default in ("64M", "intercept", "1e-06", "1000; of a soft margin 100000"):
        assert f"[default: {default}]" in words
    assert "asked between rounds" in words  # the limit on passes
    words = words_of(call("run", "--help").stdout)
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
    assert not BOX.search(out + err + "".join(pipe("fit", "toy:0.3", FORCE_COLOR="1")))
    out, err = pipe("run", "toy:0.3", *NGD, "--out", "out/gap.png/below", code=2, FORCE_COLOR="1")
    assert out == ""
    assert err.startswith("Error: Cannot write to the output folder")
    assert not BOX.search(err)


@pytest.mark.slow
@posix
def test_terminal_shows_a_live_line_and_keeps_the_result_after_ctrl_c():
    terminal = Terminal("run", "toy:0.3", *NGD, "--steps", 10**9, "--record", 1000, "--out", "out")
    # both bounds, after some steps
    terminal.interrupt_after(r"ngd  step [1-9][\d,]*  [\d.]+ <= gamma_star <= [\d.]+  gap \d")
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


@pytest.mark.slow
@posix
def test_quiet_terminal_shows_nothing():
    terminal = Terminal("run", "toy:0.3", *NGD, "--steps", 2000, "--quiet")
    assert terminal.end() == 0
    assert terminal.seen == ""


# What prgd_paper adds, and what is said where it is not installed


def test_algorithms_of_prgd_paper_say_how_to_install_it(monkeypatch):
    for module in (prgd.algorithms, prgd.core.errors):
        monkeypatch.setattr(module, "entry_points", lambda group: ())
    prgd.algorithms.all_algorithms.cache_clear()
    try:
        said = call("run", "toy:0.3", "--algorithm", "mdm", code=2).stderr
    finally:
        prgd.algorithms.all_algorithms.cache_clear()
    assert said.startswith("Error: Unknown algorithm 'mdm'. ")
    assert "More algorithms come with prgd_paper, which is not installed: pip install ./paper" in said
    assert said.count("\n") == 1


def test_without_prgd_paper_its_commands_are_not_there():
    code = (
        "import importlib.metadata as m, sys; own = m.entry_points\n"
        "m.entry_points = lambda **k: () if k['group'].startswith('prgd.') else own(**k)\n"
        "from prgd.cli import main; main()"
    )
    done = python("-c", code, "reproduce", code=2)
    assert done.stderr.startswith("Error: No such command 'reproduce'")
    assert "More commands come with prgd_paper" in done.stderr
    assert done.stderr.endswith("which is not installed: pip install ./paper in a checkout.\n")
    assert done.stderr.count("\n") == 1
