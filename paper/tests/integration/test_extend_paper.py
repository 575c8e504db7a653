"""A figure costs one file, a claim one function, a training option one field; and experiments that change."""

import json
from pathlib import Path

import pytest
from extension import Copy
from shared import made_once

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


# experiments that a reader changes


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    def make(folder: Path) -> None:
        Copy(folder).prgd("reproduce", "--quick", "--only", "figure-1", "figure-2", "--jobs", 1)

    return Copy(tmp_path_factory.mktemp("copy"), like=made_once(tmp_path_factory, "two-figures", make))


def rows(copy, name="figure-1") -> bytes:
    return (copy.folder / "report" / "rows" / f"{name}.csv").read_bytes()


def record(copy, name="figure-1") -> dict:
    return json.loads((copy.folder / "report" / "rows" / f"{name}.json").read_text())


def verdicts(copy) -> dict[str, str]:
    claims = json.loads((copy.folder / "report" / "claims.json").read_text())
    return {claim["name"]: claim["verdict"] for claim in claims}


def page(copy) -> str:
    return (copy.folder / "report" / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_set_changes_rows_and_the_next_run_without_it_has_the_old_ones(copy):
    before = rows(copy)
    shown, said = copy.prgd("reproduce", "--quick", "--set", "figure-1.gamma_star=0.5", "--jobs", 1)
    assert [line.split(" after ")[0] for line in said.splitlines()] == ["figure-1: done", "figures: done"]
    assert "not decided         section-4-prgd" in shown
    assert "On the page too, from stored rows: figure-2." in shown
    assert rows(copy) != before
    assert record(copy)["settings"]["gamma_star"] == 0.5
    assert record(copy)["changed_settings"] == {"gamma_star": {"here": 0.5, "full run": 0.3}}
    assert verdicts(copy)["section-4-prgd"] == "not decided"
    assert "gamma_star = 0.5 (full run: 0.3)" in page(copy)
    assert "--set figure-1.gamma_star=0.5" in page(copy)
    copy.prgd("reproduce", "--quick", "--only", "figure-1", "--jobs", 1)
    assert rows(copy) == before
    assert verdicts(copy)["section-4-prgd"] == "holds"
    # One setting more, and the section of figure-1 is still there.
    copy.prgd("reproduce", "--quick", "--only", "figure-2", "--set", "figure-2.angle=1", "--jobs", 1)
    assert 'section id="figure-1"' in page(copy)
    assert set(verdicts(copy)) == {"section-4-attractor", "section-4-prgd", "theorem-5.5"}


@pytest.mark.slow
def test_rows_follow_the_file_that_computes_them(copy):
    run = ("reproduce", "--quick", "--only", "figure-1", "--jobs", 1)
    copy.prgd(*run)
    before, file = rows(copy), copy.folder / "prgd_paper/figures/figure_1.py"
    text = file.read_text()
    file.write_text(text.replace("steps: int = 8", "steps: int = 8  # as drawn"))
    _, said = copy.prgd(*run, "--keep-rows")
    assert said == ""
    assert rows(copy) == before
    assert "prgd_paper.figures.figure_1" in page(copy)
    assert "prgd_paper.figures.figure_1" in record(copy)["rows_of_other_code"]
    _, said = copy.prgd(*run)
    assert said.startswith(
        "Note: figure-1: 1 task is computed again, since the code that computes them changed: "
        "prgd_paper.figures.figure_1. --keep-rows keeps them.\nfigure-1: done after"
    )
    assert "prgd_paper.figures.figure_1" not in page(copy)
    file.write_text(text)
    assert copy.prgd(*run)[1] == ""  # The rows of the earlier code are still there.


# a training option

FIELD = '    label_noise: float = option(0.0, "Part of the labels to draw.")\n'
PLACE = "    def __post_init__(self)"  # the end of the fields of Settings


@pytest.fixture(scope="module")
def with_a_field(tmp_path_factory):
    """Return a copy of the package whose Settings have one field more."""
    copy = Copy(tmp_path_factory.mktemp("package"))
    file = copy.folder / "prgd_paper" / "training" / "settings.py"
    before, after = file.read_text().split(PLACE, 1)
    file.write_text(f"{before}{FIELD}\n{PLACE}{after}")
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("command", [["prgd", "train"], ["prgd_paper.training.command"]])
def test_a_field_of_settings_is_an_option_of_both_command_lines(with_a_field, command, tmp_path):
    torch = pytest.importorskip("torch", reason="training needs PyTorch")
    shown, _ = with_a_field.python("-m", *command, "--help")
    assert "--label-noise" in shown
    assert "Part of the labels to draw." in shown
    options = ["--model", "linear", "--epochs", "1", "--device", "cpu", "--quiet", "--out", str(tmp_path)]
    with_a_field.python("-m", *command, *options, "--label-noise", "0.25")
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["settings"]["label_noise"] == 0.25
