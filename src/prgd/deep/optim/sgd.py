"""The default base optimizer: `torch.optim.SGD`, fused if possible, and stepped with little host work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import torch
from torch import Tensor

from prgd.deep.optim.tensors import is_sharded


def default_sgd(params: Iterable[Any], options: dict[str, Any]) -> torch.optim.SGD:
    """Return SGD, fused if torch can: a fused SGD skips a step without waiting for the device."""
    groups = listed(params)
    implementation = {} if "fused" in options or "foreach" in options else {"fused": has_fused(groups)}
    return torch.optim.SGD(groups, **{"lr": 1e-3, "momentum": 0.9, **implementation, **options})


def listed(params: Iterable[Any]) -> list[Any]:
    """Return parameters or groups as lists, which can be read more than once."""
    return [{**g, "params": _listed(g["params"])} if isinstance(g, dict) else g for g in params]


def has_fused(groups: list[Any]) -> bool:
    """Tell whether the fused optimizers of torch take all parameters of `listed` groups."""
    members = [m for g in groups for m in (g["params"] if isinstance(g, dict) else [g])]
    return all(_has_fused_sgd(m[1] if isinstance(m, tuple) else m) for m in members)


def _has_fused_sgd(p: Tensor) -> bool:
    if is_sharded(p):  # torch has no fused SGD for DTensor
        return False
    # On a CPU, the fused SGD of torch up to 2.13 leaves 16-bit parameters unchanged (pytorch issue 191763).
    is_wide = p.dtype in (torch.float32, torch.float64)
    return (p.device.type == "cuda" and p.is_floating_point()) or (p.device.type == "cpu" and is_wide)


def _listed(params: Any) -> list[Any]:
    return [params] if isinstance(params, Tensor) else list(params)


def is_plain_sgd(optimizer: torch.optim.Optimizer) -> TypeGuard[torch.optim.SGD]:
    """Tell whether `step_fused_sgd` does all that ``optimizer.step`` would do."""
    if type(optimizer) is not torch.optim.SGD:
        return False
    return not (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


def step_fused_sgd(optimizer: torch.optim.SGD, found_inf: Tensor) -> None:
    """Take a step of a fused SGD that has its momentum, unless ``found_inf`` is 1 on the device.

    All parameters must have the same device and dtype. ``optimizer.step`` gives the same numbers, but takes
    three times as long on the host (hooks, checks, grouping), and on a fast device the host sets the pace.
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
