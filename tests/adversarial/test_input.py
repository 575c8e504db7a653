"""One door for input: numbers that float64 cannot hold, masks and missing labels are refused."""

import re
import subprocess
import sys
import zipfile
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from typer.testing import CliRunner

import prgd
from prgd.cli.app import app
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
    for column in (pd.array([1, 2, None, 4], dtype="Int64"), pl.Series([1, 2, None, 4])):
        frame = (pl if isinstance(column, pl.Series) else pd).DataFrame({"a": column})
        with pytest.raises(ValueError, match="X at row 2, column 'a': expected a number, got none"):
            prgd.Problem(frame, Y)
    dates = pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 4)})
    with pytest.raises(TypeError, match=r"Column 'a' of X must hold real numbers; got dtype datetime64"):
        prgd.Problem(dates, Y)
    with pytest.raises(TypeError, match="X must hold real numbers; got dtype datetime64"):
        MaxMarginClassifier().fit(dates, Y)


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


CSR = sp.csr_array(np.array(COLUMN))
PARTS = {"data": CSR.data, "indices": CSR.indices, "indptr": CSR.indptr, "shape": (4, 1)}
FRAMES = [pd.DataFrame({"a": [kind(x) for (x,) in COLUMN], "y": Y}) for kind in (int, Decimal)]
FILES = {
    "x.npz": (": X at row 1, column 0", lambda path: np.savez(path, X=np.array(COLUMN), y=Y)),
    "csr.npz": (": X at row 1, column 0", lambda path: np.savez(path, y=Y, **PARTS)),
    "x.parquet": (", row 1, column 'a'", FRAMES[0].to_parquet),
    "decimal.parquet": (", row 1, column 'a'", FRAMES[1].to_parquet),
    "x.csv": (", line 4, column 'b'", "a,b,y\n1,0,0\n\n1,9007199254740993,1\n"),
    "x.svm": (", line 2, token 2", "0 1:1\n1 2:9007199254740993\n"),
    "labels.svm": (", line 2, token 1", "0 1:1\n9007199254740993 2:1\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_name_the_place_of_a_number_without_a_float64(tmp_path, name):
    place, content = FILES[name]
    content(tmp_path / name) if callable(content) else (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name}{place}.*: float64 cannot hold 9007199254740993 exactly"):
        load(tmp_path / name)
    if not name.endswith(("npz", "csv")):
        with pytest.raises(ValueError, match=f"{name}{place}.*: float64 cannot hold"):
            prgd.Problem(prgd.open_rows(tmp_path / name, cache_dir=tmp_path))


def test_text_with_a_point_or_an_exponent_is_rounded_as_everywhere(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,y\n0.1,9007199254740993.0,0\n9007199254740992,1,1\n")
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
    files = load(tmp_path / "x.npz"), load(tmp_path / "x.parquet"), (prgd.open_rows(tmp_path / "x.parquet"),)
    for data in ((X, labels), (X, labels.tolist()), *files):
        assert prgd.Problem(*data).classes.tolist() == [BIG, BIG + 1]
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


def repeated(form, values, rows, columns, shape):
    """Return a sparse array that stores every entry apart, in one of SciPy's formats."""
    if form == "coo":
        return sp.coo_array((values, (rows, columns)), shape=shape)
    if form == "bsr":  # blocks of 2 x 2
        order = np.sort(rows[: len(values) // 4] // 2)
        starts = np.concatenate(([0], np.cumsum(np.bincount(order, minlength=shape[0] // 2))))
        blocks = values[: 4 * len(order)].reshape(-1, 2, 2)
        return sp.bsr_array((blocks, columns[: len(order)] // 2, starts), shape=shape)
    major, minor = (rows, columns) if form == "csr" else (columns, rows)
    order = np.argsort(major, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(major, minlength=shape[form == "csc"]))))
    make = sp.csr_array if form == "csr" else sp.csc_array
    return make((values[order], minor[order], starts), shape=shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64, bool])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_repeated_entries_add_up_as_in_toarray(form, dtype):
    rng = np.random.default_rng(0)
    shape, values = (12, 6), rng.integers(-1, 9, 400)
    places = rng.integers(0, shape[0], 400), rng.integers(0, shape[1], 400)
    unit = 4 if np.issubdtype(dtype, np.floating) else 1
    X = repeated(form, (values / unit).astype(dtype), *places, shape)
    before = X.data.copy()
    found = SparseRows(X).take(np.arange(shape[0]))
    np.testing.assert_array_equal(found.toarray(), X.toarray().astype(np.float64))
    np.testing.assert_array_equal(X.data, before)


ROUNDED_SUMS = (
    [1e16, 1.0, -1e16],
    [1e16, -1e16, 1.0, 1e-300],
    [0.1, 0.2],
    np.array([2.0**24, 1.0], np.float32),
    np.array([2**53, 1]),
)


@pytest.mark.parametrize("door", [*DOORS, "predict", "file"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_repeated_entries_whose_sum_is_rounded_are_refused(form, door, tmp_path):
    def load_file(X, y):
        parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
        np.savez(tmp_path / "x.npz", y=y, **parts)
        load(tmp_path / "x.npz")

    fitted = MaxMarginClassifier().fit(np.column_stack([Y, Y]), Y)
    doors = {**DOORS, "predict": lambda X, y: fitted.predict(X), "file": load_file}
    for values in map(np.asarray, ROUNDED_SUMS):
        if form == "bsr" and door != "file":
            values = np.column_stack([values, *[np.zeros_like(values)] * 3]).ravel()
        zeros = np.zeros(len(values), int)
        X = repeated("csr" if door == "file" else form, values, zeros, zeros, (4, 2))
        with pytest.raises(ValueError, match="X at row 0, column 0: repeated entries add up with rounding"):
            doors[door](X, Y)


def test_too_many_columns_are_refused_with_advice_that_helps(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:1 1000000000000:2\n-1 1:-1\n")
    words = r"X has 1,000,000,000,000 columns: .* out of core too.* number these from 1"
    for read in (lambda path: prgd.Problem(*load(path)), partial(prgd.open_rows, cache_dir=tmp_path)):
        with pytest.raises(ValueError, match=words):
            read(tmp_path / "x.svm")


@pytest.mark.parametrize("norm", ["l1", "linf", "lp:3", "columns"])
def test_programs_of_norms_are_refused_by_what_they_hold(monkeypatch, norm):
    monkeypatch.setattr("prgd.rows.exact.physical_memory", lambda: 1e5)
    X = sp.csr_array(([1.0, -1.0], ([0, 1], [0, 999])))
    assert prgd.max_margin(X, [0, 1]).status is prgd.Status.CERTIFIED
    with pytest.raises(ValueError, match=r"X has 1,000 columns: .* numbers for each column take"):
        prgd.max_margin(X, [0, 1], norm=norm, multi_class="joint")


PEAK = """
import re, sys
from pathlib import Path
from prgd.cli.app import app
try:
    app(sys.argv[1:])
finally:  # VmHWM is of this process alone; ru_maxrss begins with what the process that started it had.
    print("peak", re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in KiB as Linux does")
@pytest.mark.parametrize("name", ["wide.svm", "wide.npz"])
def test_empty_columns_and_arrays_that_nobody_asked_for_take_no_memory(tmp_path, name):
    d = 500_000_000
    (tmp_path / "wide.svm").write_text(f"1 1:1 {d}:2\n-1 1:-1\n1 1:2\n-1 1:-3\n")
    indices, indptr = np.array([0, d - 1, 0, 0, 0]), np.array([0, 2, 3, 4, 5])
    rows = {"data": np.array([1.0, 2.0, -1.0, 2.0, -3.0]), "indices": indices, "indptr": indptr}
    others = {"format": "csr", "y": [1, -1, 1, -1], "of_no_use": np.zeros(10**8)}
    if name == "wide.npz":
        np.savez_compressed(tmp_path / name, **rows, shape=np.array([4, d]), **others)
    command = [sys.executable, "-c", PEAK, "separability", str(tmp_path / name)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"x0 .*\nx499999999 ", ran.stdout), ran.stdout
    note = "Note: 499,999,998 of 500,000,000 columns are zero in every row: aliased, and left out.\n"
    assert ran.stderr == note
    assert int(ran.stdout.split()[-1]) < 600_000  # mostly what is imported


def test_archives_unpack_what_is_needed_and_what_fits(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", X=np.eye(2), y=[0, 1], data=np.zeros(1000))
    monkeypatch.setattr("prgd.core.files.physical_memory", lambda: 7000.0)
    assert load(tmp_path / "x.npz").X.shape == (2, 2)
    monkeypatch.setattr("prgd.core.files.physical_memory", lambda: 150.0)
    with pytest.raises(ValueError, match="X unpacks to 160 bytes, more than this machine has"):
        load(tmp_path / "x.npz")


def test_a_dollar_in_the_name_of_a_file_is_no_formula(tmp_path):
    from prgd.plots import save_gap_png

    history = prgd.run(prgd.Problem(*prgd.datasets.toy(0.3)), prgd.NGD(), stop=5).history
    save_gap_png(history, tmp_path / "x.png", r"price_in_$\frac$.csv")
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_the_command_line_answers_broken_files_with_one_line(tmp_path):
    header = b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 118
    with zipfile.ZipFile(tmp_path / "header.npz", "w") as archive:
        archive.writestr("X.npy", header)
    (tmp_path / "header.npy").write_bytes(header)
    (tmp_path / "integer.csv").write_text("a,b,y\n9007199254740993,1,1\n-1,2,0\n")
    (tmp_path / "wide.svm").write_text("1 1:1 1000000000000:2\n-1 1:-1\n")
    for command in ("fit header.npz", "run header.npy --out-of-core", "fit integer.csv", "fit wide.svm"):
        action, name, *options = command.split()
        outcome = CliRunner().invoke(app, [action, str(tmp_path / name), *options])
        assert (outcome.exit_code, type(outcome.exception)) == (2, SystemExit), command
        assert outcome.stderr.startswith("Error: ")
        assert outcome.stderr.count("\n") == 1
        assert "Try --out-of-core" not in outcome.stderr
