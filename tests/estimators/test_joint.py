"""Estimators in other norms than l2, and of all classes jointly."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

import prgd
from prgd import MaxMarginClassifier, NotSeparableWarning, PRGDClassifier, Status
from prgd.norms import as_norm

NAMES = np.array(["blue", "green", "red", "teal"])


def clouds(seed=0, n=48, d=5, K=4, push=2.0):
    """Gaussian rows of K classes, which the K first axes separate jointly, and those axes."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % K
    X = rng.normal(size=(n, d))
    for i, k in enumerate(codes):
        others = np.delete(X[i, :K], k)
        X[i, k] = others.max() + push * rng.uniform(0.5, 1.5)
    return X, NAMES[codes]


def margin_of(classifier, X, y):
    """The smallest margin of all pairs of a row and another class, in the norm of the classifier."""
    codes = np.searchsorted(classifier.classes_, y)
    scores = X @ classifier.coef_.T + classifier.intercept_
    own = scores[np.arange(len(y)), codes]
    scores[np.arange(len(y)), codes] = -np.inf
    return (own - scores.max(axis=1)).min() / as_norm(classifier.norm)(classifier.coef_)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", 3, "spectral"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_joint_attributes_prove_the_margin(norm, fit_intercept):
    X, y = clouds()
    n, d, K = *X.shape, 4
    found = MaxMarginClassifier(norm=norm, multi_class="joint", fit_intercept=fit_intercept).fit(X, y)
    assert found.coef_.shape == (K, d)
    assert found.intercept_.shape == (K,)
    assert found.margin_.shape == found.gap_.shape == found.margin_upper_bound_.shape == (1,)
    assert found.status_ == (Status.CERTIFIED,)
    assert 0.0 <= found.gap_[0] <= 1e-6
    assert margin_of(found, X, y) == pytest.approx(found.margin_[0], rel=1e-9)
    assert as_norm(norm)(found.coef_) == pytest.approx(1.0 / found.margin_[0])  # the smallest margin is 1
    # The weights of pairs prove the upper bound, by the dual norm of their sum.
    assert found.dual_coef_.shape == (1, n * K)
    p = found.dual_coef_.toarray().reshape(n, K)
    codes = np.searchsorted(found.classes_, y)
    assert (p >= 0.0).all()
    assert p.sum() == pytest.approx(1.0)
    assert (p[np.arange(n), codes] == 0.0).all()
    sent = np.eye(K)[codes] * p.sum(axis=1, keepdims=True) - p
    bound = as_norm(norm).dual(sent.T @ X)
    assert bound == pytest.approx(found.margin_upper_bound_[0], rel=1e-9)
    if fit_intercept:
        np.testing.assert_allclose(sent.sum(axis=0), 0.0, atol=1e-12)
    assert found.support_.tolist() == np.flatnonzero(p.sum(axis=1)).tolist()
    # An exact solution has cosine 1 in l2, and nothing is said in other norms.
    assert (found.cosine_[0] > 0.999) == (norm == "l2")
    assert found.score(X, y) == 1.0
    assert found.decision_function(X).shape == (n, K)
    (result,) = found.results_
    assert result.check(X, y).is_valid


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", 1.5])
def test_scores_of_separable_classes_are_distances(norm):
    X, y = clouds(2)
    found = MaxMarginClassifier(norm=norm).fit(X, y)
    assert found.coef_.shape == (4, 5)
    for k, name in enumerate(found.classes_):
        result = prgd.max_margin(X, y == name, norm=norm)
        assert found.margin_[k] == pytest.approx(result.margin, rel=1e-6)
        assert as_norm(norm)(found.coef_[k]) == pytest.approx(1.0)
        side = np.where(y == name, 1.0, -1.0)
        distance = (side * (X @ found.coef_[k] + found.intercept_[k])).min()
        assert distance == pytest.approx(found.margin_[k], rel=1e-9)
    assert norm == "l2" or (found.cosine_ == -1.0).all()


def test_two_classes_are_one_hyperplane_also_jointly():
    X, y = clouds(3)
    X, y = X[y < "red"], y[y < "red"]
    joint, plain = (MaxMarginClassifier(multi_class=m).fit(X, y) for m in ("joint", "ovr"))
    assert joint.coef_.shape == (1, 5)
    np.testing.assert_array_equal(joint.coef_, plain.coef_)
    assert joint.decision_function(X).shape == (len(y),)
    assert joint.dual_coef_.shape == (1, len(y))


def test_rows_without_weight_do_not_count_jointly():
    X, y = clouds(4)
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(7, 5))
    place = np.sort(rng.choice(len(y) + 7, 7, replace=False))
    is_noise = np.isin(np.arange(len(y) + 7), place)
    more, labels, weights = np.empty((len(y) + 7, 5)), np.empty(len(y) + 7, y.dtype), np.ones(len(y) + 7)
    more[is_noise], more[~is_noise] = noise, X
    labels[is_noise], labels[~is_noise] = "black", y  # a class that has no other rows
    weights[is_noise], weights[~is_noise] = 0.0, rng.uniform(0.5, 2.0, len(y))
    alone = MaxMarginClassifier(multi_class="joint").fit(X, y)
    found = MaxMarginClassifier(multi_class="joint").fit(more, labels, sample_weight=weights)
    assert found.classes_.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(found.coef_, alone.coef_)
    assert found.dual_coef_.shape == (1, 4 * len(labels))
    assert np.flatnonzero(~is_noise)[alone.support_].tolist() == found.support_.tolist()
    (result,) = found.results_
    kept = np.flatnonzero(~is_noise)
    assert found.support_.tolist() == sorted({int(i) // 4 for i in result.support})
    assert set(found.support_.tolist()) <= set(kept.tolist())


@pytest.mark.parametrize("parameters", [{"multi_class": "joint"}, {"C": 1.0}])
def test_columns_of_a_data_frame_keep_their_order(parameters):
    pandas = pytest.importorskip("pandas")
    X, y = clouds(6)
    names = ("e", "d", "c", "b", "a")
    frame = pandas.DataFrame(X, columns=names)
    found = MaxMarginClassifier(**parameters).fit(frame, y)
    assert tuple(found.feature_names_in_) == found.results_[0].feature_names == names
    plain = MaxMarginClassifier(**parameters).fit(frame.to_numpy(), y)
    np.testing.assert_array_equal(found.coef_, plain.coef_)
    labels = y if "C" not in parameters else y == found.classes_[0]
    assert found.results_[0].check(frame[["a", "b", "c", "d", "e"]], labels).is_valid


def test_classes_that_do_not_separate_jointly():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(NotSeparableWarning, match="No weights separate all 3 classes jointly") as caught:
        found = MaxMarginClassifier(multi_class="joint").fit(X, y)
    warning = caught[0].message
    assert "so a soft margin in l2 (C_, results_) is" in str(warning)
    assert warning.classes == [0, 1, 2]
    assert warning.is_proven.tolist() == [True]
    assert warning.weights.shape == (1, 450)
    # The weights average the pairs to zero, those of the intercepts too.
    p = warning.weights.toarray().reshape(150, 3)
    sent = np.eye(3)[y] * p.sum(axis=1, keepdims=True) - p
    np.testing.assert_allclose(sent.T @ np.column_stack([X, np.ones(150)]), 0.0, atol=1e-12)
    assert found.margin_.shape == (1,)
    assert found.margin_[0] <= 0.0 == found.margin_upper_bound_[0]
    assert found.gap_[0] == math.inf
    assert math.isfinite(found.C_)
    with pytest.warns(
        NotSeparableWarning,
        match=r"soft margin in l2 .* is the classifier; prgd.separability\(X, y == c\) explains",
    ):
        soft = MaxMarginClassifier().fit(X, y)
    np.testing.assert_array_equal(found.coef_, soft.coef_)
    assert found.C_ == soft.C_
    assert len(found.results_) == 3
    with pytest.raises(prgd.NotSeparableError, match="all classes jointly, and fallback='raise'") as error:
        MaxMarginClassifier(multi_class="joint", fallback="raise").fit(X, y)
    np.testing.assert_array_equal(error.value.weights.toarray(), warning.weights.toarray())


def test_two_classes_that_do_not_separate_in_another_norm():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(NotSeparableWarning, match="a soft margin in l2"):
        found = MaxMarginClassifier(norm="l1").fit(X[50:], y[50:])
    assert found.margin_[0] <= 0.0
    assert found.score(X[50:], y[50:]) > 0.9


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"norm": "spectral"}, r"shape \(5,\). Add multi_class='joint' if there are more than two"),
        ({"C": 1.0, "multi_class": "joint", "norm": "l1"}, "got C=1.0 and norm='l1'. Use C=inf"),
    ],
)
def test_parameters_that_do_not_go_together(parameters, said):
    with pytest.raises(ValueError, match=said):
        MaxMarginClassifier(**parameters).fit(*clouds())


def test_a_finite_C_jointly_with_weights_as_copies(tmp_path):
    X, y = load_wine(return_X_y=True)  # 39 columns of W
    weight = np.arange(len(y)) % 3.0
    found = MaxMarginClassifier(C=0.1, multi_class="joint", tol=1e-9).fit(X, y, sample_weight=weight)
    counts = weight.astype(int)
    copies = clone(found).fit(X.repeat(counts, axis=0), y.repeat(counts))
    np.testing.assert_allclose(found.coef_, copies.coef_, rtol=1e-6, atol=1e-8)
    (result,) = found.results_
    result.save(tmp_path / "joint.npz")
    read = prgd.Result.load(tmp_path / "joint.npz")
    assert read.check(X, y, sample_weight=weight).is_valid
    assert not read.check(X, y).is_valid
    assert (found.C_, read.predict(X).tolist()) == (0.1, found.predict(X).tolist())
    rows = prgd.soft_margin(sp.csr_array(X), y, C=0.1, multi_class="joint", sample_weight=weight, w0=result.w)
    assert rows.margin == pytest.approx(result.margin, rel=1e-5)


def test_a_warm_start_of_all_classes_jointly():
    X, y = clouds(7, n=200)
    found = MaxMarginClassifier(multi_class="joint", warm_start=True).fit(X, y)
    first = found.coef_.copy()
    np.testing.assert_allclose(found.fit(X, y).coef_, first, rtol=1e-4, atol=1e-6)
    # Other rows of the same shape start from the last solution, those of fewer classes do not.
    other, labels = clouds(8, n=200)
    assert found.fit(other, labels).score(other, labels) == 1.0
    few = labels < "teal"
    assert found.fit(other[few], labels[few]).coef_.shape == (3, 5)


def test_a_gap_that_is_not_certified_jointly():
    X, y = clouds(9)
    with pytest.warns(ConvergenceWarning, match="For all 4 classes jointly the largest margin lies between"):
        MaxMarginClassifier(multi_class="joint", norm="l1", max_passes=1, tol=1e-17).fit(X, y)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_prgd_classifier_in_another_norm(norm):
    X, y = clouds(3, d=4)
    X, y = X[y < "red"], y[y < "red"]
    settings = {"norm": norm, "warmup_steps": 200, "max_iter": 300, "tol": 0.05, "radius": "polynomial:0.6"}
    found = PRGDClassifier(phases="polynomial:5,0.6", **settings).fit(X, y)
    best = prgd.max_margin(X, y, norm=norm)
    assert found.status_ == (Status.CERTIFIED,)
    assert found.margin_[0] <= best.upper_bound
    assert found.margin_upper_bound_[0] >= best.margin
    side = np.where(y == found.classes_[1], 1.0, -1.0)
    distance = (side * found.decision_function(X)).min() / as_norm(norm)(found.coef_[0])
    assert distance == pytest.approx(found.margin_[0], rel=1e-9)
    assert found.cosine_[0] == -1.0
