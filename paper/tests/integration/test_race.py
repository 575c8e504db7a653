"""The race benchmark: its peers solve the same problem, its rules keep what can win, its scores add up."""

import csv
import importlib
import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
RACE = ROOT / "benchmarks" / "race"
PEERS = sorted(path.stem for path in (RACE / "solvers").glob("*.py"))
EXACT = {"ours", "liblinear", "libsvm", "clarabel", "piqp", "nnls"}


@pytest.fixture(autouse=True)
def race_is_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(RACE))


def part(name):
    return importlib.import_module(f"benchmark_utils.{name}")


def tiny(n=60, d=6, seed=0):
    """Gaussian rows pushed away from a plane that misses the origin."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    X[:, 0] += 0.4 * y
    X[:, 1] += 2.0 * y  # separable through the origin too
    return X, y


def objective_of(X, y, fit_intercept):
    objective = part("load").module(RACE / "objective.py").Objective(fit_intercept=fit_intercept)
    objective.set_data(X, y)
    return objective


@pytest.mark.no_cover  # Most peers are other packages.
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(60, 6), (20, 50)], ids=["tall", "wide"])
@pytest.mark.parametrize("stem", PEERS)
def test_every_peer_solves_the_same_problem(stem, shape, fit_intercept):
    load = part("load")
    solver = load.module(RACE / "solvers" / f"{stem}.py").Solver
    if lacking := load.missing(solver):
        pytest.skip(f"{', '.join(lacking)} not installed: pip install '.[bench]'")
    objective = objective_of(*tiny(*shape), fit_intercept)
    enough = 1e-5 if stem in EXACT else 0.5  # first-order methods and logistic regression come near, no more
    gap = math.inf
    for ladder in part("shapes").ladders(solver):
        peers = [solver(**rung) for rung in reversed(ladder)]
        peer = next((peer for peer in peers if not peer.skip(**objective.get_objective())[0]), None)
        if peer is not None and gap > enough:
            peer.set_objective(**objective.get_objective())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                steps = iter(range(2000))
                peer.run(lambda: next(steps, None) is not None)  # noqa: B023 - called in this turn alone
            gap = objective.evaluate_result(**peer.get_result())["value"]
    assert -1e-7 <= gap <= enough


def test_a_certificate_is_judged_by_the_data_alone():
    module = part("load").module(RACE / "objective.py")
    X, y = tiny()
    X = module.scaled(X)
    for fit_intercept in (False, True):
        found = module.certify(X, y, fit_intercept, 1e-8)
        assert 0.0 < found.lower <= found.upper
        assert found.gap <= 1e-8
        # any other weights only bound from further above
        assert module.upper_bound(X, y, np.ones(len(y)), fit_intercept) >= found.upper
        assert module.upper_bound(X, y, -found.p, fit_intercept) == math.inf
        assert module.gamma(X, y, np.zeros(6), fit_intercept) == -1.0


def ladder_of(*rungs):
    """Return a ladder and what running each of its rungs gives: (seconds, gap), or a status."""
    return [{"rung": k} for k in range(len(rungs))], rungs


def run_sweep(*ladders, **rules):
    sweep = part("sweep")
    asked = []

    def run_once(parameters, limit):
        asked.append((parameters["ladder"], parameters["rung"], limit))
        found = ladders[parameters["ladder"]][1][parameters["rung"]]
        if isinstance(found, str):
            return {"status": found, "seconds": limit if found == "limit" else 0.0}
        seconds, gap = found
        if seconds > limit:
            return {"status": "limit", "seconds": limit}
        return {"status": "ok", "seconds": seconds, "gap": gap}

    steps = [[{"ladder": k, **rung} for rung in ladder] for k, (ladder, _) in enumerate(ladders)]
    return sweep.sweep(steps, run_once, sweep.Rules(**rules)), asked, sweep.time_to


def test_a_sweep_keeps_the_fastest_run_for_each_gap():
    runs, asked, time_to = run_sweep(ladder_of((6.0, 1e-3), (8.0, 1e-7), (9.0, 1e-9)), ladder_of((7.0, 1e-5)))
    assert [(k, rung) for k, rung, _ in asked] == [(0, 0), (0, 1), (1, 0)]  # the last rung cannot win
    assert min(time_to(run, 1e-2) for run in runs) == 6.0
    assert min(time_to(run, 1e-4) for run in runs) == 7.0
    assert min(time_to(run, 1e-6) for run in runs) == 8.0
    assert asked[2][2] == pytest.approx(1.2 * 8.0)  # nobody may be slower than who met every gap


def test_means_with_and_without_capped_cases():
    score = part("score")
    scores = score.Scores((1e-6,), 60.0)

    def took(seconds):
        return [{"parameters": {}, "laps": [{"seconds": seconds, "gap": 1e-9}]}]

    one, two = score.Case("a", "origin"), score.Case("b", "origin")
    for case, ours, theirs in ((one, took(1.0), took(4.0)), (two, took(0.6), [])):
        scores.add(case, score.OURS, ours)
        scores.add(case, "LIBLINEAR", theirs)
    mean = score.summarise(scores, 1e-6, "LIBLINEAR")
    assert (mean.cases, mean.capped, mean.worst_case) == (2, 1, one)
    assert mean.mean == pytest.approx(math.sqrt(0.25 * 0.01))
    assert mean.mean_uncapped == pytest.approx(0.25)
    assert score.verdict(mean, score.Aim("LIBLINEAR", 1.0, 5.0)) == "met"
    assert score.verdict(mean, score.Aim("LIBLINEAR", 0.01, 0.2)).startswith("MISSED")
    assert score.profile(scores, 1e-6, "LIBLINEAR") == [(4.0, 0.5)]
    scores.add(one, "Clarabel", took(3.0))
    scores.add(one, "PIQP", took(2.0))
    assert scores.times[1e-6][one][score.BEST_QP].seconds == 2.0


@pytest.mark.slow
def test_the_race_runs_resumes_and_reports(tmp_path):
    pytest.importorskip("piqp", reason="the bench extra is not installed: pip install '.[bench]'")
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    X, y = tiny()
    np.savez(data / "small.npz", X=X, y=y)
    np.savez(data / "mixed.npz", X=np.vstack([X, -X]), y=np.concatenate([y, y]))  # no separator at all

    def race(*more):
        command = [sys.executable, "-m", "benchmarks.race", "--only", "piqp", "--limit", "5"]
        command += ["--variants", "origin", "--out", str(out), *more]
        environment = {**os.environ, "PRGD_DATA": str(data)}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    first = race()
    assert first.returncode == 0, first.stderr
    assert first.stderr == ""  # quiet when piped
    assert "Ratios at 1e-6" in first.stdout
    assert "Left out: mixed, origin: not separable" in first.stdout
    with (out / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["peer"] for row in rows} == {"prgd", "PIQP"}
    assert all(float(row["gap"]) < 1e-2 for row in rows if row["status"] == "ok")
    assert json.loads((out / "facts.json").read_text())["threads"] == 2
    page = (out / "race.html").read_text()
    assert "<svg" in page
    assert "src=" not in page
    assert "stylesheet" not in page
    # the rows are on disk: a second call runs nothing and writes the docs
    kept = {path: path.stat().st_mtime_ns for path in (out / "rows").iterdir()}
    docs = tmp_path / "race.md"
    docs.write_text("before\n<!-- race:begin -->\nold\n<!-- race:end -->\nafter\n")
    second = race("--write-docs", str(docs))
    assert second.returncode == 0, second.stderr
    assert {path: path.stat().st_mtime_ns for path in (out / "rows").iterdir()} == kept
    text = docs.read_text()
    assert "| small, origin |" in text
    assert "old" not in text
    assert text.endswith("after\n")
