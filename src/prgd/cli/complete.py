"""Shell completion of the arguments: names of data sets, files, algorithms and claims."""

from __future__ import annotations

from pathlib import Path

from prgd.algorithms import all_algorithms


def complete_data(incomplete: str) -> list[str]:
    """Return the built-in data sets and the files that the text may become."""
    from prgd.cli.data import BUILT_IN

    names = [name if counts == (0,) else f"{name}:" for name, (_, _, _, counts) in BUILT_IN.items()]
    return [name for name in names if name.startswith(incomplete)] + complete_file(incomplete)


def complete_file(incomplete: str) -> list[str]:
    """Return the files and folders that the text may become; hidden ones if the text asks for them."""
    folder, _, start = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".").expanduser()
    if not place.is_dir():
        return []
    prefix = incomplete[: len(incomplete) - len(start)]
    found = [f for f in place.iterdir() if f.name.startswith(start) and (start or not f.name.startswith("."))]
    return [f"{prefix}{f.name}{'/' if f.is_dir() else ''}" for f in sorted(found)]


def complete_algorithm(incomplete: str) -> list[str]:
    """Return the algorithms that the text may become."""
    return [name for name in all_algorithms() if name.startswith(incomplete)]
