"""Bad input and faults, for `max_margin` and for the estimators: a clear word or a true interval."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import prgd
from prgd import MaxMarginClassifier, NotSeparableWarning, PRGDClassifier, Status

both = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "origin"])
ignore_zero_rows = pytest.mark.filterwarnings("ignore::prgd.ZeroRowWarning")


def gaussian(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] > 0).astype(int)


def fitted(X, y, fit_intercept=True, **options):
    """The answers of `max_margin` and of the estimator, whose bounds are the same or tighter."""
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept, **options)
    classifier = MaxMarginClassifier(fit_intercept=fit_intercept, **options).fit(X, y)
    assert classifier.status_ == (result.status,)
    (margin,), (upper,), slack = classifier.margin_, classifier.margin_upper_bound_, 1e-9 * result.upper_bound
    assert result.margin - slack <= margin <= upper <= result.upper_bound + slack
    return result, classifier


def refused(X, y, fit_intercept=True):
    """Both must prove that there is no separator; return the proof of `max_margin`."""
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept)
    verdict = prgd.separability(X, y, fit_intercept=fit_intercept).verdict
    assert result.status.name == verdict.name
    assert result.is_separable is False
    assert result.check(X, y).is_valid
    classifier = MaxMarginClassifier(fit_intercept=fit_intercept)
    with pytest.warns(NotSeparableWarning) as caught:
        classifier.fit(X, y)
    (warning,) = (w.message for w in caught if w.category is NotSeparableWarning)
    assert warning.is_proven.tolist() == [True]
    assert np.isfinite(classifier.decision_function(X)).all()
    return result


def test_a_search_warns_once_in_a_sentence_and_says_in_a_line_why_combinations_cannot_be():
    X, y = load_iris(return_X_y=True)
    grid = {"C": [1.0, np.inf], "norm": ["l2", "l1"], "multi_class": ["ovr", "joint"]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", "numpy.dtype size changed")  # as NumPy does
        cross_val_score(MaxMarginClassifier(), X, y > 0, error_score="raise")
        cross_val_score(MaxMarginClassifier(), X[50:, :2], y[50:], error_score="raise")
        search = GridSearchCV(MaxMarginClassifier(tol=0.1), grid, cv=2, refit=False).fit(X, y)
    said = [str(w.message) for w in caught if w.category is NotSeparableWarning]
    assert [text.split(",")[0] for text in said] == [
        "No hyperplane separates 1 from 2",
        "No hyperplane separates every class from the rest",
        "No weights separate all 3 classes jointly",
    ]
    assert all(text.count(". ") == 0 for text in said)
    scores = search.cv_results_["mean_test_score"]
    assert np.isnan(scores).tolist() == [
        np.inf > C and norm != "l2" for C in grid["C"] for way in grid["multi_class"] for norm in grid["norm"]
    ]
    (failed,) = (str(w.message) for w in caught if w.category is FitFailedWarning)
    errors = [line for line in failed.splitlines() if line.startswith("ValueError: ")]
    assert len(errors) == 1
    assert errors[0].startswith("ValueError: A finite C is for norm='l2'")


@both
@pytest.mark.parametrize("X", [np.eye(3), [[1.0, 2.0]]], ids=["three rows", "one row"])
def test_one_class(X, fit_intercept):
    y = [1] * len(X)
    with pytest.raises(ValueError, match="y must hold two classes; got 1"):
        prgd.max_margin(X, y, fit_intercept=fit_intercept)
    for estimator in (MaxMarginClassifier(), MaxMarginClassifier(multi_class="joint"), PRGDClassifier()):
        with pytest.raises(ValueError, match="at least two classes; got one class, 1"):
            estimator.set_params(fit_intercept=fit_intercept).fit(X, y)


def test_one_row_z():
    result = prgd.max_margin([[3.0, 4.0]], fit_intercept=False)
    assert result.status is Status.CERTIFIED
    assert result.margin == pytest.approx(5.0)
    with pytest.raises(ValueError, match="both classes"):
        prgd.max_margin([[3.0, 4.0]])


def test_two_rows():
    result, classifier = fitted([[0.0, 0.0], [3.0, 4.0]], ["b", "a"])
    assert result.margin == pytest.approx(2.5)
    assert classifier.predict([[0.1, 0.0], [3.0, 3.9]]).tolist() == ["b", "a"]


@both
def test_one_feature(fit_intercept):
    result, _ = fitted([[1.0], [2.0], [-1.5]], [1, 1, 0], fit_intercept)
    assert result.status is Status.CERTIFIED
    assert result.margin == pytest.approx(1.25 if fit_intercept else 1.0)
    refused([[1.0], [2.0], [1.5]], [1, 1, 0], fit_intercept)


@both
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_row_in_both_classes_is_a_proof_at_once(fit_intercept, kind):
    X, y = gaussian()
    X, y = np.vstack([X, X[7]]), np.append(y, 1 - y[7])
    result = refused(kind(X), y, fit_intercept)
    assert result.passes < 15


def test_zero_rows():
    X, y = gaussian()
    X, y = np.vstack([X, np.zeros((2, 4))]), np.append(y, [1, 1])
    result, _ = fitted(X, y)
    assert result.status is Status.CERTIFIED
    with pytest.warns(prgd.ZeroRowWarning, match="2 of 62 rows are zero"):
        result = prgd.max_margin(X, y, fit_intercept=False)
    assert result.status is Status.QUASI_SEPARABLE
    y[-1] = 0
    refused(X, y)


@both
@ignore_zero_rows
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_all_rows_the_same(fit_intercept, value):
    refused(np.full((4, 3), value), [0, 1, 0, 1], fit_intercept)


@both
def test_constant_columns_change_nothing_with_an_intercept(fit_intercept):
    X, y = gaussian()
    constant = np.column_stack([X, np.full(60, 1e3), np.zeros(60)])
    result, _ = fitted(constant, y, fit_intercept, tol=1e-8)
    assert result.status is Status.CERTIFIED
    assert result.coef[-1] == 0.0
    if fit_intercept:
        expected = prgd.max_margin(X, y, tol=1e-8)
        assert result.margin == pytest.approx(expected.margin, rel=1e-7)
        assert abs(result.coef[-2]) * 1e3 < 1e-6


@pytest.mark.parametrize(
    "y", [[True, False], ["a", "b"], np.array(["a", "b"], object), [2.0, -1.0], [2**60, 1]]
)
def test_any_kind_of_label(y):
    _, classifier = fitted([[1.0, 0.0], [0.0, 2.0]], y)
    assert classifier.predict([[1.0, 0.0], [0.0, 2.0]]).tolist() == list(y)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_entries_that_are_not_finite(bad, kind):
    X, y = gaussian()
    X[3, 2] = bad
    with pytest.raises(ValueError, match="NaN or infinite, at row 3, column 2"):
        prgd.max_margin(kind(X), y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        MaxMarginClassifier().fit(kind(X), y)


def test_shapes_that_do_not_fit():
    X, y = gaussian()
    for fit in (prgd.max_margin, MaxMarginClassifier().fit, PRGDClassifier().fit):
        with pytest.raises(ValueError, match=r"y|label|inconsistent"):
            fit(X, y[:-1])
        with pytest.raises(ValueError, match=r"matrix|2D|1D"):
            fit(X[:, 0], y)
        with pytest.raises(ValueError, match=r"at least one|0 sample|Found array"):
            fit(X[:0], y[:0])


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_frames(frames):
    library = pytest.importorskip(frames)
    X, y = gaussian()
    columns = {"a": X[:, 0], "b": (X[:, 1] * 10).astype(int), "c": X[:, 2] > 0}
    table = np.column_stack([np.asarray(c, float) for c in columns.values()])
    labels = np.where(y == 1, "yes", "no")
    frame, series = library.DataFrame(columns), library.Series(labels.tolist())
    result, classifier = fitted(frame, series, tol=1e-9)
    expected = prgd.max_margin(table, labels, tol=1e-9)
    assert result.coef == pytest.approx(expected.coef, rel=1e-6)
    # scikit-learn 1.6 does not find the names in the frames of polars 2
    if frames == "pandas" or hasattr(classifier, "feature_names_in_"):
        assert classifier.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (classifier.predict(frame) == labels).all()


# Wild scales: the interval is true, and the word agrees with it


@both
@pytest.mark.parametrize("gamma_star", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tiny_relative_margins(gamma_star, fit_intercept):
    # row norms up to 3, and a margin in closed form: only the second feature tells the classes apart
    X = np.array(
        [[1.0, gamma_star], [1.0, -gamma_star], [2.0, gamma_star], [-3.0, -gamma_star], [-3.0, gamma_star]]
    )
    result, _ = fitted(X, [1, 0, 1, 0, 1], fit_intercept)
    # gamma_star lies in the interval, and no word contradicts it.
    assert result.margin <= gamma_star * (1 + 1e-6)
    assert result.upper_bound >= gamma_star * (1 - 1e-6)
    assert result.is_separable is not False
    if gamma_star >= 1e-9:
        assert result.status is Status.CERTIFIED
    if result.status is Status.CERTIFIED:
        assert result.margin == pytest.approx(gamma_star, rel=1e-5)


def test_squares_beyond_the_floating_range():
    X, y = gaussian()
    margin = prgd.max_margin(X, y).margin
    for power in (-600, 600):
        scale = 2.0**power
        result = prgd.max_margin(X * scale, y)
        assert result.status is Status.CERTIFIED
        assert result.check(X * scale, y).is_valid
        assert result.margin / scale == pytest.approx(margin, rel=1e-6)
        assert result.margin <= MaxMarginClassifier().fit(X * scale, y).margin_ <= result.upper_bound
        with pytest.raises(ValueError, match=r"square overflows or underflows\. Multiply X by a constant"):
            prgd.Problem(X * scale, y)


# Warm starts


def test_a_warm_start_that_does_not_fit():
    X, y = gaussian()
    for w0 in (np.ones(3), np.full(4, np.nan), np.ones((1, 4))):
        with pytest.raises(ValueError, match=r"w0 must be finite, of shape \(4,\)"):
            prgd.max_margin(X, y, w0=w0)
    for w0 in (np.zeros(4), -np.eye(4)[0], 1e100 * np.ones(4)):
        result = prgd.max_margin(X, y, w0=w0)
        assert result.status is Status.CERTIFIED
        assert result.margin == pytest.approx(prgd.max_margin(X, y).margin, rel=2e-6)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        *(
            (estimator(**{name: value}), said)
            for estimator in (MaxMarginClassifier, PRGDClassifier)
            for name, value, said in [
                ("fit_intercept", "no", "fit_intercept must be True or False; got 'no'"),
                ("warm_start", 1, "warm_start must be True or False; got 1"),
                ("tol", "a", "tol must be a finite number above 0; got 'a'"),
                ("tol", -1.0, r"tol must be a finite number above 0; got -1\.0"),
                ("n_jobs", 0, "n_jobs must be an integer of at least 1; got 0"),
            ]
        ),
        (MaxMarginClassifier(max_passes=0), "max_passes must be an integer of at least 1"),
        (MaxMarginClassifier(max_passes=1.5), "max_passes must be"),
        (MaxMarginClassifier(max_passes=True), "max_passes must be"),
        (MaxMarginClassifier(polish=None), "polish must be True or False"),
        (MaxMarginClassifier(C=1.0, norm="l1"), "A finite C is for norm='l2', the norm of soft"),
        (MaxMarginClassifier(multi_class="crammer"), "multi_class must be 'ovr' or 'joint'; got 'crammer'"),
        (MaxMarginClassifier(multi_class="crammer_singer"), "The problem of Crammer and Singer is 'joint'"),
        (MaxMarginClassifier(multi_class="jont"), "got 'jont'. Did you mean 'joint'?"),
        (MaxMarginClassifier(norm="nuclear", multi_class="joint"), r"use prgd.max_margin.* for two, or"),
        (MaxMarginClassifier(norm=0.9), "p of a norm must be a number of at least 1; got 0.9"),
        (MaxMarginClassifier(norm="lq"), "Unknown norm 'lq'"),
        (PRGDClassifier(eta=0), "eta must be a finite number above 0"),
        (PRGDClassifier(eta=1e306), r"overflowed after step .* Use a smaller eta"),
        (PRGDClassifier(warmup_steps=0), "warmup_steps must be an integer of at least 1"),
        (PRGDClassifier(max_iter=-1), "max_iter must be an integer of at least 0"),
        (PRGDClassifier(radius="geometrik:2"), "Did you mean geometric"),
        (PRGDClassifier(phases="evry:2"), "Did you mean every"),
        (PRGDClassifier(loss="hinge"), "Unknown loss .hinge."),
        (PRGDClassifier(loss="logistic"), "fit_intercept=True needs loss='exponential'"),
        (PRGDClassifier(norm="spectral"), "measures weight matrices"),
    ],
)
def test_bad_parameters_are_named(estimator, said):
    X, y = gaussian()
    with pytest.raises(ValueError, match=said):
        estimator.fit(X, np.roll(y, 1))  # not separable


def test_numbers_of_numpy_are_parameters():
    found = MaxMarginClassifier(tol=np.float32(1e-3), max_passes=np.int64(9), n_jobs=np.int64(1))
    assert found.fit([[0.0], [1.0]], [0, 1]).margin_ == pytest.approx(0.5)
