"""Parameters in blocks, each with a norm of its own: all together, group by group, or matrix by matrix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from prgd.core.checks import unknown
from prgd.core.replay import Replay
from prgd.deep.optim.tensors import Grouping, is_sharded, local, norm, scale_

Scope = Literal["global", "group", "matrix"]


def blocks_of(groups: list[dict[str, Any]], scope: Scope) -> tuple[list[list[Tensor]], list[int]]:
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

    def __init__(self, blocks: list[list[Tensor]], dtype: torch.dtype) -> None:
        self.blocks, self.dtype = blocks, dtype
        self.tensors = [tensor for block in blocks for tensor in block]
        self.device = self.tensors[0].device
        self._groupings = [Grouping() for _ in blocks]
        self._starts: list[Tensor] = []
        self._projection, self._leaving = Replay(), Replay()
        # Recordings of the two ways to move hold other kernels, and a run may change from one to the other.
        self._moving, self._walking = Replay(), Replay()
        self._are_plain = all(t.device == self.device and not is_sharded(t) for t in self.tensors)
        # Kernels for many blocks need Triton; loops over the blocks do the same with more launches.
        self._has_kernels = (
            self._are_plain and len(self.tensors) == len(blocks) and _suit_kernels(self.tensors)
        )
        # Recordings point to the tables of their kernels, so each use keeps kernels of its own.
        self._made_kernels: dict[str, Any] = {}
        self._stand_ins: dict[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.blocks)

    def is_made_of(self, blocks: list[list[Tensor]]) -> bool:
        """Tell whether these are the same tensors in the same blocks."""
        return len(blocks) == len(self.blocks) and all(
            len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
            for a, b in zip(blocks, self.blocks, strict=True)
        )

    def norms(self) -> Tensor:
        """Return the Euclidean norm of each block, over all processes that share its tensors."""
        if self._has_kernels:  # one launch for all blocks
            return torch.stack(torch._foreach_norm(self.tensors, 2, dtype=self.dtype))
        found = [norm(grouping(block)) for grouping, block in zip(self._groupings, self.blocks, strict=True)]
        if len(found) == 1:
            return found[0].reshape(1).to(self.dtype)
        return torch.stack([length.to(self.device, self.dtype) for length in found])

    def scale_(self, factors: Tensor) -> None:
        """Multiply each block in place by its factor."""
        if self._has_kernels:
            self._kernels(self.tensors).scale_(factors)
            return
        for grouping, block, factor in zip(self._groupings, self.blocks, factors.unbind(), strict=True):
            scale_(grouping(block), factor)

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
        self._replayed(self._projection, lambda: self._scale_into_balls(radii, hold))

    def _scale_into_balls(self, radii: Tensor, hold: Tensor) -> None:
        if self._has_kernels:
            self._kernels(self.tensors).project_(radii, hold)
            return
        # A norm that overflows must not send a block to zero: R_k / 0 is cut to a factor of 1.
        lengths = self.norms().nan_to_num_(nan=0.0, posinf=0.0)
        self.scale_(torch.addcdiv(hold, radii, lengths).clamp_(max=1.0))

    def stand_ins(self) -> dict[Tensor, Tensor] | None:
        """Return tensors of zeros, by parameter, that a base optimizer may step in place of the parameters.

        None without kernels, which set them to 0 again in the same pass that moves the parameters.
        """
        if not self._has_kernels:
            return None
        if self._stand_ins is None:
            self._stand_ins = {tensor: torch.zeros_like(tensor) for tensor in self.tensors}
        return self._stand_ins

    @contextmanager
    def left(self) -> Iterator[None]:
        """Keep the tensors aside and set them to 0, where a step of a base optimizer is its update.

        If the block fails, the tensors are what they were.
        """
        if not self._starts:
            self._starts = [torch.empty_like(local(tensor)) for tensor in self.tensors]
        self._replayed(self._leaving, self._copy_and_zero)
        try:
            yield
        except BaseException:
            torch._foreach_copy_(self._local(), self._starts)
            raise

    def _copy_and_zero(self) -> None:
        torch._foreach_copy_(self._starts, self._local())
        torch._foreach_zero_(self._local())

    def _local(self) -> list[Tensor]:
        return [local(tensor) for tensor in self.tensors]

    def move_on_spheres_(
        self, radii: Tensor, rates: Tensor, hold: Tensor, *, along: dict[Tensor, Tensor] | None
    ) -> None:
        r"""Step on the spheres of the radii, from W along a base optimizer's step d.

        .. math:: W \leftarrow R\, \mathrm{norm}(W + \eta R\, \mathrm{norm}(d))

        Here norm(x) = x / ||x||. The step d is in the `stand_ins`, if ``along`` has them; else the tensors
        hold d, and W is where `left` found them. A block stays at W if d or the sum is 0 or not finite, or if
        ``hold`` is 1.
        """
        if along is not None:
            steps = list(along.values())
            self._replayed(self._moving, lambda: self._move_by_kernels(steps, radii, rates, hold))
        else:
            self._replayed(self._walking, lambda: self._walk(radii, rates, hold))

    def _move_by_kernels(self, steps: list[Tensor], radii: Tensor, rates: Tensor, hold: Tensor) -> None:
        kernels = self._kernels(steps, self.tensors)
        kernels.move_on_spheres_(radii, rates, hold, into_starts=True)

    def _walk(self, radii: Tensor, rates: Tensor, hold: Tensor) -> None:
        if self._has_kernels:
            self._kernels(self.tensors, self._starts).move_on_spheres_(radii, rates, hold)
            return
        usable = _are_usable(lengths := self.norms()) & (hold < 0.5)
        self.scale_(torch.where(usable, rates * radii / lengths, 0.0))
        torch._foreach_add_(self._local(), self._starts)
        usable &= _are_usable(lengths := self.norms())
        self.scale_(torch.where(usable, radii / lengths, 1.0))
        self._return_to_starts(~usable)

    def _return_to_starts(self, flags: Tensor) -> None:
        """Set the blocks whose flag is true to where they began; nothing there need be finite."""
        starts = iter(self._starts)
        for block, flag in zip(self.blocks, flags.unbind(), strict=True):
            for tensor in map(local, block):
                tensor.copy_(torch.where(flag.to(tensor.device), next(starts), tensor))

    def _kernels(self, tensors: list[Tensor], starts: list[Tensor] | None = None) -> Any:
        """Return the kernels that treat every tensor as a block, made for the tensors' addresses."""
        from prgd.deep.optim._triton_blocks import BlockKernels  # pragma: cuda only

        addresses = [tensor.data_ptr() for tensor in (*tensors, *(starts or []))]
        use = "alone" if starts is None else "stand-ins" if starts is self.tensors else "starts"
        made = self._made_kernels.get(use)
        if made is None or made.addresses != addresses:
            made = self._made_kernels[use] = BlockKernels(tensors, starts)
        return made

    def _replayed(self, replay: Replay, work: Any) -> None:
        # A fast device would wait for the launches of one call after the other, so they are replayed as one.
        if not self._are_plain or _is_capturing(self.device):
            work()
        else:
            replay(work, self.tensors)


def _suit_kernels(tensors: list[Tensor]) -> bool:
    """Tell whether tensors are on a CUDA device with Triton, of one dtype, and dense in memory."""
    if len(tensors) == 1 or not tensors[0].is_cuda or find_spec("triton") is None:
        return False
    is_dense = torch.ops.aten.is_non_overlapping_and_dense
    return all(tensor.dtype == tensors[0].dtype and is_dense(tensor) for tensor in tensors)


def _is_capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _are_usable(lengths: Tensor) -> Tensor:
    return (lengths > 0.0) & torch.isfinite(lengths)
