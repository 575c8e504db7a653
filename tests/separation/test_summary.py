"""How a verdict is shown: text, HTML, data frame, JSON, the rows involved and the advice."""

import json
import pickle
from dataclasses import replace
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest

import prgd
from prgd.proofs import lifted_rows
from prgd.regression import Separability
from prgd.regression.advice import rows_involved
from prgd.regression.coefficients import Behaviour
from prgd.regression.families import model_rows

X = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [1.0, 2.0], [2.0, 0.0]])
Y = ["no", "yes", "no", "yes", "yes", "yes"]


@pytest.fixture(scope="module")
def quasi():
    return prgd.separability(X, Y)


def with_words(found: Separability, words: dict) -> Separability:
    """Return a verdict on other coefficients, as a stand-in."""
    empty = {"max_margin_signs": {}, "model": None, "_evidence": None}
    return replace(found, coefficients={name: Behaviour(word) for name, word in words.items()}, **empty)


def test_the_first_line_names_up_to_eight_coefficients(quasi):
    words = {f"x{j}": "finite" if j else "+inf" for j in range(9)}
    first = str(with_words(quasi, words)).partition("\n  quasi-complete")[0]
    assert "x5, x6, x7 and x8 are finite." in first
    assert "x7, x8 and 1 more are finite." in str(with_words(quasi, {**words, "x9": "finite"}))


# Rows involved ------------------------------------------------------------------------------------------


def test_rows_involved_are_separated_and_not_zero_in_the_column(quasi):
    assert quasi.involved == {"x0": (2, (4, 5))}
    model = model_rows(X, Y)
    found = rows_involved(model, np.array([3, 4, 5]), ["x0", "x1", "(Intercept)"])
    assert found == {"x0": (2, (4, 5)), "x1": (2, (3, 4)), "(Intercept)": (3, (3, 4, 5))}
    assert rows_involved(model, np.array([3]), []) == {}


@pytest.mark.parametrize("block", [1, 2, 1000])
@pytest.mark.parametrize("family", ["multinomial", "poisson"])
def test_rows_involved_are_observations(family, block, monkeypatch):
    monkeypatch.setattr(lifted_rows, "_BLOCK_ENTRIES", block)
    monkeypatch.setattr(lifted_rows, "_STORED_ROWS", block)
    rng = np.random.default_rng(0)
    design = rng.integers(0, 2, (30, 3)).astype(float)
    model = model_rows(design, rng.integers(0, 3, 30), family=family)
    rows = np.sort(rng.choice(model.rows.n, 20, replace=False))
    found = rows_involved(model, rows, model.names)
    Z = model.rows.take(rows)
    for name, column in zip(model.names, model.columns, strict=True):
        expected = np.unique(model.observations[rows[Z[:, column] != 0]]).tolist()
        assert found[name] == (len(expected), tuple(expected[:5]))


# Text ---------------------------------------------------------------------------------------------------


def test_text_of_quasi_separation(quasi):
    lines = str(quasi).splitlines()
    assert lines[0] == "quasi-separable: x0 is infinite; (Intercept) and x1 are finite."
    assert lines[1] == "  all 2 rows with x0 > 0 have y yes."
    assert lines[2] == "  the event is yes, against no: a coefficient of +inf is for it."
    assert lines[3].startswith("  quasi-complete separation: a hyperplane has no row on its wrong side")
    assert max(map(len, lines)) <= 100
    table = lines[lines.index(next(line for line in lines if line.startswith("coefficient"))) :]
    assert [line.split() for line in table[2:5]] == [
        ["(Intercept)", "finite"],
        ["x0", "+inf", "2", "(numbers", "4,", "5)"],
        ["x1", "finite"],
    ]
    assert " ".join(lines[-2:]) == quasi.advice


def test_text_of_complete_separation_says_that_all_are_infinite():
    found = prgd.separability([[0.0, 1.0], [1.0, 3.0], [3.0, 0.0], [4.0, 1.0]], [0, 0, 1, 1])
    text = str(found)
    assert "separation is complete, so all 3 coefficients are infinite ((Intercept), x0 and x1)" in text
    assert "All of these coefficients are infinite" in found.advice
    assert "drop columns that tell the classes apart (x0" in found.advice
    assert "maximum margin: " in text
    assert "the data allow both signs" in text


def test_text_names_the_event_of_a_regression_and_finite_estimates():
    x = [[1.0], [2.0], [3.0], [4.0]]
    found = prgd.separability(x, [0, 1, 0, 1])
    assert "the event is" not in str(found)
    assert "every coefficient is finite" in str(found)
    assert found.advice == "Nothing needs to be done: all estimates are finite."
    found = prgd.separability(x, list("baba"), family="multinomial")
    assert "  coefficients compare each class with a, the first one." in str(found).splitlines()


def test_aliased_columns_show_their_relation():
    collinear = np.column_stack([X, X[:, 0] - 2.0 * X[:, 1], np.zeros(6)])
    found = prgd.separability(collinear, Y)
    assert found.relations == {"x2": {"x0": 1, "x1": -2}, "x3": {}}
    assert "x2           aliased  = x0 - 2 x1" in str(found)
    assert "x3           aliased  = 0" in str(found)
    assert "x2 and x3 are aliased" in str(found)


def test_a_long_table_has_infinite_coefficients_first():
    rng = np.random.default_rng(0)
    wide = np.column_stack([rng.integers(-2, 3, (200, 24)), np.arange(200) < 3]).astype(float)
    y = np.where(np.arange(200) < 3, 1, rng.integers(0, 2, 200))
    found = prgd.separability(wide, y)
    lines = str(found).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("coefficient")) + 2
    assert lines[start].split()[:2] == ["x24", "+inf"]
    assert lines[start + 20] == "and 6 more (6 finite): to_dataframe() has all"
    assert len(found.to_dataframe()) == 26
    assert found._repr_html_().count("<tr") == 22


def test_a_verdict_without_coefficients_has_no_table(quasi):
    bare = replace(quasi, coefficients={}, max_margin_signs={}, _evidence=None, model=None)
    assert "coefficient  " not in str(bare)
    assert "<table" not in bare._repr_html_()
    assert bare.to_dataframe().empty
    assert json.loads(bare.to_json())["coefficients"] == []


def test_undecided_coefficients(quasi):
    found = with_words(quasi, {"a": "undecided", "b": "finite"})
    assert "b is finite; a is undecided" in str(found)
    assert found.advice.startswith("Whether all estimates are finite is not known")
    found = with_words(quasi, {"a": "undecided", "b": "+inf"})
    assert found.advice == "b is infinite: drop b, or use Firth's penalty or a prior."


def test_rows_of_counts_are_observations():
    counts = np.array([[1, 1], [2, 1], [3, 0], [0, 2], [2, 0]])
    data = {"a": counts[:, 0], "b": counts[:, 1], "g": [0, 0, 0, 0, 1]}
    found = prgd.separability.from_formula("cbind(a, b) ~ g", data)
    assert found.fitted_rows.tolist() == [4]
    assert "on their correct side: 1 (number 4); on the hyperplane: 4 (numbers 0, 1, 2, 3)" in str(found)


# Advice -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ({"b": "finite", "NV": "+inf"}, "NV is infinite: drop NV, or use Firth's penalty or a prior;"),
        ({"a": "finite", "C(stage)[T.IV]": "-inf"}, "merge level IV of C(stage) with another level"),
        ({"a": "finite", "g[T.u]": "+inf", "g[T.v]": "-inf"}, "merge levels u and v of g with others"),
        ({"a": "finite", "g[T.u]:x": "+inf"}, "drop g:x"),
        ({"a": "finite", "g[T.u]": "-inf", "g[T.u]:h[T.9:30]": "+inf"}, "drop g:h and ask again, or use"),
        ({"a": "finite", "dose[mg]": "+inf"}, "drop dose[mg], or use"),
        ({"a": "finite", "(Intercept)": "+inf"}, "(Intercept) is infinite: use Firth's penalty or a prior;"),
        ({"a": "aliased", "b": "finite"}, "Drop a: it is a combination of other columns"),
        ({("k", "x"): "+inf", ("k", "z"): "finite", ("l", "x"): "either"}, "k: x and l: x are infinite: d"),
        (
            {f"x{j}": "finite" if j else "+inf" for j in range(9)},
            "fit() estimates x1, x2, x3, x4 and 4 more from the 4 limiting_rows.",
        ),
    ],
)
def test_advice_names_columns_and_levels(quasi, words, advice):
    assert advice in with_words(quasi, words).advice


@pytest.mark.parametrize(("family", "y"), [("poisson", [0, 0, 1, 2, 0, 3]), ("binomial", [1, 1, 0, 1, 1, 0])])
def test_advice_names_a_reference_level_of_one_outcome(family, y):
    data = {"y": y, "x": [1, 2, 3, 4, 6, 5], "g": list("uuvvww")}
    found = prgd.separability.from_formula("y ~ g", data, family=family)
    assert found.references == {"g": ("u", "v")}
    assert found.advice.startswith("No coefficient has a finite estimate, but the fitted values of the 4 lim")
    assert "take another reference level of g, such as C(g, Treatment('v')), since" in found.advice
    assert f"all 2 rows with g u have y {y[0]}." in str(found)
    copy = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert copy.advice == found.advice
    found = prgd.separability.from_formula("y ~ C(g, Treatment('v'))", data, family=family)
    infinite = [name for name, word in found.coefficients.items() if word.is_infinite]
    assert infinite == ["C(g, Treatment('v'))[T.u]"]
    assert found.references == {}


def test_another_reference_is_a_level_of_both_outcomes():
    data = {"y": [0, 0, 1, 1, 0, 1], "g": [1, 1, 2, 2, 3, 3]}
    found = prgd.separability.from_formula("y ~ C(g)", data)
    assert found.references == {"C(g)": (1, 3)}
    assert "such as C(g, Treatment(3))" in found.advice
    data["y"] = [0, 0, 1, 1, 1, 1]  # complete separation: no reference helps
    assert prgd.separability.from_formula("y ~ C(g)", data).references == {}


def test_advice_on_a_factor_of_two_levels_and_on_groups_of_zeros():
    data = {"y": [0, 1, 0, 1, 1, 1], "dose": [1, 2, 3, 4, 2, 3], "drug": list("aaaabb")}
    found = prgd.separability.from_formula("y ~ dose + drug", data)
    assert found.advice.startswith("drug[T.b] is infinite: drop drug, or use Firth's penalty or a prior;")
    data = {"y": [1, 2, 3, 1, 0, 0], "g": list("aabbcc")}
    found = prgd.separability.from_formula("y ~ g", data, family="poisson")
    assert "g[T.c] is infinite: drop the 2 rows outside limiting_rows, or merge level c of" in found.advice


def test_rows_involved_by_way_of_other_columns():
    table = {"exposed": ["no", "no", "yes", "yes"], "age": ["young", "old"] * 2}
    table |= {"cases": [20, 15, 4, 6], "controls": [30, 25, 7, 0]}
    found = prgd.separability.from_formula("cbind(cases, controls) ~ exposed * age", table)
    assert found.involved == {"exposed[T.yes]": (1, (3,)), "exposed[T.yes]:age[T.young]": (1, (3,))}
    assert "infinite: drop exposed:age and ask again, or use Firth" in found.advice
    table |= {"cases": [20, 0, 4, 6], "controls": [30, 25, 7, 1]}  # the reference cell
    found = prgd.separability.from_formula("cbind(cases, controls) ~ exposed * age", table)
    assert set(found.involved.values()) == {(1, (1,))}
    assert len(found.involved) == 4
    assert "no estimate exists" not in found.advice


# Frames, JSON, HTML -------------------------------------------------------------------------------------


def test_data_frame(quasi):
    frame = quasi.to_dataframe()
    assert list(frame.columns) == ["name", "verdict", "max_margin_sign", "rows", "first_rows", "relation"]
    assert frame.verdict.tolist() == ["finite", "+inf", "finite"]
    assert frame.rows.tolist() == [0, 2, 0]
    found = prgd.separability(X, [0, 1, 2, 0, 1, 2], family="multinomial").to_dataframe()
    assert list(found.columns[:2]) == ["class", "name"]
    assert found["class"].tolist() == ["1"] * 3 + ["2"] * 3


def test_json_has_all_coefficients():
    collinear = np.column_stack([X, X[:, 0] - 0.5 * X[:, 1]])
    facts = json.loads(prgd.separability(collinear, Y).to_json())
    assert facts["verdict"] == "quasi-separable"
    assert facts["family"] == "binomial"
    assert facts["classes"] == ["no", "yes"]
    assert facts["limiting_rows"] == [0, 1, 2, 3]
    assert facts["coefficients"] == [
        {"name": "(Intercept)", "verdict": "finite"},
        {"name": "x0", "verdict": "+inf", "rows": 2, "first_rows": [4, 5]},
        {"name": "x1", "verdict": "finite"},
        {
            "name": "x2",
            "verdict": "aliased",
            "relation": [{"name": "x0", "times": "1"}, {"name": "x1", "times": "-1/2"}],
        },
    ]
    overlap = json.loads(prgd.separability([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1]).to_json())
    assert overlap["margin"] is None
    assert overlap["dual_weights"]["rows"]


def test_html_escapes_names_and_closes_its_tags():
    data = {"y": [0, 1, 0, 1, 1], "a<b>": [0, 0, 0, 0, 1]}
    found = prgd.separability.from_formula("y ~ `a<b>`", data)
    cells = list(fromstring(found._repr_html_()).iter("td"))  # noqa: S314 - written here
    assert ["".join(cell.itertext()) for cell in cells[3:5]] == ["a<b>", "+inf"]
    assert 'class="infinite"' in found._repr_html_()


def test_a_copy_in_another_process_shows_the_same(quasi):
    collinear = np.column_stack([X, X[:, 0]])
    for found in (quasi, prgd.separability(collinear, Y)):
        copy = pickle.loads(pickle.dumps(found))  # noqa: S301
        assert copy.model is None
        assert str(copy) == str(found)
        assert copy.to_json() == found.to_json()
