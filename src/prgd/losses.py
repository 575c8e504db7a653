r"""The two losses, in the log domain.

Exponential: ``l(m) = e^-m``. Logistic: ``l(m) = log(1 + e^-m)``. A pass needs ``log l(m)`` and
``log(-l'(m))`` of every margin, exact at m = 1e3 and at m = -1e200; the kernels form them row by row
(``rows/_kernels.py``), and `log_slope` here is the same for an array of margins.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from prgd._types import Array

Loss = Literal["exponential", "logistic"]
LOSSES: tuple[Loss, ...] = ("exponential", "logistic")


def check_loss(loss: str) -> Loss:
    """Return ``loss`` when it is known, else raise ``ValueError``."""
    for known in LOSSES:
        if loss == known:
            return known
    raise ValueError(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}.")


def log_slope(m: Array, loss: Loss) -> Array:
    """Return ``log(-l'(m))`` for each margin.

    Examples
    --------
    >>> log_slope(np.array([0.0]), "logistic").round(3)
    array([-0.693])
    """
    return -m if loss == "exponential" else -np.logaddexp(0.0, m)
