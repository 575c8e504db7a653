"""Draw the report of the site from the rows of a full run, which lie in docs/rows.

An experiment without stored rows is computed with its quick settings, and the page says so.

Usage: python docs/draw_report.py docs/_build/report
       python docs/draw_report.py --pack report    # after ``prgd reproduce``: keep the rows of that report

The archive holds the folders ``rows/<experiment>-<hash>`` with their records, which say by which code, on
which machine and in how many seconds the rows were computed; the page says so too.
"""

from __future__ import annotations

import argparse
import io
import tarfile
from contextlib import redirect_stdout
from pathlib import Path

from prgd_paper.reproduce.experiment import choose
from prgd_paper.reproduce.make import reproduce
from prgd_paper.reproduce.store import Store

from prgd.core.threads import cores

ARCHIVE = Path(__file__).parent / "rows/full_run.tar.xz"


def pack(report: Path) -> None:
    """Write the rows of a full report to the archive, in an order and with times that do not vary."""
    ARCHIVE.parent.mkdir(exist_ok=True)
    folders: dict[Path, None] = {}  # Figures 3 and 6 share a folder.
    for e in choose():
        store = Store(report, e, e.settings, keeps_rows=True)
        if missing := store.missing():
            raise SystemExit(
                f"{report} lacks rows of {e.name}: {', '.join(missing[:5])}. Run prgd reproduce."
            )
        folders |= dict.fromkeys(store.located().values())
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for folder in folders:
            for file in sorted(folder.iterdir()):
                archive.add(file, f"rows/{folder.name}/{file.name}", filter=_plain)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size / 1e6:.1f} MB")


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def draw(report: Path) -> None:
    """Put the rows into the folder of the report and draw the page."""
    report.mkdir(parents=True, exist_ok=True)
    if ARCHIVE.exists():
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(report, filter="data")
    with redirect_stdout(io.StringIO()):  # The page has the tables and verdicts that the command prints.
        _draw_stored(report)
    size = (report / "index.html").stat().st_size / 1e6
    print(f"{report / 'index.html'}: {size:.1f} MB")


def _draw_stored(report: Path) -> None:
    lacking = [e for e in choose() if Store(report, e, e.settings, keeps_rows=True).missing()]
    if lacking:
        reproduce(lacking, quick=True, jobs=cores(), out=report)
    if stored := [e for e in choose() if e not in lacking]:
        reproduce(stored, jobs=cores(), out=report, keep_rows=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--pack", action="store_true")
    given = parser.parse_args()
    (pack if given.pack else draw)(given.report)
