"""Progressive-rescaling Newton and gated PRGD: steps by hand, phases, counts and what is refused."""

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from prgd_paper.theory.sampled_runs import states

import prgd
from prgd.algorithms import GatedPRGD, ProgressiveNewton
from prgd.algorithms.base import SOFT_ENOUGH
from prgd.rows import MarginsAt
from prgd.solvers import active_rows
from prgd.solvers.active_rows import ActiveRows

# rows (1, 0) and (0, 1): at w = 0, p = (1/2, 1/2) and Z^T D Z = [[1, -1], [-1, 1]] / 4
TWO = prgd.Problem(np.eye(2))


def hessian(problem, X, y, w, lam):
    """The second derivative of F by its definition, with one softmax for each class."""
    Z, p = X * y[:, None], problem.dual_weights(w)
    total = lam * np.eye(X.shape[1])
    for group in [y > 0, y < 0] if problem.fit_intercept else [slice(None)]:
        mean = p[group] @ Z[group] / p[group].sum()
        centred = Z[group] - mean
        total += (centred.T * p[group]) @ centred
    return total


def objective(problem, w, lam):
    return problem.at(w).log_loss + 0.5 * lam * w @ w


# Newton


def test_a_newton_step_and_a_phase_change_by_hand():
    algorithm = ProgressiveNewton(rho=8.0)
    s = algorithm.init(TWO, np.zeros(2))
    assert (s.lam, s.phase, s.row_reads) == (1.0 / 64.0, 1, 1.0)
    s = algorithm.step(TWO, s)
    # H = [[17, -15], [-15, 17]] / 64 and g = (1/2, 1/2): x = (32, 32), which is the solution u / lam
    np.testing.assert_allclose(s.w, [32.0, 32.0], rtol=1e-15)
    assert (s.t, s.phase, s.lam, s.rho) == (1, 1, 1.0 / 64.0, 8.0)
    np.testing.assert_array_equal(s.active, [0, 1])
    # the start; the scan, the gathering and its margins; two products; the search on the rows; the pass;
    # the predicted weights
    assert s.row_reads == 1.0 + 3.0 + 2.0 + 2.0 + 1.0 + 1.0
    s = algorithm.step(TWO, s)  # a new phase: both margins are equal, so c = 0 and the rescaling is exact
    np.testing.assert_allclose(s.w, [256.0, 256.0], rtol=1e-14)
    assert (s.phase, s.lam) == (2, 1.0 / 512.0)
    assert s.R_k == pytest.approx(256.0 * math.sqrt(2.0))
    assert (s.moved, s.rho) == (0.0, 64.0)  # margins do not move apart, so the next phase grows faster
    s = algorithm.step(TWO, s)
    assert (s.phase, s.lam) == (3, 2.0**-15)


def test_the_first_step_of_a_phase_is_the_corrected_rescaling(data, intercept, monkeypatch):
    """w becomes rho w - (rho - 1) c, with (Z^T D Z + lam I) c = Z^T D Z w, plus what was unsolved."""
    monkeypatch.setattr("prgd.algorithms.progressive_newton.FORCING", 1e-12)
    problem = prgd.Problem(data.X, data.y, fit_intercept=intercept)
    algorithm = ProgressiveNewton(rho=1.5)
    s = algorithm.init(problem, np.zeros(problem.d))
    while True:
        before, s = s, algorithm.step(problem, s)
        if s.phase == 6:
            break
    assert s.lam == before.lam / 1.5
    w, lam = before.w, before.lam / 1.5
    H = hessian(problem, data.X, data.y, w, lam)
    c = np.linalg.solve(H, (H - lam * np.eye(problem.d)) @ w)
    unsolved = problem.at(w).dual_vector - before.lam * w
    expected = 1.5 * w - 0.5 * c + np.linalg.solve(H, unsolved)
    np.testing.assert_allclose(s.w, expected, rtol=1e-9)


def test_phases_end_near_the_minimum(data, intercept):
    problem = prgd.Problem(data.X, data.y, fit_intercept=intercept)
    for before, s in itertools.pairwise(itertools.islice(states(problem, ProgressiveNewton()), 21)):
        if s.phase > before.phase:  # `before` solved its phase
            unsettled, soft = problem.at(before.w).gap_split
            assert unsettled <= 0.5 * soft
            value = objective(problem, before.w, before.lam)
            for direction in np.eye(problem.d):
                step = 0.5 * np.linalg.norm(before.w) * direction
                assert objective(problem, before.w + step, before.lam) > value
                assert objective(problem, before.w - step, before.lam) > value
    assert s.phase > 5


def test_gap_of_w_falls_by_rho_in_each_late_phase_and_that_of_h_by_its_square(data, intercept):
    """Theorems 10 and 14 of docs/note/note.md: lam Delta / U^2 at w, O(lam lam') at the displacement h."""
    problem = prgd.Problem(data.X, data.y, fit_intercept=intercept)
    gamma_star = prgd.max_margin(data.X, data.y, fit_intercept=intercept, tol=1e-12).certificate.upper
    gaps = {}
    for s in itertools.islice(states(problem, ProgressiveNewton()), 40):
        if s.at.v is not None:  # the first step of a phase
            gaps[s.phase] = s.lam, 1.0 - s.at.gamma / gamma_star, 1.0 - s.at.second_gamma / gamma_star
    lam, of_w, of_h = np.array(list(gaps.values())).T
    np.testing.assert_allclose((of_w / lam)[-5:-1], (of_w / lam)[-2], rtol=0.01)
    last = np.flatnonzero(of_h > 1e-12)[-1]
    assert of_h[last - 1] / of_h[last] > 0.5 * (lam[last - 2] / lam[last])


# p_star is uniform on the rows (1, +-1, 0), and the margin row (1, 0, 1) has no weight: Delta goes to 0
UNIFORM = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 2.0]])


def test_few_systems_are_enough_where_the_softness_vanishes():
    """A gate against Delta alone takes 16 systems here, and more in every late phase."""
    result = prgd.run(prgd.Problem(UNIFORM), ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-13), 40))
    assert result.status is prgd.Status.CERTIFIED
    assert result.t <= 12


def test_steps_do_not_cycle():
    """Steps past the minimum along their direction that lengthen the gradient went round in a circle here."""
    problem = prgd.Problem(*prgd.datasets.digits(1, 2), fit_intercept=True)
    result = prgd.run(problem, ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-10), 40))
    assert result.status is prgd.Status.CERTIFIED


def test_predicted_weights_prove_what_a_pass_cannot(data, intercept):
    """The bound on the rounding of the sums of a pass is the gap, until ``p - D Z x`` is summed anew."""
    problem = prgd.Problem(data.X, data.y, fit_intercept=intercept)
    algorithm = ProgressiveNewton()
    result = prgd.run(problem, algorithm, stop=60)
    assert result.certificate.dual_weights is not None
    predicted = [s for s in itertools.islice(states(problem, algorithm), 40) if s.own_weights is not None]
    assert predicted
    for s in predicted:
        found = np.linalg.norm(problem.combine(s.own_weights.dense(problem.n)))
        assert found == pytest.approx(s.own_upper, rel=1e-9)


def test_passes_are_counted(data, intercept):
    problem = prgd.Problem(data.X, data.y, fit_intercept=intercept)
    result = prgd.run(problem, ProgressiveNewton(), stop=20)
    # the start and one for each step, one to find the active rows, and failed trials
    assert 22 <= problem.passes <= 22 + 5
    assert result.state["row_reads"] > problem.passes


def test_few_rows_are_read_late(data):
    problem = prgd.Problem(data.X, data.y)
    early = prgd.run(problem, ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-4), 60))
    passes, reads = problem.passes, early.state["row_reads"]
    late = prgd.run(problem, ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-8), 60), resume=early)
    assert late.state["row_reads"] - reads < 2.0 * (problem.passes - passes)


def test_it_settles_and_then_costs_nothing(data):
    problem = prgd.Problem(data.X, data.y)
    result = prgd.run(problem, ProgressiveNewton(), stop=60)
    passes = problem.passes
    assert result.state["is_done"]
    more = prgd.run(problem, ProgressiveNewton(), stop=300, resume=result)
    assert more.w.tobytes() == result.w.tobytes()
    assert problem.passes == passes + 1  # the state that was resumed
    assert more.state["row_reads"] == result.state["row_reads"]


def test_a_search_that_fails_looks_at_all_rows_before_it_gives_up(data, monkeypatch):
    problem = prgd.Problem(data.X, data.y)
    algorithm = ProgressiveNewton()
    s = algorithm.init(problem, np.zeros(problem.d))
    while s.phase < 5 or np.linalg.norm(s.at.dual_vector - s.lam * s.w) < 0.5 * s.lam * np.linalg.norm(s.w):
        s = algorithm.step(problem, s)
    monkeypatch.setattr("prgd.algorithms.progressive_newton.MIN_STEP", 2.0)
    again = algorithm.step(problem, s)
    assert s.active.size > 0
    assert again.active.size == 0
    assert not again.is_done
    assert again.row_reads > s.row_reads
    given_up = algorithm.step(problem, again)
    assert given_up.is_done
    assert given_up.w is s.w


def test_resume_is_exact_with_an_intercept_and_weights(data, tmp_path):
    algorithm, begun, steps = ProgressiveNewton(), 8, 17
    weights = np.arange(len(data.y)) % 3.0  # some are 0
    problem = prgd.Problem(data.X, data.y, sample_weight=weights, fit_intercept=True)
    whole = prgd.run(problem, algorithm, stop=steps)
    prgd.run(problem, algorithm, stop=begun).save(tmp_path / "part.npz")
    rest = prgd.run(problem, algorithm, stop=steps, resume=prgd.Result.load(tmp_path / "part.npz"))
    assert rest.w.tobytes() == whole.w.tobytes()
    for name, value in whole.state.items():
        np.testing.assert_array_equal(rest.state[name], value)
    assert rest.history["gap"][-1] == whole.history["gap"][-1]


def test_rows_of_weight_zero_do_not_count(data, intercept):
    weights = (np.arange(len(data.y)) % 4 > 0).astype(float)
    kept = weights > 0
    weighted = prgd.Problem(data.X, data.y, sample_weight=weights, fit_intercept=intercept)
    alone = prgd.Problem(data.X[kept], data.y[kept], fit_intercept=intercept)
    a = prgd.run(weighted, ProgressiveNewton(), stop=30)
    b = prgd.run(alone, ProgressiveNewton(), stop=30)
    assert np.linalg.norm(a.w - b.w) <= 1e-10 * np.linalg.norm(b.w)


def test_no_separator_is_proven():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((60, 3)), np.where(rng.random(60) < 0.5, -1, 1)
    result = prgd.run(prgd.Problem(X, y), ProgressiveNewton(), stop=60)
    assert result.status is prgd.Status.NOT_SEPARABLE
    # an upper bound of 0 at the start ends it at once
    opposite = prgd.Problem([[1.0, 2.0], [1.0, 2.0]], [1, -1])
    assert prgd.run(opposite, ProgressiveNewton(), stop=9).status is prgd.Status.NOT_SEPARABLE
    assert opposite.passes == 2  # one step, and the weights of the proof


def test_a_start_on_the_path_is_continued(data):
    problem = prgd.Problem(data.X, data.y)
    first = prgd.run(problem, ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-4), 60))
    again = prgd.run(problem, ProgressiveNewton(), first.w, stop=prgd.any_of(prgd.Gap(1e-6), 60))
    assert again.status is prgd.Status.CERTIFIED
    assert again.t <= 8
    # from a long w that points elsewhere, Newton would see most rows too late: only its direction is used
    astray = prgd.run(problem, ProgressiveNewton(), 1e12 * np.eye(problem.d)[0], stop=60)
    assert astray.certificate.gap < 1e-9
    assert astray.history["log_loss"][0] > -1e3


REAL = ["mushrooms", "rcv1_vw1500", "reuters_grain", "basehock", "movie_polarity"]
REAL += ["mnist_0v1", "fashion_1v9", "ma_golub", "arcene", "letter_AB"]


@pytest.mark.slow
@pytest.mark.skipif("PRGD_DATA" not in os.environ, reason="PRGD_DATA names no folder of real data")
@pytest.mark.parametrize("name", REAL)
def test_real_data_are_certified_within_200_passes(name, intercept):
    (path,) = Path(os.environ["PRGD_DATA"]).glob(f"{name}.*")
    problem = prgd.Problem(*prgd.datasets.load(path), fit_intercept=intercept)
    result = prgd.run(problem, ProgressiveNewton(), stop=prgd.any_of(prgd.Gap(1e-4), 200))
    assert result.status is prgd.Status.CERTIFIED
    assert problem.passes <= 200
    assert result.state["row_reads"] < 1000.0


# the systems


@pytest.mark.parametrize("form", ["dense", "sparse", "dense engine", "sparse engine"])
@pytest.mark.parametrize("length", [0.5, 200.0])  # by features, and by rows where these are few
@pytest.mark.parametrize("shape", [(40, 6), (15, 40)])
def test_systems_against_a_factorisation(form, length, shape, intercept, monkeypatch):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal(shape), np.where(np.arange(shape[0]) % 2, 1, -1)
    problem = prgd.Problem(sp.csr_array(X) if "sparse" in form else X, y, fit_intercept=intercept)
    if "engine" in form:
        monkeypatch.setattr(active_rows, "GATHER_BYTES", 0)
    # a w at which some rows carry weight: the minimiser of a phase
    w = prgd.run(problem, ProgressiveNewton(), stop=4).w
    w = length / np.linalg.norm(w) * w
    lam = float(np.linalg.norm(problem.at(w).dual_vector) / np.linalg.norm(w))
    g = problem.at(w).dual_vector - lam / 8.0 * w
    rows = ActiveRows.find(problem, problem.at(w), np.empty(0, np.int64))
    found = rows.solve(lam / 8.0, g, 1e-11 * np.linalg.norm(g), w)
    expected = np.linalg.solve(hessian(problem, X, y, w, lam / 8.0), g)
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


def test_rows_are_found_again_where_weight_lies_elsewhere(data):
    problem = prgd.Problem(data.X, data.y)
    w = np.full(problem.d, 10.0)
    near = problem.near(w, 28.0)
    margins = problem.rows.ask(MarginsAt(w))
    np.testing.assert_array_equal(near, np.flatnonzero(margins <= margins.min() + 28.0))
    passes = problem.passes
    at = problem.at(w)
    kept = ActiveRows.find(problem, at, near)
    assert problem.passes == passes + 1  # the tally
    np.testing.assert_array_equal(kept.indices, near)
    renewed = ActiveRows.find(problem, at, near[margins[near] > margins.min()])
    assert problem.passes == passes + 2
    np.testing.assert_array_equal(renewed.indices, near)
    assert renewed.reads > kept.reads + 1.0


def test_near_is_by_class_with_an_intercept(data):
    problem = prgd.Problem(data.X, data.y, fit_intercept=True)
    w = np.full(problem.d, 10.0)
    margins = problem.rows.ask(MarginsAt(w))
    for sign in (1, -1):
        mine = np.flatnonzero(data.y == sign)
        expected = mine[margins[mine] <= margins[mine].min() + 5.0]
        near = problem.near(w, 5.0)
        np.testing.assert_array_equal(near[data.y[near] == sign], expected)


# gated PRGD


def test_gated_steps_by_hand():
    algorithm = GatedPRGD(growth=4.0)
    s = algorithm.init(TWO, np.zeros(2))
    assert (s.R_k, s.step_size) == (1.0, 1.0)
    s = algorithm.step(TWO, s)  # u = (1/2, 1/2), and momentum j = 2: x + (x - 0) / 4
    np.testing.assert_allclose(s.x, [0.5, 0.5])
    np.testing.assert_allclose(s.w, [0.625, 0.625])
    s = algorithm.step(TWO, s)  # u has not changed: the step grows by a fifth; x = 1.225, on the sphere
    assert s.step_size == pytest.approx(1.2)
    np.testing.assert_allclose([s.x, s.w], np.full((2, 2), math.sqrt(0.5)))


def test_gate_opens_when_the_direction_has_settled(data):
    problem = prgd.Problem(data.X, data.y)
    phases = 0
    for before, s in itertools.pairwise(itertools.islice(states(problem, GatedPRGD()), 301)):
        unsettled, soft = problem.at(before.w).gap_split if before.w.any() else (1.0, 0.0)
        if s.phase > before.phase:
            phases += 1
            assert unsettled <= 0.5 * soft
            assert s.R_k == 4.0 * before.R_k
            assert np.linalg.norm(s.w) == pytest.approx(s.R_k)
            assert s.j == 1
        else:
            assert unsettled > 0.5 * soft or np.linalg.norm(before.w) < 0.9 * before.R_k
            assert np.linalg.norm(s.w) <= s.R_k * (1 + 1e-12)
    assert phases > 4


def test_gate_opens_where_the_softness_goes_to_zero(monkeypatch):
    """p_star is 1/2 on the rows with +-0.9 and 0 on the third margin row: Delta goes to 0."""
    problem = prgd.Problem([[0.3, 0.9, 0.0], [0.3, -0.9, 0.0], [0.3, 0.2, 0.6]])

    def at_large_radius() -> prgd.algorithms.State:  # beyond it the softness is rounding
        return next(s for s in states(problem, GatedPRGD()) if s.R_k > 1e5)

    opened = at_large_radius()
    monkeypatch.setattr("prgd_paper.methods.gated_prgd.SOFT_ENOUGH", 0.0)
    hindered = at_large_radius()  # late phases are 3 times longer each, where sqrt(growth) is 2
    assert hindered.t > 1.5 * opened.t
    assert hindered.at.gap_split[1] * hindered.at.length < SOFT_ENOUGH


def test_gated_radius_stays_at_the_rounding_floor():
    data = prgd.datasets.synthetic_one(0)
    problem = prgd.Problem(data.X, data.y)
    result = prgd.run(problem, GatedPRGD(), stop=500)
    assert math.isfinite(result.history["R_k"][-1])
    assert result.certificate.gap < 1e-12
