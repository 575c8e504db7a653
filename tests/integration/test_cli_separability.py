"""``prgd separability`` with a formula, a family and weights."""

import json
import os
import re
from pathlib import Path

import pytest
from command_line import Terminal, call, posix

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


def test_text_columns_as_people_have_them():
    Path("rows.csv").write_text("sick;dose;ok\nTRUE;1,5;none\nFALSE;2,5;x\nTRUE;3,5;x\nFALSE;0,5;none\n")
    found = verdicts("rows.csv", "--formula", "sick ~ dose + ok", "--decimal", ",")
    assert list(found) == ["(Intercept)", "dose", "ok[T.x]"]


@pytest.mark.skipif("PRGD_DATA" not in os.environ, reason="PRGD_DATA names no folder of real data")
def test_published_sets():
    folder = Path(os.environ["PRGD_DATA"]) / "separation"
    found = verdicts(folder / "endometrial.csv", "--formula", "HG ~ NV + PI + EH")
    assert found == {"(Intercept)": "finite", "NV": "+inf", "PI": "finite", "EH": "finite"}
    formula = "cbind(grahami, opalinus) ~ height + diameter + light + time"
    assert set(verdicts(folder / "lizards.csv", "--formula", formula).values()) == {"finite"}
    found = verdicts(folder / "silvapulle1981.csv", "--formula", "y ~ ghqs")
    assert found == {"(Intercept)": "-inf", "ghqs": "+inf"}


@pytest.mark.slow
@posix
def test_stages_are_shown_on_a_terminal_alone():
    terminal = Terminal("separability", "rows.csv", "--formula", "sick ~ dose + drug")
    assert terminal.end() == 0
    assert re.search(r"separability  (reading|\d).*0:00:0", terminal.seen)
    assert "drug[T.b]    +inf" in terminal.seen
    assert call("separability", "rows.csv", "--formula", "sick ~ dose + drug").stderr == ""
