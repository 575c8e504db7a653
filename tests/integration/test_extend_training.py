"""A training option costs one field: it is added to a copy of the package and used from the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="prgd.deep needs PyTorch")

import prgd  # noqa: E402

FIELD = '    label_noise: float = option(0.0, "Part of the labels to draw.")\n'
PLACE = "    def __post_init__(self)"  # the end of the fields of Settings


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Return the folder of a copy of the package whose Settings have one field more."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(
        Path(prgd.__file__).parent, folder / "prgd", ignore=shutil.ignore_patterns("__pycache__", "data")
    )
    file = folder / "prgd" / "deep" / "training" / "settings.py"
    before, after = file.read_text().split(PLACE, 1)
    file.write_text(f"{before}{FIELD}\n{PLACE}{after}")
    return folder


def run(package, *arguments):
    environment = os.environ | {"PYTHONPATH": str(package), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", [["prgd", "train"], ["prgd.deep.training.command"]])
def test_a_field_of_settings_is_an_option_of_both_command_lines(package, command, tmp_path):
    shown = run(package, *command, "--help")
    assert "--label-noise" in shown
    assert "Part of the labels to draw." in shown
    options = ["--model", "linear", "--epochs", "1", "--device", "cpu", "--quiet", "--out", str(tmp_path)]
    run(package, *command, *options, "--label-noise", "0.25")
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["settings"]["label_noise"] == 0.25
