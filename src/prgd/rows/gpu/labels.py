"""Labels and sample weights on a device."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from prgd.core.types import Array, Codes, Signs
from prgd.rows.gpu.tensors import Tensor
from prgd.rows.labels import NO_CODES, Labels, read_weights


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
            largest = float(sample_weight.max())
            exponent = int(np.frexp(largest)[1])
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

    @cached_property
    def signs(self) -> Signs:  # type: ignore[override]
        """The labels y_i as +1 or -1, on the host."""
        return np.asarray(self.on_device.cpu().numpy())

    @cached_property
    def codes_on_device(self) -> Tensor:
        """The place of each label among the classes, as int32 on the device of the rows."""
        return torch.from_numpy(np.array(self.codes)).to(self.on_device.device)

    @cached_property
    def smallest_weight(self) -> float:
        """The smallest positive sample weight, in the unit of the weights on the device."""
        mass = self.weight_on_device
        return 1.0 if mass is None else float(mass[mass > 0.0].min())

    @cached_property
    def class_weights(self) -> tuple[float, ...]:
        """Total weight of the rows labelled +1 and -1, or that of each class if the problem is joint."""
        if self.is_joint:
            return Labels(self.signs, self.sample_weight, self.classes, self.codes).class_weights
        mass = self.weight_on_device
        if mass is None:
            mass = torch.ones((), dtype=torch.float64, device=self.on_device.device)
        plus = torch.where(self.on_device > 0, mass, 0.0).sum()
        minus = torch.where(self.on_device < 0, mass, 0.0).sum()
        return float(plus), float(minus)
