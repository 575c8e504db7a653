"""The paper's experiments, one file each: compute writes rows, print reads rows only."""

from __future__ import annotations

from pathlib import Path


def main(seeds: int, jobs: int, out: Path) -> None:
    """Run every experiment and write its rows to ``out``."""
    from prgd.checks import check_whole, check_writable
    from prgd.reproduce import table_2

    check_whole("seeds", seeds, least=1)
    check_whole("jobs", jobs, least=1)
    table_2.main(seeds, jobs, check_writable(out))
