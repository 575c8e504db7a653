"""The queue of runs behind Figure 5b: order, time limit, results, merge, and the figure drawn from them."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch

from prgd.deep.training.images import synthetic
from prgd.reproduce import figure_5b
from prgd.reproduce.report.interactive import plots
from prgd.reproduce.store import frame, to_csv
from prgd.reproduce.vgg import experiment
from prgd.reproduce.vgg.experiment import Queue, run_plan
from prgd.reproduce.vgg.jobs import METHODS, Job, Plan, Results

specification = importlib.util.spec_from_file_location(
    "merge_vgg", Path(__file__).parents[2] / "benchmarks" / "merge_vgg.py"
)
merge_vgg = importlib.util.module_from_spec(specification)
specification.loader.exec_module(merge_vgg)
merge = merge_vgg.merge
PLAN = Plan("synthetic", epochs=1, seeds=2, rates=(1e-3, 1e-2), regularisations=("none",), amp="off")
IMAGES = synthetic(200, size=8)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """All runs of the plan, two at a time, in two sittings: tuning first."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("results")
    said: list[str] = []
    tuning = Plan(**{**vars(PLAN), "parts": ("tune",)})
    run_plan(tuning, IMAGES, out, together=2, device="cpu", say=said.append)
    assert len(said) == 7
    run_plan(PLAN, IMAGES, out, together=2, device="cpu", say=said.append)
    return Results(out)


def test_jobs_at_a_tuned_rate_wait_for_all_rates(tmp_path):
    results = Results(tmp_path)
    jobs = Plan().jobs(results)
    assert len(jobs) == len(set(jobs)) == 2 * 3 * 4 + 2 * 3 * 3  # tuning, and the paper's rate
    tuned = Plan(parts=("tune", "test"), regularisations=("none",), seeds=3)
    for job in tuned.jobs(results):
        accuracy = {1e-3: 0.7, 3e-3: 0.8, 1e-2: 0.9, 3e-2: 0.1}[job.lr]
        results.write(job, [{"test_accuracy": accuracy}], {})
    jobs = [job for job in tuned.jobs(results) if job.part == "test"]
    assert len(jobs) == 9
    assert {job.lr for job in jobs} == {1e-2}


def test_settings_of_a_job():
    plan = Plan()
    plain = Job("test", "none", "prgd", 1e-3, 1).settings(plan)
    assert (plain.model, plain.batch, plain.epochs, plain.momentum) == ("vgg16", 64, 60, 0.9)
    assert (plain.weight_decay, plain.dropout, plain.validation, plain.augment) == (0.0, 0.0, 0.0, False)
    decay = Job("validation", "decay", "gd", 1e-2, 0).settings(plan)
    assert (decay.weight_decay, decay.dropout, decay.validation) == (5e-4, 0.5, 0.1)
    R, T = plain.schedules(50_000)
    assert (T.warm_up, T(1), R.cap) == (24_000, 13, 1000.0)


@pytest.mark.slow
def test_every_run_is_done_once(results):
    jobs = PLAN.jobs(results)
    assert results.done(jobs) == jobs
    facts = results.facts(jobs[0])
    assert facts["settings"]["lr"] == jobs[0].lr
    assert facts["versions"]["torch"] == torch.__version__
    before = {path.name: path.stat().st_mtime_ns for path in results.folder.iterdir()}
    run_plan(PLAN, IMAGES, results.folder, device="cpu", say=lambda line: None)
    assert {path.name: path.stat().st_mtime_ns for path in results.folder.iterdir()} == before


def test_runs_beside_each_other_do_not_change_each_other(results, tmp_path):
    (job, *_) = (job for job in PLAN.jobs(results) if job.part == "test" and job.method == "prgd")
    alone = experiment.Run(job.settings(PLAN), IMAGES, experiment.Where(device="cpu"))
    alone.go()
    expected = [f"{row['train_loss']}" for row in alone.log.rows]
    assert [row["train_loss"] for row in results.rows(job)] == expected


def test_no_run_starts_that_cannot_end_in_time(tmp_path):
    queue = Queue(PLAN, Results(tmp_path), deadline=experiment.time.monotonic() + 100.0)
    assert queue.take() is not None  # nothing is known yet
    queue.seconds_per_epoch.append(80.0)
    assert queue.take() is not None
    queue.seconds_per_epoch.append(1000.0)
    assert queue.take() is None


def test_a_run_that_is_stopped_goes_on_at_the_next_call(tmp_path):
    plan = Plan(**{**vars(PLAN), "parts": ("paper",), "seeds": 1, "epochs": 2})
    said: list[str] = []
    run_plan(plan, IMAGES, tmp_path, minutes=0.0, device="cpu", keep=True, say=said.append)
    queue = Queue(plan, Results(tmp_path), deadline=-math.inf)
    job = plan.jobs(queue.results)[0]
    experiment._run(queue, job, IMAGES, "cpu", True, said.append)
    assert said[-1] == f"{job.name}: stopped at epoch 0 of 2"
    assert (tmp_path / "unfinished" / job.name / "checkpoint.pt").is_file()
    queue.deadline = math.inf
    experiment._run(queue, job, IMAGES, "cpu", True, said.append)
    assert queue.results.is_done(job)
    assert not (tmp_path / "unfinished" / job.name).exists()


def test_a_failure_is_said_and_ends_the_queue(tmp_path, monkeypatch):
    def fail(*arguments):
        raise ValueError("no luck")

    monkeypatch.setattr(experiment, "Run", fail)
    with pytest.raises(RuntimeError, match=r"ValueError: no luck"):
        run_plan(PLAN, IMAGES, tmp_path, together=2, device="cpu", say=lambda line: None)


def test_merge_writes_small_files_and_the_figure_is_drawn(results, tmp_path, monkeypatch):
    table, tuning, record = merge(PLAN, results, tmp_path)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {row["setting"] for row in rows} == {"no regularisation", "no regularisation, rate 0.001"}
    assert {row["method"] for row in rows} == {"GD", "NGD", "PRGD"}
    assert len(rows) == 2 * 3 * 2 * 2  # settings, methods, seeds, epochs 0 and 1
    assert sum(int(row["chosen"]) for row in csv.DictReader(tuning.read_text().splitlines())) == len(METHODS)
    runs = json.loads(record.read_text())["runs"]
    assert len({json.dumps(run["job"]) for run in runs}) == len(runs)
    monkeypatch.setattr(figure_5b, "_content", lambda name: (tmp_path / name.split("/")[-1]).read_bytes())
    settings = figure_5b.Settings()
    stored = frame(to_csv(figure_5b.compute(settings, "stored")))
    accuracy, training = figure_5b.draw(stored, settings)
    assert [len(accuracy.panels), len(training.panels)] == [2, 4]
    for figure in (accuracy, training):
        assert len(plots(figure)) == len(figure.panels)
    results_table, tuning_table = figure_5b.tables(stored, settings)
    assert len(results_table.rows) == 6
    assert len(tuning_table.rows) == 6
    claim = figure_5b.prgd_generalizes_better(stored, settings)
    assert "rate 0.001" not in claim.sentence


def test_merge_of_part_of_the_runs_is_drawn_too(results, tmp_path, monkeypatch):
    some = Results(tmp_path / "some")
    some.folder.mkdir()
    for job in PLAN.jobs(results)[:8]:
        for end in ("csv", "json"):
            content = (results.folder / f"{job.name}.{end}").read_bytes()
            (some.folder / f"{job.name}.{end}").write_bytes(content)
    merge(PLAN, some, tmp_path)
    monkeypatch.setattr(figure_5b, "_content", lambda name: (tmp_path / name.split("/")[-1]).read_bytes())
    settings = figure_5b.Settings()
    stored = frame(to_csv(figure_5b.compute(settings, "stored")))
    assert len(figure_5b.draw(stored, settings)) == 2
    assert figure_5b.tables(stored, settings)
    assert figure_5b.prgd_generalizes_better(stored, settings).sentence


def test_merge_without_results_is_an_error(tmp_path, capsys):
    assert merge_vgg.main(["--out", str(tmp_path), "--to", str(tmp_path)]) == 2
    assert "No run is done" in capsys.readouterr().err


def test_list_names_all_runs(tmp_path, capsys):
    assert experiment.main(["list", "--out", str(tmp_path), "--seeds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 3 * 4 + 2 * 3
    assert lines[0] == "to do  validation-none-prgd-0.001-0"
