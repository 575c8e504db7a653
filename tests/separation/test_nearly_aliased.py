"""Columns that are collinear up to rounding: exact verdicts, and a note that says so."""

import json
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_digits

import prgd
from prgd.proofs import column_relations as module
from prgd.proofs.column_relations import near_relations
from prgd.proofs.lifted_rows import KeptColumns, LiftedRows
from prgd.proofs.pivots import pivot_columns
from prgd.regression.families import model_rows
from prgd.rows import ChunkedRows

RNG = np.random.default_rng(0)
N = 60
X = RNG.choice([0.1, 0.2, 0.3, 0.7], N)
H = np.round(RNG.normal(170.0, 10.0, N), 1)
A, B = np.round(RNG.uniform(0.0, 0.5, (2, N)), 2)
Y = RNG.integers(0, 2, N)
NOTE = (
    "x1 is 3 x0 up to rounding ({} of its size): R's glm would report NA for it. "
    "The verdicts take the numbers literally; drop x1 and ask again."
)


def columns(*parts):
    return np.column_stack(parts)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ((X, 3.0 * X), "x1 is 3 x0 up"),
        ((H, H / 2.54), "x1 is 0.393701 x0 up"),
        ((H, H / 100.0), "x1 is 0.01 x0 up"),
        ((X, 3.0 * X + 1.0), "x1 is 3 x0 + 1 up"),
        ((A, B, np.round(1.0 - A - B, 2)), "x2 is 1 - x0 - x1 up"),
        ((X, H, 1e-200 * (X + H)), "x2 is 1e-200 x0 + 1e-200 x1 up"),
    ],
)
@pytest.mark.parametrize("read", [np.asarray, csr_array])
def test_rounded_combinations_are_noted(features, words, read):
    found, name = prgd.separability(read(columns(*features)), Y), f"x{len(features) - 1}"
    assert "aliased" not in found.coefficients.values()
    assert found.nearly_aliased == (name,)
    (note,) = found.notes
    assert note.startswith(words)
    assert "R's glm would report NA" in note
    assert found.advice.startswith(f"Drop {name} and ask again: it is a combination of other columns")
    assert found.check(read(columns(*features)), Y)


def test_the_note_is_printed_and_survives_a_copy():
    x = np.array([3, 1, 2, 3, 3, 3, 1, 3, 1, 3, 3, 3, 3, 3, 2, 2, 1, 3, 3, 1]) / 10.0
    y = np.array([1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1])
    found = prgd.separability(columns(x, 3.0 * x), y)
    assert found.verdict == "quasi-separable"  # by the rounding of 3 * 0.2 alone
    (note,) = found.notes
    assert note == NOTE.format(note.split("(")[1].split(" ")[0])
    assert f"Note: {note}" in " ".join(str(found).split())  # lines are wrapped
    assert "x0 and x1 are infinite" not in found.advice
    assert json.loads(found.to_json())["notes"] == [note]
    assert pickle.loads(pickle.dumps(found)).advice == found.advice  # noqa: S301
    assert prgd.separability(x[:, None], y).nearly_aliased == ()


@pytest.mark.parametrize(
    ("family", "y"),
    [("poisson", Y), ("multinomial", RNG.integers(0, 3, N)), ("ordinal", RNG.integers(0, 3, N))],
)
def test_each_family_says_it_once(family, y):
    found = prgd.separability(columns(X, H, 3.0 * X + 1.0), y, family=family)
    assert found.nearly_aliased == ("x2",)
    (note,) = found.notes
    assert note.startswith("x2 is 3 x0 + 1 up to rounding")
    assert ("R's glm" in note) == (family == "poisson")


def test_chunked_rows():
    Z, signs = columns(X, H, 3.0 * X + 1.0), 2 * Y - 1
    blocks = [(Z[k : k + 7], signs[k : k + 7]) for k in range(0, N, 7)]
    (note,) = prgd.separability(ChunkedRows.from_blocks(blocks)).notes
    assert note.startswith("x2 is 3 x0 + 1 up to rounding")


def test_notes_of_a_formula_stay():
    data = {"y": Y, "h": H, "inches": H / 2.54, "e": X}
    found = prgd.separability.from_formula("y ~ h + inches + offset(e)", data)
    assert found.nearly_aliased == ("inches",)
    assert "offset" in found.notes[0]
    assert found.notes[1].startswith("inches is 0.393701 h up to rounding")


def test_later_columns_are_compared_with_kept_ones_only():
    # H + X depends on H and X, not on the column 3 X between them, which is out already.
    found = prgd.separability(columns(X, 3.0 * X, H, H + X, H / 3.0, H / 7.0, H / 2.54), Y)
    assert found.nearly_aliased == ("x1", "x3", "x4", "x5", "x6")
    assert found.notes[1].startswith("x3 is x0 + x2 up to rounding")
    assert found.notes[4] == "Up to rounding, x6 depends on earlier columns too."


def test_a_residual_above_the_tolerance_of_glm_is_not_said_to_be_na():
    noise = RNG.normal(size=N)
    found = prgd.separability(columns(H, 3.0 * H + 1e-8 * noise), Y)
    assert found.nearly_aliased == ("x1",)
    assert "R's glm" not in found.notes[0]
    assert prgd.separability(columns(H, 3.0 * H + 1e-5 * noise), Y).nearly_aliased == ()


def test_rows_that_differ_seldom_are_read():
    x = np.tile([1.0, 2.0, 3.0], 1000)
    other = 3.0 * x
    other[1234] += 1.0
    rows = LiftedRows(columns(x, other, x / 3.0), None, fit_intercept=False)
    found = near_relations(rows)
    assert [relation.column for relation in found] == [2]
    assert found[0].terms == pytest.approx({0: 1.0 / 3.0})


def test_large_data_are_not_tested(monkeypatch):
    monkeypatch.setattr(module, "_MAX_WORK", 4.0 * N)
    assert near_relations(LiftedRows(columns(X, 3.0 * X, H), None, fit_intercept=False)) == []


def test_honest_data_have_no_note():
    cancer, digits = load_breast_cancer(), load_digits()
    for X, y in ((cancer.data, cancer.target), (digits.data, digits.target > 4)):
        model = model_rows(X, y)
        pivots = pivot_columns(model.rows, model.columns)
        assert near_relations(KeptColumns(model.rows, pivots.kept)) == []
