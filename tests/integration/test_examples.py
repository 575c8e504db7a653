"""The quickest examples run as plain scripts in an empty folder."""

from pathlib import Path

import pytest
from shared import python

FOLDER = Path(__file__).parents[2] / "examples"
QUICK = ["every_norm", "no_separator", "separation_in_medicine"]  # make docs runs all of them


@pytest.mark.slow
def test_the_quickest_examples_run_in_an_empty_folder():
    code = "import runpy, sys; [runpy.run_path(path, run_name='__main__') for path in sys.argv[1:]]"
    python("-W", "error", "-c", code, *(FOLDER / f"{name}.py" for name in QUICK), env={"MPLBACKEND": "Agg"})
    assert not list(Path.cwd().iterdir())
