"""Triton kernel: the Tally of all classes jointly, of rows in device memory. Imported on first use.

A program takes tiles of ``ROWS`` rows, cut into ``CHUNKS`` chunks of ``WIDTH`` columns. A tile is read once
and used in two matrix products on tensor cores: ``S = X W^T``, from which the weights P of the pairs follow,
and ``X^T P``, which is added to the sum of the program. `merge_kernel` merges the programs.

Tensor cores multiply numbers of 8 or 11 digits, so larger numbers are taken as sums of such: a row of float32
as two numbers of float16 (``PLANES``), w as two of float16 or three of bfloat16, side by side in a matrix
(``STACKED``, padded), and P as two of either (``PARTS``). float16 has a narrow range: rows, w and P are
scaled by powers of two so that the largest are near 2^14, and no number is off by more than 2^-39 of the
largest. The largest weight of a program is 1 for this, so that the shifts include sample weights.

The class of row i is ``Y[i]``. If each pair of classes has sums of its own, the rows of each class are listed
one after the other in ``I``, and each program takes rows of one class.
"""

# ruff: noqa: ANN001, ANN202, E741, RUF005 - the compiler reads these as code, and has types of its own
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from prgd.rows.gpu._triton_losses import log_slope, log_value
from prgd.rows.gpu._triton_merge import MARGIN, MASS, SCALARS, SHIFT, SLOPE_MASS, SLOPE_SHIFT

LARGEST = tl.constexpr(2.0**14)  # scaled numbers of float16 are at most so large


@triton.jit
def _terms(v, COUNT: tl.constexpr, TYPE: tl.constexpr):
    """Return v as a sum of numbers of a smaller type, the largest first."""
    terms = ()
    for i in tl.static_range(COUNT):
        term = v.to(TYPE)
        if i + 1 < COUNT:
            v = v - term.to(v.dtype)
        terms = terms + (term,)
    return terms


@triton.jit
def _stacked(terms, COUNT: tl.constexpr):
    """Return the terms of a matrix side by side as one matrix."""
    g = tl.arange(0, COUNT)[None, :, None]
    found = terms[0][:, None, :]
    for i in tl.static_range(1, COUNT):
        found = tl.where(g == i, terms[i][:, None, :], found)
    return tl.reshape(found, (terms[0].shape[0], COUNT * terms[0].shape[1]))


@triton.jit
def _added(v, COUNT: tl.constexpr):
    """Return the sum of the ``COUNT`` matrices that lie side by side in v."""
    if COUNT == 1:
        return v
    return tl.sum(tl.reshape(v, (v.shape[0], COUNT, v.shape[1] // COUNT)), axis=1)


@triton.jit
def _safe(v):
    """Return v, or 0 if it is the logarithm of 0: a difference of two infinities is NaN."""
    return tl.where(v > -float("inf"), v, 0.0)


@triton.jit
def _products(
    X, W, row, scale, STRIDE: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    CHUNKS: tl.constexpr, COLUMNS: tl.constexpr, PLANES: tl.constexpr, TYPE: tl.constexpr,
    DOT: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """Load a tile; return it by chunks and planes, and its products with the ``COLUMNS`` rows of w."""
    c = tl.arange(0, WIDTH)
    at = X + row.to(tl.int64)[:, None] * STRIDE
    planes = ()
    products = tl.zeros((ROWS, COLUMNS), DOT)
    for q in tl.static_range(CHUNKS):
        if (q + 1) * WIDTH <= D:
            x = tl.load(at + (q * WIDTH + c)[None, :])
        else:
            x = tl.load(at + (q * WIDTH + c)[None, :], mask=(q * WIDTH + c < D)[None, :], other=0.0)
        plane = (x,) if PLANES == 1 else _terms(x * scale, PLANES, TYPE)
        planes = planes + (plane,)
        w = tl.load(W + tl.arange(0, COLUMNS)[None, :] * (WIDTH * CHUNKS) + (q * WIDTH + c)[:, None])
        if DOT == SUM:
            for i in tl.static_range(PLANES):
                products = tl.dot(plane[PLANES - 1 - i], w, products, out_dtype=DOT)
        else:
            products = tl.dot(x.to(DOT), w, products, out_dtype=DOT)
    return planes, products


@triton.jit
def _begin(
    BY_CLASS: tl.constexpr, ROWS: tl.constexpr, CLASSES: tl.constexpr, DOT: tl.constexpr, SUM: tl.constexpr
):
    """Return the smallest margins, shift, masses, and shift and masses of the slopes of no rows."""
    if BY_CLASS:
        low, mass = tl.full((ROWS, CLASSES), float("inf"), DOT), tl.zeros((ROWS, CLASSES), SUM)
        top = tl.full((CLASSES,), -float("inf"), DOT)
    else:
        low, mass = tl.full((ROWS,), float("inf"), DOT), tl.zeros((ROWS,), SUM)
        top = tl.full((), -float("inf"), DOT)
    return low, top, mass, top, mass


@triton.jit
def _weigh_by_class(state, margins, log_weight, SUM: tl.constexpr):
    """Return what `_weigh` does, with sums apart by class."""
    low, _, _, top, mass = state
    logs = log_weight[:, None] - margins
    new = tl.maximum(top, tl.max(logs, axis=0))
    factor = tl.exp((top - _safe(new)).to(SUM))[None, :]
    weights = tl.exp((logs - _safe(new)[None, :]).to(SUM))
    mass = mass * factor + weights
    return (tl.minimum(low, margins), new, mass, new, mass), weights, factor


@triton.jit
def _weigh(
    state, margins, own, used, log_weight, LOGISTIC: tl.constexpr, DOT: tl.constexpr, SUM: tl.constexpr
):
    """Return the state with a tile, the weights of its pairs, and the factor of earlier sums."""
    low, top, mass, slope_top, slope_mass = state
    near = tl.min(margins, axis=1)
    low = tl.minimum(low, near)
    near = tl.where(used, near, 0.0)
    relative = tl.exp((near[:, None] - margins).to(SUM))
    total = tl.where(used, tl.sum(relative, axis=1), 1.0)
    soft = near - tl.log(total).to(DOT)
    logs = tl.where(used, log_slope(soft, LOGISTIC, SUM) + log_weight, -float("inf"))
    new = tl.maximum(slope_top, tl.max(logs, axis=0))
    factor = tl.exp((slope_top - _safe(new)).to(SUM))
    p = tl.exp((logs - _safe(new)).to(SUM))
    slope_mass = slope_mass * factor + p
    slope_top = new
    if LOGISTIC:
        values = tl.where(used, log_value(soft, LOGISTIC, SUM) + log_weight, -float("inf"))
        new = tl.maximum(top, tl.max(values, axis=0))
        mass = mass * tl.exp((top - _safe(new)).to(SUM)) + tl.exp((values - _safe(new)).to(SUM))
        top = new
    else:
        top, mass = slope_top, slope_mass
    weights = tl.where(own, p[:, None], -(p / total)[:, None] * relative)
    return (low, top, mass, slope_top, slope_mass), weights, factor


@triton.jit
def _add(
    sums, planes, weights, factor, WIDTH: tl.constexpr, CHUNKS: tl.constexpr, CLASSES: tl.constexpr,
    PLANES: tl.constexpr, PARTS: tl.constexpr, TYPE: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """Add a tile to the sums, by chunks."""
    parts = _stacked(_terms(weights * LARGEST, PARTS, TYPE), PARTS) if PARTS > 1 else weights
    grown = ()
    for q in tl.static_range(CHUNKS):
        # The sum of a tile starts from 0, since tensor cores truncate each addition.
        tile = tl.zeros((WIDTH, PARTS * CLASSES), SUM)
        for i in tl.static_range(PLANES):
            tile = tl.dot(tl.trans(planes[q][PLANES - 1 - i]), parts, tile, out_dtype=SUM)
        grown = grown + (sums[q] * factor + _added(tile, PARTS),)
    return grown


@triton.jit
def _write(
    out, state, sums, mass_scale, sum_scale, D: tl.constexpr, K: tl.constexpr, CLASSES: tl.constexpr,
    WIDTH: tl.constexpr, CHUNKS: tl.constexpr, BY_CLASS: tl.constexpr,
):  # fmt: skip
    """Write scalars and vectors of a program: one Tally, or one for each class."""
    low, top, mass, slope_top, slope_mass = state
    k, c = tl.arange(0, CLASSES), tl.arange(0, WIDTH)
    at = out + (k * (SCALARS + D) if BY_CLASS else 0)
    mask = k < K if BY_CLASS else None
    tl.store(at + SHIFT, top.to(tl.float64), mask=mask)
    tl.store(at + MASS, tl.sum(mass, axis=0).to(tl.float64) * mass_scale, mask=mask)
    tl.store(at + SLOPE_SHIFT, slope_top.to(tl.float64), mask=mask)
    tl.store(at + SLOPE_MASS, tl.sum(slope_mass, axis=0).to(tl.float64) * mass_scale, mask=mask)
    tl.store(at + MARGIN, tl.min(low, axis=0).to(tl.float64), mask=mask)
    for q in tl.static_range(CHUNKS):
        j = q * WIDTH + c
        group = k[None, :] * (SCALARS + D if BY_CLASS else D)
        inside = (j < D)[:, None] & (k < K)[None, :]
        tl.store(out + SCALARS + group + j[:, None], sums[q].to(tl.float64) * sum_scale, mask=inside)


@triton.jit(do_not_specialize=["n"])
def joint_kernel(
    X, Y, I, owners, starts, bounds, S, W, scales, out, n, STRIDE: tl.constexpr, D: tl.constexpr,
    K: tl.constexpr, CLASSES: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr,
    PLANES: tl.constexpr, STACKED: tl.constexpr, PARTS: tl.constexpr, TYPE: tl.constexpr,
    BY_CLASS: tl.constexpr, WEIGHTED: tl.constexpr, LOGISTIC: tl.constexpr, DOT: tl.constexpr,
    SUM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Write the Tally of every P-th tile of the P programs that share the rows, or those of a class.

    ``out`` has a row of SCALARS + K D numbers for each program, or K rows of SCALARS + D. If sums are apart
    by class, program p has rows of class ``owners[p]``, those from ``bounds[k]`` to ``bounds[k + 1]`` of the
    list, and shares them with the programs from ``starts[k]`` to ``starts[k + 1]``. ``CLASSES`` is K, padded.
    ``scales`` are the factors of rows, of products, of sample weights, of sums and of masses.
    """
    scale, unscale = tl.load(scales).to(SUM), tl.load(scales + 1).to(SUM)
    r, k = tl.arange(0, ROWS), tl.arange(0, CLASSES)
    program, programs, own_class = tl.program_id(0), tl.num_programs(0), 0
    out += program * (K * (SCALARS + D) if BY_CLASS else SCALARS + K * D)
    if BY_CLASS:
        own_class = tl.load(owners + program)
        start = tl.load(starts + own_class)
        program, programs = program - start, tl.load(starts + own_class + 1) - start
        I += tl.load(bounds + own_class)
        n = tl.load(bounds + own_class + 1) - tl.load(bounds + own_class)
    sums, state = (), _begin(BY_CLASS, ROWS, CLASSES, DOT, SUM)
    for _ in tl.static_range(CHUNKS):
        sums = sums + (tl.zeros((WIDTH, CLASSES), SUM),)
    for t in tl.range(program, (n + ROWS - 1) // ROWS, programs, num_stages=STAGES):
        used = t * ROWS + r < n
        row = tl.minimum(t * ROWS + r, n - 1)
        if BY_CLASS:
            row = tl.load(I + row)
            own = (k == own_class)[None, :] & (r >= 0)[:, None]
        else:
            own = k[None, :] == tl.load(Y + row)[:, None]
        planes, products = _products(
            X, W, row, scale, STRIDE, D, ROWS, WIDTH, CHUNKS, STACKED * CLASSES, PLANES, TYPE, DOT, SUM
        )
        products = _added(products, STACKED)
        if tl.float32 == DOT:
            products = products * unscale
        log_weight = tl.zeros((ROWS,), DOT)
        if WEIGHTED:
            weight = tl.load(S + row) * tl.load(scales + 2)
            used = used & (weight > 0.0)
            log_weight = tl.log(tl.where(used, weight, 1.0).to(SUM)).to(DOT)
        mine = tl.sum(tl.where(own, products, 0.0), axis=1)
        absent = own | (k >= K)[None, :] | (~used)[:, None]
        margins = tl.where(absent, float("inf"), mine[:, None] - products)
        if BY_CLASS:
            state, weights, factor = _weigh_by_class(state, margins, log_weight, SUM)
        else:
            state, weights, factor = _weigh(state, margins, own, used, log_weight, LOGISTIC, DOT, SUM)
        sums = _add(sums, planes, weights, factor, WIDTH, CHUNKS, CLASSES, PLANES, PARTS, TYPE, SUM)
    _write(out, state, sums, tl.load(scales + 4), tl.load(scales + 3), D, K, CLASSES, WIDTH, CHUNKS, BY_CLASS)
