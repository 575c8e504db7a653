"""The command line: one file per command, found by its presence in this folder."""

import sys


def main() -> None:
    """Run the command line (the entry point ``prgd``); Ctrl-C may come while it is imported."""
    try:
        from prgd.cli.app import app as start

        start()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


__all__ = ["main"]
