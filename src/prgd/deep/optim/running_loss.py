"""The running mean of the losses of a run, kept on the device."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

_WEIGHT = 0.05  # weight of the newest loss: the running loss is a mean over about twenty steps


class RunningLoss:
    """The exponentially weighted mean of the losses; adding a loss takes one launch and no wait.

    Parameters
    ----------
    like : 0-dim Tensor that has the dtype and the device of the mean.

    Examples
    --------
    >>> import torch
    >>> mean = RunningLoss(torch.ones(()))
    >>> mean.add(torch.tensor(2.0)), mean.add(torch.tensor(4.0)), round(mean.read(), 3)
    (None, None, 2.1)
    """

    def __init__(self, like: Tensor) -> None:
        self.mean = like.clone()
        self._has_losses = False
        self.last: float | None = None  # the last finite mean that was read

    def add(self, loss: Tensor) -> None:
        """Take a loss into the mean; the first one begins it."""
        if self._has_losses:
            self.mean.lerp_(loss, _WEIGHT)
        else:
            self.mean.copy_(loss)
            self._has_losses = True

    def read(self) -> float | None:
        """Return the mean, which waits for the device; None if there was no finite loss yet.

        A loss that is not finite spoils the mean. The last finite mean that was read then takes its place.
        """
        value = float(self.mean)
        if not (self._has_losses and math.isfinite(value)):
            self._set(self.last, self.last)
        else:
            self.last = value
        return self.last

    def state(self) -> dict[str, float | None]:
        """Return the mean and the last one that was read, as entries of a state; nothing changes."""
        return {"running_loss": float(self.mean) if self._has_losses else None, "last_loss": self.last}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the entries that `state` returned; earlier versions had the first one alone."""
        mean = state["running_loss"]
        self._set(mean, state.get("last_loss", mean))

    def _set(self, value: float | None, last: float | None) -> None:
        self.last, self._has_losses = last, value is not None
        self.mean.fill_(1.0 if value is None else value)
