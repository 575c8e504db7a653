r"""Losses as values, in the log domain.

A pass needs ``log l(m)`` and ``log(-l'(m))`` of every margin m, exact at m = 1e3 and at m = -1e200. The
formulas here serve NumPy arrays and torch tensors. The compiled kernels form the same numbers row by row and
branch on the integer ``code``, because a function argument would defeat Numba's cache.

A new loss is a subclass here, an entry in `LOSSES`, and a branch in ``rows/_kernels.py`` and
``rows/gpu/_triton.py``.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class Loss:
    """A decreasing loss l(m) of the margin m with exponential tail."""

    name: ClassVar[str]
    code: ClassVar[int]

    def log_value(self, m: Any, xp: ModuleType = np) -> Any:
        """Return ``log l(m)`` for each margin; ``xp`` is ``numpy`` or ``torch``."""
        raise NotImplementedError

    def log_slope(self, m: Any, xp: ModuleType = np) -> Any:
        """Return ``log(-l'(m))`` for each margin; ``xp`` is ``numpy`` or ``torch``."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Exponential(Loss):
    r"""``l(m) = e^-m``, the loss of the paper.

    .. math:: \ell(m) = e^{-m}
    """

    name: ClassVar[str] = "exponential"
    code: ClassVar[int] = 0

    def log_value(self, m: Any, xp: ModuleType = np) -> Any:
        """Return ``-m``."""
        return -m

    def log_slope(self, m: Any, xp: ModuleType = np) -> Any:
        """Return ``-m``."""
        return -m


@dataclass(frozen=True)
class Logistic(Loss):
    r"""``l(m) = log(1 + e^-m)``.

    .. math:: \ell(m) = \log(1 + e^{-m})

    Examples
    --------
    >>> LOGISTIC.log_slope(np.array([0.0])).round(3)
    array([-0.693])
    """

    name: ClassVar[str] = "logistic"
    code: ClassVar[int] = 1

    def log_value(self, m: Any, xp: ModuleType = np) -> Any:
        """Return ``log log(1 + e^-m)``, which is -m if the inner logarithm would underflow."""
        inner = xp.logaddexp(xp.zeros_like(m), -xp.clip(m, None, _FAR))
        return xp.where(m > _FAR, -m, xp.log(inner))

    def log_slope(self, m: Any, xp: ModuleType = np) -> Any:
        """Return ``-log(1 + e^m)``."""
        return -xp.logaddexp(xp.zeros_like(m), m)


_FAR = 37.0  # beyond this margin log(1 + e^-m) equals e^-m to the last digit

EXPONENTIAL = Exponential()
LOGISTIC = Logistic()
LOSSES: dict[str, Loss] = {loss.name: loss for loss in (EXPONENTIAL, LOGISTIC)}
