"""A figure costs one file and a claim one function: each is added to a copy of the package and used there."""

from __future__ import annotations

import json

import pytest
from extension import Copy

FIGURE = '''"""Figure 99: the squares of some integers."""

from dataclasses import dataclass

from prgd_paper.claims import Finding, claim
from prgd_paper.reproduce.experiment import Experiment
from prgd_paper.report.elements import Figure, Line, Panel


@dataclass(frozen=True)
class Settings:
    """How many integers there are."""

    count: int = 5


def compute(settings, task):
    return [{"x": x, "y": x**2} for x in range(settings.count)]


def draw(rows, settings):
    panel = Panel("squares", (Line("squares", rows.x.to_numpy(), rows.y.to_numpy()),), "x", "y")
    return [Figure("figure-99", "Squares", "A parabola that opens upwards.", (panel,))]


def reading(rows, settings):
    return f"The largest square is {rows.y.max()}."


@claim("squares-grow", "Squares grow.", where="Figure 99", experiment="figure-99")
def squares_grow(rows, settings):
    return Finding((float(rows.y.iloc[-1]), ">", float(rows.y.iloc[0])), "The last square is the largest.")


EXPERIMENT = Experiment.of_module(
    __name__, order=99, title="Squares", where="Figure 99", quick=Settings(count=3)
)
'''

CLAIM = '''"""A claim about sums."""

from prgd_paper.claims import Finding, claim


@claim("sum-of-odds", "The first n odd integers have the sum n^2.", where="Section 99")
def sum_of_odds():
    return Finding((float(sum(range(1, 20, 2))), "==", 100.0), "The first ten have the sum 100.")
'''


@pytest.mark.slow
def test_a_figure_is_one_file(tmp_path):
    copy = Copy(tmp_path)
    copy.add("prgd_paper/figures/figure_99.py", FIGURE)
    assert "figure-99" in copy.prgd("reproduce", "--list")[0]
    shown = copy.prgd("reproduce", "--only", "figure-99")[0]
    assert "holds               squares-grow: Squares grow." in shown
    report = tmp_path / "report"
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "The largest square is 16." in page
    assert (report / "figures" / "figure-99.svg").exists()
    (claim,) = json.loads((report / "claims.json").read_text())
    assert claim["verdict"] == "holds"
    # The command for claims reads the same rows, and gives the same verdict.
    assert copy.prgd("claims", "squares-grow")[0].startswith("holds                squares-grow")


@pytest.mark.slow
def test_a_claim_is_one_function(tmp_path):
    copy = Copy(tmp_path)
    copy.add("prgd_paper/theory/claims/sums.py", CLAIM)
    assert "sum-of-odds" in copy.prgd("claims", "--list")[0]
    assert copy.prgd("claims", "sum-of-odds")[0].startswith("holds                sum-of-odds (Section 99)")
