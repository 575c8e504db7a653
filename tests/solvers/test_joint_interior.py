"""The joint program over pairs: its KKT conditions, Farkas' weights, and degenerate sets."""

import numpy as np
import pytest

from prgd.solvers import joint_interior
from prgd.solvers.joint_coordinates import PairColumns, PairProducts, Pairs
from prgd.solvers.joint_interior import bounds_of, lowest_vertex, polished, solve_pairs

TOL = 1e-9


def all_pairs(codes, K):
    """Return row and class of every pair."""
    others = (codes[:, None] + np.arange(1, K)) % K
    return np.repeat(np.arange(codes.size), K - 1), others.ravel()


def clusters(seed=0, n=60, d=6, K=4, spread=0.1):
    """Return rows near K centres, which a joint classifier separates."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % K
    return rng.normal(size=(K, d))[codes] + spread * rng.normal(size=(n, d)), codes


def random_set(seed):
    """Return a random program: separable or not, all pairs or some, and rows of several kinds."""
    rng = np.random.default_rng(seed)
    K, d = int(rng.integers(2, 11)), int(rng.integers(1, 30))
    n, kind = int(rng.integers(K, 60)), int(rng.integers(0, 5))
    codes = np.append(np.arange(K), rng.integers(0, K, n - K))
    X = rng.normal(size=(K, d))[codes] + rng.choice([0.05, 0.3, 1.0]) * rng.normal(size=(n, d))
    if kind == 1:  # repeated rows
        some = np.append(np.arange(K), rng.integers(0, n, n))
        X, codes = X[some], codes[some]
    elif kind == 2:  # collinear columns
        X = np.hstack([X, X @ rng.normal(size=(d, 3))])
    fit_intercept = bool(rng.integers(0, 2))
    if kind == 3 and fit_intercept:
        X += 100.0
    row, other = all_pairs(codes, K)
    if rng.random() < 0.5:
        some = np.sort(rng.choice(row.size, max(1, int(rng.random() * row.size)), replace=False))
        row, other = row[some], other[some]
    return X, codes, row, other, K, fit_intercept


def combination(X, codes, row, other, K, p):
    """Return ``sum p (e_y - e_j) x^T``."""
    U = np.zeros((K, X.shape[1]))
    np.add.at(U, codes[row], p[:, None] * X[row])
    np.add.at(U, other, -p[:, None] * X[row])
    return U


def check_conditions(found, X, codes, row, other, K, fit_intercept, gap=TOL):
    """Assert the KKT conditions of an answer: feasibility, signs, circulation, stationarity, gap."""
    center = X.mean(axis=0) if fit_intercept else 0.0
    C, b = X - center, found.b + found.W @ (center + np.zeros(X.shape[1]))
    margins = ((found.W[codes[row]] - found.W[other]) * C[row]).sum(axis=1) + b[codes[row]] - b[other]
    length, size = np.linalg.norm(found.W), np.linalg.norm(C, axis=1).max()
    assert found.is_feasible
    assert margins.min() >= 1.0 - 1e-12 * (1.0 + length * size) - 1e-15 * np.abs(found.b).max() * X.shape[1]
    assert found.p.min() >= 0.0
    U = combination(C, codes, row, other, K, found.p)
    assert found.gap <= gap
    if length == 0.0:
        assert not found.p.any()
        return
    # A gap of g leaves an angle of sqrt(2 g) between W and the combination, and their lengths agree to g.
    assert np.linalg.norm(U - found.W) <= (2.0 * np.sqrt(gap) + 1e-12) * length
    assert abs(np.linalg.norm(U) / length - 1.0) <= 2.0 * gap + 1e-12
    assert abs(found.p.sum() / length**2 - 1.0) <= 2.0 * gap + 1e-12
    assert abs(found.b.sum()) <= 1e-12 * (1.0 + np.abs(found.b).max())
    assert fit_intercept or not found.b.any()
    if fit_intercept:
        net = np.bincount(codes[row], found.p, K) - np.bincount(other, found.p, K)
        assert np.abs(net).max() <= 1e-14 * found.p.sum()


def check_farkas(found, X, codes, row, other, K, fit_intercept, size=2e-9):
    """Assert weights of sum 1 whose combination vanishes."""
    assert not found.is_feasible
    assert found.p.min() >= 0.0
    assert found.p.sum() == pytest.approx(1.0)
    C = X - X.mean(axis=0) if fit_intercept else X
    U = combination(C, codes, row, other, K, found.p)
    assert np.linalg.norm(U) <= size * np.abs(C).max() * X.shape[1]
    assert np.isfinite(found.W).all()
    assert np.isfinite(found.b).all()
    assert found.gap == 1.0


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 150), marks=pytest.mark.slow)])
def test_answers_to_random_sets_are_proven(seeds):
    """The KKT conditions and Farkas' weights exclude each other, so either is the truth about the set."""
    for seed in seeds:
        found = solve_pairs(*(problem := random_set(seed)))
        (check_conditions if found.is_feasible else check_farkas)(found, *problem)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("form", [PairColumns, PairProducts])
def test_both_forms_of_the_systems_agree(form, fit_intercept, monkeypatch):
    X, codes = clusters(n=40, d=12, spread=0.3)
    problem = X, codes, *all_pairs(codes, 4), 4, fit_intercept
    expected = solve_pairs(*problem)
    monkeypatch.setattr(joint_interior, "coordinates_of", form)
    found = solve_pairs(*problem)
    check_conditions(found, *problem)
    np.testing.assert_allclose(found.W, expected.W, atol=1e-4 * np.abs(expected.W).max())


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_rows_whose_sum_over_all_pairs_vanishes(fit_intercept):
    """The solve begins with that sum, also in the form over the pairs, which many columns have."""
    X = np.random.default_rng(0).integers(-3, 4, size=(6, 600)).astype(float)
    X[1::2] = -X[::2]
    problem = X, np.repeat(np.arange(3), 2), *all_pairs(np.repeat(np.arange(3), 2), 3), 3, fit_intercept
    check_farkas(solve_pairs(*problem), *problem)


def test_the_factorised_system_is_the_hessian():
    X, codes = clusters(n=50, d=3, K=5)
    row, other = all_pairs(codes, 5)
    pairs = Pairs(X, row, codes[row], other, 5, False)
    D = np.random.default_rng(0).random(row.size)
    solve, x = PairColumns(pairs).solver(D), np.random.default_rng(1).normal(size=12)
    at = PairColumns(pairs)
    np.testing.assert_allclose(solve(at.gradient(x) + at.combine(D * at.margins(x))), x, rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_two_classes_are_the_binary_program(fit_intercept):
    from prgd import max_margin

    X, codes = clusters(K=2, n=30)
    found = solve_pairs(X, codes, *all_pairs(codes, 2), 2, fit_intercept)
    binary = max_margin(X, codes, fit_intercept=fit_intercept, tol=1e-9)
    # w_1 - w_0 has margin 1 on all rows, and ||W||^2 is half of its square.
    w = found.W[1] - found.W[0]
    assert 1.0 / np.linalg.norm(w) == pytest.approx(binary.certificate.upper, rel=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("exponent", [-300, -7, 3, 300])
def test_powers_of_two_change_nothing(exponent, fit_intercept):
    X, codes = clusters()
    pairs = all_pairs(codes, 4)
    plain = solve_pairs(X, codes, *pairs, 4, fit_intercept)
    scaled = solve_pairs(np.ldexp(X, exponent), codes, *pairs, 4, fit_intercept)
    np.testing.assert_array_equal(scaled.W, np.ldexp(plain.W, -exponent))
    np.testing.assert_array_equal(scaled.p, np.ldexp(plain.p, -2 * exponent))
    np.testing.assert_allclose(scaled.b, plain.b, atol=1e-14)


def test_rows_far_from_the_origin():
    X, codes = clusters()
    near, far = (solve_pairs(X + v, codes, *all_pairs(codes, 4), 4, True) for v in (0.0, 1e6))
    check_conditions(far, X + 1e6, codes, *all_pairs(codes, 4), 4, True)
    np.testing.assert_allclose(far.W, near.W, atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-6])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tiny_margins(seed, distance, fit_intercept):
    """Two rows of different classes that nearly agree: Wolfe's method takes over from the interior point."""
    X, codes = clusters(seed)
    X[1] = X[0] + distance * np.random.default_rng(100 + seed).normal(size=6)
    problem = X, codes, *all_pairs(codes, 4), 4, fit_intercept
    check_conditions(solve_pairs(*problem), *problem, gap=1e-8)


DEGENERATE = {
    "repeated": lambda X, codes: (np.vstack([X] * 3), np.tile(codes, 3)),
    "collinear": lambda X, codes: (np.hstack([X, X, 3.0 * X[:, :1], np.zeros((60, 1))]), codes),
    "one row each": lambda X, codes: (X[:4], codes[:4]),
    "units": lambda X, codes: (X * 10.0 ** np.linspace(-4.0, 4.0, 6), codes),
    "one column": lambda X, codes: (codes[:, None] + 0.1 * X[:, :1], codes),
}
INSEPARABLE = {
    "overlap": lambda X, codes: (np.random.default_rng(0).normal(size=(60, 3)), codes),
    "zeros": lambda X, codes: (np.zeros((60, 2)), codes),
    "equal": lambda X, codes: (np.full((60, 2), 0.1), codes),
    "contradiction": lambda X, codes: (np.vstack([X[:1], X[:1], X[2:]]), codes),
    # the first direction is zero: all classes have the mean zero
    "symmetric": lambda X, codes: (np.vstack([X, -X]), np.tile(codes, 2)),
}


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("case", [*DEGENERATE, *INSEPARABLE])
def test_degenerate_rows_and_those_that_no_matrix_separates(case, fit_intercept):
    if case in DEGENERATE:
        X, codes = DEGENERATE[case](*clusters(1))
        fit_intercept |= case == "one column"  # without intercepts three classes on a line are not separable
    else:
        X, codes = INSEPARABLE[case](*clusters(2))
    problem = X, codes, *all_pairs(codes, 4), 4, fit_intercept
    found = solve_pairs(*problem)
    if case in DEGENERATE:
        check_conditions(found, *problem)
    else:
        check_farkas(found, *problem, size=1e-8)


def test_pairs_on_no_cycle_of_classes_are_left_to_the_intercepts():
    X, codes = clusters(3)
    row, other = all_pairs(codes, 4)
    one = solve_pairs(X, codes, row[:1], other[:1], 4, True)
    assert not one.W.any()
    assert not one.p.any()
    assert one.b[codes[row[0]]] - one.b[other[0]] == pytest.approx(1.0)
    # Classes 0 and 1 are compared with all others, which are compared with each other only.
    some = (codes[row] < 2) | (other >= 2)
    problem = X, codes, row[some], other[some], 4, True
    found = solve_pairs(*problem)
    check_conditions(found, *problem)
    crossing = (codes[row[some]] < 2) != (other[some] < 2)
    assert crossing.any()
    assert not found.p[crossing].any()
    X[1] = X[0]  # classes 0 and 1 contradict each other
    check_farkas(solve_pairs(*problem), *problem)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_no_pairs(fit_intercept):
    X, codes = clusters()
    none = np.empty(0, np.int64)
    found = solve_pairs(X, codes, none, none, 4, fit_intercept)
    assert found.is_feasible
    assert not found.W.any()
    assert not found.b.any()
    assert found.p.shape == (0,)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_wolfe_from_a_vertex_alone(fit_intercept):
    X, codes = clusters(4, spread=0.3)
    row, other = all_pairs(codes, 4)
    expected = solve_pairs(X, codes, row, other, 4, fit_intercept)
    C = np.hstack([X - X.mean(axis=0), np.ones((60, 1))]) if fit_intercept else X
    pairs = Pairs(C, row, codes[row], other, 4, fit_intercept)
    W = np.random.default_rng(0).normal(size=(4, C.shape[1]))
    W, vertex = lowest_vertex(pairs, W)
    p = np.zeros(row.size)
    p[vertex] = 1.0 / vertex.size
    found = polished(pairs, bounds_of(pairs, W, p), p > 1.0, 1e-12)
    assert found.gap <= 1e-12
    assert found.upper == pytest.approx(1.0 / np.linalg.norm(expected.W), rel=1e-8)
