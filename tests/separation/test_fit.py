"""The fitted model of a verdict: published sets, generated ones, what users ask for, and what cannot be."""

import json
import pickle

import numpy as np
import pytest
from separation.test_published_sets import endometrial

import prgd

pd = pytest.importorskip("pandas")
sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

X, Y = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [1.0, 2.0]], [0, 1, 0, 1, 1]


def by_name(fitted):
    return {line.name: line for line in fitted.coefficients}


def trial(seed=0, n=240):
    """Return a made-up trial: no woman of stage I has the event, and everyone with low doses at stage IV."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"age": rng.normal(60, 8, n).round(), "sex": rng.choice(list("fm"), n)})
    data["stage"] = np.append(
        np.tile(["I", "II", "III", "IV"], 9), rng.choice(["I", "II", "III", "IV"], n - 36)
    )
    data["trt"] = rng.choice(["high", "low"], n)
    data["event"] = (0.05 * (data.age - 60) + rng.logistic(size=n) > 0).astype(int)
    data.loc[(data.sex == "f") & (data.stage == "I"), "event"] = 0
    data.loc[(data.trt == "low") & (data.stage == "IV"), "event"] = 1
    return data.assign(w=rng.integers(1, 4, n), dose=rng.uniform(1, 2, n))


def test_endometrial():
    """Estimates by Firth's penalty as the README of brglm2 prints them; intervals of Heinze and Schemper."""
    found = prgd.separability.from_formula("HG ~ NV + PI + EH", endometrial())
    table = by_name(fitted := found.fit())
    assert (table["NV"].estimate, table["NV"].upper) == (np.inf, np.inf)
    assert table["NV"].lower == pytest.approx(1.2841, abs=1e-4)
    for name, estimate in {"(Intercept)": 4.3045, "PI": -0.0422, "EH": -2.9026}.items():
        assert table[name].estimate == pytest.approx(estimate, abs=6e-5)
    rest = endometrial().query("NV == 0")
    glm = smf.glm("HG ~ PI + EH", rest, family=sm.families.Binomial()).fit(tol=1e-13)
    ours = [table[name].std_error for name in ("(Intercept)", "PI", "EH")]
    assert ours == pytest.approx(list(glm.bse), rel=1e-6)
    assert (fitted.log_likelihood, fitted.n, fitted.df) == (pytest.approx(glm.llf), 79, 4)
    assert (fitted.predict(endometrial())[endometrial().NV == 1] == 1.0).all()
    assert fitted.predict(rest) == pytest.approx(glm.predict(rest), rel=1e-9)
    firth = found.fit("firth")
    published = [(3.77456, 1.48869), (2.92927, 1.55076), (-0.03475, 0.03958), (-2.60416, 0.77602)]
    for line, numbers in zip(firth.coefficients, published, strict=True):
        assert (line.estimate, line.std_error) == pytest.approx(numbers, abs=1e-5)
    line = by_name(firth)["NV"]
    assert (line.lower, line.upper, line.p) == pytest.approx((0.6097, 7.8546, 0.0091), abs=5e-5)


@pytest.mark.parametrize("weights", [None, "w"])
def test_interactions_with_empty_cells(weights):
    """A refit of the formula on the limiting rows has numbers for infinite coefficients; the fit has none."""
    data = trial()
    data.loc[:4, "age"] = np.nan
    terms = "event ~ age + sex * stage + stage * trt"
    given = {} if weights is None else {"freq_weights": data.w}
    model = smf.glm(terms, data, family=sm.families.Binomial(), missing="drop", **given)
    found = prgd.separability.from_statsmodels(model)
    assert (found.verdict, found.limiting_rows.size < len(model.endog)) == ("quasi-separable", True)
    table = found.fit().to_dataframe().set_index("name")
    infinite = table.verdict.str.endswith("inf")
    assert infinite.sum() >= 3
    assert np.isinf(table.estimate[infinite]).all()
    assert table.std_error[infinite].isna().all()
    # One end of every such interval is a number, and the finite coefficients are those of the limiting rows.
    assert (np.isfinite(table.lower) ^ np.isfinite(table.upper))[infinite].all()
    rows = found.limiting_rows
    used = model.exog[rows][:, np.linalg.qr(model.exog[rows])[1].diagonal().round(9) != 0.0]
    names = np.array(model.exog_names)[np.linalg.qr(model.exog[rows])[1].diagonal().round(9) != 0.0]
    own = {} if weights is None else {"freq_weights": model.freq_weights[rows]}
    glm = sm.GLM(model.endog[rows], used, family=sm.families.Binomial(), **own).fit(tol=1e-13)
    for name in table.index[table.verdict == "finite"]:
        at = list(names).index(name)
        assert table.estimate[name] == pytest.approx(glm.params[at], rel=1e-6)
        assert table.std_error[name] == pytest.approx(glm.bse[at], rel=1e-6)
    assert found.fit("firth").to_dataframe().estimate.notna().all()
    probabilities = found.fit().predict(data.dropna())
    assert set(np.flatnonzero(np.isin(probabilities, [0.0, 1.0]))) == set(found.fitted_rows)


def test_a_model_that_statsmodels_calls_singular():
    """A site that has a ward of its own makes columns aliased, and nobody died there."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"site": rng.choice(list("ABC"), 90)})
    data["ward"] = np.where(data.site == "C", "west", rng.choice(["east", "north"], 90))
    data["died"] = np.where(data.site == "C", 0, rng.integers(2, size=90))
    model = smf.logit("died ~ site * ward", data)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        model.fit(disp=False)
    found = prgd.separability.from_statsmodels(model)
    assert {str(line.verdict) for line in found.fit().coefficients} == {"finite", "-inf", "aliased"}
    assert np.isnan(by_name(found.fit("firth"))["ward[T.west]"].estimate)
    new = pd.DataFrame({"site": list("CAC"), "ward": ["west", "east", "east"]})
    p = found.fit().predict(new)
    assert p[0] == 0.0 < p[1] < 1.0
    assert np.isnan(p[2])  # Nobody of site C was in the east.


@pytest.mark.parametrize("family", ["multinomial", "ordinal", "poisson"])
def test_without_separation_it_is_the_ordinary_fit(family):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200, 2))
    y = np.digitize(x[:, 0] + rng.logistic(size=200), [-1.0, 1.0])
    if family == "multinomial":
        theirs = sm.MNLogit(y, sm.add_constant(x)).fit(disp=False, tol=1e-12, maxiter=100)
    elif family == "poisson":
        theirs = sm.Poisson(y, sm.add_constant(x), offset=x[:, 0], exposure=np.exp(x[:, 1])).fit(disp=False)
    else:
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        theirs = OrderedModel(y, x, distr="logit", offset=x[:, 1]).fit(method="bfgs", disp=False, gtol=1e-10)
    found = prgd.separability.from_statsmodels(theirs)
    ours = found.fit(level=0.9)
    assert ours.log_likelihood == pytest.approx(theirs.llf, rel=1e-9)
    new = theirs.model.exog[:9]
    offset = {"poisson": x[:9].sum(axis=1), "ordinal": x[:9, 1]}.get(family)
    assert ours.predict(new, offset=offset) == pytest.approx(np.asarray(theirs.predict())[:9], abs=1e-5)
    errors = np.asarray(theirs.bse).T.ravel()[: 6 if family == "multinomial" else 2]
    own = [line.std_error for line in ours.coefficients]
    assert own[2 * (family == "ordinal") :][: len(errors)] == pytest.approx(errors, rel=1e-4)
    assert all(line.lower < line.estimate < line.upper for line in ours.coefficients)


def test_counts_shares_and_an_offset_of_a_formula():
    data = trial().query("stage == 'I'").assign(n=lambda d: d.w + 1, s=lambda d: d.w * d.event)
    data = data.assign(f=data.n - data.s, share=data.s / data.n)
    terms = "age + sex + offset(np.log(dose))"
    counts = prgd.separability.from_formula(f"cbind(s, f) ~ {terms}", data).fit()
    shares = prgd.separability.from_formula(f"share ~ {terms}", data, sample_weight="n").fit()
    dummies, log_dose = pd.get_dummies(data[["age", "sex"]], dtype=float), np.log(data.dose)
    model = sm.GLM(data[["s", "f"]], dummies, offset=log_dose, family=sm.families.Binomial())
    weighted = sm.GLM(data[["s", "f"]], dummies.age, freq_weights=data.w, family=sm.families.Binomial())
    found = prgd.separability.from_statsmodels(weighted)
    assert found.fit(level=None).log_likelihood == pytest.approx(weighted.fit().llf, rel=1e-9)
    for other in (shares, prgd.separability.from_statsmodels(model).fit()):
        assert other.log_likelihood == pytest.approx(counts.log_likelihood, rel=1e-9)
    assert shares.predict(data) == pytest.approx(counts.predict(data), rel=1e-9)
    assert (counts.predict(data)[data.sex == "f"] == 0.0).all()
    with pytest.raises(ValueError, match="Unknown column 'dose'"):
        counts.predict(data[["age", "sex"]])
    with pytest.raises(
        ValueError, match=r"original dataset.*\. The model has no coefficient for them: leave"
    ):
        counts.predict(data.assign(sex="x"))


def test_limits_that_the_data_do_not_determine_are_nan():
    fitted = prgd.separability([[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]).fit()
    assert "Separation is complete" in str(fitted)
    np.testing.assert_equal(fitted.predict([[0.0], [2.0], [2.5], [3.0]]), [0.0, 0.0, np.nan, 1.0])
    assert [line.verdict for line in fitted.coefficients] == ["-inf", "+inf"]
    assert np.isfinite([fitted.coefficients[0].upper, fitted.coefficients[1].lower]).all()
    rates = prgd.separability([[0, 1], [0, 2], [0, 3], [1, 2]], [3, 1, 2, 0], family="poisson").fit()
    p = rates.predict([[1, 5], [-1, 5], [0, 2]])
    assert (p[0], p[1]) == (0.0, np.inf)
    assert 0.0 < p[2] < np.inf
    km, by = [[1], [2], [3], [4], [5], [6]], ["bike", "walk", "walk", "bike", "bus", "bus"]
    p = prgd.separability(km, by, family="multinomial").fit().predict([[6], [3], [4.5]])
    by = prgd.separability([[0], [0], [0], [1], [1]], list("abcab"), family="multinomial").fit()
    assert "The limiting model has 5 rows; some of them lose classes." in by.notes
    assert p[0].tolist() == [0.0, 1.0, 0.0]
    assert p[1] == pytest.approx([0.5, 0.0, 0.5], abs=0.2)
    assert np.isnan(p[2]).any()


def test_a_limit_that_rounding_hides_is_nan_and_not_the_wrong_class():
    X = [[-12, -12, -11], [8, 2, 12], [-10, -10, 6], [-1, 17, -6], [-13, -5, 0], [-5, 12, -2]]
    X, y = np.multiply(X, [1e-6, 1e2, 1e-7]), np.array([1, 0, 1, 1, 0, 0])
    p = prgd.separability(X, y).fit(level=None).predict(X)
    assert (np.isnan(p) | (p == y)).all()


@pytest.mark.parametrize("penalty", [None, "firth"])
def test_numbers_of_extreme_size(penalty):
    """Columns may have any scale; offsets beyond what float64 resolves have no interval."""
    x, y = np.array([[0.0], [1.0], [1.0], [2.0], [0.0]]), [0, 0, 1, 1, 1]
    line, large = (prgd.separability(c * x, y).fit(penalty).coefficients[1] for c in (1.0, 1e200))
    assert np.multiply(large[2:6], 1e200) == pytest.approx(line[2:6], rel=1e-9)
    fitted = prgd.separability(x, y).fit(penalty, offset=[1e300, -1e300, 0.0, 0.0, 0.0])
    assert "it did not converge" in str(fitted)


def test_how_a_fit_is_shown(tmp_path):
    fitted = prgd.separability.from_formula("event ~ age + sex * stage + stage * trt", trial()).fit()
    assert max(map(len, str(fitted).splitlines())) <= 78
    assert "<table>" in fitted._repr_html_()
    fitted.to_csv(tmp_path / "t.csv")
    table = pd.read_csv(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(table, fitted.to_dataframe())
    said = json.loads(fitted.to_json())
    assert {"+inf", "-inf"} & {line["estimate"] for line in said["table"]}
    assert len(said["table"]) == said["df"] == len(table)
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert str(copy) == str(fitted)
    with pytest.raises(ValueError, match="predict needs the data"):
        copy.predict(trial())


@pytest.mark.parametrize(
    ("y", "family", "arguments", "message"),
    [
        (Y, "binomial", {"penalty": "ridge"}, "penalty must be None or 'firth'"),
        (Y, "binomial", {"offset": [1.0, 2.0]}, "offset must hold a finite number for each of the 5"),
        (Y, "binomial", {"level": "95 %"}, "level must be a number between 0 and 1"),
        (Y, "poisson", {"offset": [0, 9e9, 0, 0, 0]}, "likelihood is zero in float64, as of a large offset"),
        ([1, 2, 3, 2, 1], "ordinal", {"penalty": "firth"}, "got an ordinal one"),
        (list("abcba"), "multinomial", {"offset": [0.0] * 5}, "got a multinomial one"),
        (Y, "probit", {}, "links logit and log; the model has probit"),
        (Y, "copied", {}, "fit needs the data"),
        (Y, "near copy", {}, "Drop x2 and ask again"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_a_sentence(y, family, arguments, message):
    if family == "probit":
        found = prgd.separability.from_statsmodels(sm.Probit(y, sm.add_constant(np.array(X))))
    elif family == "copied":
        found = pickle.loads(pickle.dumps(prgd.separability(X, y)))  # noqa: S301
    elif family == "near copy":
        found = prgd.separability([[*row, 0.1 * row[1]] for row in X], y)
    else:
        found = prgd.separability(X, y, family=family)
    with pytest.raises(ValueError, match=message):
        found.fit(**arguments)
    assert "separable" in str(found)
