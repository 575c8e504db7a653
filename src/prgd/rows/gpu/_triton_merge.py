"""How a Tally lies in device memory, the losses, and the merging of Tallies. Imported on first use."""

# ruff: noqa: ANN001, ANN202 - the compiler reads these as code, and has types of its own
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

# A row of the output holds the scalars of a Tally, then its vector.
SHIFT = tl.constexpr(0)
MASS = tl.constexpr(1)
SLOPE_SHIFT = tl.constexpr(2)
SLOPE_MASS = tl.constexpr(3)
MARGIN = tl.constexpr(4)
SECOND_MARGIN = tl.constexpr(5)  # not written by passes with one direction
SCALARS = tl.constexpr(6)


# The losses in the log domain: what `prgd.losses` computes on the host.


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


@triton.jit
def merge_kernel(
    parts, out, starts, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    SECOND: tl.constexpr,
):  # fmt: skip
    """Merge the Tallies of all programs: (b, g) sums columns of block b for group g.

    Programs ``starts[g]`` to ``starts[g + 1]``, at most ``ROWS``, have the rows of the group.
    """
    group = tl.program_id(1)
    first = tl.load(starts + group)
    count = tl.load(starts + group + 1) - first
    step = SCALARS + D
    parts += first.to(tl.int64) * step
    i = tl.arange(0, ROWS)
    shifts = tl.load(parts + i * step + SLOPE_SHIFT, mask=i < count, other=-float("inf"))
    slope_shift = tl.max(shifts, axis=0)
    slope_top = tl.where(slope_shift > -float("inf"), slope_shift, 0.0)
    j = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float64)
    for start in range(0, count, BLOCK):
        k = start + tl.arange(0, BLOCK)
        shift = tl.load(parts + k * step + SLOPE_SHIFT, mask=k < count, other=-float("inf"))
        inside = (k < count)[:, None] & (j < D)[None, :]
        vectors = tl.load(parts + (k * step)[:, None] + (j + SCALARS)[None, :], mask=inside, other=0.0)
        total += tl.sum(tl.exp(shift - slope_top)[:, None] * vectors, axis=0)
    out += group * (SCALARS + D)
    tl.store(out + SCALARS + j, total, mask=j < D)
    if tl.program_id(0) == 0:
        slope_mass = tl.load(parts + i * step + SLOPE_MASS, mask=i < count, other=0.0)
        tl.store(out + SLOPE_SHIFT, slope_shift)
        tl.store(out + SLOPE_MASS, tl.sum(tl.exp(shifts - slope_top) * slope_mass, axis=0))
        shifts = tl.load(parts + i * step + SHIFT, mask=i < count, other=-float("inf"))
        shift = tl.max(shifts, axis=0)
        mass = tl.load(parts + i * step + MASS, mask=i < count, other=0.0)
        tl.store(out + SHIFT, shift)
        top = tl.where(shift > -float("inf"), shift, 0.0)
        tl.store(out + MASS, tl.sum(tl.exp(shifts - top) * mass, axis=0))
        margin = tl.load(parts + i * step + MARGIN, mask=i < count, other=float("inf"))
        tl.store(out + MARGIN, tl.min(margin, axis=0))
        if SECOND:
            second = tl.load(parts + i * step + SECOND_MARGIN, mask=i < count, other=float("inf"))
            tl.store(out + SECOND_MARGIN, tl.min(second, axis=0))
