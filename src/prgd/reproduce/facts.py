"""What another person needs to get the same rows: versions, machine, commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "matplotlib", "plotly")


def facts() -> dict[str, Any]:
    """Return versions and machine as JSON can hold them.

    Examples
    --------
    >>> sorted(facts())
    ['machine', 'versions']
    """
    return {"versions": _versions(), "machine": _machine()}


@cache
def _versions() -> dict[str, str]:
    import prgd

    found = {"prgd": prgd.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    return found


@cache
def _machine() -> dict[str, Any]:
    return {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}


@cache
def commit() -> str:
    """Return the git commit of the source, with a plus sign where files changed since; else ``"unknown"``."""
    folder = Path(__file__).parent

    def ask(*command: str) -> str:
        found = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=True
        )
        return found.stdout.strip()

    try:
        # an installed copy may lie inside some other repository, which does not track it
        ask("ls-files", "--error-unmatch", Path(__file__).name)
        return ask("rev-parse", "--short=12", "HEAD") + (
            "+" if ask("status", "--porcelain", "--", "../..") else ""
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
