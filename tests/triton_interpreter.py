"""Scripts that run Triton kernels in its interpreter, which a variable chooses before Triton is imported."""

from pathlib import Path

import pytest
from shared import python


def errors_in_interpreter(script: Path) -> dict[str, float]:
    """Return what a script prints in the interpreter: in each line the name of a case and its error."""
    pytest.importorskip("triton", reason="Triton is for Linux")
    out = python("-W", "error", script, env={"TRITON_INTERPRET": "1"})
    return {name: float(error) for name, error in (line.rsplit(": ", 1) for line in out.stdout.splitlines())}
