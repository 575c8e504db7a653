"""The command line as new users try it: one problem, several and overlapping classes, JSON, exit codes."""

import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from command_line import call, facts, interrupt, table, write_csv
from shared import python

import prgd
from prgd.cli import outcome
from prgd.estimators.model import Model

pytestmark = pytest.mark.usefixtures("quick_figures")
DOCS = Path(__file__).parents[2] / "docs" / "command_line.md"


def write_iris() -> None:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    write_csv("iris.csv", ["sepal length", "sepal width", "petal length", "petal width", "class"], X, names)


def write_overlap() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(80) > 0.0, "yes", "no")
    write_csv("overlap.csv", ["a", "b", "c", "y"], X, y)


# One meaning of the default


@pytest.mark.slow
@pytest.mark.parametrize("intercept", ["--intercept", "--no-intercept"])
def test_run_and_fit_solve_the_same_problem(intercept):
    given = [] if intercept == "--intercept" else [intercept]
    fit = table(call("fit", "digits:0,1", *given).stdout)
    run = table(call("run", "digits:0,1", *given).stdout)
    assert run["problem"].startswith(fit["problem"])
    assert ("with an unpenalised intercept" in fit["problem"]) == (intercept == "--intercept")
    assert "l2 norm" in fit["problem"]
    assert "not scaled" in fit["problem"]
    bounds = [[float(rows[f"margin, {end} bound"]) for rows in (fit, run)] for end in ("lower", "upper")]
    assert max(bounds[0]) <= min(bounds[1])
    assert min(bounds[0]) > 0.5 * max(bounds[1])


def test_every_output_names_the_problem():
    for k, given in enumerate([[], ["--no-intercept"]]):
        call("fit", "toy:0.3", *given, "--out", f"{k}.npz", "--json", f"{k}.json", "--quiet")
        result = prgd.Result.load(f"{k}.npz")
        words = "without an intercept" if given else "with an unpenalised intercept"
        assert words in result.problem_in_words
        assert not given or (result.intercept, result.margin) == (0.0, pytest.approx(0.3, rel=1e-6))
        assert words in str(result)
        assert f"fit_intercept={not given}" in repr(result)
        written = json.loads(Path(f"{k}.json").read_text())
        assert written["problem"] == result.problem_in_words
        assert (written["fit_intercept"], written["norm"], written["scale"]) == (not given, "l2", "none")
    run = facts("run", "toy:0.3", "--algorithm", "ngd", "--steps", 5)
    asked = [run[name] for name in ("fit_intercept", "norm", "scale", "loss")]
    assert asked == [True, "l2", "max", "exponential"]


# Works out of the box


def test_run_works_out_of_the_box():
    rows = table(call("run", "toy:0.3").stdout)
    assert rows["warm-up"] == "GD(eta=1.0), 1,000 steps"
    assert rows["algorithm"].startswith("PRGD(")
    assert float(rows["relative gap"]) < 0.01
    assert "Appendix E.1" in " ".join(call("run", "--help").stdout.split())


def test_the_warm_up_is_turned_off():
    given = ["run", "toy:0.3", "--algorithm", "ngd", "--steps", 3]
    for off in ([], ["--warm-up", 0]):
        assert table(call(*given, *off).stdout)["warm-up"] == "none, starts at w = 0"


# A gap that stands still


@pytest.mark.slow
def test_a_run_says_since_when_its_gap_stands_still():
    rows = table(call("run", "digits:0,1", "--json", "run.json", "--steps", 60_000, "--out", "out").stdout)
    since = re.match(r"The gap has not changed since step (\d+), and more steps do not help", rows["status"])
    assert since
    assert "Use --radius polynomial:0.6 --phases polynomial:5,0.6, or --warm-up ngd:1000" in rows["status"]
    assert int(rows["steps"]) == int(since[1]) + 190
    found = json.loads(Path("run.json").read_text())
    assert (found["status"], found["message"]) == ("STALLED", rows["status"])
    history = prgd.Result.load("out/result.npz").history
    then, last = history["gap"][[int(since[1]), -1]]
    assert abs(then - last) <= 1e-6 * last
    for advice in (["--radius", "polynomial:0.6", "--phases", "polynomial:5,0.6"], ["--warm-up", "ngd:1000"]):
        assert facts("run", "digits:0,1", *advice)["gap"] < 0.2 * found["gap"]
    # What was asked for and not reached is no success; a run that was asked to go on does so.
    call("run", "digits:0,1", "--gap", 0.01, "--quiet", code=1)
    rows = table(call("run", "digits:0,1", "--patience", 0).stdout)
    assert rows["steps"] == "1,000"
    assert rows["status"].startswith(since[0])


@pytest.mark.slow
def test_a_stalled_run_is_resumed_bit_by_bit():
    call("run", "digits:0,1", "--patience", 0, "--out", "whole", "--quiet")
    call("run", "digits:0,1", "--out", "stalled", "--quiet")
    whole, stalled = (prgd.Result.load(f"{folder}/result.npz") for folder in ("whole", "stalled"))
    for steps in (100, 450, 1000):
        out = f"parts-{steps}"
        call("run", "digits:0,1", "--steps", steps, "--record", 3, "--out", out, "--quiet")
        again = ["--resume", out, "--out", out, "--quiet"]
        call("run", "digits:0,1", *again)
        parts = prgd.Result.load(f"{out}/result.npz")
        assert (parts.status.name, parts.t) == ("STALLED", stalled.t)
        assert parts.w.tobytes() == stalled.w.tobytes()
        call("run", "digits:0,1", *again, "--patience", 0)
        parts = prgd.Result.load(f"{out}/result.npz")
        assert (parts.t, parts.w.tobytes()) == (1000, whole.w.tobytes())
        assert parts.certificate.gap == whole.certificate.gap


def test_algorithms_that_are_slow_do_not_stall():
    for algorithm in ("gd", "loss-scaled-gd", "gated-prgd", "dual-acceleration"):
        rows = table(call("run", "digits:3,8", "--algorithm", algorithm, "--no-intercept").stdout)
        assert (rows["steps"], rows["status"]) == ("1,000", str(prgd.Status.MAX_STEPS))


# Ctrl-C


def test_separability_says_that_it_was_interrupted(monkeypatch):
    monkeypatch.setattr("prgd.separation.search.Search.find_proof", interrupt)
    found = call("separability", "toy:0.3", code=130)
    assert found.stdout.startswith("undecided")
    assert found.stderr == "Interrupted.\n"


@pytest.mark.parametrize("module", ["typer", "prgd_paper.cli.race"])
def test_an_interrupt_while_the_command_line_is_imported_is_one_line(module):
    start = (
        "import sys\nclass Interrupt:\n    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\nfrom prgd.cli import main\nmain()"
    )
    assert python("-c", start, code=130).stderr == "Interrupted.\n"


# Going on, and own algorithms


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_its_folder():
    call("run", "toy:0.3", "--steps", 40, "--out", "whole", "--quiet")
    for resumed in ("parts", "parts/result.npz"):
        call("run", "toy:0.3", "--steps", 17, "--out", "parts", "--force", "--quiet")
        rows = table(call("run", "toy:0.3", "--steps", 40, "--resume", resumed).stdout)
        assert rows["steps"] == "40"
        assert "parts/history.csv" in rows["files"]
        for name in ("history.csv", "warmup.csv"):
            assert Path("parts", name).read_bytes() == Path("whole", name).read_bytes()
    Path("parts/result.npz").rename("other.npz")
    given = ["--steps", 50, "--resume", "other.npz", "--quiet"]
    assert "are not saved. Give --out DIR" in call("run", "toy:0.3", *given).stderr
    # The steps and the passes of all parts are counted.
    call("run", "toy:0.3", "--algorithm", "ngd", "--steps", 17, "--out", "ngd", "--quiet")
    given = ["--algorithm", "ngd", "--steps", 40, "--resume", "ngd"]
    assert table(call("run", "toy:0.3", *given).stdout)["passes over the data"] == "41"


def test_an_algorithm_from_a_file_runs():
    Path("mine.py").write_text("from prgd import NGD as Mine\nhalf = Mine(eta=0.5)\n")
    run = ["run", "toy:0.3", "--steps", 9, "--algorithm"]
    for name, settings in (("mine.py:half", []), ("mine.py:Mine", ["--eta", 0.5])):
        assert table(call(*run, name, *settings).stdout)["algorithm"] == "NGD(eta=0.5)"
    said = call(*run, "mine.py:half", "--eta", 2, code=2).stderr
    assert said == "Error: --eta does not apply to mine.py:half, which has its settings. Leave --eta out.\n"
    assert "found no file none.py" in call(*run, "none.py:A", code=2).stderr


# Several classes, and classes that overlap


@pytest.mark.slow
def test_three_classes_are_fitted_and_predicted():
    write_iris()
    rows = table(call("fit", "iris.csv", "--out", "model.npz").stdout)
    assert rows["classes"] == "setosa, versicolor, virginica; each against the rest"
    assert rows["setosa, separable"] == "yes, with a margin from 0.817555769 to 0.817555769"
    said = "a soft margin in l2, of each class against the rest (squared hinge, C = "
    assert rows["fitted instead"].startswith(said)
    assert "give both classes the same weighted mean" in rows["versicolor, separable"]
    lines = call("predict", "model.npz", "iris.csv", "--scores").stdout.splitlines()
    scores = np.array([line.split(",")[1:] for line in lines[1:]], float)
    names = Model.load("model.npz").classes[scores.argmax(axis=1)]
    assert [line.split(",")[0] for line in lines[1:]] == names.tolist()
    assert facts("predict", "model.npz", "iris.csv")["accuracy"] > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_the_command_and_the_estimator_agree_on_several_classes(spread):
    rng = np.random.default_rng(3)
    y = np.arange(120) % 4
    X = rng.standard_normal((120, 3)) * spread + 8.0 * np.eye(4, 3)[y]
    np.savez("rows.npz", X=X, y=y)
    call("fit", "rows.npz", "--tol", 1e-10, "--out", "model.npz", "--quiet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", prgd.NotSeparableWarning)
        estimator = prgd.MaxMarginClassifier(tol=1e-10).fit(X, y)
    model = Model.load("model.npz")
    assert (not model.proofs) == (spread < 1.0)
    scores = [one.decision_function(X) for one in (model, estimator)]
    np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-4)
    assert model.predict(X).tolist() == estimator.predict(X).tolist()


def test_overlapping_classes_are_proven_and_fitted_softly():
    write_overlap()
    rows = table(call("fit", "overlap.csv", "--out", "model.npz").stdout)
    said = r"no, proven: positive weights on \d+ rows give both classes the same weighted mean"
    assert re.match(said, rows["separable"])
    assert rows["fitted instead"].startswith("a soft margin")
    found = facts("predict", "model.npz", "overlap.csv")
    assert found["accuracy"] > 0.8
    assert set(found["predictions"]) == {"yes", "no"}
    (proof,) = Model.load("model.npz").proofs
    data = prgd.datasets.load("overlap.csv")
    assert proof.check(data.X, data.y).is_valid
    assert proof.upper_bound == 0.0
    said = " ".join(call("separability", "overlap.csv").stdout.split())
    assert re.search(r"\(rounded to float64 they miss by \S+; exact ones are proven to exist\)\.", said)
    # With --quiet the warning remains; with --fallback raise nothing is fitted.
    said = call("fit", "overlap.csv", "--quiet").stderr
    assert said.startswith("Warning: no hyperplane separates the classes: a soft margin in l2 (squared hinge")
    assert call("fit", "overlap.csv", "--fallback", "raise", "--quiet", code=3).output == ""


# JSON


def test_json_agrees_with_the_table():
    table_of = table(call("fit", "digits:0,1", "--json", "fit.json", "--out", "model.npz").stdout)
    found = json.loads(Path("fit.json").read_text())
    result = prgd.Result.load("model.npz")
    assert f"{found['margin']:.9g}" == table_of["margin, lower bound"]
    assert f"{found['upper_bound']:.9g}" == table_of["margin, upper bound"]
    assert f"{found['gap']:.2e}" == table_of["relative gap"]
    assert f"{len(found['support'])} of {found['n']} rows" == table_of["support vectors"]
    assert found["coef"] == result.coef.tolist()
    assert (found["status"], found["message"]) == ("CERTIFIED", table_of["status"])
    rows = table(call("run", "toy:0.3", "--json", "run.json", "--steps", 30).stdout)
    found = json.loads(Path("run.json").read_text())
    assert f"{found['margin']:.9g}" == rows["margin, lower bound"]
    assert found["warm_up"] == {"algorithm": "GD(eta=1.0)", "t": 1000}
    assert (str(found["t"]), found["message"]) == (rows["steps"], rows["status"])


def test_json_of_predictions():
    Path("rows.csv").write_text("u,v,y\n1,2,a\n-1,0.5,b\n2,3,a\n")
    call("fit", "rows.csv", "--out", "model.npz", "--quiet")
    found = facts("predict", "model.npz", "rows.csv")
    assert found["predictions"] == ["a", "b", "a"]
    assert found["feature_names"] == ["u", "v"]
    assert found["accuracy"] == 1.0
    assert (np.array(found["decision_function"]) > 0.0).tolist() == [False, True, False]
    assert json.loads(call("fit", "rows.csv", "--json").stdout)["feature_names"] == ["u", "v"]


def test_json_of_a_verdict():
    found, said = facts("separability", "toy:0.3"), " ".join(call("separability", "toy:0.3").stdout.split())
    assert (
        f"its margin is {found['margin']:.6g}; for the maximum margin, at most {found['upper']:.6g}" in said
    )
    assert call("separability", "toy:0.3", "--quiet").output == ""


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("fit", "toy:0.3"),
        ("run", "toy:0.3 --steps 2"),
        ("separability", "toy:0.3"),
        ("claims", "lemma-d.2"),
        ("predict", "model.npz toy:0.3"),
        ("doctor", ""),
    ],
)
def test_the_documented_keys_are_those_of_the_json(command, arguments):
    block = DOCS.read_text().split("<!-- json: begin -->")[1].split("<!-- json: end -->")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", block, re.MULTILINE))[command]
    call("fit", "toy:0.3", "--out", "model.npz", "--quiet")
    found = facts(command, *arguments.split())
    written = found[0] if command == "claims" else found
    assert re.findall(r"`(\w+)`", documented) == list(written)


@pytest.mark.parametrize("command", ["fit", "run", "separability", "predict none.npz", "claims"])
def test_json_of_an_error(command):
    found = call(*command.split(), "none.csv", "--json", "-", code=2)
    assert found.stderr == f"Error: {json.loads(found.stdout)['error']}\n"
    assert call(*command.split(), "none.csv", "--json", "x.json", code=2).stdout == ""
    assert not Path("x.json").exists()


# Exit codes


def test_the_table_of_exit_codes_is_that_of_the_code():
    block = DOCS.read_text().split("<!-- exit codes: begin -->")[1].split("<!-- exit codes: end -->")[0]
    codes = (0, outcome.NOT_CERTIFIED, outcome.ERROR, outcome.NOT_SEPARABLE, outcome.INTERRUPTED)
    assert re.findall(r"^\| (\d+) \| \w.* \|$", block, re.MULTILINE) == [str(code) for code in codes]


def test_exit_codes():
    write_overlap()
    rows = table(call("fit", "digits:0,1", "--tol", 1e-16, "--max-passes", 1, code=1).stdout)
    assert rows["status"] == prgd.Status.MAX_PASSES.value
    call("run", "toy:0.3", "--gap", 1e-13, "--steps", 3, code=1)
    call("run", "toy:0.3", "--steps", 3)
    call("run", "overlap.csv", "--fallback", "raise", code=2)
    Path("same.csv").write_text("a,y\n1,0\n1,1\n2,0\n2,1\n")
    call("run", "same.csv", code=3)


# Shell completion


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("prgd fi", {"fit"}),
        ("prgd run syn", {"synthetic-one:", "synthetic-two:"}),
        ("prgd run toy:0.3 --algorithm dual", {"dual-acceleration"}),
        ("prgd predict mod", {"model.npz"}),
        ("prgd fit fol", {"folder/"}),
        ("prgd fit folder/", {"folder/rows.csv"}),
    ],
)
def test_a_shell_completes(words, offered):
    Path("model.npz").touch()
    Path("folder").mkdir()
    Path("folder/rows.csv").touch()
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert set(call(_PRGD_COMPLETE="complete_bash", **typed).stdout.split()) == offered


# Messages


def test_install_hints_name_what_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    Path("rows.parquet").touch()
    for args in (["fit", "rows.parquet"], ["fit", "rows.parquet", "--cluster", "local"]):
        said = call(*args, code=2).stderr
        assert re.search(r"needs \w+: pip install '\.\[\w+\]' in a checkout of prgd, or pip", said), said
    source = Path(prgd.__file__).parent
    assert not [path for path in source.rglob("*.py") if "pip install 'prgd[" in path.read_text()]
