"""Criteria that note their losses for an optimizer, so that a loop that calls ``step()`` bare needs one line.

A loss is noted when the backward pass goes through it, not when it is computed. Losses of validation passes
are then never noted, and ``zero_grad`` can forget notes whose gradients it deletes (those of a step that
`GradScaler` skipped), although Lightning calls ``zero_grad`` between the forward and the backward pass.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor

Criterion = TypeVar("Criterion", bound=Callable[..., Any])
Accumulate = Literal["mean", "sum"]


class LossNotes:
    """The losses whose gradients the parameters hold, as their sum on the device and their number."""

    accumulate: Accumulate = "mean"

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all losses."""
        self._sum: Tensor | None = None
        self._count = 0

    def add(self, loss: Tensor) -> None:
        """Note one more loss, without waiting for the device."""
        self._sum = loss if self._sum is None else self._sum + loss.to(self._sum.device)
        self._count += 1

    def take(self) -> Tensor | None:
        """Return the mean or sum of the losses noted, or None if there are none, and forget them."""
        total, count = self._sum, self._count
        self.clear()
        if total is None or count == 1 or self.accumulate == "sum":
            return total
        return total / count


def watch(criterion: Criterion, notes: LossNotes, accumulate: Accumulate) -> Criterion:
    """Return a criterion like ``criterion`` whose losses are added to ``notes`` by their backward pass.

    A module is copied (the copy shares parameters, buffers and submodules) and gets a forward hook, so that
    its class, its attributes and the keys of its ``state_dict`` stay the same.
    """
    if accumulate not in get_args(Accumulate):
        raise ValueError(f"accumulate must be 'mean' or 'sum'; got {accumulate!r}.")
    if not callable(criterion):
        raise TypeError(
            "watch needs a criterion, a module or a function that returns the loss; got "
            f"{type(criterion).__name__}. Pass the criterion itself, or call step(loss=loss) for one loss."
        )
    notes.accumulate = accumulate
    if not isinstance(criterion, torch.nn.Module):
        return WatchedFunction(criterion, notes)  # type: ignore[return-value]
    watched = copy.copy(criterion)
    watched._forward_hooks = OrderedDict(criterion._forward_hooks)
    # The compiled call of the given module does not know the new hook.
    watched._compiled_call_impl = None
    watched.register_forward_hook(_Hook(notes))
    return watched


class WatchedFunction:
    """A function that returns a loss, which is noted for the optimizer; made by ``optimizer.watch``."""

    def __init__(self, function: Callable[..., Any], notes: LossNotes) -> None:
        self._function, self._notes = function, notes
        update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loss, which the backward pass will note."""
        loss = self._function(*args, **kwargs)
        _note_in_backward(loss, self._notes)
        return loss


class _Hook:
    """A forward hook of a module that notes what the module returns; an object, so that it can be copied."""

    def __init__(self, notes: LossNotes) -> None:
        self._notes = notes

    def __call__(self, module: torch.nn.Module, args: Any, loss: Any) -> None:
        _note_in_backward(loss, self._notes)


# A compiled backward pass would not run the hook, so the hook is registered between two compiled graphs.
@torch._disable_dynamo  # type: ignore[attr-defined]
def _note_in_backward(loss: Any, notes: LossNotes) -> None:
    """Let the backward pass through ``loss`` add its present value to ``notes``."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(
            f"A watched criterion must return its loss, a tensor of one number; got {got}. Watch a function "
            "that returns the mean loss alone (reduction='mean'), or call step(loss=loss)."
        )
    if torch.is_grad_enabled() and loss.requires_grad:
        # A loop may change the loss in place, as in ``loss /= 4``, so the value is copied.
        value = loss.detach().clone().reshape(())
        loss.register_hook(lambda _: notes.add(value))  # type: ignore[no-untyped-call]


def accumulated_batches(closure: Callable[[], Any] | None) -> int:
    """Return by how many batches Lightning's closure divides the loss of its last batch; 1 for others.

    Lightning passes ``partial(wrap, module, optimizer, closure)``, and only the module knows its trainer.
    """
    module = closure.args[0] if isinstance(closure, partial) and closure.args else None
    trainer = getattr(module, "_trainer", None)
    return int(getattr(trainer, "accumulate_grad_batches", 1))
