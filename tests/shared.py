"""What tests of many rooms use: Python in a process of its own, and folders that are dear to make."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def python(*arguments: object, code: int = 0, env: dict[str, str] | None = None, **options: object):
    """Run Python with arguments and more variables; return what it wrote, and insist on its exit code."""
    command = [sys.executable, *map(str, arguments)]
    options = {
        "capture_output": True,
        "text": True,
        "timeout": 300,
        "env": os.environ | (env or {}),
    } | options
    ended = subprocess.run(command, **options)
    assert ended.returncode == code, ended.stderr
    return ended


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that ``make`` has filled, once for all processes of pytest-xdist.

    Processes that ask for it meanwhile wait. Nobody may write to the folder afterwards: copy it for that.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # Each process has a folder of its own within that of the run.
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a process left that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
