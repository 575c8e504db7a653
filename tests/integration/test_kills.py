"""Commands that get SIGKILL at a few random moments go on to the same bits; see ``kills.py`` for many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the trials fork")
@pytest.mark.parametrize(("name", "times"), [("run", 3), ("fit", 3), ("reproduce", 1), ("train", 2)])
def test_killed_commands_go_on_to_the_same_bits(name, times):
    if name == "train":
        pytest.importorskip("torch")
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, script, "--times", str(times), "--only", name, "--seed", "7"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith(f"{times} of {times} trials gave the same bits\n")
