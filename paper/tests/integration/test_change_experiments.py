"""Experiments that a reader changes: a setting, the code, and one section of a page at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from extension import Copy
from shared import made_once


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
    assert said == ""
    assert "not decided         section-4-prgd" in shown
    assert "On the page too, from stored rows: figure-2." in shown
    assert rows(copy) != before
    assert record(copy)["settings"]["gamma_star"] == 0.5
    assert record(copy)["changed_settings"] == {"gamma_star": {"here": 0.5, "full run": 0.3}}
    assert verdicts(copy)["section-4-prgd"] == "not decided"
    assert verdicts(copy)["section-5-favorable"] == "holds"  # figure-2 is not concerned
    assert "gamma_star = 0.5 (full run: 0.3)" in page(copy)
    assert "--set figure-1.gamma_star=0.5" in page(copy)
    copy.prgd("reproduce", "--quick", "--only", "figure-1", "--jobs", 1)
    assert rows(copy) == before
    assert verdicts(copy)["section-4-prgd"] == "holds"
    # One setting more, and the section of figure-1 is still there.
    copy.prgd("reproduce", "--quick", "--only", "figure-2", "--set", "figure-2.angle=1", "--jobs", 1)
    assert 'section id="figure-1"' in page(copy)
    assert set(verdicts(copy)) == {"section-4-attractor", "section-4-prgd", "section-5-favorable"}


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
    assert said == (
        "Note: figure-1: 1 task is computed again, since the code that computes them changed: "
        "prgd_paper.figures.figure_1. --keep-rows keeps them.\n"
    )
    assert "prgd_paper.figures.figure_1" not in page(copy)
    file.write_text(text)
    assert copy.prgd(*run)[1] == ""  # The rows of the earlier code are still there.
