"""Triton kernels that treat every tensor of a list by factors of its own, in one launch for all.

Imported on first use. A tensor is cut into chunks, one for each program.
"""

# ruff: noqa: ANN001, ANN202 - the compiler reads kernels as code, and has types of its own
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # numbers of a chunk: with 8 warps, four loads of 16 bytes a thread
WARPS = 8
_VECTOR_BYTES = 16  # largest load of one thread


@triton.jit
def _at(address, DTYPE: tl.constexpr, ALIGNED: tl.constexpr):
    """Return the address as a pointer, of which the compiler knows whether 16 bytes may be loaded at once."""
    pointer = address.to(tl.pointer_type(DTYPE))
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def _loaded(pointer, count, SUM: tl.constexpr, BLOCK: tl.constexpr):
    """Return one block of numbers, 0 beyond the count; without a mask, loads are of 16 bytes each."""
    i = tl.arange(0, BLOCK)
    if count == BLOCK:  # noqa: SIM108 - both ways are compiled
        values = tl.load(pointer + i)
    else:
        values = tl.load(pointer + i, mask=i < count, other=0.0)
    return values.to(SUM)


@triton.jit
def products_kernel(
    addresses, other_addresses, counts, sums, chunks, DTYPE: tl.constexpr, SUM: tl.constexpr,
    ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the sums of x x, x y and y y of every chunk, in three rows."""
    chunk = tl.program_id(0)
    count = tl.load(counts + chunk)
    x = _loaded(_at(tl.load(addresses + chunk), DTYPE, ALIGNED), count, SUM, BLOCK)
    y = _loaded(_at(tl.load(other_addresses + chunk), DTYPE, ALIGNED), count, SUM, BLOCK)
    tl.store(sums + chunk, tl.sum(x * x, axis=0))
    tl.store(sums + chunks + chunk, tl.sum(x * y, axis=0))
    tl.store(sums + 2 * chunks + chunk, tl.sum(y * y, axis=0))


@triton.jit
def _combine(x, y, count, a, b, DTYPE: tl.constexpr, SUM: tl.constexpr, BLOCK: tl.constexpr):
    """Set a chunk to a x + b y. A term with the factor 0 is left out, even if it is not finite."""
    if (a != 1.0) | (b != 0.0):  # A chunk that does not change is not read.
        total, i = tl.zeros((BLOCK,), SUM), tl.arange(0, BLOCK)
        if a != 0.0:
            total += a * _loaded(x, count, SUM, BLOCK)
        if b != 0.0:
            total += b * _loaded(y, count, SUM, BLOCK)
        if count == BLOCK:
            tl.store(x + i, total.to(DTYPE))
        else:
            tl.store(x + i, total.to(DTYPE), mask=i < count)


@triton.jit(do_not_specialize_on_alignment=["factors"])
def scale_kernel(
    addresses, other_addresses, counts, owners, factors, DTYPE: tl.constexpr, SUM: tl.constexpr,
    ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Multiply every chunk by the factor of its tensor."""
    chunk = tl.program_id(0)
    x = _at(tl.load(addresses + chunk), DTYPE, ALIGNED)
    factor = tl.load(factors + tl.load(owners + chunk)).to(SUM)
    _combine(x, x, tl.load(counts + chunk), factor, 0.0, DTYPE, SUM, BLOCK)


@triton.jit(do_not_specialize_on_alignment=["products", "radii", "rates", "hold"])
def move_kernel(
    addresses, other_addresses, counts, owners, products, tensors, radii, rates, hold, DTYPE: tl.constexpr,
    SUM: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Set every chunk W to R norm(W + eta R norm(d)); the products of W and d give both norms."""
    chunk = tl.program_id(0)
    W = _at(tl.load(addresses + chunk), DTYPE, ALIGNED)
    d = _at(tl.load(other_addresses + chunk), DTYPE, ALIGNED)
    owner = tl.load(owners + chunk)
    R, eta = tl.load(radii + owner).to(SUM), tl.load(rates + owner).to(SUM)
    WW, Wd = tl.load(products + owner), tl.load(products + tensors + owner)
    step = eta * R / tl.sqrt(tl.load(products + 2 * tensors + owner))
    a = R / tl.sqrt(WW + eta * R * eta * R + 2.0 * step * Wd)
    b = a * step
    # b / b is 1 unless b is 0 or not finite: then W stays.
    if (b / b == 1.0) & (tl.load(hold) == 0.0):
        _combine(W, d, tl.load(counts + chunk), a, b, DTYPE, SUM, BLOCK)


class BlockKernels:
    """Lists of tensors, each tensor a block of its own, with the tables by which the kernel finds chunks.

    `prgd.core.replay` or a CUDA graph can record a call after a first one, which loads the kernels.
    Sums are in float32, for float64 in float64.

    Parameters
    ----------
    lists : lists of Tensor, all with the same shapes and strides, of one device and dtype, dense in memory.

    Attributes
    ----------
    addresses : list of int, the addresses for which this object was made.
    """

    def __init__(self, *lists: list[Tensor]) -> None:
        self._lists = lists  # The tables hold addresses, which must stay theirs.
        tensors, count = lists[0], len(lists[0])
        self._dtype, device = tensors[0].dtype, tensors[0].device
        pieces = [(i, at) for i, tensor in enumerate(tensors) for at in range(0, tensor.numel(), BLOCK)]
        owners, offsets = torch.tensor(pieces, dtype=torch.int64).reshape(-1, 2).unbind(dim=1)
        sizes = torch.tensor([tensor.numel() for tensor in tensors])[owners]
        self.addresses = [tensor.data_ptr() for some in lists for tensor in some]
        at = torch.tensor(self.addresses).view(-1, count)[:, owners] + offsets * tensors[0].element_size()
        self._at, self._owners = at.to(device), owners.to(device, torch.int32)
        self._counts = (sizes - offsets).clamp(max=BLOCK).to(device, torch.int32)
        self._chunks = owners.bincount(minlength=count).repeat(3).to(device)
        self._sum = torch.float64 if self._dtype == torch.float64 else torch.float32
        self._is_aligned = all(address % _VECTOR_BYTES == 0 for address in self.addresses)

    def scale_(self, factors: Tensor) -> None:
        """Multiply every tensor of the first list by its factor; one whose factor is 0 need not be finite."""
        self._launch(scale_kernel, self._owners, factors)

    def move_(self, radii: Tensor, rates: Tensor, hold: Tensor) -> None:
        """Move each tensor of the first list on its sphere, along that of the second, unless ``hold`` is 1.

        A tensor stays if its direction or the sum is 0 or not finite.
        """
        parts = torch.empty((3, len(self._owners)), dtype=self._sum, device=self._owners.device)
        self._launch(products_kernel, parts, len(self._owners))
        sums = torch.segment_reduce(parts.view(-1), "sum", lengths=self._chunks, unsafe=True)
        self._launch(move_kernel, self._owners, sums, len(self._chunks) // 3, radii, rates, hold)

    def _launch(self, kernel: Any, *arguments: Any) -> None:
        # Triton's types have the names of those of torch.
        values, sums = (getattr(tl, str(kind).removeprefix("torch.")) for kind in (self._dtype, self._sum))
        with torch.cuda.device_of(self._at):
            kernel[(len(self._owners),)](
                self._at[0], self._at[-1], self._counts, *arguments, DTYPE=values,
                SUM=sums, ALIGNED=self._is_aligned, BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:  # A copy has tensors at other addresses.
        return BlockKernels, self._lists
