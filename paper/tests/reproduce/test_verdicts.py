"""The rule of each experiment's claim, fed with made-up rows for every outcome that it can have."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from prgd_paper.claims import Claim, Judgement, registered
from prgd_paper.figures import _digit_rank as digit_rank
from prgd_paper.figures import _synthetic as synthetic
from prgd_paper.figures import figure_5a, table_1
from prgd_paper.reproduce.experiment import load
from prgd_paper.studies import gated_schedule, schedule_sweep
from reproduce.tiny import tiny

HOLDS, CAVEAT, FAILS, OPEN = Judgement.HOLDS, Judgement.CAVEAT, Judgement.FAILS, Judgement.NOT_DECIDED
SEEDS = range(20)


def judged(name: str, rows: pd.DataFrame) -> Claim:
    """Return what a claim finds in made-up rows, with the settings of the full run and their seeds."""
    tiny()  # imports every experiment, which registers its claims
    claim = registered()[name]
    settings = load(claim.experiment).settings
    if name.startswith("table-2"):
        settings = replace(settings, seeds=rows.seed.nunique())
    found = claim(rows, settings)
    assert found.finding.setting
    assert found.finding.would_change
    return found


# Table 1


def fits(method: str, quantity: str, *rates: tuple[str, float], error: float = 1e-3) -> pd.DataFrame:
    rows = []
    for k, (rate, constant) in enumerate(rates):
        base = {"set": f"set-{k}", "method": method, "quantity": quantity}
        same = dict.fromkeys(("constant", "low", "high"), constant)
        rows.append(base | same | {"kind": "fit", "rate": rate})
        curve = base | {"kind": "curve", "quantity": "direction", "value": error}
        rows += [curve | {"t": float(t)} for t in (5, 10)]
    return pd.DataFrame(rows)


LOG, UNDECIDED = ("1/log t", 0.2), ("undecided", math.nan)


@pytest.mark.parametrize(("frozen", "expected"), [(17, HOLDS), (3, FAILS), (10, OPEN)])
def test_prgd_exp_freezes(frozen, expected):
    stuck = fits("PRGD(exp)", "margin", *[UNDECIDED] * frozen, error=1e-3)
    done = fits("PRGD(exp)", "margin", *[("e^-ct", 0.03)] * (20 - frozen), error=1e-13)  # rounding
    rows = pd.concat([stuck, done.assign(set="done " + done["set"])])
    found = judged("table-1-prgd-exp", rows)
    assert found.verdict is expected
    assert f"{frozen} of 20" in found.sentence


def test_table_1_has_consecutive_seeds():
    assert table_1.tasks(table_1.Settings()) == ("toy", *(f"random-{seed}" for seed in range(20)))


# Figures 1 and 2


def paths(heights: list[float], prgd: float) -> pd.DataFrame:
    """Return a path of NGD with these second coordinates, and the ends of both methods."""
    ngd = {"kind": "path", "method": "NGD", "value": 0.2}
    rows = [{"kind": "attractor", "lower": 0.0, "upper": 1.0}]
    rows += [ngd | {"t": t, "y": y} for t, y in enumerate(heights)]
    for method, kind, error in (("NGD", "curve", 0.2), ("PRGD", "path", prgd)):
        end = {"method": method, "t": 1, "y": 1.0, "value": error}
        rows += [end | {"kind": kind}, end | {"kind": "curve"}]
    return pd.DataFrame(rows)


# Figures 3 and 6


def passages(steps: list[tuple[int, int, int, int]]) -> pd.DataFrame:
    levels = synthetic.Settings().levels
    return pd.DataFrame(
        [
            {"kind": "passage", "set": "I", "seed": seed, "method": "PRGD(exp)", "x": x, "t": t}
            for seed, four in enumerate(steps)
            for x, t in zip(levels, four, strict=True)
        ]
    )


FAST, SLOW, NEVER = (0, 50, 70, 85), (0, 10, 50, 300), (0, 50, 70, -1)


def curves(errors: dict[str, list[float]]) -> pd.DataFrame:
    base = {"kind": "curve", "set": "I", "t": 10}
    rows = [
        base | {"seed": seed, "method": method, "margin": synthetic.GAMMA_STAR - error}
        for method, some in errors.items()
        for seed, error in enumerate(some)
    ]
    return pd.DataFrame([*rows, {"kind": "mean", "set": "I", "seed": 0, "margin": 0.0, "t": 0}])


# Table 2


def counted(first: list[int], second: list[int], method: str, lasting=1, warm_up=0) -> pd.DataFrame:
    base = {"method": method, "warm_up": warm_up, "lasting": lasting}
    return pd.DataFrame(
        [
            base | {"dataset": name, "seed": seed, "steps": t}
            for name, steps in (("I", first), ("II", second))
            for seed, t in enumerate(steps)
        ]
    )


def test_passages_that_do_not_last_are_told():
    rows = counted([12_000, 13_000], [5_000, -1], "NGD", lasting=0)
    sentence = judged("table-2-ngd", rows).sentence
    assert "2 of the 2 (set I) and 1 of the 1 (set II) first passages do not last" in sentence


# Figure 4


def digit_rows(early: dict[str, float], late: dict[str, float], ngd: float = 0.999) -> pd.DataFrame:
    base = {"set": "digit-01", "rows": "300"}
    facts = {"gamma_star": 1.0, "gamma_ngd": ngd, "n": 300, "d": 64, "leads NGD until": 1_000}
    facts["leads with warm-up counted until"] = -1
    rows = [base | {"kind": "fact", "name": name, "value": value} for name, value in facts.items()]
    for t, errors in ((1_000, early), (20_000, late)):
        rows += [base | {"kind": "curve", "method": m, "t": t, "margin": 1.0 - e} for m, e in errors.items()]
    return pd.DataFrame(rows)


def digit_errors(poly: float, exp: float = 0.5) -> dict[str, float]:
    return {"GD": 0.2, "NGD": 0.1, "PRGD(poly)": poly, "PRGD(exp)": exp, "dual acceleration": 1e-6}


@pytest.mark.parametrize(
    ("early", "late", "expected"), [(0.05, 0.05, CAVEAT), (0.05, 0.15, OPEN), (0.15, 0.15, OPEN)]
)
def test_digits_at_two_horizons(early, late, expected):
    rows = digit_rows(digit_errors(early), digit_errors(late))
    found = judged("section-7.1-digits", rows)
    assert found.verdict is expected
    assert all(words in found.finding.sentence for words in ("1,000", "20,000", "ours"))


def test_size_of_the_digits():
    rows = digit_rows(digit_errors(0.05), digit_errors(0.05))
    for name, value, expected in (("n", 300, HOLDS), ("n", 360, OPEN), ("d", 65, FAILS)):
        rows.loc[rows.name == name, "value"] = value
        assert judged("section-7.1-digit-size", rows).verdict is expected


@pytest.mark.parametrize(("rank", "data_rank", "expected"), [(2, 51, CAVEAT), (3, 51, OPEN), (2, 50, OPEN)])
def test_rank_of_digit_01(rank, data_rank, expected):
    near = dict.fromkeys(digit_rank.TOLERANCES, (9, 9)) | {1e-4: (rank, rank)}
    found = digit_rank.Ranks(near, n=360, n_support=16, support_rank=16, data_rank=data_rank)
    assert digit_rank.judge(found, found._replace(near=dict.fromkeys(near, (9, 9)))).verdict is expected


# Figure 5


def separability_rows(without: list[str], confirmed: float = 1.0) -> pd.DataFrame:
    scalings = list(figure_5a.preprocessed(np.eye(3) + 1.0))
    rows = []
    for scaling, chosen in zip(scalings, without, strict=True):
        base = {"kind": "separability", "scaling": scaling, "t": 569, "value": confirmed}
        rows.append(base | {"name": "without intercept", "chosen": chosen})
        rows.append(base | {"name": "with intercept", "chosen": "separable"})
    return pd.DataFrame(rows)


def accuracies(lead: dict[str, float], noise: float = 0.0) -> pd.DataFrame:
    settings, rng = figure_5a.Settings(), np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "kind": "curve", "scaling": scaling, "seed": seed, "method": method, "t": t,
                "accuracy": 0.9 + (method == "PRGD(poly)") * (by + noise * rng.standard_normal()),
            }
            for scaling, by in lead.items()
            for seed in SEEDS
            for method in figure_5a.METHODS
            for t in settings.times
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "standardised", "noise", "expected"),
    [
        (0.02, 0.02, 0.001, HOLDS),
        (0.02, -0.02, 0.001, OPEN),  # the two readings disagree
        (0.01, 0.01, 0.05, OPEN),  # chance
        (-0.02, -0.02, 0.001, OPEN),  # neither reading need be the paper's
    ],
)
def test_cancer_accuracy(raw, standardised, noise, expected):
    rows = accuracies({"raw": raw, "standardised": standardised}, noise)
    found = judged("section-7.2-cancer", rows)
    assert found.verdict is expected
    assert all(f"at {t}" in found.sentence for t in (150, 200, 300))


# Sweeps


def sweep_rows(ranks: tuple[int, int]) -> pd.DataFrame:
    """Return rows in which alpha = beta = 0.6 has these ranks at the two horizons."""
    settings = schedule_sweep.Settings()
    rows = []
    for t, rank in zip(settings.times, ranks, strict=True):
        rows.append({"set": "digit-01", "family": "ngd", "first": 0.0, "second": 0.0, "t": t, "error": 0.5})
        pairs = [(a, b) for a in settings.powers for b in settings.phase_powers if (a, b) != settings.tuned]
        pairs.insert(rank - 1, settings.tuned)
        rows += [
            {"set": "digit-01", "family": "polynomial", "first": a, "second": b, "t": t, "error": float(k)}
            for k, (a, b) in enumerate(pairs)
        ]
    return pd.DataFrame(rows)


def poly_over_ngd(poly: list[float]) -> pd.DataFrame:
    return curves({"PRGD(poly)": poly, "NGD": [2e-3] * 20})


def against_exp(exp: list[float]) -> pd.DataFrame:
    return curves({"PRGD(exp)": exp, "NGD": [2e-3] * 20, "GD": [4e-3] * 20})


def total_work(dual: list[int]) -> pd.DataFrame:
    exp = counted([100] * 20, [100] * 20, "PRGD(exp)", warm_up=1_000)
    return pd.concat([exp, counted(dual, dual, "dual acceleration")])


def poly_and_exp(*exp: float) -> pd.DataFrame:
    return digit_rows(*(digit_errors(0.05, error) for error in exp))


def approximated(ngd: float) -> pd.DataFrame:
    return digit_rows(digit_errors(0.05), digit_errors(0.05), ngd)


def vgg(lead: tuple[float, ...], early: float) -> pd.DataFrame:
    def accuracy(method: str, seed: int, by: float, epoch: int) -> float:
        return 0.8 + (by if epoch == 40 else early + 1e-3 * seed) * (method == "PRGD")

    return pd.DataFrame(
        [
            {"setting": s, "method": m, "seed": k, "epoch": t, "test_accuracy": accuracy(m, k, by, t)}
            for s in ("as printed", "tuned")
            for m in ("GD", "NGD", "PRGD")
            for k, by in enumerate(lead)
            for t in (0, 35, 40)
        ]
    )


def in_dimension_100(exp: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"d": 100, "seed": seed, "method": method, "error": error, "support_rank": 5, "data_rank": 100}
            for seed, e in enumerate(exp)
            for method, error in (("PRGD(exp)", e), ("NGD", 0.1))
        ]
    )


def gated(lower: float) -> pd.DataFrame:
    names = [(method.name, lower) for method in gated_schedule.GATED]
    return pd.DataFrame(
        [
            {"set": name, "method": method, "reads": 1.0, "lower": low, "upper": 1.0}
            for name in gated_schedule.Settings().sets
            for method, low in [*names, ("PRGD(poly)", 0.5)]
        ]
    )


BEHIND = (-0.02, -0.021, -0.019)
GD_FITS, NGD_FITS = ("GD", "direction"), ("NGD", "direction")
DUAL_FITS, PROOF_FITS = ("dual acceleration", "margin"), ("PRGD(proof)", "margin")
POWER = ("t^-a", 1.05)
# The claim, the maker of its rows, and each choice of arguments with the verdict that it must have.
CASES = [
    ("table-1-gd", fits, (*GD_FITS, *[LOG] * 4), HOLDS),
    ("table-1-gd", fits, (*GD_FITS, *[LOG] * 3, UNDECIDED), HOLDS),
    ("table-1-gd", fits, (*GD_FITS, LOG, *[UNDECIDED] * 3), OPEN),
    ("table-1-gd", fits, (*GD_FITS, *[("t^-a", 0.3)] * 4), OPEN),  # a horizon refutes no asymptotic rate
    ("table-1-ngd", fits, (*NGD_FITS, *[POWER] * 4), HOLDS),
    ("table-1-ngd", fits, (*NGD_FITS, *[POWER] * 3, ("t^-a", 0.8)), CAVEAT),  # one rule for every rate
    ("table-1-ngd", fits, (*NGD_FITS, *[("t^-a", 0.8)] * 4), OPEN),
    ("table-1-dual", fits, (*DUAL_FITS, ("t^-a", 1.95), ("t^-a", 3.0), ("e^-ct", 0.1)), HOLDS),
    ("table-1-dual", fits, (*DUAL_FITS, *[("t^-a", 1.5)] * 3), OPEN),
    ("table-1-prgd", fits, (*PROOF_FITS, *[("e^-ct", 0.1)] * 3), HOLDS),
    ("table-1-prgd", fits, (*PROOF_FITS, ("e^-ct", 0.1), *[UNDECIDED] * 3), OPEN),
    ("section-4-attractor", paths, ([0.5, 0.5], 0.1), HOLDS),
    ("section-4-attractor", paths, ([0.5, 2.0], 0.3), OPEN),
    ("section-4-prgd", paths, ([0.5, 0.5], 0.1), HOLDS),
    ("section-4-prgd", paths, ([0.5, 2.0], 0.3), OPEN),
    ("section-7.1-exponential", passages, ([FAST] * 20,), HOLDS),
    ("section-7.1-exponential", passages, ([FAST] * 18 + [NEVER] * 2,), CAVEAT),
    ("section-7.1-exponential", passages, ([SLOW] * 20,), FAILS),
    ("section-7.1-exponential", passages, ([NEVER] * 20,), FAILS),
    ("section-7.1-exponential", passages, ([FAST] * 10 + [SLOW] * 10,), OPEN),
    ("section-7.1-exponential", passages, ([FAST] * 5,), OPEN),  # too few draws for an interval
    ("section-7.1-poly", poly_over_ngd, ([1e-5] * 20,), HOLDS),
    ("section-7.1-poly", poly_over_ngd, ([1e-3] * 20,), OPEN),
    ("section-7.1-poly", poly_over_ngd, ([1e-5] * 10 + [1e-3] * 10,), OPEN),
    ("section-7.1-slow", against_exp, ([1e-9] * 20,), CAVEAT),
    ("section-7.1-slow", against_exp, ([1e-3] * 20,), FAILS),
    ("section-7.1-slow", against_exp, ([1e-9] * 10 + [1e-3] * 10,), OPEN),
    ("table-2-gd", counted, ([-1] * 20, [-1] * 20, "GD"), HOLDS),
    ("table-2-gd", counted, ([100] + [-1] * 19, [-1] * 20, "GD"), CAVEAT),
    ("table-2-gd", counted, ([100] * 20, [100] * 20, "GD"), OPEN),
    ("table-2-ngd", counted, ([365, 20_000, *[-1] * 18], [26, 36_635, *[5_000, 6_000] * 9], "NGD"), CAVEAT),
    ("table-2-ngd", counted, ([5] * 20, [5] * 20, "NGD"), OPEN),
    ("table-2-prgd-exp", counted, ([100, 110] * 10, [90, 100] * 10, "PRGD(exp)"), CAVEAT),
    # within the range of all draws, outside the middle of it
    ("table-2-prgd-exp", counted, ([100] * 39 + [110], [90, 100] * 20, "PRGD(exp)"), OPEN),
    ("table-2-prgd-poly", counted, ([10] * 20, [10] * 20, "PRGD(poly)"), OPEN),
    ("table-2-total-work", total_work, ([200] * 20,), HOLDS),
    ("table-2-total-work", total_work, ([2_000] * 20,), FAILS),
    ("table-2-total-work", total_work, ([200] * 10 + [2_000] * 10,), OPEN),
    ("section-7.1-poly-better", poly_and_exp, (0.5, 0.5), HOLDS),
    ("section-7.1-poly-better", poly_and_exp, (0.5, 0.01), OPEN),
    ("section-7.1-poly-better", poly_and_exp, (0.01, 0.01), OPEN),
    ("section-7.1-approximation", approximated, (0.999,), CAVEAT),
    ("section-7.1-approximation", approximated, (0.9,), OPEN),
    ("section-7.2-cancer-separable", separability_rows, (["not separable"] * 6,), HOLDS),
    ("section-7.2-cancer-separable", separability_rows, (["separable"] * 6,), FAILS),  # every reading refutes
    ("section-7.2-cancer-separable", separability_rows, (["separable"] * 3 + ["not separable"] * 3,), OPEN),
    ("section-7.2-cancer-separable", separability_rows, (["separable"] * 5 + ["undecided"],), OPEN),
    ("section-7.2-cancer-separable", separability_rows, (["not separable"] * 5 + ["undecided"],), OPEN),
    ("section-7.2-cancer-separable", separability_rows, (["separable"] * 6, 0.0), OPEN),  # proofs unconfirmed
    ("section-7.2-vgg", vgg, ((0.02, 0.021, 0.019), 0.0), HOLDS),
    ("section-7.2-vgg", vgg, ((0.02, -0.02, 0.01), 0.0), OPEN),
    ("section-7.2-vgg", vgg, (BEHIND, -0.02), FAILS),  # after any number of epochs, in both readings
    ("section-7.2-vgg", vgg, (BEHIND, 0.02), OPEN),  # ahead after fewer epochs, whose number is not given
    ("section-7.1-tuned", sweep_rows, ((1, 3),), CAVEAT),
    ("section-7.1-tuned", sweep_rows, ((1, 20),), OPEN),
    ("section-7.1-tuned", sweep_rows, ((20, 20),), OPEN),
    ("ours-growing-dimension", in_dimension_100, ([0.2] * 20,), HOLDS),
    ("ours-growing-dimension", in_dimension_100, ([0.01] * 20,), FAILS),
    ("ours-growing-dimension", in_dimension_100, ([0.2] * 10 + [0.01] * 10,), OPEN),
    ("ours-gated", gated, (0.999,), HOLDS),
    ("ours-gated", gated, (0.1,), FAILS),
]


@pytest.mark.parametrize(("name", "make", "given", "expected"), CASES)
def test_made_up_rows_have_their_verdict(name, make, given, expected):
    assert judged(name, make(*given)).verdict is expected
