"""Axes of the drawings on the page: scales from data to the units of a drawing, ticks and their labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from prgd.core.types import Array

PADDING = 0.04  # fraction of the range of the data that is left free at each end of an axis
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MAX_TICKS = 7


@dataclass(frozen=True)
class Axis:
    """A scale from data to positions; ``low`` and ``high`` are powers of 10 if the axis is logarithmic.

    Examples
    --------
    >>> axis = Axis(0.0, 3.0, 300.0, is_log=True)
    >>> axis.positions([1.0, 1000.0]).tolist(), [label for _, label in axis.ticks()]
    ([0.0, 300.0], ['10⁰', '10¹', '10²', '10³'])
    """

    low: float
    high: float
    length: float
    is_log: bool = False

    @classmethod
    def around(cls, values: list[Any], ends: tuple[float, float] | None, length: float, is_log: bool) -> Axis:
        """Return the axis from ``ends``, or else an axis that shows all finite values."""
        if ends is None:
            low, high = _range(scaled(np.concatenate([np.ravel(v) for v in values]), is_log))
            gap = PADDING * (high - low)
            return cls(low - gap, high + gap, length, is_log)
        low, high = scaled(ends, is_log)
        return cls(float(low), float(high), length, is_log)

    def positions(self, values: Any) -> Array:
        """Return where values lie, counted from the low end of the axis; NaN where a value has no place."""
        return self.places(scaled(values, self.is_log))

    def places(self, values: Any) -> Array:
        """Return where values lie that are already powers of 10 on a logarithmic axis."""
        return np.asarray((np.asarray(values) - self.low) * (self.length / (self.high - self.low)))

    def ticks(self) -> list[tuple[float, str]]:
        """Return the places and the labels of the ticks."""
        found = _decades(self.low, self.high) if self.is_log else []
        if len(found) < 2:
            found = _fine(self.low, self.high) if self.is_log else _round(self.low, self.high)
        return [(float(self.places(value)), label) for value, label in found]


def scaled(values: Any, is_log: bool) -> Array:
    """Return values as floats, or their powers of 10; NaN for what is not finite."""
    found = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log10(found) if is_log else found
    return np.where(np.isfinite(found), found, np.nan)


def _range(values: Array) -> tuple[float, float]:
    if np.isnan(values).all():
        return 0.0, 1.0
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    step = max(1, math.ceil((high - low) / (MAX_TICKS - 1)))
    powers = [k for k in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1) if k % step == 0]
    return [(float(k), f"10{str(k).translate(SUPERSCRIPTS)}") for k in powers]


def _fine(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks of a logarithmic axis that is shorter than two decades: multiples by 1, 2 and 5."""
    values = [m * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [(math.log10(v), f"{v:,g}") for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
    return inside if len(inside) > 1 else [(math.log10(v), t) for v, t in _round(10.0**low, 10.0**high)]


def _round(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks at round numbers: multiples of 1, 2 or 5 times a power of 10."""
    rough = (high - low) / (MAX_TICKS - 2)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * (1.0 - 1e-9))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    values = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
    return [(float(v), f"{v + 0.0:,.{digits}f}") for v in values]
