"""Scripts that run Triton kernels in its interpreter, which a variable chooses before Triton is imported."""

from pathlib import Path

import pytest
from shared import python

HERE = Path(__file__).parent


def errors_in_interpreter(script: str) -> dict[str, float]:
    """Return what a script of the tests prints in the interpreter: lines of a case and its error."""
    pytest.importorskip("triton", reason="Triton is for Linux")
    data = HERE.parent / ".coverage"  # of which each process adds one with an ending of its own
    run = ["-m", "coverage", "run", "-p", "--source=prgd", f"--data-file={data}"]
    out = python("-W", "error", *run, HERE / script, env={"TRITON_INTERPRET": "1"}, cwd=data.parent)
    return {name: float(error) for name, error in (line.rsplit(": ", 1) for line in out.stdout.splitlines())}
