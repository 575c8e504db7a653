"""Options of ``prgd run`` that set the fields of an algorithm, made from the dataclasses themselves.

A field ``its_field`` is the option ``--its-field``. Its help is the entry of the field in the docstring of
the class. Numbers and flags are read by Typer; a schedule arrives as text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, NamedTuple

from prgd.algorithms import ALGORITHMS, find_algorithm
from prgd.cli.common import METHOD, option
from prgd.schedules import RADII, TIMES, as_radius, as_times
from prgd.values import to_text

# The symbols of the paper get longer names.
FLAGS = {"R": ("--radius", "-R"), "T": ("--phases", "-T"), "R_0": ("--first-radius",)}
HELP = {"eta": "Step size, of the warm-up too."}
TYPES = {"float": float, "int": int, "bool": bool}
METAVARS = {"float": "NUMBER", "int": "N", "bool": None, "Radius": "SCHEDULE", "Times": "SCHEDULE"}
SCHEDULES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "Radius": ("radii R_k", RADII),
    "Times": ("steps T_k of the rescalings", TIMES),
}


class Given(NamedTuple):
    """An option of an algorithm as the user gave it."""

    flag: str
    value: Any


def add_algorithm_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace ``**settings`` in the signature of a command by one option for each field of any algorithm."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    owners: dict[str, dict[str, Field[Any]]] = {}
    for name, algorithm in ALGORITHMS.items():
        for field in _fields(algorithm):
            owners.setdefault(field.name, {})[name] = field
    if taken := owners.keys() & {p.name for p in own}:
        raise TypeError(f"prgd run has options of its own named {', '.join(taken)}: rename these fields.")
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, found))
        for name, found in owners.items()
    ]
    command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return command


def given_options(settings: Mapping[str, Any], every: int | None) -> dict[str, Given]:
    """Return the fields that the user set, each with its option and value; ``--every`` sets T."""
    given = {name: Given(_flags(name)[0], value) for name, value in settings.items() if value is not None}
    if every is not None:
        if "T" in given:
            raise ValueError("--every and --phases both say when to rescale: give one of them.")
        given["T"] = Given("--every", every)
    return given


def build_algorithm(name: str, given: Mapping[str, Given]) -> Any:
    """Return the algorithm of that name with the options that were given."""
    algorithm = find_algorithm(name)
    known = {field.name: field for field in _fields(algorithm)}
    for field_name, (flag, _) in given.items():
        if field_name not in known:
            flags = " and ".join(_flags(other)[0] for other in known)
            raise ValueError(
                f"{flag} does not apply to {name}, which takes {flags or 'no settings'}. "
                f"Leave {flag} out, or choose another --algorithm."
            )
    for field in known.values():
        if field.name not in given and field.default is field.default_factory is MISSING:
            raise ValueError(f"{name} has no default for {_flags(field.name)[0]}: give it.")
    return algorithm(**{field: _read(known[field], *option) for field, option in given.items()})


def _fields(algorithm: Any) -> list[Field[Any]]:
    return [field for field in fields(algorithm) if field.init]


def _flags(name: str) -> tuple[str, ...]:
    return FLAGS.get(name, (f"--{name.replace('_', '-')}",))


def _type(field: Field[Any]) -> str:
    """Return the first name in the type of a field, e.g. Radius of ``Radius | StateRadius``."""
    return (field.type if isinstance(field.type, str) else field.type.__name__).partition(" | ")[0]


def _read(field: Field[Any], flag: str, value: Any) -> Any:
    try:
        return {"Radius": as_radius, "Times": as_times}.get(_type(field), lambda value: value)(value)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error


def _option(name: str, owners: Mapping[str, Field[Any]]) -> Any:
    """Return the annotation of the option for the field that these algorithms share."""
    first, field = next(iter(owners.items()))
    kind = _type(field)
    if any(_type(other) != kind for other in owners.values()):
        raise TypeError(f"The field {name} has several types in {', '.join(owners)}: rename one of them.")
    help = HELP.get(name) or f"{', '.join(owners)}: {_described(ALGORITHMS[first], name, kind)}"
    defaults = {_shown(owner.default) for owner in owners.values()}
    default = defaults.pop() if len(defaults) == 1 else "depends on the algorithm"
    metavar = METAVARS.get(kind, "TEXT")
    return Annotated[
        TYPES.get(kind, str) | None, option(METHOD, help, *_flags(name), default=default, metavar=metavar)
    ]


def _described(algorithm: type, name: str, kind: str) -> str:
    """Return the entry of a field in the Parameters section of a docstring, or the forms of a schedule."""
    if kind in SCHEDULES:
        what, known = SCHEDULES[kind]
        forms = [f"{name}:{','.join(f.name.upper() for f in fields(form))}" for name, form in known.items()]
        return f"{what}: {'; '.join(form.rstrip(':') for form in forms)},..."
    match = re.search(rf"^{name} : (.*(?:\n +.*)*)", inspect.getdoc(algorithm) or "", re.MULTILINE)
    text = " ".join(match[1].split()) if match else f"Field {name} of {algorithm.__name__}."
    return text.replace("``", "").replace("[", r"\[")  # Square brackets are markup to rich.


def _shown(default: Any) -> str:
    """Return a default as the user would write it."""
    for known in (RADII, TIMES):
        if type(default) in known.values():
            return to_text(default, known)
    if default in (None, MISSING):
        return "none"
    return f"{default:g}" if isinstance(default, float) else str(default)
