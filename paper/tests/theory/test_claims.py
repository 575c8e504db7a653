"""Each claim of the registry, measured, with its verdict; and the ways it is printed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from prgd_paper.claims import Claim, Finding, Judgement, claim
from prgd_paper.claims.registry import choose
from prgd_paper.cli.claims import all_claims, claims_command
from prgd_paper.theory.claims import remarks
from prgd_paper.theory.claims.toy import shrinking_factor
from theory.evidence import assert_evidence

import prgd

HOLDS, CAVEAT, FAILS = Judgement.HOLDS, Judgement.CAVEAT, Judgement.FAILS
# What a theorem says can be pinned; each failure here has its entry in docs/errata.md.
VERDICTS = {
    "proposition-4.1-ngd": HOLDS,
    "proposition-4.1-prgd": HOLDS,
    "regularization-path-toy": HOLDS,
    "section-4-projection": HOLDS,
    "section-5-span": HOLDS,
    "section-5.1-almost-all": HOLDS,
    "theorem-6.4-gd-direction": HOLDS,
    "theorem-6.4-gd-margin": HOLDS,
    "theorem-6.4-ngd-direction": HOLDS,
    "theorem-6.4-ngd-margin": HOLDS,
    "section-7.1-synthetic": HOLDS,
    "section-7.1-digit-rank": CAVEAT,
    "lemma-a.1": HOLDS,
    "lemma-a.2": HOLDS,
    "lemma-c.1": HOLDS,
    "lemma-c.2": HOLDS,
    "lemma-c.3": HOLDS,
    "lemma-c.4": HOLDS,
    "lemma-c.5-gd": HOLDS,
    "lemma-c.5-ngd": HOLDS,
    "theorem-c.6": HOLDS,
    "theorem-c.7": FAILS,
    "theorem-c.7-corrected": HOLDS,
    "lemma-d.1": HOLDS,
    "lemma-d.2": HOLDS,
    "lemma-d.3": FAILS,
    "e1-rate-of-the-dual-vector": HOLDS,
    "e2-linear-rate": HOLDS,
    "e2-without-strict-complementarity": HOLDS,
    "e3-separator-in-any-norm": HOLDS,
    "e4-gap-identity": HOLDS,
    "e5-bound-of-delta": HOLDS,
    "e6-gap-on-the-path": HOLDS,
    "e7-rescaling": HOLDS,
    "e8-inexact-phases": HOLDS,
    "e9-expansion": HOLDS,
    "e10-one-system-a-phase": HOLDS,
    "e11-drift": HOLDS,
    "e12-linear-programs": HOLDS,
    "e13-excess": HOLDS,
    "e13-steps": HOLDS,
}


# Tens of thousands of steps of runs whose lines others run too.
LONG_RUNS = (
    "lemma-c.4", "lemma-c.5-ngd", "proposition-4.1-ngd", "section-7.1-digit-rank", "theorem-6.4-gd-direction",
    "theorem-6.4-ngd-direction", "theorem-6.4-ngd-margin",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.cover
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.no_cover) if name in LONG_RUNS else name for name in VERDICTS],
)
def test_claim(name):
    found = measured(name)
    assert found.verdict is VERDICTS[name], found.sentence
    assert np.isfinite(found.finding.decided_by[0]).all()
    assert len(found.sentence) > 40
    assert_evidence(found)
    json.dumps(found.to_dict(), allow_nan=False)


_MEASURED: dict[str, Claim] = {}


def measured(name: str) -> Claim:
    """Measure a claim once for all tests."""
    if name not in _MEASURED:
        _MEASURED[name] = all_claims()[name]()
    return _MEASURED[name]


def test_every_claim_is_in_the_registry():
    """Also those of the cylinder and of Theorem 6.1, which are measured in tests of their own."""
    names = list(all_claims())
    assert set(VERDICTS) <= set(names)
    rest = [name for name, claim in all_claims().items() if name not in VERDICTS and not claim.experiment]
    assert all(name.startswith(("theorem-5.5", "theorem-6.1")) for name in rest)
    assert {"theorem-5.5", "theorem-6.1"} <= set(rest)
    assert (
        names.index("proposition-4.1-ngd")
        < names.index("theorem-5.5")
        < names.index("theorem-6.4-gd-direction")
    )


def test_range_of_the_proof_of_proposition_4_1():
    figures = measured("proposition-4.1-ngd").finding.figures
    assert figures["largest gamma_star of the proof"] == pytest.approx(
        math.sqrt(1 - 0.75 * math.log(2)), abs=1e-9
    )
    assert figures["never above the line"] is True
    figures = measured("proposition-4.1-prgd").finding.figures
    assert figures["largest gamma_star of the printed radius"] == pytest.approx(
        math.sqrt(1 - (0.5 * math.log(2)) ** 2), abs=1e-9
    )
    assert figures["rate beyond, printed"] == 0.0


@pytest.mark.slow
def test_almost_all_speaks_of_the_first_part_of_assumption_5_4_alone(monkeypatch):
    figures = measured("section-5.1-almost-all").finding.figures
    assert figures["smallest dual weight"] > 1e-6
    assert figures["most support vectors beyond their rank"] == 0
    spans = figures["share whose support spans"]
    assert spans["20 x 20"] < 0.1 < 0.9 < spans["100 x 5"]
    monkeypatch.setattr(remarks, "_continuous", lambda seed, n, d: remarks._on_a_grid(seed))
    monkeypatch.setattr(remarks, "N_DRAWS", 20)
    assert all_claims()["section-5.1-almost-all"]().verdict is FAILS


@pytest.mark.slow
def test_a_run_that_leaves_the_span_is_seen(monkeypatch):
    figures = measured("section-5-span").finding.figures
    assert figures["part of a start outside that changed"] < 1e-9
    run = remarks.iterates
    monkeypatch.setattr(remarks, "iterates", lambda *args: run(*args) + 1e-6)
    monkeypatch.setattr(remarks, "N_SETS", 1)
    assert all_claims()["section-5-span"]().verdict is FAILS


def test_phases_of_two_steps_do_not_feel_the_projection():
    """Those of Theorem 6.1; longer phases do."""
    problem = prgd.Problem(*prgd.datasets.digits(0, 1, 50), scale="none")
    w0 = prgd.run(problem, prgd.GD(), stop=50).w
    apart = {}
    for length in (2, 5):
        both = [
            prgd.run(problem, prgd.PRGD(T=prgd.schedules.Every(length), project=p), w0, stop=101).w
            for p in (True, False)
        ]
        one, two = (w / np.linalg.norm(w) for w in both)
        apart[length] = np.linalg.norm(one - two)
    assert apart[2] < 1e-13 < 1e-6 < apart[5]


@pytest.mark.parametrize("gamma_star", [0.01, 0.5, 0.9, 0.937, 0.939, 0.99, 0.9999])
def test_a_line_above_the_attractor_always_contracts(gamma_star):
    """q in (0, 1) at w_2 = log 2 / s for every gamma_star; at w_2 = 1 only below 0.93802."""
    s = math.sqrt(1 - gamma_star**2)
    assert 0.0 < shrinking_factor(gamma_star, math.log(2) / s) < 1.0
    assert shrinking_factor(gamma_star) > 0.0
    assert (shrinking_factor(gamma_star) < 1.0) == (gamma_star < 0.93802)


@pytest.mark.slow
def test_figures_beside_the_deciding_one():
    """What a sentence says in passing is pinned too."""
    figures = measured("regularization-path-toy").finding.figures
    assert figures["both parts positive"] is True
    assert figures["equation"] <= 1e-6
    figures = measured("lemma-c.4").finding.figures
    assert 0.0 < figures["largest error left"] < 1e-4
    figures = measured("lemma-d.3").finding.figures
    assert figures["other three"] >= 1.0 - 1e-9
    assert measured("lemma-c.2").finding.figures["upper"] <= 1.0 + 1e-9
    assert measured("theorem-c.6").finding.figures["curvature"] > 0.0
    assert measured("lemma-c.3").finding.figures["printed bound too small by"] > 10.0


def test_ngd_on_synthetic_one_has_the_predicted_exponential_rate():
    figures = measured("section-7.1-synthetic").finding.figures
    assert figures["fitted c"] == pytest.approx(figures["predicted c"], rel=0.01)


def test_digit_figures():
    figures = measured("section-7.1-digit-rank").finding.figures
    assert (figures["data rank"], figures["rank, all rows"], figures["rank, first 300"]) == (51, 16, 12)


@pytest.mark.parametrize(
    ("relation", "a", "b", "agrees"),
    [
        ("<=", 1.0, 1.0, True),
        ("<", 1.0, 1.0, False),
        (">=", 1.0, 2.0, False),
        (">", 3.0, 2.0, True),
        ("==", 1.0 + 1e-12, 1.0, True),
        ("==", 1.1, 1.0, False),
        ("==", 1e-12, 0.0, True),
    ],
)
def test_verdicts(relation, a, b, agrees):
    assert Finding((a, relation, b), "A sentence.").verdict is (HOLDS if agrees else FAILS)
    assert Finding((a, relation, b), "A sentence.", caveat="But.").verdict is (CAVEAT if agrees else FAILS)


def test_names_and_prefixes():
    known = all_claims()
    assert [c.name for c in choose(known, ["lemma-d"])] == ["lemma-d.1", "lemma-d.2", "lemma-d.3"]
    assert [c.name for c in choose(known, ["LEMMA-D.2"])] == ["lemma-d.2"]
    with pytest.raises(ValueError, match=r"Did you mean .*lemma-a\.1"):
        choose(known, ["lemma-a.11"])


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="registered twice"):
        claim("lemma-d.2", where="", statement="")(lambda: Finding((0.0, "==", 0.0), ""))


def test_main_prints_plain_lines_when_piped(capsys, tmp_path):
    path = tmp_path / "claims.json"
    claims_command(["lemma-d"], json=path)
    out = capsys.readouterr().out
    assert "does not hold        lemma-d.3" in out
    assert "\x1b" not in out
    assert "3 claims: 2 hold, 0 hold with a caveat, 1 does not hold" in out
    found = json.loads(path.read_text())
    assert [c["verdict"] for c in found] == ["holds", "holds", "does not hold"]
    assert found[2]["figures"]["with the square"] == pytest.approx(1.0)


def test_main_lists(capsys):
    claims_command(list_only=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(all_claims())
    assert any(line.startswith("proposition-4.1-ngd") for line in lines)


def test_odd_figures_fit_into_json():
    figures = {"a": (1.0, math.nan), "b": np.arange(2)}
    odd = Claim("x", "", "", lambda: Finding((math.inf, ">", 0.0), "", figures=figures))()
    assert json.loads(json.dumps(odd.to_dict(), allow_nan=False))["figures"]["a"] == [1.0, "nan"]
