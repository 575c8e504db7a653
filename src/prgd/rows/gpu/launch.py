"""How the Triton kernels are laid over the device, and their launch."""

import os
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import gcd
from typing import Any

import torch

from prgd.core.replay import Replay
from prgd.core.threads import lazy
from prgd.losses import LOGISTIC, Loss
from prgd.rows.gpu.tensors import Tensor

_MAX_COLUMNS = 2**13  # the registers of a program hold w, the sum and a row of so many columns
_VECTOR_BYTES = 16  # largest load of one thread
_MERGE_WIDTH = 8  # columns that one program merges
_REGISTERS = 2**16  # number on a multiprocessor
_MAX_REGISTERS = 255  # limit of a thread


def has_kernels(X: Tensor) -> bool:
    """Tell whether the Triton kernels take X: on CUDA, or anywhere in Triton's interpreter."""
    on_device = X.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return bool(
        on_device and X.stride(1) == 1 and X.shape[1] <= _MAX_COLUMNS and find_spec("triton") is not None
    )


@dataclass(frozen=True)
class LaunchPlan:
    """How a kernel lays rows over its threads; see `prgd.rows.gpu._triton`."""

    steps: int
    slots: int
    width: int
    warps: int
    programs: int  # number for each multiprocessor, all resident at once
    stages: int = 1  # number of tiles whose loads are under way at once

    @property
    def registers(self) -> int:
        """Limit of a thread with which all programs are resident: one that waited would run almost alone."""
        return min(_MAX_REGISTERS, _REGISTERS // (32 * self.warps * self.programs) // 8 * 8)


def choose_plan(
    d: int, load_bytes: int, vector_bytes: int, *, in_pairs: bool = False, wide: bool = False
) -> LaunchPlan:
    """Return the plan for rows of ``d`` numbers: one for passes with and without a second direction.

    Both have the same sums then, to the last bit. A thread holds 16 or 32 numbers of a row: with fewer, the
    exchange that ends a product costs more than the product; with more, both directions, the sums and the
    rows in flight leave the registers. Pairs of bfloat16 bring rows twice as fast as they are summed: wide
    ones go through shared memory, four tiles ahead.

    Parameters
    ----------
    d : int
    load_bytes : int
        Size of what is loaded: a number, or two of them packed.
    vector_bytes : int
        Bytes that a thread may load at once, as the rows are aligned; at most 16.
    in_pairs : bool
        Whether a load holds two numbers.
    wide : bool
        Whether products with w are in float64 though rows are not.

    Examples
    --------
    >>> choose_plan(64, 4, 16)
    LaunchPlan(steps=4, slots=32, width=16, warps=4, programs=3, stages=1)
    """
    stages = 1
    if load_bytes == 8:
        numbers, steps, resident = (32, 1, 8) if d > 4096 else (16, 2, 8)
    elif in_pairs and d > 512:
        numbers, steps, resident, stages = 32, 2, 8, 4
    elif wide and not in_pairs:  # up to 1024 columns a row stays within one warp, which waits for no other
        numbers, steps, resident = (32, 2, 8) if 512 < d <= 1024 else (16, 2, 16)
    else:
        numbers, steps, resident = (32, 4, 8) if d > 512 else (16, 4, 12)
    lanes = max(4, 1 << (-(-d // numbers) - 1).bit_length())  # a power of two
    warps = max(4, lanes // 32)
    width = lanes * (vector_bytes // load_bytes)
    return LaunchPlan(steps, 32 * warps // lanes, width, warps, max(1, resident // warps), stages)


class Kernels:
    """Rows as the kernels read them, and the plan by which they do.

    Parameters
    ----------
    X : tensor of shape (n, d), its rows contiguous
    signs : tensor of shape (n,), optional
        Labels as +1 and -1; ``None`` if all are +1.
    weights : tensor of shape (n,), optional
    """

    def __init__(self, X: Tensor, signs: Tensor | None, weights: Tensor | None) -> None:
        self.n, self.d = X.shape
        self._signs, self.weights = signs, weights
        self._passes: dict[Any, _Pass] = {}
        self.is_double = X.dtype == torch.float64
        # Pairs of bfloat16 are loaded as one integer if the alignment of the rows allows it.
        in_pairs = X.dtype == torch.bfloat16 and X.shape[1] % 2 == 0 and X.stride(0) % 2 == 0
        in_pairs = in_pairs and X.data_ptr() % 4 == 0
        self.loads: Tensor = X.view(torch.int32) if in_pairs else X
        size = self.loads.element_size()
        aligned = gcd(_VECTOR_BYTES, self.loads.stride(0) * size, X.data_ptr())
        self.plan = choose_plan(self.d, size, aligned, in_pairs=in_pairs)
        self.wide_plan = choose_plan(self.d, size, aligned, in_pairs=in_pairs, wide=True)

    @lazy
    def words(self) -> Tensor:
        """Signs for the kernels: one bit a row."""
        device = self.loads.device
        if self._signs is None:
            return torch.zeros(1, dtype=torch.int32, device=device)
        negative = torch.zeros(-(-self.n // 32) * 32, dtype=torch.int32, device=device)
        negative[: self.n] = self._signs < 0
        words = (negative.view(-1, 32).long() << torch.arange(32, device=device)).sum(dim=1)
        return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)

    def tally(
        self, w: Tensor | None, loss: Loss, by_class: bool, *, second: bool = False, wide: bool = False
    ) -> Tensor:
        """Enqueue a pass; the answer has shape (groups, 6 + d), each row as `_triton_merge` lays it out.

        With a ``second`` direction v, w is a matrix of the rows w and v. Without w the last one of such a
        pass is taken again. ``wide`` takes the products with w in float64. The next pass of the kind writes
        to the same tensor. On a GPU a pass is launched as one graph: its two kernels, launched one by one,
        would wait for the host for about 65 microseconds, a tenth of a pass over 2 GB.
        """
        plan = self.wide_plan if wide else self.plan
        if loss == LOGISTIC:  # two masses take more registers
            plan = replace(plan, steps=min(plan.steps, 2))
        key = loss, by_class, second, wide, plan
        if key not in self._passes:
            self._passes[key] = _Pass(self, loss, by_class, second, wide, plan)
        return self._passes[key](w)

    @lazy
    def by_class(self) -> tuple[Tensor, int]:
        """The rows labelled +1, then those labelled -1, and how many are +1."""
        signs = self._signs
        if signs is None:
            signs = torch.ones(self.n, dtype=torch.int8, device=self.loads.device)
        sides = [(signs > 0).nonzero().ravel(), (signs < 0).nonzero().ravel()]
        return torch.cat(sides).to(torch.int32 if self.n < 2**31 else torch.int64), sides[0].numel()

    def shares(self, plan: LaunchPlan, by_class: bool) -> tuple[int, int]:
        """Return the number of programs for the rows labelled +1, and for all rows."""
        programs = self.programs(plan)
        if not by_class:
            return 0, programs
        n_plus = self.by_class[1]
        plus = min(max(round(programs * n_plus / self.n), 1), max(programs - 1, 1))
        return plus, max(programs, 2)

    def margins(self, w: Tensor) -> Tensor:
        """Enqueue all margins ``<w, z_i>``, in float64."""
        import triton.language as tl

        from prgd.rows.gpu import _triton

        out = torch.empty(self.n, dtype=torch.float64, device=self.loads.device)
        _triton.margins_kernel[(self.programs(self.plan),)](
            self.loads, self.words, w, out, self.n, **self.layout(self.plan), DOT=tl.float64,
            num_warps=self.plan.warps,
        )  # fmt: skip
        return out

    @property
    def sum_roundings(self) -> int:
        """Largest number of roundings of one term in the sums of `tally`, in the precision of the sums."""
        return max(self._sum_roundings(plan) for plan in (self.plan, self.wide_plan))

    def _sum_roundings(self, plan: LaunchPlan) -> int:
        programs = self.programs(plan)
        # A slot adds each of its rows and is rescaled once a tile; then the slots meet. Programs meet in
        # float64: that is fewer than one rounding in float32. By class a program may have twice its share.
        rows = 2 * int(self.n) // (plan.slots * programs) + 2 * plan.steps + 2
        return 2 * rows + plan.slots + 8 + (programs if self.is_double else 1)

    def programs(self, plan: LaunchPlan) -> int:
        """Return how many programs share the rows."""
        processors, tiles = 4, -(-int(self.n) // (plan.steps * plan.slots))
        if self.loads.is_cuda:
            processors = torch.cuda.get_device_properties(self.loads.device).multi_processor_count
        return min(processors * plan.programs, tiles)

    def layout(self, plan: LaunchPlan) -> dict[str, Any]:
        """Return what the kernels know when they are compiled."""
        return {
            "STRIDE": self.loads.stride(0),
            "D": self.d,
            "STEPS": plan.steps,
            "SLOTS": plan.slots,
            "WIDTH": plan.width,
            "CHUNKS": -(-self.loads.shape[1] // plan.width),
            "PARTS": self.d // self.loads.shape[1],
            "LABELLED": self._signs is not None,
        }


class _Pass:
    """One kind of pass, with the tensors that its kernels read and write."""

    def __init__(
        self, kernels: Kernels, loss: Loss, by_class: bool, second: bool, wide: bool, plan: LaunchPlan
    ) -> None:
        from prgd.rows.gpu import _triton_merge

        device, columns = kernels.loads.device, kernels.d + _triton_merge.SCALARS.value
        self.kernels, self.plan, self.is_logistic, self.by_class = kernels, plan, loss == LOGISTIC, by_class
        self.is_wide = wide or kernels.is_double
        self.plus_programs, self.programs = kernels.shares(plan, by_class)
        self.list, self.n_plus = kernels.by_class if by_class else (kernels.words, 0)
        self.is_second = second
        self.w = torch.empty((1 + second, kernels.d), dtype=torch.float64, device=device)
        self.parts = torch.empty((self.programs, columns), dtype=torch.float64, device=device)
        self.out = torch.empty((2 if by_class else 1, columns), dtype=torch.float64, device=device)
        cuts = [0, self.plus_programs, self.programs] if by_class else [0, self.programs]
        self.cuts = torch.tensor(cuts, dtype=torch.int32, device=device)
        self.replay = Replay()

    def __call__(self, w: Tensor | None) -> Tensor:
        if w is not None:
            self.w.copy_(w)
        self.replay(self._launch, [self.w])
        return self.out

    def _launch(self) -> None:
        import triton
        import triton.language as tl

        from prgd.rows.gpu import _triton, _triton_merge

        kernels, plan, weights = self.kernels, self.plan, self.kernels.weights
        limit = {"maxnreg": plan.registers} if torch.version.hip is None else {}  # AMD's compiler has none
        _triton.tally_kernel[(self.programs,)](
            kernels.loads, kernels.words, self.list, self.w if weights is None else weights,
            self.w, self.w[-1], self.parts, kernels.n, self.n_plus, self.plus_programs,
            **kernels.layout(plan),
            LISTED=self.by_class, WEIGHTED=weights is not None,
            LOGISTIC=self.is_logistic, DOT=tl.float64 if self.is_wide else tl.float32,
            SUM=tl.float64 if kernels.is_double else tl.float32, SECOND=self.is_second, STAGES=plan.stages,
            num_warps=plan.warps, **limit,
        )  # fmt: skip
        rows = triton.next_power_of_2(len(self.parts))
        _triton_merge.merge_kernel[(-(-kernels.d // _MERGE_WIDTH), len(self.out))](
            self.parts, self.out, self.cuts, D=kernels.d, ROWS=rows, BLOCK=min(1024, rows),
            WIDTH=_MERGE_WIDTH, SECOND=self.is_second, num_warps=8,
        )  # fmt: skip
