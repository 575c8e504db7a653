"""What describes the package in several places says the same in all of them."""

import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

import prgd
from prgd.cli.doctor import EXTRAS

ROOT = Path(__file__).parents[2]
META = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = META["project"]
PAPER = tomllib.loads((ROOT / "paper/pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github/workflows").glob("*.yml")}
DEVELOPERS = {"all", "bench", "dev", "docs", "test"}
# Versions of PyTorch before this one were not tried with the oldest versions of the others.
INDIRECT = {"click", "pyparsing"}  # typer and Matplotlib need them, and prgd does not name them
NOT_OLDEST = {"torch"}


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def recipe() -> dict:
    return yaml.safe_load(text("recipe/recipe.yaml"))


def requirement(line: str) -> tuple[str, str]:
    """Return the name and the oldest version of a requirement."""
    found = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?\s*>=\s*([\d.]+)(?:\s*;.*)?", line)
    assert found, f"a requirement is a name and an oldest version; got {line}"
    return found[1].lower(), found[2]


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without trailing zeros."""
    return tuple(map(int, re.sub(r"(\.0)+$", "", version).split(".")))


def jobs(workflow: str) -> dict:
    return yaml.safe_load(WORKFLOWS[workflow].read_text(encoding="utf-8"))["jobs"]


def steps(workflow: str) -> list[dict]:
    return [step for job in jobs(workflow).values() for step in job["steps"]]


def test_the_recipe_has_the_version_and_the_dependencies_of_the_project():
    found = recipe()
    assert found["context"]["version"] == PROJECT["version"] == prgd.__version__
    assert f">={found['context']['python_min']}" == PROJECT["requires-python"]
    run = [line.replace(" >=", ">=") for line in found["requirements"]["run"]]
    assert run == ["python>=${{ python_min }}", *PROJECT["dependencies"]]
    host = [line.replace(" >=", ">=") for line in found["requirements"]["host"]]
    assert host == ["python ${{ python_min }}.*", "pip", *META["build-system"]["requires"]]
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert found["build"]["python"]["entry_points"] == scripts
    assert found["about"]["summary"] == PROJECT["description"]
    assert found["about"]["license"] == PROJECT["license"]
    assert f"version: {prgd.__version__}" in text("CITATION.cff")
    assert f"## {prgd.__version__}" in text("CHANGELOG.md")
    assert f'"{prgd.__version__}"' in text("paper/prgd_paper/__init__.py")


def test_the_tests_on_github_run_on_every_python_that_the_classifiers_name():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert jobs("ci")["test"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert jobs("ci")["systems"]["strategy"]["matrix"]["python"] == [named[0], named[-1]]
    assert META["tool"]["ruff"]["target-version"] == f"py{named[0].replace('.', '')}"


def test_the_tests_on_github_run_on_three_systems():
    ci = jobs("ci")
    systems = {job["runs-on"].partition("-")[0] for job in ci.values() if "matrix.os" not in job["runs-on"]}
    systems |= {name.partition("-")[0] for name in ci["systems"]["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu", "macos", "windows"}


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_workflows_call_targets_that_the_makefile_has(workflow):
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    called = set(re.findall(r"\bmake ([\w-]+)", commands))
    assert called
    assert called <= set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_jobs_end_and_actions_have_a_version(workflow):
    assert all(job["timeout-minutes"] <= 90 for job in jobs(workflow).values())
    actions = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert all(re.fullmatch(r"[\w./-]+@(v\d+|release/v\d+)", action) for action in actions), actions


def test_a_release_stores_no_password():
    publish = jobs("release")["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in WORKFLOWS["release"].read_text(encoding="utf-8")
    assert "password" not in str(publish)


def test_every_extra_is_for_users_with_a_smoke_test_or_for_developers():
    assert set(PROJECT["optional-dependencies"]) - DEVELOPERS == set(EXTRAS)
    smoke = {path.stem.removeprefix("smoke_") for path in (ROOT / "tests/dist").glob("smoke_*.py")}
    assert smoke == {"core", *EXTRAS}
    section = text("README.md").split("## Install")[1].split("\n## ")[0]
    assert re.findall(r"'\.\[(\w+)\]'", section) == list(EXTRAS)


def test_the_oldest_versions_are_those_that_the_project_allows():
    lines = [line for line in text("constraints-oldest.txt").splitlines() if line and line[0] != "#"]
    pinned = dict(line.lower().split("==") for line in lines)
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *(line for name in (*EXTRAS, "test") for line in extras[name])]
    needed += [*PAPER["dependencies"][1:], *PAPER["optional-dependencies"]["deep"]]
    oldest = dict(requirement(line) for line in needed if not line.startswith("prgd["))
    assert set(oldest) == set(pinned) - INDIRECT
    differing = {name for name in oldest if release(oldest[name]) != release(pinned[name])}
    assert differing == NOT_OLDEST


def test_requirements_that_are_named_twice_agree():
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    groups += [PAPER["dependencies"][1:], *PAPER["optional-dependencies"].values()]
    pairs = {requirement(line) for group in groups for line in group if not line.startswith("prgd[")}
    assert len(pairs) == len({name for name, _ in pairs})


def test_the_paper_is_a_project_of_its_own_whose_entry_points_load():
    assert META["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/prgd"]
    assert PAPER["dependencies"][0] == "prgd"
    assert PAPER["requires-python"] == PROJECT["requires-python"]
    for group, points in PAPER["entry-points"].items():
        assert {point.name: point.value for point in entry_points(group=group)} == points
        assert all(point.load() for point in entry_points(group=group))


def test_the_sdist_has_every_file_and_folder_that_a_test_reads():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    read = re.findall(r"(?:ROOT|parents\[2\]\)?) / \"([^\"/]+)", sources)
    read += re.findall(r"\btext\(\"([^\"/]+)", sources)
    ours = {"pyproject.toml", "dist"}  # The sdist has the first in any case, and the second is built.
    included = set(META["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert {"docs", "benchmarks", "README.md"} <= set(read)
    assert set(read) - ours <= included
    assert all((ROOT / name).exists() for name in included)


def test_the_page_of_a_package_index_has_no_link_to_files_of_the_repository():
    page = text("README.md")
    assert re.search(r"\]\(docs/", page)
    for rule in META["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        page = re.sub(rule["pattern"], rule["replacement"], page)
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert [link for link in links if not link.startswith("http")] == []
    assert "Drawn by" not in page
    # The rules remove pictures with their captions, and no section.
    headings = re.compile(r"^## .*", re.MULTILINE)
    assert headings.findall(page) == headings.findall(text("README.md"))
    assert "`prgd reproduce --only figure-3" in page  # the paragraph after a caption
