"""Entropies, minimisers in three norms, the statements about the path, and that a false one would be seen."""

import math

import mpmath
import numpy as np
import pytest
from prgd_paper.theory import entropies
from prgd_paper.theory import path_checks as checks
from prgd_paper.theory.expansion import drift, orthogonal_parts, path_expansion
from prgd_paper.theory.path import Face, path_points, regularization_path
from prgd_paper.theory.path_checks import summarise
from prgd_paper.theory.path_limits import expansion_readings, one_system_readings
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.samples import KINDS, path_problem
from prgd_paper.theory.support import max_margin_reference

from prgd.datasets import toy
from prgd.norms import L1, L2, Linf

NORMS = {"l2": L2(), "l1": L1(), "linf": Linf()}


def test_entropies_against_their_definitions():
    p = np.array([0.5, 0.3, 0.2])
    for order in (0.5, 2.0, 8.0):
        expected = math.log((p**order).sum()) / (1.0 - order)
        assert entropies.renyi_entropy(np.log(p), order) == pytest.approx(expected, rel=1e-14)
    assert entropies.renyi_entropy(np.log(p)) == pytest.approx(-(p * np.log(p)).sum(), rel=1e-14)
    assert entropies.renyi_entropy(np.log(p), math.inf) == pytest.approx(-math.log(0.5), rel=1e-14)
    q = np.array([2.0, 1.0, 4.0])
    s = entropies.softmax_weights(np.log(p), q)
    assert entropies.renyi_entropy(np.log(p), 2.0, q) == pytest.approx(-math.log((s**2 / q).sum()), rel=1e-14)
    groups = np.array([1, -1, 1])
    half = entropies.softmax_weights(np.log(p), groups=groups)
    assert half[groups == 1].sum() == pytest.approx(0.5)
    mean = 0.5 * (entropies.renyi_entropy(np.log(p[[0, 2]])) + entropies.renyi_entropy(np.log(p[[1]])))
    assert entropies.renyi_entropy(np.log(p), groups=groups) == pytest.approx(mean)


def test_weights_are_normalised_after_exponentiating():
    """At margins of 2e5 ``exp(a - LSE(a))`` has a sum that is off by 1e-11, which the margins multiply."""
    rng = np.random.default_rng(0)
    margins = 2e5 + rng.exponential(size=50)
    naive = np.exp(-margins - entropies.log_sum_exp(-margins))
    excess = entropies.entropy_excess(-margins)
    assert abs(entropies.softmax_weights(-margins) @ margins - margins.min() - excess) < 1e-9
    assert abs(naive @ margins - margins.min() - excess) > 1e-7


def test_delta_is_largest_at_the_extreme_case():
    rng = np.random.default_rng(1)
    for n in (2, 5, 200):
        bound = entropies.entropy_excess_bound(n)
        assert 0.0 < bound < math.log(n)
        for _ in range(50):
            near = np.append(0.0, 1.0 + bound + 0.1 * rng.standard_normal(n - 1))
            assert entropies.entropy_excess(-near) <= bound + 1e-15
    q = np.array([3.0, 1.0, 2.0])
    bound = entropies.entropy_excess_bound(3, q)  # the lightest row is the one of smallest margin
    assert entropies.entropy_excess([-1.0 - bound, 0.0, -1.0 - bound], q) == pytest.approx(bound, rel=1e-14)


def in_many_digits(A, lam, x, t):
    """Newton's method with 60 digits for LSE(-A x) + (lam/2) q(x), q(x) = <t, x>^2, or ||x||^2 without t."""
    k = A.cols
    form = mpmath.eye(k) if t is None else mpmath.matrix(t.tolist()) * mpmath.matrix(t.tolist()).T
    for _ in range(40):
        m = A * x
        mass = [mpmath.exp(min(m) - v) for v in m]
        p = mpmath.matrix([v / mpmath.fsum(mass) for v in mass])
        D = mpmath.diag(list(p)) - p * p.T
        step = mpmath.lu_solve(A.T * D * A + lam * form, lam * form * x - A.T * p)
        x = x - step
        if mpmath.norm(step) < mpmath.mpf(10) ** -48 * mpmath.norm(x):
            break
    return m, p, x


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("seed", [14, 28])
def test_the_gap_below_1e_12_in_many_digits(name, seed, monkeypatch):
    """The relative gap equals lam Delta / U^2 to 30 digits where it is below 1e-12, in every norm."""
    monkeypatch.setattr(mpmath.mp, "dps", 60)
    Z, norm = path_problem(seed, 5).Z, NORMS[name]
    Z = Z / max(norm.dual(z) for z in Z)
    lam = mpmath.mpf(1e-6 * max_margin_reference(Z).gamma_star ** 2)
    (first,) = path_points(Z, [float(lam)], norm)
    T, t = np.eye(Z.shape[1]), None
    if name != "l2":
        inside = first.w != 0.0 if name == "l1" else abs(first.w) < first.length
        T, t = Face(norm, np.sign(first.w).astype(float), inside).transform
    A = mpmath.matrix((Z @ T).tolist())
    x = mpmath.matrix([mpmath.mpf(str(v)) for v in np.linalg.lstsq(T, first.w.astype(float), rcond=None)[0]])
    for _ in range(11):
        m, p, x = in_many_digits(A, lam, x, t)
        lam /= 10
    lam *= 10
    # On the face ||w|| = <t, x> and A^T p = U t; in l2 both are Euclidean norms.
    u = A.T * p
    R = mpmath.norm(x) if t is None else mpmath.fdot(t.tolist(), list(x))
    U = mpmath.norm(u) if t is None else mpmath.fdot(list(u), list(x)) / R
    delta = mpmath.fsum(q * (v - min(m)) for q, v in zip(p, m, strict=True))
    gap, claimed = (U - min(m) / R) / U, lam * delta / U**2
    assert abs(U / (lam * R) - 1) < mpmath.mpf(10) ** -40
    assert abs(gap - claimed) < mpmath.mpf(10) ** -30
    assert 0 <= gap < mpmath.mpf(10) ** -12
    assert claimed <= lam * entropies.entropy_excess_bound(len(Z)) / mpmath.mpf(float(U)) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("name", NORMS)
def test_path_points_minimise_the_objective(name):
    rng = np.random.default_rng(2)
    problem = path_problem(2, 15)
    lams = [1.0, 1e-2, 1e-4]
    for lam, point in zip(lams, path_points(problem.Z, lams, NORMS[name]), strict=True):
        assert float(point.duality_gap(lam)) < 1e-8  # margins of 1e4, rounded
        value = point.objective(lam)
        for _ in range(20):
            other = point.w + 0.01 * rng.standard_normal(point.w.size) * float(point.length)
            assert PathPoint(point.Z, other, NORMS[name]).objective(lam) >= value - 1e-12
    path = regularization_path(problem.Z, lams, norm=name)
    assert path.R[-1] == pytest.approx(float(point.length), rel=1e-12)


def test_the_path_of_a_degenerate_program_is_solved_too():
    """Dyadic rows with duplicates: w is not unique in l1 and l-infinity, and the duality gap vanishes."""
    problem = path_problem(5, 20)
    Z = np.vstack([problem.Z, problem.Z[:2]])
    for norm in (L1(), Linf()):
        for lam, point in zip([1e-1, 1e-3], path_points(Z, [1e-1, 1e-3], norm), strict=True):
            assert float(point.duality_gap(lam)) < 1e-9


def test_the_path_with_an_intercept():
    data = toy(0.6)
    path = regularization_path(data, [1e-3], fit_intercept=True)
    (point,) = path_points(np.asarray(data.X) * data.y[:, None], [1e-3], groups=data.y)
    np.testing.assert_allclose(path.w[0], point.w.astype(float), rtol=1e-14)
    assert float(point.residual(1e-3)) < 1e-15


def test_identical_rows_have_the_path_of_one_row():
    Z = np.array([[3.0, 4.0], [3.0, 4.0]])
    (point,) = path_points(Z, [0.5])
    np.testing.assert_allclose(point.w.astype(float), [6.0, 8.0], rtol=1e-15)


def test_problems_are_what_their_kinds_say():
    sizes = []
    for seed in range(len(KINDS) * 6):
        problem = path_problem(seed)
        n, d = problem.Z.shape
        sizes.append((n, d))
        assert problem.kind == KINDS[seed % len(KINDS)]
        assert set(problem.signs) == {1.0, -1.0}
        if problem.kind == "fewer rows than columns":
            assert n < d
        if problem.kind == "duplicates":
            assert len(np.unique(problem.Z, axis=0)) < n
        if problem.w_star is None:
            continue
        margins = problem.Z @ problem.w_star
        on_margin = np.sort(np.concatenate([problem.carrying, problem.idle]))
        assert np.array_equal(np.flatnonzero(margins == margins.min()), on_margin)  # exactly
        assert margins.min() == problem.gamma_star
        rank = np.linalg.matrix_rank(problem.Z[problem.carrying])
        assert (problem.idle.size > 0) == (problem.kind in ("zero-weight rows", "uniform weights"))
        assert rank < d or problem.kind == "thin"
    assert min(min(size) for size in sizes) < 6
    assert max(max(size) for size in sizes) > 150
    np.testing.assert_array_equal(path_problem(3).Z, path_problem(3).Z)


def test_the_expansion_in_closed_form():
    """Rows 1, 1, -1 off the margin: v(lam) solves tanh(v - log(2)/2) = -lam v."""
    found = path_expansion(np.array([[1.0], [1.0], [-1.0]]))
    c = 0.5 * math.log(2.0)
    assert float(found.c[0]) == pytest.approx(c, abs=1e-17)
    assert float(found.c_1[0]) == pytest.approx(-c, abs=1e-16)
    assert float(found.c_2[0]) == pytest.approx(c, abs=1e-16)  # the third derivative of log cosh is 0 at 0
    assert float(found.bend[0]) == pytest.approx(0.0, abs=1e-16)
    assert found.curvature == pytest.approx(1.0)
    np.testing.assert_array_equal(drift([[1.0], [-1.0]], [True, True]), [0.0])


def test_a_false_statement_is_seen():
    assert checks.Reading("x", 1.0, 0.5, 0.1).is_violated
    assert checks.Reading("x", math.nan, 0.5, 0.1).is_violated
    assert not checks.Reading("x", 0.55, 0.5, 0.1).is_violated
    assert summarise([checks.Reading("x", 1.0, 0.5, 0.1)])["x"].violations == 1
    problem = path_problem(0, 12)
    (point,) = path_points(problem.Z, [1e-2])
    off = PathPoint(point.Z, point.w * 1.001, point.norm)

    class Wrong(PathPoint):
        delta = property(lambda self: entropies.entropy_excess(-self.margins) * (1.0 + 1e-9))
        dual_weights = property(lambda self: np.full(len(self.margins), 1.0 / len(self.margins)))

    wrong = Wrong(point.Z, point.w)
    assert any(r.is_violated for r in checks.identity_of_the_gap(wrong))
    assert not any(r.is_violated for r in checks.identity_of_the_gap(off))
    # Off the path the residual is the tolerance; with the path's own residual the identity fails there.
    honest = next(r for r in checks.gap_on_the_path(off, 1e-2, 1e-9) if r.statement == "E10")
    strict = next(r for r in checks.gap_on_the_path(point, 1e-2, 1e-9) if r.statement == "E10")
    assert not honest.is_violated
    assert honest._replace(tolerance=strict.tolerance).is_violated
    bound = entropies.entropy_excess_bound(9)
    assert checks.Reading("E8 bound", 1.01 * bound, bound, 1e-9).is_violated


def test_sample_weights_below_one_need_the_smallest_of_them():
    """-D(p || q) may be negative if q_min < 1: the inequality of E11 without log q_min fails there."""
    Z, q = np.array([[1.0], [-0.5]]), np.array([0.01, 0.02])
    point, other = (PathPoint(Z, np.array([w]), sample_weight=q) for w in (-30.0, 0.1))
    readings = {r.statement: r for r in checks.rescaled_gap(point, 1.0, 2.0, other)}
    assert not readings["E11"].is_violated
    plain = 2.0 * point.duality_gap(1.0, other) + other.entropy()
    assert readings["E11"].measured > plain + 1.0


@pytest.mark.slow
def test_limits_on_larger_sets():
    for seed in (10, 24, 31, 38, 45, 52):
        problem = path_problem(seed, 100)
        assert problem.kind == "no span"
        Y = orthogonal_parts(problem.Z[problem.carrying], problem.w_star)
        assert float(np.abs(Y @ problem.w_star).max()) < 1e-17
        found = summarise([*expansion_readings(problem), *one_system_readings(problem)])
        assert sum(part.violations for part in found.values()) == 0
        if found:
            assert found["E14 100-fold"].median == pytest.approx(0.5, abs=0.01)  # lam^2, not lam
