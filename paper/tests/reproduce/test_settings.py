"""Settings as text: what --set takes and refuses, and what options and records give back."""

import json
import shlex
from dataclasses import fields, replace

import pytest
from prgd_paper.reproduce.experiment import choose, load
from prgd_paper.reproduce.settings import from_record, settings_of, split_changes, with_changes

FIGURE_4 = load("figure-4")


def changed(**texts: str):
    return with_changes("figure-4", FIGURE_4.settings, texts)


def test_values_have_the_types_of_their_fields():
    found = changed(alpha="1", phase="7", rows="300", pairs="(0,1),", loss="logistic", rank_tolerances=".1,1")
    assert (found.alpha, found.phase, found.rows) == (1.0, 7, (300,))
    assert (found.pairs, found.loss, found.rank_tolerances) == (((0, 1),), "logistic", (0.1, 1.0))
    assert type(found.alpha) is float
    gated = load("gated-schedule").settings
    assert with_changes("gated-schedule", gated, {"sets": "digit-01"}).sets == ("digit-01",)
    with pytest.raises(ValueError, match="3 values with commas"):
        with_changes("gated-schedule", gated, {"gaussian": "100,50"})


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"alhpa": "1"}, r"Unknown setting of figure-4 'alhpa'\. Did you mean alpha.*alpha=0\.6, beta=0\.6"),
        ({"alpha": "big"}, r"--set figure-4\.alpha expects a number, e\.g\. 0\.6; got 'big'"),
        ({"steps": "2.5"}, r"expects an integer, e\.g\. 20000; got '2\.5'"),
        ({"rows": "300,x"}, r"expects an integer, e\.g\. 300,0; got '300,x'"),
    ],
)
def test_errors_name_the_settings(texts, words):
    with pytest.raises(ValueError, match=words):
        changed(**texts)


@pytest.mark.parametrize("text", ["figure-4", "alpha=0.9", "figure-4.=1", "figure-4.alpha"])
def test_the_form_of_a_change_is_said(text):
    with pytest.raises(ValueError, match=r"--set expects NAME\.SETTING=VALUE, e\.g\. figure-4\.alpha=0\.9"):
        split_changes([text])


@pytest.mark.parametrize("e", choose(), ids=lambda e: e.name)
def test_records_and_options_give_the_settings_back(e):
    for settings in (e.settings, e.quick):
        record = json.loads(json.dumps(settings_of(settings), default=repr))
        assert from_record(e.settings, record) == settings
        assert not e.changes(settings)
    for field in (field for field in fields(e.settings) if field.init and field.name != "file"):
        value = getattr(e.settings, field.name)
        if isinstance(value, int | float):
            other = replace(e.settings, **{field.name: value + 1})
            words = shlex.split(e.options(other))
            if "--seeds" in words:
                assert e.chosen(False, int(words[-1])) == other
            else:
                assert e.chosen("--quick" in words, None, split_changes(words[1::2])[e.name]) == other


def test_a_changed_setting_decides_nothing():
    e = load("figure-1")
    from reproduce.tiny import rows_of, tiny

    here = tiny()["figure-1"].settings
    claims = replace(e, settings=here, quick=here).claims(rows_of("figure-1"), here)
    assert {str(claim.verdict) for claim in claims} == {"holds"}
    for claim in replace(e, quick=e.settings).claims(rows_of("figure-1"), here):
        assert str(claim.verdict) == "not decided"
        assert "long_steps = 10 (full run: 60)" in claim.sentence
