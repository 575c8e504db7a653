"""Rows of a torch tensor, on any device: Triton kernels on CUDA, plain torch elsewhere.

The rows stay where they are. A pass sends w to the device and brings a Tally back; the solver's look at the
smallest margins brings those few rows back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prgd.losses import Array, Loss
from prgd.rows._tensors import Csr, as_tensor, check_finite, has_kernels, room
from prgd.rows.base import Measure, Signs, Worst, check_shape, read_labels, read_weights
from prgd.tally import Tally, merge_all
from prgd.vectors import norm

if TYPE_CHECKING:
    import torch

Tensor = Any  # torch.Tensor, which is not imported with prgd
Indices = npt.NDArray[np.int64]

_CHUNK_BYTES = 2**28  # of rows that torch widens to float64 at a time
# Products in float32 are off by about 2^-24 ||x|| ||w||, and a weight by as much, relative. Beyond this norm
# of w, in units of 1 / max ||x||, they are summed in float64, which costs a little speed.
_WIDE = 32.0


@dataclass(frozen=True)
class Plan:
    """How a kernel lays rows over its threads; see `prgd.rows._triton`."""

    steps: int
    slots: int
    width: int
    warps: int
    programs: int  # for each multiprocessor
    stages: int = 1


def choose_plan(d: int, load_bytes: int, vector_bytes: int) -> Plan:
    """Return the plan for rows of ``d`` numbers.

    About 16 numbers of a row for each thread: fewer, and the exchange that ends a product costs more than the
    product; more, and w, the sums and the rows in flight leave the registers.

    Parameters
    ----------
    d : int
    load_bytes : int
        Size of what is loaded: a number, or two of them packed.
    vector_bytes : int
        Bytes that a thread may load at once, as the rows are aligned; at most 16.
    """
    warps = 1 if d <= 1024 else min(_power_of_two(-(-d // 512)), 16)
    lanes = min(max(_power_of_two(-(-d // 16)), 4), 32) if warps == 1 else 32 * warps
    held = -(-d // lanes)
    steps = max(1, min(4, 64 // _power_of_two(held)))
    if load_bytes == 8:
        steps = max(1, steps // 2)
    return Plan(steps, 32 * warps // lanes, lanes * (vector_bytes // load_bytes), warps, max(1, 16 // warps))


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


class TensorRows:
    """Rows of a torch tensor on any device.

    Parameters
    ----------
    X : tensor of shape (n, d), strided or sparse CSR, or an array
        float16, bfloat16, float32 and float64 are used as they lie. Sums are in float64 for float64 and off
        CUDA; the kernels sum smaller types in float32, and programs in float64.
    y : tensor or array of shape (n,), optional
        Labels of two classes, applied on the fly. ``None``: the rows are z_i = y_i x_i already. A tensor must be
        on the device of X.
    sample_weight : tensor or array of shape (n,), optional
    device : str or torch.device, optional
        Where to put X, e.g. ``"cuda"``. Default: where it is.

    Raises
    ------
    MemoryError
        Where the device has no room, with the number of rows that fit.

    Notes
    -----
    Rows that are not contiguous, CSR and rows wider than 8192 columns are multiplied twice by torch, part by
    part.

    Examples
    --------
    >>> import torch
    >>> rows = TensorRows(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), [1, -1])
    >>> rows.margins(np.array([3.0, 1.0]))
    array([ 3., -2.])
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None, *, device: Any = None) -> None:
        import torch

        X = as_tensor(X, device)
        self.n, self.d = check_shape(X.shape)
        self.device: torch.device = X.device
        with room(X):
            self._sparse = Csr(X) if X.layout == torch.sparse_csr else None
            self._X = X
            self._signs, self.classes = self._read_labels(y)
            self._weights = self._read_weights(sample_weight)
            mass = self._weights if self._weights is not None else torch.ones((), dtype=torch.float64)
            plus = torch.where(self._signs > 0, mass.to(self.device), 0.0).sum()
            minus = torch.where(self._signs < 0, mass.to(self.device), 0.0).sum()
        self.class_weights = (float(plus), float(minus))
        self._kernels = self._sparse is None and has_kernels(X)
        self._plan = self._default_plan() if self._kernels else None

    def __repr__(self) -> str:
        return f"TensorRows({self.n} x {self.d} {self._X.dtype} on {self.device})"

    def _read_labels(self, y: Any) -> tuple[Tensor, npt.NDArray[Any] | None]:
        """Return the labels as +1 and -1 on the device, and the two classes."""
        import torch

        if isinstance(y, torch.Tensor) and y.device != self.device:
            raise ValueError(
                f"y must be on the device of X, {self.device}; it is on {y.device}. "
                f"Use y.to({str(self.device)!r})."
            )
        if isinstance(y, torch.Tensor) and self.device.type != "cpu" and y.shape == (self.n,):
            classes = torch.unique(y)
            if classes.numel() == 2 and bool(torch.isfinite(classes).all()):
                signs = torch.where(y == classes[1], 1, -1).to(torch.int8)
                return signs, classes.cpu().numpy()
        signs, found = read_labels(y.cpu().numpy() if isinstance(y, torch.Tensor) else y, self.n)
        return torch.from_numpy(signs).to(self.device), found

    def _read_weights(self, sample_weight: Any) -> Tensor | None:
        import torch

        if isinstance(sample_weight, torch.Tensor):
            sample_weight = sample_weight.cpu().numpy()
        self._host_weights = read_weights(sample_weight, self.n)
        return torch.from_numpy(self._host_weights).to(self.device) if self._host_weights.size else None

    @cached_property
    def _host_signs(self) -> Signs:
        return np.asarray(self._signs.cpu().numpy())

    def signs(self) -> Signs:
        """Return the labels y_i as +1 or -1."""
        return self._host_signs

    def weights(self) -> Array:
        """Return the sample weights, empty where all are 1."""
        return self._host_weights

    @cached_property
    def _measured(self) -> Measure:
        return self._measure()

    def measure(self) -> Measure:
        """Check that all entries are finite, and measure the row norms."""
        return self._measured

    def _measure(self) -> Measure:
        import torch

        largest, zeros = 0.0, 0
        with room(self._X):
            if self._sparse is not None:
                norms = self._sparse.norms()
                check_finite(norms, 0, self._sparse.locate)
                return Measure(float(norms.max()), int((norms == 0.0).sum()))
            for at in self._parts():
                part = self._X[at]
                if part.dtype == torch.float64:  # squares may leave the floating range
                    scale = part.abs().amax(dim=1)
                    safe = torch.where(scale > 0.0, scale, 1.0)
                    norms = scale * torch.linalg.vector_norm(part / safe[:, None], dim=1)
                else:
                    norms = torch.linalg.vector_norm(part, dim=1, dtype=torch.float64)
                check_finite(norms, at.start, lambda row: int((~torch.isfinite(self._X[row])).int().argmax()))
                largest = max(largest, float(norms.max()))
                zeros += int((norms == 0.0).sum())
        return Measure(largest, zeros)

    def _parts(self) -> Iterator[slice]:
        """Cut the rows so that a float64 copy of a part is small."""
        step = max(1, _CHUNK_BYTES // (8 * self.d))
        for start in range(0, self.n, step):
            yield slice(start, min(start + step, self.n))

    def _default_plan(self) -> Plan:
        load_bytes = self._loads.element_size()
        vector_bytes = gcd(16, self._loads.stride(0) * load_bytes, self._X.data_ptr())
        return choose_plan(self.d, load_bytes, vector_bytes)

    @cached_property
    def _loads(self) -> Tensor:
        """X as the kernels load it: bfloat16 in pairs where rows allow it."""
        import torch

        X = self._X
        in_pairs = X.dtype == torch.bfloat16 and self.d % 2 == 0 and X.stride(0) % 2 == 0
        return X.view(torch.int32) if in_pairs and X.data_ptr() % 4 == 0 else X

    @cached_property
    def _words(self) -> Tensor:
        """Signs for the kernels: one bit a row."""
        import torch

        negative = torch.zeros(-(-self.n // 32) * 32, dtype=torch.int32, device=self.device)
        negative[: self.n] = self._signs < 0
        place = torch.arange(32, dtype=torch.int64, device=self.device)
        words = (negative.view(-1, 32).long() << place).sum(dim=1)
        return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)

    def tallies(self, w: Array, loss: Loss, by_class: bool = False) -> tuple[Tally, ...]:
        """Sum all rows at ``w``, in one reading."""
        with room(self._X):
            if self._plan is None:
                return self._torch_tallies(w, loss, by_class)
            found = self.launch(self._send(w), loss, by_class, self._plan, norm(w)).cpu().numpy()
        counts = self.class_weights if by_class else (sum(self.class_weights),)
        return tuple(
            Tally(*row[:4].tolist(), vector=row[5:], margin=float(row[4]), count=count)
            for row, count in zip(found, counts, strict=True)
        )

    def launch(self, w: Tensor, loss: Loss, by_class: bool, plan: Plan, length: float) -> Tensor:
        """Enqueue a pass; the answer has shape (groups, 5 + d), each row as `_triton` lays it out."""
        import torch
        import triton
        import triton.language as tl

        from prgd.rows import _triton

        if by_class or loss == "logistic":  # they hold more in registers
            plan = replace(plan, steps=min(plan.steps, 2))
        groups, columns = 2 if by_class else 1, self.d + _triton.SCALARS.value
        programs = self._programs(plan)
        parts = torch.empty((programs, groups, columns), dtype=torch.float64, device=self.device)
        out = torch.empty((groups, columns), dtype=torch.float64, device=self.device)
        double = self._X.dtype == torch.float64
        wide = double or length * self.measure().max_norm > _WIDE
        weights = self._weights
        _triton.tally_kernel[(programs,)](
            self._loads, self._words, w if weights is None else weights, w, parts, self.n,
            **self._layout(plan), WEIGHTED=weights is not None, BY_CLASS=by_class, LOGISTIC=loss == "logistic",
            DOT=tl.float64 if wide else tl.float32, SUM=tl.float64 if double else tl.float32,
            STAGES=plan.stages, num_warps=plan.warps,
        )  # fmt: skip
        width = 8
        _triton.merge_kernel[(-(-self.d // width), groups)](
            parts, out, programs, D=self.d, ROWS=triton.next_power_of_2(programs),
            BLOCK=min(1024, triton.next_power_of_2(programs)), WIDTH=width, num_warps=8,
        )  # fmt: skip
        return out

    def _programs(self, plan: Plan) -> int:
        import torch

        processors = 4
        if self.device.type == "cuda":
            processors = torch.cuda.get_device_properties(self.device).multi_processor_count
        return min(processors * plan.programs, -(-self.n // (plan.steps * plan.slots)))

    def _layout(self, plan: Plan) -> dict[str, Any]:
        """Return what the kernels know when they are compiled."""
        loads = self._loads
        return {
            "STRIDE": loads.stride(0),
            "D": self.d,
            "STEPS": plan.steps,
            "SLOTS": plan.slots,
            "WIDTH": plan.width,
            "CHUNKS": -(-loads.shape[1] // plan.width),
            "PARTS": self.d // loads.shape[1],
            "LABELLED": self.classes is not None,
        }

    def _send(self, v: Array) -> Tensor:
        import torch

        return torch.from_numpy(np.array(v)).to(self.device)

    def _torch_tallies(self, w: Array, loss: Loss, by_class: bool) -> tuple[Tally, ...]:
        """Two products in float64, part by part."""
        import torch

        total: list[list[Tally]] = []
        v = self._send(w)
        for at, times, combine in self._products():
            m = times(v) * self._signs[at]
            groups = [self._signs[at] > 0, self._signs[at] < 0] if by_class else [None]
            found = []
            for group in groups:
                s = torch.ones_like(m) if self._weights is None else self._weights[at]
                s = s if group is None else torch.where(group, s, 0.0)
                found.append(
                    _tally(m, s, loss, lambda c, at=at, combine=combine: combine(c * self._signs[at]))
                )
            total.append(found)
        return tuple(merge_all(parts[g] for parts in total) for g in range(2 if by_class else 1))

    def _products(self) -> Iterator[tuple[slice, Any, Any]]:
        """Yield parts of the rows, and the products of their float64 form with a vector on either side."""
        if self._sparse is not None:
            yield slice(0, self.n), self._sparse.times, self._sparse.combine
            return
        for at in self._parts():
            part = self._X[at].double()
            yield at, part.__matmul__, part.T.__matmul__

    def _device_margins(self, w: Array) -> Tensor:
        """Return all margins in float64, on the device."""
        import torch

        v = self._send(w)
        out = torch.empty(self.n, dtype=torch.float64, device=self.device)
        if self._plan is None:
            for at, times, _ in self._products():
                out[at] = times(v) * self._signs[at]
            return out
        import triton.language as tl

        from prgd.rows import _triton

        plan = self._plan
        _triton.margins_kernel[(self._programs(plan),)](
            self._loads,
            self._words,
            v,
            out,
            self.n,
            **self._layout(plan),
            DOT=tl.float64,
            num_warps=plan.warps,
        )
        return out

    def margins(self, w: Array) -> Array:
        """Return ``<w, z_i>`` for every row."""
        with room(self._X):
            return np.asarray(self._device_margins(w).cpu().numpy())

    def worst(self, w: Array, most: int, by_class: bool, without: Indices) -> tuple[Worst, ...]:
        """Return the rows of smallest margin, of each class if asked; only those leave the device."""
        import torch

        with room(self._X):
            margins = self._device_margins(w)
            groups = [self._signs > 0, self._signs < 0] if by_class else [None]
            sides = [margins if g is None else torch.where(g, margins, torch.inf) for g in groups]
            smallest = [float(side.min()) for side in sides]
            left_out = torch.from_numpy(without).to(self.device)
            found = []
            for low, side in zip(smallest, sides, strict=True):
                side[left_out] = torch.inf
                values, indices = torch.topk(side, min(most, self.n), largest=False)
                kept = values < torch.inf
                found.append(Worst(low, values[kept].cpu().numpy(), indices[kept].cpu().numpy()))
        return tuple(found)

    def combine(self, p: Array) -> Array:
        """Return ``Z^T p`` in float64; rows with ``p_i = 0`` are not read."""
        with room(self._X):
            factors = self._send(p) * self._signs
            if self._sparse is not None:
                return np.asarray(self._sparse.combine(factors).cpu().numpy())
            used = factors.nonzero().ravel()
            total = np.zeros(self.d)
            step = max(1, _CHUNK_BYTES // (8 * self.d))
            for start in range(0, used.numel(), step):
                rows = used[start : start + step]
                total += (factors[rows] @ self._X[rows].double()).cpu().numpy()
        return total

    def take(self, indices: Indices) -> Any:
        """Return the rows z_i of these indices, ascending, as a float64 array or CSR matrix."""
        with room(self._X):
            signs = self.signs()[indices]
            if self._sparse is not None:
                return self._sparse.take(indices, signs)
            at = self._send(indices)
            return np.asarray(self._X[at].double().cpu().numpy()) * signs[:, None]


def _tally(m: Tensor, s: Tensor, loss: Loss, combine: Any) -> Tally:
    """Return the Tally of a part from its margins and weights."""
    import torch
    from torch.nn.functional import softplus

    used = s > 0.0
    margins = torch.where(used, m, torch.inf)
    margin = float(margins.min())
    if margin == np.inf:
        return Tally.identity(int(combine(torch.zeros_like(m)).numel()))
    log_slope = log_value = -margins
    if loss == "logistic":
        log_slope = -softplus(margins, threshold=40.0)
        # log log(1 + e^-m) is -m where the inner logarithm would underflow
        near = torch.clamp(margins, max=37.0)
        log_value = torch.where(margins > 37.0, -margins, softplus(-near, threshold=40.0).log())
    shift, slope_shift = float(log_value.max()), float(log_slope.max())
    p = s * torch.exp(log_slope - slope_shift)
    mass = s * torch.exp(log_value - shift)
    vector = np.asarray(combine(p).cpu().numpy())
    return Tally(shift, float(mass.sum()), slope_shift, float(p.sum()), vector, margin, float(s.sum()))
