"""Rows of a torch tensor, on any device: Triton kernels on CUDA, plain torch elsewhere.

The rows stay where they are. A pass sends w to the device and brings a Tally back; a search for the smallest
margins brings those few rows back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from prgd.core.threads import lazy
from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.rows.base import Block, LeafRows, M, Query
from prgd.rows.blocks import Measure, Measurement
from prgd.rows.exact import check_shape
from prgd.rows.gpu.launch import Kernels, has_kernels
from prgd.rows.gpu.tensors import Csr, DeviceLabels, Tensor, as_tensor, room
from prgd.rows.joint_queries import JointTallyAt
from prgd.rows.labels import Labels
from prgd.rows.queries import Combine, MarginsAt, Smallest, SmallestAt, TallyAt
from prgd.rows.tally import MARGIN, Tally

_CHUNK_BYTES = 2**28  # bytes of those rows that torch holds in float64 at a time
# Products in float32 are off by about 2^-24 ||x|| ||w||, and a weight by as much, relative. If the norm of w
# exceeds this, in units of 1 / max ||x||, products are summed in float64, which costs a little speed.
_WIDE = 32.0


class TensorRows(LeafRows):
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
        Where to put X, e.g. ``"cuda"``. By default X stays where it is.

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
    >>> rows.times(np.array([3.0, 1.0]))
    array([3., 2.])
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None, *, device: Any = None) -> None:
        X = as_tensor(X, device)
        self.n, self.d = check_shape(X.shape)
        self.device: torch.device = X.device
        with room(X):
            self._sparse = Csr(X) if X.layout == torch.sparse_csr else None
            self._X = X
            self.labels: DeviceLabels = DeviceLabels.read(y, sample_weight, self.n, device=self.device)
        self.is_sparse = self._sparse is not None
        self.is_on_device = X.is_cuda and not self.is_sparse
        self._is_short = self.is_on_device and X.dtype != torch.float64
        self._step = max(1, _CHUNK_BYTES // (8 * self.d))  # rows that torch holds in float64 at a time
        # A problem asks with the same labels all the time, so what was made for the last ones is kept.
        self._kernels_of = lru_cache(maxsize=1)(self._make_kernels)
        self._on_device = lru_cache(maxsize=1)(lambda labels: DeviceLabels.of(labels, self.device))

    def with_labels(self, labels: Labels) -> TensorRows:
        """Return an engine of the same rows, which stay where they are, with other labels."""
        return super().with_labels(DeviceLabels.of(labels, self.device))

    @property
    def unit_roundoff(self) -> float:
        """2^-24 where the kernels sum in float32, which they do for smaller types than float64."""
        kernels = self._kernels_of(self.labels)
        return super().unit_roundoff if kernels is None or kernels.is_double else 2.0**-24

    @property
    def joint_unit_roundoff(self) -> float:
        """That of float64, or infinite: how matrix products of float32 are summed is not known."""
        return math.inf if self._is_short else super().unit_roundoff

    @property
    def sum_roundings(self) -> int:
        """Largest number of roundings on the way of a row into a Tally: few where programs share the rows."""
        kernels = None if self.labels.is_joint else self._kernels_of(self.labels)
        return super().sum_roundings if kernels is None else kernels.sum_roundings

    def _make_kernels(self, labels: DeviceLabels) -> Kernels | None:
        """Return the kernels for these labels, None if torch must do without kernels."""
        if self._sparse is not None or not has_kernels(self._X):
            return None
        signs = None if labels.classes is None else labels.on_device
        return Kernels(self._X, signs, labels.weight_on_device)

    @property
    def _where(self) -> str:
        return f" {self._X.dtype} on {self.device}"

    def ask(self, query: Query[M], labels: Labels | None = None) -> M:
        """Answer a query by one pass on the device."""
        with room(self._X):
            return super().ask(query, None if labels is None else self._on_device(labels))

    def _measure(self, query: Measure, labels: DeviceLabels) -> Measurement:
        return self._measured

    @lazy
    def _measured(self) -> Measurement:
        return Measure().answer(self, self.labels)

    def blocks(
        self, max_rows: int | None = None, dtype: Any = torch.float64
    ) -> Iterator[tuple[slice, Block]]:
        """Yield the rows part by part as tensors; CSR rows on the host."""
        if self._sparse is not None:
            yield from super().blocks(self.n if max_rows is None else max_rows)
            return
        step = self._step if max_rows is None else max(max_rows, self._step)  # a device wants large parts
        for start in range(0, self.n, step):
            at = slice(start, min(start + step, self.n))
            yield at, self._X[at].to(dtype)

    def _tally(self, query: TallyAt, labels: DeviceLabels) -> Tally:
        kernels = self._kernels_of(labels)
        if kernels is None:
            return query.answer(self, labels.host)
        directions = [query.w] if query.second is None else [query.w, query.second]
        found = kernels.tally(
            torch.from_numpy(np.stack(directions)),
            query.loss,
            query.by_class,
            second=query.second is not None,
            wide=self._is_wide(query.w),
        ).cpu()
        counts = labels.class_weights if query.by_class else (sum(labels.class_weights),)
        return _as_tally(found.numpy(), counts, query.second is not None)

    def _joint_tally(self, query: JointTallyAt, labels: DeviceLabels) -> Tally:
        """Multiply large blocks by all classes, in float32 if that is precise enough: it is much faster."""
        if self.is_sparse:
            return query.answer(self, labels.host)
        is_fast = self._is_short and torch.get_float32_matmul_precision() == "highest"
        dtype = torch.float32 if is_fast and not self._is_wide(query.w) else torch.float64
        columns = 4 * len(query.w) if dtype == self._X.dtype else self.d  # numbers made for each row
        return query.of_blocks(self.blocks(_CHUNK_BYTES // (8 * columns), dtype), labels)

    def _is_wide(self, w: Array) -> bool:
        """Tell whether products with w need float64; w must lie in the range of float32, too."""
        length = norm(w)
        return length * self._measured.max_norm > _WIDE or not (length == 0.0 or 1e-30 < length < 1e30)

    def _send(self, v: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(v)).to(self.device)

    def _device_margins(self, w: Array, labels: DeviceLabels) -> Tensor:
        """Return all margins in float64, on the device."""
        v, kernels = self._send(w), self._kernels_of(labels)
        return self._products(v) * labels.on_device if kernels is None else kernels.margins(v)

    def _products(self, v: Tensor) -> Tensor:
        if self._sparse is not None:
            return self._sparse.times(v)
        return torch.cat([part @ v for _, part in self.blocks()])

    def _margins(self, query: MarginsAt, labels: DeviceLabels) -> Array:
        return np.asarray(self._device_margins(query.w, labels).cpu().numpy())

    def _smallest(self, query: SmallestAt, labels: DeviceLabels) -> tuple[Smallest, ...]:
        """Only the rows that are asked for leave the device."""
        if query.near is not None:
            return query.answer(self, labels)
        margins, signs = self._device_margins(query.w, labels), labels.on_device
        if labels.weight_on_device is not None:
            margins = torch.where(labels.weight_on_device > 0.0, margins, torch.inf)
        groups = [signs > 0, signs < 0] if query.by_class else [None]
        sides = [margins if g is None else torch.where(g, margins, torch.inf) for g in groups]
        smallest = [float(side.min()) for side in sides]
        left_out, found = self._send(query.without), []
        for low, side in zip(smallest, sides, strict=True):
            side[left_out] = torch.inf
            values, indices = torch.topk(side, min(query.max_rows, self.n), largest=False)
            kept = values < torch.inf
            found.append(Smallest(low, values[kept].cpu().numpy(), indices[kept].cpu().numpy() + query.first))
        return tuple(found)

    def _combine(self, query: Combine, labels: DeviceLabels) -> Array:
        c = np.zeros(self.n)
        c[query.indices] = query.values
        return self._combined(self._send(c) * labels.on_device)

    def times(self, w: Array) -> Array:
        """Return ``<w, x_i>`` for every row."""
        return np.asarray(self._products(self._send(w)).cpu().numpy())

    def combine(self, c: Array) -> Array:
        """Return ``X^T c`` in float64."""
        return self._combined(self._send(c))

    def _combined(self, factors: Tensor) -> Array:
        """Return ``X^T c`` for factors on the device; rows with ``c_i = 0`` are not read."""
        if self._sparse is not None:
            return np.asarray(self._sparse.combine(factors).cpu().numpy())
        total = np.zeros(self.d)
        for rows in factors.nonzero().ravel().split(self._step):
            total += (factors[rows] @ self._X[rows].double()).cpu().numpy()
        return total

    def take(self, indices: Indices) -> Block:
        """Return the rows x_i of these ascending indices."""
        with room(self._X):
            if self._sparse is not None:
                return self._sparse.host[indices]
            return np.asarray(self._X[self._send(indices)].double().cpu().numpy())

    def gather(self, indices: Indices) -> Block:
        """Return the rows x_i of these ascending indices, as a float64 tensor if they lie on a GPU."""
        if not self.is_on_device:
            return self.take(indices)
        with room(self._X):
            return self._X[self._send(indices)].double()

    own_answers: ClassVar = {
        TallyAt: _tally,
        JointTallyAt: _joint_tally,
        MarginsAt: _margins,
        SmallestAt: _smallest,
        Combine: _combine,
        Measure: _measure,
    }


def _as_tally(found: Array, counts: npt.ArrayLike, second: bool = False) -> Tally:
    """Return the Tally of what kernels wrote as `_triton` says, and of the sums of sample weights."""
    scalars = [found[:, : MARGIN + 1], counts, found[:, MARGIN + 1]]
    return Tally(np.column_stack(scalars if second else scalars[:2]), found[:, MARGIN + 2 :])
