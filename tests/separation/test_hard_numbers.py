"""Verdicts on coefficients of numbers that mislead rounding, primes and the floating range."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from separation import oracle

import prgd
from prgd.core.threads import limited
from prgd.proofs.elimination import short_primes
from prgd.proofs.exact_simplex import partition_rows
from prgd.regression import cone_vectors, signs


def both_labels(B: np.ndarray, S: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows B with each label, which are on every boundary, and rows S with their labels."""
    n = len(B)
    return np.vstack([B, B, S]), np.concatenate([np.zeros(n, int), np.ones(n, int), labels])


def quasi_separated(d: int, boundary: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data whose boundary rows leave a null space of several dimensions, of long fractions."""
    rng = np.random.default_rng(seed)
    B, S = rng.standard_normal((boundary, d)), rng.standard_normal((n, d))
    v = np.linalg.svd(np.hstack([B, np.ones((boundary, 1))]))[2][-1]
    return both_labels(B, S, (S @ v[:-1] + v[-1] > 0).astype(int))


def true_words(X: np.ndarray, y: np.ndarray, fit_intercept: bool = True) -> dict:
    exact = tuple(tuple(Fraction(value) for value in row) for row in X.tolist())
    return oracle.solve(oracle.Design("binomial", exact, tuple(y.tolist()), fit_intercept)).words


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_prime_that_divides_a_minor_makes_no_relation(fit_intercept):
    # Modulo the prime, the first two columns are equal on the boundary rows; they are not.
    a = np.array([1e9, 2e9, 3e9, 4e9]) * 2.0**20
    B = np.column_stack([a, a + next(short_primes()) * np.array([0.0, 1.0, 0.0, 1.0]), np.zeros(4)])
    X, y = both_labels(B, np.array([[5e9, 5e9, 1.0]]), np.array([1]))
    found = prgd.separability(X, y, fit_intercept=fit_intercept)
    assert found.coefficients == true_words(X, y, fit_intercept)
    assert found.check(X, y)


def test_columns_of_multiples_of_a_prime_are_aliased_with_a_relation():
    prime = float(next(short_primes()))
    X = np.array([[0.0, 1.0], [1.0, -1.0], [2.0, 0.0], [1.0, 1.0], [-1.0, 2.0]]) * prime
    X = np.column_stack([X, X[:, 0] + 2 * X[:, 1] + prime])
    found = prgd.separability(X, [0, 1, 0, 1, 1])
    assert found.coefficients["x2"] == "aliased"
    assert found.witness("x2").relation == {0: 1, 1: 2, 2 + 1: prime}


@pytest.mark.parametrize("shape", [(7, 5, 12), (30, 25, 40)])  # the second ones leave the floating range
def test_long_relations_of_floats_are_found(shape):
    X, y = quasi_separated(*shape, seed=1)
    found = prgd.separability(X, y)
    assert "undecided" not in found.coefficients.values()
    assert shape[0] > 7 or found.coefficients == true_words(X, y)
    assert found.check(X, y)


@pytest.mark.parametrize(("start", "unit"), [(0.0, 5e-324), (2.0**52, 1.0), (1.7e18, 256.0)])
def test_columns_of_long_numbers_are_decided(start, unit):
    # A feature that separates alone leaves the entries of the others at 0.
    X = np.column_stack([[1.0, 2.0, 3.0, 4.0, 5.0], start + unit * np.array([1, 5, 2, 5, 3])])
    found = prgd.separability(X, y := np.array([0, 0, 0, 1, 1]))
    assert found.coefficients == true_words(X, y)
    assert found.check(X, y)


def test_weights_of_many_boundary_rows_are_short_and_the_time_is_asked_for_each_ray(monkeypatch):
    # Digits added up from ray to ray: weights of 8,522 bits, and no end for 1,000 rows.
    checks, rng = [], np.random.default_rng(0)
    monkeypatch.setattr("prgd.proofs.exact_simplex.check_time", lambda: checks.append(1))
    X = np.column_stack([1.7e18 + np.round(rng.random(100) * 1e15), rng.standard_normal((100, 2))])
    X[:, 2] *= 1e-310
    v = np.where(X[:, :1] > np.median(X[:, 0]), 1.0, -1.0)
    Z = np.vstack([np.column_stack([X, np.ones(100)]) * v, [-1.0, 0.0, 0.0, 0.0]])
    boundary, weights, _ = partition_rows(Z)
    assert max(weights).bit_length() < 1000
    assert len(checks) > boundary.sum() / 2


def test_a_verdict_and_its_pivots_end_when_the_seconds_are_spent():
    X, y = quasi_separated(7, 5, 40, 0)
    found = prgd.separability(X, y, max_seconds=1e-9)
    assert set(found.coefficients.values()) == {"undecided"}
    assert found.check(X, y)
    with limited(0.0):
        pytest.fail(f"{partition_rows(X)} in no time")
    with pytest.raises(ValueError, match="max_seconds must be a finite number above 0; got 0"):
        prgd.separability(X, y, max_seconds=0)


def test_no_ellipsoid_is_made_after_the_time_is_spent(monkeypatch):
    made = []
    monkeypatch.setattr(cone_vectors, "_inside", lambda *_args: (made.append(1), (np.zeros((2, 1)), {}))[1])
    G, C = np.array([[1.0, 0.0], [-1.0, 1.0]]), np.array([[1.0, 0.0]])
    with limited(0.0):
        cone_vectors.opposite_vectors(G, np.array([1.0, 1e6]), C, np.array([1]))
    assert len(made) == 1


def test_ctrl_c_among_the_coefficients_keeps_the_verdict(monkeypatch):
    def interrupt(*_args):
        raise KeyboardInterrupt

    X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 2.0], [3.0, 2.0], [3.0, 2.0]])
    y = np.array([0, 0, 1, 1, 1])
    for name in ("pivot_columns", "opposite_vectors"):
        monkeypatch.setattr(signs, name, interrupt)
        found = prgd.separability(X, y)
        monkeypatch.undo()
        assert found.verdict == "separable"
        assert found.is_interrupted
        assert set(found.coefficients.values()) == {"undecided"}
        assert found.check(X, y)


def test_check_of_undecided_coefficients_beside_aliased_ones(monkeypatch):
    X = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    monkeypatch.setattr(signs, "pivot_columns", lambda *_: None)
    found = prgd.separability(X, [0, 0, 1])
    monkeypatch.undo()
    assert set(found.coefficients.values()) == {"undecided"}
    assert found.check(X, [0, 0, 1])


def result_with_all() -> tuple[prgd.Separability, np.ndarray, np.ndarray]:
    """Return a verdict with coefficients of one sign and of either."""
    X = np.array([[0, 1, 0], [0, 2, 0], [0, 3, 1], [0, 4, 1], [1, 2, 0], [1, 5, 1], [2, 1, -1]], float)
    y = np.array([0, 1, 0, 1, 1, 1, 1])
    return prgd.separability(X, y), X, y


@pytest.mark.parametrize(
    "change",
    [
        {"separated_rows": np.arange(3)},
        {"boundary_rows": np.arange(3)},
        {"limiting_rows": np.arange(3)},
        {"max_margin_signs": {}},
        {"max_margin_signs": {"(Intercept)": "+"}},
        {"coef": np.full(3, np.nan)},
        {"intercept": np.nan},
        {"margin": np.nan},
        {"lower": 1e9},
        {"upper": -1.0},
    ],
)
def test_check_sees_a_changed_field(change):
    found, X, y = result_with_all()
    assert found.check(X, y)
    assert not replace(found, **change).check(X, y)


def test_check_sees_changed_evidence():
    found, X, y = result_with_all()
    evidence = found._evidence
    column, member = next(iter(evidence.memberships.items()))
    either, t = next(iter(evidence.above.items()))
    long = tuple([Fraction(10**400)] * len(t))
    changes = [
        {"behaviours": {**evidence.behaviours, either: "something"}},
        {"memberships": {**evidence.memberships, column: replace(member, rows=member.rows[:-1])}},
        {"memberships": {**evidence.memberships, column: replace(member, rows=member.rows[::-1])}},
        {"memberships": {**evidence.memberships, column: replace(member, weights=())}},
        {"above": {either: long}},
        {"base": long},
    ]
    for change in changes:
        other = replace(evidence, **change)
        columns = zip(found.model.names, found.model.columns.tolist(), strict=True)
        words = {name: other.behaviours[j] for name, j in columns}
        assert not replace(found, _evidence=other, coefficients=words).check(X, y), change


def test_check_sees_changed_dual_weights_beside_exact_ones():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    found = prgd.separability(X, y)
    assert found.proof.weights is not None
    assert found.check(X, y)
    for p in (np.full(4, np.nan), np.array([0.1, 0.4, 0.4, 0.1])):
        assert not replace(found, dual_weights=p).check(X, y)
    for relation in ({}, {-1: Fraction(1)}, {0: Fraction(0)}):
        proof = replace(found.proof, relations=(relation,))
        assert not replace(found, proof=proof).check(X, y)
