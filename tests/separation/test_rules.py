"""Cells of factors and ranges of numbers that are separated, in sentences that are true of the data."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from separation.rule_trial import trial

import prgd

RNG = np.random.default_rng(3)
TRIAL = pd.DataFrame({"age": RNG.integers(20, 80, 400), "trt": RNG.choice(["high", "low"], 400)})
TRIAL["sex"], TRIAL["stage"] = RNG.choice(list("fm"), 400), RNG.choice(["I", "II", "III"], 400)
TRIAL["event"] = RNG.integers(0, 2, 400)
EMPTY = (TRIAL.stage == "I") & (TRIAL.sex == "f")
CELLS = TRIAL.assign(event=TRIAL.event.mask(EMPTY, 0))


@pytest.mark.parametrize("index", range(40))
def test_sentences_are_true_and_cover_what_factors_separate(index):
    assert trial(0, index)[2] == []


def test_an_empty_cell_is_named_in_text_json_and_copies():
    found = prgd.separability.from_formula("event ~ age + sex*stage + stage*trt", CELLS)
    sentence = f"all {EMPTY.sum()} rows with sex f and stage I have event 0"
    assert str(found).splitlines()[3] == f"  {sentence}."
    assert f"<p>{sentence}.</p>" in found._repr_html_()
    (facts,) = json.loads(found.to_json())["rules"]
    assert facts["text"] == sentence
    assert facts["conditions"][1] == {"column": "stage", "relation": "=", "value": "I"}
    assert [*map(str, pickle.loads(pickle.dumps(found)).rules)] == [sentence]  # noqa: S301


def test_rows_that_statsmodels_drops_do_not_count():
    data = CELLS.assign(log=CELLS.event, age=CELLS.age.astype(float).mask(CELLS.index % 9 == 0))
    found = prgd.separability.from_statsmodels(smf.logit("event ~ np.log(age) + C(sex)*stage", data))
    count = (EMPTY & data.age.notna()).sum()
    assert [*map(str, found.rules)] == [f"all {count} rows with sex f and stage I have event 0"]


def test_thresholds_and_weights():
    first, weight = (TRIAL.trt == "low").idxmax(), np.ones(400)
    data = TRIAL.assign(event=TRIAL.event.mask(TRIAL.trt == "low", TRIAL.age > 61))
    data.loc[first, ["age", "event"]] = 79, 0
    weight[first] = 0
    found = prgd.separability.from_formula("event ~ sex + age*trt", data, sample_weight=weight)
    assert [str(rule).partition(" rows ")[2] for rule in found.rules] == [
        "with trt low and age <= 61 have event 0",
        "of positive weight with trt low and age > 61 have event 1",
    ]


def test_large_and_tangled_data_are_met_with_silence(monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 5))
    assert prgd.separability(X, X.sum(axis=1) > 0).rules == ()  # Boxes would need too many thresholds.
    assert len(prgd.separability(X, X[:, 0] > 0).rules) == 2
    monkeypatch.setattr(prgd.regression.rules, "_MAX_ENTRIES", 1000)
    assert prgd.separability(X, X[:, 0] > 0).rules == ()
