"""Regressions as formulas over data frames: designs, responses and names as R has them, and errors."""

import inspect
import pickle
import sys
from decimal import Decimal

import numpy as np
import pytest

import prgd
from prgd.regression.formula import read_formula

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

DATA = {
    "y": ["no", "yes", "no", "yes", "yes", "no"],
    "x": [1, 2, 3, 4, 2, 5],
    "stage": ["II", "I", "III", "I", "II", "II"],
    "flag": [True, False, True, True, False, False],
    "dose, mg": [0.5, 1.0, 1.5, 0.0, 0.5, 1.0],
    "hit": [3, 0, 2, 1, 0, 4],
    "miss": [0, 2, 1, 1, 5, 0],
    "share": [0.0, 0.5, 1.0, 0.25, 0.0, 1.0],
    "w": [1, 0, 2, 1, 1, 1],
    "hole": [1.0, 2.0, None, 3.0, None, 1.0],
    "gap": ["a", None, "b", "b", "a", "a"],
}


def as_polars(data):
    return pytest.importorskip("polars").DataFrame(data)


def as_arrow(data):
    return pytest.importorskip("pyarrow").table(data)


KINDS = {"dict": dict, "pandas": pd.DataFrame, "polars": as_polars, "pyarrow": as_arrow}


def verdicts(found):
    return {name: str(word) for name, word in found.coefficients.items()}


# Designs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_gives_the_same_design(kind):
    data = KINDS[kind](DATA)
    read = read_formula("y ~ x + stage + flag + `dose, mg`", data)
    assert read.names == ("x", "stage[T.II]", "stage[T.III]", "flag[T.True]", "dose, mg")
    assert read.fit_intercept
    expected = [[1, 1, 0, 1, 0.5], [2, 0, 0, 0, 1], [3, 0, 1, 1, 1.5], [4, 0, 0, 1, 0], [2, 1, 0, 0, 0.5]]
    assert read.X[:5].tolist() == expected
    assert list(read.y) == DATA["y"]
    found = prgd.separability.from_formula("y ~ x + flag", data)
    assert found.check(data)


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~ 0 + stage", ("stage[I]", "stage[II]", "stage[III]")),
        ("y ~ stage - 1 + x", ("stage[I]", "stage[II]", "stage[III]", "x")),
        ("y ~ x * flag", ("x", "flag[T.True]", "x:flag[T.True]")),
        ("y ~ C(x)", ("C(x)[T.2]", "C(x)[T.3]", "C(x)[T.4]", "C(x)[T.5]")),
        ("y ~ C(stage, Treatment('II'))", tuple(f"C(stage, Treatment('II'))[T.{k}]" for k in ("I", "III"))),
        ("y ~ log(x) + I(x ** 2)", ("log(x)", "I(x ** 2)")),
        ("y ~ np.log(x) + poly(x, 2)", ("np.log(x)", "poly(x, 2)[1]", "poly(x, 2)[2]")),
        ("y ~ flag:x", ("flag[False]:x", "flag[True]:x")),
        ("y ~ I(flag * x)", ("I(flag * x)",)),
    ],
)
def test_terms(formula, names):
    read = read_formula(formula, DATA)
    assert read.names == names
    assert read.fit_intercept == ("0" not in formula and "- 1" not in formula)


def test_all_other_columns():
    data = {name: DATA[name] for name in ("y", "x", "stage")}
    assert read_formula("y ~ .", data).names == ("x", "stage[T.II]", "stage[T.III]")
    assert read_formula("y ~ . - x", data).names == ("stage[T.II]", "stage[T.III]")


def test_an_intercept_alone():
    found = prgd.separability.from_formula("y ~ 1", DATA)
    assert verdicts(found) == {"(Intercept)": "finite"}


def test_levels_have_their_declared_order_and_unused_ones_do_not_count():
    stage = pd.Categorical(DATA["stage"], categories=["IV", "III", "II", "I"])
    read = read_formula("y ~ stage", {"y": DATA["y"], "stage": stage})
    assert read.names == ("stage[T.II]", "stage[T.I]")
    polars = pytest.importorskip("polars")
    column = polars.Series(DATA["stage"], dtype=polars.Enum(["IV", "III", "II", "I"]))
    frame = polars.DataFrame({"y": DATA["y"], "stage": column})
    assert read_formula("y ~ stage", frame).names == read.names


def test_many_levels_are_sparse():
    rng = np.random.default_rng(0)
    firm = np.arange(2000) % 40
    y = rng.integers(0, 2, 2000)
    y[firm == 7] = 1
    data = {"y": y, "firm": firm.astype(str)}
    read = read_formula("y ~ firm", data)
    assert not isinstance(read.X, np.ndarray)
    assert read.X.shape == (2000, 39)
    assert read.X.nnz == 1950
    found = verdicts(prgd.separability.from_formula("y ~ firm", data))
    assert found.pop("firm[T.7]") == "+inf"
    assert set(found.values()) == {"finite"}


def test_weights_are_an_array_or_a_column():
    for weights in ("w", DATA["w"]):
        found = prgd.separability.from_formula("y ~ x", DATA, sample_weight=weights)
        assert found.separated_rows.size + found.boundary_rows.size == 5


def test_numbers_that_pandas_holds_as_objects_are_numbers():
    decimals = {"y": [0, 1], "x": [Decimal("0.5"), Decimal(2)]}
    assert read_formula("y ~ x", decimals).X.tolist() == [[0.5], [2.0]]
    whole = pd.DataFrame({"y": pd.array([0, 1], "Int64"), "x": pd.array([1, 2], "Int64")})
    assert read_formula("y ~ x", whole).X.tolist() == [[1.0], [2.0]]


# Responses ----------------------------------------------------------------------------------------------


def test_the_second_level_of_a_response_is_the_event():
    data = {"x": [0, 0, 0, 0, 1], "y": ["no", "yes", "no", "yes", "yes"]}
    assert verdicts(prgd.separability.from_formula("y ~ x", data))["x"] == "+inf"
    data["y"] = pd.Categorical(data["y"], categories=["yes", "no"])
    assert verdicts(prgd.separability.from_formula("y ~ x", data))["x"] == "-inf"
    data["y"] = np.array(data["y"]) == "yes"
    assert verdicts(prgd.separability.from_formula("y ~ x", data))["x"] == "+inf"
    assert verdicts(prgd.separability.from_formula("I(y == False) ~ x", data))["x"] == "-inf"


def test_counts_and_shares():
    counts = [prgd.separability.from_formula(f"{y} ~ x", DATA) for y in ("cbind(hit, miss)", "hit + miss")]
    assert verdicts(counts[0]) == verdicts(counts[1])
    share = prgd.separability.from_formula("share ~ x", DATA)
    both = {**DATA, "a": [0, 1, 1, 1, 0, 1], "b": [1, 1, 0, 1, 1, 0]}
    same = prgd.separability.from_formula("cbind(a, b) ~ x", both)
    assert verdicts(share) == verdicts(same)
    assert share.limiting_rows.tolist() == same.limiting_rows.tolist()


def test_other_families():
    found = prgd.separability.from_formula("stage ~ x", DATA, family="multinomial")
    assert list(found.coefficients) == [(k, name) for k in ("II", "III") for name in ("(Intercept)", "x")]
    order = pd.Categorical(DATA["stage"], categories=["III", "II", "I"])
    found = prgd.separability.from_formula("stage ~ x", {**DATA, "stage": order}, family="ordinal")
    assert list(found.coefficients) == ["III|II", "II|I", "x"]
    found = prgd.separability.from_formula("hit ~ flag", DATA, family="poisson")
    assert list(found.coefficients) == ["(Intercept)", "flag[T.True]"]
    amounts = {"y": [0.0, 0.5, 0.25, 0.0], "x": [1, 2, 3, 4]}  # no shares: ppml takes any amounts
    assert read_formula("y ~ x", amounts, family="poisson").y.ndim == 1


def test_an_offset_is_ignored_with_a_word():
    found = prgd.separability.from_formula("hit ~ flag + offset(log(x))", DATA, family="poisson")
    assert list(found.coefficients) == ["(Intercept)", "flag[T.True]"]
    assert "The offset log(x) does not change the verdict" in str(found)


# Errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ stagge", "Unknown column 'stagge'. Did you mean stage?"),
        ("y ~ twice(x)", "Unknown function 'twice'.*Functions are those of formulaic and np"),
        ("y ~ lgo(x)", "Unknown function 'lgo'. Did you mean log"),
        ("y ~ factor(x)", "Unknown name 'factor': write C instead"),
        ("y ~ numpy.log(x)", "Unknown name 'numpy': write np instead"),
        ("y ~ I(x^2)", r"powers are \*\* in Python"),
        ("y ~ Q('x')", "in backticks, without Q"),
        ("y ~ dose in mg", "Write . between terms, and names with spaces in backticks"),
        ("y = x", "Write ~ between"),
        ("y ~ x)", "parenthesis lacks its partner"),
        ("y ~ x + (1|stage)", "no random effects"),
        ("y ~ x +", r"Formula 'y ~ x \+': Operator `\+`"),
        ("y ~ (x", "Could not find matching"),
        ("y ~ x ~ w", "Operator `~` is incorrectly used"),
        ("y ~ x | w", "expected a response, ~ and terms"),
        ("y | w ~ x", "expected a response, ~ and terms"),
        ("~ x", "expected a response, ~ and terms"),
        ("x", "expected a response, ~ and terms"),
        ("y ~ 0", "expected terms after ~, got none"),
        ("y ~ hole", "data at row 2, column 'hole': the value is missing, as in 2 of 6 rows"),
        ("y ~ hole", r"drop the rows: data.dropna\(subset=\['y', 'hole'\]\)"),
        ("y ~ gap", "data at row 1, column 'gap': the value is missing"),
        ("y ~ log(hit)", "log.hit. is -inf at row 1, and must be finite"),
        ("y ~ C(stage, levels=['I', 'II'])", "categories outside of the nominated levels"),
        ("y ~ x[0]", "Formula 'y ~ x"),
        ("y + stage ~ x", "mixes levels and other columns"),
        ("stage ~ x", r"'stage'.*must hold two classes.*got 3 \(I, II, III\)"),
        ("cbind(hit, I(miss - 1)) ~ x", "at row 0.*expected a number of failures"),
        ("cbind(hit, miss, w) ~ x", r"got shape \(6, 3\)"),
    ],
)
def test_errors_of_a_formula_are_one_line(formula, words):
    with pytest.raises(ValueError, match=words) as error:
        prgd.separability.from_formula(formula, DATA)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (np.zeros((3, 2)), TypeError, "dict from names to columns; got ndarray"),
        ({"y": [0, 1], "x": [1, 2, 3]}, ValueError, "one length"),
        ({"y": [], "x": []}, ValueError, "must have rows"),
        ({"y": [0, 1], "x": [1.0, np.inf]}, ValueError, "row 1, column 'x': expected a finite number"),
        ({"y": [0, 1], "x": ["a", 2]}, ValueError, "Column 'x' of data must hold numbers only"),
        ({"y": [0, 1], "x": [2**60 + 1, 2]}, ValueError, "Column 'x' of data.*cannot hold"),
        ({"y": [0, 1], "x": np.eye(2)}, ValueError, "Column 'x' of data must be one column"),
        ({"y": [0, 1], "x": np.array(["2020-01-01"] * 2, "M8[s]")}, TypeError, "Column 'x' of data"),
        ({"y": [1, 1], "x": [1, 2]}, ValueError, "'y'.*must hold two classes; got 1"),
    ],
)
def test_errors_of_data(data, kind, words):
    with pytest.raises(kind, match=words):
        prgd.separability.from_formula("y ~ x", data)


def test_further_errors():
    lazy = as_polars({"y": [0, 1], "x": [1, 2]}).lazy()
    for formula, data, options, error, words in (
        ("y ~ x", lazy, {}, TypeError, "got LazyFrame"),
        ("x ~ 0 + w", DATA, {"family": "ordinal"}, ValueError, "thresholds in place of an intercept"),
        ("stage ~ w", DATA, {"family": "ordinal"}, ValueError, "says nothing about the order"),
        ("x ~ 1", DATA, {"family": "ordinal"}, ValueError, "a term that varies beside the thresholds"),
        ("y ~ x", DATA, {"sample_weight": "v"}, ValueError, "Unknown column 'v'"),
        (3, DATA, {}, TypeError, "formula must be text"),
    ):
        with pytest.raises(error, match=words):
            prgd.separability.from_formula(formula, data, **options)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"A formula needs formulaic: pip install '.\[formula\]'"):
        prgd.separability.from_formula("y ~ x", DATA)


def test_variables_of_the_caller_are_no_columns():
    text = formula = data = np.arange(6)  # noqa: F841
    with pytest.raises(ValueError, match="Unknown column 'text'"):
        prgd.separability.from_formula("y ~ text", DATA)


# Formulas of strangers ----------------------------------------------------------------------------------

SAFE = (
    "y ~ (x + flag)**2 - 1",
    "y ~ log(x) + I(x ** 2) + I((x - 1.5) / 100000)",
    "y ~ poly(x, 2) + bs(w, df=3) + scale(x) + np.sqrt(x)",
    "y ~ C(x, Treatment(2)) + C(stage, levels=['III', 'II', 'I'])",
    "y ~ log(`dose, mg` + 1) + I(x > 1e-3) + {x + 1}",
    "cbind(hit, miss) ~ . - y - hole - gap + offset(log(x))",
)
PYTHON = (
    *("np.load('x')", "I(x.T)", "I(().__class__)", "I((lambda: 1)())", "I([1 for x in x])", "I(f'{x}')"),
    *("I(9**9**9)", "I((((((9**9)**9)**9)**9)**9)**9)", "I('a' * 999 * 999)", "I([0] * 999 * 999)"),
    *("poly(x, 99999)", "bs(x, df=9 * 9)", "hashed(stage, levels=9)", "I(x if x else x)", "np.exp(x).sum()"),
    "I(x + (1 << 99))",
)


@pytest.mark.parametrize("formula", SAFE)
def test_arithmetic_factors_and_known_functions_need_no_trust(formula):
    safe, whole = (read_formula(formula, DATA, is_python=flag) for flag in (False, True))
    assert safe.names == whole.names


@pytest.mark.parametrize("expression", PYTHON)
def test_other_python_code_is_not_run_unless_it_is_trusted(expression):
    with pytest.raises(
        ValueError, match=r"is Python code beyond .* or allow it by --formula-python|invalid syntax"
    ):
        read_formula(f"y ~ {expression}", DATA, is_python=False)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ("(x + w)**40", "more than 100,000 terms"),
        ("x^9999999999", "more than 100,000 terms"),
        ("((x + w)**9)**9", "more than 100,000 terms"),
        ("(.)**12", "more than 100,000 terms"),
        ("*".join(["x", "w", "stage"] * 7), "more than 100,000 terms"),
        (":".join(["(x + w)"] * 30), "more than 100,000 terms"),
        ("(x + w)**(30 + 1)", "must be a positive integer"),
        ("a * b", "at most 1,000,000 columns that fit in memory, got 1,004,004"),
        ("C(a):C(b)", "at most 1,000,000 columns that fit in memory"),
    ],
)
def test_formulas_without_end_are_refused_before_they_begin(terms, words):
    levels = {name: [f"{name}{k}" for k in range(1001)] * 6 for name in "ab"}
    data = {name: column * 1001 for name, column in DATA.items() if name not in ("hole", "gap")}
    with pytest.raises(ValueError, match=words):
        read_formula(f"y ~ {terms}", data | levels)
    assert read_formula("y ~ " + " + ".join(["x"] * 2000), DATA).names == ("x",)  # sums may be long


# The function with attributes ---------------------------------------------------------------------------


def test_separability_stays_a_function():
    assert inspect.isfunction(prgd.separability)
    assert list(inspect.signature(prgd.separability).parameters)[:2] == ["X", "y"]
    assert pickle.loads(pickle.dumps(prgd.separability)) is prgd.separability  # noqa: S301
    assert "prove it" in inspect.getdoc(prgd.separability)
    for name in ("from_formula", "from_statsmodels"):
        assert "Parameters" in inspect.getdoc(getattr(prgd.separability, name))


def test_columns_with_names_of_functions():
    data = {"y": [0, 1, 0, 1], "C": [1, 2, 3, 5], "scale": [1, 1, 2, 2], "np": [0, 1, 1, 0], 7: [1, 2, 3, 4]}
    assert read_formula("y ~ C(scale) + I(scale * 2)", data).names == ("C(scale)[T.2]", "I(scale * 2)")
    assert read_formula("y ~ C + scale(C)", data).names == ("C", "scale(C)")
    assert read_formula("y ~ np", data).names == ("np",)
    assert read_formula("y ~ `7`", pd.DataFrame(data)).names == ("7",)
