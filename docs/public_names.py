"""The public names of prgd: those that the pages of the reference list."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PAGES = sorted((Path(__file__).parent / "reference").glob("*.rst"))


def _listed(pattern: str) -> list[str]:
    return sorted(
        {name for page in PAGES for name in re.findall(pattern, page.read_text(), flags=re.MULTILINE)}
    )


def public_names() -> list[str]:
    """Return the names that the reference lists, with their dots."""
    return _listed(r"^   (prgd[\w.]*)$")


def public_modules() -> list[str]:
    """Return the modules whose names the reference lists."""
    return _listed(r"^\.\. module:: (prgd[\w.]*)$")


def names_of(module: str) -> list[str]:
    """Return the names in the ``__all__`` of a module, with their dots; none without ``__all__``."""
    return [f"{module}.{name}" for name in getattr(import_module(module), "__all__", ())]


@cache
def value_of(name: str) -> Any:
    """Return the value of a dotted name, an attribute of a class included; None if there is none."""
    first, *parts = name.split(".")
    value, path = import_module(first), first
    for part in parts:
        path = f"{path}.{part}"
        if not hasattr(value, part) and isinstance(value, ModuleType):
            with suppress(ModuleNotFoundError):
                import_module(path)
        value = getattr(value, part, None)
    return value
