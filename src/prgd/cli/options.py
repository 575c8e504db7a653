"""Options of a command line: one for each field of a dataclass.

`prgd.cli.common.with_options` shows options by Typer. A field's metadata holds what the help shows; a field
without metadata is described by its entry in the docstring of the class.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

# panels of the help
DATA, METHOD, COMPUTING, STOP, OUTPUT = "Data", "Algorithm", "Computing", "When to stop", "Output"
_METAVARS = {bool: None, int: "N", float: "NUMBER", str: "NAME", Path: "DIR"}
Form = TypeVar("Form")


@dataclass(frozen=True)
class Option:
    """One option of the command line; the metadata of its field sets any attribute but name and kind.

    Attributes
    ----------
    name : str
        Name of the field.
    kind : type
        bool, int, float, str or Path, or a class whose values a reader makes from text, such as a schedule.
    choices : tuple of str
        Values of a Literal; empty for other types.
    default : object
        ``dataclasses.MISSING`` if the field has none. A tuple makes an option of several values.
    help : str
    panel : str
        Heading under which Typer shows the option.
    flags : tuple of str
        Option as typed, e.g. ``("--weight-decay",)``; by default the field's name.
    metavar : str, optional
        Name of the value in the help.
    shown_default : str
        Text that the help shows in place of the default.
    minimum : int, optional
    complete : callable, optional
        Returns what a text may become, for the completion of a shell.
    """

    name: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    help: str
    flags: tuple[str, ...]
    metavar: str | None
    panel: str = METHOD
    shown_default: str = ""
    minimum: int | None = None
    complete: Callable[[str], list[str]] | None = None


def option(default: Any, help: str = "", /, **metadata: Any) -> Any:
    """Return a dataclass field with its default, its help unless a docstring has it, and further metadata."""
    return field(default=default, metadata={"help": help, **metadata} if help else metadata)


def options_of(form: type[Any]) -> list[Option]:
    """Return the options of a dataclass, in the order of its fields.

    Examples
    --------
    >>> @dataclass
    ... class Form:
    ...     top_speed: int = option(3, "Of the car.")
    >>> options_of(Form)[0].flags, options_of(Form)[0].metavar
    (('--top-speed',), 'N')
    """
    hints = get_type_hints(form)
    found = []
    for f in fields(form):
        if f.init:
            kind, choices = _kind(hints[f.name])
            implied = {
                "default": f.default if f.default_factory is MISSING else f.default_factory(),
                "help": f.metadata.get("help") or _described(form, f.name),
                "flags": (f"--{f.name.replace('_', '-')}",),
                "metavar": _METAVARS.get(kind, "TEXT"),
            }
            found.append(Option(f.name, kind, choices, **{**implied, **f.metadata}))
    return found


def from_options(form: type[Form], given: Mapping[str, Any]) -> Form:
    """Return the dataclass with the values of its options that ``given`` holds by field name."""
    values = {o.name: given[o.name] for o in options_of(form)}
    return form(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _kind(hint: Any) -> tuple[type, tuple[str, ...]]:
    """Return the type of an option's value, the first one beside None, and the choices of a Literal."""
    if get_origin(hint) is Literal:
        return str, get_args(hint)
    parts = [part for part in get_args(hint) if part is not NoneType]
    return _kind(parts[0]) if parts else (hint, ())


def _described(form: type[Any], name: str) -> str:
    """Return the entry of a field in the docstring of a class or of its bases, without a line of its type."""
    for kind in form.__mro__:
        if match := re.search(rf"^{name} : (.*(?:\n +.*)*)", inspect.getdoc(kind) or "", re.MULTILINE):
            return " ".join(re.sub(r"^[\w ]+\n", "", match[1]).split()).replace("``", "")
    return f"Field {name} of {form.__name__}."
