"""The out-of-core benchmark, at the smallest size that still proves its point."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from shared import python

import prgd

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "out_of_core.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCRIPT.exists(), reason="benchmarks/ is not part of this copy"),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
    # plain Python kernels would read a gigabyte for hours
    pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="needs compiled kernels"),
]


def test_a_file_four_times_the_allowed_memory_is_fitted_as_in_memory(tmp_path):
    report = tmp_path / "report.json"
    options = ["--kinds", "npy", "--allow", "240MB", "--size", "970MB", "--steps", "3"]
    python(SCRIPT, *options, "--dir", tmp_path, "--json", report)
    (row,) = json.loads(report.read_text())
    assert "error" not in row, row["error"]
    assert row["file_bytes"] >= 4 * row["allow"]
    assert row["peak_anonymous"] < row["allow"]
    assert row["peak_reserved"] <= row["allow"]
    # the watch works: the same fit from memory holds the whole file
    assert row["whole_anonymous"] > row["file_bytes"]
    assert row["samples"] > 50
    assert row["w_difference"] <= 1e-12
    assert row["bounds_difference"] <= 1e-12
    assert row["is_met"]
    assert not list(tmp_path.glob("prgd-out-of-core-*"))


def test_the_name_of_a_file_stands_for_its_rows(tmp_path):
    X, y = prgd.datasets.digits(0, 1)
    np.save(tmp_path / "acts.npy", X)
    found = prgd.max_margin(str(tmp_path / "acts.npy"), y)
    assert found.status is prgd.Status.CERTIFIED
    assert found.check(tmp_path / "acts.npy", y).is_valid
    assert found.score(tmp_path / "acts.npy", y) == 1.0
