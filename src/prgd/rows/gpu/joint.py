"""How the Triton kernel for all classes jointly is laid over the device, and its launch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from prgd.core.replay import Replay
from prgd.losses import LOGISTIC, Loss
from prgd.rows.gpu.launch import has_kernels, merge_programs
from prgd.rows.gpu.tensors import Tensor

_MAX_CLASSES = 32  # the sums of a program, K d numbers, lie in registers
_LARGEST = 14  # exponent of the largest scaled number of float16; `_triton_joint.LARGEST`
_RANGE = 120  # scales are powers of two with exponents of at most this size


class Terms(NamedTuple):
    """The numbers that tensor cores multiply; how many add up to a number of a row, of w, of a weight."""

    rows: int
    w: int
    weights: int
    dtype: Any


TERMS = {
    torch.float64: Terms(1, 1, 1, torch.float64),
    torch.float32: Terms(2, 2, 2, torch.float16),
    torch.float16: Terms(1, 2, 2, torch.float16),
    torch.bfloat16: Terms(1, 3, 2, torch.bfloat16),
}


@dataclass(frozen=True)
class JointPlan:
    """How the kernel cuts rows into tiles; see `prgd.rows.gpu._triton_joint`."""

    rows: int
    width: int
    warps: int
    programs: int  # number for each multiprocessor
    stages: int = 1  # number of tiles whose loads are under way at once


def choose_joint_plan(d: int, K: int, itemsize: int) -> JointPlan | None:
    """Return the plan for rows of ``d`` numbers and K classes; None if a tile does not fit.

    The registers of a program hold the sums, K d numbers, and its shared memory w and a tile in the numbers
    that are multiplied. Products are fastest for 64 rows and wide chunks. These plans are the best
    found on an H200.

    Examples
    --------
    >>> choose_joint_plan(256, 10, 4)
    JointPlan(rows=64, width=128, warps=4, programs=2, stages=2)
    """
    size = d * _padded(K) // 16
    found = {
        2: {
            64: (64, 64, 4, 6, 3),
            256: (64, 256, 4, 2, 2),
            512: (64, 256, 4, 1, 2),
            1024: (32, 256, 8, 1, 1),
        },
        4: {
            64: (64, 64, 4, 4, 3),
            256: (64, 128, 4, 2, 2),
            512: (32, 128, 4, 2, 2),
            1024: (16, 256, 4, 2, 1),
        },
        8: {256: (32, 64, 4, 2, 1), 512: (16, 64, 4, 2, 1)},
    }[itemsize]
    largest = next((limit for limit in found if size <= limit), None)
    if K > _MAX_CLASSES or largest is None:
        return None
    rows, width, warps, programs, stages = found[largest]
    return JointPlan(rows, min(width, max(64, 1 << (d - 1).bit_length())), warps, programs, stages)


def _padded(K: int) -> int:
    """Return K padded to the size of a tile of a matrix product."""
    return max(16, 1 << (K - 1).bit_length())


class JointKernels:
    """Rows with classes as the kernel reads them, and the plan by which it does.

    Parameters
    ----------
    X : tensor of shape (n, d), its rows contiguous
    codes : int32 tensor of shape (n,)
        The class of each row, from 0 to K - 1.
    weights : tensor of shape (n,), optional
    K : int
    max_norm : float
        The largest norm of a row, which no entry exceeds.
    """

    # Two numbers of 11 digits hold a factor to 2^-22. Tensor cores add 16 products to a sum, truncating each.
    # No specification says to how many digits (24 or more on V100, T4 and A100: Fasi et al. 2021,
    # doi:10.7717/peerj-cs.330), so that no bound on the errors is proven.
    unit_roundoff = math.inf

    def __init__(self, X: Tensor, codes: Tensor, weights: Tensor | None, K: int, max_norm: float) -> None:
        self.X, self.codes, self.weights, self.K = X, codes, weights, K
        self.n, self.d = X.shape
        self.is_double = X.dtype == torch.float64
        self.can_be_wide = X.element_size() > 2  # Triton has no products of float64 made of 16 bits
        plan = choose_joint_plan(self.d, K, X.element_size())
        if plan is None:
            raise ValueError(f"No plan for {self.d} columns and {K} classes.")
        self.plan: JointPlan = plan
        self.terms = TERMS[X.dtype]
        self.row_exponent = _exponent(max_norm) if self.terms.rows > 1 else 0
        self.weight_exponent = 0 if weights is None else -math.frexp(float(weights.max()))[1]
        self._passes: dict[Any, _JointPass] = {}

    @staticmethod
    def take(X: Tensor, K: int) -> bool:
        """Tell whether the kernel takes rows X of K classes."""
        if not X.is_cuda and X.dtype == torch.bfloat16:  # the interpreter multiplies no matrices of bfloat16
            return False
        return has_kernels(X) and choose_joint_plan(X.shape[1], K, X.element_size()) is not None

    def tally(
        self,
        w: Tensor | None,
        loss: Loss,
        by_class: bool,
        *,
        wide: bool = False,
        plan: JointPlan | None = None,
    ) -> Tensor:
        """Enqueue a pass at w of shape (K, d); see `prgd.rows.gpu.launch.Kernels.tally`.

        The answer has shape (1, 6 + K d), or (K^2, 6 + d) by class.
        """
        key = loss, by_class, wide, plan or self.plan
        if key not in self._passes:
            self._passes[key] = _JointPass(self, loss, by_class, wide, plan or self.plan)
        return self._passes[key](w)

    @cached_property
    def by_class(self) -> tuple[Tensor, list[int]]:
        """The rows of each class, one class after the other, and how many there are of each."""
        rows = torch.argsort(self.codes, stable=True)
        counts = torch.bincount(self.codes, minlength=self.K).tolist()
        return rows.to(torch.int32 if self.n < 2**31 else torch.int64), counts

    def programs(self, plan: JointPlan) -> int:
        """Return how many programs share the rows."""
        processors, tiles = 4, -(-int(self.n) // plan.rows)
        if self.X.is_cuda:
            processors = torch.cuda.get_device_properties(self.X.device).multi_processor_count
        return min(processors * plan.programs, tiles)

    def shares(self, plan: JointPlan) -> list[int]:
        """Return the number of programs for the rows of each class."""
        programs = self.programs(plan)
        return [max(1, round(programs * count / self.n)) if count else 0 for count in self.by_class[1]]

    @property
    def sum_roundings(self) -> int:
        """Largest number of roundings of one term in the sums of `tally`, in its unit."""
        # A tile has a rounding for each of its rows, a program two for each tile, with twice its share by
        # class. Weights of float16 are off by 2^-39 of the largest, those of bfloat16 by 2^-17 of themselves,
        # also in the sum over the pairs of a row.
        tiles = 2 * int(self.n) // (self.plan.rows * self.programs(self.plan)) + 2
        roundings = self.plan.rows + 2 * tiles + self.K + 16
        if self.terms.dtype == torch.float16:
            roundings += math.ceil(self.n * self.K * 2.0**-18)
        elif self.terms.dtype == torch.bfloat16:
            roundings += 32
        return int(roundings + (self.programs(self.plan) if self.is_double else 1))


def _exponent(size: float) -> int:
    """Return the power of two that brings numbers of at most this size near the largest of float16."""
    return max(-_RANGE, min(_RANGE, _LARGEST - math.frexp(size)[1])) if size > 0.0 else 0


class _JointPass:
    """One kind of pass, with the tensors that its kernels read and write."""

    def __init__(
        self, kernels: JointKernels, loss: Loss, by_class: bool, wide: bool, plan: JointPlan
    ) -> None:
        from prgd.rows.gpu import _triton_merge

        self.kernels, self.plan, self.is_logistic, self.by_class = kernels, plan, loss == LOGISTIC, by_class
        self.is_wide = wide and not kernels.is_double
        device, K, d = kernels.X.device, kernels.K, kernels.d
        shares = kernels.shares(plan) if by_class else [kernels.programs(plan)]
        starts = torch.tensor([0, *shares]).cumsum(0)
        self.programs = int(starts[-1])
        self.starts = starts.to(torch.int32).to(device)
        self.list, self.owners, self.bounds = kernels.codes, self.starts, self.starts
        if by_class:
            self.list, counts = kernels.by_class
            owners = torch.repeat_interleave(torch.arange(K), torch.tensor(shares))
            self.owners = owners.to(torch.int32).to(device)
            self.bounds = torch.tensor([0, *counts]).cumsum(0).to(self.list.dtype).to(device)
        self.groups, columns = (K, d) if by_class else (1, K * d)
        columns += _triton_merge.SCALARS.value
        self.chunks = -(-d // plan.width)
        terms = TERMS[torch.float64] if self.is_wide else kernels.terms
        self.count = terms.w
        shape = (1 << (terms.w - 1).bit_length(), _padded(K), self.chunks * plan.width)
        self.w = torch.zeros(shape, dtype=terms.dtype, device=device)
        self.scales = torch.ones(5, dtype=torch.float64, device=device)
        self.parts = torch.empty((self.programs * self.groups, columns), dtype=torch.float64, device=device)
        self.out = torch.empty((self.groups**2, columns), dtype=torch.float64, device=device)
        self.replay = Replay()

    def __call__(self, w: Tensor | None) -> Tensor:
        if w is not None:
            self._send(w.cpu())
        self.replay(self._launch, [self.w])
        return self.out

    def _send(self, w: Tensor) -> None:
        """Send w as a sum of terms, and the powers of two by which numbers are scaled."""
        kernels, parts = self.kernels, []
        is_half = self.w.dtype == torch.float16
        exponent = _exponent(float(w.abs().max())) if is_half else 0
        rest = w * 2.0**exponent
        for _ in range(self.count):
            parts.append(rest.to(self.w.dtype))
            rest = rest - parts[-1].double()
        self.w[: self.count, : kernels.K, : kernels.d].copy_(torch.stack(parts))
        row, weight = kernels.row_exponent, kernels.weight_exponent
        summed = 0 if kernels.is_double else _LARGEST
        powers = [row, -row - exponent, weight, -row - summed - weight, -weight]
        self.scales.copy_(torch.tensor([math.ldexp(1.0, power) for power in powers], dtype=torch.float64))

    def _launch(self) -> None:
        import triton.language as tl

        from prgd.rows.gpu import _triton_joint

        kernels, plan, terms = self.kernels, self.plan, self.kernels.terms
        sums = tl.float64 if kernels.is_double else tl.float32
        _triton_joint.joint_kernel[(self.programs,)](
            kernels.X, kernels.codes, self.list, self.owners, self.starts, self.bounds,
            self.scales if kernels.weights is None else kernels.weights, self.w, self.scales, self.parts,
            kernels.n, STRIDE=kernels.X.stride(0), D=kernels.d, K=kernels.K, CLASSES=_padded(kernels.K),
            ROWS=plan.rows, WIDTH=plan.width, CHUNKS=self.chunks, PLANES=terms.rows, STACKED=len(self.w),
            PARTS=terms.weights, TYPE=getattr(tl, str(terms.dtype).removeprefix("torch.")),
            BY_CLASS=self.by_class, WEIGHTED=kernels.weights is not None, LOGISTIC=self.is_logistic,
            DOT=tl.float64 if self.is_wide else sums, SUM=sums, STAGES=plan.stages, num_warps=plan.warps,
        )  # fmt: skip
        merge_programs(self.parts, self.starts, self.out, self.groups)
