"""One registry: theory and experiments fill it, and a verdict carries its words, sign and colour."""

from __future__ import annotations

import math

import pytest

from prgd.claims import Finding, Verdict, registered, summary
from prgd.cli.claims import all_claims, claims_command, measured
from prgd.reproduce.experiment import experiments


def test_every_claim_about_an_experiment_names_one_that_exists():
    names = {claim.experiment for claim in all_claims().values() if claim.experiment}
    assert names <= set(experiments())
    assert all(claim.experiment for claim in all_claims().values() if claim.needs_rows)


def test_every_experiment_has_a_claim():
    all_claims()
    for e in experiments().values():
        assert registered((e.name, e.rows_name))


def test_a_claim_without_rows_is_not_run(tmp_path, capsys):
    claim = measured(all_claims()["table-2-gd"], tmp_path)
    claims_command(["table-2-gd"], report=tmp_path)
    assert claim.verdict is Verdict.NOT_RUN
    assert "not yet run          table-2-gd" in capsys.readouterr().out
    assert "prgd reproduce --only table-2" in claim.sentence
    assert "decided" not in summary([claim])
    assert summary([claim]).endswith("1 not yet run")


def test_a_verdict_is_found_by_its_words():
    assert all(Verdict(str(verdict)) is verdict for verdict in Verdict)
    assert len({verdict.sign for verdict in Verdict}) == len(Verdict)


@pytest.mark.parametrize(
    ("measured", "relation", "not_given", "expected"),
    [
        (0.1, "<", "", Verdict.HOLDS),
        (0.3, "<", "", Verdict.FAILS),
        (0.3, "<", "the horizon", Verdict.NOT_DECIDED),
        (0.1, "<", "the horizon", Verdict.HOLDS),
        ((0.05, 0.1), "<", "", Verdict.HOLDS),
        ((0.25, 0.3), "<", "", Verdict.FAILS),
        ((0.25, 0.3), "<", "the preprocessing", Verdict.NOT_DECIDED),
        ((0.1, 0.3), "<", "", Verdict.NOT_DECIDED),
        ((0.1, 0.3), ">=", "", Verdict.NOT_DECIDED),
        ((0.1, 0.3), "==", "", Verdict.HOLDS),
        ((0.3, 0.4), "==", "", Verdict.FAILS),
        (math.nan, "<", "", Verdict.FAILS),
        ((math.nan, math.nan), ">", "", Verdict.FAILS),
    ],
)
def test_the_rule_of_verdicts(measured, relation, not_given, expected):
    finding = Finding((measured, relation, 0.2), "s.", not_given=not_given)
    assert finding.verdict is expected
    assert bool(finding.reason) == (expected is Verdict.NOT_DECIDED)
    caveat = Finding((measured, relation, 0.2), "s.", "But.", not_given=not_given)
    assert caveat.verdict is (Verdict.CAVEAT if expected is Verdict.HOLDS else expected)
