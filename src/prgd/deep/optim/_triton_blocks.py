"""Triton kernels that treat every tensor of a list as a block of its own, in one or two launches for all.

Imported on first use. A tensor is cut into chunks, one for each program. The first launch writes partial
sums of every chunk. In the second launch, each program adds the partial sums of its own tensor, always in
the same order, and applies the factors that follow: nothing is atomic, so that results are deterministic.
"""

# ruff: noqa: ANN001, ANN202 - the compiler reads kernels as code, and has types of its own
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # numbers that a program holds at once: with 8 warps, four loads of 16 bytes a thread
WARPS = 8
MAX_PARTS = 512  # Chunks of a tensor: every program of the second launch reads all partial sums of a tensor.
_VECTOR_BYTES = 16  # largest load of one thread
_SMALLEST = tl.constexpr(1.1754943508222875e-38)  # smallest normal float32, whose inverse is finite
_DTYPES = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
}


@triton.jit
def _at(address, DTYPE: tl.constexpr, ALIGNED: tl.constexpr):
    """Return the address as a pointer, of which the compiler knows whether 16 bytes may be loaded at once."""
    pointer = address.to(tl.pointer_type(DTYPE))
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def squares_kernel(
    addresses, counts, parts, DTYPE: tl.constexpr, SUM: tl.constexpr, ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the sum of squares of every chunk.

    Chunks are read from last to first, since the base optimizer has just written the last ones, and the
    second launch reads from first to last: both find a part of their numbers in the cache.
    """
    chunk = tl.num_programs(0) - 1 - tl.program_id(0)
    x = _at(tl.load(addresses + chunk), DTYPE, ALIGNED)
    count = tl.load(counts + chunk)
    whole = count // BLOCK * BLOCK
    i = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), SUM)
    for start in range(0, whole, BLOCK):  # without a mask, which would keep loads from 16 bytes each
        value = tl.load(x + start + i).to(SUM)
        squares += value * value
    if whole < count:
        value = tl.load(x + whole + i, mask=i < count - whole, other=0.0).to(SUM)
        squares += value * value
    tl.store(parts + chunk, tl.sum(squares, axis=0))


@triton.jit
def _scale(x, count, factor, DTYPE: tl.constexpr, SUM: tl.constexpr, BLOCK: tl.constexpr):
    """Multiply a chunk by a factor."""
    whole = count // BLOCK * BLOCK
    i = tl.arange(0, BLOCK)
    for start in range(0, whole, BLOCK):
        value = tl.load(x + start + i).to(SUM)
        tl.store(x + start + i, (factor * value).to(DTYPE))
    if whole < count:
        mask = i < count - whole
        value = tl.load(x + whole + i, mask=mask, other=0.0).to(SUM)
        tl.store(x + whole + i, (factor * value).to(DTYPE), mask=mask)


@triton.jit(do_not_specialize_on_alignment=["factors"])
def scale_kernel(
    addresses, counts, owners, factors, DTYPE: tl.constexpr, SUM: tl.constexpr, ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Multiply every chunk by the factor of its tensor."""
    chunk = tl.program_id(0)
    x = _at(tl.load(addresses + chunk), DTYPE, ALIGNED)
    factor = tl.load(factors + tl.load(owners + chunk)).to(SUM)
    _scale(x, tl.load(counts + chunk), factor, DTYPE, SUM, BLOCK)


@triton.jit(do_not_specialize_on_alignment=["radii", "hold"])
def project_kernel(
    addresses, counts, owners, firsts, parts, radii, hold, DTYPE: tl.constexpr, SUM: tl.constexpr,
    ALIGNED: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Multiply every chunk by min(1, max(hold, radius / norm)) of its tensor."""
    chunk = tl.program_id(0)
    x = _at(tl.load(addresses + chunk), DTYPE, ALIGNED)
    count = tl.load(counts + chunk)
    owner = tl.load(owners + chunk)
    part = tl.load(firsts + owner) + tl.arange(0, PARTS)
    inside = part < tl.load(firsts + owner + 1)
    norm = tl.sqrt(tl.sum(tl.load(parts + part, mask=inside, other=0.0), axis=0))
    # A norm of 0 or one that overflows must not move the tensor.
    known = (norm > 0.0) & (norm < float("inf"))
    factor = tl.load(radii + owner).to(SUM) / tl.where(known, norm, 1.0)
    factor = tl.maximum(factor, tl.load(hold).to(SUM))
    if known & (factor < 1.0):  # Tensors inside of their balls are not read again.
        _scale(x, count, factor, DTYPE, SUM, BLOCK)


@triton.jit
def _add_moments(w, d, top, dd, wd, ww):
    """Add <d, d>, <w, d>, <w, w>; d is divided by its largest entry so far, so that no square underflows."""
    new_top = tl.maximum(top, tl.max(tl.abs(d), axis=0))
    inverse = 1.0 / tl.maximum(new_top, _SMALLEST)
    shrink = top * inverse
    scaled = d * inverse
    dd = dd * shrink * shrink + tl.sum(scaled * scaled, axis=0)
    wd = wd * shrink + tl.sum(w * scaled, axis=0)
    return new_top, dd, wd, ww + tl.sum(w * w, axis=0)


@triton.jit
def moments_kernel(
    addresses, counts, parts, DTYPE: tl.constexpr, SUM: tl.constexpr, ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the largest entry of the step d and the sums of `_add_moments` of every chunk.

    Chunks are read from last to first, for the reason that `squares_kernel` gives.
    """
    chunks = tl.num_programs(0)
    chunk = chunks - 1 - tl.program_id(0)
    step = _at(tl.load(addresses + chunk), DTYPE, ALIGNED)
    start = _at(tl.load(addresses + chunks + chunk), DTYPE, ALIGNED)
    count = tl.load(counts + chunk)
    whole = count // BLOCK * BLOCK
    i = tl.arange(0, BLOCK)
    top = tl.zeros((), SUM)
    dd = tl.zeros((), SUM)
    wd = tl.zeros((), SUM)
    ww = tl.zeros((), SUM)
    for j in range(0, whole, BLOCK):
        w = tl.load(start + j + i).to(SUM)
        d = tl.load(step + j + i).to(SUM)
        top, dd, wd, ww = _add_moments(w, d, top, dd, wd, ww)
    if whole < count:
        mask = i < count - whole
        w = tl.load(start + whole + i, mask=mask, other=0.0).to(SUM)
        d = tl.load(step + whole + i, mask=mask, other=0.0).to(SUM)
        top, dd, wd, ww = _add_moments(w, d, top, dd, wd, ww)
    tl.store(parts + chunk, top)
    tl.store(parts + chunks + chunk, dd)
    tl.store(parts + 2 * chunks + chunk, wd)
    tl.store(parts + 3 * chunks + chunk, ww)


@triton.jit
def _factors(parts, chunks, first, last, R, rate, PARTS: tl.constexpr):
    """Return whether the tensor moves, and a, b and c with which it moves to a w + b (c d)."""
    part = first + tl.arange(0, PARTS)
    inside = part < last
    tops = tl.load(parts + part, mask=inside, other=0.0)
    top = tl.max(tops, axis=0)
    c = 1.0 / tl.maximum(top, _SMALLEST)
    shrink = tops * c
    dd = tl.sum(tl.load(parts + chunks + part, mask=inside, other=0.0) * shrink * shrink, axis=0)
    wd = tl.sum(tl.load(parts + 2 * chunks + part, mask=inside, other=0.0) * shrink, axis=0)
    ww = tl.sum(tl.load(parts + 3 * chunks + part, mask=inside, other=0.0), axis=0)
    # Comparisons are false for NaN, which dd is if an entry of d is not finite.
    has_step = (top >= _SMALLEST) & (dd > 0.0) & (dd < float("inf"))
    root = tl.sqrt(tl.where(has_step, dd, 1.0))
    length = rate * R  # length of the step
    vv = ww + 2.0 * length * (wd / root) + length * length
    moves = has_step & (vv > 0.0) & (vv < float("inf"))
    a = R / tl.sqrt(tl.where(moves, vv, 1.0))
    return moves, a, a * (length / root), c


@triton.jit
def _move(
    step, start, mask, moves, a, b, c, DTYPE: tl.constexpr, SUM: tl.constexpr, INTO_STARTS: tl.constexpr
):  # fmt: skip
    w = tl.load(start, mask=mask).to(SUM)
    d = tl.load(step, mask=mask).to(SUM)
    moved = tl.where(moves, a * w + b * (c * d), w).to(DTYPE)
    if INTO_STARTS:
        tl.store(start, moved, mask=mask)
        tl.store(step, tl.zeros_like(moved), mask=mask)
    else:
        tl.store(step, moved, mask=mask)


@triton.jit(do_not_specialize_on_alignment=["radii", "rates", "hold"])
def move_kernel(
    addresses, counts, owners, firsts, parts, radii, rates, hold, INTO_STARTS: tl.constexpr,
    DTYPE: tl.constexpr, SUM: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Move every chunk from w to R norm(w + rate R norm(d)), with the norms of its tensor."""
    chunk = tl.program_id(0)
    chunks = tl.num_programs(0)
    step = _at(tl.load(addresses + chunk), DTYPE, ALIGNED)
    start = _at(tl.load(addresses + chunks + chunk), DTYPE, ALIGNED)
    count = tl.load(counts + chunk)
    owner = tl.load(owners + chunk)
    R = tl.load(radii + owner).to(SUM)
    rate = tl.load(rates + owner).to(SUM)
    first = tl.load(firsts + owner)
    last = tl.load(firsts + owner + 1)
    moves, a, b, c = _factors(parts, chunks, first, last, R, rate, PARTS)
    moves = moves & (tl.load(hold) == 0.0)
    whole = count // BLOCK * BLOCK
    i = tl.arange(0, BLOCK)
    for j in range(0, whole, BLOCK):
        _move(step + j + i, start + j + i, None, moves, a, b, c, DTYPE, SUM, INTO_STARTS)
    if whole < count:
        mask = i < count - whole
        _move(step + whole + i, start + whole + i, mask, moves, a, b, c, DTYPE, SUM, INTO_STARTS)


class BlockKernels:
    """Tensors, each a block of its own, with the table by which the kernels find their chunks.

    All methods work in place and allocate nothing, so that `prgd.core.replay` or a CUDA graph can record
    them after a first call, which loads the kernels. Sums are in float32, for float64 in float64.

    Parameters
    ----------
    tensors : list of Tensor of one device and dtype, each dense in memory, in any order of its dimensions.
    starts : list of Tensor, optional; of the same shapes and strides. Where blocks begin a relative step.

    Raises
    ------
    ValueError
        If the kernels do not take the tensors; the loop over tensors does.

    Attributes
    ----------
    addresses : list of int, the addresses for which this object was made: of the tensors, then the starts.
    """

    def __init__(self, tensors: list[Tensor], starts: list[Tensor] | None = None) -> None:
        _check(tensors, starts)
        self._lists = tensors, starts  # The table holds addresses, which must stay theirs.
        self.addresses = [tensor.data_ptr() for tensor in (*tensors, *(starts or []))]
        self._dtype, device, count = tensors[0].dtype, tensors[0].device, len(tensors)
        owners, offsets, counts, firsts = _chunks([tensor.numel() for tensor in tensors])
        at = torch.tensor(self.addresses).view(-1, count)[:, owners]
        self._at = (at + offsets * tensors[0].element_size()).to(device)
        self._owners, self._counts, self._firsts = (
            table.to(device, torch.int32) for table in (owners, counts, firsts)
        )
        self._is_double = self._dtype == torch.float64
        total = torch.float64 if self._is_double else torch.float32
        self._parts = torch.empty((4, len(owners)), dtype=total, device=device)
        self._max_parts = triton.next_power_of_2(max(int(firsts.diff().max()), 1))
        self._is_aligned = all(address % _VECTOR_BYTES == 0 for address in self.addresses)

    def scale_(self, factors: Tensor) -> None:
        """Multiply every tensor by its factor.

        Parameters
        ----------
        factors : Tensor of shape (tensors,)
        """
        self._launch(scale_kernel, self._at, self._counts, self._owners, factors, SUM=self._sum)

    def project_(self, radii: Tensor, hold: Tensor) -> None:
        r"""Multiply every tensor t_i by :math:`\min(1, \max(hold, R_i / \|t_i\|))`.

        A tensor whose norm is 0, NaN or beyond the range of the sums stays as it is.

        Parameters
        ----------
        radii : Tensor of shape (tensors,)
        hold : Tensor of one number: 1 leaves all tensors as they are, else 0.
        """
        self._launch(squares_kernel, self._at, self._counts, self._parts, SUM=self._sum)
        self._launch(
            project_kernel, self._at, self._counts, self._owners, self._firsts, self._parts, radii, hold,
            SUM=self._sum, PARTS=self._max_parts,
        )  # fmt: skip

    def move_on_spheres_(
        self, radii: Tensor, rates: Tensor, hold: Tensor, *, into_starts: bool = False
    ) -> None:
        r"""Take a step along the base's update, relative to the radius, on the sphere of every block.

        .. math:: t_i \leftarrow R_i\, \mathrm{norm}(W_i + \eta_i R_i\, \mathrm{norm}(d_i))

        with W_i the start and d_i what the tensor holds: the base's step from 0. If d_i is 0 (or all below
        1e-38) or not finite, or for hold, t_i becomes W_i. The norm of the sum follows from three products,
        which is accurate unless the step nearly cancels W_i (a rate near 1).

        Parameters
        ----------
        radii : Tensor of shape (tensors,)
        rates : Tensor of shape (tensors,), the rates eta_i.
        hold : Tensor of one number: 1 for a skipped step, else 0.
        into_starts : whether the starts get the result, and the tensors 0 for the next step of the base.
            Then the tensors are buffers, and the starts are the parameters.
        """
        self._launch(moments_kernel, self._at, self._counts, self._parts, SUM=self._sum)
        self._launch(
            move_kernel, self._at, self._counts, self._owners, self._firsts, self._parts, radii, rates, hold,
            INTO_STARTS=into_starts, SUM=self._sum, PARTS=self._max_parts,
        )  # fmt: skip

    @property
    def _sum(self) -> tl.dtype:
        return tl.float64 if self._is_double else tl.float32

    def _launch(self, kernel: Any, *tensors: Tensor, **constants: Any) -> None:
        if len(self._owners) == 0:  # All tensors are empty.
            return
        with torch.cuda.device_of(self._at):
            kernel[(len(self._owners),)](
                *tensors, DTYPE=_DTYPES[self._dtype], ALIGNED=self._is_aligned, BLOCK=BLOCK, num_warps=WARPS,
                **constants,
            )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:  # A copy has tensors at other addresses.
        return BlockKernels, self._lists


def _chunks(sizes: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the tensor, offset and size of every chunk, and the number of the first chunk of every tensor.

    A chunk has the fewest blocks with which a tensor has at most ``MAX_PARTS`` chunks.
    """
    owners, offsets, counts, firsts = [], [], [], [0]
    for owner, size in enumerate(sizes):
        chunk = BLOCK * max(1, -(-size // (BLOCK * MAX_PARTS)))
        for offset in range(0, size, chunk):
            owners.append(owner)
            offsets.append(offset)
            counts.append(min(chunk, size - offset))
        firsts.append(len(owners))
    tables = (torch.tensor(table, dtype=torch.int64) for table in (owners, offsets, counts, firsts))
    return tuple(tables)


def _check(tensors: list[Tensor], starts: list[Tensor] | None) -> None:
    if not tensors:
        raise ValueError("The kernels need at least one tensor; got none.")
    first = tensors[0]
    if first.dtype not in _DTYPES:
        raise ValueError(f"The kernels take tensors of {', '.join(map(str, _DTYPES))}; got {first.dtype}.")
    for tensor in [*tensors, *(starts or [])]:
        if (tensor.dtype, tensor.device) != (first.dtype, first.device):
            raise ValueError(
                f"The kernels take tensors of one dtype and device; got {first.dtype} on {first.device} and "
                f"{tensor.dtype} on {tensor.device}. Make one BlockKernels for each."
            )
        if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
            raise ValueError(
                f"The kernels take tensors that are dense in memory; got shape {tuple(tensor.shape)} with "
                f"strides {tensor.stride()}. Loop over the tensors instead."
            )
    layouts = [[(tensor.shape, tensor.stride()) for tensor in some] for some in (tensors, starts or tensors)]
    if layouts[0] != layouts[1]:
        raise ValueError(
            "Starts must have the shapes and strides of their tensors, as torch.empty_like gives them."
        )
