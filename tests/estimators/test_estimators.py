"""Both estimators: certificates, fallbacks, weights, several classes, and life inside scikit-learn."""

import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import interrupt_after, interrupt_at
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import prgd
from prgd import MaxMarginClassifier, NotSeparableWarning, PRGDClassifier, Status
from prgd.maxmargin import price
from prgd.maxmargin.price import _unit
from prgd.schedules import as_radius, as_times

ignore_not_separable = pytest.mark.filterwarnings("ignore::prgd.NotSeparableWarning")
ignore_convergence = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def gaussian(seed=0, n=120, d=6, push=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal(d)
    w = rng.standard_normal(d)
    w /= np.linalg.norm(w)
    side = X @ w - np.median(X @ w)
    y = np.where(side > 0, "yes", "no")
    return X + push * np.sign(side)[:, None] * w, y


def fallback(X, y, **options):
    """Return the soft margin that is fitted where no hyperplane separates the classes, which is said."""
    with pytest.warns(NotSeparableWarning):
        return MaxMarginClassifier().fit(X, y, **options)


def flipped_iris():
    X, y = load_iris(return_X_y=True)
    return X[50:], y[50:]


def bounds_are_recomputed(classifier, X, y):
    """Both bounds of each problem follow from the attributes alone."""
    classes = classifier.classes_
    for k, positive in enumerate(classes[1:] if len(classes) == 2 else classes):
        signs = np.where(y == positive, 1.0, -1.0)
        w, b = classifier.coef_[k], classifier.intercept_[k]
        margin = (signs * (X @ w + b)).min() / np.linalg.norm(w)
        p = classifier.dual_coef_[[k]].toarray()[0]
        assert (p >= 0).all()
        sums = [p[signs > 0].sum(), p[signs < 0].sum()] if classifier.fit_intercept else [p.sum()]
        np.testing.assert_allclose(sums, 1.0 / len(sums), rtol=1e-12)
        upper = np.linalg.norm(X.T @ (signs * p))
        bounds = classifier.margin_[k], classifier.margin_upper_bound_[k]
        assert (margin, upper) == pytest.approx(bounds, rel=1e-9)


# Certificates


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_two_classes_are_certified(fit_intercept, kind):
    X, y = gaussian()
    if not fit_intercept:
        X = X - X.mean(axis=0)
        y = np.where(X @ np.arange(1.0, 7.0) > 0, "yes", "no")
    classifier = MaxMarginClassifier(fit_intercept=fit_intercept, tol=1e-10).fit(kind(X), y)
    expected = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=1e-10)
    np.testing.assert_allclose(classifier.coef_[0], expected.coef, rtol=1e-6)
    assert classifier.classes_.tolist() == ["no", "yes"]
    assert classifier.status_ == (Status.CERTIFIED,)
    assert classifier.gap_[0] <= 1e-6
    bounds_are_recomputed(classifier, X, y)
    assert classifier.support_.tolist() == np.flatnonzero(classifier.dual_coef_.toarray()[0]).tolist()
    assert classifier.n_iter_.tolist() == [np.ceil(expected.passes)]
    assert classifier.score(X, y) == 1.0
    smallest = np.abs(classifier.decision_function(X)).min()
    assert smallest == pytest.approx(1.0, rel=1e-6)


def test_each_class_of_several_has_its_certificate():
    rng = np.random.default_rng(1)
    centres = np.array([[0, 8], [7, -4], [-7, -4]])
    y = np.arange(90) % 3
    X = centres[y] + rng.standard_normal((90, 2))
    classifier = MaxMarginClassifier().fit(X, y)
    assert classifier.intercept_.shape == classifier.margin_.shape == classifier.n_iter_.shape == (3,)
    assert classifier.status_ == (Status.CERTIFIED,) * 3
    bounds_are_recomputed(classifier, X, y)
    assert (classifier.gap_ <= 1.001e-6).all()
    assert classifier.score(X, y) == 1.0


def test_prgd_runs_algorithm_1_after_its_warm_up():
    data = prgd.datasets.synthetic_one(0)
    classifier = PRGDClassifier(fit_intercept=False, tol=1e-5).fit(data.X, data.y)
    problem = prgd.Problem(data.X, data.y)
    warm = prgd.run(problem, prgd.GD(), stop=1000)
    result = prgd.run(problem, prgd.PRGD(), warm.w, stop=prgd.any_of(prgd.Gap(1e-5), 1000))
    assert result.status is Status.CERTIFIED
    assert classifier.n_iter_.tolist() == [1000 + result.t]
    assert classifier.R_0_.tolist() == [np.linalg.norm(warm.w)]
    assert classifier.margin_[0] == result.certificate.lower
    assert classifier.margin_upper_bound_[0] == result.certificate.upper
    w = result.certificate.w
    np.testing.assert_allclose(classifier.coef_[0], w / (w @ w) ** 0.5 / result.certificate.lower)
    bounds_are_recomputed(classifier, data.X, data.y)


@pytest.mark.parametrize(
    ("radius", "phases"), [("polynomial:0.6", "polynomial:5,0.6"), ("explicit:5,50", "explicit:0,9,30")]
)
@ignore_convergence
def test_schedules_are_objects_or_their_texts(radius, phases):
    X, y = gaussian()
    values = (as_radius(radius), as_times(phases))
    a, b = (
        clone(PRGDClassifier(radius=R, phases=T, warmup_steps=50, max_iter=50)).fit(X, y)
        for R, T in ((radius, phases), values)
    )
    assert a.coef_.tobytes() == b.coef_.tobytes()


def test_the_gap_that_is_not_reached_is_said():
    X, y = gaussian(n=2000)
    with pytest.warns(ConvergenceWarning, match="limit on passes.*'no' from 'yes' the largest margin lies"):
        classifier = MaxMarginClassifier(tol=1e-15, max_passes=1).fit(X, y)
    assert classifier.status_ == (Status.MAX_PASSES,)
    with pytest.warns(ConvergenceWarning, match="limit on steps was reached"):
        classifier = PRGDClassifier(tol=1e-9, warmup_steps=20, max_iter=20).fit(X, y)
    assert classifier.status_ == (Status.MAX_STEPS,)
    assert classifier.margin_[0] > 0


@pytest.mark.parametrize("C", [math.inf, 1.0])
def test_verbose_shows_bounds_on_a_terminal_alone(capsys, monkeypatch, C):
    MaxMarginClassifier(C=C, verbose=1).fit(*gaussian())
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    MaxMarginClassifier(C=C, verbose=1).fit(*gaussian())
    out, err = capsys.readouterr()
    assert out == ""
    assert "MaxMarginClassifier" in err
    assert ("<= gamma_star <=" if math.isinf(C) else "<= gamma_C <=") in err


# Data that are not separable


def test_the_warning_carries_the_proof():
    X, y = flipped_iris()
    with pytest.warns(
        NotSeparableWarning, match="No hyperplane separates 1 from 2, so a soft margin"
    ) as caught:
        classifier = MaxMarginClassifier().fit(X, y)
    warning = caught[0].message
    assert caught[0].filename == __file__
    assert warning.classes == [2]
    assert warning.is_proven.tolist() == [True]
    assert warning.weights.shape == (1, 100)
    signs = np.where(y == 2, 1.0, -1.0)
    assert np.linalg.norm(X.T @ (signs * warning.weights.toarray()[0])) <= 1e-12
    assert warning.upper_bound[0] <= 1e-12
    assert classifier.status_ == (Status.NOT_SEPARABLE,)
    assert classifier.margin_[0] < 0
    restored = pickle.loads(pickle.dumps(warning))  # noqa: S301
    assert str(restored) == str(warning)
    assert restored.weights.nnz == warning.weights.nnz


@ignore_not_separable
@pytest.mark.parametrize(
    "classifier",
    [MaxMarginClassifier(), PRGDClassifier(warmup_steps=300, max_iter=100)],
    ids=["max-margin", "prgd"],
)
@pytest.mark.parametrize("name", ["iris", "cancer"])
@ignore_convergence
def test_the_fallback_is_about_as_accurate_as_logistic_regression(classifier, name):
    if name == "iris":
        X, y = flipped_iris()
    else:
        X, y = load_breast_cancer(return_X_y=True)
        wrong = np.random.default_rng(0).choice(len(y), 40, replace=False)
        y[wrong] = 1 - y[wrong]
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    found, reference = (
        cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=folds).mean()
        for model in (classifier, LogisticRegression())
    )
    assert found >= reference - 0.025


@pytest.mark.slow
def test_separable_classes_stay_certified_beside_others():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(NotSeparableWarning, match="separates .* from the rest") as caught:
        classifier = MaxMarginClassifier(tol=1e-4).fit(X, y)
    errs = caught[0].message.classes
    assert 0 < len(errs) < 10
    for k in range(10):
        expected = prgd.separability(X, y == k).verdict.name if k in errs else "CERTIFIED"
        assert classifier.status_[k].name == expected
    assert classifier.score(X, y) > 0.97


def test_the_fallback_is_a_certified_soft_margin_with_one_C():
    X, y = load_iris(return_X_y=True)
    a = fallback(X, y)
    assert math.isfinite(a.C_)
    assert MaxMarginClassifier(C="cv").fit(X, y).C_ == a.C_
    for k, result in enumerate(a.results_):
        alone = prgd.soft_margin(X, y == k, C=a.C_)
        assert result.status is Status.CERTIFIED
        assert result.check(X, y == k).is_valid
        np.testing.assert_allclose(a.coef_[k], alone.coef, rtol=1e-3)
    c = fallback(sp.csr_array(X), y)
    order = np.random.default_rng(0).permutation(len(y))
    d = fallback(X[order], y[order])
    np.testing.assert_allclose(a.coef_, c.coef_, rtol=1e-6)
    np.testing.assert_allclose(a.coef_, d.coef_, rtol=1e-6)


def test_the_choice_of_C_is_that_of_single_fits():
    """What folds and classes share does not change errors on held-out rows: those of certified fits."""
    X, y = make_blobs(70, 3, centers=3, cluster_std=4.0, random_state=1)
    fold, unit = price._folds(price.row_hashes(X), y)[0], _unit(X, np.ones(len(y)))
    errors = np.zeros(len(price.GRID))
    for k in range(price.FOLDS):
        train, test = fold != k, fold == k
        for i, factor in enumerate(price.GRID):
            C = 0.5 * unit * factor
            fits = [prgd.soft_margin(X[train], y[train] == j, C=C, tol=1e-4) for j in range(3)]
            scores = np.array([X[test] @ fit.coef + fit.intercept for fit in fits])
            errors[i] += (scores.argmax(axis=0) != y[test]).sum()
    ends = np.pad(errors, 1, mode="edge")
    best = int(np.argmin(0.25 * ends[:-2] + 0.5 * errors + 0.25 * ends[2:]))
    chosen = price.choose_C(X, y, np.ones(len(y)), True, 1)
    assert chosen == pytest.approx(0.5 * unit * price.GRID[best])


def test_a_finite_C_is_soft_margin_on_separable_classes_too():
    X, y = gaussian()
    classifier = MaxMarginClassifier(C=0.1).fit(X, y)
    result = prgd.soft_margin(X, y, C=0.1)
    np.testing.assert_allclose(classifier.coef_[0], result.coef, rtol=1e-4)
    assert classifier.margin_[0] <= result.upper_bound
    assert classifier.status_ == (Status.CERTIFIED,)


def test_prgd_claims_nothing_about_separable_data():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(NotSeparableWarning, match="decides whether one does") as caught:
        PRGDClassifier().fit(X, y)
    assert not caught[0].message.is_proven.any()
    assert prgd.separability(X, y).verdict.name == "SEPARABLE"


def test_prgd_says_when_it_has_no_proof():
    X, y = flipped_iris()
    with pytest.warns(
        NotSeparableWarning,
        match="No hyperplane that was tried separates 1 from 2, so the iterate of smallest loss is",
    ) as caught:
        classifier = PRGDClassifier(warmup_steps=50, max_iter=20).fit(X, y)
    assert caught[0].message.is_proven.tolist() == [False]
    assert classifier.score(X, y) > 0.5


def test_prgd_knows_a_vanished_gradient():
    X = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0], [3.0, 1.0]])
    with pytest.warns(NotSeparableWarning, match="No hyperplane separates 0 from 1") as caught:
        classifier = PRGDClassifier().fit(X, [0, 1, 0, 1])
    assert caught[0].message.is_proven.all()
    assert classifier.coef_.tolist() == [[0.0, 0.0]]
    assert classifier.status_ == (Status.NOT_SEPARABLE,)


# Weights


def test_positive_weights_do_not_move_the_margin_and_zero_takes_rows_away():
    X, y = gaussian()
    plain = MaxMarginClassifier(tol=1e-10).fit(X, y)
    weights = np.random.default_rng(3).uniform(0.1, 5.0, len(y))
    heavy = MaxMarginClassifier(tol=1e-10, class_weight={"yes": 7, "no": 0.1}).fit(X, y, weights)
    np.testing.assert_allclose(heavy.coef_, plain.coef_, rtol=1e-6)
    weights[plain.support_] = 0.0
    kept = weights > 0
    light = MaxMarginClassifier(tol=1e-10).fit(X, y, weights)
    alone = MaxMarginClassifier(tol=1e-10).fit(X[kept], y[kept])
    np.testing.assert_allclose(light.coef_, alone.coef_, rtol=1e-6)
    assert light.margin_[0] > plain.margin_[0]
    # rows are counted as they were given
    assert light.dual_coef_.shape == (1, len(y))
    assert kept[light.support_].all()
    assert light.support_.tolist() == np.flatnonzero(kept)[alone.support_].tolist()


@ignore_not_separable
def test_weights_count_in_the_fallback():
    X, y = flipped_iris()
    models = [MaxMarginClassifier(class_weight={k: 100}).fit(X, y) for k in (2, 1)]
    found = [(model.predict(X) == 2).sum() for model in models]
    assert found[0] > 50 > found[1]
    weights = np.where(y == 2, 100.0, 1.0)
    assert (MaxMarginClassifier().fit(X, y, weights).predict(X) == 2).sum() == found[0]


def test_balanced_counts_the_rows_that_are_there():
    X, y = gaussian(n=40)
    weights = np.ones(40)
    weights[:7] = 0.0
    options = {"warmup_steps": 30, "max_iter": 10, "tol": 0.9, "class_weight": "balanced"}
    a = PRGDClassifier(**options).fit(X, y, weights)
    b = PRGDClassifier(**options).fit(X[7:], y[7:])
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)


def test_a_class_without_weight_is_not_there():
    X, y = load_iris(return_X_y=True)
    classifier = MaxMarginClassifier(class_weight={0: 1, 1: 1, 2: 0}).fit(X, y)
    assert classifier.classes_.tolist() == [0, 1]
    assert classifier.dual_coef_.shape == (1, 150)
    for estimator in (MaxMarginClassifier(), PRGDClassifier()):
        with pytest.raises(ValueError, match="needs rows of at least two classes; got one class, 0"):
            estimator.fit(X, y, (y == 0).astype(float))
        with pytest.raises(ValueError, match=r"zero"):
            estimator.fit(X, y, np.zeros(150))
        with pytest.raises(ValueError, match="zero everywhere: no row and no class is left"):
            clone(estimator).set_params(class_weight={0: 0, 1: 0, 2: 0}).fit(X, y)


# Warm starts


def test_warm_start_saves_passes():
    X, y = gaussian(n=100_000)
    cold = MaxMarginClassifier(warm_start=True).fit(X, y)
    first, coef = cold.n_iter_[0], cold.coef_.copy()
    cold.fit(X, y)
    assert cold.n_iter_[0] < first
    np.testing.assert_allclose(cold.coef_, coef, rtol=1e-3)
    # another width starts afresh
    cold.fit(X[:, :4], np.where(X[:, 0] > 1, 1, 0))
    assert cold.coef_.shape == (1, 4)


@pytest.mark.parametrize("norm", ["l2", "l1"])  # R_0 is measured in the norm
def test_warm_start_of_prgd_goes_on_from_the_direction(norm):
    X, y = gaussian()
    classifier = PRGDClassifier(norm=norm, warm_start=True, warmup_steps=200, max_iter=100, tol=1e-12)
    with pytest.warns(ConvergenceWarning):
        classifier.fit(X, y)
    assert classifier.n_iter_.tolist() == [300]
    gap, R_0 = classifier.gap_[0], classifier.R_0_[0]
    with pytest.warns(ConvergenceWarning):
        classifier.fit(X, y)
    assert classifier.n_iter_.tolist() == [100]
    assert classifier.gap_[0] < gap
    assert classifier.R_0_[0] == pytest.approx(R_0)


# Ctrl-C


def test_ctrl_c_keeps_the_best_interval(monkeypatch):
    X, y = gaussian(n=400)
    exact = prgd.max_margin(X, y).margin
    interrupt_after(monkeypatch, 1)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        classifier = MaxMarginClassifier(tol=1e-16).fit(X, y)
    assert classifier.status_ == (Status.INTERRUPTED,)
    assert 0 < classifier.margin_[0] <= exact * (1 + 1e-6) <= classifier.margin_upper_bound_[0] * (1 + 2e-6)
    bounds_are_recomputed(classifier, X, y)


@pytest.mark.parametrize("calls", [0, 1])
def test_ctrl_c_is_not_swallowed_while_classes_are_left(monkeypatch, calls):
    X, y = load_iris(return_X_y=True)
    classifier = MaxMarginClassifier(tol=1e-15)
    interrupt_after(monkeypatch, calls)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(X, y)
    assert not hasattr(classifier, "coef_")


@pytest.mark.parametrize(("algorithm", "steps"), [(prgd.GD, 7), (prgd.PRGD, 107)])
def test_ctrl_c_keeps_what_prgd_has(monkeypatch, algorithm, steps):
    interrupt_at(monkeypatch, algorithm, 7)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        classifier = PRGDClassifier(warmup_steps=100, tol=1e-12).fit(*gaussian())
    assert classifier.status_ == (Status.INTERRUPTED,)
    assert classifier.n_iter_.tolist() == [steps]


# Life inside scikit-learn


def test_estimators_are_loaded_when_asked_for():
    assert "MaxMarginClassifier" in dir(prgd)
    assert prgd.PRGDClassifier is PRGDClassifier
    with pytest.raises(AttributeError, match="has no attribute 'SVC'"):
        _ = prgd.SVC


def noisy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    return X, (X[:, 0] + 0.7 * rng.normal(size=200) > 0.8).astype(int)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_fallback_does_not_depend_on_units_or_offsets(kind):
    X, y = noisy()
    plain = fallback(kind(X), y)
    for unit in (2.0**-200, 2.0**200):
        other = fallback(kind(X * unit), y)
        # Folds depend on the bits of rows, so that another C may be chosen, of much the same error.
        assert _unit(kind(X * unit), np.ones(200)) * unit**2 == pytest.approx(_unit(X, np.ones(200)))
        assert other.score(kind(X * unit), y) == pytest.approx(plain.score(kind(X), y), abs=0.02)
        assert other.results_[0].check(kind(X * unit), y).is_valid
    far = X * 1e-5 + 1e8
    assert _unit(kind(far), np.ones(200)) == pytest.approx(1e10 * _unit(X, np.ones(200)), rel=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the gap, too, which rounding keeps open there
        other = MaxMarginClassifier().fit(kind(far), y)
    assert other.score(kind(far), y) == pytest.approx(plain.score(kind(X), y), abs=0.02)


@pytest.mark.parametrize("unit", [1e-170, 1e160])
def test_a_fallback_out_of_the_floating_range_is_named(unit):
    X, y = noisy()
    with pytest.raises(ValueError, match=r"Rows lie about .* from their mean.*Rescale X"):
        MaxMarginClassifier().fit(X * unit, y)


@pytest.mark.parametrize("factor", [1e-150, 1e-12, 1e-3])
def test_the_fallback_does_not_depend_on_the_unit_of_small_weights(factor):
    X, y = noisy()
    plain = fallback(X, y)
    light = fallback(X, y, sample_weight=np.full(200, factor))
    np.testing.assert_allclose(light.coef_, plain.coef_, rtol=1e-6)


@pytest.mark.parametrize("C", [math.inf, 1.0])
def test_results_check_on_the_data_as_given(C):
    X, y = noisy()
    w = np.where(np.arange(200) % 3 == 0, 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSeparableWarning)
        model = MaxMarginClassifier(C=C).fit(X, y, sample_weight=w)
        hard = MaxMarginClassifier(C=C).fit(X[y == 1], X[y == 1][:, 1] > 0, sample_weight=w[y == 1])
    assert model.results_[0].n == 200
    assert w[model.results_[0].support].all()
    assert model.results_[0].check(X, y, w).is_valid
    assert hard.results_[0].check(X[y == 1], X[y == 1][:, 1] > 0, w[y == 1]).is_valid


def test_the_error_without_a_fallback_proves_it_on_the_data_as_given():
    X, y = flipped_iris()
    w = np.where(np.arange(100) % 5 == 0, 0.0, 1.0)
    for given in ([X, y], [X, y, w]):
        with pytest.raises(prgd.NotSeparableError, match="No hyperplane separates the two classes") as caught:
            MaxMarginClassifier(fallback="raise").fit(*given)
        p = caught.value.weights.toarray()[0]
        assert np.linalg.norm(X.T @ (np.where(y == 2, 1.0, -1.0) * p)) <= 1e-12
    assert w[caught.value.weights.indices].all()
    X, y = noisy()
    names = np.array(["left", "right", "far"])[np.where(X[:, 1] > 2.0, 2, y)]
    with pytest.raises(prgd.NotSeparableError, match="'left' from the rest"):
        MaxMarginClassifier(fallback="raise").fit(X, names)
    assert math.inf == MaxMarginClassifier(fallback="raise").fit(*gaussian()).C_


@pytest.mark.parametrize("spread", [0.5, 4.0])
@pytest.mark.filterwarnings("ignore::prgd.NotSeparableWarning")
def test_rows_in_a_file_give_the_same_classifier(tmp_path, spread):
    X, y = make_blobs(90, 3, centers=3, cluster_std=spread, random_state=1)
    np.save(tmp_path / "X.npy", X)
    rows = prgd.open_rows(tmp_path / "X.npy", y)
    for classifier in (MaxMarginClassifier(), MaxMarginClassifier(multi_class="joint")):
        plain, found = clone(classifier).fit(X, y), clone(classifier).fit(rows)
        assert found.classes_.tolist() == [0, 1, 2]
        assert (found.n_features_in_, found.status_) == (3, plain.status_)
        np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found.margin_upper_bound_, plain.margin_upper_bound_, rtol=1e-6)
    for classifier, labels in ((MaxMarginClassifier(n_jobs=2), None), (MaxMarginClassifier(), y)):
        with pytest.raises(ValueError, match="Rows hold their labels, weights and threads"):
            classifier.fit(rows, labels)


def test_tol_is_the_gap_that_is_aimed_at():
    X, y = make_blobs(400, 30, centers=2, random_state=0)
    for tol in (MaxMarginClassifier().tol, 0.3):
        assert MaxMarginClassifier(tol=tol).fit(X, y).results_[0].algorithm == f"max_margin(tol={tol})"


def test_skops_dumps_and_loads_a_fitted_estimator(tmp_path):
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    X, y = make_blobs(60, 3, centers=2, random_state=0)
    model = MaxMarginClassifier().fit(X, y)
    io.dump(model, tmp_path / "model.skops")
    types = io.get_untrusted_types(file=tmp_path / "model.skops")
    again = io.load(tmp_path / "model.skops", trusted=types)
    assert again.status_ == model.status_
    assert again.results_[0].check(X, y).is_valid
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
