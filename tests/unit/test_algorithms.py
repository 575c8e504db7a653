"""One step of each algorithm by hand, and what is refused."""

from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from prgd_paper.theory.sampled_runs import states

import prgd
from prgd.algorithms import all_algorithms
from prgd.algorithms.base import State

# one row z = (2, 0): L(w) = e^(-2 w_1), so -grad L / L = (2, 0) everywhere
ONE = prgd.Problem(np.array([[2.0, 0.0]]), scale="none")
SCALED = prgd.Problem(np.array([[2.0, 0.0]]))


@pytest.mark.parametrize(
    ("algorithm", "problem", "w0", "expected"),
    [
        (prgd.GD(0.5), ONE, [1.0, 0.0], [1.0 + 0.5 * 2.0 * np.exp(-2.0), 0.0]),
        (prgd.NGD(0.5), ONE, [0.0, 0.0], [1.0, 0.0]),
        (prgd.NGD(0.5), SCALED, [0.0, 0.0], [0.25, 0.0]),  # scale="max": the step is eta / max||x||^2
        (prgd.algorithms.LossScaledGD(1.0), ONE, [0.0, 0.0], [2.0 / np.sqrt(4.0), 0.0]),
    ],
)
def test_a_step_by_hand(algorithm, problem, w0, expected):
    s = algorithm.step(problem, State(3, problem.at(w0)))
    np.testing.assert_allclose(s.w, expected, rtol=1e-15)
    assert s.t == 4


@pytest.mark.parametrize(
    ("algorithm", "name", "steps", "last"),
    [
        # t = 0: g = 0, w = u; t = 1: g = (g + u) / 2 = 1, w += g + u
        (prgd.algorithms.DualAcceleration(), "g", [(2.0, 0.0), (5.0, 1.0)], {"own_upper": 2.0}),
        # j = 0: g = 0, w = u; j = 1: g = (g + u) / 4 = 1/2, w += g + u
        (prgd.algorithms.RestartedNGD(), "g", [(2.0, 0.0), (4.5, 0.5)], {"age": 2, "phase": 1}),
        # round 1: w_1 = u, W = u, kept as W / 4; round 2: S = u, w_2 = (u + 2 u) / 3 = u, W = 3 u
        (prgd.algorithms.GameDynamics(), "g", [(0.5, 0.0), (1.5, 2.0)], {"own_upper": 2.0}),
    ],
)
def test_two_steps_with_momentum_by_hand(algorithm, name, steps, last):
    s = algorithm.init(ONE, np.zeros(2))
    for w, momentum in steps:
        s = algorithm.step(ONE, s)
        np.testing.assert_allclose([s.w, getattr(s, name)], [[w, 0.0], [momentum, 0.0]])
    for other, value in last.items():
        np.testing.assert_allclose(getattr(s, other), value)


def test_prgd_rescales_then_projects():
    algorithm = prgd.PRGD(prgd.schedules.Geometric(2.0), prgd.schedules.Every(3))
    s = algorithm.init(ONE, np.array([0.0, 3.0]))
    s = algorithm.step(ONE, s)  # T_0 = 0: R_0 = 3
    np.testing.assert_allclose(s.w, [0.0, 3.0])
    s = algorithm.step(ONE, s)  # v = (2, 3), projected to radius 3
    np.testing.assert_allclose(s.w, np.array([2.0, 3.0]) * 3.0 / np.sqrt(13.0))
    s = algorithm.step(ONE, algorithm.step(ONE, s))  # T_1 = 3: R_1 = 6
    assert (s.t, s.phase, s.R_k) == (4, 2, 6.0)
    assert np.linalg.norm(s.w) == pytest.approx(6.0)


def test_prgd_without_projection():
    algorithm = prgd.PRGD(prgd.schedules.Geometric(2.0), prgd.schedules.Every(3), project=False)
    s = algorithm.step(ONE, algorithm.init(ONE, np.array([0.0, 3.0])))
    s = algorithm.step(ONE, algorithm.step(ONE, s))  # two steps of (2, 0), not projected to radius 3
    np.testing.assert_allclose(s.w, [4.0, 3.0])
    s = algorithm.step(ONE, s)  # R_1 = 6
    np.testing.assert_allclose(s.w, [4.8, 3.6])


def test_a_run_with_projection_is_not_resumed_without():
    assert "project" not in repr(prgd.PRGD())  # the repr of saved runs
    saved = prgd.run(ONE, prgd.PRGD(), [1.0, 1.0], stop=3)
    with pytest.raises(ValueError, match="project=False"):
        prgd.run(ONE, prgd.PRGD(project=False), resume=saved, stop=5)


def test_dual_acceleration_is_nesterov_s_method_on_log_l():
    problem = prgd.Problem(*prgd.datasets.synthetic_two(0))
    algorithm, x = prgd.algorithms.DualAcceleration(0.5), np.zeros(2)
    s = algorithm.init(problem, x)
    for t in range(30):
        x_next = s.w + 0.5 * problem.unit * s.at.dual_vector
        s, x = algorithm.step(problem, s), x_next + t / (t + 1) * (x_next - x)
        np.testing.assert_allclose(s.w, x, rtol=1e-12)
        x = x_next


@pytest.mark.parametrize("name", [name for name, kind in all_algorithms().items() if hasattr(kind, "eta")])
@pytest.mark.parametrize("eta", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_eta_must_be_positive(name, eta):
    with pytest.raises(ValueError, match="eta must be a finite number above 0"):
        all_algorithms()[name](eta=eta)


def test_prgd_refuses_a_zero_start():
    with pytest.raises(ValueError, match=r"non-zero w0.*Run GD or NGD first"):
        prgd.run(ONE, prgd.PRGD(), stop=5)
    with pytest.raises(ValueError, match=r"Run SteepestDescent first"):
        prgd.run(ONE, prgd.PRGD(norm="linf"), stop=5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"T": lambda k: 0}, "does not advance"),
        ({"T": lambda k: k + 1}, r"T\(0\) must be 0"),
        ({"R": lambda k, R_0: -1.0}, "gave the radius -1"),
    ],
)
def test_prgd_refuses_schedules_that_do_not_advance_and_radii_that_are_not_positive(options, words):
    with pytest.raises(ValueError, match=words):
        prgd.run(ONE, prgd.PRGD(**options), [1.0, 0.0], stop=5)


def test_names_are_found_and_suggested():
    assert prgd.algorithms.find_algorithm("dual_acceleration") is prgd.algorithms.DualAcceleration
    assert prgd.algorithms.find_algorithm("PRGD") is prgd.PRGD
    with pytest.raises(ValueError, match="Did you mean prgd"):
        prgd.algorithms.find_algorithm("pgrd")
    with pytest.raises(ValueError, match="Known: adam, adaptive-gd, away-"):
        prgd.algorithms.find_algorithm("zzzzzz")


def test_restarted_ngd_restarts_when_the_dual_vector_grows_and_phases_never_become_shorter():
    problem = prgd.Problem(*prgd.datasets.digits(0, 4, 100))
    ages = []
    for before, s in pairwise(islice(states(problem, prgd.algorithms.RestartedNGD()), 2000)):
        if s.phase > before.phase:
            assert before.at.upper > before.previous_size  # the step before the restart saw growth
            ages.append(before.age)
            assert (s.age, s.previous_age) == (1, before.age)
            np.testing.assert_array_equal(s.g, 0.0)
    assert len(ages) >= 2
    assert ages == sorted(ages)


def test_an_algorithm_by_the_book_gets_the_certificates_of_the_built_in_ones():
    """The example of CONTRIBUTING.md, word for word, on rows where the dual vector has the better margin."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    names = dict(vars(prgd.algorithms.base))
    exec(text.split("```python\n")[1].split("```")[0], names)  # noqa: S102
    X, y = prgd.datasets.digits(0, 1)
    problem, seen = prgd.Problem(X, y, fit_intercept=True), []
    for algorithm in (names["NGD"](), prgd.NGD()):
        passes, certificates = problem.passes, []
        prgd.run(problem, algorithm, stop=20, observe=lambda s, record, c, kept=certificates: kept.append(c))
        assert problem.passes - passes == 21
        seen.append([(c.lower, c.upper, c.w.tobytes()) for c in certificates[1:]])
        assert certificates[-1].lower > problem.at(certificates[-1].w_upper).gamma
    assert seen[0] == seen[1]
