"""The examples: all have the gallery's format, and the quickest run as plain scripts in an empty folder."""

import ast
from pathlib import Path

import pytest
from shared import python

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
def test_the_quickest_examples_run_in_an_empty_folder():
    code = "import runpy, sys; [runpy.run_path(path, run_name='__main__') for path in sys.argv[1:]]"
    python("-W", "error", "-c", code, *(FOLDER / f"{name}.py" for name in QUICK), env={"MPLBACKEND": "Agg"})
    assert not list(Path.cwd().iterdir())
