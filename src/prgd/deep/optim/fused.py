"""Fused optimizers of torch as bases: SGD, the default, and AdamW, stepped with little work of the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from prgd.deep.optim.tensors import is_sharded


def default_sgd(params: Iterable[Any], options: dict[str, Any]) -> torch.optim.SGD:
    """Return SGD, fused if torch can: a fused SGD skips a step without waiting for the device."""
    if isinstance(params, Tensor):
        raise TypeError("Expected a list of parameters, groups or a network; got a tensor. Pass [tensor].")
    groups = listed(params)
    implementation = {} if "fused" in options or "foreach" in options else {"fused": has_fused(groups)}
    return torch.optim.SGD(groups, **{"lr": 1e-3, "momentum": 0.9, **implementation, **options})


def listed(params: Iterable[Any]) -> list[Any]:
    """Return parameters or groups as lists, which can be read more than once."""
    if not isinstance(params, Iterable):
        raise TypeError(
            "Expected parameters, such as model.parameters(), or parameter groups; got "
            f"{type(params).__name__}."
        )
    return [{**g, "params": _listed(g["params"])} if isinstance(g, dict) else g for g in params]


def has_fused(groups: list[Any]) -> bool:
    """Tell whether the fused optimizers of torch take all parameters of `listed` groups."""
    members = [m for g in groups for m in (g["params"] if isinstance(g, dict) else [g])]
    return all(_has_fused_kernel(m[1] if isinstance(m, tuple) else m) for m in members)


def _has_fused_kernel(p: Tensor) -> bool:
    if is_sharded(p):  # torch has no fused SGD for DTensor
        return False
    # On a CPU, the fused SGD of torch up to 2.13 leaves 16-bit parameters unchanged (pytorch issue 191763).
    is_wide = p.dtype in (torch.float32, torch.float64)
    return (p.device.type == "cuda" and p.is_floating_point()) or (p.device.type == "cpu" and is_wide)


def _listed(params: Any) -> list[Any]:
    return [params] if isinstance(params, Tensor) else list(params)


def is_plain_fused(optimizer: torch.optim.Optimizer) -> bool:
    """Tell whether `step_fused` does all that ``optimizer.step`` would do, once it has stepped."""
    if type(optimizer) not in _STEPS or torch.compiler.is_compiling():
        return False
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        return False
    return all(group["fused"] and not group.get("amsgrad") for group in optimizer.param_groups)


def begin_late(optimizer: torch.optim.Optimizer, *, has_stepped: bool) -> None:
    """Begin the momentum of parameters of a fused SGD that get their first gradient after others did.

    torch fails if some momenta of a group are missing, and leaves them undefined if it skips their first
    step. They begin at 0, so a dampening acts on their first gradient too.
    """
    if type(optimizer) is not torch.optim.SGD:
        return
    for group in optimizer.param_groups:
        members = [p for p in group["params"] if p.grad is not None] if group["fused"] else []
        states = [optimizer.state[p] for p in members]
        if has_stepped or any(states):
            _begin(group, members, states)


def _begin(group: dict[str, Any], parameters: list[Tensor], states: list[Any]) -> None:
    """Give empty states what a fused step of AdamW, or of SGD with momentum, reads."""
    for p, state in zip(parameters, states, strict=True):
        if not state and "betas" in group:
            state["step"] = torch.zeros((), dtype=torch.float32, device=p.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        elif not state and group["momentum"]:
            state["momentum_buffer"] = torch.zeros_like(p)


def dense_entries(gradients: list[Tensor], optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return the numbers that gradients store, some of which are sparse; fused optimizers take none."""
    if any(group.get("fused") for group in optimizer.param_groups):
        raise TypeError(
            f"A fused {type(optimizer).__name__} takes no sparse gradients, and some are. Make it with "
            "fused=False, or the embedding with sparse=False."
        )
    return [gradient._values() if gradient.is_sparse else gradient for gradient in gradients]


def step_fused(
    optimizer: torch.optim.Optimizer, found_inf: Tensor, stand_ins: dict[Tensor, Tensor] | None = None
) -> None:
    """Take a step of a fused optimizer that has its state, unless ``found_inf`` is 1 on the device.

    All parameters must have the same device and dtype. ``optimizer.step`` gives the same numbers, but takes
    three times as long on the host (hooks, checks, grouping), and on a fast device the host sets the pace.

    Parameters
    ----------
    optimizer : one for which `is_plain_fused`.
    found_inf : Tensor of one number.
    stand_ins : tensors that are stepped in place of their parameters.
    """
    others = stand_ins or {}
    for group in optimizer.param_groups:
        parameters = [p for p in group["params"] if p.grad is not None]
        if parameters:
            tensors = [others.get(p, p) for p in parameters]
            gradients = [p.grad for p in parameters]
            states = [optimizer.state[p] for p in parameters]
            if not all(states):
                _begin(group, parameters, states)
            _STEPS[type(optimizer)](group, tensors, gradients, states, found_inf)


def _step_sgd(
    group: dict[str, Any], tensors: list[Tensor], gradients: list[Any], states: list[Any], found_inf: Tensor
) -> None:
    momentum = group["momentum"]
    torch._fused_sgd_(
        tensors,
        gradients,
        [state.get("momentum_buffer") for state in states] if momentum else [],
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


def _step_adamw(
    group: dict[str, Any], tensors: list[Tensor], gradients: list[Any], states: list[Any], found_inf: Tensor
) -> None:
    steps = [state["step"] for state in states]
    torch._foreach_add_(steps, 1)
    torch._fused_adamw_(
        tensors,
        gradients,
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        steps,
        amsgrad=False,
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=group["maximize"],
        grad_scale=None,
        found_inf=found_inf,
    )
    torch._foreach_sub_(steps, [found_inf] * len(steps))  # A skipped step does not count.


_STEPS = {torch.optim.SGD: _step_sgd, torch.optim.AdamW: _step_adamw}
