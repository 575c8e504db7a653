"""The wheel alone: an estimator, the command line, and words about what is missing."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import installed

import prgd

installed.check("numpy", "scipy", "scikit-learn", "numba", "typer")
assert (Path(prgd.__file__).parent / "py.typed").is_file()
X, y = prgd.datasets.digits(0, 1)
assert prgd.MaxMarginClassifier().fit(X, y).score(X, y) == 1.0
assert prgd.separability(X, y).is_separable


def prgd_command(*arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "prgd", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


for command in (["reproduce"], ["run", "toy:0.3", "--algorithm", "mdm"]):
    assert "come with prgd_paper, which is not installed: pip install ./paper" in prgd_command(*command, code=2)
assert prgd_command("--version").strip() == f"prgd {prgd.__version__}"
for extra, package in (("deep", "torch"), ("jax", "jax"), ("cones", "clarabel")):
    if find_spec(package) is None:
        assert f"needs {package}" in (said := prgd_command("doctor")), said
        assert f"'.[{extra}]'" in said
