"""Settings of experiments as text: what ``--set figure-4.alpha=0.9`` changes, and what a record holds."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from prgd.core.checks import unknown

SEEDS = "seeds"  # the only field that does not change the rows of a task


def settings_of(settings: Any) -> dict[str, Any]:
    """Return the fields of a settings value; algorithms and schedules stay values, whose repr says all."""
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def plain_settings(settings: Any) -> dict[str, Any]:
    """Return the fields as a record in JSON gives them back, without ``seeds`` and empty texts."""
    values = {name: value for name, value in settings_of(settings).items() if name != SEEDS and value != ""}
    return dict(json.loads(json.dumps(values, default=repr)))


def differing(settings: Any, other: Any) -> list[str]:
    """Return the names of the fields but ``seeds`` in which two settings differ."""
    ours, theirs = plain_settings(settings), plain_settings(other)
    return [name for name in ours | theirs if ours.get(name) != theirs.get(name)]


def split_changes(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the changes of each experiment, by field, from texts such as ``figure-4.alpha=0.9``.

    Examples
    --------
    >>> split_changes(["figure-4.alpha=0.9", "figure-4.beta=0.3"])
    {'figure-4': {'alpha': '0.9', 'beta': '0.3'}}
    """
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        left, equals, value = text.partition("=")
        name, dot, field = left.strip().rpartition(".")
        if not (equals and dot and name and field):
            raise ValueError(f"--set expects NAME.SETTING=VALUE, e.g. figure-4.alpha=0.9; got {text!r}.")
        found.setdefault(name.lower().replace("_", "-"), {})[field.replace("-", "_")] = value.strip()
    return found


def with_changes(name: str, settings: Any, changes: Mapping[str, str]) -> Any:
    """Return the settings of the named experiment with some fields read from text, by the types they have.

    Raises
    ------
    ValueError
        If there is no such field, or the text is no value of its type; the message lists the settings.
    """
    known = {f.name: getattr(settings, f.name) for f in fields(settings) if f.init}
    values = {}
    for field, text in changes.items():
        if field not in known:
            listed = ", ".join(f"{key}={to_text(value)}" for key, value in known.items())
            raise ValueError(f"{unknown(f'setting of {name}', field, known)} It has {listed}.")
        try:
            values[field] = _read(text, known[field])
        except ValueError as error:
            raise ValueError(
                f"--set {name}.{field} expects {error}, e.g. {to_text(known[field])}; got {text!r}."
            ) from None
    return replace(settings, **values)


def from_record(settings: Any, recorded: Mapping[str, Any]) -> Any:
    """Return the settings that a record in JSON holds; fields that it lacks are those of ``settings``."""
    names = {field.name for field in fields(settings) if field.init}
    return replace(settings, **{k: _tuples(v) for k, v in recorded.items() if k in names})


def to_text(value: Any) -> str:
    """Return a value as ``--set`` reads it.

    Examples
    --------
    >>> to_text((0.6, 1.2)), to_text(((0, 1), (0, 4))), to_text(5)
    ('0.6,1.2', '(0,1),(0,4)', '5')
    """
    if isinstance(value, tuple):
        parts = [f"({to_text(part)})" if isinstance(part, tuple) else to_text(part) for part in value]
        return ",".join(parts) + ("," if len(parts) == 1 and isinstance(value[0], tuple) else "")
    return value if isinstance(value, str) else repr(value)


def as_option(name: str, field: str, value: Any) -> str:
    """Return the option that sets a field, as a shell takes it."""
    return f"--set {shlex.quote(f'{name}.{field}={to_text(value)}')}"


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _read(text: str, like: Any) -> Any:
    """Return a value of the type of ``like``; a ValueError says what was expected, in words."""
    if isinstance(like, str):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = _words(text) if isinstance(like, tuple) else text
    return _as(value, like)


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _as(value: Any, like: Any) -> Any:
    if isinstance(like, tuple):
        parts = value if isinstance(value, tuple | list) else (value,)
        # Tuples of one type may have any length; those that mix types are records of fixed parts.
        kinds = {type(part) for part in like}
        if len(kinds) > 1 and len(parts) != len(like):
            raise ValueError(f"{len(like)} values with commas")
        each = like if len(kinds) > 1 else [like[0] if like else ""] * len(parts)
        return tuple(_as(part, one) for part, one in zip(parts, each, strict=True))
    if isinstance(like, bool) and isinstance(value, bool):
        return value
    if isinstance(like, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(like, int | str) and type(value) is type(like):
        return value
    kinds_of = {bool: "True or False", int: "an integer", float: "a number", str: "a name"}
    raise ValueError(kinds_of.get(type(like), type(like).__name__))
