"""A counter-example or a check for each entry of docs/errata.md that numbers can decide, and the page."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from prgd_paper.theory.claims.toy import shrinking_factor
from prgd_paper.theory.orthogonal_dynamics import gd_limit, orthogonal
from prgd_paper.theory.ray_geometry import geometry, inradius, margin_errors
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.support import max_margin_reference
from prgd_paper.theory.theorem import theorem_run
from prgd_paper.theory.velocity import direction_error

import prgd
from prgd import datasets

# Algorithm 1 with the radius of Appendix A.1, which lifts w to the line w_2 = 1.
LIFTED = prgd.PRGD(prgd.schedules.LiftTo(1.0, np.array([1.0, 0.0])), prgd.schedules.Every(2))


def problem_of(data):
    return prgd.Problem(data.X, data.y, scale="none")


def test_dataset_1_needs_gamma_star_below_1():
    """Erratum 3. At gamma_star = 1 the three z_i coincide, and one step of NGD is exact."""
    w = prgd.run(prgd.Problem([[1.0, 0.0]] * 3), prgd.NGD(), stop=1).w
    assert direction_error(w, [1.0, 0.0]) == 0.0


def test_the_path_has_positive_w_1():
    """Erratum 14. L(-w_1, w_2) > L(w_1, w_2) for w_1 > 0: the minimiser on a circle has w_1 > 0."""
    problem = problem_of(datasets.toy(0.3))
    angle = np.linspace(0.0, 2.0 * math.pi, 10_000, endpoint=False)
    for R in (0.5, 5.0, 50.0):
        losses = [problem.at(R * np.array([math.cos(a), math.sin(a)])).log_loss for a in angle]
        best = angle[int(np.argmin(losses))]
        assert min(math.cos(best), math.sin(best)) > 0.0
    assert problem.at(np.array([-1.0, 1.0])).log_loss > problem.at(np.array([1.0, 1.0])).log_loss


@pytest.mark.parametrize(("gamma_star", "inside"), [(0.69, True), (0.70, False), (0.9, False)])
def test_x_1_leaves_its_interval(gamma_star, inside):
    """Erratum 15. x(1) = -log 2 + 2 (1 - gamma^2) / 3 is in [-log 2 / 2, log 2 / 2] up to 0.6929 only."""
    s = math.sqrt(1.0 - gamma_star**2)
    w = prgd.run(problem_of(datasets.toy(gamma_star)), prgd.NGD(), stop=1).w
    x_1 = 2.0 * s * w[1] - math.log(2.0)
    assert x_1 == pytest.approx(-math.log(2.0) + 2.0 * s**2 / 3.0)
    assert bool(abs(x_1) <= 0.5 * math.log(2.0)) is inside


def test_the_printed_radius_stalls_above_0_938():
    """Erratum 16.

    At gamma_star = 0.97, q > 1 and w_1(2k+2) converges to gamma / (q - 1): no exponential rate.
    """
    q = shrinking_factor(0.97)
    assert q > 1.0
    problem = problem_of(datasets.toy(0.97))
    w = prgd.run(problem, LIFTED, prgd.run(problem, prgd.NGD(), stop=1).w, stop=2001).w
    assert w[1] == pytest.approx(1.0)
    assert w[0] == pytest.approx(0.97 / (q - 1.0), rel=1e-6)


def test_the_projection_acts_in_the_proof_for_prgd():
    """A typo of Appendix A.1.

    After the projection w_2(2k+3) is below q and w_1(2k+3) below w_1(2k+2) + gamma; v has them.
    """
    problem = problem_of(datasets.toy(0.3))
    w0 = prgd.run(problem, prgd.NGD(), stop=1).w
    before = prgd.run(problem, LIFTED, w0, stop=5)
    after = prgd.run(problem, LIFTED, resume=before, stop=6).w
    v = before.w - problem.at(before.w).normalized_gradient
    q = shrinking_factor(0.3)
    assert v[1] == pytest.approx(q)
    assert v[0] == pytest.approx(before.w[0] + 0.3)
    assert after[1] < q * (1.0 - 1e-3)
    assert after[0] < before.w[0] + 0.3 - 1e-3
    assert after[1] / after[0] == pytest.approx(v[1] / v[0])


def test_theorem_c7_has_no_solution_for_other_dual_weights():
    """Erratum 31.

    On Dataset 1 alpha is not unique, but z_1 = z_3 forces alpha_1 = alpha_3 on the solution.
    """
    data = datasets.toy(0.3)
    Z = data.X * data.y[:, None]
    for alpha in ([0.25, 0.5, 0.25], [0.1, 0.5, 0.4]):
        np.testing.assert_allclose(Z.T @ alpha, 0.3 * data.w_star, atol=1e-16)
    weights = np.exp(-(Z @ gd_limit(data).w_tilde))
    np.testing.assert_allclose(weights / weights.sum(), [0.25, 0.5, 0.25], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.no_cover  # The other tests of limits run the same lines.
def test_the_part_of_gd_s_limit_along_w_star():
    """Erratum 30.

    <w~, w_star> = log(eta gamma_star^2 N L_perp(v_star) / n) / gamma_star, seen on a run of GD.
    """
    data = datasets.toy(0.3)
    expected = math.log(0.09 * 2.0 * math.sqrt(2.0) / 3.0) / 0.3
    assert gd_limit(data).along == pytest.approx(expected)
    w = prgd.run(problem_of(data), prgd.GD(), stop=20_000, record=20_000).w
    assert w[0] - math.log(20_000) / 0.3 == pytest.approx(expected, abs=0.01)


def test_sign_of_the_orthogonal_step():
    """Erratum 27. The step adds eta P_perp(sum p_i z_i), and grad L_perp(0) = -mean of P_perp(z_i)."""
    data = datasets.toy(0.3)
    problem, found = problem_of(data), orthogonal(data)
    w, Z = np.array([4.0, 0.1]), data.X * data.y[:, None]
    after = prgd.run(problem, prgd.NGD(), w, stop=1).w
    np.testing.assert_allclose(after - w, problem.dual_weights(w) @ Z, rtol=1e-12)
    np.testing.assert_allclose(found.gradient(np.zeros(2)), -Z.mean(axis=0) * [0.0, 1.0], atol=1e-15)


def test_ngd_follows_the_gradient_of_log_l_perp():
    """An improvement.

    Far out P_perp(grad L / L) is grad L_perp / L_perp, and grad L_perp only where L_perp = 1.
    """
    data = random_nondegenerate(46)
    problem, found = problem_of(data), orthogonal(data)
    v = 8.0 * found.v_star
    gradient = problem.at(1e4 * data.w_star + v).normalized_gradient
    off = gradient - (gradient @ data.w_star) * data.w_star
    expected = found.gradient(v)
    np.testing.assert_allclose(off, expected / found.loss(v), atol=1e-10)
    assert np.linalg.norm(off - expected) > 0.1 * np.linalg.norm(expected)


def test_third_inequality_of_lemma_d3():
    """Erratum 32.

    On L_perp near v_star the gap is below (mu / 2) ||v - v_star||, and above half mu its square.
    """
    found = orthogonal(datasets.toy(0.3))
    # the curvature of L_perp = L_perp * s^2 tells mu on a small ball
    mu = 0.9 * found.curvature[0] * math.exp(found.log_loss_star)
    v = found.v_star + np.array([0.0, 0.1])
    gap = found.loss(v) - found.loss(found.v_star)
    assert 0.5 * mu * 0.1**2 < gap < 0.5 * mu * 0.1


def test_end_of_step_iii_needs_the_square():
    """Erratum 28. On the ball of radius eps_0 the gap of L_perp is at least mu eps_0^2 / 2, not mu eps_0 / 4.

    v_star is small on this set. The largest eps_0 of the proof is eps_1 = ||grad L_perp(0)|| / (8 L).
    """
    s = math.sqrt(0.91)
    found = orthogonal([[0.3, s]] * 51 + [[0.3, -s]] * 50)
    size = float(np.linalg.norm(found.v_star))
    # L_perp'' = s^2 L_perp: smallest at v_star, and on the ball of radius 2 ||v_star|| largest at an end
    mu = s**2 * found.loss(found.v_star)
    L = s**2 * max(found.loss(2.0 * found.v_star), found.loss(-2.0 * found.v_star))
    eps_0 = min(0.5 * size, float(np.linalg.norm(found.gradient(np.zeros(2)))) / (8.0 * L))
    ball = np.linspace(-eps_0, eps_0, 101)
    gap = min(found.loss(np.array([0.0, v])) - found.loss(found.v_star) for v in ball)
    assert 0.5 * mu * eps_0**2 <= gap < 0.25 * mu * eps_0


@pytest.mark.parametrize("seed", range(30))
def test_margin_error_is_linear_in_the_angle(seed):
    """Erratum 2. gamma_star - gamma(w) >= rho sin(angle) + gamma_star (1 - cos(angle)), rho the inradius."""
    g = geometry(random_nondegenerate(seed))
    rng = np.random.default_rng(seed)
    rho = inradius(g)
    v = rng.standard_normal((500, g.basis.shape[1]))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    angle = np.geomspace(1e-8, 1.5, 500)
    W = np.cos(angle)[:, None] * g.reference.w_star + np.sin(angle)[:, None] * (v @ g.basis.T)
    bound = rho.value * np.sin(angle) + g.reference.gamma_star * 2.0 * np.sin(0.5 * angle) ** 2
    # near the ray the rounding of w_star itself shows: 1e-13 absolute
    assert (margin_errors(g, W) >= bound * (1.0 - 1e-9) - 1e-13).all()


@pytest.mark.slow
def test_ngd_is_exponential_on_dataset_1_of_the_experiments():
    """Erratum 10.

    On Synthetic I the mean of the support vectors is gamma_star w_star: w_2 falls like e^-ct.
    """
    data = datasets.synthetic_one(0)
    g = geometry(data)
    problem = prgd.Problem(data.X, data.y, scale="none", n_jobs=1)
    early = prgd.run(problem, prgd.NGD(), stop=20_000, record=20_000)
    late = prgd.run(problem, prgd.NGD(), resume=early, stop=30_000, record=20_000)
    rate = math.log(abs(early.w[1] / late.w[1])) / 10_000
    assert rate == pytest.approx(g.reference.gamma_star * g.delta, rel=1e-3)


@pytest.mark.parametrize("seed", range(10))
def test_lower_bound_of_lemma_c2_far_from_w_star_and_without_assumption_5_4(seed):
    """An improvement. For every w and every separable set: gamma(w) <= gamma_star cos(angle)."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((20, 30))
    reference = max_margin_reference(Z)
    for w in rng.standard_normal((200, 30)):
        cosine = float(w @ reference.w_star) / float(np.linalg.norm(w))
        assert (Z @ w).min() / np.linalg.norm(w) <= reference.gamma_star * cosine + 1e-12


def test_printed_bound_in_lemma_c3():
    """Erratum 29.

    On the ray the printed bound is below the true ratio of the sums; the second line is above it.
    """
    rows = np.array([[0.3, 0.5], [0.3, -0.4], [0.5, 0.0]])
    difference = geometry(rows).delta
    delta, h = 0.1, 20.0
    p = prgd.Problem(rows, scale="none").dual_weights(np.array([h, 0.0]))
    ratio = p[2] / (p[0] + p[1])
    shrink = (1.0 - 0.5 * delta**2) * difference
    assert 0.5 * math.exp(-h * (shrink + math.sqrt(2.0) * delta)) < 0.1 * ratio
    assert 0.5 * math.exp(-h * (shrink - math.sqrt(2.0) * delta)) >= ratio
    assert 0.5 * math.exp(-h * difference + 2.0 * delta) >= ratio


def test_the_step_along_w_star_is_mu_D_not_1():
    """Erratum 22. <v(2k+2) - w(2k+1), w_star> is in [mu gamma_star D, mu D]; here it is below gamma_star."""
    found = theorem_run(datasets.toy(0.3), "numerical", max_phases=20)
    step = found.constants.mu * found.constants.D
    assert step < 1.0
    for phase in found.phases:
        moved = phase.along_after - phase.along
        assert 0.3 * step * (1.0 - 1e-6) <= moved <= step
        assert moved < 0.3


def test_gradient_steps_leave_the_hollow_cylinder():
    """Erratum 5. w(2k+1) is at distance D from the ray, and the gradient step ends nearer to it."""
    found = theorem_run(random_nondegenerate(11), max_phases=50)
    assert all(phase.off == pytest.approx(found.constants.D) for phase in found.phases)
    assert all(phase.off_after < found.constants.D * (1.0 - 1e-3) for phase in found.phases)


def test_a_longer_error_can_be_rescaled_too():
    """Erratum 7.

    D = 1, H = 10, tan(angle) = 0.15: the error is above D / 2H, and 2 D from the ray w is high.
    """
    w = np.array([1.0, 0.15])
    assert direction_error(w, [1.0, 0.0]) == pytest.approx(0.149, abs=1e-3)
    assert (2.0 / w[1] * w)[0] == pytest.approx(13.33, abs=1e-2)


@pytest.mark.parametrize("algorithm", [prgd.GD(), prgd.NGD()])
def test_a_lower_bound_on_one_set(algorithm):
    """Erratum 9. On the rows of Theorem 10 of Ji and Telgarsky w ends log n - log 2 or more off the ray."""
    problem = prgd.Problem([[0.1, 0.0], *[[0.2, 0.2]] * 99], scale="none")
    assert prgd.run(problem, algorithm, stop=1000).w[1] >= math.log(100.0) - math.log(2.0)


def test_the_schedule_of_vgg_16():
    """Erratum 13. T_1 of Appendix E.2 is no integer, and R_0 is rescaled at once."""
    time, radius = 3000 * (2 + 1 / 3000) ** 3, 2**0.2
    assert (time, radius) == pytest.approx((24012.002, 1.149), abs=1e-3)


@pytest.mark.parametrize("R_0", [0.5, 3.0])
def test_schedules_read_k_plus_1(R_0):
    """Erratum 12.

    With k as printed the first radius and the first phase are 0; with k + 1 they are R_0 and T_0.
    """
    assert prgd.schedules.Polynomial(1.2)(0, R_0) == R_0
    assert prgd.schedules.Polynomial(1.2)(1, R_0) == pytest.approx(R_0 * 2.0**1.2)
    assert prgd.schedules.PolynomialPhases(5, 0.6)(1) == 5
    with pytest.raises(ValueError, match="radius"):
        prgd.schedules.ExplicitRadii((R_0 * 0.0**1.2,))


@pytest.mark.slow
def test_rank_of_digit_01_by_the_paper_s_procedure():
    """Erratum 11.

    Support vectors read off 20,000 steps of NGD on all 360 rows have rank 2; the exact ones 16.
    """
    data = datasets.digits(0, 1)
    Z = data.X * data.y[:, None]
    margins = Z @ prgd.run(prgd.Problem(data.X, data.y), prgd.NGD(), stop=20_000, record=20_000).w
    for share in (1e-4, 1e-3):
        assert np.linalg.matrix_rank(Z[margins <= (1.0 + share) * margins.min()]) == 2
    assert np.linalg.matrix_rank(Z) == 51


@pytest.mark.parametrize("method", [prgd.algorithms.MDM(), prgd.algorithms.AwayStepFrankWolfe()])
def test_mdm_and_away_steps_converge_linearly(method):
    """Erratum 1.

    A factor of 100 takes as many steps as the last one; the error of w of NGD halves as t doubles.
    """
    data = datasets.digits(0, 1, 60)
    problem = prgd.Problem(data.X, data.y, fit_intercept=True)
    gaps = prgd.run(problem, method, stop=prgd.any_of(prgd.Gap(1e-9), 400)).history["gap"]
    steps = np.diff([int(np.argmax(gaps <= tol)) for tol in (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)])
    assert gaps[-1] <= 1e-9
    assert steps.max() <= 2.5 * steps.min()
    history = prgd.run(problem, prgd.NGD(), stop=2 * len(gaps)).history  # as many passes
    ngd = 1.0 - history["margin"] / history["upper_bound"]
    assert ngd[-1] >= 1e-2
    assert ngd[len(gaps)] / ngd[-1] == pytest.approx(2.0, rel=0.3)


# --- the page itself

PAGE = (Path(__file__).parents[3] / "docs" / "errata.md").read_text()


def test_every_entry_is_tested_and_stands_in_the_order_of_the_paper():
    entries = re.findall(r"^\*\*(\d+)\. (.*?)(?=\n\n)", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in entries] == list(range(1, 33))
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    untested = {number for number, _ in entries if f"Erratum {number}." not in tests}
    assert untested == {number for number, text in entries if "No test." in text}
    # The opening: ten rows, of entries that follow each other up to pairs that share a row.
    rows = re.findall(r"^\| (\d[\d, ]*) \|(?: [^|]+ \|){4}$", PAGE, flags=re.MULTILINE)
    firsts = [int(row.split(",")[0]) for row in rows]
    assert len(rows) == 10
    assert firsts == sorted(firsts)
