"""An algorithm, a command and an engine are one file each: they are found by their presence."""

import pytest
from extension import Copy

NEW_ONE = '''
"""Normalized gradient descent with a decaying step."""
from dataclasses import dataclass
from typing import ClassVar
from prgd.algorithms.base import State
from prgd.algorithms.ngd import NGD
from prgd.schedules import Every, Times
@dataclass(frozen=True)
class NewOne:
    """NGD whose step halves every few steps.

    Parameters
    ----------
    its_field : int, the steps from one halving to the next.
    careful : bool
        Whether the first step is halved already,
        which nobody needs.
    pauses : Times, the steps that are left out.
    eta : float, the first step.
    """
    its_field: int
    careful: bool = False
    pauses: Times = Every(1000)
    eta: float = 1.0
    state_type: ClassVar[type[State]] = State
    def init(self, problem, w0):
        return NGD().init(problem, w0)
    def step(self, problem, s):
        eta = self.eta * 0.5 ** (s.t // self.its_field + self.careful)
        return NGD(eta).step(problem, s)
'''

COUNT = '''
"""The command ``prgd count-rows``."""
from prgd.cli import common
from prgd.cli.data import open_data

def count_rows_command(data: common.Data, debug: common.Debug = False) -> None:
    """Count the rows of DATA."""
    with common.one_line_errors(debug):
        name, rows, *_ = open_data(data, common.RowsOptions())
        common.print_table([(name, str(rows.n))])
'''

ENGINE = '''
"""Rows of a spreadsheet: a list of dictionaries from column to number."""
import numpy as np
from prgd.rows.base import LeafRows, register
from prgd.rows.labels import Labels
from prgd.rows.blocks import Measure, Measurement

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

def _is_sheet(X):
    return isinstance(X, list) and bool(X) and isinstance(X[0], dict)
register(_is_sheet, lambda X, y, sample_weight, n_jobs: SheetRows(X, y, sample_weight))
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


RUN = "run toy:0.3 --steps 9 --algorithm new-one"
SETTINGS = "--its-field 3 --careful --pauses every:7"
# What a command says: (exit code, text) of one line on standard error, or of standard output if it is 0.
COMMANDS = {
    f"{RUN} {SETTINGS} --out out": (0, "NewOne(its_field=3, careful=True, pauses=Every(steps=7), eta=1.0)\n"),
    # A result of the new algorithm is saved and resumed like any other.
    f"run toy:0.3 --steps 20 --algorithm new_one {SETTINGS} --resume out/result.npz": (0, "steps: 20\n"),
    RUN: (2, "new-one has no default for --its-field: give it."),
    f"{RUN} --its-field x": (2, "Invalid value for '--its-field': "),
    f"{RUN} --its-field 3 --pauses often": (2, "--pauses: Unknown kind of phases 'often'."),
    f"{RUN} --its-field 3 --no-project": (2, "--no-project does not apply to new-one, which takes --its-"),
    "run toy:0.3 --algorithm ngd --its-field 3": (2, "--its-field does not apply to ngd, which takes --eta."),
    "run --help": (0, "--its-field N new-one: the steps from one halving to the next. [default: none]"),
    "run  --help": (0, "new-one: Whether the first step is halved already, which nobody needs."),
    "run toy:0.3 --algorithm ngd --steps 3": (0, "data: toy, 3 x 2, dense\n"),  # other input keeps its engine
    "count-rows digits:0,1": (0, "digit-01: 360\n"),
    "count-rows digit:0,1": (2, "Unknown file or data set 'digit'."),
    "--help": (0, "Count the rows of DATA."),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    made = Copy(tmp_path_factory.mktemp("copy"))
    made.add("algorithms/new_one.py", NEW_ONE)
    made.add("cli/count_rows.py", COUNT)
    made.add("rows/sheet.py", ENGINE)
    return made


@pytest.mark.slow
def test_a_new_algorithm_and_a_new_command_on_the_command_line(copy):
    for (command, (code, text)), found in zip(COMMANDS.items(), copy.calls(*COMMANDS), strict=True):
        assert found["code"] == code, (command, found)
        if code:
            assert found["stderr"].startswith(f"Error: {text}"), command
            assert found["stderr"].count("\n") == 1
        else:
            words = " ".join(found["stdout"].replace("│", " ").split())
            assert text in (words if "--help" in command else found["stdout"]), command
            assert found["stderr"] == ""


def test_an_algorithm_is_a_name_of_the_package(copy):
    out, _ = copy.python("-c", "from prgd.algorithms import NewOne; print(NewOne(3))")
    assert out == "NewOne(its_field=3, careful=False, pauses=Every(steps=1000), eta=1.0)\n"


def test_a_file_without_its_algorithm_is_named(tmp_path):
    broken = Copy(tmp_path)
    broken.add("algorithms/lost.py", "X = 1\n")
    _, err = broken.python("-m", "prgd", "--version", code=1)
    assert "lost.py must define one algorithm whose class name is 'lost' in any case" in err


@pytest.mark.slow
def test_a_new_engine_serves_run_and_max_margin(copy):
    assert copy.python("-c", USE) == ("done\n", "")
