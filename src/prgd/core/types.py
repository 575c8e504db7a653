"""The types of arrays and vectors that every room shares, and attributes that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]  # positions of rows or columns, counted from 0
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]  # the place of each label among the classes, counted from 0
Signs = npt.NDArray[np.int8]  # labels of two classes as +1 and -1
Intercept = float | Array  # one number for two classes, one for each class of a joint problem
RationalVector = tuple[Fraction, ...]

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
