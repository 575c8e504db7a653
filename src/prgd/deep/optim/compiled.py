"""A step under ``torch.compile``: one operator of the graph, which takes the step as it is taken outside.

The schedules live on the host, the kernel of a fused SGD cannot be traced, and other bases decide on the host
whether a step is skipped. One operator keeps all of that out of the graph: there is nothing to break the
graph and nothing that changes from step to step, so a step is compiled once, and its numbers are the same.
"""

import inspect
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from prgd.deep.optim.tensors import is_sharded

_OPTIMIZERS: WeakValueDictionary[int, torch.optim.Optimizer] = WeakValueDictionary()
# Inductor must not record the operator as part of a CUDA graph; older versions of torch have no such tag.
_TAGS: dict[str, Any] = (
    {"tags": [torch.Tag.cudagraph_unsafe]} if hasattr(torch.Tag, "cudagraph_unsafe") else {}
)


def registered(optimizer: torch.optim.Optimizer) -> int:
    """Return a number by which the operator finds ``optimizer``, which must be kept alive elsewhere."""
    _OPTIMIZERS[id(optimizer)] = optimizer
    return id(optimizer)


def compiled_step(optimizer: Any, number: int, loss: Any) -> None:
    """Put a step into the graph that is being traced; parameters and gradients are changed in place."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if any(is_sharded(p) for p in parameters):  # Operators know nothing of sharded tensors.
        _step_outside(optimizer, loss)
        return
    with_gradient = [i for i, p in enumerate(parameters) if p.grad is not None]
    gradients = [parameters[i].grad for i in with_gradient]
    if loss is not None and not isinstance(loss, Tensor):
        loss = torch.full((), loss, dtype=torch.float64)
    _step_operator([p.detach() for p in parameters], gradients, with_gradient, loss, number)


def _step(optimizer: Any, loss: Any) -> None:
    optimizer._opt_called = True  # A scheduler looks at this flag to see whether a step came first.
    # The graph holds the hooks of the optimizer, so the step is taken without them.
    with torch.no_grad():
        inspect.unwrap(type(optimizer).step)(optimizer, loss=loss)


_step_outside = torch.compiler.disable(_step)  # type: ignore[no-untyped-call]


@torch.library.custom_op(
    "prgd::step",
    mutates_args=("values", "gradients"),
    schema=(
        "(Tensor(a!)[] values, Tensor(b!)[] gradients, int[] with_gradient, Tensor? loss, SymInt number) "
        "-> ()"
    ),
    **_TAGS,
)
def _step_operator(
    values: list[Tensor], gradients: list[Tensor], with_gradient: list[int], loss: Tensor | None, number: int
) -> None:
    """Take a step of the optimizer of this number from ``values``, along ``gradients``."""
    if values[0].is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "A compiled step cannot be recorded, since its schedules live on the host. Compile it without "
            'mode="reduce-overhead", or record a step that is not compiled, as docs/deep.md shows.'
        )
    optimizer = _OPTIMIZERS[number]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    # The graph may pass copies of the parameters, and gradients that they do not hold yet.
    moved = [(p, v) for p, v in zip(parameters, values, strict=True) if p.data_ptr() != v.data_ptr()]
    held = [p.grad for p in parameters]
    with torch.no_grad():
        for p, value in moved:
            p.copy_(value)
        try:
            for p in parameters:
                p.grad = None
            for i, gradient in zip(with_gradient, gradients, strict=True):
                parameters[i].grad = gradient
            _step(optimizer, loss)
        finally:
            for p, gradient in zip(parameters, held, strict=True):
                p.grad = gradient
        for p, value in moved:
            value.copy_(p)


@_step_operator.register_fake
def _(*arguments: Any) -> None:
    """Tell the tracer that the operator returns nothing."""
