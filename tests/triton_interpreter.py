"""Scripts that run Triton kernels in its interpreter, which a variable chooses before Triton is imported."""

from pathlib import Path

import pytest
from shared import python


def errors_in_interpreter(script: Path) -> dict[str, float]:
    """Return what a script prints in the interpreter: in each line the name of a case and its error."""
    pytest.importorskip("triton", reason="Triton is for Linux")
    data = Path(__file__).parents[1] / ".coverage"  # of which each process adds one with an ending of its own
    run = ["-m", "coverage", "run", "-p", f"--data-file={data}"]
    out = python("-W", "error", *run, script, env={"TRITON_INTERPRET": "1"}, cwd=data.parent)
    return {name: float(error) for name, error in (line.rsplit(": ", 1) for line in out.stdout.splitlines())}
