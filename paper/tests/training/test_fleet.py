"""The runs that decide Figure 5b: their plan, the processes that run it, and the files that keep the rows."""

import csv
import json
import math
import shutil
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from prgd_paper.training import fleet
from prgd_paper.training import merge as merge_vgg
from prgd_paper.training.fleet import Fleet, run_job
from prgd_paper.training.images import synthetic
from prgd_paper.training.plan import METHODS, SCHEDULES, Job, Plan, Results
from prgd_paper.training.settings import Settings, Where
from prgd_paper.training.train_loop import Run

PLAN = Plan("synthetic", epochs=2, tuning_epochs=1, seeds=2, printed_seeds=1, rates=(1e-3, 1e-2), amp="off")
# A job that writes its files at once, without torch.
STUB = """
import json, pathlib, sys
job = json.loads(sys.argv[sys.argv.index("--job") + 1])
schedule = "" if job["schedule"] == "printed" else job["schedule"] + "-"
name = f"{job['part']}-{job['method']}-{job['lr']:g}-{schedule}{job['seed']}"
if job["method"] == sys.argv[2]:
    sys.exit("no luck")
out = pathlib.Path(sys.argv[1])
(out / f"{name}.csv").write_text("epoch,test_accuracy,train_loss,train_accuracy\\n1,0.5,0.1,1.0\\n")
(out / f"{name}.json").write_text('{"seconds": 1.0}')
"""


def accurate(job):
    """Return an accuracy that makes 1e-2 and the schedule beta-4 the best."""
    return {1e-2: 0.8}.get(job.lr, 0.7) + {"beta-4": 0.1}.get(job.schedule, 0.0)


def test_tuned_runs_are_named_when_the_tuning_is_done(tmp_path):
    plan, results = Plan(), Results(tmp_path)
    first = plan.jobs(results)
    assert len(first) == len(set(first)) == 3 * 4 + 3 * 3  # rates, and the printed configuration
    named = []
    for _ in range(3):
        new = [job for job in plan.jobs(results) if not results.is_done(job)]
        named.append(Counter((job.part, job.method) for job in new))
        for job in new:
            results.write(job, [{"test_accuracy": accurate(job)}], {})
    # GD and NGD are tuned as soon as their rates are done, PRGD when its schedules are done.
    tuned = {("final", "gd"): 5, ("final", "ngd"): 5}
    assert named[1] == {("tune", "prgd"): len(SCHEDULES) - 1, **tuned}
    assert named[2] == {("final", "prgd"): 5, ("unprojected", "prgd"): 5}
    best = {method: plan.best(results, method) for method in METHODS}
    assert {job.lr for job in best.values()} == {1e-2}
    assert [best[method].schedule for method in METHODS] == ["printed", "printed", "beta-4"]
    assert {job.schedule for job in plan.jobs(results) if job.part == "unprojected"} == {"beta-4"}


def test_settings_of_the_parts():
    plan = Plan()
    printed = Job("printed", "prgd", 1e-3, 1).settings(plan)
    assert (printed.weight_decay, printed.dropout, printed.stop_loss, printed.epochs) == (5e-4, 0.5, 0.0, 100)
    tune = Job("tune", "prgd", 1e-2, 0, "beta-4").settings(plan)
    assert (tune.weight_decay, tune.dropout, tune.stop_loss, tune.validation) == (0.0, 0.0, 1e-4, 0.1)
    R, T = tune.schedules(45_000)
    assert (R.a, T.b, T(1), tune.warm_up) == (0.2, 4.0, 33, 24_000)
    final = Job("unprojected", "prgd", 1e-2, 4).settings(plan)
    assert (final.project, final.epochs, final.validation) == (False, 200, 0.0)
    assert Job("tune", "prgd", 1e-2, 0, "beta-4").name == "tune-prgd-0.01-beta-4-0"


@pytest.fixture
def stub(tmp_path):
    def make(broken="", **options):
        command = [sys.executable, "-S", "-c", STUB, str(tmp_path), broken]
        return Fleet(PLAN, Results(tmp_path), 4, command, **options)

    return make


@pytest.mark.slow
@pytest.mark.cover
def test_all_runs_are_done_in_processes(stub, tmp_path, capsys):
    all_of_them = stub()
    all_of_them.go(poll=0.01)
    jobs = PLAN.jobs(all_of_them.results)
    assert all_of_them.results.done(jobs) == jobs
    assert len(jobs) == 3 * 2 + (len(SCHEDULES) - 1) + 3 + 3 * 2 + 2
    assert "0 failures" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.cover
def test_a_run_that_fails_is_tried_again_and_then_left(stub, capsys):
    some = stub("gd")
    some.go(poll=0.01)
    assert set(some.failures.values()) == {fleet.TRIES}
    assert {job.method for job in some.failures} == {"gd"}
    assert {job.method for job in some.results.done(PLAN.jobs(some.results))} == {"ngd", "prgd"}
    assert "no luck" in capsys.readouterr().out


def test_a_job_goes_on_from_its_checkpoint_and_is_stored(tmp_path):
    job, results = Job("final", "ngd", 1e-2, 1), Results(tmp_path)
    images, folder = synthetic(100, size=8), tmp_path / fleet.RUNNING / job.name
    folder.mkdir(parents=True)
    Run(replace(job.settings(PLAN), epochs=1), images, Where(device="cpu", out=folder)).go()
    run_job(PLAN, job, images, results, Where(device="cpu"))
    assert [row["epoch"] for row in results.rows(job)] == ["0", "1", "2"]
    assert results.facts(job)["settings"]["stop_loss"] == 1e-4
    assert not folder.exists()


def test_a_deadline_stops_the_runs(tmp_path, capsys):
    command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    Fleet(PLAN, Results(tmp_path), 2, command, time.time() + 0.2).go(poll=0.05)
    assert capsys.readouterr().out.count("stopped") == 2


def test_a_run_ends_when_it_separates_at_the_loss():
    settings = Settings(algorithm="gd", epochs=60, lr=0.03, stop_loss=1e-2)
    run = Run(settings, synthetic(100, size=8), Where(device="cpu"))
    run.go()
    *before, last = run.log.rows
    assert (last["train_accuracy"], run.epoch < 60) == (1.0, True)
    assert last["train_loss"] < 1e-2
    assert all(row["train_loss"] >= 1e-2 or row["train_accuracy"] < 1.0 for row in before)


def test_a_run_that_is_not_finite_ends():
    settings = Settings(algorithm="gd", epochs=5, model="mlp", lr=1e30)
    run = Run(settings, synthetic(64, size=8), Where(device="cpu"))
    run.go()
    assert run.epoch < 5
    assert not run.log.rows[-1]["log_train_loss"] < math.inf


# merged rows

STORED = Plan("synthetic", seeds=2, printed_seeds=2, rates=(1e-3, 1e-2), schedules=("printed", "beta-4"))


ROW = {"train_accuracy": 1.0, "train_loss": 1e-5, "log_train_loss": -11.512925464970229}
ROW |= {"normalized_margin": 1e-33, "norm": 100.0}


def epoch_row(epoch, accuracy, undone=0):
    return ROW | {"epoch": epoch, "test_accuracy": accuracy, "undone": undone}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """All runs of the plan: three epochs, of which the second and the third are undone."""
    found = Results(tmp_path_factory.mktemp("results"))
    for _ in range(3):  # Tuned runs are named when the tuning is done.
        for job in STORED.jobs(found):
            accuracy = 0.8 + job.lr + 0.05 * (job.schedule == "beta-4") + 1e-3 * job.seed
            rows = [epoch_row(0, 0.1), epoch_row(1, accuracy), *(epoch_row(e, accuracy, 1) for e in (2, 3))]
            found.write(job, rows, {"settings": {}})
    return found


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_merged_rows_leave_out_what_repeats(results, tmp_path):
    table, _, record = merge_vgg.merge(STORED, results, tmp_path / "merged")
    rows = read(table)
    assert {row["setting"] for row in rows} == {"as printed", "tuned"}
    runs = {(row["setting"], row["method"], row["seed"]) for row in rows}
    assert len(runs) == 2 * 3 + 2 * 4
    assert len(rows) == 3 * len(runs)
    one = [row for row in rows if (row["method"], row["seed"]) == ("PRGD, no projection", "1")]
    assert [(row["epoch"], row["undone"]) for row in one] == [("0", "0"), ("1", "0"), ("3", "2")]
    chosen = {(row["lr"], row["schedule"], row["log_train_loss"]) for row in one}
    assert chosen == {("0.01", "beta-4", "-11.5129")}
    content = json.loads(record.read_text())
    assert (len(content["runs"]), content["missing"]) == (len(runs), [])


def test_merged_tuning_names_what_was_chosen(results, tmp_path):
    _, tuning, _ = merge_vgg.merge(STORED, results, tmp_path / "merged")
    rows = read(tuning)
    assert len(rows) == 3 * 2 + 1
    chosen = [(row["method"], row["lr"], row["schedule"]) for row in rows if row["chosen"] == "1"]
    assert chosen == [("GD", "0.01", ""), ("NGD", "0.01", ""), ("PRGD", "0.01", "beta-4")]


def test_runs_that_are_missing_are_named(results, tmp_path):
    some = Results(shutil.copytree(results.folder, tmp_path / "some"))
    (some.folder / "final-ngd-0.01-1.json").unlink()
    *_, record = merge_vgg.merge(STORED, some, tmp_path / "merged")
    assert json.loads(record.read_text())["missing"] == ["final-ngd-0.01-1"]


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
