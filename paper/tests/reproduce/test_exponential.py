"""The experiment on the dual vector: certificates with and without u, and what its views say of rows."""

import math
from itertools import islice

import numpy as np
import pytest
from prgd_paper.studies._exponential_claims import dual_vector_is_linear, restarted_ngd_certifies_digits
from prgd_paper.studies._exponential_views import certificates, sets_of
from prgd_paper.studies.exponential import BestBounds
from reproduce.tiny import rows_of, tiny

import prgd
from prgd.algorithms.base import states

LEVELS = (1e-1, 1e-2, 1e-3)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_passages_are_those_of_the_certificates_of_a_run(fit_intercept):
    data = prgd.datasets.digits(0, 4, 80)
    problem = prgd.Problem(data.X, data.y, fit_intercept=fit_intercept)
    algorithm, best, gaps = prgd.algorithms.RestartedNGD(), BestBounds(LEVELS), []
    for s in islice(states(problem, algorithm), 401):
        best.see(s.t, s.at)
    result = prgd.run(problem, algorithm, stop=400, record=None, observe=lambda s, now, c: gaps.append(c.gap))
    first = {level: next(t for t, gap in enumerate(gaps) if gap <= level) for level in LEVELS}
    assert best.with_second == first
    assert best.both.gap == pytest.approx(result.certificate.gap, rel=1e-6)
    assert best.alone.gap > 10.0 * result.certificate.gap
    assert all(best.without_second.get(level, 401) >= t for level, t in first.items())


def test_the_margin_of_the_second_direction_is_that_of_the_last_dual_vector():
    problem = prgd.Problem(*prgd.datasets.synthetic_one(0))
    before, now = islice(states(problem, prgd.NGD()), 5, 7)
    assert now.at.second_gamma == pytest.approx(problem.at(before.at.dual_vector).gamma, rel=1e-12)
    assert problem.at(now.w).second_gamma == -math.inf


def test_sets_say_where_the_assumption_holds():
    sets = {facts.name: facts.values for facts in sets_of(rows_of("exponential"))}
    assert [bool(v["assumption 5.4"]) for v in sets.values()] == [True] * 3 + [False] * 4
    assert not sets["planted, zero-weight rows"]["strict complementarity"]
    assert math.isnan(sets["planted, zero-weight rows"]["predicted rate"])
    assert sets["planted, no span"]["support rank"] < sets["planted, no span"]["data rank"]


def test_a_gap_that_was_not_reached_is_a_dash_and_decides_nothing_in_a_short_run():
    e, rows = tiny()["exponential"], rows_of("exponential")
    cells = {cell for row in certificates(rows, e.settings).rows for cell in row[2:]}
    assert any(cell.endswith("/ -") for cell in cells)
    missed = rows.assign(second=np.where(rows.kind == "certified", -1, rows.second))
    assert restarted_ngd_certifies_digits(missed, e.settings).verdict.name == "FAILS"
    assert restarted_ngd_certifies_digits(missed, e.settings, is_partial=True).verdict.name == "NOT_DECIDED"


def test_a_linear_rate_without_strict_complementarity_is_noticed():
    e, rows = tiny()["exponential"], rows_of("exponential").copy()
    at = (rows.kind == "curve") & (rows["set"] == "planted, zero-weight rows") & (rows.method == "NGD")
    rows.loc[at, "now"] = np.exp(-0.05 * rows.t[at].astype(float))
    assert dual_vector_is_linear(rows, e.settings).finding.decided_by[0] >= 1.0
