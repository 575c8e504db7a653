"""Criteria that record their losses for an optimizer, so that a loop may call ``step()`` bare.

A loss is recorded when the backward pass goes through it, not when it is computed. Losses of validation
passes are then never recorded, and ``zero_grad`` can forget losses whose gradients it deletes (those of a
step that `GradScaler` skipped), although Lightning calls ``zero_grad`` between the forward and the backward
pass.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import partial, update_wrapper
from numbers import Real
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor

Criterion = TypeVar("Criterion", bound=Callable[..., Any])
Accumulate = Literal["mean", "sum"]


class RecordedLosses:
    """The losses whose gradients the parameters hold, as their sum on the device and their number."""

    accumulate: Accumulate = "mean"

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all losses."""
        self._sum: Tensor | None = None
        self._count = 0

    def add(self, loss: Tensor) -> None:
        """Record one more loss, without waiting for the device."""
        self._sum = loss if self._sum is None else self._sum + loss.to(self._sum.device)
        self._count += 1

    def take(self) -> Tensor | None:
        """Return the mean or sum of the losses, or None if there are none, and forget them."""
        total, count = self._sum, self._count
        self.clear()
        return total if total is None or count == 1 or self.accumulate == "sum" else total / count


def recording(criterion: Criterion, losses: RecordedLosses, accumulate: Accumulate) -> Criterion:
    """Return a criterion like ``criterion`` whose losses are added to ``losses`` by their backward pass.

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
    losses.accumulate = accumulate
    if not isinstance(criterion, torch.nn.Module):
        function: Any = update_wrapper(partial(_call, criterion, losses), criterion)
        return function  # type: ignore[no-any-return]
    module = copy.copy(criterion)
    module._forward_hooks = OrderedDict(criterion._forward_hooks)
    # The compiled call of the given module does not know the new hook.
    module._compiled_call_impl = None
    module.register_forward_hook(partial(_forward_hook, losses))
    return module


# Module-level functions in partial objects, so that a criterion can be copied and pickled.
def _call(criterion: Callable[..., Any], losses: RecordedLosses, *args: Any, **kwargs: Any) -> Any:
    loss = criterion(*args, **kwargs)
    _record_in_backward(loss, losses)
    return loss


def _forward_hook(losses: RecordedLosses, module: torch.nn.Module, args: Any, loss: Any) -> None:
    _record_in_backward(loss, losses)


# A compiled backward pass would not run the hook, so the hook is registered between two compiled graphs.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _record_in_backward(loss: Any, losses: RecordedLosses) -> None:
    """Let the backward pass through ``loss`` add its present value to ``losses``."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        raise TypeError(
            f"A watched criterion must return its loss, a tensor of one number; got {_kind(loss)}. Watch a "
            "function that returns the mean loss alone (reduction='mean'), or call step(loss=loss)."
        )
    if torch.is_grad_enabled() and loss.requires_grad:
        # A loop may change the loss in place, as in ``loss /= 4``, so the value is copied.
        value = loss.detach().clone().reshape(())
        loss.register_hook(lambda _: losses.add(value))  # type: ignore[no-untyped-call]


def checked_loss(loss: Any) -> Tensor | float:
    """Return the loss, which must be one number."""
    if isinstance(loss, Tensor) and loss.numel() == 1 and not loss.is_complex():
        return loss
    if isinstance(loss, Real):
        return float(loss)
    raise TypeError(
        f"The loss must be one number, in a tensor or not; got {_kind(loss)}. Pass the mean over the batch "
        "alone."
    )


def _kind(loss: Any) -> str:
    return f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__


def accumulated_batches(closure: Callable[[], Any] | None) -> int:
    """Return by how many batches Lightning's closure divides the loss of its last batch; 1 for others.

    Lightning passes ``partial(wrap, module, optimizer, closure)``, and only the module knows its trainer.
    """
    module = closure.args[0] if isinstance(closure, partial) and closure.args else None
    trainer = getattr(module, "_trainer", None)
    return int(getattr(trainer, "accumulate_grad_batches", 1))
