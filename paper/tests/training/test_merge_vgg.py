"""The rows of the runs behind Figure 5b, merged into the files that the figure is drawn from."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from prgd_paper.training import merge as merge_vgg
from prgd_paper.training.plan import Plan, Results

PLAN = Plan("synthetic", seeds=2, printed_seeds=2, rates=(1e-3, 1e-2), schedules=("printed", "beta-4"))


ROW = {"train_accuracy": 1.0, "train_loss": 1e-5, "log_train_loss": -11.512925464970229}
ROW |= {"normalized_margin": 1e-33, "norm": 100.0}


def epoch_row(epoch, accuracy, undone=0):
    return ROW | {"epoch": epoch, "test_accuracy": accuracy, "undone": undone}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """All runs of the plan: three epochs, of which the second and the third are undone."""
    found = Results(tmp_path_factory.mktemp("results"))
    for _ in range(3):  # Tuned runs are named when the tuning is done.
        for job in PLAN.jobs(found):
            accuracy = 0.8 + job.lr + 0.05 * (job.schedule == "beta-4") + 1e-3 * job.seed
            rows = [epoch_row(0, 0.1), epoch_row(1, accuracy), *(epoch_row(e, accuracy, 1) for e in (2, 3))]
            found.write(job, rows, {"settings": {}})
    return found


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_merged_rows_leave_out_what_repeats(results, tmp_path):
    table, _, record = merge_vgg.merge(PLAN, results, tmp_path / "merged")
    rows = read(table)
    assert {row["setting"] for row in rows} == {"as printed", "tuned"}
    runs = {(row["setting"], row["method"], row["seed"]) for row in rows}
    assert len(runs) == 2 * 3 + 2 * 4
    assert len(rows) == 3 * len(runs)
    one = [row for row in rows if (row["method"], row["seed"]) == ("PRGD, no projection", "1")]
    assert [(row["epoch"], row["undone"]) for row in one] == [("0", "0"), ("1", "0"), ("3", "2")]
    assert {(row["lr"], row["schedule"], row["log_train_loss"]) for row in one} == {
        ("0.01", "beta-4", "-11.5129")
    }
    content = json.loads(record.read_text())
    assert (len(content["runs"]), content["missing"]) == (len(runs), [])


def test_merged_tuning_names_what_was_chosen(results, tmp_path):
    _, tuning, _ = merge_vgg.merge(PLAN, results, tmp_path / "merged")
    rows = read(tuning)
    assert len(rows) == 3 * 2 + 1
    chosen = [(row["method"], row["lr"], row["schedule"]) for row in rows if row["chosen"] == "1"]
    assert chosen == [("GD", "0.01", ""), ("NGD", "0.01", ""), ("PRGD", "0.01", "beta-4")]


def test_runs_that_are_missing_are_named(results, tmp_path):
    some = Results(shutil.copytree(results.folder, tmp_path / "some"))
    (some.folder / "final-ngd-0.01-1.json").unlink()
    *_, record = merge_vgg.merge(PLAN, some, tmp_path / "merged")
    assert json.loads(record.read_text())["missing"] == ["final-ngd-0.01-1"]


def test_merge_without_results_is_an_error(tmp_path, capsys):
    assert merge_vgg.main(["--out", str(tmp_path), "--to", str(tmp_path)]) == 2
    assert "No run is done" in capsys.readouterr().err


def test_findings_are_written_between_the_marks_of_a_page(results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{merge_vgg.BEGIN}\nold\n{merge_vgg.END}\nafter\n")
    options = ["--data", "synthetic", "--seeds", "2", "--printed-seeds", "2", "--rates", "0.001", "0.01"]
    options += ["--schedules", "printed", "beta-4"]
    places = ["--out", results.folder, "--to", tmp_path / "merged", "--docs", page]
    assert merge_vgg.main([*options, *map(str, places)]) == 0
    text = page.read_text()
    assert (text[:6], text[-6:], "\nold\n" in text) == ("before", "after\n", False)
    assert "14 runs beside 7 of the tuning are stored." in text
    assert "| PRGD, no projection | 0.01 | beta 4 | 2 of 2 |" in text
    assert "**Not decided.**" in text


def test_the_docs_have_what_the_stored_rows_show():
    root = Path(__file__).parents[3]
    docs = (root / "docs" / "deep.md").read_text(encoding="utf-8")
    assert merge_vgg.findings(root / "paper" / "prgd_paper" / "figures" / "data") in docs
