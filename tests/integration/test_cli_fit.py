"""``prgd fit``, ``prgd predict`` and ``prgd separability``."""

import csv
import io
import shlex
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import Terminal, call, facts, interrupt_after, posix, table

import prgd

X = np.array([[0.5, 1.0], [0.25, 2.0], [-0.5, -1.5], [-1.0, 0.5], [2.0, -0.25]])
KIND = ["b", "b", "a", "a", "b"]


def write_files() -> None:
    import pandas as pd

    np.savez("rows.npz", X=X, y=np.array(KIND))
    frame = pd.DataFrame(X, columns=["u", "v"])
    frame.assign(kind=KIND).to_csv("rows.csv", index=False)
    frame.assign(kind=KIND).to_parquet("rows.parquet")
    lines = [f"{2 if k == 'b' else 1} 1:{a} 2:{b}" for (a, b), k in zip(X, KIND, strict=True)]
    Path("rows.svm").write_text("\n".join(lines) + "\n")
    np.save("rows.npy", X * np.where(np.array(KIND) == "b", 1, -1)[:, None])
    frame.to_csv("bare.csv", index=False)
    frame.to_csv("headless.csv", index=False, header=False)
    frame.to_parquet("bare.parquet")
    np.savez("bare.npz", X=X)
    np.save("bare.npy", X)
    sp.save_npz("sparse.npz", sp.csr_array(X))


def model(file: str = "model.npz") -> prgd.Result:
    return prgd.Result.load(file)


# Fit


def test_fit_prints_a_table_and_writes_a_model():
    Path("new").mkdir()
    rows = table(call("fit", "digits:0,1", "--tol", 1e-8, "--out", "new/model.npz").stdout)
    data = prgd.datasets.digits(0, 1)
    result = prgd.max_margin(data.X, data.y, tol=1e-8)
    assert rows["data"] == "digit-01, 360 x 64, dense"
    assert rows["classes"] == "-1 (score < 0), 1 (score > 0)"
    assert rows["status"] == prgd.Status.CERTIFIED.value
    assert float(rows["margin, lower bound"]) == pytest.approx(result.margin, rel=1e-8)
    assert float(rows["margin, upper bound"]) == pytest.approx(result.upper_bound, rel=1e-8)
    assert float(rows["relative gap"]) <= 1e-8
    assert rows["support vectors"] == f"{result.support.size} of 360 rows"
    assert float(rows["passes over the data"]) > 1
    assert rows["model"] == "new/model.npz"
    kept = model("new/model.npz")
    assert kept.coef.tobytes() == result.coef.tobytes()
    assert kept.classes.tolist() == [-1.0, 1.0]
    assert kept.status is prgd.Status.CERTIFIED
    assert kept.coef.size == 64
    with np.load("new/model.npz", allow_pickle=False) as arrays:
        assert not any(array.dtype.hasobject for array in arrays.values())
    assert kept.check(data.X, data.y).is_valid  # from the file alone


def test_every_kind_of_file_gives_the_same_model():
    write_files()
    parts = ["--out-of-core", "--max-memory", "16B"]
    commands = [
        ["rows.npz"],
        ["rows.csv", "--label", "kind"],
        ["rows.parquet", "--label", "kind"],
        ["rows.parquet", "--label", "kind", *parts],
        ["rows.svm", "--threads", 1],
        ["rows.svm", *parts],
    ]
    for command in commands:
        rows = table(call("fit", *command, "--out", "model.npz", "--force").stdout)
        held = "read in parts" if "--out-of-core" in command else "sparse" if "svm" in command[0] else "dense"
        assert rows["data"] == f"rows, 5 x 2, {held}"
        kept = model()
        assert kept.classes.tolist() == ([1.0, 2.0] if command[0] == "rows.svm" else ["a", "b"])
        np.testing.assert_allclose(kept.coef, prgd.max_margin(X, KIND).coef, rtol=1e-5)
    call("fit", "rows.npy", *parts, "--no-intercept", "--out", "model.npz", "--force")
    np.testing.assert_allclose(model().coef, prgd.max_margin(X, KIND, fit_intercept=False).coef, rtol=1e-5)
    assert call("predict", "model.npz", "rows.npy").stdout.split() == ["prediction", *["1"] * 5]


def test_exit_code_3_where_the_data_are_not_separable_and_nothing_else_is_wanted():
    Path("same.csv").write_text("a,b,y\n1,2,0\n1,2,1\n2,5,1\n")
    given = ["fit", "same.csv", "--fallback", "raise"]
    rows = table(call(*given, "--out", "model.npz", code=3).stdout)
    assert rows["status"] == prgd.Status.QUASI_SEPARABLE.value
    assert "no hyperplane was found that separates" in rows["margin, lower bound"]
    assert rows["relative gap"].startswith("none")
    assert "weights on 2 rows give both classes the same weighted mean" in rows["separable"]
    assert model().status is prgd.Status.QUASI_SEPARABLE
    said = call("predict", "model.npz", "same.csv", code=2).stderr
    assert said.startswith("Error: model.npz: holds no classifier to predict with.")
    rows = table(call(*given, "--no-intercept", code=3).stdout)
    assert "average y_i x_i to zero, so no hyperplane through the origin" in rows["separable"]


def test_ctrl_c_keeps_the_best_interval(monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        found = call("fit", "digits:0,1", "--tol", 1e-16, "--out", "model.npz", code=130)
    assert table(found.stdout)["status"] == prgd.Status.INTERRUPTED.value
    assert found.stderr == "Interrupted; model.npz holds the best bounds.\n"
    kept = model()
    assert kept.status is prgd.Status.INTERRUPTED
    assert 0 < kept.margin < kept.upper_bound
    assert call("predict", "model.npz", "digits:0,1").stderr.startswith("accuracy: 1 ")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        assert "nothing was saved" in call("fit", "digits:0,1", "--tol", 1e-16, "--quiet", code=130).stderr
    interrupt_after(monkeypatch, 0)
    assert call("fit", "digits:0,1", code=130).stderr == "Interrupted.\n"


# Predict


@pytest.mark.parametrize("scores", [False, True])
def test_predict_writes_the_classes_of_the_user(scores):
    write_files()
    call("fit", "rows.csv", "--label", "kind", "--out", "model.npz")
    args = ["predict", "model.npz", "rows.csv", "--label", "kind", *(["--scores"] if scores else [])]
    found = call(*args)
    assert found.stderr == "accuracy: 1 (5 of 5)\n"
    rows = list(csv.DictReader(io.StringIO(found.stdout)))
    assert [row["prediction"] for row in rows] == KIND
    if scores:
        expected = prgd.max_margin(X, KIND)
        values = [float(row["score"]) for row in rows]
        np.testing.assert_allclose(values, X @ expected.coef + expected.intercept, rtol=1e-5)
    said = table(call(*args, "--out", "p.csv").stdout)
    assert said == {"rows": "5", "predictions": "a: 2, b: 3", "accuracy": "1 (5 of 5)", "file": "p.csv"}
    written = list(csv.DictReader(io.StringIO(Path("p.csv").read_text())))
    assert list(written[0]) == ["u", "v", "kind", "prediction", "score"]
    assert [row["prediction"] for row in written] == KIND


def test_the_error_of_a_messy_table_has_the_command_that_fits_it():
    cells = [
        (f"C{k}", f"2024-01-{k + 10}", ["Oslo", "Rome"][k % 2], k, ["no", "yes"][k > 9]) for k in range(20)
    ]
    lines = ["id,day,town,age,left", *(",".join(map(str, row)) for row in cells)]
    Path("messy.csv").write_text("\n".join(lines).replace("C7,2024-01-17,Rome,7", "C7,2024-01-17,Rome,"))
    said = call("fit", "messy.csv", "--label", "left", code=2).stderr
    assert "text in id (20 texts), day (dates), town (2 texts) and missing values in age (1 rows)" in said
    formula = ["fit", "messy.csv", "--formula", "left ~ poly(age, 2) + town", "--missing", "drop"]
    for fit in (shlex.split(said.partition(": prgd ")[2]), formula):
        call(*fit, "--scale", "--out", "m.npz", "--force")
        call("predict", "m.npz", "messy.csv", "--id", "id", "--out", "p.csv")
        rows = list(csv.reader(io.StringIO(Path("p.csv").read_text())))
        assert [row[:2] for row in rows[1:]] == [[r[0], "" if r[3] == 7 else r[4]] for r in cells]
        assert facts("predict", "m.npz", "messy.csv")["accuracy"] == 1.0
        Path("comma.csv").write_text('a,town,left\n"1,5",Rome,0\n"2,5",Oslo,1\n')
        said = call("fit", "comma.csv", "--label", "left", "--encode", code=2).stderr
        assert "Give --decimal ','" in said
        Path("new.csv").write_text("age,town\n3,Paris\n")
        assert (
            "'Paris' is none of those of the fit, Oslo, Rome"
            in call("predict", "m.npz", "new.csv", code=2).stderr
        )


def test_predict_with_and_without_labels():
    write_files()
    call("fit", "rows.npz", "--out", "model.npz")
    for file in ("bare.csv", "headless.csv", "bare.parquet", "bare.npz", "bare.npy", "sparse.npz"):
        found = call("predict", "model.npz", file)
        assert (found.stderr, found.stdout.split()) == ("", ["prediction", *KIND])
    for given in (["rows.npz"], ["rows.parquet", "--label", "kind"], ["rows.csv", "--label", "kind"]):
        assert call("predict", "model.npz", *given).stderr == "accuracy: 1 (5 of 5)\n"
    said = call("predict", "model.npz", "rows.npz", "--id", "u", "--out", "p.csv", code=2).stderr
    assert said == "Error: --id takes a column of a file with a header; rows.npz is none.\n"
    # LIBSVM text may lack the last features, and labels of which none is a class of the model are no error.
    Path("short.svm").write_text("0 1:5\n0 1:-5\n")
    found = call("predict", "model.npz", "short.svm")
    assert found.stdout.split() == ["prediction", "b", "a"]
    assert found.stderr.startswith("accuracy: none: no label of the data is a class of the model")
    # a headless file may still end in a label
    Path("more.csv").write_text("0.5,1.0,b\n-0.5,-1.5,b\n")
    note, accuracy = call("predict", "model.npz", "more.csv").stderr.splitlines()
    assert accuracy == "accuracy: 0.5 (1 of 2)"
    assert "no header: its last column, 2 counted from 0, is taken as the label" in note


def test_the_result_of_a_run_is_a_model():
    call("run", "digits:0,1", "--algorithm", "ngd", "--steps", 50, "--intercept", "--out", "out", "--quiet")
    assert call("predict", "out/result.npz", "digits:0,1").stderr == "accuracy: 1 (360 of 360)\n"


def test_classes_with_commas_are_quoted():
    Path("odd.csv").write_text('a,y\n1,"x, 1"\n-1,"x ""2"""\n')
    call("fit", "odd.csv", "--out", "model.npz")
    call("predict", "model.npz", "odd.csv", "--out", "p.csv")
    with Path("p.csv").open(newline="") as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == ["x, 1", 'x "2"']


# Separability


def test_separability_as_json():
    Path("same.csv").write_text("a,b,y\n1,2,0\n1,2,1\n2,4,1\n")
    found = facts("separability", "same.csv")
    assert (found["verdict"], found["is_separable"]) == ("quasi-separable", False)
    assert found["dual_weights"] == {"rows": [0, 1], "values": [0.5, 0.5]}
    assert (found["separated_rows"], found["boundary_rows"]) == ([2], [0, 1])
    assert "through the origin" in call("separability", "same.csv", "--no-intercept").stdout
    found = facts("separability", "toy:0.3")
    assert (found["verdict"], found["is_separable"], len(found["coef"])) == ("separable", True, 2)
    assert found["residual"] is found["dual_weights"] is None


def test_separability_out_of_core():
    write_files()
    found = call("separability", "rows.svm", "--out-of-core", "--max-memory", "16B").stdout
    assert found.startswith("separable")


def test_separability_undecided(monkeypatch):
    from prgd.separation.search import Search

    monkeypatch.setattr(Search, "find_proof", lambda self: None)
    assert call("separability", "toy:0.3", code=1).stdout.startswith("undecided")


# In processes of their own


@pytest.mark.slow
@posix
def test_terminal_shows_a_live_line_and_keeps_the_interval_after_ctrl_c():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, 400))
    y = np.where(rows @ rng.standard_normal(400) > 0, 1.0, -1.0)
    np.savez("rows.npz", X=rows, y=y)
    terminal = Terminal("fit", "rows.npz", "--tol", "1e-15", "--out", "model.npz")
    terminal.interrupt_after(r"fit  step \d+  -?[\d.e-]+ <= gamma_star <= [\d.e-]+  gap \d")
    assert "model.npz holds the best bounds" in terminal.seen
    assert model().status is prgd.Status.INTERRUPTED
    assert model().check(rows, y).is_valid
