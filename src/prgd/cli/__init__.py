"""The command line, one file per command."""

from prgd.cli.app import main

__all__ = ["main"]
