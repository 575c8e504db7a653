"""The step of a fused `torch.optim.SGD`, with less work on the host than its own ``step``."""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor


def is_plain_sgd(optimizer: torch.optim.Optimizer) -> TypeGuard[torch.optim.SGD]:
    """Tell whether `step_fused_sgd` does all that ``optimizer.step`` would do."""
    if type(optimizer) is not torch.optim.SGD or torch.compiler.is_compiling():
        return False
    return not (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


def step_fused_sgd(optimizer: torch.optim.SGD, found_inf: Tensor) -> None:
    """Take a step of a fused SGD that has its momentum, unless ``found_inf`` is 1 on the device.

    All parameters must be of one device and dtype. ``optimizer.step`` gives the same numbers, but takes three
    times as long on the host (hooks, checks, grouping), and on a fast device the host sets the pace.
    """
    for group in optimizer.param_groups:
        parameters = [p for p in group["params"] if p.grad is not None]
        if not parameters:
            continue
        momentum = group["momentum"]
        torch._fused_sgd_(
            parameters,
            [p.grad for p in parameters],
            [optimizer.state[p].get("momentum_buffer") for p in parameters] if momentum else [],
            weight_decay=group["weight_decay"],
            momentum=momentum,
            lr=group["lr"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            is_first_step=False,
            grad_scale=None,
            found_inf=found_inf,
        )
