"""The separable real sets that benchmarks beside this file read, in the folder that PRGD_DATA names."""

from __future__ import annotations

import json
import os
from pathlib import Path


def separable_sets() -> dict[str, Path]:
    """Return the file of each set that MANIFEST.json calls separable through the origin, by its name.

    Without PRGD_DATA there is none.
    """
    if (folder := os.environ.get("PRGD_DATA")) is None:
        return {}
    entries = json.loads((Path(folder) / "MANIFEST.json").read_text(encoding="utf-8"))
    return {
        entry["file"].split(".")[0]: Path(folder) / entry["file"]
        for entry in entries
        if entry.get("separable_through_origin") == "YES"
    }
