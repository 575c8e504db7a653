"""Models and results of statsmodels: which are read, how their coefficients are called, what is refused."""

import pickle
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import prgd
from prgd.regression.statsmodels import read_model

pd = pytest.importorskip("pandas")
sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

N = 40
RNG = np.random.default_rng(0)
DATA = pd.DataFrame(
    {
        "x": RNG.integers(-3, 4, N).astype(float),
        "g": np.where(np.arange(N) < 4, "c", np.where(np.arange(N) % 2, "a", "b")),
        "y": np.where(np.arange(N) < 4, 1, RNG.integers(0, 2, N)),
        "count": np.where(np.arange(N) < 4, 0, RNG.poisson(1.0, N)),
        "kind": RNG.choice(["hi", "lo", "mid"], N),
        "wins": RNG.integers(0, 3, N),
        "losses": RNG.integers(0, 3, N),
    }
)
X, MODEL = DATA[["x"]], LogisticRegression()
BINOMIAL, POISSON = sm.families.Binomial, sm.families.Poisson


def verdicts(model):
    return {name: str(word) for name, word in prgd.separability.from_statsmodels(model).coefficients.items()}


def as_formula(formula, **options):
    found = prgd.separability.from_formula(formula, DATA, **options)
    return {name: str(word) for name, word in found.coefficients.items()}


SEPARATED = {"Intercept": "finite", "g[T.b]": "finite", "g[T.c]": "+inf", "x": "finite"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: smf.logit("y ~ x + g", DATA),
        lambda: smf.probit("y ~ x + g", DATA),
        lambda: smf.glm("y ~ x + g", DATA, family=BINOMIAL()),
        lambda: smf.glm("y ~ x + g", DATA, family=BINOMIAL(sm.families.links.CLogLog())),
    ],
)
def test_binary_models(make):
    assert verdicts(make()) == SEPARATED


def test_results_are_as_good_as_models():
    with pytest.warns(UserWarning, match="converge"):
        results = smf.logit("y ~ x + g", DATA).fit(disp=0, maxiter=15)
    assert verdicts(results) == SEPARATED
    found = prgd.separability.from_statsmodels(results)
    assert found.check(results)
    assert pickle.loads(pickle.dumps(found)).check(results)  # noqa: S301
    exog, endog = results.model.exog, results.model.endog
    assert found.check(exog[:, 1:], endog)
    with pytest.raises(ValueError, match="without the intercept; got 4 in place of 3"):
        found.check(exog, endog)
    assert "merge level c of g with another level" in found.advice
    assert found.limiting_rows.tolist() == list(range(4, N))


def with_missing_values():
    """Return the data with missing values in the first 3 of the 4 rows of g = c."""
    return DATA.assign(x=DATA.x.where(np.arange(N) >= 3))


def selected_by(found, data):
    """Run the expression that the last note recommends, with no names but those that the guide uses."""
    expression = found.notes[-1].rpartition("The limiting rows of the data are ")[2].removesuffix(".")
    return eval(expression, {"found": found, "data": data, "X": np.arange(len(data))})  # noqa: S307


def columns_of(data):
    return sm.add_constant(data[["x"]].assign(c=data.g == "c").astype(float))


@pytest.mark.parametrize(
    "make",
    [
        lambda data: smf.logit("y ~ x + g", data),
        lambda data: smf.glm("y ~ x + g", data, family=BINOMIAL()),
        lambda data: smf.poisson("count ~ x + g", data),
        lambda data: sm.Logit(data.y, columns_of(data), missing="drop"),
    ],
)
def test_a_note_tells_of_rows_that_statsmodels_dropped(make):
    data = with_missing_values().set_index(np.arange(N) + 100)
    found = prgd.separability.from_statsmodels(make(data))
    assert found.limiting_rows.tolist() == list(range(1, N - 3))
    assert found.notes[0] == "statsmodels has dropped 3 rows for missing values, and counts the 37 left."
    assert "Note: statsmodels has dropped" in str(found)
    assert selected_by(found, data).equals(data[data.g != "c"])
    copy = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert data.loc[copy.limiting_labels].equals(data[data.g != "c"])


@pytest.mark.parametrize("data", [DATA, with_missing_values()])
def test_a_note_tells_of_a_subset(data):
    model = smf.logit("y ~ x + g", data, subset=(data.g == "c") | (np.arange(N) % 3 > 0))
    found = prgd.separability.from_statsmodels(model)
    expected = data[(data.g != "c") & (np.arange(N) % 3 > 0)]
    assert not data.iloc[found.limiting_rows].equals(expected)
    assert selected_by(found, data).equals(expected)


def test_dropped_rows_of_arrays_are_numbered_as_in_the_arrays():
    data = with_missing_values()
    model = sm.Logit(data.y.to_numpy(), columns_of(data).to_numpy(), missing="drop")
    found = prgd.separability.from_statsmodels(model)
    assert selected_by(found, data).tolist() == np.flatnonzero(data.g != "c").tolist()


def test_labels_that_repeat_select_no_rows():
    data = with_missing_values().set_axis(np.arange(N) // 2, axis=0)
    found = prgd.separability.from_statsmodels(smf.logit("y ~ x + g", data))
    assert "call data.reset_index(drop=True) before the model is made" in found.notes[-1]
    with pytest.raises(ValueError, match=r"labels of the data repeat.*reset_index\(drop=True\)"):
        _ = found.limiting_labels


def test_no_note_if_no_row_is_missing():
    for model in (
        smf.logit("y ~ x + g", DATA),
        sm.Logit(DATA.y, DATA[["x"]], missing="drop"),
        sm.Logit(DATA.y, DATA[["x"]]),
    ):
        found = prgd.separability.from_statsmodels(model)
        assert found.notes == ()
        assert found.limiting_labels.tolist() == found.limiting_rows.tolist()


@pytest.mark.parametrize(
    "labels", [np.arange(N) + 7, pd.date_range("2020-01-01", periods=N), list(map(str, range(N)))]
)
def test_labels_of_a_data_frame(labels):
    data = DATA.set_axis(labels, axis=0)
    X = columns_of(data)
    for found in (prgd.separability.from_formula("y ~ x + g", data), prgd.separability(X, data.y)):
        assert "Row numbers count the rows of the model from 0" in str(found)
        assert selected_by(found, data).equals(data[data.g != "c"])
    overlap = prgd.separability.from_formula("y ~ x", data)  # prints no row numbers
    assert overlap.notes == ()


@pytest.mark.parametrize("make", [smf.logit, smf.poisson, lambda *given: smf.glm(*given, family=BINOMIAL())])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_note_tells_that_a_penalty_is_ignored(make):
    fit = make("y ~ x", DATA).fit_regularized(alpha=0.1)
    (note,) = prgd.separability.from_statsmodels(fit).notes
    assert note.startswith("The penalty of fit_regularized is ignored")


@pytest.mark.parametrize(
    ("given", "words", "line"),
    [
        (("y ~ x", DATA), {}, "got 'y ~ x'. Call separability.from_formula('y ~ x', data)"),
        ((DATA, "y ~ x"), {}, "got DataFrame. Call separability.from_formula('y ~ x', data)"),
        ((DATA, "y"), {}, "Call separability(data.drop(columns='y'), data['y'])"),
        (("rows.npy",), {}, "Call separability(prgd.open_rows('rows.npy', y))"),
        ((), {"formula": "y ~ x", "method": "detect_separation"}, "from_formula('y ~ x', data)"),
        ((X,), {"data": DATA}, "takes no data=. Call separability.from_formula('y ~ x1 + x2', data)"),
        ((X, DATA.y), {"weights": [1]}, "no weights=. Call separability(X, y, sample_weight=weights)"),
        ((X, DATA.y), {"method": "detect_separation"}, "Call separability(X, y): no verdict depends on it"),
        ((X, DATA.y), {"offset": DATA.x}, "Call separability(X, y).fit(offset=offset): no verdict"),
        ((smf.logit("y ~ x", DATA),), {}, "got Logit. Call separability.from_statsmodels(results)"),
        ((MODEL, X, DATA.y), {}, "got LogisticRegression. Call separability(X, y) with the data"),
        ((make_pipeline(MODEL),), {}, "Call separability(model[:-1].transform(X), y) with the data"),
    ],
)
def test_the_words_of_other_tools_are_answered_with_the_line_to_type(given, words, line):
    with pytest.raises(TypeError, match=re.escape(line)):
        prgd.separability(*given, **words)


def test_other_doors_answer_too():
    with pytest.raises(TypeError, match="formula, data, sample_weight=weights"):
        prgd.separability.from_formula("y ~ x", DATA, weights="w")
    with pytest.raises(TypeError, match=r"got LogisticRegression. Call separability\(X, y\) with"):
        prgd.separability.from_statsmodels(MODEL)
    with pytest.raises(TypeError, match=r"takes no weights=.*, which reads it from the model"):
        prgd.separability.from_statsmodels(smf.logit("y ~ x", DATA), weights=[1])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("exog", None, "exog of the model must hold numbers"),
        ("exog", np.ones(5), "a name for each column of exog"),
        ("exog", np.ones((5, 9)), "a name for each column of exog"),
        ("exog", np.ones((5, 1)), "a name for each column of exog"),
        ("exog", np.array([[2**53 + 1, 1]] * 5, object), "cannot hold 9007199254740993 exactly"),
        ("endog", np.array(["a"] * 5), "endog of the model must hold"),
    ],
)
def test_a_model_that_was_changed_is_refused_in_one_sentence(field, value, words):
    model = sm.Logit([0, 1, 0, 1, 1], np.column_stack([np.ones(5), np.arange(5.0)]))
    setattr(model, field, value)
    with pytest.raises((ValueError, TypeError), match=words):
        prgd.separability.from_statsmodels(model)


def test_check_asks_for_the_model():
    model = smf.logit("y ~ x + g", DATA)
    found = prgd.separability.from_statsmodels(model)
    assert repr(found.coefficients) == repr(SEPARATED)  # words are shown as words
    words = r"check needs the model of statsmodels .*; got DataFrame. Call found.check\(model\)"
    for one in (found, pickle.loads(pickle.dumps(found))):  # noqa: S301
        assert one.check(model)
        with pytest.raises(TypeError, match=words):
            one.check(DATA)


def test_names_of_arrays_and_models_without_a_constant():
    arrays = DATA.y.to_numpy(), sm.add_constant(DATA[["x"]].to_numpy())
    assert list(verdicts(sm.Logit(*arrays))) == ["const", "x1"]
    a_users_class = type("Own", (sm.Logit,), {})
    found = prgd.separability.from_statsmodels(a_users_class(DATA.y, DATA[["x"]]))
    assert list(found.coefficients) == ["x"]
    assert not found.fit_intercept
    assert list(verdicts(sm.Logit(DATA.y, np.ones(N)))) == ["const"]


def test_counts_in_two_columns():
    with np.errstate(invalid="ignore"):  # Some rows have no trials, and statsmodels divides by their number.
        model = smf.glm("wins + losses ~ x + g", DATA, family=BINOMIAL())
    expected = as_formula("cbind(wins, losses) ~ x + g")
    found = verdicts(model)
    assert {name.replace("Intercept", "(Intercept)"): word for name, word in found.items()} == expected
    assert (read_model(model).y == DATA[["wins", "losses"]]).all(axis=None)


def test_weights():
    weights = np.where(DATA.g == "c", 0, 2)
    model = sm.GLM(DATA.y, sm.add_constant(DATA[["x"]]), family=BINOMIAL(), freq_weights=weights)
    found = prgd.separability.from_statsmodels(model)
    assert found.limiting_rows.size + found.fitted_rows.size == N - 4
    model = sm.GLM(DATA.y / 2, sm.add_constant(DATA[["x"]]), family=BINOMIAL(), var_weights=np.full(N, 2.0))
    assert set(verdicts(model).values()) == {"finite"}  # every share but 0 has failures too


def test_poisson_with_exposure():
    expected = {"Intercept": "finite", "g[T.b]": "finite", "g[T.c]": "-inf", "x": "finite"}
    model = smf.poisson("count ~ x + g", DATA, exposure=np.full(N, 2.0))
    assert verdicts(model) == expected
    assert "exposure of the model does not change" in str(prgd.separability.from_statsmodels(model))
    model = smf.glm("count ~ x + g", DATA, family=POISSON(), offset=np.ones(N))
    assert verdicts(model) == expected
    assert read_model(model).notes[0].startswith("The offset of the model does not change")
    assert read_model(smf.glm("count ~ x + g", DATA, family=POISSON())).notes == ()


def test_multinomial():
    model = sm.MNLogit(DATA.kind, sm.add_constant(DATA[["x"]]))
    found = prgd.separability.from_statsmodels(model)
    assert list(found.coefficients) == [(k, name) for k in ("lo", "mid") for name in ("const", "x")]
    same = as_formula("kind ~ x", family="multinomial")
    assert [str(word) for word in found.coefficients.values()] == list(same.values())


def test_ordinal():
    OrderedModel = pytest.importorskip("statsmodels.miscmodels.ordinal_model").OrderedModel
    kind = pd.Series(pd.Categorical(DATA.kind, categories=["lo", "mid", "hi"], ordered=True), name="kind")
    found = prgd.separability.from_statsmodels(OrderedModel(kind, DATA[["x"]], distr="logit"))
    assert list(found.coefficients) == ["lo/mid", "mid/hi", "x"]
    line = pd.Series(pd.Categorical(np.where(DATA.x < -1, "lo", np.where(DATA.x > 1, "hi", "mid"))), name="k")
    line = line.cat.set_categories(["lo", "mid", "hi"], ordered=True)
    found = prgd.separability.from_statsmodels(OrderedModel(line, DATA[["x"]], distr="probit"))
    assert found.verdict == "separable"
    assert str(found.coefficients["x"]) == "+inf"
    assert "drop x" in found.advice


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sm.OLS(DATA.y, DATA[["x"]]), "takes models of statsmodels: Logit, Probit, .*; got OLS"),
        (lambda: sm.NegativeBinomial(DATA["count"], DATA[["x"]]), "got NegativeBinomial"),
        (lambda: sm.GLM(DATA.y, DATA[["x"]]), "got GLM with the family Gaussian and the link Identity"),
        (
            lambda: sm.GLM(DATA["count"], DATA[["x"]], family=POISSON(sm.families.links.Sqrt())),
            "got GLM with the family Poisson and the link Sqrt",
        ),
        (lambda: "y ~ x", "got 'y ~ x'. Call separability.from_formula"),
    ],
)
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.DomainWarning")
def test_other_models_are_refused(make, words):
    with pytest.raises(TypeError, match=words):
        prgd.separability.from_statsmodels(make())
