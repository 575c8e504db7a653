"""Assemble the command line: every file of this folder that defines ``<stem>_command`` is a command."""

import os
import re
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import prgd
from prgd.cli.common import say
from prgd.core.errors import paper_hint


class OneLineErrors(TyperGroup):
    """Print a mistake in the command line as one line, like any other error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of a command; ``--json`` and ``--fit`` have values that may be left out."""
        if "--json" in args:
            place = args.index("--json") + 1
            args[place:place] = [] if re.match(r"[^-]|-$", "".join(args[place : place + 1])) else ["-"]
        if args[:1] == ["separability"] and "--fit" in args:
            place = args.index("--fit") + 1
            args[place:place] = [] if args[place : place + 1] in (["firth"], ["limit"]) else ["limit"]
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Parse the arguments, run the command, and exit."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except Exception as error:
            if type(error).__name__ == "Abort":  # what typer makes of Ctrl-C outside of the commands
                raise KeyboardInterrupt from None
            # The class of usage errors moved from click to typer between versions, so its parts are tested.
            if not (hasattr(error, "format_message") and hasattr(error, "exit_code")):
                raise
            path = getattr(getattr(error, "ctx", None), "command_path", "prgd")
            message = error.format_message().rstrip(".")
            more = paper_hint("commands") if message.startswith("No such command") else ""
            say(f"Error: {message}{'' if message.endswith('?') else '.'} Try '{path} --help'.{more}")
            code = error.exit_code
        try:
            sys.stdout.flush()  # A disk that is full is noticed here, if standard output is a file.
        except BrokenPipeError:
            raise
        except OSError as error:
            say(f"Error: Cannot write standard output: {error.strerror}. Make room, and run again.")
            os._exit(2)  # The interpreter would try to write the rest, and report the error once more.
        sys.exit(code)


app = typer.Typer(
    cls=OneLineErrors,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Maximum-margin classifiers by progressive norm rescaling, with a certificate."""
    if version:
        typer.echo(f"prgd {prgd.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# A file without ``<stem>_command``, such as this one, helps the others.
for stem in (found.name for found in iter_modules([str(Path(__file__).parent)])):
    module = import_module(f"prgd.cli.{stem}")
    if hasattr(module, f"{stem}_command"):
        app.command(stem.replace("_", "-"))(getattr(module, f"{stem}_command"))

# Other packages add commands by entry points, each of a module that is quick to import.
for point in entry_points(group="prgd.commands"):
    app.command(point.name)(point.load())
