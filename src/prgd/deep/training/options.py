"""Options of the command line: one for each field of a dataclass. Both command lines are built from them.

A field's metadata holds what the help shows. This module and `settings` import no torch, so that
``prgd train --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

DATA, METHOD, COMPUTING, OUTPUT = "Data", "Algorithm", "Computing", "Output"  # panels of the help
NOT_AN_OPTION = {"option": False}  # metadata of a field that only a program sets
_METAVARS = {int: "N", float: "NUMBER", str: "NAME", Path: "DIR"}
Form = TypeVar("Form")


@dataclass(frozen=True)
class Option:
    """One option of the command line; the metadata of its field sets any attribute but name and kind.

    Attributes
    ----------
    name : str
        Name of the field.
    kind : type
        bool, int, float, str or Path.
    default : object
    help : str
    panel : str
        Heading under which ``prgd train --help`` shows the option.
    flag : str
        Option as typed, e.g. ``"--weight-decay"``; by default the field's name.
    metavar : str
        Name of the value in the help.
    shown_default : str
        Text that the help shows in place of the default.
    minimum : int, optional
    """

    name: str
    kind: type
    default: Any
    help: str = ""
    panel: str = METHOD
    flag: str = ""
    metavar: str = ""
    shown_default: str = ""
    minimum: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "flag", self.flag or f"--{self.name.replace('_', '-')}")
        object.__setattr__(self, "metavar", self.metavar or _METAVARS.get(self.kind, ""))


def option(default: Any, help: str, /, **metadata: Any) -> Any:
    """Return a dataclass field with its default, and its help and further metadata (see `Option`)."""
    return field(default=default, metadata={"help": help, **metadata})


def options_of(form: type[Any]) -> list[Option]:
    """Return the options of a dataclass, in the order of its fields."""
    hints = get_type_hints(form)
    return [
        Option(**{"name": f.name, "kind": _kind(hints[f.name]), "default": f.default, **f.metadata})
        for f in fields(form)
        if f.metadata.get("option", True)
    ]


def from_options(form: type[Form], given: Mapping[str, Any]) -> Form:
    """Return the dataclass with the values of its options that ``given`` holds by field name."""
    return form(**{option.name: given[option.name] for option in options_of(form)})


def _kind(hint: Any) -> type:
    """Return the type of an option's value: str for a Literal, and the type beside None."""
    if get_origin(hint) is Literal:
        return str
    kinds: tuple[type, ...] = get_args(hint) or (hint,)
    return next(kind for kind in kinds if kind is not NoneType)
