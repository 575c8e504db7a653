"""The losses in Triton, in the log domain: what `prgd.losses` computes on the host."""

# ruff: noqa: ANN001, ANN202 - the compiler reads these as code, and has types of its own
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _log1p(t):
    """log(1 + t) for t in [0, 1], exact to rounding where 1 + t loses the digits of t."""
    u = 1.0 + t
    lost = u == 1.0
    return tl.where(lost, t, tl.log(u) * (t / tl.where(lost, 1.0, u - 1.0)))


@triton.jit
def log_value(m, LOGISTIC: tl.constexpr, SUM: tl.constexpr):
    """Log l(m). What is linear in m keeps the precision of m, the rest has that of the sums."""
    if not LOGISTIC:
        return -m
    t = tl.exp(-tl.abs(m).to(SUM))
    tail = _log1p(t)
    lost = t == 0.0
    right = tl.log(tl.where(lost, 1.0, tail / tl.where(lost, 1.0, t)))
    left = tl.log(tl.where(m > 0.0, 1.0, tail - m.to(SUM)))
    return tl.where(m > 0.0, right - m, left)


@triton.jit
def log_slope(m, LOGISTIC: tl.constexpr, SUM: tl.constexpr):
    """log(-l'(m))."""
    if not LOGISTIC:
        return -m
    return tl.minimum(-m, 0.0) - _log1p(tl.exp(-tl.abs(m).to(SUM)))
