"""Files out of core: what is read, and what is refused."""

import sys

import numpy as np
import pandas as pd
import pytest

import prgd
from prgd.rows import MarginsAt

X = np.arange(12.0).reshape(6, 2)
y = np.array([1, -1, 1, 1, -1, -1])


def test_several_npy_files_share_one_list_of_labels(tmp_path):
    np.save(tmp_path / "a.npy", X[:4])
    np.save(tmp_path / "b.npy", X[4:])
    rows = prgd.open_rows([tmp_path / "a.npy", tmp_path / "b.npy"], y)
    np.testing.assert_array_equal(rows.ask(MarginsAt(np.ones(2))), y * X.sum(axis=1))


def test_npy_rows_may_be_z_already(tmp_path):
    np.save(tmp_path / "z.npy", X)
    np.testing.assert_array_equal(
        prgd.open_rows(tmp_path / "z.npy").ask(MarginsAt(np.ones(2))), X.sum(axis=1)
    )


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


def test_missing_pyarrow_is_named(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"pip install '.\[report\]'"):
        prgd.open_rows(tmp_path / "x.parquet")
