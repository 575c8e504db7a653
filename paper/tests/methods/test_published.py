"""Published methods: steps by hand, the bounds of their papers, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from prgd_paper.methods import MDM, AdaptiveGD, AwayStepFrankWolfe, LargeStepGD, NormalizedPerceptron

import prgd

HULL_METHODS = [NormalizedPerceptron(), AwayStepFrankWolfe(), MDM()]
# Two rows; the shortest point of their segment is (1.2, -0.6), of norm sqrt(1.8), with weights (0.2, 0.8).
TWO = prgd.Problem(np.array([[2.0, 1.0], [1.0, -1.0]]), scale="none")


def separable(seed, n=60, d=3, push=0.2):
    """Return rows z_i of norm at most 1 with a margin, the largest margin, and its direction."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, d))
    Z *= np.sign(Z[:, :1])
    Z[:, 0] += push
    Z /= np.linalg.norm(Z, axis=1).max()
    solved = prgd.max_margin(Z, fit_intercept=False, tol=1e-12)
    return Z, solved.certificate.lower, solved.coef / np.linalg.norm(solved.coef)


@pytest.mark.parametrize("algorithm", [AwayStepFrankWolfe(), MDM()])
def test_two_rows_take_two_steps(algorithm):
    s = algorithm.init(TWO, np.zeros(2))
    assert (s.own_upper, s.own_weights) == (math.inf, None)
    s = algorithm.step(TWO, s)  # along the mean row (1.5, 0) the second row has the smallest margin
    np.testing.assert_array_equal(s.w, [1.0, -1.0])
    s = algorithm.step(TWO, s)
    np.testing.assert_allclose(s.w, [1.2, -0.6], rtol=1e-15)
    np.testing.assert_allclose(s.own_weights.values, [0.2, 0.8], rtol=1e-15)
    assert s.own_upper == pytest.approx(math.sqrt(1.8), rel=1e-15)
    np.testing.assert_allclose(algorithm.step(TWO, s).w, s.w, rtol=1e-15)


def test_the_first_row_is_chosen_along_w0():
    s = MDM().step(TWO, MDM().init(TWO, np.array([-1.0, 0.0])))
    np.testing.assert_array_equal(s.w, [2.0, 1.0])


def test_normalized_perceptron_is_a_mean_of_rows():
    s = NormalizedPerceptron().init(TWO, np.zeros(2))
    for u in ([1.0, -1.0], [1.5, 0.0], [4 / 3, -1 / 3]):  # rows 2, 1, 2
        s = NormalizedPerceptron().step(TWO, s)
        np.testing.assert_allclose(s.w, u, rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(s.p, [1 / 3, 2 / 3], rtol=1e-15)


def test_a_step_towards_a_row_may_take_all_weight():
    problem = prgd.Problem(np.array([[3.0], [2.0], [1.0]]), scale="none")
    for algorithm in (AwayStepFrankWolfe(), MDM()):
        s = algorithm.step(problem, algorithm.init(problem, np.array([-1.0])))
        assert s.indices.tolist() == [0]
        s = algorithm.step(problem, s)
        assert (s.indices.tolist(), s.p.tolist(), s.w.tolist()) == ([2], [1.0], [1.0])


def test_an_away_step_drops_a_row():
    A, B, C = np.array([[1.0, 2.0], [1.0, -2.0], [0.2, 1.2]])
    problem = prgd.Problem(np.array([A, B, C]), scale="none")
    states = [AwayStepFrankWolfe().init(problem, np.array([0.0, -1.0]))]
    for _ in range(7):
        states.append(AwayStepFrankWolfe().step(problem, states[-1]))
    supports = [s.indices.tolist() for s in states]
    assert supports == [[], [0], [0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2], [1, 2], [1, 2]]
    np.testing.assert_allclose(states[3].w, [9 / 13, 6 / 13], rtol=1e-14)  # (1, 0) + 5/13 (C - (1, 0))
    assert states[4].p[0] < states[3].p[0]  # a step away from A
    share = B @ (B - C) / ((B - C) @ (B - C))
    np.testing.assert_allclose(states[7].w, B + share * (C - B), rtol=1e-13)


def test_two_hulls_meet_at_the_nearest_points():
    # the classes lie above and below; the nearest points are (0, 1) and (0, -1), each between two rows
    X = np.array([[1.0, 1.0], [-2.0, 1.0], [0.0, 3.0], [2.0, -1.0], [-1.0, -1.0], [0.5, -4.0]])
    problem = prgd.Problem(X, [1, 1, 1, -1, -1, -1], fit_intercept=True)
    for algorithm in (AwayStepFrankWolfe(), MDM()):
        result = prgd.run(problem, algorithm, stop=prgd.any_of(prgd.Gap(1e-12), 500))
        assert result.status is prgd.Status.CERTIFIED
        np.testing.assert_allclose(result.coef, [0.0, 1.0], atol=1e-10)
        assert result.intercept == pytest.approx(0.0, abs=1e-10)
        p = result.certificate.dual_weights.dense(6)
        assert p[:3].sum() == pytest.approx(0.5) == p[3:].sum()


@pytest.mark.parametrize("algorithm", HULL_METHODS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_weights_witness_the_bound(algorithm, fit_intercept, tmp_path):
    X, y = prgd.datasets.digits(0, 1, 60)
    problem = prgd.Problem(X, y, fit_intercept=fit_intercept)
    result = prgd.run(problem, algorithm, stop=40)
    assert result.check(X, y).is_valid
    result.save(tmp_path / "result.npz")
    assert prgd.Result.load(tmp_path / "result.npz").check(X, y).is_valid
    # in exact arithmetic: the square of the bound is at least that of the sum of the weighed rows
    p = [Fraction(value) for value in result.dual_weights.tolist()]
    Z = [[Fraction(v) for v in row] for row in problem.take(result.support).tolist()]
    signs = problem.labels.at(result.support) if fit_intercept else np.ones(len(p))
    total = {sign: sum(v for v, mine in zip(p, signs, strict=True) if mine == sign) for sign in set(signs)}
    p = [v / (total[sign] * len(total)) for v, sign in zip(p, signs, strict=True)]
    square = sum(sum(v * row[j] for v, row in zip(p, Z, strict=True)) ** 2 for j in range(problem.d))
    assert square <= Fraction(result.upper_bound) ** 2 <= square * (1 + Fraction(1, 10**13))


@pytest.mark.parametrize("algorithm", [AwayStepFrankWolfe(), MDM()])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weights_prove_that_nothing_separates(algorithm, fit_intercept):
    X = np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0], [0.1, 0.1]])
    problem = prgd.Problem(X, [1, 1, 1, -1], fit_intercept=fit_intercept)
    result = prgd.run(problem, algorithm, stop=100)
    assert result.status is prgd.Status.NOT_SEPARABLE
    assert result.upper_bound == 0.0


@pytest.mark.parametrize("algorithm", HULL_METHODS)
def test_rows_of_weight_zero_do_not_enter(algorithm):
    Z = np.array([[2.0, 1.0], [1.0, -1.0], [-1.0, 0.0]])
    result = prgd.run(prgd.Problem(Z, sample_weight=[1.0, 1.0, 0.0]), algorithm, stop=30)
    assert result.support.tolist() == [0, 1]
    assert result.upper_bound >= math.sqrt(1.8)


@pytest.mark.parametrize("algorithm", HULL_METHODS)
def test_hull_methods_are_for_two_classes_and_the_euclidean_norm(algorithm):
    joint = prgd.Problem(np.array([[2.0, 1.0], [1.0, -1.0], [0.0, 3.0]]), [0, 1, 2])
    with pytest.raises(ValueError, match=r"is for two classes.*with w of shape \(3, 2\)"):
        prgd.run(joint, algorithm, stop=3)
    with pytest.raises(ValueError, match=r"needs a problem with norm='l2'.*got norm='l1'"):
        prgd.run(prgd.Problem(np.array([[2.0, 1.0]]), norm="l1"), algorithm, stop=3)


@pytest.mark.parametrize("algorithm", [AdaptiveGD(), LargeStepGD()])
def test_gradient_methods_separate_three_classes(algorithm):
    X = np.array([[1.0, 0.0], [1.0, 0.2], [-1.0, 1.0], [-1.0, 0.8], [-0.2, -1.0], [0.0, -1.0]])
    problem = prgd.Problem(X, [0, 0, 1, 1, 2, 2], loss="logistic")
    result = prgd.run(problem, algorithm, stop=200)
    assert result.w.shape == (3, 2)
    assert result.certificate.lower > 0.0


def test_large_steps_need_the_logistic_loss():
    with pytest.raises(ValueError, match=r"needs loss='logistic'.*got loss='exponential'"):
        prgd.run(TWO, LargeStepGD(), stop=3)


@pytest.mark.parametrize("seed", range(5))
def test_normalized_perceptron_keeps_its_bound(seed):
    Z, gamma_star, w_star = separable(seed)
    problem = prgd.Problem(Z, scale="none")

    def observe(state, record, certificate):
        if state.t:
            distance = np.linalg.norm(state.w - gamma_star * w_star)
            assert distance**2 <= (1.0 - gamma_star**2) / state.t * (1 + 1e-9)
            assert state.own_upper - state.at.gamma <= 2.0 / (gamma_star * math.sqrt(state.t))

    prgd.run(problem, NormalizedPerceptron(), stop=300, observe=observe)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("eta", [2.0, 10.0, 1000.0])
def test_adaptive_gd_separates_soon_after_one_over_gamma_squared(loss, eta, seed):
    Z, gamma_star, _ = separable(seed)
    problem, log_G, margins = prgd.Problem(Z, loss=loss, scale="none"), [], []

    def observe(state, record, certificate):
        terms = problem.loss.log_slope(Z @ state.w)
        log_G.append(float(np.logaddexp.reduce(terms)) - math.log(len(Z)))
        margins.append(state.at.smallest_margin)

    t = math.ceil((1.0 + 2.0 * math.log(2 * len(Z)) / eta) / gamma_star**2) + 1
    prgd.run(problem, AdaptiveGD(eta), stop=t, observe=observe)
    means = np.cumsum(log_G)[:-1] / np.arange(1, t + 1)
    bound = -0.5 * eta * (gamma_star**2 * np.arange(1, t + 1) - 1.0)
    assert (means <= bound + 1e-9 * eta).all()
    assert max(margins[:t]) > 0.0  # so some iterate before t separates


@pytest.mark.parametrize("eta", [16.0, 64.0, 1024.0])
def test_large_steps_oscillate_and_then_fall(eta):
    gamma_star = 0.1
    problem = prgd.Problem(*prgd.datasets.toy(gamma_star), loss="logistic")
    assert problem.max_norm == pytest.approx(1.0)
    log_loss = prgd.run(problem, LargeStepGD(eta), stop=2000).history["log_loss"]
    rises = np.flatnonzero(np.diff(log_loss) > 0.0)
    assert rises.size >= 10
    assert rises[-1] <= 40  # the phase of oscillation is O(eta / gamma_star^2) at most
    t = np.arange(math.ceil(1.0 / (gamma_star**2 * eta)) + 1, 2001)
    means = (np.cumsum(np.exp(log_loss)) / np.arange(1, log_loss.size + 1))[t - 1]
    c = gamma_star**2 * eta * t
    assert (means <= (1.0 + 0.5 * (np.log(c) + 0.5 * eta) ** 2) / c).all()


def test_small_steps_fall_at_once():
    problem = prgd.Problem(*prgd.datasets.toy(0.1), loss="logistic")
    log_loss = prgd.run(problem, LargeStepGD(7.9), stop=300).history["log_loss"]  # below 2 / (1/4)
    assert (np.diff(log_loss) < 0.0).all()
