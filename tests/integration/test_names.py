"""Names of columns and messy files, through the command line: what a user means is what is computed."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import grid
import numpy as np
import pandas as pd
import pytest
from command_line import call, facts, pipe, refused, table

import prgd
from prgd.datasets import load
from prgd.estimators.model import Model

NAMES = ("NV", "age", "dose")
N = 40
RIGHT = f"accuracy: 1 ({N} of {N})\n"


def frame() -> pd.DataFrame:
    """Return rows that a hyperplane separates, with their labels in the column y."""
    rng = np.random.default_rng(0)
    X, normal = rng.normal(size=(N, 3)), np.array([1.0, 2.0, -1.0])
    y = np.where(X @ normal > 0, 1, -1)
    return pd.DataFrame(X + 0.3 * np.outer(y, normal), columns=list(NAMES)).assign(y=y)


def write(name: str = "rows.csv", data: pd.DataFrame | None = None, **options) -> pd.DataFrame:
    data = frame() if data is None else data
    if name.endswith(".parquet"):
        data.to_parquet(name, index=False)
    else:
        data.to_csv(name, index=False, **options)
    return data


def fit(*args: object) -> tuple[prgd.Result, str]:
    """Return the model of ``prgd fit`` and what it said on standard error."""
    said = call("fit", *args, "--out", "fitted.npz", "--force").stderr
    return prgd.Result.load("fitted.npz"), said


def same_fit(a: prgd.Result, b: prgd.Result) -> None:
    """The bounds of two fits overlap, and their hyperplanes agree, name by name."""
    assert a.feature_names == b.feature_names
    assert a.classes.tolist() == b.classes.tolist()
    assert a.margin <= b.upper_bound * (1 + 1e-12)
    assert b.margin <= a.upper_bound * (1 + 1e-12)
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-2)


# Names are matched on prediction


@pytest.mark.parametrize("model", ["rows.csv", "rows.parquet"])
def test_columns_are_matched_by_name(model):
    data = write(model)
    assert fit(model)[0].feature_names == NAMES
    plain = call("predict", "fitted.npz", model, "--scores").stdout
    for other, options in (("other.csv", {}), ("other.parquet", {}), ("other.tsv", {"sep": "\t"})):
        write(other, data[["y", "dose", "NV", "age"]], **options)
        found = call("predict", "fitted.npz", other, "--scores")
        assert (found.stderr, found.stdout) == (RIGHT, plain)
    for file in ("lacks.csv", "lacks.parquet"):
        write(file, data.drop(columns=["age", "dose"]).assign(height=1.0))
        said = refused("predict", "fitted.npz", file)
        assert "lacks 2 of the 3 columns that the model was fitted on: age, dose." in said
        assert "Columns: NV, height" in said
    write("more.csv", data.assign(city="Bern", sex="f"))
    note, accuracy = call("predict", "fitted.npz", "more.csv").stderr.splitlines()
    assert note.startswith("Note: more.csv: the model was not fitted on city, sex, which are ignored.")
    assert f"{accuracy}\n" == RIGHT
    # Labels that are no classes of the model are noted, and count as wrong.
    data.loc[:2, "y"] = 7
    write("other.csv", data)
    note, accuracy = call("predict", "fitted.npz", "other.csv").stderr.splitlines()
    assert note.startswith(f"Note: 3 of {N} rows have labels that the model does not know (7); they count")
    assert accuracy.endswith(f"({N - 3} of {N})")


def test_without_names_on_one_side_columns_are_counted():
    data = write()
    fit("rows.csv")
    np.savez("rows.npz", X=data[list(NAMES)].to_numpy(), y=data.y)
    write("bare.csv", data[list(NAMES)], header=False)
    assert call("predict", "fitted.npz", "rows.npz").stderr == RIGHT
    assert call("predict", "fitted.npz", "bare.csv").stderr == ""
    np.savez("narrow.npz", X=np.ones((2, 2)))
    assert "2 features, and the model was fitted on 3" in refused("predict", "fitted.npz", "narrow.npz")
    fit("rows.npz")
    assert call("predict", "fitted.npz", "rows.csv").stderr == RIGHT


# Names in every output


def test_commands_show_and_keep_the_names():
    write()
    found = call("separability", "rows.csv").stdout
    assert "age (+" in found
    assert "x0" not in found
    assert facts("separability", "rows.csv")["feature_names"] == list(NAMES)
    assert any(name in call("separability", "cancer").stdout for name in prgd.datasets.cancer().feature_names)
    call("run", "rows.csv", "--algorithm", "ngd", "--steps", 5, "--out", "out")
    assert prgd.Result.load("out/result.npz").feature_names == NAMES


def test_names_of_frames_go_through_the_library(tmp_path):
    data = frame()
    X, y = data[list(NAMES)], data.y
    result = prgd.max_margin(X, y)
    assert result.feature_names == prgd.Problem(X, y).rows.feature_names == NAMES
    found = prgd.separability(X, y)
    assert found.feature_names == NAMES
    assert "NV" in str(found)
    result.save(tmp_path / "result.npz")
    assert prgd.Result.load(tmp_path / "result.npz").feature_names == NAMES
    # the certificate is proven again from columns in any order, and from plain arrays in the same one
    assert result.check(X[["dose", "NV", "age"]], y).is_valid
    assert result.check(X.to_numpy(), y).is_valid
    with pytest.raises(ValueError, match=r"lacks 1 of the 3 columns .* dose"):
        result.check(X.drop(columns="dose"), y)
    assert prgd.max_margin(X.to_numpy(), y).feature_names is None
    assert prgd.max_margin(pd.DataFrame(X.to_numpy()), y).feature_names is None


def test_frames_and_arrays_are_not_copied():
    X = np.arange(12.0).reshape(6, 2)
    table = pd.DataFrame(X, columns=["a", "b"], copy=False)
    rows = prgd.Problem(table, [1, -1] * 3, scale="none").rows
    assert rows.feature_names == ("a", "b")
    assert np.shares_memory(rows._X, X)


# Columns that are chosen, and that look like no features


@pytest.mark.parametrize("file", ["rows.csv", "rows.parquet"])
def test_columns_by_name_or_position(file):
    data = frame().assign(city="Bern")
    write(file, data[["city", "dose", "NV", "age", "y"]])
    expected = prgd.max_margin(data[["NV", "age", "dose"]], data.y)
    for choice in (["--features", "NV,age,dose"], ["--features", "2,age,-4"]):
        same_fit(fit(file, *choice)[0], expected)
    for choice in (["--drop", "city"], ["--drop", "0"]):
        assert fit(file, *choice)[0].feature_names == ("dose", "NV", "age")
    assert fit(file, "--features", "NV,age,dose", "--label", -1)[0].feature_names == NAMES
    for choice, said in [
        (["--drop", "town"], "expected one column called town, found none. Columns: city, dose, NV, age, y."),
        (["--drop", "7"], "expected a column from 0 to 4, got 7"),
        (["--drop", "city", "--features", "NV"], "not both (--features, --drop)"),
        (["--features", "NV,y"], "column 'y' is the label"),
        (["--features", "NV,NV"], "named twice"),
        (["--features", "NV,,age"], "--features expects columns separated by commas"),
        (["--drop", "city,NV,age,dose"], "no column is left as a feature"),
    ]:
        assert said in refused("fit", file, *choice)
    write("rows.csv", frame().set_axis(["1", "2", "3", "y"], axis=1))
    said = refused("fit", "rows.csv", "--drop", "1")
    assert "1 is the name of one column and the position of another, '2'" in said


def test_a_column_that_numbers_the_rows_is_named():
    data = frame()
    data.to_csv("index.csv")
    result, said = fit("index.csv")
    assert said == (
        "Note: column 'Unnamed: 0' seems to number the rows, and is used as a feature. "
        "To leave it out: --drop 'Unnamed: 0'\n"
    )
    assert result.feature_names == ("Unnamed: 0", *NAMES)
    result, said = fit("index.csv", "--drop", "Unnamed: 0")
    assert (result.feature_names, said) == (NAMES, "")
    for name in ("id", "patient_id", "Index"):
        write("rows.csv", data.assign(**{name: np.arange(N)}))
        assert f"--drop {name}\n" in fit("rows.csv")[1]
    write("rows.parquet", data.assign(id=np.arange(N)))
    assert "--drop id\n" in fit("rows.parquet", "--out-of-core")[1]
    # no note on an id that is none, on a name that is none, and with --quiet
    write("rows.csv", data.assign(id=np.arange(N) % 7, grid=np.arange(N)))
    assert fit("rows.csv")[1] == ""
    assert fit("index.csv", "--quiet")[1] == ""


def test_a_file_without_a_header_says_what_its_label_is():
    data = write("bare.csv", header=False)
    result, said = fit("bare.csv")
    counts = data.y.value_counts()
    first = data.y[0]
    assert said.startswith("Note: bare.csv has no header: its last column, 3 counted from 0, is taken as the")
    assert f"{first} ({counts[first]} rows), {-first} ({counts[-first]} rows)" in said
    assert "--label" in said
    assert result.feature_names is None
    assert fit("bare.csv", "--label", 3)[1] == ""


# Labels apart


@pytest.mark.parametrize("labels", ["y.npy", "y.txt", "y.csv"])
@pytest.mark.parametrize("way", [[], ["--out-of-core"]])
def test_labels_of_another_file(labels, way):
    data = frame()
    kinds = np.where(data.y > 0, "yes", "no")
    np.save("X.npy", data[list(NAMES)].to_numpy())
    if labels == "y.npy":
        np.save(labels, kinds)
    else:
        pd.Series(kinds, name="y").to_csv(labels, index=False, header=labels == "y.csv")
    result, _ = fit("X.npy", "--labels", labels, *way)
    same_fit(result, prgd.max_margin(data[list(NAMES)].to_numpy(), kinds))
    assert call("predict", "fitted.npz", "X.npy", "--labels", labels).stderr == RIGHT


@pytest.mark.parametrize("labels", ["Y.npy", "Y.csv"])
def test_label_sets_are_fitted_together_and_predicted(labels):
    data = frame()
    X, Y = data[list(NAMES)].to_numpy(), np.stack([data.y, -data.y, data.y], axis=1)
    Y[0, 2] = 0
    np.save("X.npy", X)
    np.save("Y.npy", Y)
    np.savetxt("Y.csv", Y, fmt="%d", delimiter=",", header="a,b,c", comments="")
    args = ("X.npy", "--labels", labels)
    found = facts("fit", *args, "--out", "sets.npz")["results"]
    batch, alone = prgd.BatchResult.load("sets.npz"), prgd.max_margin_batch(X, Y)
    assert [result["margin"] for result in found] == batch.margin.tolist() == pytest.approx(alone.margin)
    said = call("predict", "sets.npz", *args, "--out", "predicted.csv")
    assert "accuracy: 1 on average; of each label set 1, 1, 1" in said.stdout
    predicted = pd.read_csv("predicted.csv", dtype=str)  # as numbers, old versions of pandas round them
    assert (predicted.filter(like="prediction").to_numpy(float) == batch.predict(X)).all()
    assert (predicted.filter(like="score").to_numpy(float) == batch.decision_function(X)).all()
    np.save(labels := "Y.npy", np.stack([data.y, np.arange(len(data)) % 2 * 2 - 1], axis=1))
    said = call("fit", "X.npy", "--labels", labels, "--out", "mixed.npz")
    assert "no hyperplane separates the label sets [1] (counted from 0); soft margins" in said.stderr
    assert prgd.BatchResult.load("mixed.npz").C[0] == np.inf > prgd.BatchResult.load("mixed.npz").C[1]


def test_labels_that_do_not_fit_are_refused():
    data = write()
    np.save("X.npy", data[list(NAMES)].to_numpy())
    np.savez("rows.npz", X=np.eye(2), y=[0, 1])
    Path("rows.svm").write_text("1 1:1\n-1 1:-1\n")
    np.save("y.npy", np.ones(3))
    Path("empty.txt").write_text("")
    Path("Y.csv").write_text("1,-1\n" * 40)
    for args, said in [
        ("X.npy", "Give a file of them with --labels FILE"),
        ("X.npy --out-of-core", "Give a file of them with --labels FILE"),
        ("X.npy --labels y.npy", "y.npy: has 3 labels, and X.npy has 40 rows"),
        ("X.npy --labels y.npy --out-of-core", "one label for each of the 40 rows; got 3"),
        ("X.npy --labels X.npy", "The label sets must hold 1, -1, and 0 for rows that are left out"),
        ("X.npy --labels Y.csv", "Column 1 of Y must hold both classes"),
        ("X.npy --labels Y.csv --norm l1", "--norm is for one label for each row; Y.csv has several."),
        (
            "X.npy --labels Y.csv --out-of-core",
            "Y.csv has 2 labels for each row; expected one. prgd fit takes",
        ),
        ("X.npy --labels none.npy", "Expected a file of labels at none.npy"),
        ("X.npy --labels empty.txt", "empty.txt, line 1: expected a label"),
        ("rows.csv --labels y.npy", "column 'y' beside the labels of another file"),
        ("rows.npz --labels y.npy", "labels y of its own"),
        ("rows.svm --labels y.npy", "LIBSVM text has its label in every line"),
        ("digits:0,1 --labels y.npy", "--labels is for files"),
    ]:
        assert said in refused("fit", *args.split())


# In parts and on a cluster


@pytest.mark.parametrize("label", ["y", "Class", "kind"])
def test_out_of_core_equals_the_plain_fit(label):
    write("rows.parquet", frame().rename(columns={"y": label}))
    given = ["--label", "kind"] if label == "kind" else []
    plain, _ = fit("rows.parquet", *given)
    parts, _ = fit("rows.parquet", "--out-of-core", *given)
    same_fit(parts, plain)
    few, _ = fit("rows.parquet", "--out-of-core", *given, "--drop", "dose", "--tol", 0.5)
    assert few.feature_names == ("NV", "age")
    found = call("fit", "rows.parquet", "--out-of-core", "--label", "z", code=2).stderr
    assert f"expected one label column called z, found none. Columns: NV, age, dose, {label}." in found


def test_parts_of_a_table_are_joined_by_name(tmp_path):
    data = frame()
    write("a.parquet", data[:20])
    write("b.parquet", data[20:][["y", "dose", "NV", "age"]])
    rows = prgd.open_rows(["a.parquet", "b.parquet"])
    assert rows.feature_names == NAMES
    np.testing.assert_array_equal(rows.take(np.arange(N)), data[list(NAMES)].to_numpy())
    write("b.parquet", data[20:].rename(columns={"dose": "height"}))
    with pytest.raises(ValueError, match=r"b.parquet lacks dose, and it has beside them height"):
        prgd.open_rows(["a.parquet", "b.parquet"])


def test_blocks_of_frames_keep_their_names():
    data = frame()
    X, y = data[list(NAMES)], data.y.to_numpy()
    rows = prgd.rows.ChunkedRows.from_blocks([(X[:20], y[:20]), (X[20:], y[20:])])
    assert rows.feature_names == NAMES
    with pytest.raises(ValueError, match="their names differ"):
        prgd.rows.ChunkedRows.from_blocks([(X[:20], y[:20]), (X[20:][["age", "NV", "dose"]], y[20:])])


@pytest.mark.slow
def test_cluster_equals_the_plain_fit_without_tracebacks():
    pytest.importorskip("distributed")
    data = frame()
    write("a.parquet", data[:20].rename(columns={"y": "Class"}))
    write("b.parquet", data[20:][["y", "dose", "NV", "age"]].rename(columns={"y": "Class"}))
    write("rows.parquet", data)
    result, _ = fit("[ab].parquet", "--cluster", "local")
    same_fit(result, fit("rows.parquet")[0])
    address = grid.local_client().scheduler.address  # One cluster serves several fits, and is there already.
    result, _ = fit("[ab].parquet", "--cluster", address, "--out-of-core", "--drop", "dose", "--tol", 0.5)
    assert result.feature_names == ("NV", "age")
    np.save("X.npy", data[list(NAMES)].to_numpy())
    np.savetxt("y.txt", data.y, fmt="%d")
    result, _ = fit("X.npy", "--labels", "y.txt", "--cluster", address)
    same_fit(result, fit("X.npy", "--labels", "y.txt")[0])
    for args, said in [
        (["X.npy", "--labels", "X.npy"], "X.npy has 3 labels for each row; expected one"),
        (["X.npy", "--label", "y"], "the label column can be chosen in Parquet files only"),
    ]:
        assert said in call("fit", *args, "--cluster", address, code=2).stderr
    out, err = pipe("fit", "[ab].parquet", "--label", "z", "--cluster", "local", code=2)
    assert out == ""
    assert "expected one label column called z, found none" in err
    assert "Traceback" not in err


# Text as people have it


@pytest.mark.parametrize(
    ("name", "writing", "reading"),
    [
        ("rows.tsv", {"sep": "\t"}, []),
        ("rows.csv", {"sep": "\t"}, []),
        ("rows.csv", {"sep": ";"}, []),
        ("rows.csv", {"sep": "|"}, []),
        ("rows.csv", {"sep": ":"}, ["--separator", ":"]),
        ("rows.csv", {"sep": ";", "decimal": ","}, ["--decimal", ","]),
        ("rows.tsv", {"sep": "\t", "decimal": ","}, ["--decimal", ","]),
        ("rows.data", {}, ["--format", "csv"]),
        ("rows.txt", {"sep": "\t"}, []),
        ("rows.txt", {"sep": " "}, []),
        ("rows.dat", {"sep": " "}, ["--format", "csv"]),
    ],
)
def test_tables_of_many_kinds(name, writing, reading):
    data = write(name, **writing)
    result, said = fit(name, *reading)
    assert said == ""
    same_fit(result, prgd.max_margin(data[list(NAMES)], data.y.astype(float)))


def test_decimal_commas_are_named():
    write(sep=";", decimal=",")
    said = call("fit", "rows.csv", code=2).stderr
    assert "rows.csv, line 2, column 'NV': expected a finite number, got '" in said
    assert said.endswith("If the comma is its decimal mark, pass --decimal ','.\n")
    Path("points.csv").write_text("a;y\n1.234;1\n2,5;0\n")
    assert "line 2, column 'a'" in call("fit", "points.csv", "--decimal", ",", code=2).stderr


def test_true_and_false_are_one_and_zero():
    Path("rows.csv").write_text("flag,x,y\nTrue,1,a\nFALSE,2,b\ntrue,?,b\nfalse,4,a\n")
    data = load("rows.csv", missing="drop")
    assert data.X.tolist() == [[1, 1], [0, 2], [0, 4]]
    assert data.y.tolist() == ["a", "b", "a"]
    Path("rows.csv").write_text("flag,x,y\n1,1,a\nFalse,2,b\n2.5,2,b\n")
    with pytest.raises(ValueError, match=r"column 'flag': has True or False in line 3 and 2.5 in line 4"):
        load("rows.csv")
    Path("rows.csv").write_text("answer,x,y\nyes,1,a\nno,2,b\n")
    with pytest.raises(ValueError, match=r"line 2, column 'answer': .* got 'yes'"):
        load("rows.csv")


@pytest.mark.parametrize("cell", ["", "NA", "nan", "?", "n/a", "null"])
def test_missing_values(cell):
    Path("rows.csv").write_text(f"a,b,y\n1,5,0\n{cell},7,1\n3,{cell},1\n4,9,0\n")
    for command in ("fit", "separability"):
        said = call(command, "rows.csv", code=2).stderr
        assert "rows.csv, line 3, column 'a': expected a finite number, got" in said
        assert "--missing drop (their rows) or --missing mean" in said
    assert load("rows.csv", missing="drop").X.tolist() == [[1, 5], [4, 9]]
    assert load("rows.csv", missing="mean").X.tolist() == [[1, 5], [8 / 3, 7], [3, 7], [4, 9]]
    said = call("separability", "rows.csv", "--missing", "drop", code=2).stderr
    assert said.splitlines()[0] == "Note: rows.csv: 2 of 4 rows have missing values and were dropped."
    said = call("separability", "rows.csv", "--missing", "mean").stderr
    assert said.startswith("Note: rows.csv: 2 of 4 rows have missing values; the means of their columns")


def test_missing_values_of_other_formats_and_of_labels():
    table = pd.DataFrame({"a": pd.array([1, None, 3, 4], dtype="Int64"), "y": [0, 1, 1, 0]})
    write("rows.parquet", table)
    with pytest.raises(ValueError, match=r"rows.parquet, row 1, column 'a': .* is missing"):
        load("rows.parquet")
    assert load("rows.parquet", missing="drop").X.tolist() == [[1], [3], [4]]
    np.savez("rows.npz", X=[[1.0, np.nan], [2.0, 3.0]], y=[0, 1])
    assert load("rows.npz", missing="mean").X.tolist() == [[1, 3], [2, 3]]
    Path("rows.csv").write_text("a,y\n1,u\n2,\n3,v\n")
    assert load("rows.csv", missing="drop").y.tolist() == ["u", "v"]
    with pytest.raises(ValueError, match="line 3, column 'y': expected a label, got ''"):
        load("rows.csv", missing="mean")
    Path("rows.csv").write_text("a,b,y\n1,,u\n2,,v\n")
    with pytest.raises(ValueError, match="column 'b': every value is missing"):
        load("rows.csv", missing="mean")
    with pytest.raises(ValueError, match="every row has a missing value"):
        load("rows.csv", missing="drop")
    said = call("fit", "rows.parquet", "--out-of-core", "--missing", "drop", code=2).stderr
    assert "--missing is for files that are read whole" in said


def test_predict_fills_in_the_means_of_the_fit():
    Path("train.csv").write_text("a,b,y\n0,1,no\n1,2,no\n,9,yes\n10,,yes\n11,8,yes\n")
    fitted, _ = fit("train.csv", "--missing", "mean")
    assert fitted.feature_names == ("a", "b")
    Path("rows.csv").write_text("b,a\n1,0\n5,\n")
    found = call("predict", "fitted.npz", "rows.csv", "--missing", "mean", "--scores")
    out, said = found.stdout, found.stderr
    score = float(out.splitlines()[2].split(",")[1])
    assert score == pytest.approx(fitted.coef @ [5.5, 5] + fitted.intercept)  # 5.5 is the mean of a in train
    assert "the means of the rows that the model was fitted on were filled in" in said
    # the neighbours of a row do not matter, nor that every value of a column is missing
    Path("one.csv").write_text("b,a\n5,\n")
    alone = call("predict", "fitted.npz", "one.csv", "--missing", "mean", "--scores").stdout
    assert alone.splitlines()[1] == out.splitlines()[2]
    # The means are kept for several classes too.
    Path("three.csv").write_text("a,y\n0,u\n1,u\n5,v\n6,v\n,w\n20,w\n21,w\n")
    call("fit", "three.csv", "--missing", "mean", "--out", "three.npz")
    assert Model.load("three.npz").feature_means.tolist() == [53 / 6]
    Path("wide.csv").write_text("1,,3,u\n1,2,3,v\n")
    said = call("predict", "three.npz", "wide.csv", "--missing", "mean", code=2).stderr
    assert "has 3 features, and the model was fitted on 1" in said


def test_predict_refuses_means_that_the_model_lacks():
    Path("train.csv").write_text("a,y\n0,no\n1,yes\n")
    fit("train.csv")
    Path("rows.csv").write_text("a\n1\n\n")
    said = call("predict", "fitted.npz", "rows.csv", "--missing", "mean", code=2).stderr
    assert "MODEL holds none: fit it with prgd fit --missing mean, or use --missing drop." in said


@pytest.mark.parametrize("file", ["rows.csv", "rows.parquet"])
def test_predictions_stay_beside_their_rows_when_some_are_dropped(file):
    data = write(data=frame())
    fit("rows.csv")
    whole = call("predict", "fitted.npz", "rows.csv", "--scores").stdout.splitlines()
    data = data.astype({"y": object})
    data.loc[3, "age"], data.loc[5, "y"] = np.nan, None
    write(file, data)
    given = ["fitted.npz", file, "--missing", "drop"]
    rows = table(call("predict", *given, "--scores", "--out", "p.csv").stdout)
    assert (rows["rows"], rows["accuracy"]) == (f"{N}, 2 of them dropped", f"1 ({N - 2} of {N - 2})")
    lines = [line.split(",", 4)[4] for line in Path("p.csv").read_text().splitlines()]
    assert lines == [*whole[:4], ",", whole[5], ",", *whole[7:]]
    found = facts("predict", *given)
    assert (found["n"], found["predictions"][3], found["decision_function"][3]) == (N, None, None)
    assert found["predictions"][2] == whole[3].split(",")[0]


# Cells that are no numbers


@pytest.mark.parametrize(
    ("cells", "given", "said"),
    [
        ("p0", [], "got 'p0': text. Leave the column out (--drop 'the id'), or encode it as numbers."),
        ("2024-05-01", [], "got '2024-05-01': text. Leave the column out (--drop 'the id')"),
        ("1e400", [], "got '1e400': infinite, or too large for its type of floating-point number."),
        ("inf", [], "got 'inf': infinite"),
        ("12345678901234567", [], "Leave the column out if it is an identifier (--drop 'the id'). Subtract"),
        ("1.000,5", ["--decimal", ","], "got '1.000,5'. Points as thousands separators are not read: remove"),
        ("01.02.2024", ["--decimal", ","], "got '01.02.2024': text."),
    ],
)
def test_a_cell_that_is_no_number_names_the_way_out(cells, given, said):
    Path("rows.csv").write_text(f"the id;x;y\n0;1;a\n{cells};2;b\n")
    found = refused("fit", "rows.csv", *given)
    assert "rows.csv, line 3, column 'the id': " in found
    assert said in found
    assert "dtype" not in found
    assert "missing" not in found


@pytest.mark.parametrize("file", ["rows.csv", "rows.parquet"])
def test_a_column_that_is_no_number_names_the_way_out(file):
    write(file, pd.DataFrame({"stage": ["I", "IV", "I"], "dead": [0, 1, 0]}))
    found = call("separability", file, "--label", "dead", code=2).stderr
    assert "(--drop stage), or encode it as numbers. Or give --formula 'y ~ age + stage'" in found
    write(file, pd.DataFrame({"id": [12345678901234567, 1], "x": [0.0, 1.0], "y": [0, 1]}))
    assert "(--drop id)" in call("fit", file, code=2).stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n", "rows.csv: the file is empty."),
        ("größe,y\n1,a\n".encode("latin1"), "got the byte 0xf6"),
        ("größe,y\n1,a\n".encode("latin1"), "save it as UTF-8, e.g. with iconv -f latin1 -t utf8."),
        (gzip.compress(b"a,y\n1,a\n", mtime=0), "It is compressed: give it a name that ends in .gz."),
    ],
)
def test_an_empty_file_and_other_encodings_are_named(content, said):
    Path("rows.csv").write_bytes(content)
    assert said in call("fit", "rows.csv", code=2).stderr


# What was meant


def test_columns_of_one_name_are_noted_matched_by_order_and_dropped_by_position():
    write("rows.csv", frame().set_axis(["a", "a", "b", "y"], axis=1))
    result, said = fit("rows.csv")
    assert "Note: several columns are called 'a', and all are used as features." in said
    assert result.feature_names == ("a", "a", "b")
    assert call("predict", "fitted.npz", "rows.csv").stderr == RIGHT
    write("other.csv", frame().set_axis(["b", "a", "a", "y"], axis=1))
    assert "two columns of one name" in call("predict", "fitted.npz", "other.csv", code=2).stderr
    said = call("fit", "rows.csv", "--drop", "a", code=2).stderr
    assert "expected one column called a, found 2. Give a position: 0 or 1." in said
    assert "several" not in fit("rows.csv", "--drop", "0", "--tol", 0.5)[1]


def test_a_column_nearly_of_the_name_is_offered():
    write("rows.csv", frame().rename(columns={"y": "species"}))
    for name in ("Species", "SPECIES", "specie"):
        said = call("fit", "rows.csv", "--label", name, code=2).stderr
        assert f"called {name}, found none. Did you mean species? Columns: NV" in said
    assert "class, found none. Columns" in call("fit", "rows.csv", code=2).stderr


# Standard input


def test_standard_input():
    data = frame()
    plain = data.to_csv(index=False).encode()
    found = json.loads(call("separability", "-", "--json", "-", input=plain).stdout)
    assert (found["verdict"], found["feature_names"]) == ("separable", list(NAMES))
    commas = data.to_csv(index=False, sep=";", decimal=",").encode()
    found = call("fit", "-", "--decimal", ",", "--out", "m.npz", input=commas)
    assert (table(found.stdout)["data"], found.stderr) == (f"stdin, {N} x 3, dense", "")
    backwards = data[["dose", "age", "NV"]].to_csv(index=False, sep="\t").encode()
    found = call("predict", "m.npz", "-", input=backwards)
    assert (found.stdout.split()[1:], found.stderr) == ([str(label) for label in data.y], "")


def test_standard_input_of_other_formats():
    data = write("rows.parquet")
    np.savez("rows.npz", X=data[list(NAMES)], y=data.y)
    text = "\n".join(f"{row.y} 1:{row.NV} 2:{row.age} 3:{row.dose}" for row in data.itertuples())
    for content in (Path("rows.parquet").read_bytes(), Path("rows.npz").read_bytes(), text.encode()):
        assert call("separability", "-", input=content).stdout.startswith("separable")
    for pack in (gzip.compress, bz2.compress, lzma.compress):
        call("separability", "-", input=pack(text.encode()))
    broken = gzip.compress(text.encode())[:-20]
    said = call("separability", "-", input=broken, code=2).stderr
    assert "Expected a whole .gz file on standard input" in said
    for content, args, said in [
        (b"", [], "Expected data on standard input, got nothing"),
        (b"a,b,y\n1,,0\n", [], "Error: standard input, line 2, column 'b'"),
        (b"a,b,y\n1,2,0\n", ["--out-of-core"], "standard input can be read once"),
    ]:
        assert said in call("fit", "-", *args, input=content, code=2).stderr
