"""Parameters in blocks, each with a norm of its own: all together, group by group, or matrix by matrix."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from prgd.core.checks import unknown
from prgd.core.replay import Replay
from prgd.deep.optim.tensors import grouped, is_sharded, local, norm, scale_

Scope = Literal["global", "group", "matrix"]
TensorBlocks = list[list[Tensor]]


def blocks_of(groups: list[dict[str, Any]], scope: Scope) -> tuple[TensorBlocks, list[int]]:
    """Return the parameters of each block, and the number of the group from which each block is.

    Groups with ``"homogeneous": False``, frozen and empty parameters are left out, and with
    ``scope="matrix"`` so are vectors and scalars (biases, gains of normalisation layers).

    Examples
    --------
    >>> group = {"params": [torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))]}
    >>> [[tuple(p.shape) for p in block] for block in blocks_of([group], "matrix")[0]]
    [[(2, 2)]]
    """
    found = [
        (number, [p for p in group["params"] if p.requires_grad and p.numel()])
        for number, group in enumerate(groups)
        if group.get("homogeneous", True)
    ]
    if scope == "matrix":
        found = [(number, [p]) for number, members in found for p in members if p.ndim >= 2]
    elif scope == "global":
        found = [(found[0][0], [p for _, members in found for p in members])] if found else []
    elif scope != "group":
        raise unknown("scope", scope, get_args(Scope))
    found = [(number, members) for number, members in found if members]
    return [members for _, members in found], [number for number, _ in found]


class Blocks:
    """Tensors in blocks, with operations that treat each block by its own number.

    Nothing here reads a value on the host. Norms and factors are vectors with a number for each block, on the
    device of the first tensor. On CUDA devices the launches of a projection are recorded and replayed.

    Parameters
    ----------
    blocks : list of lists of Tensor, none of them empty.
    dtype : dtype of norms and factors.

    Examples
    --------
    >>> blocks = Blocks([[torch.tensor([3.0, 4.0])], [torch.tensor([6.0, 8.0])]], torch.float32)
    >>> blocks.norms()
    tensor([ 5., 10.])
    """

    def __init__(self, blocks: TensorBlocks, dtype: torch.dtype) -> None:
        self.blocks, self.dtype = blocks, dtype
        self.tensors = [tensor for block in blocks for tensor in block]
        self.device = self.tensors[0].device
        self._updates: TensorBlocks = []  # a base optimizer leaves its updates here; made on first use
        self._projection, self._move = Replay(), Replay()
        self._are_plain = all(t.device == self.device and not is_sharded(t) for t in self.tensors)
        # A kernel for many blocks needs Triton; loops over the blocks do the same with more launches.
        self._has_kernels = self._are_plain and _suit_kernels(blocks)
        self._made_kernels: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.blocks)

    def is_made_of(self, blocks: TensorBlocks) -> bool:
        """Tell whether these are the same tensors in the same blocks."""
        return [[*map(id, block)] for block in blocks] == [[*map(id, block)] for block in self.blocks]

    def norms(self) -> Tensor:
        """Return the Euclidean norm of each block, over all processes that share its tensors."""
        return self._norms(self.blocks)

    def _norms(self, blocks: TensorBlocks) -> Tensor:
        if self._has_kernels:  # one launch for all blocks
            return torch.stack(torch._foreach_norm([block[0] for block in blocks], 2, dtype=self.dtype))
        return torch.stack([norm(grouped(block)).to(self.device, self.dtype) for block in blocks])

    def _scale_(self, blocks: TensorBlocks, factors: Tensor) -> None:
        for block, factor in zip(blocks, factors.unbind(), strict=True):
            scale_(grouped(block), factor)

    def scale_(self, factors: Tensor) -> None:
        """Multiply each block in place by its factor."""
        if self._has_kernels:
            self._kernels(self.tensors).scale_(factors)
        else:
            self._scale_(self.blocks, factors)

    def rescale_(self, radii: Tensor, *, grows_only: bool = False) -> Tensor:
        """Multiply each block by its radius over its norm, and return these factors.

        The factor is 1 if a norm is 0 or not finite, so that such a block stays as it is, and with
        ``grows_only`` also if the norm is larger than the radius.
        """
        lengths = self.norms().nan_to_num_(nan=0.0, posinf=0.0)
        factors = (radii / lengths).nan_to_num_(nan=1.0, posinf=1.0)
        self.scale_(factors.clamp_(min=1.0) if grows_only else factors)
        return factors

    def project_(self, radii: Tensor, hold: Tensor) -> None:
        """Project each block to the ball of its radius, unless ``hold`` is 1 and not 0."""

        def scale_into_balls() -> None:
            # A norm that overflows must not send a block to zero: R_k / 0 is cut to a factor of 1.
            lengths = self.norms().nan_to_num_(nan=0.0, posinf=0.0)
            self.scale_(torch.addcdiv(hold, radii, lengths).clamp_(max=1.0))

        self._replayed(self._projection, scale_into_balls, self.tensors)

    @contextmanager
    def collecting_updates(self) -> Iterator[None]:
        """Let a base optimizer step from 0 within the block: its steps, the updates, are collected.

        The tensors hold other memory meanwhile, and are what they were after the block, also if it fails.
        """
        if not self._updates:
            self._updates = [[torch.zeros_like(t).detach() for t in block] for block in self.blocks]
        updates = [update for block in self._updates for update in block]
        torch._foreach_zero_([*map(local, updates)])
        names = ["_local_tensor" if is_sharded(tensor) else "data" for tensor in self.tensors]
        kept = [getattr(tensor, name) for tensor, name in zip(self.tensors, names, strict=True)]
        try:
            for tensor, name, update in zip(self.tensors, names, updates, strict=True):
                setattr(tensor, name, local(update))
            yield
        finally:
            for tensor, name, own in zip(self.tensors, names, kept, strict=True):
                setattr(tensor, name, own)

    def move_on_spheres_(self, radii: Tensor, rates: Tensor, hold: Tensor) -> None:
        r"""Step on the spheres of the radii, from W along the collected updates d.

        .. math:: W \leftarrow R\, \mathrm{norm}(W + \eta R\, \mathrm{norm}(d))

        Here norm(x) = x / ||x||. A block stays at W if d or the sum is 0 or not finite, or if ``hold`` is 1.
        """
        updates = [update for block in self._updates for update in block]

        def move() -> None:
            if self._has_kernels:
                self._kernels(self.tensors, updates).move_(radii, rates, hold)
            else:
                self._move_by_loops(updates, radii, rates, hold)

        self._replayed(self._move, move, [*self.tensors, *updates])

    def _move_by_loops(self, updates: list[Tensor], radii: Tensor, rates: Tensor, hold: Tensor) -> None:
        usable = _are_usable(lengths := self._norms(self._updates)) & (hold < 0.5)
        self._scale_(self._updates, torch.where(usable, rates * radii / lengths, 0.0))
        torch._foreach_add_([*map(local, updates)], [*map(local, self.tensors)])
        usable &= _are_usable(lengths := self._norms(self._updates))
        self._scale_(self._updates, radii / lengths)
        for block, others, flag in zip(self.blocks, self._updates, usable.unbind(), strict=True):
            for tensor, update in zip(map(local, block), map(local, others), strict=True):
                tensor.copy_(torch.where(flag.to(tensor.device), update, tensor))

    def _kernels(self, *lists: list[Tensor]) -> Any:
        """Return the kernels that treat every tensor as a block, made for the tensors' addresses."""
        from prgd.deep.optim._triton_blocks import BlockKernels  # pragma: cuda only

        addresses = [tensor.data_ptr() for some in lists for tensor in some]
        made = self._made_kernels.get(len(lists))  # Recordings point to the tables of their kernels.
        if made is None or made.addresses != addresses:
            made = self._made_kernels[len(lists)] = BlockKernels(*lists)
        return made

    def _replayed(self, replay: Replay, work: Any, tensors: list[Tensor]) -> None:
        # A fast device would wait for the launches of one call after the other, so they are replayed as one.
        if not self._are_plain or (self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
            work()
        else:
            replay(work, tensors)


def _suit_kernels(blocks: TensorBlocks) -> bool:
    """Tell whether blocks are several single tensors on a CUDA device with Triton, of one dtype and dense."""
    first = blocks[0][0]
    if len(blocks) == 1 or not first.is_cuda or find_spec("triton") is None:
        return False
    is_dense = torch.ops.aten.is_non_overlapping_and_dense
    return all(len(block) == 1 and block[0].dtype == first.dtype and is_dense(block[0]) for block in blocks)


def _are_usable(lengths: Tensor) -> Tensor:
    return (lengths > 0.0) & torch.isfinite(lengths)
