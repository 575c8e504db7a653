"""The public names of prgd, which the reference lists: a test and the checker of the site ask for them."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

MODULES = [
    "prgd",
    "prgd.algorithms",
    "prgd_paper.claims",
    "prgd.datasets",
    "prgd.deep",
    "prgd.estimators",
    "prgd.jax",
    "prgd.losses",
    "prgd.maxmargin",
    "prgd.norms",
    "prgd.plots",
    "prgd_paper.race",
    "prgd_paper.reproduce",
    "prgd.rows",
    "prgd.schedules",
    "prgd.regression",
    "prgd.separation",
    "prgd_paper.theory",
]
# These packages re-export what their files define and have no __all__.
OF_THEIR_FILES = {"prgd.algorithms", "prgd_paper.theory"}


def names_of(module: str) -> list[str]:
    """Return the public names of a module: its ``__all__``, else what it defines itself."""
    found = import_module(module)
    if hasattr(found, "__all__"):
        return [f"{module}.{name}" for name in found.__all__]
    homes = (module, f"{module}.") if module in OF_THEIR_FILES else (module,)
    return [
        f"{module}.{name}"
        for name, value in vars(found).items()
        if not name.startswith("_") and _is_at_home(getattr(value, "__module__", ""), homes)
    ]


def public_names() -> list[str]:
    """Return all public names, modules included, with their dots."""
    return sorted({*MODULES, *(name for module in MODULES for name in names_of(module))})


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


def _is_at_home(home: str, homes: tuple[str, ...]) -> bool:
    return home == homes[0] or any(home.startswith(prefix) for prefix in homes[1:])
