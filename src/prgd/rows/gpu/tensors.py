"""Tensors as rows: the checks of X, labels on a device, CSR tensors, and the message for a full device."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from prgd.core.threads import lazy
from prgd.core.types import Array, Codes, Signs
from prgd.rows.exact import MAX_INTEGER, as_float, check_exact
from prgd.rows.labels import NO_CODES, Labels, read_weights

Tensor = Any  # torch.Tensor; types are checked on machines without torch too


def as_tensor(X: Any, device: Any) -> Tensor:
    """Return X as a floating tensor on a device, without a copy if X is one already."""
    if device is not None:
        device = torch.device(device)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                f"device={str(device)!r} was asked for, but torch finds no CUDA device. "
                "Install a CUDA build of torch and its driver, or leave device out."
            )
    if isinstance(X, torch.Tensor):
        X = X.detach()
    else:
        is_half = isinstance(X, np.ndarray) and X.dtype == np.float16
        # torch warns of read-only arrays, so these are copied.
        X = torch.from_numpy(np.require(X if is_half else as_float(X), requirements=["C", "W"]))
    if X.layout not in (torch.strided, torch.sparse_csr):
        raise TypeError(f"X must be a strided or sparse CSR tensor; got {X.layout}. Use X.to_sparse_csr().")
    if X.is_complex():
        raise TypeError(f"X must hold real numbers; got dtype {X.dtype}. Encode or convert it first.")
    with room(X, device):
        X = X.to(device) if device is not None else X
        if X.is_floating_point() and X.element_size() > 1:
            return X
        _check_integers(X.values() if X.layout == torch.sparse_csr else X)
        return X.double()


def _check_integers(X: Tensor) -> None:
    """Raise ``ValueError`` if float64 cannot hold a 64-bit integer of X exactly."""
    if X.element_size() < 8 or not X.numel():
        return
    if X.dtype == torch.int64 and int(X.max()) <= MAX_INTEGER and int(X.min()) >= -MAX_INTEGER:
        return
    check_exact(X.cpu().numpy())


@contextmanager
def room(X: Tensor, device: Any = None) -> Iterator[None]:
    """Say how many rows fit if the device runs out of memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        n, d = X.shape
        total = torch.cuda.mem_get_info(device or X.device)[1]
        row = d * X.element_size() + 48  # bytes for margins, labels and the search for the smallest
        raise MemoryError(
            f"The device has no room for a pass over {n} rows of {d} {X.dtype}: its {total:.3g} bytes hold "
            f"about {int(0.9 * total / row)} such rows if nothing else is there. Free other tensors, store X "
            "in bfloat16, or keep the rows on the host in chunks (prgd.rows.ChunkedRows.from_blocks, "
            "prgd.open_rows)."
        ) from error


class Csr:
    """A sparse CSR tensor in float64, and its transpose, both for products with a vector."""

    def __init__(self, X: Tensor) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR|Sparse CSC", category=UserWarning)
            parts = X.crow_indices(), X.col_indices(), X.values().double()
            self._X = torch.sparse_csr_tensor(*parts, size=X.shape, check_invariants=True)
            turned = self._X.to_sparse_csc()
            parts = turned.ccol_indices(), turned.row_indices(), turned.values()
            self._transpose = torch.sparse_csr_tensor(*parts, size=X.shape[::-1], check_invariants=False)

    def times(self, v: Tensor) -> Tensor:
        """Return ``X v``."""
        return self._X @ v

    def combine(self, c: Tensor) -> Tensor:
        """Return ``X^T c``."""
        return self._transpose @ c

    @lazy
    def host(self) -> Any:
        """The rows as a SciPy CSR array."""
        from scipy.sparse import csr_array

        (n, d), parts = self._X.shape, (self._X.values(), self._X.col_indices(), self._X.crow_indices())
        return csr_array(tuple(part.cpu().numpy() for part in parts), shape=(n, d))


class DeviceLabels(Labels):
    """Labels as a tensor of +1 and -1 on the device of the rows; they come to the host only if asked for."""

    def __init__(
        self,
        on_device: Tensor,
        sample_weight: Array,
        classes: npt.NDArray[Any] | None = None,
        codes: Codes = NO_CODES,
    ) -> None:
        self.on_device, self.classes, self.sample_weight = on_device, classes, sample_weight
        self.codes = codes
        device = on_device.device
        self.weight_on_device = None
        if sample_weight.size:
            # The kernels may take weights in float32, where a positive weight must stay positive.
            exponent = int(np.frexp(float(sample_weight.max()))[1])
            scaled = np.ldexp(sample_weight, -exponent) if abs(exponent) > 60 else sample_weight
            least = np.ldexp(1.0, -100 if abs(exponent) > 60 else exponent - 100)
            scaled = np.where(sample_weight > 0.0, np.maximum(scaled, least), 0.0)
            self.weight_on_device = torch.from_numpy(scaled).to(device)

    @classmethod
    def read(  # type: ignore[override]
        cls, y: Any, sample_weight: Any, n: int, *, device: torch.device
    ) -> DeviceLabels:
        """Check labels and weights of n rows; labels that are a tensor must be on the device of the rows."""
        if isinstance(sample_weight, torch.Tensor):
            sample_weight = sample_weight.cpu().numpy()
        if isinstance(y, torch.Tensor):
            if y.device != device:
                raise ValueError(
                    f"y must be on the device of X, {device}; it is on {y.device}. Use y.to({str(device)!r})."
                )
            if device.type != "cpu" and y.shape == (n,):
                classes = torch.unique(y)
                if classes.numel() == 2 and bool(torch.isfinite(classes).all()):
                    signs = torch.where(y == classes[1], 1, -1).to(torch.int8)
                    return cls(signs, read_weights(sample_weight, n), classes.cpu().numpy())
            y = y.cpu().numpy()
        return cls.of(Labels.read(y, sample_weight, n), device)

    @classmethod
    def of(cls, labels: Labels, device: torch.device) -> DeviceLabels:
        """Return labels on the device, themselves if they are there."""
        if isinstance(labels, DeviceLabels) and labels.on_device.device == device:
            return labels
        signs = torch.from_numpy(np.array(labels.signs)).to(device)
        found = cls(signs, np.array(labels.sample_weight), labels.classes, labels.codes)
        found.__dict__["signs"] = labels.signs  # they are on the host already
        return found

    @lazy
    def host(self) -> Labels:
        """The same labels without tensors, with the weights that passes use."""
        mass = self.weight_on_device
        weight = self.sample_weight if mass is None else mass.cpu().numpy()
        return Labels(self.signs, weight, self.classes, self.codes)

    @lazy
    def signs(self) -> Signs:  # type: ignore[override]
        """The labels y_i as +1 or -1, on the host."""
        return np.asarray(self.on_device.cpu().numpy())

    @lazy
    def codes_on_device(self) -> Tensor:
        """The place of each label among the classes, as int64 on the device of the rows."""
        return torch.from_numpy(self.codes.astype(np.int64)).to(self.on_device.device)

    def of_block(self, at: slice) -> tuple[Any, Any]:
        """Return the codes and the sample weights of consecutive rows as tensors; None for weights 1."""
        return self.codes_on_device[at], None if self.weight_on_device is None else self.weight_on_device[at]

    @lazy
    def smallest_weight(self) -> float:
        """The smallest positive sample weight, in the unit of the weights on the device."""
        mass = self.weight_on_device
        return 1.0 if mass is None else float(mass[mass > 0.0].min())

    @lazy
    def class_weights(self) -> tuple[float, ...]:
        """Total weight of the rows labelled +1 and -1, or that of each class if the problem is joint."""
        if self.is_joint:
            return self.host.class_weights
        mass = self.weight_on_device
        if mass is None:
            mass = torch.ones((), dtype=torch.float64, device=self.on_device.device)
        plus = torch.where(self.on_device > 0, mass, 0.0).sum()
        return float(plus), float(torch.where(self.on_device < 0, mass, 0.0).sum())
