"""Scripts that run Triton kernels in its interpreter, which a variable chooses before Triton is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def errors_in_interpreter(script: Path) -> dict[str, float]:
    """Return what a script prints in the interpreter: in each line the name of a case and its error."""
    pytest.importorskip("triton", reason="Triton is for Linux")
    out = subprocess.run(
        [sys.executable, "-W", "error", script],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    return {name: float(error) for name, error in (line.rsplit(": ", 1) for line in out.stdout.splitlines())}
