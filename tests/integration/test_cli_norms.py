"""Commands in other norms than l2, and of more than two classes jointly."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import COLOURS as NAMES
from command_line import call, facts, table, write_svm, write_three
from test_everyday import write_iris

import prgd
from prgd.cli.methods import stalled_text
from prgd.estimators.model import Model
from prgd.norms import as_norm

# Fit and predict


@pytest.mark.parametrize("norm", ["l2", "spectral"])
def test_fit_jointly_and_predict(norm):
    X, y = write_three()
    given = ["--multi-class", "joint", "--norm", norm, "--out", "m.npz", "--json", "m.json"]
    rows = table(call("fit", "three.csv", *given).stdout)
    assert rows["problem"].startswith(f"largest margin in the {norm} norm, 3 classes jointly, with an unpen")
    assert rows["classes"] == "blue, green, red; jointly"
    assert rows["status"].startswith("Certified")
    model = Model.load("m.npz")
    (result,) = model.results
    assert model.is_joint
    assert result.coef.shape == (3, 3)
    assert result.intercept.shape == (3,)
    assert result.feature_names == ("a", "b", "c")
    assert result.check(X, y).is_valid
    expected = prgd.max_margin(X, y, multi_class="joint", norm=norm)
    assert float(rows["margin, lower bound"]) == pytest.approx(expected.margin, rel=1e-6)
    assert rows["support vectors"] == f"{len({int(i) // 3 for i in result.support})} of 45 rows"
    np.testing.assert_array_equal(prgd.Result.load("m.npz").intercept, result.intercept)
    found = json.loads(Path("m.json").read_text())
    assert (found["multi_class"], found["norm"], found["target"]) == ("joint", norm, None)
    assert (found["coef"], found["intercept"]) == (result.coef.tolist(), result.intercept.tolist())
    assert (found["classes"], sum(found["dual_weights"])) == (NAMES, pytest.approx(1.0))
    # Pairs are numbered i K + j: none is a row against its own class.
    codes = np.searchsorted(NAMES, y)
    assert all(codes[pair // 3] != pair % 3 for pair in found["support"])
    call("predict", "m.npz", "three.csv", "--scores", "--out", "p.csv")
    with Path("p.csv").open() as opened:
        head, *lines = csv.reader(opened)
    at = head.index("prediction")  # after the columns of the data
    assert head[at:] == ["prediction", "score blue", "score green", "score red"]
    assert [line[at] for line in lines] == y.tolist()
    scores = np.array([line[at + 1 :] for line in lines], float)
    np.testing.assert_allclose(scores, X @ result.coef.T + result.intercept, rtol=1e-12)


def test_classes_that_do_not_separate_jointly():
    write_iris()
    rows = table(call("fit", "iris.csv", "--multi-class", "joint", "--out", "m.npz").stdout)
    assert re.match(r"no, proven: positive weights on \d+ pairs of a row and another cl", rows["separable"])
    assert rows["classes"] == "setosa, versicolor, virginica; each against the rest"
    assert rows["fitted instead"].startswith("a soft margin in l2, of each class against the rest (squared")
    model = Model.load("m.npz")
    assert len(model.proofs) == 1
    assert model.proofs[0].multi_class == "joint"
    data = prgd.datasets.load("iris.csv")
    assert model.proofs[0].check(data.X, data.y).is_valid
    assert facts("predict", "m.npz", "iris.csv")["accuracy"] > 0.9
    said = call("fit", "iris.csv", "--multi-class", "joint", "--quiet").stderr
    assert said.startswith("Warning: no hyperplane separates all classes jointly: a soft margin")
    found = facts("fit", "iris.csv", "--multi-class", "joint", "--fallback", "raise", code=3)
    assert found["upper_bound"] == 0.0
    assert found["is_separable"] is False


def test_a_joint_fit_is_begun_from():
    write_three()
    call("fit", "three.csv", "--multi-class", "joint", "--quiet", "--out", "m.npz")
    call("fit", "three.csv", "--multi-class", "joint", "--start", "m.npz", "--quiet")
    said = call("fit", "three.csv", "--start", "m.npz", code=2).stderr
    assert "--start is for two classes, or --multi-class joint; three has 3." in said


def test_several_classes_out_of_core():
    X, y = write_three()
    write_svm("three.svm", X, np.searchsorted(NAMES, y))
    for given in (["--multi-class", "joint"], []):
        parts, whole = (facts("fit", "three.svm", *given, *more) for more in (["--out-of-core"], []))
        for a, b in zip(parts.get("results", [parts]), whole.get("results", [whole]), strict=True):
            assert a["margin"] == pytest.approx(b["margin"], rel=1e-6)
            assert a["status"] == "CERTIFIED"


# Run and race


@pytest.mark.slow
@pytest.mark.cover
def test_run_of_several_classes_is_joint():
    X, y = write_three()
    given = ["run", "three.csv", "--norm", "linf", "--algorithm", "steepest-descent", "--quiet"]
    call(*given, "--steps", 20, "--out", "half")
    call(*given, "--steps", 40, "--resume", "half")
    call(*given, "--steps", 40, "--out", "whole")
    half, whole = (prgd.Result.load(f"{folder}/result.npz") for folder in ("half", "whole"))
    np.testing.assert_array_equal(half.w, whole.w)
    assert whole.w.shape == (3, 3)
    assert whole.check(X, y).is_valid
    assert facts("predict", "whole/result.npz", "three.csv")["accuracy"] == 1.0
    found = facts("run", "three.csv", "--norm", "spectral", "--steps", 5, "--warm-up", "steepest-descent:30")
    assert found["multi_class"] == "joint"
    assert found["warm_up"]["t"] == 30


@pytest.mark.slow
def test_prgd_begins_with_steps_in_its_norm():
    write_three()
    rows = table(call("run", "three.csv", "--norm", "l1", "--steps", 5).stdout)
    assert rows["warm-up"] == f"{prgd.algorithms.SteepestDescent()}, 1,000 steps"
    assert "step sizes in units of 1 / max ||z_i||_*^2" in rows["problem"]
    given = ["--step-norm", "linf", "--steps", 5, "--warm-up", "steepest-descent:20"]
    rows = table(call("run", "three.csv", *given).stdout)
    assert rows["warm-up"].startswith("SteepestDescent(eta=1.0, norm=Linf()")
    assert "largest margin in the l2 norm" in rows["problem"]
    assert rows["algorithm"].endswith("norm=Linf())")


@pytest.mark.parametrize(
    ("given", "unit"),
    [
        ("--norm l1 --algorithm ngd", "1 / max ||x_i||^2 (steps in l2)"),
        ("--norm l1 --algorithm adam", "1 / max ||z_i||_* (steps in linf)"),
        ("--norm 1.5 --algorithm mirror-descent", "1 / max ||z_i||_*^3 (steps in lp:3)"),
        ("--norm l1 --algorithm steepest-descent --normalized", "1 / max ||z_i||_*"),
        ("--norm L3 --algorithm steepest-descent", "1 / max ||z_i||_*^2"),
        ("--algorithm ngd", "1 / max ||x_i||^2"),
    ],
)
def test_the_unit_of_step_sizes_is_that_of_the_steps(given, unit):
    write_three("two.csv", classes=2)
    rows = table(call("run", "two.csv", "--steps", 2, *given.split()).stdout)
    assert rows["problem"].endswith(f"step sizes in units of {unit}")
    assert "norm=None" not in rows["algorithm"]


def test_a_result_that_does_not_separate_yet_asks_for_more_steps():
    Path("two.csv").write_text("a,b,label\n1,2,yes\n-1,3,no\n", encoding="utf-8")
    call("run", "two.csv", "--algorithm", "steepest-descent", "--steps", 0, "--out", "r", "--quiet")
    said = call("predict", "r/result.npz", "two.csv", code=2).stderr
    assert "No iterate separates the classes so far: give prgd run more --steps, or use prgd fit." in said


@pytest.mark.parametrize(
    ("algorithm", "warm_up", "norm", "advice"),
    [
        (prgd.PRGD(), prgd.GD(), "l2", ", or --warm-up ngd:1000;"),
        (prgd.PRGD(), prgd.NGD(), "l2", "polynomial:5,0.6; prgd fit"),
        (prgd.PRGD(), prgd.NGD(), "linf", ", or --warm-up steepest-descent:1000;"),
        (prgd.PRGD(norm="linf"), prgd.algorithms.SteepestDescent(), "l2", "polynomial:5,0.6; prgd fit"),
    ],
)
def test_advice_after_a_standstill(algorithm, warm_up, norm, advice):
    given = (7, 0.5, algorithm, warm_up, as_norm(norm))
    assert advice in stalled_text(*given)
    quoted = '"prgd --radius polynomial:0.6 --phases polynomial:5,0.6" (in quotes)'
    assert f"Use {quoted}" in stalled_text(*given, is_race=True)
