"""The base optimizer of GD, NGD and PRGD: checks of what is given, the default SGD, and fused optimizers."""

import difflib
import inspect
from collections.abc import Iterable
from logging import getLogger
from typing import Any

import torch
from torch import Tensor

from prgd.deep.optim.tensors import is_sharded


def default_sgd(params: Any, options: dict[str, Any]) -> torch.optim.SGD:
    """Return SGD, fused if torch can: a fused SGD skips a step without waiting for the device."""
    groups = listed(params)
    implementation = {} if "fused" in options or "foreach" in options else {"fused": has_fused(groups)}
    return torch.optim.SGD(groups, **{"lr": 1e-3, "momentum": 0.9, **implementation, **options})


def listed(params: Any) -> list[Any]:
    """Return the parameters of a network, or parameters or groups, as lists that can be read repeatedly."""
    if isinstance(params, torch.nn.Module):
        return list(params.parameters())
    if isinstance(params, Tensor) or not isinstance(params, Iterable):
        raise TypeError(
            "Expected parameters, such as model.parameters(), parameter groups or a network; got "
            f"{type(params).__name__}. Pass one parameter as [tensor]."
        )
    return [{**g, "params": _members(g)} if isinstance(g, dict) else g for g in params]


def _members(group: Any) -> list[Any]:
    """Return the parameters of a group, or a parameter itself; named ones are pairs."""
    params = group["params"] if isinstance(group, dict) else [group]
    return [params] if isinstance(params, Tensor) else list(params)


def has_fused(groups: list[Any]) -> bool:
    """Tell whether the fused optimizers of torch take all parameters of `listed` groups."""
    members = [member for group in groups for member in _members(group)]
    return all(_has_fused_kernel(m[1] if isinstance(m, tuple) else m) for m in members)


def _has_fused_kernel(p: Tensor) -> bool:
    if is_sharded(p):  # torch has no fused SGD for DTensor
        return False
    # On a CPU, the fused SGD of torch up to 2.13 leaves 16-bit parameters unchanged (pytorch issue 191763).
    is_wide = p.dtype in (torch.float32, torch.float64)
    return (p.device.type == "cuda" and p.is_floating_point()) or (p.device.type == "cpu" and is_wide)


def begin_late_momentum(optimizer: torch.optim.Optimizer, *, has_stepped: bool) -> None:
    """Begin the momentum of parameters of a fused SGD that get their first gradient after others did.

    torch fails if some momenta of a group are missing, and leaves them undefined if it skips their first
    step. They begin at 0, so a dampening acts on their first gradient too.
    """
    for group in optimizer.param_groups:
        if group.get("fused") and group.get("momentum"):  # torch's SGD is the only optimizer with both
            states = [(p, optimizer.state[p]) for p in group["params"] if p.grad is not None]
            if has_stepped or any(state for _, state in states):
                for p, state in states:
                    if not state:
                        state["momentum_buffer"] = torch.zeros_like(p)


def dense_entries(gradients: list[Tensor], optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return the numbers that gradients store, some of which are sparse; fused optimizers take none."""
    if any(group.get("fused") for group in optimizer.param_groups):
        raise TypeError(
            f"A fused {type(optimizer).__name__} takes no sparse gradients, and some are. Make it with "
            "fused=False, or the embedding with sparse=False."
        )
    return [gradient._values() if gradient.is_sparse else gradient for gradient in gradients]


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


def check_options(kind: type, options: dict[str, Any], base: type | None) -> None:
    """Raise for options that neither an optimizer of this kind nor a base that is to be made takes.

    A base that is there, of type ``base``, has its options already.
    """
    makers = [cls for cls in kind.__mro__ if issubclass(cls, torch.optim.Optimizer)]
    own = [
        n for cls in makers for n, p in inspect.signature(cls).parameters.items() if p.kind is p.KEYWORD_ONLY
    ]
    sgd = [] if base is not None else [*inspect.signature(torch.optim.SGD).parameters]
    known = {name.lower(): name for name in [*sgd, *own]}
    for name in (name for name in options if name not in sgd):
        # The bound is high, so that lr beside a base is not taken for R.
        if near := difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75):
            raise TypeError(f"{name}: no option of {kind.__name__}. Did you mean {known[near[0]]}?")
        if base is None:
            raise TypeError(f"{name}: no option here, nor of the default base, torch.optim.SGD.")
        raise TypeError(
            f"{name} would be ignored: only the default base, torch.optim.SGD, is made with options given "
            f"here. Give {base.__name__} its own when you make it."
        )


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


def described_rate(group: dict[str, Any]) -> str:
    """Return the rate of a parameter group, and the one that a scheduler began with, as part of a sentence.

    Examples
    --------
    >>> described_rate({"lr": 0.001, "initial_lr": 0.1})
    'lr, which is 0.001 and began at 0.1'
    """
    rate, first = group.get("lr"), group.get("initial_lr")
    if rate is None:  # A base of a user's own may have no rate of this name.
        return "the rate of the base"
    began = "" if first is None or float(first) == float(rate) else f" and began at {float(first):g}"
    return f"lr, which is {float(rate):g}{began}"


def tell_warm_up(reached: list[float], groups: Iterable[dict[str, Any]] = ()) -> None:
    """Log, once, that a run or a saved state ends in the warm-up, or the schedule of the rates of ``groups``.

    ``reached`` holds t, the loss and its aim: t is 0 before the first reading, and nothing is left once told.
    A schedule has ended at a thousandth of its first rates.
    """
    is_over = all("initial_lr" in g and float(g["lr"]) <= 1e-3 * float(g["initial_lr"]) for g in groups)
    if is_over and reached and reached[0] > 0.0:
        getLogger("prgd.deep").warning(
            "PRGD was still warming up at step %d: its steps were those of the base alone, since the running "
            "loss, %.3g, has not fallen below %g. Train for longer, or give warm_up a number of steps and "
            "cautious=True.",
            *reached,
        )
        reached.clear()
