"""The command line: one file per command, found by its presence in this folder."""

from prgd.cli.app import main

__all__ = ["main"]
