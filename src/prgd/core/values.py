"""One parser for losses, norms and schedules: text to value and back.

A value is written as its name, optionally followed by a colon and its fields in order:
``geometric:1.2``, ``polynomial:5,0.6``, ``logistic``. Estimators, the command line and the deep
optimizers accept the same text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import FunctionType
from typing import Any

import numpy as np

from prgd.core.checks import unknown

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs from process to process


def parse(text: str, known: Mapping[str, Any], kind: str) -> Any:
    """Return the value that ``text`` describes.

    Parameters
    ----------
    text : str
    known : mapping from name to dataclass, or to the value itself if it has no fields.
    kind : str, what is expected, for the error message.

    Raises
    ------
    ValueError
        If the name is not known, or the numbers after the colon do not fit the fields.

    Examples
    --------
    >>> from prgd.schedules import RADII
    >>> parse("geometric:1.5", RADII, "radius")
    Geometric(c=1.5)
    """
    name, _, rest = text.strip().partition(":")
    if name not in known:
        raise unknown(kind, name, known)
    form = known[name]
    if not isinstance(form, type):
        if rest:
            raise ValueError(f"The {kind} {name!r} takes no numbers; got {text!r}.")
        return form
    numbers = _numbers(text, rest)
    declared = fields(form)
    if declared and str(declared[0].type).startswith("tuple"):  # a list takes all numbers
        return form(tuple(numbers))
    if len(numbers) > len(declared):
        raise ValueError(f"Expected at most {len(declared)} number(s) after the colon; got {text!r}.")
    missing = [f.name for f in declared[len(numbers) :] if f.default is MISSING]
    if missing:
        raise ValueError(f"The {kind} {name!r} needs {', '.join(missing)} after a colon; got {text!r}.")
    return form(*(int(v) if f.type == "int" else v for f, v in zip(declared, numbers, strict=False)))


def to_text(value: Any, known: Mapping[str, Any]) -> str:
    """Return the text that `parse` reads back as ``value``.

    Examples
    --------
    >>> from prgd.schedules import TIMES, Every
    >>> to_text(Every(7), TIMES)
    'every:7'
    """
    for name, form in known.items():
        if form is value:
            return name
        if isinstance(form, type) and type(value) is form:
            parts: list[Any] = [getattr(value, f.name) for f in fields(form)]
            if len(parts) == 1 and isinstance(parts[0], tuple):
                parts = list(parts[0])
            return f"{name}:{','.join(f'{part!r}' for part in parts)}" if parts else name
    raise ValueError(f"{value!r} cannot be written as text; the forms are {', '.join(known)}.")


def digest(value: Any) -> str:
    """Return a hash of all fields of a value, those that its repr hides or abbreviates included.

    Examples
    --------
    >>> from prgd.schedules import LiftTo
    >>> digest(LiftTo(1.0, [1.0, 0.0])) == digest(LiftTo(1.0, [0.0, 1.0]))
    False
    """
    return hashlib.sha256("\n".join(_described(value)).encode()).hexdigest()[:16]


def plain(value: Any, number: Callable[[float], Any]) -> Any:
    """Return what JSON can hold: dictionaries, lists, text, and floats as ``number`` makes them.

    Examples
    --------
    >>> plain({"c": (1, float("inf"))}, str)
    {'c': [1, 'inf']}
    """
    if isinstance(value, dict):
        return {name: plain(item, number) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist(), number)
    if isinstance(value, (list, tuple)):
        return [plain(item, number) for item in value]
    return number(value) if isinstance(value, float) else value


def _described(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}"
        yield repr(value.tolist())  # all numbers, each so that it reads back exactly
    elif isinstance(value, (tuple, list)):
        yield f"{type(value).__name__} of {len(value)}"
        for part in value:
            yield from _described(part)
    elif is_dataclass(value) and not isinstance(value, type):
        yield f"{type(value).__name__}"
        for f in fields(value):
            yield f.name
            yield from _described(getattr(value, f.name))
    elif isinstance(value, FunctionType):
        yield f"{value.__module__}.{value.__qualname__}"
    else:
        yield _ADDRESS.sub("", repr(value))


def _numbers(text: str, rest: str) -> list[float]:
    try:
        return [float(part) for part in rest.split(",")] if rest else []
    except ValueError:
        raise ValueError(f"Expected numbers after the colon; got {text!r}.") from None
