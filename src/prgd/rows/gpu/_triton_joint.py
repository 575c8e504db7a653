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

from prgd.rows.gpu._triton import MARGIN, MASS, SCALARS, SHIFT, SLOPE_MASS, SLOPE_SHIFT
from prgd.rows.gpu._triton_losses import log_slope, log_value

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
def _write(out, shift, mass, slope_shift, slope_mass, margin, scale, mask):
    """Write the scalars of one Tally, or of one for each class."""
    tl.store(out + SHIFT, shift.to(tl.float64), mask=mask)
    tl.store(out + MASS, mass.to(tl.float64) * scale, mask=mask)
    tl.store(out + SLOPE_SHIFT, slope_shift.to(tl.float64), mask=mask)
    tl.store(out + SLOPE_MASS, slope_mass.to(tl.float64) * scale, mask=mask)
    tl.store(out + MARGIN, margin.to(tl.float64), mask=mask)


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
    weight_scale, sum_scale, mass_scale = tl.load(scales + 2), tl.load(scales + 3), tl.load(scales + 4)
    COLUMNS: tl.constexpr = STACKED * CLASSES if DOT == SUM else CLASSES  # of w
    r, c, k = tl.arange(0, ROWS), tl.arange(0, WIDTH), tl.arange(0, CLASSES)
    program, programs, first, own_class = tl.program_id(0), tl.num_programs(0), 0, 0
    out += program * (K * (SCALARS + D) if BY_CLASS else SCALARS + K * D)
    if BY_CLASS:
        own_class = tl.load(owners + program)
        start = tl.load(starts + own_class)
        program, programs = program - start, tl.load(starts + own_class + 1) - start
        first = tl.load(bounds + own_class)
        n = tl.load(bounds + own_class + 1) - first
        I += first
    sums = ()
    for _ in tl.static_range(CHUNKS):
        sums = sums + (tl.zeros((WIDTH, CLASSES), SUM),)
    if BY_CLASS:
        low = tl.full((ROWS, CLASSES), float("inf"), DOT)
        mass, slope_mass = tl.zeros((ROWS, CLASSES), SUM), tl.zeros((ROWS, CLASSES), SUM)
        top, slope_top = tl.full((CLASSES,), -float("inf"), DOT), tl.full((CLASSES,), -float("inf"), DOT)
    else:
        low = tl.full((ROWS,), float("inf"), DOT)
        mass, slope_mass = tl.zeros((ROWS,), SUM), tl.zeros((ROWS,), SUM)
        top, slope_top = tl.full((), -float("inf"), DOT), tl.full((), -float("inf"), DOT)
    for t in tl.range(program, (n + ROWS - 1) // ROWS, programs, num_stages=STAGES):
        place = t * ROWS + r
        used = place < n
        row = tl.minimum(place, n - 1)
        if BY_CLASS:
            row = tl.load(I + row)
            own = (k == own_class)[None, :] & (r >= 0)[:, None]
        else:
            own = k[None, :] == tl.load(Y + row)[:, None]
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
        products = _added(products, COLUMNS // CLASSES)
        if tl.float32 == DOT:
            products = products * unscale
        log_weight = tl.zeros((ROWS,), DOT)
        if WEIGHTED:
            weight = tl.load(S + row) * weight_scale
            used = used & (weight > 0.0)
            log_weight = tl.log(tl.where(used, weight, 1.0).to(SUM)).to(DOT)
        mine = tl.sum(tl.where(own, products, 0.0), axis=1)
        absent = own | (k >= K)[None, :] | (~used)[:, None]
        margins = tl.where(absent, float("inf"), mine[:, None] - products)
        if BY_CLASS:
            low = tl.minimum(low, margins)
            logs = log_weight[:, None] - margins
            new = tl.maximum(slope_top, tl.max(logs, axis=0))
            factor = tl.exp((slope_top - _safe(new)).to(SUM))
            weights = tl.exp((logs - _safe(new)[None, :]).to(SUM))
            slope_mass = slope_mass * factor[None, :] + weights
            slope_top = new
            rescale = factor[None, :]
        else:
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
            rescale = factor
            if LOGISTIC:
                values = tl.where(used, log_value(soft, LOGISTIC, SUM) + log_weight, -float("inf"))
                new = tl.maximum(top, tl.max(values, axis=0))
                mass = mass * tl.exp((top - _safe(new)).to(SUM)) + tl.exp((values - _safe(new)).to(SUM))
                top = new
            weights = tl.where(own, p[:, None], -(p / total)[:, None] * relative)
        parts = _stacked(_terms(weights * LARGEST, PARTS, TYPE), PARTS) if PARTS > 1 else weights
        grown = ()
        for q in tl.static_range(CHUNKS):
            # The sum of a tile starts from 0, since tensor cores truncate each addition.
            tile = tl.zeros((WIDTH, PARTS * CLASSES), SUM)
            for i in tl.static_range(PLANES):
                tile = tl.dot(tl.trans(planes[q][PLANES - 1 - i]), parts, tile, out_dtype=SUM)
            grown = grown + (sums[q] * rescale + _added(tile, PARTS),)
        sums = grown
    if not LOGISTIC:
        top, mass = slope_top, slope_mass
    mass, slope_mass, margin = tl.sum(mass, axis=0), tl.sum(slope_mass, axis=0), tl.min(low, axis=0)
    if BY_CLASS:
        _write(out + k * (SCALARS + D), top, mass, slope_top, slope_mass, margin, mass_scale, k < K)
    else:
        _write(out, top, mass, slope_top, slope_mass, margin, mass_scale, None)
    for q in tl.static_range(CHUNKS):
        j = q * WIDTH + c
        group = k[None, :] * (SCALARS + D if BY_CLASS else D)
        inside = (j < D)[:, None] & (k < K)[None, :]
        tl.store(out + SCALARS + group + j[:, None], sums[q].to(tl.float64) * sum_scale, mask=inside)
