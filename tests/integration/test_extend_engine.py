"""An engine is one file: from ``rows/`` it serves a new kind of input everywhere, without other edits."""

from __future__ import annotations

import pytest
from extension import Copy

ENGINE = '''
"""Rows of a spreadsheet: a list of dictionaries from column to number."""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.rows.base import LeafRows, register
from prgd.rows.labels import Labels
from prgd.rows.queries import Measure, Measurement


class SheetRows(LeafRows):
    """Rows in dictionaries; a column that a row lacks is zero."""

    def __init__(self, X, y=None, sample_weight=None):
        self._columns = sorted({name for row in X for name in row})
        self._rows = [dict(row) for row in X]
        self.n, self.d = len(self._rows), len(self._columns)
        self.labels = Labels.read(y, sample_weight, self.n)

    def ask(self, query, labels=None):
        if isinstance(query, Measure):
            norms = [sum(v * v for v in row.values()) ** 0.5 for row in self._rows]
            return Measurement(max(norms), norms.count(0.0))
        return query.answer(self, self.labels if labels is None else labels)

    def times(self, w):
        return np.array([sum(w[self._columns.index(k)] * v for k, v in row.items()) for row in self._rows])

    def combine(self, c):
        return self.take(np.arange(self.n)).T @ c

    def take(self, indices):
        rows = [self._rows[i] for i in indices]
        return np.array([[row.get(k, 0.0) for k in self._columns] for row in rows]).reshape(-1, self.d)


def _is_sheet(X: Any) -> bool:
    return isinstance(X, list) and bool(X) and isinstance(X[0], dict)


def _make(X, y, sample_weight, n_jobs):
    return SheetRows(X, y, sample_weight)


register(_is_sheet, _make)
'''

USE = """
import numpy as np, prgd
X, y = prgd.datasets.digits(0, 1, 60)
sheet = [{f"c{j:02}": v for j, v in enumerate(row) if v} for row in X.tolist()]
used = [j for j in range(64) if X[:, j].any()]
for fit_intercept in (False, True):
    problem = prgd.Problem(sheet, y, fit_intercept=fit_intercept)
    assert type(problem.rows).__name__ == "SheetRows"
    plain = prgd.Problem(X[:, used], y, fit_intercept=fit_intercept)
    a, b = (prgd.run(p, prgd.NGD(), stop=20) for p in (problem, plain))
    np.testing.assert_allclose(a.w, b.w, rtol=1e-9)
    assert a.passes == b.passes == 21
    found = prgd.max_margin(sheet, y, fit_intercept=fit_intercept)
    assert found.status is prgd.Status.CERTIFIED
    expected = prgd.max_margin(X[:, used], y, fit_intercept=fit_intercept).margin
    np.testing.assert_allclose(found.margin, expected, rtol=2e-6)
print("done")
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    made = Copy(tmp_path_factory.mktemp("copy"))
    made.add("rows/sheet.py", ENGINE)
    return made


@pytest.mark.slow
def test_a_new_engine_serves_run_and_max_margin(copy):
    out, err = copy.python("-c", USE)
    assert out == "done\n"
    assert err == ""


@pytest.mark.slow
def test_other_input_keeps_its_engine(copy):
    out, _ = copy.prgd("run", "toy:0.3", "--algorithm", "ngd", "--steps", 3)
    assert "data: toy, 3 x 2, dense\n" in out
