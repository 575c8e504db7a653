"""Cautious steps: longer than the base's while the running loss falls, and never shorter."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

SEPARATED = 0.01  # running loss at which a warm-up "auto" ends: nearly all examples are classified correctly
_SMALLEST_LOSS = 1e-7  # Smaller losses count as this one, so that a loss of 0 can be divided by.
_ENDS_GROWTH = 1e-5  # Radii do not grow if the running loss is lower: float32 has no digits left to gain.
_GROW, _SHRINK = 2.0**0.25, 0.5  # factors of c after a look at which the running loss has fallen, or not


class Caution:
    r"""The factor of the gradient in a cautious step, and whether radii may grow.

    .. math:: \min\Bigl(c, \frac{L_0}{\max(L, \bar L)}\Bigr), \quad \text{at least } 1

    Here L is the loss of the step, :math:`\bar L` the running loss and :math:`L_0` the running loss at the
    end of the warm-up. At every look at the running loss, c grows by 2^(1/4) if the running loss has fallen
    since the last look, and else is halved. Radii may grow after a look at which it has fallen. A plain
    division by the loss keeps the noise of mini-batches at a constant relative size, and near the edge of
    stability the training loss rises far above the base's; with this rule no step is shorter than the base's,
    and one that is too long is taken back within a few looks.

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

    def look(self, loss: float, L_0: float) -> None:
        """Adapt c to the running loss."""
        has_fallen = loss < self._previous
        largest = max(1.0, L_0 / max(loss, _SMALLEST_LOSS))
        self._set(min(_GROW * self._c, largest) if has_fallen else max(1.0, _SHRINK * self._c), loss)
        self.loss_falls = has_fallen and _ENDS_GROWTH < loss < L_0

    def factor(self, loss: Tensor, running_loss: Tensor) -> Tensor:
        """Return the factor of the gradient, a 0-dim tensor; it is 1 until `begin`."""
        # fmax passes over NaN: one loss that is not finite spoils the running loss until the next look.
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
