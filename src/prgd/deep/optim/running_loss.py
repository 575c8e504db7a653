"""The running mean of the losses, and what follows from it: cautious steps and warnings."""

import math
import warnings
from typing import Any

import torch
from torch import Tensor

_WEIGHT = 0.05  # weight of the newest loss: the running loss is a mean over about twenty steps
SEPARATED = 0.01  # running loss at which a warm-up "auto" ends: nearly all examples are classified correctly
_SMALLEST_LOSS = 1e-7  # Smaller losses count as this one, so that a loss of 0 can be divided by.
_ENDS_GROWTH = 1e-5  # Radii do not grow if the running loss is lower: float32 has no digits left to gain.
_GROW, _SHRINK = 2.0**0.25, 0.5  # factors of c if the running loss has fallen since the last reading, or not
ADAPT_EVERY = 16  # steps between two readings of the running loss, if warm-up or steps depend on it
WARN_EVERY = 64  # steps between two readings of the running loss and the number of skipped steps
_MANY_SKIPPED = 0.1  # fraction of skipped steps between two readings above which a warning follows
# A running loss of _RISEN times that after the warm-up, at _RISEN_READINGS readings, is worth a warning.
_RISEN, _RISEN_READINGS = 2.0, 2


class RunningLoss:
    """The exponentially weighted mean of the losses; adding a loss takes one launch and no wait.

    Parameters
    ----------
    like : 0-dim Tensor that has the dtype and the device of the mean.

    Examples
    --------
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
        if self._has_losses and math.isfinite(value):
            self.last = value
        else:
            self._set(self.last)
        return self.last

    def state(self) -> dict[str, float | None]:
        """Return the mean and the last one that was read, as entries of a state; nothing changes."""
        return {"running_loss": float(self.mean) if self._has_losses else None, "last_loss": self.last}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the entries that `state` returned."""
        self.last = state["last_loss"]
        self._set(state["running_loss"])

    def _set(self, value: float | None) -> None:
        self._has_losses = value is not None
        self.mean.fill_(1.0 if value is None else value)


class Caution:
    r"""The factor of the gradient in a cautious step, and whether radii may grow.

    .. math:: \min\Bigl(c, \frac{L_0}{\max(L, \bar L)}\Bigr), \quad \text{at least } 1

    Here L is the loss of the step, :math:`\bar L` the running loss and :math:`L_0` the running loss at the
    end of the warm-up. At every reading of the running loss, c grows by 2^(1/4) if the running loss has
    fallen since the last one, and else is halved. Radii may grow after a reading at which it has fallen. A
    plain division by the loss keeps the noise of mini-batches at a constant relative size, and near the edge
    of stability the training loss rises far above the base's; with this rule no step is shorter than the
    base's, and one that is too long is taken back within a few readings.

    Parameters
    ----------
    one : 0-dim Tensor with the value 1, of the dtype and device of the losses.
    L_0 : 0-dim Tensor that the optimizer fills at the end of the warm-up.
    """

    def __init__(self, one: Tensor, L_0: Tensor) -> None:
        self._one, self._L_0, self._cap = one, L_0, one.clone()
        self._smallest = one * _SMALLEST_LOSS
        self._c, self._previous, self.loss_falls = 1.0, math.inf, False

    def begin(self, L_0: float) -> None:
        """Begin at the end of the warm-up, with the running loss L_0."""
        self._set(1.0, L_0)

    def adapt(self, loss: float, L_0: float) -> None:
        """Adapt c to the running loss."""
        has_fallen = loss < self._previous
        largest = max(1.0, L_0 / max(loss, _SMALLEST_LOSS))
        self._set(min(_GROW * self._c, largest) if has_fallen else max(1.0, _SHRINK * self._c), loss)
        self.loss_falls = has_fallen and _ENDS_GROWTH < loss < L_0

    def factor(self, loss: Tensor, running_loss: Tensor) -> Tensor:
        """Return the factor of the gradient, a 0-dim tensor; it is 1 until `begin`."""
        # fmax passes over NaN: one loss that is not finite spoils the running loss until the next reading.
        largest = torch.maximum(torch.fmax(loss, running_loss), self._smallest)
        return torch.clamp(self._L_0 / largest, self._one, self._cap)

    def _set(self, c: float, previous: float) -> None:
        self._c, self._previous = c, previous
        self._cap.fill_(c)

    def state(self) -> dict[str, Any]:
        """Return the state in plain numbers."""
        return {"c": self._c, "previous": self._previous, "loss_falls": self.loss_falls}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the numbers that `state` returned."""
        self._set(state["c"], state["previous"])
        self.loss_falls = state["loss_falls"]


class TrainingWarning(UserWarning):
    """Steps of an optimizer do not do what they should: many are skipped, or the loss has risen for long.

    Lower the rate, then the growth of R; a last batch of few examples can be the cause as well.
    """


class Monitor:
    """Compares the number of skipped steps and the running loss with those of earlier readings."""

    def __init__(self, skipped: int = 0) -> None:
        self._skipped, self._times_risen = skipped, 0
        self._first: float | None = None  # the running loss at the first reading after the warm-up
        self._warned: set[str] = set()

    def check(self, skipped: int, loss: float | None, options: str) -> None:
        """Warn, once each, if many steps since the last check were skipped, or if the loss stays risen.

        ``options`` names what can be lowered, with its present value.
        """
        recent, self._skipped = skipped - self._skipped, skipped
        if recent > _MANY_SKIPPED * WARN_EVERY:
            self._warn(
                "skipped",
                f"{recent} of the last {WARN_EVERY} steps were skipped: their loss or gradient was not "
                f"finite, or their loss was 0. Lower {options}. If the loss is 0, training is done, or goes "
                "on with prgd.deep.log_cross_entropy and loss_scaled=False.",
            )
        if loss is None:
            return
        self._first = loss if self._first is None else self._first
        self._times_risen = self._times_risen + 1 if loss > _RISEN * self._first else 0
        if self._times_risen >= _RISEN_READINGS:
            self._warn(
                "risen",
                f"For {_RISEN_READINGS * WARN_EVERY} steps the running loss has been more than {_RISEN:g} "
                f"times what it was when rescaling began: {loss:.2g}, against {self._first:.2g}. Lower "
                f"{options}. A last batch of few examples can raise it too, most of all with batch norm: "
                "leave it out by DataLoader(..., drop_last=True).",
            )

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(message, TrainingWarning, stacklevel=2)
