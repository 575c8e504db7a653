"""One door for input: numbers that float64 cannot hold, masks and missing labels are refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch

import prgd
from prgd.datasets import load
from prgd.estimators import MaxMarginClassifier
from prgd.rows import ChunkedRows, DenseRows, SparseRows
from prgd.rows.cluster.partitions import read_block

BIG = 2**53  # the last integer up to which every one has a float64
COLUMN = [[BIG], [BIG + 1], [0], [1]]
Y = [0, 1, 0, 1]

INEXACT = {
    "int64": np.array(COLUMN),
    "uint64": np.array(COLUMN, np.uint64),
    "int64 max": np.array([[0], [2**63 - 1], [0], [1]]),
    "uint64 max": np.array([[0], [2**64 - 1], [0], [1]], np.uint64),
    "long double": np.array(COLUMN).astype(np.longdouble) / 3,
    "objects": np.array(COLUMN, object),
    "objects of NumPy": np.array([[np.int64(BIG + 1)], [0.5], [0], [1]], object),
    "huge objects": np.array([[10**400], [0], [0], [1]], object),
    "Decimals": np.array([[Decimal(BIG + 1)], [Decimal("0.5")], [0], [1]], object),
    "a Decimal 0.1": np.array([[Decimal("0.1")], [0], [0], [1]], object),
    "Fractions": np.array([[Fraction(1, 3)], [0], [0], [1]], object),
    "a list of integers and floats": [[BIG + 1], [0.5], [0], [1]],
    "mixed data frame": pd.DataFrame({"a": [BIG, BIG + 1, 0, 1], "b": [0.5, 1.0, 2.0, 3.0]}),
    "data frame of equal names": pd.DataFrame([[BIG + 1, 0.5]] * 4, columns=["a", "a"]),
    "nullable integers": pd.DataFrame({"a": pd.array([BIG + 1, 1, 2, 3], dtype="Int64")}),
    "polars": pl.DataFrame({"a": [BIG, BIG + 1, 0, 1], "b": [0.5, 1.0, 2.0, 3.0]}),
    "polars Decimals": pl.DataFrame({"a": [Decimal(BIG + 1), Decimal(1), Decimal(2), Decimal(3)]}),
    "CSR": sp.csr_array(np.array(COLUMN)),
    "COO": sp.coo_array(np.array(COLUMN)),
    "LIL": sp.lil_array(np.array(COLUMN)),
    "CSC of long doubles": sp.csc_array(np.array(COLUMN).astype(np.longdouble) / 3),
}
DOORS = {
    "separability": prgd.separability,
    "Problem": prgd.Problem,
    "max_margin": prgd.max_margin,
    "fit": MaxMarginClassifier().fit,
    "blocks": lambda X, y: ChunkedRows.from_blocks([(X, y)]),
    "partition": lambda X, y: read_block((X if hasattr(X, "shape") else np.array(X, object), y), "x"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", INEXACT)
def test_numbers_without_a_float64_are_refused(what, door):
    with pytest.raises(ValueError, match=r"at row \d+, column .*: float64 cannot hold .* exactly"):
        DOORS[door](INEXACT[what], Y)


@pytest.mark.parametrize("form", [torch.Tensor.clone, torch.Tensor.to_sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_tensors_of_integers_are_refused_too(form):
    X = form(torch.tensor(COLUMN))
    with pytest.raises(ValueError, match="float64 cannot hold 9007199254740993 exactly"):
        prgd.Problem(X, Y)


def test_refused_frames_name_the_column():
    with pytest.raises(ValueError, match="X at row 1, column 'a': float64 cannot hold 9007199254740993"):
        prgd.separability(INEXACT["mixed data frame"], Y)
    with pytest.raises(ValueError, match="X at row 2, column 'a': expected a number, got none"):
        prgd.Problem(pd.DataFrame({"a": pd.array([1, 2, None, 4], dtype="Int64")}), Y)
    with pytest.raises(ValueError, match="X at row 2, column 'a': expected a number, got none"):
        prgd.Problem(pl.DataFrame({"a": [1, 2, None, 4]}), Y)
    with pytest.raises(TypeError, match=r"Column 'a' of X must hold real numbers; got dtype datetime64"):
        prgd.Problem(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 4)}), Y)
    with pytest.raises(TypeError, match="X must hold real numbers; got dtype datetime64"):
        MaxMarginClassifier().fit(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 4)}), Y)


@pytest.mark.parametrize("door", ["separability", "Problem", "fit", "blocks"])
def test_a_mask_counts_or_is_refused(door):
    X = np.ma.array(np.arange(4.0)[:, None], mask=[[0], [1], [1], [0]])
    with pytest.raises(ValueError, match="X is a masked array with 2 masked entries"):
        DOORS[door](X, Y)
    DOORS[door](np.ma.array([[-1.0], [1.0], [-2.0], [2.0]], mask=False), Y)
    with pytest.raises(ValueError, match="y is a masked array with 1 masked entries"):
        DOORS[door](np.arange(4.0)[:, None], np.ma.array(Y, mask=[0, 0, 0, 1]))
    with pytest.raises(ValueError, match="sample_weight is a masked array"):
        DenseRows(np.eye(2), [0, 1], np.ma.array([1.0, 2.0], mask=[0, 1]))


FILES = {
    "x.npz": lambda path: np.savez(path, X=np.array(COLUMN), y=Y),
    "csr.npz": lambda path: np.savez(path, y=Y, shape=(4, 1), **vars_of(sp.csr_array(np.array(COLUMN)))),
    "x.parquet": lambda path: pd.DataFrame({"a": np.ravel(COLUMN), "y": Y}).to_parquet(path),
    "decimal.parquet": lambda path: pd.DataFrame(
        {"a": [Decimal(x) for x in np.ravel(COLUMN).tolist()], "y": Y}
    ).to_parquet(path),
    "x.csv": lambda path: path.write_text("a,b,y\n1,0,0\n\n1,9007199254740993,1\n"),
    "x.svm": lambda path: path.write_text("0 1:1\n1 2:9007199254740993\n"),
    "labels.svm": lambda path: path.write_text("0 1:1\n9007199254740993 2:1\n"),
}
PLACES = {
    "x.npz": "x.npz: X at row 1, column 0",
    "csr.npz": "csr.npz: X at row 1, column 0",
    "x.parquet": "x.parquet, row 1, column 'a'",
    "decimal.parquet": "decimal.parquet, row 1, column 'a'",
    "x.csv": "x.csv, line 4, column 'b'",
    "x.svm": "x.svm, line 2, token 2",
    "labels.svm": "labels.svm, line 2, token 1",
}


def vars_of(X):
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr}


@pytest.mark.parametrize("name", FILES)
def test_files_name_the_place_of_a_number_without_a_float64(tmp_path, name):
    FILES[name](tmp_path / name)
    with pytest.raises(ValueError, match=f"{PLACES[name]}.*: float64 cannot hold 9007199254740993 exactly"):
        load(tmp_path / name)
    if not name.endswith(("npz", "csv")):
        with pytest.raises(ValueError, match=f"{PLACES[name]}.*: float64 cannot hold"):
            prgd.Problem(prgd.open_rows(tmp_path / name, cache_dir=tmp_path))


def test_text_with_a_point_or_an_exponent_is_rounded_as_everywhere(tmp_path):
    (tmp_path / "x.csv").write_text(
        "a,b,y\n0.1,9007199254740993.0,0\n1e400e,1,1\n".replace("1e400e", "9007199254740992")
    )
    (tmp_path / "x.svm").write_text("0 1:0.1 2:9007199254740993e0\n1 1:18014398509481984\n")
    assert load(tmp_path / "x.csv").X.tolist() == [[0.1, 2.0**53], [2.0**53, 1.0]]
    assert load(tmp_path / "x.svm").X.toarray().tolist() == [[0.1, 2.0**53], [2.0**54, 0.0]]


@pytest.mark.parametrize("cell", ["1_0", "１", "infinity", "nan", "0x10", "1e999", "1,0"])
def test_csv_reads_no_number_that_only_python_knows(tmp_path, cell):
    (tmp_path / "x.csv").write_text(f'a,b,y\n1,2,0\n"{cell}",1,1\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.csv, line 3, column 'a': expected a finite number"):
        load(tmp_path / "x.csv")


def test_csv_labels_that_are_no_plain_numbers_stay_text(tmp_path):
    for one, two in (("1_0", "10"), ("9007199254740993", "9007199254740992"), ("inf", "1")):
        (tmp_path / "x.csv").write_text(f"a,b,y\n1,2,{one}\n2,1,{two}\n")
        assert load(tmp_path / "x.csv").y.tolist() == [one, two]


def test_integer_labels_stay_apart(tmp_path):
    labels = np.array([BIG, BIG + 1, BIG, BIG + 1])
    X = np.arange(1.0, 5.0)[:, None]
    np.savez(tmp_path / "x.npz", X=X, y=labels)
    pd.DataFrame({"a": X[:, 0], "y": labels}).to_parquet(tmp_path / "x.parquet")
    found = [
        prgd.Problem(X, labels),
        prgd.Problem(X, labels.tolist()),
        prgd.Problem(*load(tmp_path / "x.npz")),
    ]
    found += [
        prgd.Problem(*load(tmp_path / "x.parquet")),
        prgd.Problem(prgd.open_rows(tmp_path / "x.parquet")),
    ]
    for problem in found:
        assert problem.classes.tolist() == [BIG, BIG + 1]
    blocks = [(X, labels), (X, labels.astype(float))]
    with pytest.raises(ValueError, match="y at row 1: float64 cannot hold 9007199254740993"):
        ChunkedRows.from_blocks(blocks)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([None, 1], "no label at row 0: got None"),
        (np.array([1, None], object), "no label at row 1: got None"),
        (np.array(["a", np.nan], object), "no label at row 1: got nan"),
        ([1, "a"], "mixes numbers and text: 1 at row 0 and 'a' at row 1"),
        (np.array([1, "a"], object), "mixes numbers and text"),
        (np.array([1, b"a"], object), "mixes numbers and bytes"),
    ],
)
def test_labels_of_no_or_mixed_kinds_are_refused(y, words):
    for door in ("separability", "Problem", "fit", "blocks"):
        with pytest.raises(ValueError, match=f"y (has|mixes).*{words.partition(' ')[2]}"):
            DOORS[door](np.eye(2), y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, bool])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_repeated_entries_add_up_as_in_toarray(form, dtype):
    rng = np.random.default_rng(0)
    size, shape = 400, (12, 6)
    values = rng.standard_normal(size) * 10.0 ** rng.integers(0, 9, size)
    values = (
        values.astype(dtype)
        if dtype in (np.float32, np.float64)
        else rng.integers(-1, 100, size).astype(dtype)
    )
    rows, columns = rng.integers(0, shape[0], size), rng.integers(0, shape[1], size)
    if form == "coo":
        X = sp.coo_array((values, (rows, columns)), shape=shape)
    elif form == "bsr":
        order = np.sort(rng.integers(0, shape[0] // 2, size // 4))
        starts = np.concatenate(([0], np.cumsum(np.bincount(order, minlength=shape[0] // 2))))
        X = sp.bsr_array((values.reshape(-1, 2, 2), columns[: size // 4] // 2, starts), shape=shape)
    else:
        major, minor = (rows, columns) if form == "csr" else (columns, rows)
        starts = np.concatenate(([0], np.cumsum(np.bincount(major, minlength=shape[form == "csc"]))))
        X = (sp.csr_array if form == "csr" else sp.csc_array)((values, minor, starts), shape=shape)
    before = X.data.copy()
    found = SparseRows(X).take(np.arange(shape[0]))
    np.testing.assert_array_equal(found.toarray(), X.toarray().astype(np.float64))
    np.testing.assert_array_equal(X.data, before)


def test_too_many_columns_are_refused_with_advice_that_helps(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:1 1000000000000:2\n-1 1:-1\n")
    for rows in (
        lambda: prgd.Problem(*load(tmp_path / "x.svm")),
        lambda: prgd.open_rows(tmp_path / "x.svm", cache_dir=tmp_path),
    ):
        with pytest.raises(
            ValueError, match=r"X has 1,000,000,000,000 columns: .* out of core too.* number these from 1"
        ):
            rows()


def test_a_dollar_in_the_name_of_a_file_is_no_formula(tmp_path):
    from prgd.plots import save_gap_png

    history = prgd.run(prgd.Problem(*prgd.datasets.toy(0.3)), prgd.NGD(), stop=5).history
    save_gap_png(history, tmp_path / "x.png", r"price_in_$\frac$.csv")
    assert (tmp_path / "x.png").stat().st_size > 1000
