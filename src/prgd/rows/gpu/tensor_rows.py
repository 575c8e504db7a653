"""Rows of a torch tensor, on any device: Triton kernels on CUDA, plain torch elsewhere.

The rows stay where they are. A pass sends w to the device and brings a Tally back; the solver's look at the
smallest margins brings those few rows back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.losses import Loss
from prgd.norms import norm
from prgd.rows.base import Measure, Signs, Worst, as_tally, check_shape, read_labels, read_weights
from prgd.rows.gpu.launch import Kernels, has_kernels
from prgd.rows.gpu.tensors import Csr, as_tensor, check_finite, room
from prgd.tally import Tally, merge_all

if TYPE_CHECKING:
    import torch

Tensor = Any  # torch.Tensor, which is not imported with prgd
Indices = npt.NDArray[np.int64]

_CHUNK_BYTES = 2**28  # of rows that torch widens to float64 at a time
# Products in float32 are off by about 2^-24 ||x|| ||w||, and a weight by as much, relative. Beyond this norm
# of w, in units of 1 / max ||x||, they are summed in float64, which costs a little speed.
_WIDE = 32.0


class TensorRows:
    """Rows of a torch tensor on any device.

    Parameters
    ----------
    X : tensor of shape (n, d), strided or sparse CSR, or an array
        float16, bfloat16, float32 and float64 are used as they lie. Sums are in float64 for float64 and off
        CUDA; the kernels sum smaller types in float32, and programs in float64.
    y : tensor or array of shape (n,), optional
        Labels of two classes, applied on the fly. ``None``: the rows are z_i = y_i x_i already. A tensor must
        be on the device of X.
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
        self._kernels: Kernels | None = None
        if self._sparse is None and has_kernels(X):
            self._kernels = Kernels(X, self._signs if self.classes is not None else None, self._weights)

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
        read, found = read_labels(y.cpu().numpy() if isinstance(y, torch.Tensor) else y, self.n)
        return torch.from_numpy(read).to(self.device), found

    def _read_weights(self, sample_weight: Any) -> Tensor | None:
        import torch

        if isinstance(sample_weight, torch.Tensor):
            sample_weight = sample_weight.cpu().numpy()
        self._host_weights = read_weights(sample_weight, self.n)
        return torch.from_numpy(self._host_weights).to(self.device) if self._host_weights.size else None

    @cached_property
    def _host_signs(self) -> Signs:
        return np.asarray(self._signs.cpu().numpy())

    def signs(self, indices: npt.NDArray[np.int64] | None = None) -> Signs:
        """Return the labels y_i as +1 or -1, of all rows or of some."""
        return self._host_signs if indices is None else self._host_signs[indices]

    def weights(self) -> Array:
        """Return the sample weights, empty where all are 1."""
        return self._host_weights

    def measure(self) -> Measure:
        """Check that all entries are finite, and measure the row norms."""
        return self._measured

    @cached_property
    def _measured(self) -> Measure:
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

    def tallies(self, w: Array, loss: Loss, by_class: bool = False) -> tuple[Tally, ...]:
        """Sum all rows at ``w``, in one reading."""
        with room(self._X):
            if self._kernels is None:
                return self._torch_tallies(w, loss, by_class)
            wide = norm(w) * self.measure().max_norm > _WIDE
            found = self._kernels.tallies(self._send(w), loss, by_class, wide=wide).cpu().numpy()
        counts = self.class_weights if by_class else (sum(self.class_weights),)
        return tuple(
            as_tally(np.append(row[:5], count), row[5:]) for row, count in zip(found, counts, strict=True)
        )

    def _send(self, v: npt.NDArray[Any]) -> Tensor:
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
                weights, scalars = _weigh(m, s, loss)
                found.append(as_tally(scalars, np.asarray(combine(weights * self._signs[at]).cpu().numpy())))
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
        if self._kernels is not None:
            return self._kernels.margins(v)
        out = torch.empty(self.n, dtype=torch.float64, device=self.device)
        for at, times, _ in self._products():
            out[at] = times(v) * self._signs[at]
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
            left_out = self._send(without)
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


def _weigh(m: Tensor, s: Tensor, loss: Loss) -> tuple[Tensor, Array]:
    """Return ``s_i (-l'(m_i))`` and the scalars of a Tally, all relative to the largest terms."""
    import torch

    margins = torch.where(s > 0.0, m, torch.inf)
    if not bool((margins < torch.inf).any()):
        return torch.zeros_like(m), np.array([-np.inf, 0.0, -np.inf, 0.0, np.inf, 0.0])
    log_slope, log_value = loss.log_slope(margins, torch), loss.log_value(margins, torch)
    shift, slope_shift = log_value.max(), log_slope.max()
    weights, mass = s * torch.exp(log_slope - slope_shift), s * torch.exp(log_value - shift)
    scalars = torch.stack([shift, mass.sum(), slope_shift, weights.sum(), margins.min(), s.sum()])
    return weights, np.asarray(scalars.cpu().numpy())
