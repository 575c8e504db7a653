"""Largest margins in any norm and of all classes jointly: against dual programs, exactly, and on bad data."""

import sys
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from dual_programs import gamma_star, pairs, two_classes
from sklearn.datasets import load_digits

import prgd
from prgd import Status
from prgd.maxmargin.any_norm import AnyNorm

POWERS = (1.5, 3.0, 4.0, 1.1, 10.0)
VECTOR_NORMS = ("l1", "linf", 1.5, 4.0)
EVERY_NORM = ("l2", *VECTOR_NORMS, "spectral", "nuclear", "rows", "columns")
NO_SEPARATOR = (Status.NOT_SEPARABLE, Status.QUASI_SEPARABLE)


def random_problem(seed, K=2):
    """Rows of random number, scale and margin with labels of a linear classifier, some with an offset."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4 * K, 60)), int(rng.integers(1 if K == 2 else 2, 9))
    W, b = rng.standard_normal((K, d)), 0.3 * rng.standard_normal(K) * (seed % 2)
    X = rng.standard_normal((n, d))
    X[:K] = 3.0 * (W - W.mean(axis=0))
    y = (X @ W.T + b).argmax(axis=1)
    y[:K] = np.arange(K)  # each class has a row
    X += 0.5 * rng.random() * (W - W.mean(axis=0))[y]
    return X * 10.0 ** rng.integers(-3, 4), y


def check_against_program(X, y, norm, fit_intercept, rel, tol, is_joint=False):
    """Compare both bounds with the dual program, and check them; return the result."""
    A, B = pairs(X, y) if is_joint else two_classes(X, 2 * y - 1)
    name = f"lp:{norm}" if isinstance(norm, float) else norm
    shape = (int(y.max()) + 1, X.shape[1])
    expected = gamma_star(A, B if fit_intercept else B[:, :0], name, shape)
    options = {"norm": norm, "multi_class": "joint" if is_joint else None}
    result = prgd.max_margin(X, y, fit_intercept=fit_intercept, tol=tol, **options)
    if expected == 0.0:
        assert result.status in NO_SEPARATOR
        assert result.upper_bound == 0.0
    else:
        assert result.status is Status.CERTIFIED, f"{result}"
        assert result.margin == pytest.approx(expected, rel=rel)
        assert result.upper_bound == pytest.approx(expected, rel=rel)
    assert result.check(X, y).is_valid
    return result


def exact_bounds(result, X, y):
    """Return the margin of w at its best intercept, and the dual norm of the weights, as fractions."""
    Z = [[Fraction(v) * int(s) for v in row] for row, s in zip(X.tolist(), y, strict=True)]
    w = [Fraction(v) for v in result.certificate.w.tolist()]
    margins = [sum(a * b for a, b in zip(z, w, strict=True)) for z in Z]
    values = [Fraction(v) for v in result.dual_weights.tolist()]
    support = result.support.tolist()
    classes = [1, -1] if result.fit_intercept else [None]
    smallest, u = Fraction(0), [Fraction(0)] * X.shape[1]
    for label in classes:
        smallest += min(m for m, s in zip(margins, y, strict=True) if label in (None, s)) / len(classes)
        mine = [(i, p) for i, p in zip(support, values, strict=True) if label in (None, y[i])]
        total = sum(p for _, p in mine) * len(classes)
        u = [v + sum(p * Z[i][j] for i, p in mine) / total for j, v in enumerate(u)]
    sizes = (sum, max) if result.norm == "l1" else (max, sum)
    return smallest / sizes[0](abs(v) for v in w), sizes[1](abs(v) for v in u)


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 110), marks=pytest.mark.slow)])
def test_linear_programs(norm, seeds):
    for seed in seeds:
        X, y = random_problem(seed)
        result = check_against_program(X, y, norm, bool(seed % 3), 1e-8, 1e-9)
        if result.status is Status.CERTIFIED:
            lower, upper = exact_bounds(result, X, 2 * y - 1)
            assert result.margin <= lower <= upper <= result.upper_bound


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 30), marks=pytest.mark.slow)])
def test_power_programs(p, seeds):
    for seed in seeds:
        check_against_program(*random_problem(1000 * int(10 * p) + seed), p, bool(seed % 3), 1e-8, 5e-9)


@pytest.mark.parametrize("K", range(3, 11))
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.slow)])
def test_joint_l2(K, seeds):
    for seed in seeds:
        X, y = random_problem(100 * K + seed, K)
        check_against_program(X, y, "l2", bool(seed % 3), 1e-7, 1e-8, is_joint=True)


@pytest.mark.parametrize("norm", ["l1", "linf", 3.0, "spectral"])
def test_joint_in_other_norms(norm):
    for seed, K in enumerate((3, 5)):
        X, y = random_problem(50 + seed, K)
        check_against_program(X, y, norm, bool(seed), 1e-7, 1e-8, is_joint=True)


def test_quasi_separable_is_said_of_any_weights():
    X, y = np.array([[0.0], [1.0], [1.0], [2.0], [2.0], [3.0]]), np.array([0, 0, 1, 1, 2, 2])
    joint = prgd.max_margin(X, y, multi_class="joint")
    two = prgd.max_margin(X[:4], y[:4])
    assert joint.status is two.status is Status.QUASI_SEPARABLE
    assert "hyperplane" not in str(joint.status)  # W of three rows is none.
    assert "a linear classifier can have no row on its wrong side" in str(joint.status)


def test_two_classes_jointly():
    """W of two classes has rows w/2 and -w/2 in l2, so that its margin is sqrt(2) times that of w."""
    X, y = random_problem(4)
    two = prgd.max_margin(X, y, tol=1e-9)
    joint = prgd.max_margin(X, y, tol=1e-9, multi_class="joint")
    assert joint.margin == pytest.approx(np.sqrt(2.0) * two.margin, rel=1e-8)
    np.testing.assert_allclose(joint.coef[1], two.coef / 2.0, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "fit_intercept"), [("spectral", False), ("spectral", True), ("l2", True)])
def test_ten_classes(norm, fit_intercept):
    X, y = load_digits(return_X_y=True)
    if norm == "spectral":
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 25))
        y = (X @ rng.standard_normal((25, 10))).argmax(axis=1)
    result = prgd.max_margin(X, y, norm=norm, multi_class="joint", fit_intercept=fit_intercept)
    assert result.status is Status.CERTIFIED
    assert result.gap <= 1e-6
    assert result.check(X, y).is_valid
    assert result.coef.shape == (10, X.shape[1])
    assert ((X @ result.coef.T + result.intercept).argmax(axis=1) == y).all()
    assert result.support.size < 2000  # pairs that carry weight


def classes_of(K):
    X, y = random_problem(11, K)
    return X / np.abs(X).max(), y


BAD_DATA = {
    "duplicate rows": lambda X, y: (np.vstack([X, X]), np.append(y, y)),
    "zero columns": lambda X, y: (np.hstack([X, np.zeros((len(X), 2))]), y),
    "collinear columns": lambda X, y: (np.hstack([X, X[:, :1] - X[:, 1:2], X]), y),
    "offset": lambda X, y: (X + 1e8, y),
    "tiny units": lambda X, y: (X * 1e-200, y),
    "huge units": lambda X, y: (X * 1e200, y),
    "sparse": lambda X, y: (sp.csr_array(X * (np.abs(X) > 0.02)), y),
    "one row of a class": lambda X, y: (np.vstack([X, 9.0 + 0.0 * X[:1]]), np.append(y, 3)),
    "one column": lambda X, y: (np.linspace(-1.0, 1.1, 30)[:, None], np.arange(30) * (y.max() + 1) // 30),
    "more columns than rows": lambda X, y: (np.random.default_rng(0).standard_normal((12, 40)), y[:12]),
    "overlap": lambda X, y: (np.vstack([X, X[:1]]), np.append(y, y[0] == 0)),
    "noise": lambda X, y: (X, np.random.default_rng(0).permutation(y)),
}


@pytest.mark.parametrize(
    ("name", "K"), [(name, K) for name in BAD_DATA for K in (2, 3) if (name, K) != ("one row of a class", 2)]
)
def test_bad_data(name, K):
    X, y = BAD_DATA[name](*classes_of(K))
    for norm in EVERY_NORM if K > 2 else VECTOR_NORMS:
        result = prgd.max_margin(X, y, norm=norm, multi_class="joint" if K > 2 else None)
        expected = NO_SEPARATOR if name in ("overlap", "noise") else (Status.CERTIFIED,)
        assert result.status in expected, (norm, f"{result}")
        assert result.check(X, y).is_valid, norm


def many_rows():
    """Columns of different scales, so that the means of the classes are a poor first direction."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3000, 8)) * np.geomspace(1.0, 50.0, 8)
    return X, np.where(X @ (rng.standard_normal(8) / np.geomspace(1.0, 50.0, 8)) > 0.1, 1, -1)


@pytest.mark.parametrize("norm", ["l1", 3.0])
def test_growing_sets_end_with_the_same_margin(norm):
    """More rows than are solved at once: rounds of a working set, told to a callback."""
    X, y = many_rows()
    rounds = []
    result = prgd.max_margin(X, y, norm=norm, callback=rounds.append)
    assert result.status is Status.CERTIFIED
    assert result.t == len(rounds) == len(result.history) > 1
    assert rounds[-1].working_set < 1000
    again = prgd.max_margin(X, y, norm=norm, w0=result.coef)
    assert again.margin == pytest.approx(result.margin, rel=2e-6)
    assert prgd.max_margin(X, y, norm=norm, max_passes=1, tol=1e-12).status is Status.MAX_PASSES


def test_an_interrupt_keeps_the_interval(monkeypatch):
    X, y = many_rows()
    stop = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(AnyNorm, "learn", stop)
    result = prgd.max_margin(X, y, norm="linf")
    assert result.status is Status.INTERRUPTED
    assert result.check(X, y).is_valid
    monkeypatch.setattr(AnyNorm, "choose_terms", stop)
    with pytest.raises(KeyboardInterrupt):
        prgd.max_margin(X, y, norm="linf")


def test_errors_are_sentences(monkeypatch):
    X, y = classes_of(3)
    two = X[y < 2], y[y < 2]
    for data, options, words in (
        ((X, y), {}, r"two classes; got 3.*multi_class='joint'.*MaxMarginClassifier"),
        ((X, y), {"multi_class": "ovr"}, "multi_class must be None or 'joint'"),
        ((X, y), {"multi_class": "joint", "w0": np.ones(X.shape[1])}, "w0 must be finite, of shape"),
        (two, {"norm": "spectral"}, "norm"),
        (two, {"norm": 0.5}, "at least 1"),
    ):
        with pytest.raises(ValueError, match=words):
            prgd.max_margin(*data, **options)
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ModuleNotFoundError, match=r"'lp:3' needs clarabel: pip install '.\[cones\]'"):
        prgd.max_margin(*two, norm=3)
