"""The plan of the runs that decide Figure 5b, and the processes that run it before a deadline."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from dataclasses import replace

import pytest
from prgd_paper.training import fleet
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


def test_list_names_the_runs(tmp_path, capsys):
    assert fleet.main(["list", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "to do  tune-gd-0.01-0"


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
