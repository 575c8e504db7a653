"""The examples: all have the gallery's format, and the quickest run as plain scripts in an empty folder."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
QUICK = ["every_norm", "no_separator", "separation_in_medicine"]  # make docs runs all of them


def name_of(path):
    return path.stem


def test_the_gallery_has_examples():
    assert len(EXAMPLES) >= 12
    assert (FOLDER / "GALLERY_HEADER.rst").exists()


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_an_example_begins_with_a_title(path):
    lines = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()
    assert len(lines) >= 4, f"{path.name} needs a docstring with a title, its line of = and a paragraph"
    title, rule, blank, first = lines[:4]
    assert rule == "=" * len(title)
    assert not blank
    assert first


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_an_example_explains_itself_and_draws(path):
    text = path.read_text()
    assert "\n# %%\n" in text, f"{path.name} has no block of text"
    assert "plt.show()" in text, f"{path.name} draws no figure"
    assert "matplotlib.use(" not in text  # the reader and the gallery choose the backend


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_an_example_runs_in_an_empty_folder(name, tmp_path):
    path = FOLDER / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
