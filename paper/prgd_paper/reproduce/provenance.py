"""The versions, machine and commit that somebody needs to compute the same rows."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "matplotlib")


@cache
def facts() -> dict[str, Any]:
    """Return versions and machine as JSON can hold them.

    Examples
    --------
    >>> sorted(facts())
    ['machine', 'versions']
    """
    import prgd

    versions = {"prgd": prgd.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "missing"
    machine = {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}
    return {"versions": versions, "machine": machine}


@cache
def commit() -> str:
    """Return the git commit of the source, with a plus sign if files changed since; else ``"unknown"``."""
    folder = Path(__file__).parent

    def ask(*command: str) -> str:
        found = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=True
        )
        return found.stdout.strip()

    try:
        # An installed copy may lie inside some other repository, which does not track it.
        ask("ls-files", "--error-unmatch", Path(__file__).name)
        mark = "+" if ask("status", "--porcelain", "--", "../..") else ""
        return ask("rev-parse", "--short=12", "HEAD") + mark
    except (OSError, subprocess.SubprocessError):
        return "unknown"
