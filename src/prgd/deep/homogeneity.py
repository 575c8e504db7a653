"""Homogeneity of a network in its parameters: the degree, and the modules that break homogeneity."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

SCALES = (2.0, 0.75, 1.25)  # factors c at which f(c w) is compared with c^L f(w)
# Homogeneous networks have errors near 1e-14 in float64, and LayerNorm's epsilon of 1e-5 must be seen.
TOLERANCE = 1e-8


class NotHomogeneousWarning(UserWarning):
    """The network is not homogeneous, so its normalized margin has no meaning and rescaling changes it.

    `homogeneity_degree` names the modules that break homogeneity. Layers without biases are the remedy.
    """


@dataclass(frozen=True)
class Homogeneity:
    """The measured degree of a network, its error, and the modules that break homogeneity.

    Attributes
    ----------
    degree : float
        L with f(c w) = c^L f(w), rounded to an integer if it is within 1e-6 of one; the best fit if the
        network is not homogeneous.
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
        """Whether the error is no larger than rounding explains."""
        return self.error <= TOLERANCE


def homogeneity_degree(model: nn.Module, x: Tensor) -> Homogeneity:
    r"""Measure the degree L of a network and name the modules that break homogeneity.

    .. math:: f(c w) = c^L f(w) \quad \text{for all } c > 0

    The computation is in float64 and in evaluation mode, on copies of the parameters: the model does not
    change. Parameters and buffers that are all 0 (a fresh bias) are replaced by small random numbers, since 0
    would hide that they scale wrongly. A module is named if its output does not follow a power of c while
    its parameters and inputs grow by c, although the outputs of all modules within it do.

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
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2, bias=False))
    >>> homogeneity_degree(model, torch.ones(1, 4)).degree
    2.0
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> homogeneity_degree(model, torch.ones(1, 4)).broken_by
    ('2 (Linear with a bias)',)
    """
    x = x.double() if x.is_floating_point() else x
    with torch.no_grad(), evaluation_mode(model):
        tensors = _generic(model)
        names = {name for name, _ in model.named_parameters()}

        def values(c: float, prefix: str = "") -> dict[str, Tensor]:
            return {
                name.removeprefix(prefix): value * c if name in names else value
                for name, value in tensors.items()
                if name.startswith(prefix)
            }

        def call(c: float) -> Tensor:
            output = torch.func.functional_call(model, values(c), (x,))
            if not isinstance(output, Tensor):
                got = type(output).__name__
                raise TypeError(f"Expected a network that returns a tensor; got {got}. Wrap the network.")
            return output

        degree, error = _scaling(call)
        broken: list[str] = []
        modules = dict(model.named_modules())
        if not error <= TOLERANCE:
            calls, moved = (_record_calls(model, partial(call, c)) for c in (1.0, SCALES[0]))
            # Inner modules come first: an outer module is to blame only if no module within it is.
            for name in (name for name in reversed(modules) if name in calls):
                prefix = f"{name}." if name else ""
                if any(inner.startswith(prefix) for inner in broken):
                    continue

                def output(c: float, name: str = name, prefix: str = prefix) -> Tensor:
                    inputs, named = _scaled(calls[name], moved[name], c)
                    call = torch.func.functional_call(modules[name], values(c, prefix), inputs, named)
                    return _first_tensor(call)

                if not _scaling(output)[1] <= TOLERANCE:
                    broken.append(name)
    described = (_describe(name, module) for name, module in modules.items() if name in broken)
    return Homogeneity(degree, error, tuple(described))


def check_homogeneous(model: nn.Module, x: Tensor, *, strict: bool = False) -> Homogeneity:
    """Return the homogeneity, and warn if the network is not homogeneous; with ``strict`` raise.

    Examples
    --------
    >>> check_homogeneous(nn.Linear(3, 2), torch.ones(1, 3)).degree
    1.0
    """
    found = homogeneity_degree(model, x)
    if not found.is_homogeneous:
        modules = ", ".join(found.broken_by) or "unknown modules"
        message = (
            f"The network is not homogeneous (relative error {found.error:.1e}), because of {modules}: "
            "rescaling changes what it predicts, and its normalized margin has no meaning. Leave out "
            "normalisation and biases after the first layer; use ReLU."
        )
        if strict:
            raise ValueError(message)
        warnings.warn(message, NotHomogeneousWarning, stacklevel=2)
    return found


def _scaling(f: Callable[[float], Tensor]) -> tuple[float, float]:
    """Return the power of c that f follows best, and the relative error of that power law."""
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
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Set the model to evaluation mode for the block, and restore the mode of every module after it."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _generic(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers in float64, with random numbers for tensors that are all 0."""
    generator = torch.Generator().manual_seed(0)
    found: dict[str, Tensor] = {}
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        found[name] = value.detach().double() if value.is_floating_point() else value.detach().clone()
        if value.is_floating_point() and not value.any():
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            found[name] = 0.1 * noise.to(value.device)
    return found


def _record_calls(model: nn.Module, run: Callable[[], Any]) -> dict[str, Any]:
    """Return the arguments of the last call of each module while ``run`` runs."""
    calls: dict[str, Any] = {}
    handles = [
        module.register_forward_pre_hook(
            # A module that works in place would change the recorded arguments, so they are copied.
            lambda module, arguments, named, name=name: calls.__setitem__(
                name, tree_map(_copied, (arguments, dict(named)))
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
    return value.clone() if isinstance(value, Tensor) else value


def _scaled(inputs: Any, moved: Any, c: float) -> Any:
    """Return the inputs times c, except those that do not move with the parameters (data, masks)."""

    def scaled(value: Any, later: Any) -> Any:
        moves = isinstance(value, Tensor) and value.is_floating_point() and not torch.equal(value, later)
        return value * c if moves else _copied(value)

    return tree_map(scaled, inputs, moved)


def _first_tensor(output: Any) -> Tensor:
    first = tree_leaves(output)[0]
    if not isinstance(first, Tensor):
        raise TypeError(f"Expected modules that return tensors; got {type(output).__name__}.")
    return first


def _describe(name: str, module: nn.Module) -> str:
    plain = isinstance(module, (nn.Linear, nn.modules.conv._ConvNd))
    return f"{name or 'model'} ({type(module).__name__}{' with a bias' if plain else ''})"


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
    if 1 < len(vectors) < len(parameters):
        warnings.warn(
            f"{len(vectors)} of {len(parameters)} parameters are vectors (biases or gains): rescaling them "
            "changes predictions. prgd.deep.homogeneity_degree(model, x).broken_by names the modules; use "
            "bias=False, and scope='matrix' for gains.",
            NotHomogeneousWarning,
            stacklevel=2,
        )
