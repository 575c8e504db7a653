"""Triton kernel: the Tallies of programs, merged, and how a Tally lies in memory. Imported on first use."""

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


@triton.jit
def merge_kernel(
    parts, out, starts, GROUPS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """Merge the Tallies of all programs: (b, g) sums columns of block b for group g.

    Each program has ``GROUPS`` groups. Programs ``starts[k]`` to ``starts[k + 1]``, at most ``ROWS``, have
    the groups ``k GROUPS`` and following.
    """
    group = tl.program_id(1)
    first = tl.load(starts + group // GROUPS)
    count = tl.load(starts + group // GROUPS + 1) - first
    step = GROUPS * (SCALARS + D)
    parts += first.to(tl.int64) * step + (group % GROUPS) * (SCALARS + D)
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
