"""PRGD (Algorithm 1) as a PyTorch optimizer around any base optimizer."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from prgd.deep.optim.tensors import Group, Grouping, grouped, local, norm, scale_
from prgd.deep.optim.wrapper import Closure, Loss, Params, Wrapper
from prgd.replay import Replay
from prgd.schedules import Radius, StateRadius, Times, as_radius, as_times

OnRescale = Literal["reset", "scale", "keep"]
_MOMENTUM = ("momentum_buffer", "exp_avg")  # keys under which torch's optimizers store their momentum


class PRGD(Wrapper):
    r"""Algorithm 1: rescale to radius R_k at t = T_k, else one projected normalized step.

    .. math::

        w(T_k + 1) &= R_k\, w(T_k) / \|w(T_k)\| \\
        v(t + 1) &= w(t) - \eta \nabla L(w(t)) / L(w(t)), \quad w(t + 1) = \mathrm{Proj}_{B(0, R_k)} v(t + 1)

    The time t counts from the end of the warm-up. The vector w holds all parameters except those in groups
    with ``"homogeneous": False``, which the base optimizer steps and nothing else touches. A rescaling
    takes a whole step and ignores the gradient.

    Parameters
    ----------
    params : parameters or parameter groups, or a base optimizer such as `torch.optim.AdamW`.
    R : Radius, ``(k, R_0) -> R_k`` with R_0 the norm at the end of the warm-up, or text or a number that
        `prgd.schedules.as_radius` reads. Radii that read the iterate (`StateRadius`) are refused, since
        they would copy the model to the host.
    T : Times, ``k -> T_k`` with ``T_0 = 0``, in steps after the warm-up, or text or an integer that
        `prgd.schedules.as_times` reads.
    warm_up : int, number of plain steps of the base optimizer at the beginning.
    on_rescale : what a rescaling does to the momentum: ``"reset"`` sets the momentum to zero, ``"scale"``
        multiplies the momentum by the factor of the parameters, ``"keep"`` leaves the momentum unchanged.
    loss_scaled : whether ``step`` divides the gradient by the loss, as in `NGD`.
    project : whether each step is projected to the ball of radius R_k, as in Algorithm 1.
    **sgd : options of the base `torch.optim.SGD` that is made if parameters are given; the defaults are
        lr 1e-3 and momentum 0.9.

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
        params: Params,
        *,
        R: Radius | str | float,
        T: Times | str | int,
        warm_up: int = 0,
        on_rescale: OnRescale = "reset",
        loss_scaled: bool = True,
        project: bool = True,
        **sgd: Any,
    ) -> None:
        if on_rescale not in get_args(OnRescale):
            raise ValueError(
                f"on_rescale must be one of {', '.join(get_args(OnRescale))}; got {on_rescale!r}."
            )
        radius, self.T = as_radius(R), as_times(T)
        if isinstance(radius, StateRadius):
            raise ValueError(
                f"{R!r} reads the iterate w, which stays on the device; use radii of k and R_0 alone."
            )
        if self.T(0) != 0:
            raise ValueError(f"Algorithm 1 begins with a rescaling: T(0) must be 0; got {self.T(0)}.")
        super().__init__(params, loss_scaled=loss_scaled, warm_up=warm_up, **sgd)
        if not self._homogeneous():
            raise ValueError("PRGD has nothing to rescale: every parameter group has 'homogeneous': False.")
        self.R, self.on_rescale, self.project = radius, on_rescale, project
        self.k, self.R_0 = 0, math.inf
        self._radius = torch.empty_like(self._one)  # R_k on the device, where a CUDA graph reads it
        self._set_radius(math.inf)
        self._homogeneous_grouping = Grouping()
        self._projection = Replay()

    @torch.no_grad()
    def step(self, closure: Closure | None = None, *, loss: Loss | None = None) -> Loss | None:  # type: ignore[override]
        """Take one step of Algorithm 1 and return the loss; `Wrapper.step` describes the arguments."""
        if torch.compiler.is_compiling():
            return self._compiled_step(closure, loss)
        loss = self._evaluated(closure, loss)
        if loss is None and not self.rescale_due:
            self._need_loss()
        # A captured CUDA graph holds the projected step alone: `prepare` does the rest before each replay.
        capturing = self._capturing()
        if not capturing and self._starts_phase():  # t = T_k
            self._rescale()  # w(t + 1) = R_k w(t) / ||w(t)||
        else:
            self._step_base(loss, capturing)  # v(t + 1) = w(t) - eta grad L(w(t)) / L(w(t))
            self._project(capturing)  # w(t + 1) = Proj_{B(0, R_k)} v(t + 1)
        return loss

    @property
    def rescale_due(self) -> bool:
        """Whether t = T_k: the next step only rescales, and needs neither a gradient nor a loss."""
        return self.t - self.warm_up == self.T(self.k)

    def prepare(self) -> bool:
        """Do the host's part of the next step; at t = T_k rescale and return True, else return False."""
        starts = self._starts_phase()
        if starts:
            self._rescale()
        return starts

    @torch.no_grad()
    def norm(self) -> Tensor:
        """Return the norm of the homogeneous parameters, over all processes that share them."""
        return norm(grouped(self._homogeneous()))

    def _starts_phase(self) -> bool:
        """Advance t by one; at t = T_k enter phase k with its radius R_k and return True."""
        starts = self.rescale_due
        if starts:
            self._set_radius(self._next_radius())
            self.k += 1
        self._advance()
        return starts

    def _next_radius(self) -> float:
        """Return R_k, after the checks that R_0, R_k and T_{k+1} are usable."""
        if self.k == 0:
            self.R_0 = float(self.norm())  # the only wait for the device: once in a run
            if not (math.isfinite(self.R_0) and self.R_0 > 0.0):
                raise ValueError(
                    f"PRGD rescales the parameters, and at the first rescaling their norm is {self.R_0:g}. "
                    "Initialise them, or train with a warm-up that stays finite."
                )
        R_k = float(self.R(self.k, self.R_0))
        # The square of the norm must stay in the range of the parameters' dtype.
        double = all(p.dtype == torch.float64 for p in self._homogeneous())
        largest = math.sqrt(torch.finfo(torch.float64 if double else torch.float32).max) / 1e3
        if not 1.0 / largest < R_k < largest:
            raise ValueError(
                f"{self.R!r} gave the radius {R_k!r} at k = {self.k}; in this precision it must lie between "
                f"{1.0 / largest:.0e} and {largest:.0e}. Cap it."
            )
        if self.T(self.k + 1) <= self.T(self.k):
            raise ValueError(
                f"{self.T!r} does not advance: T({self.k + 1}) <= T({self.k}) = {self.T(self.k)}."
            )
        return R_k

    def _set_radius(self, R_k: float) -> None:
        self.R_k, self._has_ball = R_k, math.isfinite(R_k)
        self._radius.fill_(R_k)

    @torch.no_grad()
    def _rescale(self) -> None:
        """Multiply the parameters by R_k over their norm, and treat the momentum as ``on_rescale`` says."""
        parameters = self._homogeneous_grouping(self._homogeneous())
        length = norm(parameters).nan_to_num_(nan=0.0, posinf=0.0)
        # The factor is 1 if the norm is 0 or not finite, so that such parameters stay as they are.
        factor = (self.R_k / length).nan_to_num_(posinf=1.0)
        scale_(parameters, factor)
        if self.on_rescale == "keep":
            return
        states = (self.state[p] for p in self._homogeneous() if p in self.state)
        momenta = [state[name] for state in states for name in _MOMENTUM if state.get(name) is not None]
        if self.on_rescale == "scale":
            scale_(grouped(momenta), factor)
        elif momenta:
            torch._foreach_zero_([local(momentum) for momentum in momenta])

    def _project(self, capturing: bool) -> None:
        """Project the parameters onto the ball of radius R_k, unless PRGD is to go without."""
        if not self.project or not (self._has_ball or capturing):
            return  # The warm-up has no ball. A captured graph always projects, there with R_k = infinity.
        parameters = self._homogeneous_grouping(self._homogeneous())
        is_one_group = len(parameters) == 1 and not parameters[0].layout
        if capturing or not is_one_group:
            self._scale_into_ball(parameters)
        else:  # A fast device would wait for the ten launches of a projection, so they are replayed as one.
            self._projection(lambda: self._scale_into_ball(parameters), parameters[0].tensors)

    def _scale_into_ball(self, parameters: list[Group]) -> None:
        # A norm that overflows must not send the parameters to zero: R_k / 0 is cut to a factor of 1.
        length = norm(parameters).nan_to_num_(nan=0.0, posinf=0.0)
        # A skipped step must not move the parameters: the factor is at least the flag of a non-finite step.
        scale_(parameters, torch.addcdiv(self._non_finite, self._radius, length).clamp_(max=1.0))

    def _homogeneous(self) -> list[Tensor]:
        groups = [group for group in self.param_groups if group.get("homogeneous", True)]
        return [p for group in groups for p in group["params"]]

    def progress(self) -> dict[str, Any]:
        """Return t, k, R_0, R_k and the number of skipped steps."""
        return {**super().progress(), "k": self.k, "R_0": self.R_0, "R_k": self.R_k}

    def restore_progress(self, progress: dict[str, Any]) -> None:
        """Set the numbers that `progress` returned, for the same schedule of times."""
        t, k = progress["t"] - self.warm_up, progress["k"]
        if t > self.T(k) or (k > 0 and t <= self.T(k - 1)):
            raise ValueError(
                f"The state (t = {progress['t']}, k = {k}) does not fit {self.T!r} with "
                f"warm_up = {self.warm_up}."
            )
        super().restore_progress(progress)
        self.k, self.R_0 = k, progress["R_0"]
        self._set_radius(progress["R_k"])
