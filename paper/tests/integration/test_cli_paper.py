"""``prgd reproduce``, ``claims``, ``race`` and ``train``: what prgd_paper registers."""

import importlib
import json
import re
from pathlib import Path

import pytest
from command_line import call, facts, in_empty_folder, interrupt_at, write_three  # noqa: F401 - a fixture too
from prgd_paper.reproduce.experiment import choose

import prgd


def test_reproduce_passes_its_options_on(monkeypatch):
    given: list[dict[str, object]] = []
    opened: list[str] = []
    module = importlib.import_module("prgd_paper.reproduce.make")

    def note(chosen, **options):
        given.append({"only": [experiment.name for experiment in chosen], **options})
        return Path("index.html")

    every = [experiment.name for experiment in module.choose() if experiment.is_for_the_paper]
    assert len(every) == 12
    monkeypatch.setattr(module, "reproduce", note)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert "Left out, as ours: " in call("reproduce").stdout
    assert given[0]["jobs"] >= 1
    plain = {"only": every, "quick": False, "seeds": None, "jobs": given[0]["jobs"], "force": False}
    plain |= {"changes": {}, "keep_rows": False}
    assert given[0] == plain | {"out": Path("report")}
    given_options = "--only figure-3 table-2 --seeds 3 --jobs 2 --out elsewhere --open"
    call("reproduce", *given_options.split())
    changed = {"only": ["figure-3", "table-2"], "seeds": 3, "jobs": 2, "out": Path("elsewhere")}
    assert given[1] == plain | changed
    call("reproduce", "--quick", "--force", "--only", "figure-3,table-1", "--only", "table-2")
    assert given[2]["only"] == ["figure-3", "table-1", "table-2"]
    assert given[2]["quick"] is given[2]["force"] is True
    call("reproduce", "--set", "figure-4.alpha=0.9", "--set", "table-2.eta=2", "--keep-rows")
    assert given[3]["only"] == ["figure-4", "table-2"]
    assert given[3]["changes"] == {"figure-4": {"alpha": "0.9"}, "table-2": {"eta": "2"}}
    assert given[3]["keep_rows"] is True
    assert opened == [Path("index.html").resolve().as_uri()]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--only figure-44", "Unknown experiment 'figure-44'. Did you mean figure-4"),
        ("--out file/report", "Cannot write to the output folder"),
        ("--set figure-1.gama_star=1", "Unknown setting of figure-1 'gama_star'. Did you mean gamma_star?"),
        ("--only figure-2 --set figure-1.steps=9", "Unknown experiment 'figure-1'. Did you mean figure-2?\n"),
    ],
)
def test_reproduce_refuses_before_it_works(args, said):
    Path("file").write_text("")
    found = call("reproduce", *args.split(), code=2)
    assert found.stderr.startswith(f"Error: {said}")
    assert not Path("report").exists()


def test_reproduce_lists_its_experiments():
    found = call("reproduce", "--list")
    assert all(experiment.name in found.stdout for experiment in choose())
    assert "--set figure-4.alpha=0.6" in call("reproduce", "--list", "--only", "figure-4").stdout.splitlines()
    assert not Path("report").exists()


def test_a_race_says_why_an_algorithm_stalled():
    lines = call("race", "ngd", "prgd", "--data", "digits:0,1").stdout.splitlines()
    assert lines[3].split()[:2] == ["prgd", "stalled"]
    assert lines[4].startswith("prgd: The gap has not changed since step 1,383, and more steps do not help")
    given = ["--data", "digits:0,1", "--patience", 0, "--steps", 2000]
    assert call("race", "prgd", *given).stdout.splitlines()[2].split()[6] == "2,000"
    given = ["--data", "synthetic-one:0", "--no-intercept", "--patience", 200]
    assert call("race", "dual-acceleration", *given).stdout.splitlines()[2].split()[1] == "converged"


def test_a_figure_takes_an_algorithm_of_the_user():
    Path("mine.py").write_text("import prgd\n\nclass Mine(prgd.NGD):\n    pass\n")
    small = [f"--set=table-2.{name}=60" for name in ("gd_limit", "ngd_limit", "limit", "prgd_limit")]
    options = ["--algorithm", "mine.py:Mine", *small, "--seeds", 1, "--jobs", 1, "--only", "table-2"]
    said = call("reproduce", *options).stdout
    assert len([line for line in said.splitlines() if " Mine " in line]) == 2
    found = call("reproduce", "--algorithm", "mine.py:Other", code=2)
    assert "Other" in found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("t", [0, 2, 9])
def test_an_interrupted_race_shows_the_algorithms_that_ended(monkeypatch, t):
    interrupt_at(monkeypatch, prgd.NGD, t)
    given = ["race", "gd", "ngd", "gated-prgd", "--data", "toy:0.3", "--steps", 20]
    found = call(*given, "--out", "out", code=130)
    assert found.stderr == "Interrupted; 1 of 3 algorithms ended.\n"
    assert re.search(r"^gd +max steps .* 20 ", found.stdout, re.MULTILINE)
    names = [a["name"] for a in json.loads(Path("out/race.json").read_text())["algorithms"]]
    assert names == ["gd", "ngd"][: 1 if t < 4 else 2]


def test_claims_that_were_not_run_say_how():
    last = call("claims", "table-2-gd", "lemma-d.2").stdout.splitlines()[-2:]
    assert "1 holds, 0 hold with a caveat, 0 do not hold" in last[0]
    assert last[1] == "prgd reproduce --only table-2 computes the rows of those not yet run."
    assert "computes" not in call("claims", "lemma-d.2").stdout.splitlines()[-1]


@pytest.mark.slow
def test_changed_settings_say_why_nothing_is_decided():
    given = ["--quick", "--only", "figure-1", "--set", "figure-1.gamma_star=0.5", "--jobs", 1]
    said = " ".join(call("reproduce", *given, "--out", "report").stdout.split())
    words = "Not decided: These rows have other settings, and decide nothing: "
    assert said.count(words) == 1
    assert "gamma_star" in said.split(words)[1]


def test_a_race_refuses_an_entrant_before_any_other_runs(monkeypatch):
    write_three()
    monkeypatch.setattr("prgd_paper.race.race", lambda *args, **options: pytest.fail("the race began"))
    monkeypatch.setattr("prgd.max_margin", lambda *args, **options: pytest.fail("the solver began"))
    said = call("race", "steepest-descent", "mdm", "--data", "three.csv", "--steps", 9, code=2).stderr
    assert said.startswith("Error: mdm: MDM is for two classes")


@pytest.mark.slow
@pytest.mark.cover
def test_race_in_another_norm():
    write_three()
    entrants = ["steepest-descent", "l1=steepest-descent --step-norm l1"]
    out = call("race", *entrants, "--data", "three.csv", "--norm", "linf", "--steps", 60, "--out", "r").stdout
    assert out.startswith("three, 45 x 3, with an intercept, exponential loss, 3 classes jointly, linf")
    found = json.loads(Path("r/race.json").read_text())
    best = prgd.max_margin(*prgd.datasets.load("three.csv"), norm="linf", multi_class="joint")
    assert found["best_known_margin"] == pytest.approx(best.margin, rel=1e-6)
    sign, coordinate = found["algorithms"]
    assert sign["margin"] > coordinate["margin"]
    assert Path("r/race.png").stat().st_size > 0


def test_claims_as_json():
    shown = call("claims", "lemma-d", "--json", "claims.json").stdout
    found = call("claims", "lemma-d", "--json", "-")
    claims, same = json.loads(found.stdout), json.loads(Path("claims.json").read_text())
    words = [[c["verdict"] for c in each] for each in (claims, same)]
    assert words == [["holds", "holds", "does not hold"]] * 2
    assert claims[2]["figures"]["with the square"] == pytest.approx(1.0)
    assert "does not hold        lemma-d.3" in shown
    assert "\x1b" not in shown  # plain lines when piped
    assert "3 claims: 2 hold, 0 hold with a caveat, 1 does not hold" in found.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("race ngd --data two.csv --norm columns", "The norm 'columns' measures weight matrices"),
        ("race ngd --data three.csv --norm=-1", "p of a norm must be a number of at least 1; got -1.0."),
        ("run three.csv --algorithm mdm", "Use prgd fit --multi-class joint, or a gradient method."),
        ("run three.csv --algorithm away-step-frank-wolfe", "AwayStepFrankWolfe is for two classes"),
        ("run two.csv --algorithm gated-prgd --norm l1", "GatedPRGD needs a problem with --norm l2"),
        ("run toy:0.3 --algorithm mdm --eta 0.5", "--eta does not apply to mdm, which takes no settings."),
    ],
)
def test_mistakes_are_one_line(args, said):
    write_three()
    write_three("two.csv", classes=2)
    found = call(*args.split(), code=2).stderr
    assert said in found
    assert found.count("\n") == 1
