"""Arguments: checks that say what was expected, and one parser for losses, norms and schedules.

A value is written as its name, optionally followed by a colon and its fields in order:
``geometric:1.2``, ``polynomial:5,0.6``, ``logistic``. Estimators, the command line and the deep
optimizers accept the same text.
"""

import difflib
import hashlib
import math
import re
import secrets
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from numbers import Real
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs from process to process


class CellError(ValueError):
    """A cell of a table that must be a number is none."""


class TextError(CellError):
    """Data that must be numbers hold text."""


def printable(text: str) -> str:
    r"""Return text with control characters, and marks that turn its direction, as escapes to be read.

    Examples
    --------
    >>> printable("a\x1b[2Jb\u202ec")
    'a\\x1b[2Jb\\u202ec'
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def class_text(label: Any) -> str:
    """Return the name of a class; numbers that are integers have no decimal point: 1, not 1.0."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def check_positive(name: str, value: float, *, above: float = 0.0) -> None:
    """Raise ``ValueError`` unless ``value`` is a finite number larger than ``above``."""
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > above):
        raise ValueError(f"{name} must be a finite number above {above:g}; got {value!r}.")


def check_fraction(name: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a number from 0 to 1; got {value!r}.")


def check_integer(name: str, value: int, *, minimum: int) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}; got {value!r}.")


def time_after(T: Callable[[int], float], k: int) -> int:
    """Return T_k, k >= 1, after the check that it is an integer and that phase k - 1 has steps."""
    if T(k) <= T(k - 1):
        raise ValueError(f"{T!r} does not advance: T({k}) <= T({k - 1}) = {T(k - 1)}.")
    if T(k) % 1:
        raise ValueError(f"T({k}) must be an integer; got {T(k)!r} of {T!r}. Round it.")
    return int(T(k))


def checked_price(C: Any) -> float:
    """Return C, the price of squared slacks, as a float; it is positive, or infinite for a hard margin."""
    shown = "a number above the floating range"
    with suppress(OverflowError):
        if not isinstance(C, bool) and isinstance(C, Real) and float(C) > 0.0:
            return float(C)
        shown = repr(C)
    raise ValueError(f"C must be a positive number, or math.inf for the hard margin; got {shown}.")


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is not ``known``; the message lists the nearest known names."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(names)}."
    return ValueError(f"Unknown {kind} {name!r}. {hint}")


def joint_hint(multi_class: object) -> str:
    """Return what was probably meant by a ``multi_class`` that is not known, after a space; else nothing."""
    text = str(multi_class).lower()
    if text == "crammer_singer":  # scikit-learn's name
        return " The problem of Crammer and Singer is 'joint'."
    near = difflib.get_close_matches(text, ["ovr", "joint"], n=1)
    if near == ["ovr"]:
        return " prgd.MaxMarginClassifier and prgd fit separate each class from the rest (ovr)."
    return " Did you mean 'joint'?" if near else ""


def bad_cell(place: str, column: str, value: object) -> ValueError:
    """Return the error for a value in a file that is not a finite number."""
    text = repr(value) if isinstance(value, str) else str(value)
    if value is None or value != value:
        what = "the value is missing. Fill it in, or drop its row."
    elif isinstance(value, str) and not _is_too_large(value):
        what = f"text. Leave the column out (--drop {as_option([column])}), or encode it as numbers."
        return TextError(f"{place}, column {column!r}: expected a finite number, got {text}: {what}")
    else:
        what = (
            "infinite, or too large for its type of floating-point number. Rescale the column, or leave it "
            f"out (--drop {as_option([column])})."
        )
    return ValueError(f"{place}, column {column!r}: expected a finite number, got {text}: {what}")


def _is_too_large(text: str) -> bool:
    try:
        return math.isinf(float(text))
    except ValueError:
        return False


def as_option(columns: Iterable[str]) -> str:
    r"""Return names of columns as ``--drop`` takes them in a shell.

    Examples
    --------
    >>> as_option(["id", "height, cm"])
    '\'id,"height, cm"\''
    """
    return shlex.quote(",".join(f'"{name}"' if "," in name else name for name in columns))


def not_exact(place: str, value: object, column: str | None = None) -> ValueError:
    """Return the error for a number that has no float64: certificates would be about rounded data."""
    drop = (
        ""
        if column is None
        else f" Leave the column out if it is an identifier (--drop {as_option([column])})."
    )
    is_long = isinstance(value, int) and value.bit_length() > 300
    shown = "an integer of hundreds of digits" if is_long else str(value)  # digits of a long double included
    return ValueError(
        f"{place}: float64 cannot hold {shown} exactly, and bounds and verdicts would be about rounded data."
        f"{drop} Subtract a constant from such a column, rescale it, or round it yourself (astype(float))."
    )


def is_rounded_integer(text: str, value: float) -> bool:
    """Say whether ``text`` writes an integer, without point or exponent, that differs from its float."""
    digits = text.strip()
    # Python refuses to read integers of thousands of digits, none of which has a float.
    return digits.lstrip("+-").isdigit() and (not math.isfinite(value) or int(digits) != value)


def check_writable(folder: Path) -> Path:
    """Make ``folder`` and check that a file can be written there, before long work starts."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".prgd-write-test-{secrets.token_hex(4)}"  # processes may check one folder at once
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ValueError(
            f"Cannot write to the output folder {str(folder)!r} ({error.strerror}). "
            "Choose another folder or change its permissions."
        ) from error
    return folder


def check_parent(path: Path, option: str) -> None:
    """Check that a file can be written to its folder, which is not made: its name may be mistyped."""
    if not path.parent.exists():
        raise ValueError(
            f"{option} expects a file in a folder that exists; there is none called {str(path.parent)!r}. "
            "Make it first, or name another one."
        )
    check_writable(path.parent)


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
    try:
        numbers = [float(part) for part in rest.split(",")] if rest else []
    except ValueError:
        raise ValueError(f"Expected numbers after the colon; got {text!r}.") from None
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
        numbers = repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes()
        yield f"{value.dtype.str}{value.shape}{hashlib.sha256(numbers).hexdigest()}"
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
