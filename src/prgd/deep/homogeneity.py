"""Whether a network is homogeneous in its parameters, of what degree, and which modules break it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

SCALES = (2.0, 0.75, 1.25)
TOLERANCE = 1e-8  # exact networks end near 1e-14 in float64; LayerNorm's epsilon of 1e-5 must be seen


class NotHomogeneousWarning(UserWarning):
    """The network is not homogeneous, so its normalized margin has no meaning and rescaling changes it."""


@dataclass(frozen=True)
class Homogeneity:
    """What was measured.

    Attributes
    ----------
    degree : float
        L with f(c w) = c^L f(w), whole where it is within 1e-6 of a whole number; the nearest fit where
        the network is not homogeneous.
    error : float
        The largest ``||f(c w) - c^L f(w)|| / ||f(c w)||``.
    broken_by : tuple of str
        Modules that scale wrongly, e.g. ``"features.1 (BatchNorm2d)"``; empty for a homogeneous network.
    """

    degree: float
    error: float
    broken_by: tuple[str, ...]

    @property
    def is_homogeneous(self) -> bool:
        """Whether the error is rounding alone."""
        return self.error <= TOLERANCE


def homogeneity_degree(model: nn.Module, x: Tensor) -> Homogeneity:
    r"""Measure the degree L of a network and name the modules that break homogeneity.

    .. math:: f(c w) = c^L f(w) \quad \text{for all } c > 0

    All is computed in float64 and in evaluation mode on copies of the parameters: the model stays as it
    is. Parameters and buffers that are all 0 (a fresh bias) are replaced by small random numbers, since 0
    would hide that they scale wrongly. A module is named when its output does not follow a power of c
    while its parameters and its inputs grow by c, though all modules within it do.

    Parameters
    ----------
    model : nn.Module
    x : Tensor
        A few inputs.

    References
    ----------
    Lyu and Li (2020), Section 2: the (B)-homogeneity that Appendix E.2 of the paper asks for.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2, bias=False))
    >>> homogeneity_degree(model, torch.ones(1, 4)).degree
    2.0
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> homogeneity_degree(model, torch.ones(1, 4)).broken_by
    ('2 (Linear with a bias)',)
    """
    x = x.double() if x.is_floating_point() else x
    with torch.no_grad(), _evaluation(model):
        tensors = _generic(model)
        names = {name for name, _ in model.named_parameters()}

        def values(c: float, prefix: str = "") -> dict[str, Tensor]:
            return {
                name.removeprefix(prefix): value * c if name in names else value
                for name, value in tensors.items()
                if name.startswith(prefix)
            }

        calls = _record_calls(model, lambda: torch.func.functional_call(model, values(1.0), (x,)))
        moved = _record_calls(model, lambda: torch.func.functional_call(model, values(SCALES[0]), (x,)))
        degree, error = _scaling(lambda c: torch.func.functional_call(model, values(c), (x,)))
        broken: list[str] = []
        if not error <= TOLERANCE:
            # inner modules first: an outer one is to blame only where none within it is
            for name, module in sorted(model.named_modules(), key=lambda item: -_depth(item[0])):
                prefix = f"{name}." if name else ""
                if any(inner.startswith(prefix) for inner in broken) or name not in calls:
                    continue
                arguments, later = calls[name], moved[name]

                def output(
                    c: float, module: nn.Module = module, a: Any = arguments, b: Any = later, p: str = prefix
                ) -> Tensor:
                    inputs, named = _scaled(a, b, c)
                    return _first_tensor(torch.func.functional_call(module, values(c, p), inputs, named))

                if not _scaling(output)[1] <= TOLERANCE:
                    broken.append(name)
    modules = dict(model.named_modules())
    in_order = [name for name in modules if name in broken]
    return Homogeneity(degree, error, tuple(_describe(name, modules[name]) for name in in_order))


def check_homogeneous(model: nn.Module, x: Tensor, *, strict: bool = False) -> Homogeneity:
    """Return the degree, and warn of a network that is not homogeneous; with ``strict`` raise.

    Examples
    --------
    >>> check_homogeneous(nn.Linear(3, 2), torch.ones(1, 3)).degree
    1.0
    """
    found = homogeneity_degree(model, x)
    if not found.is_homogeneous:
        modules = ", ".join(found.broken_by) or "unknown modules"
        message = (
            f"The network is not homogeneous in its parameters (relative error {found.error:.1e}): "
            f"{modules}. Its normalized margin has no meaning, and rescaling changes what it predicts. "
            "Leave out normalisation and biases after the first layer."
        )
        if strict:
            raise ValueError(message)
        warnings.warn(message, NotHomogeneousWarning, stacklevel=2)
    return found


def _scaling(f: Callable[[float], Tensor]) -> tuple[float, float]:
    """Return the power of c that f follows best, and how far it is from it."""
    base = f(1.0)
    size = float(base.norm())
    if not (math.isfinite(size) and size > 0.0):
        return math.nan, 0.0 if size == 0.0 else math.inf
    found = {c: f(c) for c in SCALES}
    grown = float(found[SCALES[0]].norm())
    degree = math.log(grown / size) / math.log(SCALES[0]) if grown > 0.0 else 0.0
    if abs(degree - round(degree)) < 1e-6:
        degree = float(round(degree))
    error = max(float((value - base * c**degree).norm() / value.norm()) for c, value in found.items())
    return degree, error if math.isfinite(error) else math.inf


@contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _generic(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers in float64, with random numbers in place of tensors that are all 0."""
    generator = torch.Generator().manual_seed(0)
    found: dict[str, Tensor] = {}
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if not value.is_floating_point():
            found[name] = value.detach().clone()
            continue
        value = value.detach().double()
        if not value.any():
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            value = 0.1 * noise.to(value.device)
        found[name] = value
    return found


def _record_calls(model: nn.Module, run: Callable[[], Any]) -> dict[str, Any]:
    """Return the arguments of the last call of each module while ``run`` runs."""
    calls: dict[str, Any] = {}
    handles = [
        module.register_forward_pre_hook(
            lambda module, arguments, named, name=name: calls.__setitem__(
                name, _copied((arguments, dict(named)))
            ),
            with_kwargs=True,
        )
        for name, module in model.named_modules()
    ]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _copied(value: Any) -> Any:
    """Return a copy: a module that works in place would change what was recorded."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, (tuple, list)):
        return type(value)(_copied(item) for item in value)
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return value


def _scaled(value: Any, moved: Any, c: float) -> Any:
    """Return the inputs times c, but those that do not move with the parameters (data, masks) as they are."""
    if isinstance(value, Tensor):
        moves = value.is_floating_point() and not torch.equal(value, moved)
        return value * c if moves else value.clone()
    if isinstance(value, (tuple, list)):
        return type(value)(_scaled(*pair, c) for pair in zip(value, moved, strict=True))
    if isinstance(value, dict):
        return {name: _scaled(item, moved[name], c) for name, item in value.items()}
    return value


def _first_tensor(output: Any) -> Tensor:
    while isinstance(output, (tuple, list)):
        output = output[0]
    if not isinstance(output, Tensor):
        raise TypeError(f"Expected modules that return tensors; got {type(output).__name__}.")
    return output


def _depth(name: str) -> int:
    return name.count(".") + 1 if name else 0


def _describe(name: str, module: nn.Module) -> str:
    kind = type(module).__name__
    plain = isinstance(module, (nn.Linear, nn.modules.conv._ConvNd))
    return f"{name or 'model'} ({kind}{' with a bias' if plain else ''})"
