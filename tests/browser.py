"""Where headless Chromium is, and the mark of tests that need it; its fixtures are in conftest.py."""

import os
import shutil

import pytest

CHROMIUM = os.environ.get("PRGD_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium found: install Debian's chromium (apt-get install chromium) or set PRGD_CHROMIUM",
)
