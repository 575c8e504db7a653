"""Triton kernels: one Tally, or all margins, of rows in device memory. Imported on first use.

A program takes tiles of ``STEPS x SLOTS`` rows. A step is a row for each slot, cut into ``CHUNKS`` chunks of
``WIDTH`` loads, 16 bytes for every thread; a thread keeps its columns of w and of the sum in registers, so
that the rows are read once and used twice. Each slot runs an online softmax of its own: within the loop the
threads meet only in the product of a row with w. Slots meet once, after the loop; programs in `merge_kernel`.
With a ``SECOND`` direction v, the registers of a row are multiplied by v too, and threads exchange both sums
at once; a slot keeps its smallest margin along v.

The sign of row i is bit ``i % 32`` of word ``i // 32`` of ``Y``. If the sums of two classes are kept apart,
``I`` lists the rows of one class after those of the other, and each program takes rows of one class: with
sums of both it would need twice the registers. Packed rows are pairs of bfloat16 loaded as one 32-bit
integer: a shift or a mask makes a float32 of either.
"""

# ruff: noqa: ANN001, ANN202, E741, RUF005 - the compiler reads these as code, and has types of its own
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from prgd.rows.gpu._triton_merge import (
    MARGIN,
    MASS,
    SCALARS,
    SECOND_MARGIN,
    SHIFT,
    SLOPE_MASS,
    SLOPE_SHIFT,
    log_slope,
    log_value,
)


@triton.jit
def _values(raw, PACKED: tl.constexpr):
    """Return the one or two numbers of each load."""
    if PACKED:
        return (raw << 16).to(tl.float32, bitcast=True), (raw & -65536).to(tl.float32, bitcast=True)
    else:  # noqa: RET505 - the compiler takes one branch, and needs to see them as such
        return (raw,)


@triton.jit
def _signed(v, negative, LABELLED: tl.constexpr):
    """Return v or -v, by the sign bit alone."""
    if not LABELLED:
        return v
    if v.dtype == tl.float32:
        return (v.to(tl.int32, bitcast=True) ^ (negative & -2147483648)).to(tl.float32, bitcast=True)
    return tl.where(negative < 0, -v, v)


@triton.jit
def _load_w(
    W, D: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr, DOT: tl.constexpr
):
    """Return a direction by chunk and part, as the threads meet its columns."""
    column = tl.arange(0, WIDTH)
    w = ()
    for c in tl.static_range(CHUNKS):
        for part in tl.static_range(PARTS):
            j = PARTS * (c * WIDTH + column) + part
            w = w + (tl.load(W + j, mask=j < D, other=0.0).to(DOT)[None, :],)
    return w


@triton.jit
def _load_rows(
    X, listed, first, left, STRIDE: tl.constexpr, D: tl.constexpr, STEPS: tl.constexpr,
    SLOTS: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr,
    LISTED: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Load a tile: a tuple over steps and chunks. ``left`` rows of it exist unless it is ``WHOLE``.

    Its rows are those ``listed`` by step if they are ``LISTED``, else it begins with row ``first``.
    """
    slot, column = tl.arange(0, SLOTS)[:, None], tl.arange(0, WIDTH)[None, :]
    tile = X + first * tl.full((), STRIDE, tl.int64)  # 64 bits, since there may be more than 2^31 entries
    rows = ()
    for k in tl.static_range(STEPS):
        if LISTED:
            place = X + listed[k].to(tl.int64)[:, None] * STRIDE
        else:
            place = tile + (k * SLOTS * STRIDE) + slot * STRIDE
        for c in tl.static_range(CHUNKS):
            at = place + (c * WIDTH + column)
            inside = PARTS * (c * WIDTH + column) < D
            if not WHOLE:
                rows = rows + (tl.load(at, mask=inside & (k * SLOTS + slot < left), other=0),)
            elif (c + 1) * WIDTH * PARTS <= D:
                rows = rows + (tl.load(at),)
            else:
                rows = rows + (tl.load(at, mask=inside & (slot >= 0), other=0),)
    return rows


@triton.jit
def _load_list(I, first, n, STEPS: tl.constexpr, SLOTS: tl.constexpr, LISTED: tl.constexpr):
    """Return by step the rows of a tile in the list of n rows.

    Nothing is computed with them here: that would wait for them, and they are loaded long before their use.
    """
    slot = tl.arange(0, SLOTS)
    listed = ()
    for k in tl.static_range(STEPS):
        if LISTED:
            at = first + k * SLOTS + slot
            listed = listed + (tl.load(I + at, mask=at < n, other=0),)
        else:
            listed = listed + (slot,)
    return listed


@triton.jit
def _load_signs(
    Y, first, minus, STEPS: tl.constexpr, SLOTS: tl.constexpr, LABELLED: tl.constexpr, LISTED: tl.constexpr
):
    """Return by step and slot an integer that is negative where the label is; ``minus`` in a list of rows."""
    slot = tl.arange(0, SLOTS)
    signs = ()
    if LISTED:
        for _ in tl.static_range(STEPS):
            signs = signs + (slot * 0 - minus,)
    elif LABELLED:
        for k in tl.static_range(STEPS):
            if (k * SLOTS) % 32 == 0:
                # A tile is an aligned power of two of rows, so it fills whole words or lies in one.
                word = tl.load(Y + (first + k * SLOTS) // 32) >> (first % 32)
            signs = signs + (word << (31 - (k * SLOTS) % 32 - slot),)
    else:
        for _ in tl.static_range(STEPS):
            signs = signs + (slot,)
    return signs


@triton.jit
def _products(rows, w, k: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr, TYPE: tl.constexpr):
    """Return the products of one step with a direction, added over the chunks, not yet over the threads.

    Which product of a sum is fused is said here and in `_add`, not left to the compiler, so that a second
    direction changes no bit of a Tally.
    """
    for c in tl.static_range(CHUNKS):
        values = _values(rows[k * CHUNKS + c], PARTS == 2)
        for part in tl.static_range(PARTS):
            if c + part == 0:
                total = values[part].to(TYPE) * w[0]
            else:
                total = tl.fma(values[part].to(TYPE), w[c * PARTS + part], total)
    return total


@triton.jit
def _add_pairs(a, b, c, d):
    """Add two pairs of numbers."""
    return a + c, b + d


@triton.jit
def _margins(
    rows, w, v, negative, used, k: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr,
    LABELLED: tl.constexpr, DOT: tl.constexpr, SUM: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """Return the margins of one step along w, and those along v: a tuple, empty if there is no v.

    Rows that are not ``used`` have infinite margins. Products with v have the precision of the sums. Where
    one of a row that is used is not finite, the margin is -inf: a minimum would drop a NaN.
    """
    total = _products(rows, w, k, CHUNKS, PARTS, DOT)
    if SECOND:
        # The threads exchange both sums at once.
        margin, beside = tl.reduce((total, _products(rows, v, k, CHUNKS, PARTS, SUM)), 1, _add_pairs)
        beside = tl.where(tl.abs(beside) < float("inf"), _signed(beside, negative, LABELLED), -float("inf"))
        seconds = (tl.where(used, beside, float("inf")),)
    else:
        margin = tl.sum(total, axis=1)
        seconds = ()
    return tl.where(used, _signed(margin, negative, LABELLED), float("inf")), seconds


@triton.jit
def _add(
    sums, rows, margins, seconds, signs, weights, STEPS: tl.constexpr, CHUNKS: tl.constexpr,
    PARTS: tl.constexpr, LABELLED: tl.constexpr, WEIGHTED: tl.constexpr, LOGISTIC: tl.constexpr,
    SUM: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """Add a tile to the sums of the slots, ``(margin, mass, slope mass, second margin, vector ...)``.

    Rows with an infinite margin do not count.
    """
    low, second = sums[0], sums[3]
    for k in tl.static_range(STEPS):
        low = tl.minimum(low, margins[k])
        if SECOND:
            second = tl.minimum(second, seconds[k])
    # exp(-inf + inf) is NaN, so a slot without rows keeps a finite shift.
    seen = tl.where(low < float("inf"), low, 0.0)
    top = log_slope(seen, LOGISTIC, SUM)
    scale = tl.exp((log_slope(sums[0], LOGISTIC, SUM) - top).to(SUM))
    mass, slope_mass = sums[1], sums[2] * scale
    if LOGISTIC:
        value_top = log_value(seen, LOGISTIC, SUM)
        mass *= tl.exp((log_value(sums[0], LOGISTIC, SUM) - value_top).to(SUM))
    vector = ()
    for i in tl.static_range(CHUNKS * PARTS):
        vector = vector + (sums[4 + i] * scale[:, None],)
    for k in tl.static_range(STEPS):
        p = tl.exp((log_slope(margins[k], LOGISTIC, SUM) - top).to(SUM))
        if LOGISTIC:
            value = tl.exp((log_value(margins[k], LOGISTIC, SUM) - value_top).to(SUM))
            mass = tl.fma(value, weights[k], mass) if WEIGHTED else mass + value
        if WEIGHTED:
            slope_mass = tl.fma(p, weights[k], slope_mass)
            p *= weights[k]
        else:
            slope_mass += p
        factor = _signed(p, signs[k], LABELLED)[:, None]
        grown = ()
        for c in tl.static_range(CHUNKS):
            values = _values(rows[k * CHUNKS + c], PARTS == 2)
            for part in tl.static_range(PARTS):
                grown = grown + (tl.fma(factor, values[part].to(SUM), vector[c * PARTS + part]),)
        vector = grown
    return (low, mass, slope_mass, second) + vector


@triton.jit
def _write(
    sums, out, D: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr,
    LOGISTIC: tl.constexpr, SUM: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """Merge the slots and write scalars and vector of a program."""
    low = sums[0]
    margin = tl.min(low, axis=0)
    seen = tl.where(margin < float("inf"), margin, 0.0)
    slope_shift, shift = log_slope(seen, LOGISTIC, SUM), log_value(seen, LOGISTIC, SUM)
    scale = tl.exp((log_slope(low, LOGISTIC, SUM) - slope_shift).to(SUM))
    slope_mass = tl.sum(sums[2] * scale, axis=0)
    mass = slope_mass
    if LOGISTIC:
        mass = tl.sum(sums[1] * tl.exp((log_value(low, LOGISTIC, SUM) - shift).to(SUM)), axis=0)
    nothing = margin == float("inf")
    tl.store(out + SHIFT, tl.where(nothing, -float("inf"), shift))
    tl.store(out + MASS, mass)
    tl.store(out + SLOPE_SHIFT, tl.where(nothing, -float("inf"), slope_shift))
    tl.store(out + SLOPE_MASS, slope_mass)
    tl.store(out + MARGIN, margin)
    if SECOND:
        tl.store(out + SECOND_MARGIN, tl.min(sums[3], axis=0))
    column = tl.arange(0, WIDTH)
    for c in tl.static_range(CHUNKS):
        for part in tl.static_range(PARTS):
            j = PARTS * (c * WIDTH + column) + part
            total = tl.sum(sums[4 + c * PARTS + part] * scale[:, None], axis=0)
            tl.store(out + SCALARS + j, total, mask=j < D)


@triton.jit
def _sum_tile(
    sums, rows, listed, Y, S, w, v, first, left, minus, STEPS: tl.constexpr, SLOTS: tl.constexpr,
    CHUNKS: tl.constexpr, PARTS: tl.constexpr, LABELLED: tl.constexpr, LISTED: tl.constexpr,
    WEIGHTED: tl.constexpr, LOGISTIC: tl.constexpr, DOT: tl.constexpr, SUM: tl.constexpr,
    SECOND: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Add a tile that was loaded to the sums."""
    slot = tl.arange(0, SLOTS)
    signs = _load_signs(Y, first, minus, STEPS, SLOTS, LABELLED, LISTED)
    margins, seconds, weights = (), (), ()
    for k in tl.static_range(STEPS):
        used = slot >= 0 if WHOLE else k * SLOTS + slot < left
        if WEIGHTED:
            row = listed[k] if LISTED else first + k * SLOTS + slot
            weight = tl.load(S + row, mask=used, other=0.0)
            used = weight > 0.0
            weights = weights + (weight.to(SUM),)
        margin, beside = _margins(
            rows, w, v, signs[k], used, k, CHUNKS, PARTS, LABELLED, DOT, SUM, SECOND
        )  # fmt: skip
        margins, seconds = margins + (margin,), seconds + beside
    return _add(
        sums, rows, margins, seconds, signs, weights, STEPS, CHUNKS, PARTS, LABELLED, WEIGHTED, LOGISTIC, SUM,
        SECOND,
    )  # fmt: skip


@triton.jit(do_not_specialize=["n", "n_plus", "plus_programs"])
def tally_kernel(
    X, Y, I, S, W, V, out, n, n_plus, plus_programs, STRIDE: tl.constexpr, D: tl.constexpr,
    STEPS: tl.constexpr, SLOTS: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr,
    LABELLED: tl.constexpr, LISTED: tl.constexpr, WEIGHTED: tl.constexpr,
    LOGISTIC: tl.constexpr, DOT: tl.constexpr, SUM: tl.constexpr, SECOND: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Write the Tally of every P-th tile, P programs in all: ``out`` has shape (P, SCALARS + D).

    If rows are ``LISTED``, the first ``plus_programs`` share the first ``n_plus`` rows of the list, and the
    others the rest.
    """
    TILE: tl.constexpr = STEPS * SLOTS
    program, programs, minus = tl.program_id(0), tl.num_programs(0), 0
    out += program * (SCALARS + D)
    if LISTED:
        minus = (program >= plus_programs).to(tl.int32)
        program -= minus * plus_programs
        programs = tl.where(minus > 0, programs - plus_programs, plus_programs)
        I += minus * n_plus
        n = tl.where(minus > 0, n - n_plus, n_plus)
    w, v = _load_w(W, D, WIDTH, CHUNKS, PARTS, DOT), ()
    if SECOND:
        v = _load_w(V, D, WIDTH, CHUNKS, PARTS, SUM)
    sums = (tl.full((SLOTS,), float("inf"), DOT), tl.zeros((SLOTS,), SUM), tl.zeros((SLOTS,), SUM))
    sums = sums + (tl.full((SLOTS,), float("inf"), SUM),)
    for _ in tl.static_range(CHUNKS * PARTS):
        sums = sums + (tl.zeros((SLOTS, WIDTH), SUM),)
    whole = n // TILE
    # The list of the next tile is loaded while this one is summed: rows cannot be loaded before it is there.
    # Where the compiler loads several tiles ahead, it does so with their lists.
    listed = _load_list(I, program * TILE, n, STEPS, SLOTS, LISTED)
    for t in tl.range(program, whole, programs, num_stages=STAGES):
        if STAGES > 1:
            listed = _load_list(I, t * TILE, n, STEPS, SLOTS, LISTED)
        else:
            coming = _load_list(I, (t + programs) * TILE, n, STEPS, SLOTS, LISTED)
        rows = _load_rows(
            X, listed, t * TILE, TILE, STRIDE, D, STEPS, SLOTS, WIDTH, CHUNKS, PARTS, LISTED, True
        )  # fmt: skip
        sums = _sum_tile(
            sums, rows, listed, Y, S, w, v, t * TILE, TILE, minus, STEPS, SLOTS, CHUNKS, PARTS,
            LABELLED, LISTED, WEIGHTED, LOGISTIC, DOT, SUM, SECOND, True,
        )  # fmt: skip
        if STAGES == 1:
            listed = coming
    if whole % programs == program and whole * TILE < n:
        left = n - whole * TILE
        listed = _load_list(I, whole * TILE, n, STEPS, SLOTS, LISTED)
        rows = _load_rows(
            X, listed, whole * TILE, left, STRIDE, D, STEPS, SLOTS, WIDTH, CHUNKS, PARTS, LISTED,
            False,
        )  # fmt: skip
        sums = _sum_tile(
            sums, rows, listed, Y, S, w, v, whole * TILE, left, minus, STEPS, SLOTS, CHUNKS, PARTS,
            LABELLED, LISTED, WEIGHTED, LOGISTIC, DOT, SUM, SECOND, False,
        )  # fmt: skip
    _write(sums, out, D, WIDTH, CHUNKS, PARTS, LOGISTIC, SUM, SECOND)


@triton.jit(do_not_specialize=["n"])
def margins_kernel(
    X, Y, W, out, n, STRIDE: tl.constexpr, D: tl.constexpr, STEPS: tl.constexpr, SLOTS: tl.constexpr,
    WIDTH: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr, LABELLED: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    """Write ``<w, z_i>`` for every row."""
    TILE: tl.constexpr = STEPS * SLOTS
    slot = tl.arange(0, SLOTS)
    w = _load_w(W, D, WIDTH, CHUNKS, PARTS, DOT)
    whole = n // TILE
    for t in range(tl.program_id(0), whole, tl.num_programs(0)):
        rows = _load_rows(X, (), t * TILE, TILE, STRIDE, D, STEPS, SLOTS, WIDTH, CHUNKS, PARTS, False, True)
        signs = _load_signs(Y, t * TILE, 0, STEPS, SLOTS, LABELLED, False)
        for k in tl.static_range(STEPS):
            margin = tl.sum(_products(rows, w, k, CHUNKS, PARTS, DOT), axis=1)
            margin = _signed(margin, signs[k], LABELLED)
            tl.store(out + t * TILE + k * SLOTS + slot, margin)
    if whole % tl.num_programs(0) == tl.program_id(0) and whole * TILE < n:
        left = n - whole * TILE
        rows = _load_rows(
            X, (), whole * TILE, left, STRIDE, D, STEPS, SLOTS, WIDTH, CHUNKS, PARTS, False, False
        )
        signs = _load_signs(Y, whole * TILE, 0, STEPS, SLOTS, LABELLED, False)
        for k in tl.static_range(STEPS):
            margin = tl.sum(_products(rows, w, k, CHUNKS, PARTS, DOT), axis=1)
            margin = _signed(margin, signs[k], LABELLED)
            tl.store(out + whole * TILE + k * SLOTS + slot, margin, mask=k * SLOTS + slot < left)
