"""Data sets: the geometry of the paper's sets, the real ones, and files, read whole or out of core."""

import gzip
import math
import sys

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet
from scipy.sparse import csr_array, save_npz
from sklearn.datasets import load_breast_cancer, load_digits

import prgd
from prgd.datasets import Dataset, cancer, digits, load, synthetic_one, synthetic_two, toy
from prgd.datasets.base import ModelFeatures
from prgd.rows import MarginsAt

SYNTHETIC = [synthetic_one, synthetic_two]


def test_dataset_unpacks():
    dataset = Dataset(np.eye(2, 3), np.ones(2), "small")
    X, y = dataset
    assert (X is dataset.X, y is dataset.y, dataset.w_star, dataset.gamma_star) == (True, True, None, None)


# The paper's sets


def test_toy():
    dataset = toy(0.28)
    assert np.allclose(dataset.X, [[0.28, 0.96], [0.28, -0.96], [-0.28, -0.96]])
    assert dataset.y.tolist() == [1, 1, -1]
    assert dataset.w_star.tolist() == [1, 0]
    assert dataset.gamma_star == 0.28


@pytest.mark.parametrize("make", [toy, lambda g: synthetic_one(0, 9, g), lambda g: synthetic_two(0, 9, g)])
@pytest.mark.parametrize("gamma_star", [0.0, 1.0, -0.5, 2.0, math.nan])
def test_gamma_star_is_checked(make, gamma_star):
    with pytest.raises(ValueError, match=f"strictly between 0 and 1.*got {gamma_star}"):
        make(gamma_star)


@pytest.mark.parametrize(
    ("make", "arguments", "said"),
    [
        *((make, (0, 1), r"n must be at least 2.*got 1") for make in SYNTHETIC),
        *((digits, pair, "two different digits from 0 to 9; got") for pair in [(0, 0), (0, 10), (-1, 3)]),
        *((digits, (0, 1, n), f"between 2 and 360.*got {n}") for n in (0, 1, 361)),
    ],
)
def test_arguments_of_sets_are_checked(make, arguments, said):
    with pytest.raises(ValueError, match=said):
        make(*arguments)


@pytest.mark.parametrize("make", SYNTHETIC)
@pytest.mark.parametrize("gamma_star", [1e-6, math.sin(math.pi / 100), 0.9, 1 - 1e-9])
@pytest.mark.parametrize("n", [2, 3, 500])
def test_synthetic_geometry(make, gamma_star, n):
    dataset = make(0, n, gamma_star)
    norms = np.linalg.norm(dataset.X, axis=1)
    height = math.sqrt(1 - gamma_star**2)
    assert dataset.X.shape == (n, 2)
    assert dataset.X[:2].tolist() == [[gamma_star, height], [-gamma_star, height]]
    assert (np.abs(dataset.X[:, 0]) >= gamma_star).all()
    assert norms.max() <= 1 + 1e-15
    assert (dataset.y == np.sign(dataset.X[:, 0])).all()
    assert (dataset.y * (dataset.X @ dataset.w_star)).min() == gamma_star == dataset.gamma_star
    if make is synthetic_one:
        assert np.allclose(norms, 1, rtol=0, atol=1e-15)


@pytest.mark.parametrize("make", SYNTHETIC)
def test_seeds(make):
    assert np.array_equal(make(3).X, make(3).X)
    assert not np.array_equal(make(3).X, make(4).X)
    assert make(3).X.shape == (100, 2)
    assert make(3).gamma_star == math.sin(math.pi / 100)


def test_synthetic_one_is_uniform_by_angle():
    X = synthetic_one(0, 20_000).X[2:]
    angle = np.arctan2(X[:, 1], np.abs(X[:, 0]))
    widest = math.acos(math.sin(math.pi / 100))
    assert abs(np.mean(angle**2) / (widest**2 / 3) - 1) < 0.03
    assert abs(np.mean(X[:, 0] > 0) - 0.5) < 0.02


def test_synthetic_two_is_uniform_by_area():
    X = synthetic_two(0, 20_000, 0.1).X[2:]
    # share of a disk's area beyond |x_1| = c is 1 - 2 (asin c + c sqrt(1 - c^2)) / pi
    beyond = [1 - 2 * (math.asin(c) + c * math.sqrt(1 - c * c)) / math.pi for c in (0.1, 0.5)]
    assert abs(np.mean(np.abs(X[:, 0]) > 0.5) - beyond[1] / beyond[0]) < 0.02
    assert abs(np.mean(X[:, 0] > 0) - 0.5) < 0.02


# The real sets


@pytest.mark.parametrize(("a", "b", "n"), [(0, 1, 360), (0, 4, 359), (0, 1, 20)])
def test_digits(a, b, n):
    X, target = load_digits(return_X_y=True)
    selected = np.flatnonzero(np.isin(target, [a, b]))[:n]
    dataset = digits(a, b, n)
    assert dataset.X.shape == (n, 64)
    assert dataset.name == f"digit-{a}{b}"
    assert np.array_equal(dataset.y == 1, target[selected] == b)
    assert set(dataset.y) == {-1.0, 1.0}
    scale = np.linalg.norm(X[selected], axis=1).max()
    assert np.allclose(dataset.X * scale, X[selected], rtol=1e-15)
    assert np.linalg.norm(dataset.X, axis=1).max() == pytest.approx(1, abs=1e-15)


def test_cancer():
    bunch = load_breast_cancer()
    dataset = cancer()
    assert np.array_equal(dataset.X, bunch.data)
    assert np.array_equal(dataset.y == 1, bunch.target_names[bunch.target] == "benign")


# Files in general


UNKNOWN = r"Known: LIBSVM \(\.svm.*\.csv.*\.npz.*\.parquet"
NO_LABEL = "chooses a column of a CSV, TSV or Parquet file"


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        *((name, b"", {}, UNKNOWN) for name in ("rows.xlsx", "rows", "rows.npz.gz", "rows.gz", "rows.b.bz2")),
        *((name, b"", {"label": "y"}, NO_LABEL) for name in ("rows.svm", "rows.npz")),
        ("rows.csv", b"1,2", {"dtype": np.int64}, "dtype must be float64, float32 or None; got int64"),
        ("rows.csv.gz", gzip.compress(b"1,2\n" * 99, mtime=0)[:-12], {}, r"\.gz: expected whole UTF-8 text"),
        *(("rows.csv", b"a,y\n1,2", {"label": bad}, "label must be a column's name") for bad in (True, 1.5)),
        *(
            ("rows.npz", content, {}, r"rows\.npz: expected an NPZ archive")
            for content in (b"", b"no archive", b"PK\x03\x04 cut")
        ),
        ("rows.parquet", b"PAR1 not really", {}, "expected a whole Parquet file"),
        *(
            (name, None, {}, f"Expected a data file at .*{name}")
            for name in ("rows.svm", "rows.csv.gz", "rows.npz", "rows.parquet")
        ),
    ],
)
def test_files_and_options_that_are_refused(tmp_path, name, content, options, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        load(tmp_path / name, **options)


# LIBSVM


@pytest.mark.parametrize("name", ["a.svm", "a.libsvm", "a.svmlight", "a.txt", "a.SVM", "a.svm.gz"])
def test_libsvm(tmp_path, name):
    text = b"1 1:0.5\n-1 2:3\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    dataset = load(tmp_path / name, dtype="float32")
    assert repr(dataset) == "Dataset('a', 2 x 2, sparse float32)"
    assert isinstance(dataset.X, csr_array)
    assert dataset.X.toarray().tolist() == [[0.5, 0], [0, 3]]
    assert dataset.y.tolist() == [1, -1]


# CSV


def read_csv(folder, text, name="rows.csv", **options):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path, **options)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("1,2,7\n3,4,8\n", None),
        ("1,2,7\n3,4,8\n", 2),
        ("1,2,7\n3,4,8\n", -1),
        ("7,1,2\n8,3,4\n", 0),
        ("a,b,c\n1,2,7\n3,4,8\n", "c"),
        ("a,Label,b\n1,7,2\n\n3,8,4\n", None),
        ("\ufeffclass,a,b\r\n7,1,2\r\n8,3,4\r\n", None),
        (' a , "b,c", y \n 1 , 2 , 7 \n3,"4",8', None),
        ("0,1,y\n1,2,7\n3,4,8\n", None),
        ("0,1,2\n1,2,7\n3,4,8\n", "2"),
        (gzip.compress(b"a,b,y\n1,2,7\n3,4,8\n", mtime=0), None),
    ],
)
def test_csv(tmp_path, text, label):
    dataset = read_csv(tmp_path, text, "rows.csv.gz" if isinstance(text, bytes) else "rows.csv", label=label)
    assert dataset.X.tolist() == [[1, 2], [3, 4]]
    assert dataset.y.tolist() == [7, 8]
    assert dataset.X.dtype == dataset.y.dtype == np.float64
    assert repr(dataset) == "Dataset('rows', 2 x 2, dense float64)"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "the file is empty"),
        ("1:2:3\n", {}, r"at least two cells .* got '1:2:3'.*--separator"),
        ("a,b,y\n", {}, "expected rows after the header in line 1"),
        ("a,b,y\n1,2,3\n1,2\n", {}, "line 3: expected 3 cells as in the first row, got 2"),
        ("a,b,y\n\n1,,3\n", {}, "line 3, column 'b': expected a finite number.* got ''.*--missing drop"),
        ("a,b,y\n1,2,3\n1,word,3\n", {}, "line 3, column 'b': .* got 'word'"),
        ("a,y,b\n1,2,3\n1,3,nan\n", {}, "line 3, column 'b': .* got nan"),
        ("1,2\n1e300,2\n", {"dtype": "float32"}, "line 2, column '0': .* got 1e\\+300"),
        ("a,y,b\n1,2,3\n1,,3\n", {}, "line 3, column 'y': expected a label, got ''"),
        ("a,y\n1,NaN\n", {}, "line 2, column 'y': expected a label, got 'NaN'"),
        ("a,b\n1,2\n", {}, "one label column called y or label or target or class, found none.* a, b"),
        ("y,label\n1,2\n", {}, "found 2"),
        ("a,b\n1,2\n", {"label": "c"}, "called c, found none. Columns: a, b"),
        ("a,b\n1,2\n", {"label": 2}, "label column from 0 to 1, got 2"),
        (",".join("abcdefghijkl") + "\n", {"label": "z"}, r"i, j, \.\.\. \(12 in all\)"),
        ('a,y\n1,2\n"open,2\n', {}, "error after line 3"),
        (b"a,y\n1,2\n\xff\xff,2\n", {}, "whole UTF-8 text"),
    ],
)
def test_csv_errors_name_the_place(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=f"rows.csv.*{message}"):
        read_csv(tmp_path, text, **options)


# NPZ


def read_npz(folder, **arrays):
    np.savez(folder / "rows.npz", **arrays)
    return load(folder / "rows.npz")


def test_npz(tmp_path):
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    dataset = read_npz(tmp_path, X=X, y=np.array([1, -1, 1]), extra=np.zeros(1))
    assert np.array_equal(dataset.X, X)
    assert dataset.X.dtype == np.float32
    assert dataset.y.tolist() == [1, -1, 1]
    assert dataset.y.dtype == np.float64
    assert load(tmp_path / "rows.npz", dtype=np.float64).X.dtype == np.float64


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16, ">f8"])
def test_npz_other_numbers_become_float64(tmp_path, dtype):
    dataset = read_npz(tmp_path, X=np.eye(2, dtype=dtype), y=np.array([True, False]))
    assert dataset.X.dtype == np.float64
    assert np.array_equal(dataset.X, np.eye(2))
    assert dataset.y.tolist() == [1, 0]


def csr_arrays(X):
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}


def test_npz_csr(tmp_path):
    rng = np.random.default_rng(0)
    X = csr_array(rng.random((5, 7)) * (rng.random((5, 7)) < 0.4))
    y = np.ones(5)
    dataset = read_npz(tmp_path, **csr_arrays(X), y=y)
    assert isinstance(dataset.X, csr_array)
    assert np.array_equal(dataset.X.toarray(), X.toarray())
    save_npz(tmp_path / "scipy.npz", X)
    with np.load(tmp_path / "scipy.npz") as archive:
        arrays = dict(archive)
    assert np.array_equal(read_npz(tmp_path, **arrays, y=y).X.toarray(), X.toarray())
    with pytest.raises(ValueError, match=r"expected a CSR matrix, got csc\. Save X\.tocsr"):
        read_npz(tmp_path, **{**arrays, "format": np.array(b"csc")}, y=y)
    with pytest.raises(ValueError, match="arrays of one CSR matrix"):
        read_npz(tmp_path, **{**arrays, "shape": np.array([5, 2])}, y=y)


def test_npz_csr_with_nan(tmp_path):
    X = csr_array(np.array([[0, 1.0], [0, np.inf], [2, np.nan]]))
    with pytest.raises(ValueError, match="row 1, column '1': expected a finite number"):
        read_npz(tmp_path, **csr_arrays(X), y=np.ones(3))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": np.eye(2), "y": np.ones(2)}, "expected the keys X and y.*got features, y"),
        ({}, "got none"),
        ({"X": np.eye(2), "y": np.ones(3)}, r"got \(2, 2\) and \(3,\)"),
        ({"X": np.eye(2), "y": np.ones((2, 1))}, r"got \(2, 2\) and \(2, 1\)"),
        ({"X": np.ones(2), "y": np.ones(2)}, r"got \(2,\) and \(2,\)"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, "none empty"),
        ({"X": np.array([["a"]]), "y": np.ones(1)}, "expected numbers in X, got <U1"),
        ({"X": np.eye(2), "y": np.array([1j, 1])}, "labels as numbers or strings, got complex128"),
        ({"X": np.eye(2), "y": np.array([1, np.nan])}, "row 1: expected a finite label, got nan"),
        ({"X": np.array([[1, np.nan]]), "y": np.ones(1)}, "row 0, column '1': .* got nan"),
        ({"X": np.eye(1), "y": np.array(["a"], dtype=object)}, r"y\.astype\(str\)"),
    ],
)
def test_npz_errors(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=f"rows.npz.*{message}"):
        read_npz(tmp_path, **arrays)


# Parquet


def read_parquet(folder, columns, **options):
    table = columns if isinstance(columns, pyarrow.Table) else pyarrow.table(columns)
    parquet.write_table(table, folder / "rows.parquet")
    return load(folder / "rows.parquet", **options)


@pytest.mark.parametrize("label", [None, "y", 1, -2])
def test_parquet(tmp_path, label):
    columns = {"a": [1, 3], "y": [7, 8], "b": [2.0, 4.0], "__index_level_0__": [5, 6]}
    dataset = read_parquet(tmp_path, columns, label=label)
    assert dataset.X.tolist() == [[1, 2], [3, 4]]
    assert dataset.y.tolist() == [7, 8]
    assert repr(dataset) == "Dataset('rows', 2 x 2, dense float64)"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0, None], "y": [1, 2]}, "row 1, column 'a': expected a finite number.* is missing"),
        ({"a": [1.0, 2.0], "y": [None, 2]}, "row 0, column 'y'.*got None"),
        ({"a": [1.0, math.nan], "y": [1, 2]}, "row 1, column 'a': .* got nan"),
        ({"a": ["u", "v"], "y": [1, 2]}, "column 'a': expected numbers, got string"),
        ({"a": [1, 2], "b": [1, 2]}, "expected one label column .* Columns: a, b"),
        ({"y": [1, 2]}, "no column is left as a feature"),
        ({"y": [1.0, math.nan], "a": [1, 2]}, "row 1: expected a finite label"),
        ({"y": [[1], [2]], "a": [1, 2]}, "expected labels as numbers or strings, got object"),
    ],
)
def test_parquet_errors(tmp_path, columns, message):
    with pytest.raises(ValueError, match=f"rows.parquet.*{message}"):
        read_parquet(tmp_path, columns)


def test_parquet_with_equal_names(tmp_path):
    columns = [pyarrow.array([value]) for value in (1, 2, 3)]
    table = pyarrow.Table.from_arrays(columns, names=["a", "y", "a"])
    assert read_parquet(tmp_path, table).X.tolist() == [[1, 3]]


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "rows.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for read in (load, prgd.open_rows):
        with pytest.raises(ImportError, match=r"needs pyarrow.*pip install '.\[report\]'"):
            read(tmp_path / "rows.parquet")


# Labels that are text


def test_labels_may_be_text(tmp_path):
    for labels in (["no", "yes"], [b"no", b"yes"]):
        assert read_npz(tmp_path, X=np.eye(2), y=np.array(labels)).y.tolist() == ["no", "yes"]
    coded = pyarrow.array(["x", "yy"]).dictionary_encode()
    assert read_parquet(tmp_path, {"a": [1, 2], "y": coded}).y.tolist() == ["x", "yy"]
    dataset = read_parquet(tmp_path, {"a": [True, False], "Class": ["x", "yy"]}, dtype="float32")
    assert (dataset.X.tolist(), dataset.X.dtype, dataset.y.tolist()) == ([[1], [0]], np.float32, ["x", "yy"])
    dataset = read_csv(tmp_path, "5.1,3.5,y\n1,2,n\n", dtype="float32")
    assert (dataset.X.shape, dataset.X.dtype, dataset.y.tolist()) == ((2, 2), np.float32, ["y", "n"])


# Files that may lack labels


def write_features(folder, name, X):
    path = folder / name
    match path.suffix:
        case ".csv":
            np.savetxt(path, X, delimiter=",")
        case ".npy":
            np.save(path, X)
        case ".npz":
            np.savez(path, X=X)
        case ".parquet":
            parquet.write_table(pyarrow.table({f"c{j}": X[:, j] for j in range(X.shape[1])}), path)
    return path


@pytest.mark.parametrize("name", ["rows.csv", "rows.npy", "rows.npz", "rows.parquet"])
def test_features_without_labels(tmp_path, name):
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    found, y = load(write_features(tmp_path, name, X), model=ModelFeatures(2))
    assert found.tolist() == X.tolist()
    assert y is None
    if name not in ("rows.npy", "rows.npz"):
        assert load(tmp_path / name, model=ModelFeatures(2), label=0).y.tolist() == [1, 3]
    if name == "rows.csv":  # three features are expected: the last column of two must be the label
        assert load(tmp_path / name, model=ModelFeatures(3)).y.tolist() == [2, 4]
    if name != "rows.csv":
        with pytest.raises(ValueError, match="expected"):
            load(tmp_path / name)


def test_features_with_labels(tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n3,4\n")
    X, y = load(tmp_path / "rows.csv", model=ModelFeatures(2))
    assert X.tolist() == [[1], [3]]
    assert y.tolist() == [2, 4]
    np.savez(tmp_path / "rows.npz", X=np.eye(2), y=np.ones(2))
    assert load(tmp_path / "rows.npz", model=ModelFeatures(2)).y.tolist() == [1, 1]


def test_last_features_of_libsvm_text_may_be_missing(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:0.5\n-1 2:3\n")
    X, y = load(tmp_path / "rows.svm", model=ModelFeatures(4))
    assert X.toarray().tolist() == [[0.5, 0, 0, 0], [0, 3, 0, 0]]
    assert y.tolist() == [1, -1]
    assert load(tmp_path / "rows.svm", model=ModelFeatures(1)).X.shape == (2, 2)


# Files out of core

X = np.arange(12.0).reshape(6, 2)
y = np.array([1, -1, 1, 1, -1, -1])


def test_several_npy_files_share_one_list_of_labels_or_are_z_already(tmp_path):
    np.save(tmp_path / "a.npy", X[:4])
    np.save(tmp_path / "b.npy", X[4:])
    for labels, signs in ((y, y), (None, 1)):
        rows = prgd.open_rows([tmp_path / "a.npy", tmp_path / "b.npy"], labels)
        np.testing.assert_array_equal(rows.ask(MarginsAt(np.ones(2))), signs * X.sum(axis=1))


def test_libsvm_files_may_differ_in_their_last_columns(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1 2:2\n-1 1:3\n")
    (tmp_path / "b.svm").write_text("1 4:1\n-1 2:3\n")
    rows = prgd.open_rows([tmp_path / "a.svm", tmp_path / "b.svm"], cache_dir=tmp_path / "c")
    assert rows.d == 4
    np.testing.assert_array_equal(rows.ask(MarginsAt(np.array([1.0, 2.0, 3.0, 4.0]))), [5.0, -3.0, 4.0, -6.0])


def test_single_precision_parquet_stays_single(tmp_path):
    frame = pd.DataFrame(X.astype(np.float32), columns=["a", "b"]).assign(label=y)
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    rows = prgd.open_rows(tmp_path / "x.parquet", label="label")
    np.testing.assert_array_equal(rows.ask(MarginsAt(np.ones(2))), y * X.sum(axis=1))
    (dtype,) = (part._storage.A[0].dtype for _, part in rows.pieces())
    assert dtype == np.float32


def test_errors_name_the_file(tmp_path):
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY broken")
    np.save(tmp_path / "ints.npy", np.ones((2, 2), int))
    np.save(tmp_path / "ok.npy", X)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 broken")
    (tmp_path / "x.xyz").write_text("")
    pd.DataFrame({"a": [1.0, None], "y": [1, -1]}).to_parquet(tmp_path / "null.parquet", index=False)
    pd.DataFrame({"a": ["u", "v"], "y": [1, -1]}).to_parquet(tmp_path / "text.parquet", index=False)
    cases = [
        ("bad.npy", {}, ValueError, r"bad\.npy: cannot be read as a \.npy"),
        ("ints.npy", {}, ValueError, r"ints\.npy: holds int64"),
        ("ok.npy", {"y": y[:3]}, ValueError, "each of the 6 rows; got 3"),
        ("ok.npy", {"max_memory": 0}, ValueError, "max_memory must be a positive"),
        ("bad.parquet", {}, ValueError, r"bad\.parquet: expected a whole Parquet file"),
        ("null.parquet", {"label": "z"}, ValueError, "one label column called z, found none. Columns: a, y"),
        ("x.xyz", {}, ValueError, r"unknown kind of file\. Out of core.*read whole: by prgd\.datasets\.load"),
        ("ok.npy", {"label": "y"}, ValueError, r"Leave label, features and drop out; y \(--labels\) gives"),
        ("none.npy", {}, FileNotFoundError, "Check the path"),
    ]
    for name, options, kind, words in cases:
        with pytest.raises(kind, match=words):
            prgd.open_rows(tmp_path / name, **options)
    with pytest.raises(ValueError, match=r"row 1, column 'a': expected a finite number.* got None"):
        prgd.Problem(prgd.open_rows(tmp_path / "null.parquet"))
    with pytest.raises(ValueError, match="column 'a': expected numbers, got"):
        prgd.Problem(prgd.open_rows(tmp_path / "text.parquet"))
