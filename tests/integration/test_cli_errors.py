"""What commands refuse: one line on standard error that says what was expected, in words of the options."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from command_line import call, write_three
from test_cli_fit import write_files
from test_cli_separability import TABLE

from prgd.core.files import read_saved, write_saved


def write_run() -> None:
    Path("bad.svm").write_text("+1 1:0.5\n-1 1:x\n")
    Path("file").touch()


def write_fit() -> None:
    write_files()
    Path("folder").mkdir()
    Path("one.csv").write_text("a,y\n1,2\n2,2\n")
    Path("wide.csv").write_text("a,b,c,y\n1,2,3,4\n")
    Path("words.csv").write_text("a,b\n1,x\n2,y\n")
    np.savez("narrow.npz", data=[1.0], indices=[0], indptr=[0, 1], shape=[1, 1])
    np.save("flat.npy", np.ones(2))
    call("fit", "rows.npz", "--out", "model.npz", "--quiet")
    change_model("old.npz", format="prgd-result-0")
    change_model("mixed.npz", w_lower=np.ones(3))
    change_model("odd.npz", w=np.ones(3), w_lower=np.ones(3))


def change_model(file: str, format: str | None = None, **changes: np.ndarray) -> None:
    meta, arrays = read_saved("model.npz")
    if format is not None:
        changes["meta"] = np.array(json.dumps(meta | {"format": format}))
    write_saved(file, arrays | changes)


def write_everyday() -> None:
    Path("big.csv").write_text("a,y\n1e200,0\n-1e200,1\n")
    Path("three.csv").write_text("a,y\n1,a\n2,b\n3,c\n")
    Path("four.csv").write_text("a,y\n1,a\n2,b\n3,c\n4,c\n")
    Path("three.svm").write_text("1 1:1\n2 1:2\n3 1:3\n")
    np.save("w.npy", np.ones(1))
    Path("zero.svm").write_text("1 0:1\n2 -1:2\n")
    Path("measured.csv").write_text("a,y\n1,0.5\n2,0.25\n3,1.5\n4,0.5\n")
    Path("bare.csv").write_text("1,2\n3,4\n")
    Path("rows.svm").write_text("1 1:2\n-1 1:3\n")
    Path("twice.csv").write_text("a,a\n3,4\n")
    Path("none.csv").write_text("a,b\n1,0.5\n2,0.1\n")


def write_norms() -> None:
    write_three()
    write_three("two.csv", classes=2)
    write_three("one.csv", classes=1)
    np.save("w.npy", np.eye(3))


def write_formula() -> None:
    Path("rows.csv").write_text(TABLE)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder with the files of each group of commands, which none of them changes."""
    found = {}
    for write in (write_run, write_fit, write_everyday, write_norms, write_formula):
        folder = tmp_path_factory.mktemp("files")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            write()
        found[write.__name__.removeprefix("write_")] = folder
    return found


# The command before each text of a group.
COMMANDS = {"run": "run", "formula": "separability rows.csv"}
MISTAKES = {
    "run": [
        ("toy:0.3 --algorithm prdg", "Unknown algorithm 'prdg'. Did you mean prgd?"),
        ("toy:0.3 --warm-up 0", "Leave --warm-up out, or give e.g. --warm-up gd:1000."),
        ("toy:0.3 --warm-up gd", "--warm-up expects NAME:STEPS, e.g. gd:1000, or 0; got 'gd'"),
        ("toy:0.3 --algorithm ngd --no-project", "--no-project does not apply to ngd, which takes --eta"),
        ("toy:0.3 --algorithm gd --every 5", "--every does not apply to gd"),
        ("toy:0.3 --every 5 --phases every:5", "give one of them"),
        ("toy:0.3 --algorithm ngd --eta -1", "--eta must be a finite number above 0; got -1.0"),
        ("toy:0.3 --algorithm ngd --gap 0", "--gap must be a finite number above 0; got 0.0"),
        ("toy:0.3 --algorithm ngd --scale min", "--scale must be 'max' or 'none'; got 'min'"),
        ("toy:0.3 --algorithm ngd --max-memory 1M", "--max-memory is for --out-of-core"),
        ("toy:0.3 --algorithm ngd --label y", "--label is for files"),
        ("toy:0.3 --algorithm ngd --out-of-core", "--out-of-core is for files"),
        ("toy:0.3 --warmup gd:9 --eta 1e308 --scale none --no-intercept", "Use a smaller --eta"),
        ("toy --algorithm ngd", "Expected toy:MARGIN, e.g. toy:0.3; got 'toy'"),
        ("digits:0,x --algorithm ngd", "got 'digits:0,x'"),
        ("cancer:1 --algorithm ngd", "Expected cancer; got 'cancer:1'"),
        ("bad.svm --algorithm ngd --out-of-core", "bad.svm, line 2:"),
        ("bad.svm --algorithm ngd --out-of-core --label y", "can be chosen in Parquet files only"),
        ("bad.svm --algorithm ngd --out-of-core --max-memory much", "such as 64M or 2G; got 'much'"),
        ("toy:0.3 --algorithm ngd --out file/folder", "Cannot write to the output folder 'file/folder'"),
        ("toy:0.3 --algorithm ngd --resume none.npz", "found no file none.npz"),
        ("toy:0.3 --algorithm ngd --threads 0", "Invalid value for '--jobs'"),
        ("toy:0.3 --algorithm ngd --steps many", "Invalid value for '--steps'"),
        ("toy:0.3 --algorithm ngd --stepz 5", "--stepz"),
        ("", "Missing argument 'DATA'. Try 'prgd run --help'."),
    ],
    "fit": [
        ("fit toy:0.3 --tol much", "Invalid value for '--tol'"),
        ("fit toy:0.3 --max-passes 0", "Invalid value for '--max-passes'"),
        ("fit toy:0.3 --out folder", "--out expects a file; folder is a folder"),
        ("fit toy:0.3 --out rows.csv/model.npz", "Cannot write to the output folder 'rows.csv'"),
        ("fit", "Missing argument 'DATA'. Try 'prgd fit --help'."),
        ("fit one.csv", "The labels must hold two classes; got 1"),
        ("fit none.csv", "Expected a data file at none.csv, found none"),
        ("fit digit:0,1", "Did you mean digits?"),
        ("fit iris", "Unknown file or data set 'iris'. Built-in sets: toy:MARGIN, synthetic-one:SEED"),
        ("fit .", "got the folder '.'. Name a file in it."),
        ("fit rows.npz --out none/below", "--out expects a file in a folder that exists; there is none"),
        ("fit rows.npz --json none/below", "--json expects a file in a folder that exists; there is none"),
        ("fit toy:0.3 --json folder", "--json expects - or a file of its own"),
        ("fit toy:0.3 --json x --out x", "--json expects - or a file of its own; got x"),
        ("fit rows.csv --decimal ;", "--decimal must be '.' or ','; got ';'."),
        ("fit rows.csv --separator ab", "separator must be one character"),
        ("fit rows.csv --separator 5", "--separator must be one character"),
        ("fit rows.csv --format xls", "Unknown format 'xls'"),
        ("fit rows.csv --missing zero", "Unknown treatment of missing values 'zero'"),
        ("predict none.npz rows.npz", "a file that prgd fit --out wrote; found none at none.npz"),
        ("predict rows.csv rows.npz", "wrote; rows.csv is none. MODEL comes first: prgd predict MODEL DATA."),
        (
            "predict rows.npz rows.npz",
            "rows.npz: expected a file that prgd saved, got an archive of other arrays. MODEL comes first",
        ),
        ("predict old.npz rows.npz", "old.npz: not a whole model file of prgd (format 'prgd-result-0'"),
        (
            "predict mixed.npz rows.npz",
            "mixed.npz: not a whole model file of prgd (w_lower is float64 of shape",
        ),
        ("predict odd.npz rows.npz", "rows.npz has 2 features, and the model was fitted on 3."),
        ("predict model.npz digits:0,1", "digits:0,1 has 64 features, and the model was fitted on 2."),
        ("predict model.npz wide.csv", "wide.csv has 3 features, and the model was fitted on 2."),
        ("predict model.npz narrow.npz", "narrow.npz has 1 features, and the model was fitted on 2."),
        ("predict model.npz words.csv", "words.csv: the last column, 'b', is not numeric"),
        ("predict model.npz flat.npy", "The data must be a matrix of shape (rows, columns)"),
        ("predict model.npz rows.npz --label y", "chooses a column of a CSV, TSV or Parquet file"),
        ("predict model.npz rows.npz --out rows.csv/p.csv", "Cannot write to the output folder"),
    ],
    "everyday": [
        ("run toy:0.3 --loss logistic", "Use --no-intercept, or add a constant column to the data."),
        ("run big.csv", "or use --scale none and choose --eta yourself."),
        ("fit toy:0.3 --cluster local", "is built in"),
        ("fit a.npy --cluster local --max-memory 1K", "for --out-of-core"),
        ("fit toy:0.3 --start none.npy", "--start expects a .npy"),
        ("fit toy:0.3 --tol -1", "--tol must be a finite number above 0; got -1.0."),
        ("fit toy:0.3 --C 0", "--C must be a positive number; got 0.0. Leave it out for the hard margin."),
        ("fit toy:0.3 --fallback hope", "--fallback must be 'soft' or 'raise'; got 'hope'."),
        ("run toy:0.3 --save-every -1 --out o", "--save-every must be a number of seconds of at least 0"),
        ("fi toy:0.3", "No such command 'fi'"),
        (
            "fit four.csv --start w.npy",
            "--start is for two classes, or --multi-class joint; four has 3. Leave --start out.",
        ),
        ("separability four.csv", "two classes, or use --family multinomial; prgd fit takes several"),
        ("fit three.csv", "got 3 values, a different label in each row (a, b, c, ...). Name the column"),
        ("fit three.svm --out-of-core", "a different label in each row (1, 2, 3, ...)"),
        ("run three.csv", "a different label in each row (a, b, c, ...)"),
        ("run zero.svm", "expected an index of at least 0, got '-1:2'. Indices count from 1,"),
        ("fit measured.csv", "got 3 different numbers such as 0.25, which looks like a measurement. Name"),
        ("separability bare.csv --formula 'y ~ x'", "a header that names the columns"),
        ("separability rows.svm --formula 'y ~ x'", "a CSV, TSV or Parquet file"),
        ("separability toy:0.3 --formula 'y ~ x'", "columns with names"),
        ("separability twice.csv --formula 'a ~ 1'", "called 'a'"),
        ("fit none.csv", "Name the label column, or give its position, with --label."),
    ],
    "norms": [
        ("fit two.csv --norm spectral", "measures weight matrices of shape (classes, features)"),
        ("fit three.csv --norm spectral", "in prgd fit with --multi-class joint, two only in"),
        (
            "fit two.csv --norm spectral --multi-class joint",
            "two only in Python, by prgd.max_margin. Or use l2, l1, linf or a number p.",
        ),
        (
            "run two.csv --norm nuclear",
            "got weights of shape (3,). More than two classes have such weights in prgd run",
        ),
        ("run two.csv --step-norm rows", "The norm 'rows' measures weight matrices"),
        ("fit three.csv --norm 0.5", "p of a norm must be a number of at least 1; got 0.5."),
        ("run three.csv --step-norm nan", "p of a norm must be a number of at least 1; got nan."),
        ("fit three.csv --norm lq", "Unknown norm 'lq'"),
        ("fit one.csv --multi-class joint", "two classes; got 1 ('blue')"),
        ("run one.csv --norm linf", "two classes; got 1 ('blue')"),
        ("run three.csv --algorithm progressive-newton", "ProgressiveNewton is for two classes"),
        ("run three.csv --algorithm gd --step-norm l1", "--step-norm does not apply to gd"),
        ("fit three.csv --C 1 --norm l1", "--C is for --norm l2"),
        ("fit three.csv --C x", "--C must be a positive number or cv; got 'x'."),
        ("fit two.csv --start w.npy", "w of --start must be finite, of shape (3,); got shape (3, 3)."),
        ("fit three.csv --multi-class jont", "got 'jont'. Did you mean 'joint'?"),
    ],
    "formula": [
        ("--formula 'sick ~ dosis'", "Unknown column 'dosis'. Did you mean dose?"),
        ("--formula 'sick ~ dose +'", "Operator `+` has"),
        ("--formula sick", "expected a response, ~ and terms"),
        ("--formula 'drug + sick ~ dose'", "mixes levels"),
        ("--formula 'count ~ dose'", "Use --family multinomial for classes"),
        ("--formula 'sick ~ dose' --family gamma", "Unknown family 'gamma'"),
        ("--formula 'sick ~ dose' --weights wait", "Unknown column 'wait'. Did you mean weight?"),
        ("--formula 'sick ~ dose' --label sick", "--label is for data without --formula"),
        ("--formula 'sick ~ dose' --no-intercept", "Write - 1 in the formula instead"),
        ("--formula 'sick ~ dose' --out-of-core", "--out-of-core is for binomial data without --formula"),
        ("--label count --family poisson --jobs 2", "--jobs is for binomial data"),
        ("--formula 'sick ~ dose' --missing mean", "--missing refuse or drop"),
        ("--label sick --features dose --weights weight", "give --formula too"),
    ],
}


@pytest.mark.parametrize(
    ("files", "options", "said"), [(files, *case) for files, cases in MISTAKES.items() for case in cases]
)
def test_a_mistake_is_one_line(folders, monkeypatch, files, options, said):
    monkeypatch.chdir(folders[files])
    found = call(*shlex.split(f"{COMMANDS.get(files, '')} {options}"), code=2)
    assert (found.stdout, found.stderr[:7], found.stderr.count("\n")) == ("", "Error: ", 1)
    assert said in found.stderr
    assert "?." not in found.stderr
    assert ".." not in found.stderr.replace("...", "")
    assert not re.search(r"\w=(True|False|'|\")", found.stderr)
