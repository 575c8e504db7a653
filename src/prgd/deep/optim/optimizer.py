"""GD, NGD and PRGD (Algorithm 1) as PyTorch optimizers around any base optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from prgd.deep.optim.replay import Replay
from prgd.deep.optim.tensors import Group, Grouping, grouped, local, norm, scale_
from prgd.deep.optim.wrapper import Loss, Wrapper
from prgd.schedules import Radius, StateRadius, Times

OnRescale = Literal["reset", "scale", "keep"]
# what torch's optimizers call their momentum
_MOMENTUM = ("momentum_buffer", "exp_avg")


class GD(Wrapper):
    """Plain steps of the base optimizer; a step with a non-finite loss or gradient is skipped and counted.

    Parameters
    ----------
    params : parameters or parameter groups, or a base optimizer such as `torch.optim.AdamW`.
    **sgd : options of the base `torch.optim.SGD` that is made for parameters; lr 1e-3 and momentum 0.9
        unless said otherwise.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> w.grad = torch.tensor([2.0])
    >>> optimizer = GD([w], lr=0.25, momentum=0.0)
    >>> optimizer.step()
    >>> w.item()
    0.5
    """

    def __init__(self, params: Iterable[Any] | torch.optim.Optimizer, **sgd: Any) -> None:
        super().__init__(params, loss_scaled=False, warm_up=0, **sgd)


class NGD(Wrapper):
    r"""Steps along the gradient divided by the loss.

    .. math:: g(t) = \nabla L(w(t)) / L(w(t))

    goes to the base optimizer in place of the gradient; with momentum, the momentum is that of g.

    Parameters
    ----------
    params : parameters or parameter groups, or a base optimizer such as `torch.optim.AdamW`.
    loss_scaled : whether ``step`` divides the gradient by the loss. False where the gradient is that of a
        `log_cross_entropy` or another log L, and so divided already.
    warm_up : int, plain steps at the beginning. (With ``loss_scaled=False``, train on ``log_loss.exp()``
        while ``warming_up``.)
    **sgd : options of the base `torch.optim.SGD` that is made for parameters; lr 1e-3 and momentum 0.9
        unless said otherwise.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> w.grad = torch.tensor([2e-9])
    >>> optimizer = NGD([w], lr=0.25, momentum=0.0)
    >>> optimizer.step(loss=4e-9), w.item()
    (4e-09, 0.875)
    """

    def __init__(
        self,
        params: Iterable[Any] | torch.optim.Optimizer,
        *,
        loss_scaled: bool = True,
        warm_up: int = 0,
        **sgd: Any,
    ) -> None:
        super().__init__(params, loss_scaled=loss_scaled, warm_up=warm_up, **sgd)


class PRGD(Wrapper):
    r"""Algorithm 1: rescale to radius R_k at t = T_k, else one projected normalized step.

    .. math::

        w(T_k + 1) &= R_k\, w(T_k) / \|w(T_k)\| \\
        v(t + 1) &= w(t) - \eta \nabla L(w(t)) / L(w(t)), \quad w(t + 1) = \mathrm{Proj}_{B(0, R_k)} v(t + 1)

    t counts from the end of the warm-up, and w is the vector of all parameters except those in groups
    with ``"homogeneous": False``, which the base optimizer steps and nothing else touches. A rescaling
    takes a whole step and ignores its gradient.

    Parameters
    ----------
    params : parameters or parameter groups, or a base optimizer such as `torch.optim.AdamW`.
    R : Radius, ``(k, R_0) -> R_k`` with R_0 the norm at the end of the warm-up. Radii that read the iterate
        (`StateRadius`) are refused, since they would copy the model to the host.
    T : Times, ``k -> T_k`` with ``T_0 = 0``, in steps after the warm-up.
    warm_up : int, plain steps of the base optimizer at the beginning.
    on_rescale : what a rescaling does to the momentum: ``"reset"`` sets it to zero, ``"scale"``
        multiplies it as the parameters, ``"keep"`` leaves it.
    loss_scaled : whether ``step`` divides the gradient by the loss, as in `NGD`.
    **sgd : options of the base `torch.optim.SGD` that is made for parameters; lr 1e-3 and momentum 0.9
        unless said otherwise.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1, Section 7.2 and Appendix E.2.

    Examples
    --------
    >>> from prgd.schedules import Every, Geometric
    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = PRGD([w], R=Geometric(2.0), T=Every(5))
    >>> optimizer.step()  # t = T_0: R_0 = 5, and no gradient is needed
    >>> optimizer.R_0, optimizer.R_k, optimizer.rescale_due
    (5.0, 5.0, False)
    """

    def __init__(
        self,
        params: Iterable[Any] | torch.optim.Optimizer,
        *,
        R: Radius,
        T: Times,
        warm_up: int = 0,
        on_rescale: OnRescale = "reset",
        loss_scaled: bool = True,
        **sgd: Any,
    ) -> None:
        if on_rescale not in get_args(OnRescale):
            raise ValueError(
                f"on_rescale must be one of {', '.join(get_args(OnRescale))}; got {on_rescale!r}."
            )
        if T(0) != 0:
            raise ValueError(f"Algorithm 1 begins with a rescaling: T(0) must be 0; got {T(0)}.")
        if isinstance(R, StateRadius):
            raise ValueError(
                f"{R!r} reads the iterate w, which stays on the device; use radii of k and R_0 alone."
            )
        super().__init__(params, loss_scaled=loss_scaled, warm_up=warm_up, **sgd)
        self._homogeneous_grouping = Grouping()
        self._projection = Replay()
        if not self._homogeneous():
            raise ValueError("PRGD has nothing to rescale: every parameter group has 'homogeneous': False.")
        self.R, self.T, self.on_rescale = R, T, on_rescale
        self.k, self.R_0, self.R_k = 0, math.inf, math.inf
        self._radius = torch.full_like(self._one, math.inf)
        self._projects = False

    @property
    def rescale_due(self) -> bool:
        """Whether t = T_k: the next step only rescales, and needs neither a gradient nor a loss."""
        return self.t - self.warm_up == self.T(self.k)

    @torch.no_grad()
    def norm(self) -> Tensor:
        """Return the norm of the homogeneous parameters, over all processes that share them."""
        return norm(grouped(self._homogeneous()))

    @torch._disable_dynamo  # type: ignore[attr-defined]
    def prepare(self) -> bool:
        """Begin the next step; rescale where t = T_k, and return whether that was all of it."""
        rescales = self.rescale_due
        if rescales:
            self._rescale()
        self._advance()
        return rescales

    def _update(self, loss: Loss | None, capturing: bool) -> None:
        super()._update(loss, capturing)
        if not (self._projects or capturing):
            return
        parameters = self._homogeneous_grouping(self._homogeneous())
        is_one_group = len(parameters) == 1 and not parameters[0].layout
        if capturing or torch.compiler.is_compiling() or not is_one_group:
            self._project(parameters)
        else:  # ten launches, which a fast device would wait for
            self._projection(lambda: self._project(parameters), parameters[0].tensors)

    def _project(self, parameters: list[Group]) -> None:
        # a norm that overflows must not send the parameters to zero: R_k / 0 is cut to 1
        length = norm(parameters).nan_to_num_(nan=0.0, posinf=0.0)
        # nor may a skipped step move them: where the flag is 1, so is the factor
        scale_(parameters, torch.addcdiv(self._non_finite, self._radius, length).clamp_(max=1.0))

    @torch.no_grad()
    def _rescale(self) -> None:
        parameters = self._homogeneous_grouping(self._homogeneous())
        length = norm(parameters)
        if self.k == 0:
            self.R_0 = self._first_norm(length)
        R_k = float(self.R(self.k, self.R_0))
        self._check_radius(R_k)
        if self.T(self.k + 1) <= self.T(self.k):
            raise ValueError(
                f"{self.T!r} does not advance: T({self.k + 1}) <= T({self.k}) = {self.T(self.k)}."
            )
        # 1 where the norm is 0 or not finite
        factor = (R_k / length.nan_to_num_(nan=0.0, posinf=0.0)).nan_to_num_(posinf=1.0)
        scale_(parameters, factor)
        self._rescale_momentum(factor)
        self._radius.fill_(R_k)
        self.k, self.R_k, self._projects = self.k + 1, R_k, True

    def _first_norm(self, length: Tensor) -> float:
        R_0 = float(length)  # the only wait for the device: once in a run
        if not (math.isfinite(R_0) and R_0 > 0.0):
            raise ValueError(
                f"PRGD rescales the parameters, and at the first rescaling their norm is {R_0:g}. "
                "Initialise them, or train with a warm-up that stays finite."
            )
        return R_0

    def _check_radius(self, R_k: float) -> None:
        # the square of the norm must stay in the range of the parameters' dtype
        double = all(p.dtype == torch.float64 for p in self._homogeneous())
        largest = math.sqrt(torch.finfo(torch.float64 if double else torch.float32).max) / 1e3
        if not 1.0 / largest < R_k < largest:
            raise ValueError(
                f"{self.R!r} gave the radius {R_k!r} at k = {self.k}; in this precision it must lie between "
                f"{1.0 / largest:.0e} and {largest:.0e}. Cap it."
            )

    def _rescale_momentum(self, factor: Tensor) -> None:
        if self.on_rescale == "keep":
            return
        states = (self.state[p] for p in self._homogeneous() if p in self.state)
        momenta = [state[name] for state in states for name in _MOMENTUM if state.get(name) is not None]
        if self.on_rescale == "scale":
            scale_(grouped(momenta), factor)
        elif momenta:
            torch._foreach_zero_([local(momentum) for momentum in momenta])

    def _homogeneous(self) -> list[Tensor]:
        groups = [group for group in self.param_groups if group.get("homogeneous", True)]
        return [p for group in groups for p in group["params"]]

    def progress(self) -> dict[str, Any]:
        """Return t, k, R_0, R_k and the number of skipped steps."""
        return {**super().progress(), "k": self.k, "R_0": self.R_0, "R_k": self.R_k}

    def restore_progress(self, progress: dict[str, Any]) -> None:
        """Set what `progress` returned, for the same schedule of times."""
        t, k = progress["t"] - self.warm_up, progress["k"]
        if k > 0 and not self.T(k - 1) < t <= self.T(k):
            raise ValueError(
                f"The state (t = {progress['t']}, k = {k}) does not fit {self.T!r} with "
                f"warm_up = {self.warm_up}."
            )
        super().restore_progress(progress)
        self.k, self.R_0, self.R_k = k, progress["R_0"], progress["R_k"]
        self._radius.fill_(self.R_k)
        self._projects = k > 0
