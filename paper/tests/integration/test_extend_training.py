"""A training option costs one field: it is added to a copy of the package and used from the command line."""

from __future__ import annotations

import pytest
from extension import Copy

torch = pytest.importorskip("torch", reason="prgd.deep needs PyTorch")

FIELD = '    label_noise: float = option(0.0, "Part of the labels to draw.")\n'
PLACE = "    def __post_init__(self)"  # the end of the fields of Settings


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the package whose Settings have one field more."""
    copy = Copy(tmp_path_factory.mktemp("package"))
    file = copy.folder / "prgd_paper" / "training" / "settings.py"
    before, after = file.read_text().split(PLACE, 1)
    file.write_text(f"{before}{FIELD}\n{PLACE}{after}")
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("command", [["prgd", "train"], ["prgd_paper.training.command"]])
def test_a_field_of_settings_is_an_option_of_both_command_lines(copy, command, tmp_path):
    shown, _ = copy.python("-m", *command, "--help")
    assert "--label-noise" in shown
    assert "Part of the labels to draw." in shown
    options = ["--model", "linear", "--epochs", "1", "--device", "cpu", "--quiet", "--out", str(tmp_path)]
    copy.python("-m", *command, *options, "--label-noise", "0.25")
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["settings"]["label_noise"] == 0.25
