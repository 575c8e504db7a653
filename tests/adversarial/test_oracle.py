"""The exact oracle: answers computed by hand, and brute force on small integers."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from adversarial import oracle
from adversarial.problems import GENERATORS, make
from scipy.optimize import linprog

HALF = Fraction(1, 2)
SMALL = 2.0**-600


@pytest.mark.parametrize(
    ("X", "y", "fit_intercept", "verdict", "signed_square"),
    [
        ([[3, 4], [-3, 4]], [1, -1], False, "separable", 9),
        ([[3, 4], [-3, 4]], [1, -1], True, "separable", 9),
        ([[0], [1], [3], [4]], [-1, -1, 1, 1], True, "separable", 1),
        ([[0], [1], [3], [4]], [1, 1, -1, -1], True, "separable", 1),  # the other orientation
        ([[0], [1], [3], [4]], [-1, -1, 1, 1], False, "not separable", -1),
        ([[0], [-1], [3], [4]], [-1, -1, 1, 1], False, "quasi-separable", 0),  # the first row is zero
        ([[0, 2], [-1, 0], [1, 0]], [1, -1, -1], True, "separable", 1),  # a vertex and an edge
        ([[2, 2], [2, 0], [0, 2]], [1, -1, -1], True, "separable", HALF),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [1, 1, 1], False, "separable", Fraction(1, 3)),
        ([[0, 1], [0, 2], [0, 3], [0, 4], [1, 2]], [0, 1, 0, 1, 1], True, "quasi-separable", 0),
        ([[1, 1], [-1, -1], [1, -1], [-1, 1]], [1, 1, -1, -1], True, "not separable", -HALF),
        ([[0, 0], [1, 0], [2, 0]], [1, -1, 1], True, "not separable", 0),  # all rows on one line
        ([[1], [2], [3]], [1, -1, 1], True, "not separable", -HALF * HALF),
        ([[1], [0], [-1]], [1, 1, -1], False, "quasi-separable", 0),
        ([[1.0], [1.0]], ["a", "b"], True, "not separable", -0),  # two copies: margin 0 at every w
        ([[0.0, 0.0], [0.0, 0.0]], [1, -1], False, "not separable", 0),
        (
            [[3 * SMALL, 4 * SMALL], [-3 * SMALL, 4 * SMALL]],
            [1, -1],
            True,
            "separable",
            9 * Fraction(SMALL) ** 2,
        ),
        ([[2**53], [2**53 + 1]], [0, 1], True, "separable", HALF * HALF),  # not a float64 number
        ([[1e12 + 0.25], [1e12]], [1, -1], True, "separable", Fraction(1, 64)),
    ],
)
def test_answers_computed_by_hand(X, y, fit_intercept, verdict, signed_square):
    found = oracle.solve(X, y, fit_intercept=fit_intercept)
    assert (found.verdict, found.signed_square) == (verdict, signed_square)
    assert found.sign == (signed_square > 0) - (signed_square < 0)
    assert found.gamma_star == pytest.approx(math.copysign(math.sqrt(abs(signed_square)), signed_square))


def test_bounds_are_compared_exactly():
    tenth = Fraction(1, 100)  # the square of 1/10, which lies below the float 0.1
    assert not oracle.is_at_most(0.1, tenth)
    assert oracle.is_at_least(0.1, tenth)
    below = math.nextafter(0.1, 0.0)
    assert oracle.is_at_most(below, tenth)
    assert not oracle.is_at_least(below, tenth)
    assert oracle.is_at_most(-0.1, -tenth)
    assert not oracle.is_at_least(-0.1, -tenth)
    assert oracle.is_at_most(-5.0, Fraction(0))
    assert oracle.is_at_most(0.0, Fraction(0))
    assert not oracle.is_at_most(5e-324, Fraction(0))
    assert oracle.is_at_most(-math.inf, -tenth)
    assert oracle.is_at_least(math.inf, tenth)
    assert not oracle.is_at_most(math.inf, tenth)
    assert not oracle.is_at_most(math.nan, tenth)
    assert not oracle.is_at_least(math.nan, tenth)


def test_bounds_of_a_negative_margin():
    """The cross of two classes has gamma_star = -1 / sqrt(2); the axes have margin -1."""
    found = oracle.solve([[1, 1], [-1, -1], [1, -1], [-1, 1]], [1, 1, -1, -1], fit_intercept=True)
    root = math.sqrt(0.5)
    above, below = math.nextafter(root, 1.0), math.nextafter(root, 0.0)
    assert found.easy_square == -1
    assert found.margin_square([1.0, 1.0]) == -HALF
    assert found.margin_square([Fraction(1, 3), Fraction(1, 3)], 0.0) == -2  # the margin is -2 / sqrt(2)
    assert found.margin_square([1.0, 1.0], 1.0) == -HALF
    assert found.is_at_most(-1.0)
    assert found.is_at_most(-above)
    assert found.is_at_most(-0.8, [1.0, 1.0])
    assert not found.is_at_most(-below + 1e-15, [1.0, 1.0])
    assert not found.is_at_most(0.0)
    assert found.is_at_least(0.0)
    assert found.is_at_least(-below + 1e-15)
    assert not found.is_at_least(-above - 1e-15)


def test_witnesses_of_both_ends():
    X, y = [[1e12 + 2, 0.0], [1e12, 0.0], [1e12, 8.0]], [1, -1, -1]
    found = oracle.solve(X, y, fit_intercept=True)
    assert found.gamma_star == 1.0
    assert found.margin_square([1.0, 0.0]) == 1
    assert found.margin_square([2.0, 0.0], -2e12 - 2.0) == 1
    assert found.margin_square([1.0, 0.0], -1e12) == 0
    assert found.weights_square([0, 1], [0.5, 0.5]) == 1
    assert found.weights_square([0, 1, 2], [3, 1, 1]) == 1 + 4  # the second class has its mean at height 4
    found = oracle.solve([[3, 4], [-3, 4]], [1, -1], fit_intercept=False)
    assert found.margin_square([3.0, 1.0]) == Fraction(25, 10)
    assert found.weights_square([0, 1], [0.25, 0.25]) == 9
    assert found.weights_square([0], [0.1]) == 25


def test_arrays_are_read_as_stored():
    X = np.array([[0.1, 3], [-2, 65504]])
    for kind in ("<f8", ">f8", "f4", "f2"):
        stored = X.astype(kind)
        expected = [[Fraction(float(value)) for value in row] for row in stored]
        assert oracle.exact_matrix(stored) == expected
        assert oracle.exact_matrix(np.asfortranarray(stored)[::-1]) == expected[::-1]
    assert oracle.exact_matrix(np.array([[2**63 - 1]])) == [[2**63 - 1]]


def nearest_by_enumeration(vertices):
    """Return the squared distance of the origin to a hull: try all supports, keep the one that is optimal."""
    for size in range(1, len(vertices[0]) + 2):
        for chosen in combinations(vertices, size):
            try:
                weights, q = oracle.affine_minimum([list(vertex) for vertex in chosen])
            except AssertionError:  # affinely dependent: a smaller support does as well
                continue
            u = [Fraction(value, q) for value in oracle.combine(weights, chosen)]
            square = sum(value * value for value in u)
            is_lowest = all(sum(a * b for a, b in zip(u, v, strict=True)) >= square for v in vertices)
            if min(weights) >= 0 and is_lowest:
                return square
    raise AssertionError("some support is optimal")


@pytest.mark.parametrize("seed", range(60))
def test_brute_force_on_integers(seed):
    rng = np.random.default_rng(seed)
    n, d, fit_intercept = int(rng.integers(2, 8)), int(rng.integers(1, 4)), bool(seed % 2)
    X, y = rng.integers(-3, 4, (n, d)), rng.choice([-1, 1], n)
    y[:2] = 1, -1
    if seed % 3:
        X[y > 0, 0] += 3
    found = oracle.solve(X, y, fit_intercept=fit_intercept)
    Z = y[:, None] * X
    if fit_intercept:
        vertices = [tuple((a - b).tolist()) for a, b in product(X[y > 0], X[y < 0])]
        square = nearest_by_enumeration(sorted(set(vertices))) / 4
        Z = np.column_stack([Z, y])
    else:
        square = nearest_by_enumeration(sorted({tuple(row) for row in Z.tolist()}))
    assert square == found.positive_square
    # max sum(Z v) with 0 <= Z v <= 1 is positive unless the classes overlap; small integers suit float64.
    best = -linprog(-Z.sum(axis=0), np.vstack([Z, -Z]), np.repeat([1.0, 0.0], n), bounds=(None, None)).fun
    expected = "separable" if square > 0 else "quasi-separable" if best > 1e-9 else "not separable"
    assert found.verdict == expected
    # gamma_star over directions of a fine grid, in the plane
    if d == 2:
        angles = np.linspace(0.0, 2.0 * math.pi, 20001)
        along = np.stack([np.cos(angles), np.sin(angles)]) * 1.0
        margins = X @ along
        if fit_intercept:
            grid = (margins[y > 0].min(axis=0) - margins[y < 0].max(axis=0)) / 2
        else:
            grid = (y[:, None] * margins).min(axis=0)
        assert grid.max() <= found.gamma_star + 1e-12
        assert grid.max() >= found.gamma_star - 1e-2


def direction(Z, right, extra):
    """Return v with ``Z v - s = right`` and s >= 0, or None; ``extra`` asks for sum(s) = 1 besides."""
    n, width = len(Z), len(Z[0])
    slack = [[-int(i == k) for k in range(n)] for i in range(n)]
    matrix = [[*row, *(-value for value in row), *slack[i]] for i, row in enumerate(Z)]
    if extra:
        matrix.append([0] * (2 * width) + [1] * n)
    solved = oracle.nonnegative_solution(matrix, [right] * n + [1] * extra)
    return None if solved is None else [a - b for a, b in zip(solved[:width], solved[width:], strict=False)]


def products(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [name for name in GENERATORS if name != "more_rows"])
def test_either_weights_or_a_direction(name, seed):
    """The nearest point's verdict is that of two linear programs, each with a proof (Gordan, Stiemke)."""
    case = make(name, [11, seed])
    found = oracle.solve(case.X, case.y, fit_intercept=case.fit_intercept)
    rows = zip(found.signs, found.points, strict=True)
    Z = oracle.reduced([[s * v for v in point] + [s] * case.fit_intercept for s, point in rows])
    columns = [list(column) for column in zip(*Z, strict=True)]
    p, q = oracle.gordan_weights(Z), oracle.stiemke_weights(Z)
    strict, weak = direction(Z, 1, extra=False), direction(Z, 0, extra=True)
    assert (p is None, q is None) == (found.verdict == "separable", found.verdict != "not separable")
    assert p is None or (min(p) >= 0 and sum(p) == 1 and not any(products(columns, p)))
    assert q is None or (min(q) > 0 and not any(products(columns, q)))
    assert (p is None) == (strict is not None)
    assert strict is None or min(products(Z, strict)) > 0
    assert (q is None) == (weak is not None)
    assert weak is None or (min(products(Z, weak)) >= 0 and any(products(Z, weak)))


@pytest.mark.parametrize("name", GENERATORS)
def test_bounds_two_floats_away_are_told_apart(name):
    """gamma_star rounded outward by one float is a true bound; by one float inward, a false one."""
    for seed in range(6):
        case = make(name, [12, seed])
        found = oracle.solve(case.X, case.y, fit_intercept=case.fit_intercept)
        if found.verdict != "separable" or found.gamma_star < 1e-300:
            continue
        below, above = (math.nextafter(found.gamma_star, end) for end in (-math.inf, math.inf))
        assert found.is_at_most(below)
        assert found.is_at_least(above)
        assert not found.is_at_most(math.nextafter(above, math.inf))
        assert not found.is_at_least(math.nextafter(below, -math.inf))


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_make_two_classes_and_repeat(name):
    for seed in range(30):
        case, again = make(name, seed), make(name, seed)
        assert case.name == name
        assert len(set(np.asarray(case.y).tolist())) == 2
        assert oracle.exact_matrix(case.X) == oracle.exact_matrix(again.X)
        assert len(case.y) <= 200
