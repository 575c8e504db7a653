"""``prgd race``: algorithms by name and from a file on one data set, as a table, rows and a figure."""

import csv
import json
from pathlib import Path

import pytest
from command_line import call, in_empty_folder  # noqa: F401 - a fixture too

import prgd

OWN = '''"""Algorithms of a user."""
from dataclasses import dataclass
from prgd.algorithms import NGD

@dataclass(frozen=True)
class Own(NGD):
    share: float = 0.9
    def step(self, problem, s):
        return type(self).__base__(self.share * self.eta).step(problem, s)

class Broken(Own):
    def step(self, problem, s):
        return 1 / 0

class Nothing:
    pass

half = Own(share=0.5)
'''


@pytest.fixture(autouse=True)
def a_file(in_empty_folder):  # noqa: F811
    Path("my_file.py").write_text(OWN)


def race(*args: object, code: int = 0):
    return call("race", *args, "--data", "digits:0,1", "--no-intercept", code=code)


@pytest.mark.slow
def test_own_and_built_in_algorithms_race():
    algorithms = ("ngd", "poly=prgd --radius polynomial:0.6 --every 7 --warm-up gd:20")
    own = ("--algorithm", "my_file.py:Own --share 0.8", "--algorithm", "my_file.py:half")
    found = race(*algorithms, *own, "--steps", 60, "--out", "out")
    assert found.stderr == ""  # no progress through a pipe
    assert "best known margin: 0.121711" in found.stdout
    with Path("out/race.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ["ngd", "poly", "Own --share 0.8", "half"]
    assert list(dict.fromkeys(row["algorithm"] for row in rows)) == names
    best = json.loads(Path("out/race.json").read_text())["best_known_margin"]
    for row in rows:
        assert float(row["lower"]) <= best * (1 + 1e-9) <= float(row["upper"]) * (1 + 2e-9)
    last = {row["algorithm"]: row for row in rows}
    assert {row["t"] for row in last.values()} == {"60"}  # the warm-up of poly is part of its steps
    assert [row["part"] for row in rows if row["algorithm"] == "poly"][:2] == ["warm-up", "warm-up"]
    assert last["poly"]["passes"] == "62"
    # The same runs, by hand.
    problem = prgd.Problem(*prgd.datasets.digits(0, 1))
    result = prgd.run(problem, prgd.NGD(), stop=60)
    assert float(last["ngd"]["lower"]) == result.certificate.lower
    assert float(last["ngd"]["upper"]) == result.certificate.upper
    warm = prgd.run(problem, prgd.GD(), stop=20)
    poly = prgd.PRGD(prgd.schedules.Polynomial(0.6), prgd.schedules.Every(7))
    result = prgd.run(problem, poly, warm.w, stop=40)
    assert float(last["poly"]["margin"]) == pytest.approx(float(result.history["margin"][-1]), rel=1e-12)
    for end in ("png", "svg", "pdf"):
        assert Path(f"out/race.{end}").stat().st_size > 5000
    assert "best known margin - lower bound" in Path("out/race.svg").read_text()
    # Files of an earlier race are not overwritten unawares.
    assert "--force to replace them" in race("ngd", "--out", "out", code=2).stderr
    race("ngd", "--steps", 5, "--out", "out", "--force", "--quiet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("my_file.py:Broken", "Broken failed with ZeroDivisionError: division by zero."),
        (
            "my_file.py:Nope",
            "my_file.py:Nope: no Nope. An algorithm is a class or a value with init(problem, w",
        ),
        ("my_file.py:Nothing", "Nothing of my_file.py has no init and no step"),
        ("none.py:A", "names an algorithm in a file; found no file none.py."),
        ("my_file.py:half --eta 2", "unrecognized arguments: --eta 2. In a race it takes --warm-up."),
        ("my_file.py:Own --shape 1", "it takes --warm-up, --eta, --share."),
        ("ngd --eta fast", "ngd: argument --eta: invalid float value: 'fast'."),
        ("ngdd", "Unknown algorithm 'ngdd'. Did you mean ngd"),
        ("ngd --warm-up 5", "--warm-up expects NAME:STEPS, e.g. gd:1000, or 0; got '5'."),
        ("prgd", "prgd: its warm-up takes 1,000 of the 20 steps"),
        ("prgd --warm-up 0", "PRGD needs a non-zero w0"),
        (("ngd", "ngd"), "Two algorithms are called 'ngd'. Give one a label: other=ngd."),
        ((), "expects at least one algorithm"),
    ],
)
def test_mistakes_are_one_sentence(text, words):
    found = race(*([text] if isinstance(text, str) else text), "--steps", 20, code=2)
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1
    assert words in found.stderr


def test_there_must_be_a_margin():
    Path("mixed.csv").write_text("y,a\n1,1\n-1,2\n1,3\n-1,1\n")
    assert "mixed: there is no margin to race" in call("race", "ngd", "--data", "mixed.csv", code=2).stderr
