"""Lists of tensors as one long vector: norm, finiteness, scaling. Nothing here reads a value on the host.

A `DTensor` (FSDP2) is treated by its local shard; the few numbers that come out are reduced over the
mesh dimensions on which it is sharded, so every process gets the value of the whole vector.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import is_available as has_distributed

if has_distributed():
    from torch.distributed.tensor import DTensor, Partial, Replicate
else:  # pragma: no cover - a build without torch.distributed has no DTensor either
    DTensor = Partial = Replicate = None  # type: ignore[assignment, misc]

# rows of this length keep a float32 norm right to better than 1e-6, at the speed of one plain read
_BLOCK = 4096


def is_sharded(tensor: Tensor) -> bool:
    """Tell whether ``tensor`` is a `DTensor`."""
    return DTensor is not None and isinstance(tensor, DTensor)


def local(tensor: Tensor) -> Tensor:
    """Return the shard of ``tensor`` that this process holds: all of it, unless it is a `DTensor`."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def wide_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for norms and radii: float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of all ``tensors`` together, a 0-dim tensor on the first one's device.

    Examples
    --------
    >>> norm([torch.tensor([3.0]), torch.tensor([[4.0]])]).item()
    5.0
    """
    device = tensors[0].device
    parts = []
    for layout, group in _by_layout(tensors).items():
        length = _local_norm(group)
        if layout:
            length = _reduce(length.square(), layout, "sum").sqrt()
        parts.append(length.to(device))
    return parts[0] if len(parts) == 1 else _length(torch.stack(parts))


def scale_(tensors: Sequence[Tensor], factor: Tensor) -> None:
    """Multiply all ``tensors`` in place by one 0-dim ``factor``; 16-bit ones are rounded only once."""
    for (device, dtype), group in _by_kind(local(t) for t in tensors).items():
        if dtype in (torch.float16, torch.bfloat16):
            products = torch._foreach_mul([t.float() for t in group], factor.to(device, torch.float32))
            torch._foreach_copy_(group, list(products))
        else:
            torch._foreach_mul_(group, factor.to(device, dtype))


def scale_and_check_(tensors: Sequence[Tensor], factor: Tensor, non_finite: Tensor) -> None:
    """Multiply ``tensors`` by ``factor``; set ``non_finite`` to 1.0 where an entry is not finite.

    One read and one write of memory; two in float64, where torch's kernel would round the factor to
    float32. ``non_finite`` is a float32 tensor of one number on the factor's device.
    """
    for layout, shards in _by_layout(tensors).items():
        for (device, dtype), group in _by_kind(shards).items():
            inverse = factor.to(device, torch.float32)
            if dtype == torch.float64:
                torch._foreach_mul_(group, factor.to(device))
                inverse = torch.ones_like(inverse)
            here = not layout and device == non_finite.device
            flag = non_finite if here else torch.zeros((), dtype=torch.float32, device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(group, flag, inverse)
            if not here:
                flag = _reduce(flag, layout, "max") if layout else flag
                non_finite.copy_(torch.maximum(non_finite, flag.to(non_finite.device)))


def _local_norm(tensors: list[Tensor]) -> Tensor:
    dtype = wide_dtype(tensors[0].device)
    if tensors[0].device.type != "cpu":
        lengths = [n.to(tensors[0].device) for n in torch._foreach_norm(tensors, 2, dtype=dtype)]
        return _length(torch.stack(lengths))
    rows = []
    for tensor in tensors:  # a float64 accumulator is eight times slower here, a float32 one loses 5 digits
        flat = tensor.reshape(-1)
        flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
        whole = flat.numel() // _BLOCK * _BLOCK
        rows.append(torch.linalg.vector_norm(flat[:whole].view(-1, _BLOCK), dim=1).to(dtype))
        rows.append(torch.linalg.vector_norm(flat[whole:]).to(dtype).view(1))
    return _length(torch.cat(rows))


def _length(vector: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vector)
    return length


def _reduce(value: Tensor, layout: tuple[Any, ...], operation: str) -> Tensor:
    """Combine a number of each shard over the mesh dimensions on which the tensors are sharded."""
    mesh, placements = layout
    spread = [Partial(operation) if p.is_shard() else Replicate() for p in placements]
    return DTensor.from_local(value, mesh, spread, run_check=False).full_tensor()


def _by_layout(tensors: Iterable[Tensor]) -> dict[tuple[Any, ...], list[Tensor]]:
    """Return the local shards, grouped by mesh and placements; plain tensors are under ``()``."""
    groups: dict[tuple[Any, ...], list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        layout = (tensor.device_mesh, tensor.placements) if is_sharded(tensor) else ()  # type: ignore[attr-defined]
        groups[layout].append(local(tensor))
    return groups


def _by_kind(tensors: Iterable[Tensor]) -> dict[tuple[torch.device, torch.dtype], list[Tensor]]:
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        groups[tensor.device, tensor.dtype].append(tensor)
    return groups
