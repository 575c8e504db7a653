"""Attributes that are computed, and names that are imported, when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

from prgd.core.errors import missing_package

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """A property computed once. `functools.cached_property` takes a lock on Python 3.11.

    That lock was a third of the time of a step on a small problem; here two threads may compute the same
    value, which does no harm.

    Examples
    --------
    >>> class Square:
    ...     @lazy
    ...     def area(self):
    ...         return 4.0
    >>> Square().area
    4.0
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        """Compute the value, and store it where the next access finds it without coming here."""
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value


def lazy_names(
    package: str, modules: Mapping[str, str], *, needs: tuple[str, ...], extra: str
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports the module of a name at its first use.

    Parameters
    ----------
    package : str, dotted name of the package.
    modules : mapping from public names to their modules inside of the package.
    needs : tuple of str, packages without which the modules cannot be imported.
    extra : str, extra of prgd that installs them.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f"{package}.{modules[name]}")
        except ModuleNotFoundError as error:
            if error.name not in needs:
                raise
            raise missing_package(package, error.name, extra) from error
        return getattr(module, name)

    return get
