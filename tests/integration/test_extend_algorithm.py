"""An algorithm is one file: from ``algorithms/`` it runs on the command line with options of its own."""

from __future__ import annotations

import pytest
from extension import Copy

NEW_ONE = '''
"""Normalized gradient descent with a decaying step."""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    made = Copy(tmp_path_factory.mktemp("copy"))
    made.add("algorithms/new_one.py", NEW_ONE)
    return made


def run(copy, *options, code=0):
    return copy.prgd("run", "toy:0.3", "--steps", 9, "--algorithm", "new-one", *options, code=code)


@pytest.mark.slow
def test_it_runs_with_its_own_options(copy):
    out, err = run(copy, "--its-field", 3, "--careful", "--pauses", "every:7", "--out", "out")
    assert err == ""
    assert "algorithm: NewOne(its_field=3, careful=True, pauses=Every(steps=7), eta=1.0)\n" in out
    assert "steps: 9\n" in out
    # A result of the new algorithm is saved and resumed like any other.
    out, _ = copy.prgd(
        *("run", "toy:0.3", "--steps", 20, "--algorithm", "new_one", "--its-field", 3, "--careful"),
        *("--pauses", "every:7", "--resume", "out/result.npz"),
    )
    assert "steps: 20\n" in out


def test_its_options_are_in_the_help(copy):
    words = " ".join(copy.prgd("run", "--help")[0].replace("│", " ").split())
    assert "--its-field N new-one: the steps from one halving to the next. [default: none]" in words
    assert "new-one: Whether the first step is halved already, which nobody needs." in words
    assert " new-one, " in words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "new-one has no default for --its-field: give it."),
        (["--its-field", "x"], "Invalid value for '--its-field': "),
        (["--its-field", "3", "--pauses", "often"], "--pauses: Unknown kind of phases 'often'."),
        (["--its-field", "3", "--rho", "2"], "--rho does not apply to new-one, which takes --its-field and"),
    ],
)
def test_mistakes_are_one_line(copy, options, said):
    _, err = run(copy, *options, code=2)
    assert err.startswith(f"Error: {said}")
    assert err.count("\n") == 1


def test_other_algorithms_do_not_take_its_options(copy):
    _, err = copy.prgd("run", "toy:0.3", "--algorithm", "ngd", "--its-field", 3, code=2)
    assert err.startswith("Error: --its-field does not apply to ngd, which takes --eta.")


def test_it_is_a_name_of_the_package(copy):
    out, _ = copy.python("-c", "from prgd.algorithms import NewOne; print(NewOne(3))")
    assert out == "NewOne(its_field=3, careful=False, pauses=Every(steps=1000), eta=1.0)\n"


def test_a_file_without_its_algorithm_is_named(tmp_path):
    broken = Copy(tmp_path)
    broken.add("algorithms/lost.py", "X = 1\n")
    _, err = broken.prgd("--version", code=1)
    assert "lost.py must define one algorithm whose class name is 'lost' in any case" in err
