"""``prgd separability`` with a formula, a family and weights."""

import json
import re
from pathlib import Path

import pytest
from command_line import RUNNER, Terminal, call, posix, refused

from prgd.cli.app import app

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

TABLE = """sick,dose,drug,count,weight
no,1,a,0,1
yes,2,a,2,1
no,3,a,0,2
yes,4,a,1,1
yes,2,b,0,1
no,2,a,3,0
"""


@pytest.fixture(autouse=True)
def files(in_empty_folder):
    Path("rows.csv").write_text(TABLE)
    Path("holes.csv").write_text(TABLE.replace("yes,4,a", "yes,,a").replace("no,3", "NA,3"))
    pd.read_csv("rows.csv").to_parquet("rows.parquet")


def facts(*args):
    return json.loads(call("separability", *args, "--json", "-").stdout)


def verdicts(*args):
    return {line["name"]: line["verdict"] for line in facts(*args)["coefficients"]}


EXPECTED = {"(Intercept)": "finite", "dose": "finite", "drug[T.b]": "+inf"}


@pytest.mark.parametrize("file", ["rows.csv", "rows.parquet"])
def test_a_formula_over_a_file(file):
    assert verdicts(file, "--formula", "sick ~ dose + drug") == EXPECTED
    said = call("separability", file, "--formula", "sick ~ dose + drug").stdout
    assert said.startswith("quasi-separable")
    assert "drug[T.b]    +inf     1 (number 4)" in said
    assert "drop drug, or use" in said


def test_families_and_weights():
    found = facts("rows.csv", "--formula", "count ~ drug", "--family", "poisson")
    assert (found["family"], found["formula"], found["n"]) == ("poisson", "count ~ drug", 6)
    assert found["coefficients"][1] == {"name": "drug[T.b]", "verdict": "-inf", "rows": 1, "first_rows": [4]}
    assert facts("rows.csv", "--formula", "sick ~ dose", "--weights", "weight")["boundary_rows"] == [
        0,
        1,
        2,
        3,
        4,
    ]
    args = "--label", "count", "--features", "dose,weight", "--family", "poisson"
    assert list(verdicts("rows.csv", *args)) == ["(Intercept)", "dose", "weight"]
    found = facts("rows.csv", "--label", "drug", "--features", "dose", "--family", "multinomial")
    assert [line["class"] for line in found["coefficients"]] == ["b", "b"]


def test_standard_input():
    given = ["separability", "-", "--formula", "sick ~ dose + drug"]
    assert "drug[T.b]    +inf" in call(*given, input=TABLE.encode()).stdout
    said = call(*given, input=Path("holes.csv").read_bytes(), code=2).stderr
    assert "standard input, line 4, column 'sick'" in said


def test_missing_values_are_refused_or_dropped():
    said = call("separability", "holes.csv", "--formula", "sick ~ drug", code=2).stderr
    assert said.strip() == (
        "Error: holes.csv, line 4, column 'sick': the value is missing. Fill it in, or drop such rows: "
        "--missing drop."
    )
    call("separability", "holes.csv", "--formula", "count ~ drug", "--family", "poisson")  # not in these
    args = "holes.csv", "--formula", "sick ~ dose + drug", "--missing", "drop"
    note = "2 of 6 rows have missing values and were dropped; row numbers are those of the file, from 0."
    said = call("separability", *args).stdout
    assert f"Note: {note}" in said
    assert "drug[T.b]    +inf     1 (number 4)" in said
    said = call("separability", "holes.csv", "--formula", "sick ~ dose", "--missing", "drop").stdout
    assert "the only row with dose = 1 has sick no" in said
    found = facts(*args)
    assert (found["n"], found["dropped_rows"], found["notes"]) == (4, [2, 3], [note])
    assert (found["separated_rows"], found["limiting_rows"]) == ([0, 4], [1, 5])


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("cbind(count, weight) ~ dose", "binomial"),
        ("drug ~ dose", "multinomial"),
        ("count ~ dose + center(weight)", "poisson"),
        ("count ~ dose", "ordinal"),
    ],
)
def test_dropped_rows_change_no_verdict(formula, family):
    whole, holes = TABLE.splitlines(), TABLE.replace("yes,4,a", "yes,,a").splitlines()
    Path("holes.csv").write_text("\n".join(holes))
    Path("rest.csv").write_text("\n".join(whole[:4] + whole[5:]))
    args = "--formula", formula, "--family", family
    found, expected = facts("holes.csv", *args, "--missing", "drop"), facts("rest.csv", *args)
    names = [(one["name"], one["verdict"]) for one in expected["coefficients"]]
    assert [(one["name"], one["verdict"]) for one in found["coefficients"]] == names
    assert found["limiting_rows"] == [row + (row >= 3) for row in expected["limiting_rows"]]


def test_python_code_in_a_formula_is_run_if_it_is_trusted():
    args = "separability", "rows.csv", "--formula", "sick ~ np.cbrt(dose)"
    said = call(*args, code=2).stderr
    assert "np.cbrt(dose) is Python code" in said
    assert said.count("\n") == 1
    assert "np.cbrt(dose)" in call(*args, "--formula-python").stdout
    assert "--formula-python" in call("separability", "--help").stdout


HOSTILE = "\x1b[2Jevil\u202e\x08\x07<script>"


def test_names_are_shown_and_not_obeyed():
    """Columns, classes and files with terminal escapes, in tables, notes, warnings and errors."""
    file = f"{HOSTILE}.csv"
    rows = "".join(f"{k},{k % 3},{HOSTILE if k > 2 else 'no'}\n" for k in range(6))
    Path(file).write_text(f"{HOSTILE},id,y\n{rows}")
    Path("short.csv").write_text(f"{HOSTILE},y\n1,{HOSTILE}\n,b\n")
    calls = [["fit", file, "--out", "m.npz"], ["run", file, "--steps", "3"], ["separability", file]]
    calls += [
        ["predict", "m.npz", file, "--out", "p.csv"],
        ["fit", "short.csv"],
        ["separability", "short.csv"],
    ]
    calls += [["fit", file, "--label", HOSTILE + "x"], ["fit", f"no{file}"], ["fit", file, f"--{HOSTILE}"]]
    calls += [["separability", file, "--formula", f"y ~ `{HOSTILE}`"], ["fit", "short.csv", "--debug"]]
    for arguments in calls:
        found = RUNNER.invoke(app, arguments, prog_name="prgd")
        assert found.exit_code in (0, 1, 2)
        for text in (found.stdout, found.stderr):
            assert not set(text) & {"\x1b", "\x07", "\x08", "\u202e"}, arguments
        assert r"\x1b[2Jevil\u202e\x08\x07<script>" in found.stdout + found.stderr, arguments


def test_text_columns_as_people_have_them():
    Path("rows.csv").write_text("sick;dose;ok\nTRUE;1,5;none\nFALSE;2,5;x\nTRUE;3,5;x\nFALSE;0,5;none\n")
    found = verdicts("rows.csv", "--formula", "sick ~ dose + ok", "--decimal", ",")
    assert list(found) == ["(Intercept)", "dose", "ok[T.x]"]


@pytest.mark.slow
@posix
def test_stages_are_shown_on_a_terminal_alone():
    terminal = Terminal("separability", "rows.csv", "--formula", "sick ~ dose + drug")
    assert terminal.end() == 0
    assert re.search(r"separability  (reading|\d).*0:00:0", terminal.seen)
    assert "drug[T.b]    +inf" in terminal.seen
    assert call("separability", "rows.csv", "--formula", "sick ~ dose + drug").stderr == ""


def test_a_fit_is_printed_and_written():
    model = "rows.csv", "--formula", "sick ~ dose + drug", "--weights", "weight"
    said = call("separability", *model, "--fit").stdout
    assert said.startswith("quasi-separable")
    assert re.search(r"\ndrug\[T.b\] +\+inf +-\d.\d+ +\+inf +\d", said)
    table = facts(*model, "--fit")["fit"]["table"]
    assert [line["estimate"] for line in table][2] == "+inf"
    call("separability", *model, "--fit", "firth", "--csv", "fit.csv")
    assert list(pd.read_csv("fit.csv").verdict) == list(EXPECTED.values())
    assert pd.read_csv("fit.csv").estimate.between(-9, 9).all()
    assert "give --fit too" in refused("separability", *model, "--csv", "fit.csv")
    grades = "rows.csv", "--formula", "dose ~ count", "--family", "ordinal", "--fit", "firth"
    said = call("separability", *grades, code=2)
    assert "got an ordinal one" in said.stderr
    assert "separable" in said.stdout  # The verdict is printed first.
