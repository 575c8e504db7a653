"""The race of all methods: who runs, how a run is judged, and what the table in the docs says."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from prgd_paper.claims import Finding, Judgement, registered
from prgd_paper.studies import _every_method_views as every_method_views
from prgd_paper.studies import every_method
from prgd_paper.studies._every_method_rates import RaceRun, answer, fall, races, tail, verdict_on
from prgd_paper.studies._methods import Raced, listed, unlisted
from prgd_paper.studies._published_rates import KNOWN, MARGIN, RATES, RISK, SEPARATOR, Rate
from reproduce.tiny import rows_of, tiny

from prgd.algorithms import NGD, all_algorithms

NAMES = [method.name for method in every_method.methods(every_method.Settings())]
T = np.unique(np.geomspace(1, 10_000, 150).round())


def made(error, *, t=T, floor=1e-12, **facts) -> RaceRun:
    """Return a run whose error is a function of t."""
    known = {"gamma_squared": 0.01, "n": 100.0, "eta": 1.0, "separated": 5.0, "ended": "steps"} | facts
    values = np.array([error(s) for s in t])
    return RaceRun("made", 0, t, values, values, np.log(values), known.pop("gamma_squared"), floor, **known)


def test_every_algorithm_runs_and_every_rate_belongs_to_one():
    known = {type(e.algorithm) for e in every_method.methods(every_method.Settings())}
    assert known == set(all_algorithms().values())
    assert set(RATES) | set(KNOWN) <= set(NAMES)
    slugs = [e.slug for e in every_method.methods(every_method.Settings())]
    assert len(set(slugs)) == len(slugs)


@dataclass(frozen=True)
class Picky(NGD):
    """An algorithm without an entry, for the l-infinity norm and the logistic loss only."""

    def init(self, problem, w0):
        if (problem.norm.name, problem.loss.name) != ("linf", "logistic"):
            raise ValueError("no")
        return super().init(problem, w0)


class Greedy:
    """An algorithm that cannot be made without an argument."""

    def __init__(self, needed):
        self.needed = needed


@pytest.mark.slow
@pytest.mark.cover
def test_an_algorithm_without_an_entry_runs_with_what_it_accepts(monkeypatch):
    monkeypatch.setitem(all_algorithms(), "picky", Picky)
    monkeypatch.setitem(all_algorithms(), "greedy", Greedy)
    picky, greedy = unlisted(listed(1.2, 5, 0.6, 0.6, 1.05))
    assert (picky.norm, picky.loss, picky.warm_up, picky.note) == ("linf", "logistic", None, "")
    assert "needed" in greedy.note
    settings = tiny()["every-method"].settings
    rows = every_method.compute(settings, "greedy-seed-0")
    assert all(row["ended"].startswith("not run") for row in rows)
    both = [*every_method.compute(settings, "picky-seed-0"), *rows]
    from prgd_paper.reproduce.store import frame, to_csv

    table = every_method_views.extended(frame(to_csv(both)), settings)
    assert [line[2] for line in table.rows] == ["none that we know"] * 2
    assert every_method_views.draw(frame(to_csv(both)), settings)


@pytest.mark.slow
def test_rows_are_errors_of_certified_margins():
    rows = rows_of("every-method")
    assert set(rows.method) == set(NAMES)
    curves, facts = rows[rows.kind == "curve"], rows[rows.kind == "run"]
    assert (curves.error >= -1e-9).all()  # no margin beyond the certified one
    assert (curves.upper >= -1e-9).all()
    assert (curves.worst >= curves.error).all()
    assert (facts.resolution < 1e-8).all()
    hull = curves[curves.method == "MDM"]
    assert (hull.passes > 1.9 * hull.t).all()  # a step makes two passes
    warm = curves[(curves.method == "PRGD(exp)") & (curves.t > 10)]
    assert (warm.passes > warm.t).all()  # the warm-up counts


@pytest.mark.parametrize(
    ("error", "rate", "expected"),
    [
        (lambda t: 1 / t, Rate("", MARGIN, "", power=1.0), True),
        (lambda t: t**-0.95, Rate("", MARGIN, "", power=1.0), True),
        (lambda t: t**-2.0, Rate("", MARGIN, "", power=1.0), True),  # an upper bound
        (lambda t: t**-0.5, Rate("", MARGIN, "", power=1.0), False),
        (lambda t: 0.5 * math.log(t + 1) * t**-0.5, Rate("", MARGIN, "", power=0.5, logs=1.0), True),
        (lambda t: 1 / (2 + math.log(t)), Rate("", MARGIN, "", logs=-1.0), True),
        (lambda t: 0.3 + 0 * t, Rate("", MARGIN, "", power=0.25), False),
        (lambda t: 2.0 + 0 * t, Rate("", MARGIN, "", power=0.25), None),  # nothing separates yet
        (lambda t: 1 / min(t, 8_000.0), Rate("", MARGIN, "", power=1.0), None),  # stops at the end
        (lambda t: math.exp(-0.01 * t), Rate("", MARGIN, "", is_exponential=True), True),
        (lambda t: t**-3.0, Rate("", MARGIN, "", is_exponential=True), False),
        (lambda t: t**-0.5, Rate("", MARGIN, "", is_exponential=True), None),  # not yet at 1e-10
        (lambda t: t**-0.4, Rate("", MARGIN, "", power=0.3, constant=1e-3), False),  # beyond the bound
        (lambda t: 1e4 / t, Rate("", RISK, "", power=1.0), True),
    ],
)
def test_a_run_answers(error, rate, expected):
    assert answer(made(error), rate) is expected


@pytest.mark.parametrize(("separated", "expected"), [(50.0, True), (5_000.0, False), (-1.0, False)])
def test_a_separator_must_be_found_in_time(separated, expected):
    rate = Rate("", SEPARATOR, "")
    assert answer(made(lambda t: 0.5, separated=separated), rate) is expected
    assert answer(made(lambda t: 2.0, separated=-1.0, t=T[T < 100]), rate) is None  # shorter than the bound


def test_slopes_and_falls():
    found = tail(made(lambda t: 3.0 / t**0.7 if t > 5 else 0.9))
    assert (found.slope, found.local) == pytest.approx((0.7, 0.7))
    assert fall(made(lambda t: 10.0 ** (-t / 100))).is_exponential
    assert not fall(made(lambda t: 10.0 ** (-t / 100), floor=1e-9)).is_reached  # the reference is too coarse


@pytest.mark.parametrize(
    ("errors", "rate", "expected"),
    [
        ([1.0, 1.0, 1.0], Rate("", MARGIN, "", power=1.0), Judgement.HOLDS),
        ([1.0, 1.0, 0.5], Rate("", MARGIN, "", power=1.0), Judgement.CAVEAT),
        # asymptotic: never refuted
        ([0.5, 0.5, 0.5], Rate("", MARGIN, "", power=1.0), Judgement.NOT_DECIDED),
        ([0.5, 0.4, 0.1], Rate("", MARGIN, "", power=0.3, constant=0.01), Judgement.FAILS),  # for every step
        ([1.0, 1.0, 1.0], Rate("", MARGIN, "", power=1.0, not_ours="Other radii."), Judgement.NOT_DECIDED),
    ],
)
def test_verdicts_on_a_rate(errors, rate, expected):
    runs = [made(lambda t, a=a: t**-a) for a in errors]
    found = verdict_on(runs, every_method.Settings(), rate)
    assert found.verdict is expected
    assert found.setting
    assert found.would_change


def test_a_run_that_ends_at_once_shows_no_rate():
    brief = made(lambda t: 1e-13, t=np.array([1.0, 2.0]), ended="resolution")
    found = verdict_on([brief], every_method.Settings(), RATES["MDM"])
    assert found.verdict is Judgement.NOT_DECIDED
    assert "1 end at once" in found.sentence


@pytest.mark.slow
@pytest.mark.cover
def test_linear_rates_of_dual_methods_speak_against_all_existing_algorithms():
    rows = rows_of("every-method")
    claims = {c.name: c for c in tiny()["every-method"].claims(rows, tiny()["every-method"].settings)}
    assert claims["introduction-polynomial"].verdict is Judgement.NOT_DECIDED  # short runs speak for nothing
    assert len(claims) == len(RATES) + 1
    fast = rows[(rows.method == "MDM") & (rows["set"] == "digits 0 and 1")].copy()
    is_curve = fast.kind == "curve"
    fast.loc[is_curve, "worst"] = 10.0 ** (-fast.t[is_curve] / 2)
    fast.loc[~is_curve, "ended"] = "steps"
    measure = every_method_views.existing_algorithms_are_polynomial.measure
    found: Finding = measure(fast, tiny()["every-method"].settings)
    assert found.verdict is Judgement.NOT_DECIDED
    assert found.decided_by[0] == (1.0, 1.0)
    assert races(fast)["MDM"]


def test_every_method_has_a_style_of_its_own():
    styles = every_method_views._styles(NAMES)
    assert len(set(styles.values())) == len(NAMES)


def test_a_line_of_the_figure_is_the_median_of_the_draws_and_ends_as_in_the_table():
    runs = [[0.5, 1e-3, 1e-12], [0.4, 1e-12], [0.6, 0.1, 0.01, 1e-3]]
    rows = pd.DataFrame(
        [
            {"kind": "curve", "method": "NGD", "norm": "l2", "set": "synthetic I", "seed": seed}
            | {"t": float(t), "passes": 2.0 * t, "worst": error}
            for seed, errors in enumerate(runs)
            for t, error in enumerate(errors, start=1)
        ]
    )
    panel = every_method_views._panel(rows, "l2", "synthetic I", "", "passes", 10.0)
    (line,) = panel.marks
    assert list(line.x) == [2.0, 4.0, 6.0]  # the median run ends at t = 3
    assert list(line.y) == [0.5, 1e-3, 1e-12]
    assert not panel.is_ours  # the methods are not


def test_claims_say_what_they_ask_and_entrants_have_a_slug_for_files():
    claims = [c for c in registered(["every-method"]).values() if c.name.startswith("rate-")]
    assert len(claims) == len(RATES)
    assert all(c.method.startswith("Count ") for c in claims)
    assert Raced("PRGD(exp), l3 descent", None, "plain").slug == "prgd-exp-l3-descent"


def test_the_docs_have_every_method():
    docs = (Path(__file__).parents[3] / "docs" / "every_method.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"| {name} |" in docs, name
