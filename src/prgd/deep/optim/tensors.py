"""Lists of tensors as one long vector: norm, finiteness, scaling. Nothing here reads a value on the host.

A `DTensor` (FSDP2) is represented by its local shard; norms and flags are reduced over the mesh dimensions
on which it is sharded, so every process gets the value of the whole vector.

On a fast device a step of an optimizer costs as much as its launches: count them before adding one.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed import is_available as has_distributed

if has_distributed():
    from torch.distributed.tensor import DTensor, Partial, Replicate
else:  # pragma: no cover - a build without torch.distributed has no DTensor either
    DTensor = Partial = Replicate = None  # type: ignore[assignment, misc]

_BLOCK = 4096  # A float32 norm over so many numbers has an error below 1e-6, at the speed of one plain read.


def processes() -> tuple[int, int]:
    """Return how many processes share the run, and the rank of this process."""
    if has_distributed() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return 1, 0


def gathered(value: Any) -> list[Any]:
    """Return the values of all processes, in the order of their ranks; they travel through the host."""
    world, _ = processes()
    values = [value] * world
    if world > 1:
        torch.distributed.all_gather_object(values, value)
    return values


def is_sharded(tensor: Tensor) -> bool:
    """Tell whether ``tensor`` is a `DTensor`."""
    return DTensor is not None and isinstance(tensor, DTensor)


def local(tensor: Tensor) -> Tensor:
    """Return the shard of ``tensor`` that this process holds: all of it, unless it is a `DTensor`."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


class Group(NamedTuple):
    """Local shards of one layout (``()`` for plain tensors, else mesh and placements), device and dtype."""

    layout: tuple[Any, ...]
    tensors: list[Tensor]


def grouped(tensors: list[Tensor]) -> list[Group]:
    """Return the local shards of ``tensors`` in groups that one kernel can treat."""
    kinds = {(type(t), t.device, t.dtype) for t in tensors}
    if len(kinds) == 1 and not is_sharded(tensors[0]):  # This shortcut serves most models.
        return [Group((), tensors)]
    groups: dict[tuple[Any, ...], Group] = {}
    for tensor in tensors:
        layout = (tensor.device_mesh, tensor.placements) if is_sharded(tensor) else ()  # type: ignore[attr-defined]
        group = groups.setdefault((layout, tensor.device, tensor.dtype), Group(layout, []))
        group.tensors.append(local(tensor))
    return list(groups.values())


def norm(groups: list[Group]) -> Tensor:
    """Return the Euclidean norm of all tensors together, a 0-dim tensor on the device of the first.

    The relative error is about 1e-7, and 1e-15 if all tensors are float64.

    Examples
    --------
    >>> norm(grouped([torch.tensor([3.0]), torch.tensor([[4.0]])])).item()
    5.0
    """
    parts = []
    for layout, tensors in groups:
        length = _local_norm(tensors)
        parts.append(_reduce(length.square(), layout, "sum").sqrt() if layout else length)
    if len(parts) == 1:
        return parts[0]
    device = parts[0].device
    wide = torch.float32 if device.type == "mps" else torch.float64  # MPS devices have no float64
    return _length(torch.stack([part.to(device, wide) for part in parts]))


def scale_(groups: list[Group], factor: Tensor) -> None:
    """Multiply all tensors in place by one 0-dim ``factor``; 16-bit tensors are rounded only once."""
    for _, tensors in groups:
        device, dtype = tensors[0].device, tensors[0].dtype
        if dtype in (torch.float16, torch.bfloat16):
            products = torch._foreach_mul([t.float() for t in tensors], factor.to(device, torch.float32))
            torch._foreach_copy_(tensors, list(products))
        else:
            torch._foreach_mul_(tensors, factor.to(device, dtype))


def scale_and_check_(groups: list[Group], factor: Tensor, non_finite: Tensor) -> None:
    """Multiply all tensors by ``factor``; set ``non_finite`` to 1.0 if an entry was not finite before.

    This takes one read and one write of memory; two in float64, for which torch's kernel would round the
    factor to float32. (To leave the division to a fused optimizer, by its ``grad_scale``, would save nothing:
    that writes the gradients too, and they would still have to be read for the check.) ``non_finite`` is a
    float32 tensor of one number on the factor's device.
    """
    for layout, tensors in groups:
        device = tensors[0].device
        inverse = factor.to(device, torch.float32)
        if tensors[0].dtype == torch.float64:
            torch._foreach_mul_(tensors, factor.to(device))
            inverse = torch.ones_like(inverse)
        here = not layout and device == non_finite.device
        flag = non_finite if here else torch.zeros((), dtype=torch.float32, device=device)
        # torch has no CUDA version of this kernel for bfloat16.
        checked = [t.float() for t in tensors] if tensors[0].dtype == torch.bfloat16 else tensors
        torch._amp_foreach_non_finite_check_and_unscale_(checked, flag, inverse)
        if checked is not tensors:
            torch._foreach_copy_(tensors, checked)
        if not here:
            flag = _reduce(flag, layout, "max") if layout else flag
            non_finite.copy_(torch.maximum(non_finite, flag.to(non_finite.device)))


def _local_norm(tensors: list[Tensor]) -> Tensor:
    dtype = torch.float64 if tensors[0].dtype == torch.float64 else torch.float32
    if tensors[0].device.type == "cpu":
        return _length(torch.cat(_block_norms(tensors, dtype)), dtype=torch.float64)
    # The error of float32 is 1e-7 here: the kernel adds a few dozen squares in a row, and the rest as a tree.
    return _length(torch.stack(torch._foreach_norm(tensors, 2, dtype=dtype)))


def _block_norms(tensors: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Return vectors of norms, each norm of at most ``_BLOCK`` numbers.

    On a CPU, a float64 accumulator is 8 times slower, and a float32 accumulator over a tensor loses 5 digits.
    """
    norms, rests = [], []
    for tensor in tensors:
        even = tensor.numel() // _BLOCK * _BLOCK
        if even == 0:  # also for an empty shard, which still needs a norm
            rests.append(tensor)
            continue
        flat = tensor.reshape(-1)
        norms.append(_length(flat[:even].view(-1, _BLOCK), dim=1, dtype=dtype))
        if even < tensor.numel():
            rests.append(flat[even:])
    return [*norms, torch.stack(torch._foreach_norm(rests, 2, dtype=dtype))] if rests else norms


def _length(tensor: Tensor, **options: Any) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(tensor, **options)
    return length


def _reduce(value: Tensor, layout: tuple[Any, ...], operation: str) -> Tensor:
    """Combine one number per shard over the mesh dimensions on which the tensors are sharded."""
    mesh, placements = layout
    spread = [Partial(operation) if p.is_shard() else Replicate() for p in placements]
    return DTensor.from_local(value, mesh, spread, run_check=False).full_tensor()
