"""scikit-learn's own checks for both estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import prgd

# many checks fit data that are not separable or have zero rows, or stop long before a small gap
pytestmark = [
    pytest.mark.filterwarnings("ignore::prgd.NotSeparableWarning"),
    pytest.mark.filterwarnings("ignore::prgd.ZeroRowWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def argued(estimator):
    """The one check that is expected to fail, and only without an intercept."""
    if estimator.fit_intercept:
        return {}
    return {
        "check_class_weight_classifiers": "asks for one class almost everywhere, on data on both sides of "
        "the origin: no hyperplane through it does that; LogisticRegression(fit_intercept=False) fails too"
    }


checks = parametrize_with_checks(
    [
        # Copies of rows move the solution within tol, and must give the same numbers to 1e-7.
        prgd.MaxMarginClassifier(tol=1e-10),
        prgd.MaxMarginClassifier(C=1.0),
        prgd.MaxMarginClassifier(multi_class="joint", tol=1e-10),
        prgd.PRGDClassifier(warmup_steps=200, max_iter=200),
        prgd.PRGDClassifier(warmup_steps=100, max_iter=100, loss="logistic", fit_intercept=False),
    ],
    expected_failed_checks=argued,
)


@pytest.mark.no_cover  # The other tests of estimators run the same lines.
# as a list: scikit-learn 1.6 gives a generator, which pytest 9 warns of
@pytest.mark.parametrize(checks.args[0], list(checks.args[1]), **checks.kwargs)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
