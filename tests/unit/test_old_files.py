"""Files written by earlier versions load, and runs saved by them go on to the same bits.

Progressive Newton solves linear systems, which libraries round differently: its run goes on to the same w up
to a few units in the last place.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import prgd
from prgd.algorithms import find_algorithm

DATA = Path(__file__).parent.parent / "data"
EXPECTED = json.loads((DATA / "result-1-expected.json").read_text())
ROUNDING = {"progressive-newton": 1e-15}  # relative to the length of w; all others are exact


@pytest.mark.parametrize("name", EXPECTED)
def test_a_result_of_version_1_is_resumed(name):
    saved = prgd.Result.load(DATA / f"result-1-{name}.npz")
    assert saved.t == 7
    assert 0.0 < saved.certificate.upper < np.inf
    problem = prgd.Problem(*prgd.datasets.toy(0.3))
    result = prgd.run(problem, find_algorithm(name)(), resume=saved, stop=15)
    expected = np.array([float.fromhex(v) for v in EXPECTED[name]])
    tolerance = ROUNDING.get(name, 0.0) * np.linalg.norm(expected)
    np.testing.assert_allclose(result.w, expected, rtol=0.0, atol=tolerance)


def test_a_result_of_an_unknown_version_is_refused(tmp_path):
    meta = np.array(json.dumps({"format": "prgd-result-99"}))
    np.savez(tmp_path / "future.npz", meta=meta)
    with pytest.raises(ValueError, match="format 'prgd-result-99', which this version of prgd does not know"):
        prgd.Result.load(tmp_path / "future.npz")
