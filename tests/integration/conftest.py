"""Fixtures of all tests of commands: each runs in an empty folder of its own."""

from command_line import in_empty_folder, quick_figures  # noqa: F401 - fixtures
