"""Checks of what an optimizer is given: parameters, base optimizer, loss."""

from __future__ import annotations

import difflib
import inspect
from numbers import Real
from typing import Any

import torch
from torch import Tensor


def checked_parameters(parameters: list[Tensor]) -> list[Tensor]:
    """Return the parameters, of which each must have real numbers; a sentence names the first without."""
    for number, p in enumerate(parameters):
        if p.is_meta or not p.is_floating_point():
            where = "is on the meta device, without values" if p.is_meta else f"is of {p.dtype}"
            raise TypeError(
                f"The optimizers need real floating-point parameters; number {number}, of shape "
                f"{tuple(p.shape)}, {where}. Make the optimizer after the parameters have their values "
                "(model.to_empty, load_state_dict), and view complex numbers as real ones."
            )
    return parameters


def check_options(kind: type, options: dict[str, Any], base: type | None) -> None:
    """Raise for options that neither an optimizer of this kind nor a base that is to be made takes.

    A base that is there, of type ``base``, has its options already.
    """
    own = [n for n, p in inspect.signature(kind).parameters.items() if p.kind is p.KEYWORD_ONLY]
    sgd = [] if base is not None else [*inspect.signature(torch.optim.SGD).parameters]
    strange = [name for name in options if name not in sgd]
    known = {name.lower(): name for name in [*sgd, *own]}
    for name in strange:
        # The bound is high, so that lr beside a base is not taken for R.
        if near := difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75):
            raise TypeError(f"{name}: no option of {kind.__name__}. Did you mean {known[near[0]]}?")
    if strange and base is not None:
        raise TypeError(
            f"{', '.join(strange)} would be ignored: only the default base, torch.optim.SGD, is made with "
            f"options given here. Give {base.__name__} its own when you make it."
        )
    if strange:
        raise TypeError(f"{', '.join(strange)}: no option here, nor of the default base, torch.optim.SGD.")


def checked_base(base: Any) -> torch.optim.Optimizer:
    """Return the base optimizer, whose step must not need a closure: gradients are divided before it."""
    closure = inspect.signature(base.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise TypeError(
            f"{type(base).__name__} evaluates a closure several times in a step, and a base optimizer must "
            "step from the gradients that are there. Use torch.optim.SGD, AdamW or another of one gradient."
        )
    optimizer: torch.optim.Optimizer = base
    return optimizer


def checked_loss(loss: Any) -> Tensor | float:
    """Return the loss, which must be one number."""
    if isinstance(loss, Tensor) and loss.numel() == 1 and not loss.is_complex():
        return loss
    if isinstance(loss, Real):
        return float(loss)
    got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    raise TypeError(
        f"The loss must be one number, in a tensor or not; got {got}. Pass the mean over the batch alone."
    )


def missing_loss(use: str) -> ValueError:
    """Return the error for a step without a loss; ``use`` says who needs the loss, and for what."""
    return ValueError(
        f"{use}, and got none. Call step(loss=loss), or step(closure) with a closure that returns the loss, "
        "or criterion = optimizer.watch(criterion) once and then step(), or train on "
        "prgd.deep.log_cross_entropy with loss_scaled=False and a warm_up that is a number."
    )
