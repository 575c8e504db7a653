"""Run the command line as ``python -m prgd``."""

from prgd.cli import main

main()
