"""Steepest descent, PRGD in other norms, Adam and mirror descent: steps by hand, limits, what is refused."""

import grid
import mpmath
import numpy as np
import pytest
from prgd_paper.methods import Adam, AdaptiveGD, GameDynamics, GatedPRGD, MirrorDescent

import prgd
from prgd.algorithms import DualAcceleration, ProgressiveNewton, SteepestDescent
from prgd.core.checks import digest
from prgd.norms import Linf
from prgd.schedules import Every, Geometric

# One row z = (2, -1): -grad L / L = (2, -1) everywhere; its dual norms are 3 (linf), 2 (l1) and sqrt 5 (l2).
ROW = np.array([[2.0, -1.0]])
TOY = prgd.datasets.synthetic_one(0)


def steps(algorithm, count=1, *, norm="l2", w0=(0.0, 0.0), scale="none"):
    problem = prgd.Problem(ROW, norm=norm, scale=scale)
    s = algorithm.init(problem, np.array(w0))
    for _ in range(count):
        s = algorithm.step(problem, s)
    return s.w


@pytest.mark.parametrize(("norm", "step"), [("linf", [3.0, -3.0]), ("l1", [2.0, 0.0]), ("l2", [2.0, -1.0])])
def test_a_loss_scaled_step_is_the_dual_norm_times_the_steepest_direction(norm, step):
    step = np.array(step)
    np.testing.assert_allclose(steps(SteepestDescent(0.5), norm=norm), 0.5 * step)
    np.testing.assert_allclose(steps(SteepestDescent(0.5, norm=norm)), 0.5 * step)  # on a problem in l2
    # scale="max": the step is eta / max_i ||z_i||_*^2
    dual = prgd.norms.as_norm(norm).dual(ROW[0])
    np.testing.assert_allclose(steps(SteepestDescent(norm=norm), scale="max"), step / dual**2)


def test_steps_fall_with_their_power():
    direction = np.array([1.0, -1.0])
    np.testing.assert_allclose(steps(SteepestDescent(normalized=True), 3, norm="linf"), 3.0 * direction)
    total = 1.0 + 2.0**-0.5 + 3.0**-0.5
    found = steps(SteepestDescent(normalized=True, power=0.5), 3, norm="linf")
    np.testing.assert_allclose(found, total * direction)
    np.testing.assert_allclose(steps(SteepestDescent(power=0.5), 3, norm="linf"), 3.0 * total * direction)


@pytest.mark.parametrize(
    ("euclidean", "steepest"),
    [
        (prgd.NGD(0.7), SteepestDescent(0.7)),
        (prgd.NGD(0.7), SteepestDescent(0.7, norm="l2")),
        (prgd.PRGD(), prgd.PRGD(norm="l2")),
    ],
)
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_in_l2_all_bits_are_those_of_ngd_and_prgd(euclidean, steepest, loss):
    problem = prgd.Problem(TOY.X, TOY.y, loss=loss)
    a, b = (prgd.run(problem, algorithm, [0.5, 0.1], stop=50).w for algorithm in (euclidean, steepest))
    assert a.tobytes() == b.tobytes()


def test_prgd_in_another_norm_rescales_and_projects_there():
    algorithm = prgd.PRGD(Geometric(2.0), Every(3), norm="linf")
    problem = prgd.Problem(ROW, scale="none")
    s = algorithm.init(problem, np.array([1.0, 4.0]))
    assert s.R_0 == 4.0
    s = algorithm.step(problem, s)
    np.testing.assert_allclose(s.w, [1.0, 4.0])
    s = algorithm.step(problem, s)  # v = (1, 4) + 3 (1, -1), inside the ball of radius 4
    np.testing.assert_allclose(s.w, [4.0, 1.0])
    s = algorithm.step(problem, s)  # v = (7, -2), projected to radius 4
    np.testing.assert_allclose(s.w, [4.0, -8.0 / 7.0])
    s = algorithm.step(problem, s)  # R_1 = 8
    np.testing.assert_allclose(s.w, [8.0, -16.0 / 7.0])
    assert s.R_k == 8.0


def exact_adam(Z, algorithm, count):
    """Adam by its formulas, in numbers of any size."""
    d = Z.shape[1]
    w, m, v = ([mpmath.mpf(0)] * d for _ in range(3))
    for t in range(count):
        values = [mpmath.exp(-sum(a * b for a, b in zip(row, w, strict=True))) for row in Z.tolist()]
        g = [-mpmath.fsum(c * row[j] for c, row in zip(values, Z.tolist(), strict=True)) for j in range(d)]
        m = [algorithm.beta1 * a + (1 - algorithm.beta1) * b for a, b in zip(m, g, strict=True)]
        v = [algorithm.beta2 * a + (1 - algorithm.beta2) * b**2 for a, b in zip(v, g, strict=True)]
        eta = algorithm.eta * mpmath.mpf(t + 1) ** -algorithm.power
        w = [a - eta * b / mpmath.sqrt(c) for a, b, c in zip(w, m, v, strict=True)]
    return np.array([float(a) for a in w])


@pytest.mark.parametrize("eta", [0.3, 3000.0])
def test_adam_follows_its_formula_where_the_loss_underflows_too(eta):
    Z, algorithm = np.array([[1.0, 0.2], [3.0, -1.0], [0.5, 0.1]]), Adam(eta)
    problem = prgd.Problem(Z, scale="none")
    result = prgd.run(problem, algorithm, stop=40)
    np.testing.assert_allclose(result.w, exact_adam(Z, algorithm, 40), rtol=1e-9)
    assert (result.history["log_loss"][-1] < -1000.0) == (eta == 3000.0)
    assert result.state["r"].max() == 1.0


def test_adam_without_a_past_is_sign_descent():
    found = steps(Adam(0.5, beta1=0.0, beta2=0.0), 3)
    np.testing.assert_allclose(found, steps(SteepestDescent(0.5, norm="linf", normalized=True, power=0.5), 3))


def test_a_column_of_zeros_stays_under_adam():
    result = prgd.run(prgd.Problem(np.array([[2.0, 0.0]])), Adam(), stop=5)
    assert result.w[0] > 0.0
    assert result.w[1] == 0.0


@pytest.mark.parametrize("loss_scaled", [False, True])
def test_a_step_of_mirror_descent(loss_scaled):
    loss = 1.0 if loss_scaled else np.exp(-2.0 * 0.5 + 0.2)
    found = steps(MirrorDescent(0.5, p=3.0, loss_scaled=loss_scaled), w0=[0.5, 0.2])
    theta = np.array([0.25 + 0.5 * loss * 2.0, 0.04 - 0.5 * loss])
    np.testing.assert_allclose(found, np.sign(theta) * np.sqrt(np.abs(theta)), rtol=1e-14)


def test_gradients_beyond_the_floating_range_end_a_run_of_mirror_descent():
    result = prgd.run(prgd.Problem(TOY.X, TOY.y), MirrorDescent(), [-1e200, 0.0], stop=5)
    assert result.status is prgd.Status.DIVERGED


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SteepestDescent(power=1.5), "power must be a number from 0 to 1; got 1.5"),
        (lambda: SteepestDescent(power=True), "power must be a number"),
        (lambda: SteepestDescent(norm="lq"), "Unknown norm 'lq'"),
        (lambda: prgd.PRGD(norm=0.5), "at least 1"),
        (lambda: Adam(beta2=1.0), "beta1 <= beta2 < 1"),
        (lambda: Adam(beta1=0.9, beta2=0.5), "beta1 <= beta2 < 1"),
        (lambda: Adam(beta1=-0.1), "beta1 must be a number from 0 to 1"),
        (lambda: MirrorDescent(p=1.0), "p must be a finite number above 1"),
        (lambda: ProgressiveNewton(rho=1.0), "rho must be a finite number above 1"),
        (lambda: ProgressiveNewton(tol=0.0), "tol must be a finite number above 0"),
        (lambda: GatedPRGD(growth=1.0), "growth must be a finite number above 1"),
        (lambda: GatedPRGD(fraction=-1.0), "fraction must be a finite number above 0"),
    ],
)
def test_values_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.no_cover  # The other tests of norms run the same lines.
@pytest.mark.parametrize("norm", ["l1", "lp:3", "linf"])
@pytest.mark.parametrize(
    "algorithm",
    [prgd.GD(), prgd.NGD(), prgd.algorithms.LossScaledGD(), DualAcceleration(), GameDynamics(), AdaptiveGD()],
)
def test_euclidean_methods_are_certified_in_the_norm_of_the_problem(algorithm, norm):
    problem = prgd.Problem(TOY.X, TOY.y, norm=norm)
    result = prgd.run(problem, algorithm, stop=100)
    assert result.w.tobytes() == prgd.run(prgd.Problem(TOY.X, TOY.y), algorithm, stop=100).w.tobytes()
    gamma_star = grid.gamma_star(TOY, grid.Entry(None, norm=norm))
    assert result.certificate.lower <= gamma_star * (1 + 1e-12)
    assert result.certificate.upper >= gamma_star * (1 - 1e-12)


@pytest.mark.parametrize("norm", ["l2", "linf", "spectral"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_bound_of_the_game_holds_for_joint_problems(norm, fit_intercept):
    pytest.importorskip("clarabel")
    X, y = grid.three_classes()
    options = {"fit_intercept": fit_intercept, "multi_class": "joint", "norm": norm}
    exact = prgd.max_margin(X, y, **options).certificate
    result = prgd.run(prgd.Problem(X, y, **options), GameDynamics(), stop=200)
    assert result.certificate.lower <= exact.upper
    assert exact.lower <= result.certificate.upper < 1.5 * exact.upper


EUCLIDEAN = [ProgressiveNewton()]
OTHER_NORM = prgd.Problem(TOY.X, TOY.y, norm="linf")
LOGISTIC = prgd.Problem(TOY.X, TOY.y, loss="logistic")
JOINT = prgd.Problem(*grid.three_classes())


@pytest.mark.parametrize(
    ("problem", "algorithms", "words"),
    [
        (OTHER_NORM, [GatedPRGD(), *EUCLIDEAN], r"a problem with norm='l2'.*got norm='linf'. Use PRGD"),
        (LOGISTIC, EUCLIDEAN, r"needs loss='exponential'.*got loss='logistic'"),
        (JOINT, EUCLIDEAN, r"is for two classes .* \(3, 5\)\. Use PRGD"),
        (LOGISTIC, [SteepestDescent(norm="spectral"), prgd.PRGD(norm="nuclear")], r"(spectral|nuclear)"),
    ],
)
def test_problems_that_a_method_refuses(problem, algorithms, words):
    for algorithm in algorithms:
        with pytest.raises(ValueError, match=words):
            prgd.run(problem, algorithm, np.full(problem.shape, 0.5), stop=1)


def test_a_norm_that_is_not_given_is_not_shown():
    assert repr(SteepestDescent()) == "SteepestDescent(eta=1.0, normalized=False, power=0.0)"
    assert repr(SteepestDescent(norm="l1")).startswith("SteepestDescent(eta=1.0, norm=L1(), ")
    assert repr(prgd.PRGD(norm="linf")).endswith("eta=1.0, norm=Linf())")
    assert digest(prgd.PRGD(norm=Linf())) == digest(prgd.PRGD(norm=np.inf)) != digest(prgd.PRGD())
