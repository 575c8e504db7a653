"""Where headless Chromium is, for the tests and for docs/check_pages.py, whose environment has no pytest."""

import os
import shutil

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
