"""The radii R_k of an optimizer's blocks: on the host where the schedule is, and on the device."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from prgd.deep.optim.blocks import Blocks, Scope, blocks_of
from prgd.schedules import Radius


class Radii:
    """R_0 and R_k of every block, and the radii on the device: R_k times ``"radius"`` of the block's group.

    Parameters
    ----------
    groups : parameter groups of the optimizer.
    scope : what has a norm of its own, as `blocks_of` says.
    dtype : dtype of norms and radii.
    """

    def __init__(self, groups: list[dict[str, Any]], scope: Scope, dtype: torch.dtype) -> None:
        self.scope, self.dtype = scope, dtype
        self.are_known = False  # whether the first phase has begun
        self.R_0: list[float] = []
        self.R_k: list[float] = []
        self._set_blocks(*blocks_of(groups, scope))
        self.R_0 = self.R_k = [math.inf] * len(self.blocks)
        self._multipliers = [1.0] * len(groups)
        self._upload()

    def _set_blocks(self, blocks: list[list[Tensor]], group_numbers: list[int]) -> None:
        if not blocks:
            missing = (
                "no group has a parameter of two or more dimensions"
                if self.scope == "matrix"
                else "every parameter is frozen or in a group with 'homogeneous': False"
            )
            raise ValueError(f"PRGD has nothing to rescale: {missing}.")
        self.blocks, self._group_numbers = Blocks(blocks, self.dtype), group_numbers
        shape = (len(blocks),)
        self.on_device = torch.full(shape, math.inf, dtype=self.dtype, device=self.blocks.device)
        self._rates: list[Any] = []
        self._rates_on_device = torch.zeros_like(self.on_device)

    @property
    def depth(self) -> int:
        """The number of matrices: the degree of a plain homogeneous network, at least 1."""
        return max(1, sum(tensor.ndim >= 2 for tensor in self.blocks.tensors))

    def find_blocks(self, groups: list[dict[str, Any]], k: int, R: Radius) -> None:
        """Look for parameters that were added, frozen or thawed.

        The radius of a block with other parameters than before is the norm that it has now, and R_0 is such
        that R_k = R(k, R_0) grows on from there. With its former R_0, or with the norm as R_0, the parameters
        would make a jump at the next rescaling.
        """
        blocks, numbers = blocks_of(groups, self.scope)
        if self.blocks.is_made_of(blocks):
            return
        radii = zip(self.R_0, self.R_k, strict=True)
        known = {tuple(map(id, block)): pair for block, pair in zip(self.blocks.blocks, radii, strict=True)}
        found = [known.get(tuple(map(id, block)), (math.inf, math.inf)) for block in blocks]
        if self.are_known and blocks:
            for i, norm in enumerate(Blocks(blocks, self.dtype).norms().tolist()):
                if found[i] == (math.inf, math.inf):
                    self._check_norm(i, blocks[i], norm)
                    # R_0 is such that the radius of the phase before is the norm, for radii in proportion.
                    found[i] = (norm * (norm / float(R(k - 1, norm))) if k > 0 else norm, norm)
        self._set_blocks(blocks, numbers)
        self.R_0, self.R_k = ([pair[i] for pair in found] for i in range(2))
        self._multipliers = [1.0] * len(groups)
        self._upload()
        self.follow(groups)

    def enter(self, k: int, R: Radius) -> None:
        """Enter phase k with the radii R_k = R(k, R_0); at k = 0 the norms are read and become R_0."""
        if k == 0:
            self.R_0 = self.blocks.norms().tolist()  # the only wait for the device: once in a run
            for i, block in enumerate(self.blocks.blocks):
                self._check_norm(i, block, self.R_0[i])
            self.are_known = True
        self.R_k = [float(R(k, R_0)) for R_0 in self.R_0]
        # The square of a norm must stay in the range of the parameters' dtype, and so must each entry.
        dtypes = {p.dtype for p in self.blocks.tensors}
        wide = torch.float64 if dtypes == {torch.float64} else torch.float32
        largest = math.sqrt(torch.finfo(wide).max) / 1e3
        largest = min(largest, *(torch.finfo(dtype).max / 8 for dtype in dtypes))  # 8188 in float16
        for R_k in self.R_k:
            if not 1.0 / largest < R_k < largest:
                raise ValueError(
                    f"{R!r} gave the radius {R_k!r} at k = {k}; in this precision it must lie between "
                    f"{1.0 / largest:.0e} and {largest:.0e}. Cap it."
                )
        self._upload()

    def _check_norm(self, i: int, block: list[Tensor], norm: float) -> None:
        if not (math.isfinite(norm) and norm > 0.0):
            rescaled = "all parameters together" if self.scope == "global" else f"each {self.scope}"
            raise ValueError(
                f"PRGD rescales {rescaled}, and at the first rescaling the norm of number {i}, which begins "
                f"with a parameter of shape {tuple(block[0].shape)}, is {norm:g}. Initialise it, train with "
                "a warm-up that stays finite, or put it in a group with 'homogeneous': False."
            )

    def follow(self, groups: list[dict[str, Any]]) -> None:
        """Take over ``"radius"`` of the groups, if something has changed it."""
        multipliers = [_as_multiplier(group.get("radius", 1.0)) for group in groups]
        if multipliers != self._multipliers:  # A loop over groups is shorter than one over blocks.
            pairs = zip(multipliers, groups, strict=True)
            rescaled = [value for value, group in pairs if group.get("homogeneous", True)]
            if self.scope == "global" and len(set(rescaled)) > 1:
                raise ValueError(
                    "With scope='global' there is one radius, so 'radius' must be the same in all parameter "
                    f"groups; got {rescaled}. Use scope='group'."
                )
            self._multipliers = multipliers
            self._upload()

    def rates(self, groups: list[dict[str, Any]]) -> Tensor:
        """Return the rate of every block, on the device."""
        found = [group.get("lr") for group in groups]
        for rate in found:
            if not isinstance(rate, (Real, Tensor)):
                raise TypeError(
                    "Relative steps read their rate from 'lr' of the parameter groups, a number; got "
                    f"{rate!r}. Set it in each group."
                )
        if any(isinstance(rate, Tensor) for rate in found):
            like = self._rates_on_device
            tensors = [torch.as_tensor(rate).to(like).reshape(()) for rate in found]
            like.copy_(torch.stack(self._by_block(tensors)))
        elif found != self._rates:
            self._rates = found
            rates = torch.tensor(self._by_block(found), dtype=self.dtype)
            self._rates_on_device.copy_(rates, non_blocking=True)
        return self._rates_on_device

    def _by_block(self, values: list[Any]) -> list[Any]:
        """Return the value of each block's group."""
        return [values[number] for number in self._group_numbers]

    def _upload(self) -> None:
        multipliers = self._by_block(self._multipliers)
        radii = [R_k * factor for R_k, factor in zip(self.R_k, multipliers, strict=True)]
        self.on_device.copy_(torch.tensor(radii, dtype=self.dtype), non_blocking=True)

    def shown(self, values: Sequence[float]) -> float | list[float]:
        """Return the one number of the whole vector, or a list with a number for each block."""
        return values[0] if self.scope == "global" else list(values)

    def restore(self, R_0: float | list[float], R_k: float | list[float]) -> None:
        """Set R_0 and R_k as `shown` returned them."""
        radii = [values if isinstance(values, list) else [values] for values in (R_0, R_k)]
        if len(radii[0]) != len(self.blocks):
            raise ValueError(
                f"The state has radii of {len(radii[0])} blocks, and scope={self.scope!r} makes "
                f"{len(self.blocks)} of these parameters. Make the optimizer with the scope and groups of "
                "the run that saved the state."
            )
        self.R_0, self.R_k = radii
        self.are_known = all(map(math.isfinite, self.R_k))
        self._upload()


def _as_multiplier(value: Any) -> float:
    """Return ``"radius"`` of a group as a float; a tensor is read at each step, as it may change in place."""
    is_number = isinstance(value, Real) or (isinstance(value, Tensor) and value.numel() == 1)
    if not (is_number and 0.0 < (number := float(value)) < math.inf):
        raise ValueError(
            "'radius' of a parameter group multiplies R_k and must be one number, finite and above 0; got "
            f"{value!r}."
        )
    return number
