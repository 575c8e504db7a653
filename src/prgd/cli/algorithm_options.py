"""Options of ``prgd run`` that set the fields of an algorithm, made from the dataclasses themselves.

A field ``its_field`` is the option ``--its-field``. Its help is the entry of the field in the docstring of
the class. An option arrives as text; the type of the field in the chosen algorithm says how it is read.
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

FLAGS = {"R": ("--radius", "-R"), "T": ("--phases", "-T")}  # The symbols of the paper get longer names too.
HELP = {"eta": "Step size, of the warm-up too."}
TRUTH = {"true": True, "false": False}


class Kind(NamedTuple):
    """How the text of an option becomes the value of a field, and what --help says about the text."""

    read: Callable[[str], Any]
    metavar: str
    help: str = ""


def _forms(known: Mapping[str, Any]) -> str:
    """List the texts that name a schedule, e.g. ``geometric:C; constant or explicit:RADII,...``."""
    forms = [f"{name}:{','.join(f.name.upper() for f in fields(form))}" for name, form in known.items()]
    return f"{'; '.join(form.rstrip(':') for form in forms[:-1])} or {forms[-1]},..."


KINDS = {
    "float": Kind(float, "NUMBER"),
    "int": Kind(int, "N"),
    "bool": Kind(lambda text: TRUTH[text.lower()], "true|false"),
    "Radius": Kind(as_radius, "SCHEDULE", f"Radii R_k, as {_forms(RADII)}"),
    "Times": Kind(as_times, "SCHEDULE", f"Steps T_k of the rescalings, as {_forms(TIMES)}"),
}


class Given(NamedTuple):
    """An option of an algorithm as the user gave it."""

    flag: str
    text: str


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


def given_options(settings: Mapping[str, str | None], every: int | None) -> dict[str, Given]:
    """Return the fields that the user set, each with its option and text; ``--every`` sets T."""
    given = {name: Given(_flags(name)[0], text) for name, text in settings.items() if text is not None}
    if every is not None:
        if "T" in given:
            raise ValueError("--every and --phases both say when to rescale: give one of them.")
        given["T"] = Given("--every", f"every:{every}")
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
    return algorithm(**{name: _read(known[name], *option) for name, option in given.items()})


def _fields(algorithm: Any) -> list[Field[Any]]:
    return [field for field in fields(algorithm) if field.init]


def _flags(name: str) -> tuple[str, ...]:
    return FLAGS.get(name, (f"--{name.replace('_', '-')}",))


def _kind(field: Field[Any]) -> Kind:
    """Return the kind of a field by the first name in its type; a field of another type takes the text."""
    annotation = field.type if isinstance(field.type, str) else field.type.__name__
    return KINDS.get(annotation.partition(" | ")[0], Kind(str, "TEXT"))


def _read(field: Field[Any], flag: str, text: str) -> Any:
    kind = _kind(field)
    try:
        return kind.read(text)
    except (KeyError, ValueError) as error:
        reason = error if kind.help else f"Expected {kind.metavar}; got {text!r}."
        raise ValueError(f"{flag}: {reason}") from error


def _option(name: str, owners: Mapping[str, Field[Any]]) -> Any:
    """Return the annotation of the option for the field that these algorithms share."""
    first, field = next(iter(owners.items()))
    kind = _kind(field)
    help = HELP.get(name) or f"{', '.join(owners)}: {kind.help or _described(ALGORITHMS[first], name)}"
    defaults = {_shown(owner.default) for owner in owners.values()}
    default = defaults.pop() if len(defaults) == 1 else "depends on the algorithm"
    return Annotated[str | None, option(METHOD, help, *_flags(name), default=default, metavar=kind.metavar)]


def _described(algorithm: type, name: str) -> str:
    """Return the entry of a field in the Parameters section of a docstring, as one line."""
    pattern = rf"^{name} : (.*(?:\n +.*)*)"
    match = re.search(pattern, inspect.getdoc(algorithm) or "", re.MULTILINE)
    text = " ".join(match[1].split()) if match else f"Field {name} of {algorithm.__name__}."
    return text.replace("``", "").replace("[", r"\[")  # Square brackets are markup to rich.


def _shown(default: Any) -> str:
    """Return a default as the user would write it."""
    for known in (RADII, TIMES):
        if type(default) in known.values():
            return to_text(default, known)
    return "none" if default is MISSING else f"{default:g}" if isinstance(default, float) else str(default)
