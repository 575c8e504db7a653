"""Warnings for runs that go wrong quietly: skipped steps, a risen loss, a network that is not homogeneous."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from prgd.deep.homogeneity import NotHomogeneousWarning, check_homogeneous

LOOK_EVERY = 64  # steps from one look at the device to the next
MANY_SKIPPED = 0.1  # fraction of the steps between two looks; a warning follows if more are skipped
# A running loss of RISEN times that after the warm-up, at RISEN_LOOKS looks in a row, is worth a warning.
RISEN, RISEN_LOOKS = 2.0, 2


class TrainingWarning(UserWarning):
    """Steps of an optimizer do not do what they should: many are skipped, or the loss has risen for long.

    Lower the rate, then the growth of R; a last batch of few examples can be the cause as well.
    """


class Lookout:
    """Compares the number of skipped steps and the running loss with their values at earlier looks."""

    def __init__(self, skipped: int = 0) -> None:
        self._skipped, self._looks_risen = skipped, 0
        self._first: float | None = None  # the running loss at the first look after the warm-up
        self._said: set[str] = set()

    def look(self, steps: int, skipped: int, loss: float | None, options: str) -> None:
        """Warn, once each, if many of the last ``steps`` steps were skipped, or if the loss stays risen.

        ``options`` names what can be lowered, with its present value.
        """
        recent, self._skipped = skipped - self._skipped, skipped
        if recent > MANY_SKIPPED * steps:
            self._say(
                "skipped",
                f"{recent} of the last {steps} steps were skipped: their loss or gradient was not finite, or "
                f"their loss was 0. Lower {options}. If the loss is 0, training is done, or goes on with "
                "prgd.deep.log_cross_entropy and loss_scaled=False.",
            )
        if loss is None:
            return
        self._first = loss if self._first is None else self._first
        self._looks_risen = self._looks_risen + 1 if loss > RISEN * self._first else 0
        if self._looks_risen >= RISEN_LOOKS:
            self._say(
                "risen",
                f"For {RISEN_LOOKS * steps} steps the running loss has been more than {RISEN:g} times what "
                f"it was when rescaling began: {loss:.2g}, against {self._first:.2g}. Lower {options}. "
                "A last batch of few examples can raise it too, most of all with batch norm: leave it out by "
                "DataLoader(..., drop_last=True).",
            )

    def _say(self, kind: str, message: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            warnings.warn(message, TrainingWarning, stacklevel=2)


class FirstInputs:
    """Remembers the last inputs of a network for the first rescaling, which measures the network on them."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._inputs: Tensor | None = None
        self._handle: Any = model.register_forward_pre_hook(self._remember)

    def _remember(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        is_one_tensor = len(inputs) == 1 and isinstance(inputs[0], Tensor)
        self._inputs = inputs[0].detach()[:4] if is_one_tensor else None

    def check(self) -> None:
        """Warn if the network is not homogeneous, and forget it; inputs or outputs of other kinds pass."""
        self._handle.remove()
        if self._inputs is not None:
            try:
                check_homogeneous(self._model, self._inputs)
            except NotHomogeneousWarning:  # a user who turns warnings into errors
                raise
            except Exception:  # Training goes on without the check, if a network cannot run in float64.
                return


def warn_of_vectors(parameters: list[Tensor]) -> None:
    """Warn if several parameters are vectors: biases of inner layers, or gains of normalisation layers."""
    vectors = [p for p in parameters if p.ndim == 1]
    if len(vectors) > 1 and len(vectors) < len(parameters):
        warnings.warn(
            f"{len(vectors)} of the {len(parameters)} parameters that PRGD rescales are vectors, such as one "
            f"of {len(vectors[-1])} numbers: biases after the first layer or gains of normalisation layers. "
            "A network with them is seldom homogeneous, and rescaling changes what it predicts. "
            "prgd.deep.homogeneity_degree(model, x).broken_by names the modules; layers without them, "
            "bias=False, are the remedy. scope='matrix', or a group with 'homogeneous': False, leaves "
            "vectors out of the rescaling; with biases, predictions change still.",
            NotHomogeneousWarning,
            stacklevel=2,
        )


def rate_shown(group: dict[str, Any]) -> str:
    """Return the rate of a parameter group, and the one that a scheduler began with, as part of a sentence.

    Examples
    --------
    >>> rate_shown({"lr": 0.001, "initial_lr": 0.1})
    'lr, which is 0.001 and began at 0.1'
    """
    rate, first = group.get("lr"), group.get("initial_lr")
    if rate is None:  # A base of a user's own may have no rate of this name.
        return "the rate of the base"
    began = "" if first is None or float(first) == float(rate) else f" and began at {float(first):g}"
    return f"lr, which is {float(rate):g}{began}"


def described(optimizer: torch.optim.Optimizer) -> str:
    """Return the kind of an optimizer and the options of its first group that are not off.

    Examples
    --------
    >>> described(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9))
    'SGD(lr=0.1, momentum=0.9)'
    """
    group = optimizer.param_groups[0]
    shown = {
        name: float(value) if isinstance(value, Tensor) else value
        for name, value in group.items()
        if name in optimizer.defaults and value not in (None, False, 0, 0.0)
    }
    return f"{type(optimizer).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"
