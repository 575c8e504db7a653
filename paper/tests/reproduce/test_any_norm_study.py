"""Progressive rescaling in any norm: the experiment's parts, its claims on made-up rows, and the plane."""

from dataclasses import replace

import numpy as np
import pandas as pd
import prgd_paper.studies
import pytest
from prgd_paper.claims import Judgement
from prgd_paper.methods.inside_prgd import InsidePRGD, inside
from prgd_paper.studies import _any_norm_claims as any_norm_claims
from prgd_paper.studies import any_norm
from prgd_paper.studies import any_norm as study
from prgd_paper.studies._gated_inside import GatedInside
from reproduce.tiny import rows_of

import prgd
from prgd.algorithms import SteepestDescent

SETTINGS = study.Settings(seeds=4, few=1)


def test_every_part_set_and_norm_has_rows():
    rows = rows_of("any-norm")
    assert set(rows.part) == {"plane", "space", "sweep"}
    assert set(rows.norm) == {*study.NORMS, "spectral"}
    assert set(rows[rows.part == "plane"]["set"]) == set(study.PLANE)
    in_plane = rows[(rows.part == "plane") & (rows.norm == "l1")]
    assert set(in_plane.method) == {study.PLAIN, study.RADIAL, study.FREE, study.INSIDE, study.GATED}
    assert (rows.error > -1e-12).all()  # gamma_star is an upper bound
    assert len(study.tasks(study.Settings())) == len(set(study.tasks(study.Settings())))


def test_the_face_of_w_star_is_counted():
    Z = np.array([[1.0, 0.2], [3.0, 0.0]])
    assert any_norm._face(Z, "l1", np.array([1.0, 0.0])) == (1, 1)
    assert any_norm._face(Z, "linf", np.array([1.0, -1.0])) == (1, 1)
    assert any_norm._face(Z, "linf", np.array([1.0, 0.5])) == (1, 0)
    assert any_norm._face(Z, "3", np.array([1.0, 0.5])) == (1, 0)


def test_steps_of_the_spectral_norm_end_at_the_nearest_point_of_the_ball():
    norm = prgd.norms.as_norm("spectral")
    W, u = np.diag([2.0, 1.0]), np.diag([1.0, 1.0])
    np.testing.assert_allclose(inside(norm, W, u, 1.5, 2.0), np.diag([2.0, 2.0]), atol=1e-12)
    np.testing.assert_allclose(inside(norm, W, u, 0.5, 4.0), np.diag([2.5, 1.5]), atol=1e-12)
    lp = prgd.norms.as_norm(3)
    assert lp(inside(lp, np.array([1.0, 0.0]), np.array([1.0, 1.0]), 1.0, 1.0)) == pytest.approx(1.0)


@pytest.mark.parametrize("algorithm", [InsidePRGD(), GatedInside()])
def test_our_algorithms_run_and_resume_like_all_others(algorithm):
    problem = prgd.Problem(*prgd_paper.studies.growing_dimension.gaussian(0, 30, 3, 0.5), norm="linf")
    w = prgd.run(problem, SteepestDescent(), stop=20).w
    whole = prgd.run(problem, algorithm, w, stop=60)
    part = prgd.run(problem, algorithm, w, stop=25)
    again = prgd.run(problem, algorithm, stop=60, resume=part)
    np.testing.assert_array_equal(whole.w, again.w)
    assert whole.certificate.lower > part.certificate.lower


def test_the_gate_stays_shut_for_steps_of_a_fixed_length():
    X, y = any_norm.gaussian(0, 50, 3, 0.5)
    problem = prgd.Problem(X, y, norm="linf")
    w = study.follow(problem, SteepestDescent(), np.zeros(3), 300)[0]
    phases = []
    for is_fixed in (True, False):
        algorithm = GatedInside(is_fixed=is_fixed, eta=10.0)
        s = algorithm.init(problem, w)
        for _ in range(400):
            s = algorithm.step(problem, s)
        phases.append(s.phase)
    assert phases[0] <= 1
    assert phases[1] >= 5


# the claims on made-up rows


def made_up(**errors: float) -> pd.DataFrame:
    """Return rows in which each method ends at the error of its name, on every set."""
    rows = []
    ends = dict.fromkeys((study.RADIAL, study.FREE, study.INSIDE), 1e-15)
    ends |= {study.PLAIN: 1e-3, study.GATED: 1e-9} | errors
    base = {"seed": 0, "start": 1e-3, "active": 2, "corner": 0, "t": 1000}
    for method, error in ends.items():
        base |= {"method": method, "error": error}
        cells = [("plane", name, norm) for name in study.PLANE for norm in ("l1", "linf")]
        cells += [("space", "gaussian-5", "l1")] * (method in (study.PLAIN, study.GATED))
        rows += [base | {"part": part, "set": name, "norm": norm} for part, name, norm in cells]
    base |= {"part": "sweep", "set": "gaussian-2", "norm": "l1", "method": study.RADIAL}
    for growth in SETTINGS.sweep_growths:
        rows.append(base | {"error": 1e-9 if growth < 1.5 else 1e-3, "growth": growth})
    return pd.DataFrame(rows).assign(eta=3.0).fillna({"growth": 0.0})


def verdict_of(claim, rows: pd.DataFrame) -> Judgement:
    found = claim(rows, SETTINGS)
    assert found.is_ours
    assert found.finding.would_change
    return found.verdict


def test_claims_follow_the_rows():
    rows = made_up()
    names = "planes_are_exponential corners_freeze_radial_steps fast_growth_freezes gate_does_not_freeze"
    claims = {name: getattr(any_norm_claims, name) for name in names.split()}
    others = [claim for name, claim in claims.items() if name != "corners_freeze_radial_steps"]
    assert {verdict_of(claim, rows) for claim in others} == {Judgement.HOLDS}
    worse = made_up(**{study.INSIDE: 1e-4})
    assert verdict_of(claims["planes_are_exponential"], worse) is Judgement.FAILS
    assert verdict_of(claims["gate_does_not_freeze"], made_up(**{study.GATED: 1e-2})) is Judgement.FAILS
    corner = made_up(**{study.RADIAL: 1e-4}).assign(corner=1, active=1)
    assert verdict_of(claims["corners_freeze_radial_steps"], corner) is Judgement.HOLDS
    assert verdict_of(claims["corners_freeze_radial_steps"], rows) is Judgement.NOT_DECIDED
    reached = rows.assign(corner=1, active=1)
    assert verdict_of(claims["corners_freeze_radial_steps"], reached) is Judgement.FAILS
    never = rows.assign(error=rows.error.where(rows.part != "sweep", 1e-9))
    assert verdict_of(claims["fast_growth_freezes"], never) is Judgement.FAILS


def test_an_error_that_falls_by_a_thousandth_of_the_radius_is_frozen():
    rows = pd.DataFrame({"error": [1e-3, 1e-6, 0.0, 5e-13], "start": [1e-2, 1e-2, 0.0, 0.0]})
    assert any_norm.is_frozen(rows).tolist() == [True, False, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("name", study.PLANE)
def test_progressive_steps_reach_rounding_in_the_plane(name, norm):
    settings = replace(any_norm.EXPERIMENT.settings, few=0)
    for seed in range(2):
        rows = pd.DataFrame(study.compute(settings, f"plane_{name}_{norm}_{seed}")).set_index("method")
        assert rows.error[study.INSIDE] <= 1e-12
        assert rows.error[study.PLAIN] > 1e-6 or rows.corner.iloc[0] > 0
