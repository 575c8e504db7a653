"""PRGD (Algorithm 1) as a PyTorch optimizer around any base optimizer."""

from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

from prgd.core.checks import check_fraction, check_integer, check_positive, time_after, unknown
from prgd.deep.homogeneity import FirstInputs, warn_of_vectors
from prgd.deep.optim.blocks import Blocks, Scope
from prgd.deep.optim.radii import Radii
from prgd.deep.optim.tensors import grouped, local, scale_
from prgd.deep.optim.wrapper import Closure, Loss, Params, WarmUp, Wrapper
from prgd.schedules import (
    NEVER,
    Constant,
    Every,
    Geometric,
    Polynomial,
    Radius,
    StateRadius,
    Times,
    as_radius,
    as_times,
    check_times,
)

OnRescale = Literal["reset", "scale", "keep"]
_MOMENTUM = ("momentum_buffer", "exp_avg")  # keys under which torch's optimizers store their momentum
DEFAULT_TIMES = Every(16)
_PHASES = 64  # number of phases that `PRGD.for_steps` lays over a run


class PRGD(Wrapper):
    r"""Progressive norm rescaling around a base optimizer: cautious steps, or Algorithm 1.

    By default steps are the base's own until the running loss is below 0.01. Then PRGD is ``cautious``: a
    step is the base's, longer for SGD while the loss falls, and at t = T_k the norm grows to R_k as well, if
    the loss falls. Algorithm 1, ``cautious=False``, rescales at t = T_k and else takes a projected step:

    .. math::

        w(T_k + 1) &= R_k\, w(T_k) / \|w(T_k)\| \\
        v(t + 1) &= w(t) - \eta \nabla L(w(t)) / L(w(t)) \\
        w(t + 1) &= \mathrm{Proj}_{B(0, R_k)} v(t + 1)

    The time t counts from the end of the warm-up. The vector w holds all parameters except frozen ones and
    those in groups with ``"homogeneous": False``, which the base optimizer steps and nothing else touches.
    A rescaling of Algorithm 1 takes a whole step and ignores the gradient.

    Parameters
    ----------
    params : parameters or parameter groups, a network, or a base optimizer such as `torch.optim.AdamW`
        A network is measured at the first rescaling, with a warning if it is not homogeneous.
    R : Radius, str or float, optional
        ``(k, R_0) -> R_k`` with R_0 the norm at the end of the warm-up, as `prgd.schedules.as_radius` reads
        it. Radii that read the iterate (`StateRadius`) are refused, since they would copy the model to the
        host. ``"radius"`` in a parameter group, 1 by default, multiplies R_k; write it as you like. By
        default the outputs of a network grow as (1 + k/8)^(1/4); with relative steps, radii are constant.
    T : Times, str or int
        ``k -> T_k`` with ``T_0 = 0``, in steps after the warm-up, as `prgd.schedules.as_times` reads it.
    warm_up : int or "auto", optional
        Number of plain steps of the base at the beginning, or until the running loss is below 0.01, that is,
        until nearly all examples are classified correctly. Steps over the loss then begin with the length of
        plain steps. With 0, Algorithm 1 begins at once. By default ``"auto"``, and 0 unless ``loss_scaled``.
    cautious : bool, optional
        Whether to stay on the safe side, as `Caution` says: no step is shorter than the base's, steps of SGD
        grow only while the loss falls (other bases take their own steps), the schedule stands still while it
        does not, a rescaling neither shrinks nor takes the place of a step, and nothing is projected unless
        ``project`` is given. By default if ``warm_up`` is ``"auto"``; False is Algorithm 1.
    scope : {"global", "group", "matrix"}
        What has a norm of its own: all parameters together, as in the paper, each parameter group, or each
        parameter of at least two dimensions (vectors are then stepped by the base optimizer alone).
    relative_steps : bool
        Whether every step is ``W = R_k norm(W - eta R_k norm(u))`` for each block W, with u the base
        optimizer's update, eta its rate and ``norm(x) = x / ||x||``; a block is what has a norm of its own.
        No step is spent on rescaling then. With ``R="constant"`` and ``scope="matrix"`` this is Hyperball.
    on_rescale : {"keep", "reset", "scale"}
        What a rescaling does to the momentum: leave it unchanged, set it to zero, or multiply it by the
        factor of the parameters.
    loss_scaled : bool, optional
        Whether ``step`` divides the gradient by the loss, as in `NGD`; by default unless steps are relative.
    project : bool, optional
        Whether each step is projected to the ball of radius R_k; by default unless ``cautious``.
    **sgd : options of `torch.optim.SGD`
        The base that is made if parameters are given; the defaults are lr 1e-3 and momentum 0.9.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1, Section 7.2 and Appendix E.2. Wen, Dang, Lyu, Ma and Liang (2026),
    Fantastic pretraining optimizers and where to find them II: Hyperball optimization.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = PRGD([w], R=2.0, T=5, warm_up=0)  # Geometric(2.0) and Every(5)
    >>> optimizer.step()  # t = T_0: R_0 = 5, and no gradient is needed
    >>> optimizer.R_0, optimizer.R_k, optimizer.rescale_due
    (5.0, 5.0, False)
    """

    def __init__(
        self,
        params: Params | None = None,
        *,
        R: Radius | str | float | None = None,
        T: Times | str | int = DEFAULT_TIMES,
        warm_up: WarmUp | None = None,
        cautious: bool | None = None,
        scope: Scope = "global",
        relative_steps: bool = False,
        on_rescale: OnRescale = "keep",
        loss_scaled: bool | None = None,
        project: bool | None = None,
        **sgd: Any,
    ) -> None:
        if params is None:
            raise TypeError(
                "PRGD wraps an optimizer, PRGD(torch.optim.SGD(...)), or takes a model, PRGD(model, lr=0.1)."
            )
        if on_rescale not in get_args(OnRescale):
            raise unknown("on_rescale", str(on_rescale), get_args(OnRescale))
        if relative_steps and project is False:
            raise ValueError("relative_steps=True keeps each block on its sphere; leave project=False out.")
        radius, self.T = as_radius(Constant() if R is None else R), as_times(T)
        if isinstance(radius, StateRadius):
            raise ValueError(
                f"{R!r} reads the iterate w, which stays on the device; use radii of k and R_0 alone."
            )
        loss_scaled = not relative_steps if loss_scaled is None else loss_scaled
        warm_up = ("auto" if loss_scaled else 0) if warm_up is None else warm_up
        cautious = (loss_scaled and warm_up == "auto") if cautious is None else cautious
        check_times(self.T, is_turning=not (cautious or relative_steps))
        if cautious and not loss_scaled:
            raise ValueError("cautious=True adapts steps to the loss, and needs loss_scaled=True.")
        super().__init__(params, loss_scaled=loss_scaled, warm_up=warm_up, cautious=cautious, **sgd)
        self.on_rescale, self.project = on_rescale, not cautious if project is None else project
        self.scope, self.relative_steps, self.k, self.paused = scope, relative_steps, 0, 0
        self._grows = False  # whether a cautious PRGD has entered a phase and not rescaled yet
        self._radii = Radii(self.param_groups, scope, self._dtype)
        self._recorded: Blocks | None = None  # what a CUDA graph projects
        # The outputs of a network with so many layers grow as (1 + k/8)^0.25, whatever its depth.
        gentle = Polynomial(0.25 / self._radii.depth, scale=8.0)
        self.R: Radius = gentle if R is None and not relative_steps else radius
        self._inputs = FirstInputs(params) if isinstance(params, torch.nn.Module) else None

    @classmethod
    def for_steps(
        cls,
        params: Params,
        total_steps: int,
        *,
        growth: float = 2.0,
        warm_up: float | Literal["auto"] | None = None,
        cautious: bool | None = None,
        **options: Any,
    ) -> Self:
        """Return a PRGD whose schedule lies over a run of ``total_steps`` steps.

        Parameters
        ----------
        params : as for the class.
        total_steps : int, number of steps of the run, rescalings and warm-up included.
        growth : float
            Factor by which rescaling makes the outputs of a homogeneous network grow in the whole run, if the
            warm-up is short and the loss falls. With L matrices, norms grow by its L-th root.
        warm_up : ``"auto"``, or the fraction of the run that is warm-up; by default as for the class.
        cautious : as for the class, but by default whenever steps are divided by the loss.
        **options : as for the class; R and T follow from the run.

        Examples
        --------
        >>> model = torch.nn.Linear(3, 2, bias=False)
        >>> optimizer = PRGD.for_steps(model, 10_000, warm_up=0.2, lr=0.1)
        >>> optimizer.warm_up, optimizer.T, round(optimizer.R.c**63, 2)
        (2000, Every(steps=125), 1.98)
        """
        check_integer("total_steps", total_steps, minimum=2)
        check_positive("growth", growth)
        if "R" in options or "T" in options:
            raise TypeError("for_steps chooses R and T itself: give growth, or give R and T to the class.")
        rest, first = total_steps, warm_up
        if warm_up is not None and warm_up != "auto":
            check_fraction("warm_up", warm_up)
            first = int(warm_up * total_steps)
            rest = max(total_steps - first, 2)
        if cautious is None:
            cautious = options.get("loss_scaled", not options.get("relative_steps", False))
        steps = max(2, rest // _PHASES)
        options |= {"R": Constant(), "T": Every(steps), "warm_up": first, "cautious": cautious}
        made = cls(params, **options)
        made.R = Geometric(growth ** (steps / (rest * made._radii.depth)))
        return made

    @torch.no_grad()
    def step(self, closure: Closure | None = None, *, loss: Loss | None = None) -> Loss | None:  # type: ignore[override]
        """Take one step, cautious or of Algorithm 1, and return the loss.

        Parameters
        ----------
        closure : callable that evaluates the model again and returns the loss; optional.
        loss : float or tensor
            The mean loss whose gradient the parameters hold, by name: ``step(loss=loss)``. A relative step
            needs none, nor does a step after `watch`. Pass it before `GradScaler` scales it.
        """
        if torch.compiler.is_compiling():
            return self._compiled_step(closure, loss)
        loss = self._evaluated(closure, loss, needs_loss=not self.rescale_due)
        # A captured CUDA graph holds the projected step alone: `prepare` does the rest before each replay.
        capturing = self._capturing()
        self._recorded = self._radii.blocks if capturing else self._recorded
        if not capturing and self._starts_phase():  # t = T_k
            self._rescale()  # w(t + 1) = R_k w(t) / ||w(t)||
        elif self.relative_steps:
            self._step_on_spheres(loss, capturing)  # W <- R_k norm(W - eta R_k norm(u)), block by block
        else:
            self._step_base(loss, capturing)  # v(t + 1) = w(t) - eta grad L(w(t)) / L(w(t))
            self._project(capturing)  # w(t + 1) = Proj_{B(0, R_k)} v(t + 1)
            self._grow(capturing)  # a cautious PRGD rescales here, and spends no step on it
        return loss

    @property
    def rescale_due(self) -> bool:
        """Whether the next step only rescales, at t = T_k, and needs no loss; never if PRGD is cautious."""
        spends_steps = not self.relative_steps and self._caution is None
        return spends_steps and self._is_phase_due

    @property
    def _is_phase_due(self) -> bool:
        return self.t - self.warm_up - self.paused == self.T(self.k)

    @property
    def R_0(self) -> float | list[float]:
        """The norm at the end of the warm-up, infinite until then; a list unless scope is global.

        A list has the blocks in the order of the parameters in ``param_groups``.
        """
        return self._radii.shown(self._radii.R_0)

    @property
    def R_k(self) -> float | list[float]:
        """The radius of the present phase, infinite before the first; a list unless scope is global.

        ``"radius"`` of a parameter group is not in it: `norm` returns what the norms are.
        """
        return self._radii.shown(self._radii.R_k)

    def prepare(self) -> bool:
        """Do the host's part of the next step; return True if that was all of it, a rescaling at t = T_k."""
        self._grow(capturing=False)
        if starts := self._starts_phase():
            self._rescale()
        if self._recorded not in (None, self._radii.blocks):
            raise RuntimeError("PRGD rescales other parameters than the recorded step: record it again.")
        return starts

    @torch.no_grad()
    def norm(self) -> Tensor:
        """Return the norm over all processes; a vector of all blocks' norms unless scope is global."""
        norms = self._radii.blocks.norms()
        return norms[0] if self.scope == "global" else norms

    def _starts_phase(self) -> bool:
        """Advance t by one; at t = T_k enter phase k with its radii R_k, and return whether to rescale."""
        starts, is_due = False, self._is_phase_due
        self._find_blocks(is_due)
        self._radii.follow(self.param_groups)
        if is_due and self._caution is not None and self.k > 0 and not self._caution.loss_falls:
            self.paused += 1  # The schedule of a cautious PRGD stands still unless the loss falls.
        elif is_due:
            time_after(self.T, self.k + 1)
            self._radii.enter(self.k, self.R)
            starts = self.rescale_due
            self._grows = self._caution is not None and not self.relative_steps
            if (starts or self._grows) and self.k == 0:
                self._check_homogeneity()
            self.k += 1
        self._advance()
        return starts

    def _find_blocks(self, is_due: bool) -> None:
        """Leave out at once what is frozen, which must not be scaled even once; look for more at t = T_k."""
        if is_due or not all(p.requires_grad for p in self._radii.blocks.tensors):
            self._radii.find_blocks(self.param_groups, self.k, self.R)

    def _check_homogeneity(self) -> None:
        """Warn if rescaling changes what the network predicts, as far as that can be seen."""
        if self._inputs is not None:
            self._inputs.check()
            self._inputs = None
        elif self.scope == "global":
            warn_of_vectors(self._radii.blocks.tensors)

    @torch.no_grad()
    def _rescale(self) -> None:
        """Multiply each block by R_k over its norm, and treat the momentum as ``on_rescale`` says."""
        blocks = self._radii.blocks
        factors = blocks.rescale_(self._radii.on_device, grows_only=self._caution is not None)
        if self.on_rescale == "keep":
            return
        for block, factor in zip(blocks.blocks, factors.unbind(), strict=True):
            states = (self.state[p] for p in block if p in self.state)
            momenta = [state[name] for state in states for name in _MOMENTUM if state.get(name) is not None]
            if self.on_rescale == "scale":
                scale_(grouped(momenta), factor)
            elif momenta:
                torch._foreach_zero_([local(momentum) for momentum in momenta])

    def _project(self, capturing: bool) -> None:
        """Project each block onto the ball of radius R_k, unless PRGD is to go without."""
        # The warm-up has no ball. A captured graph always projects, there with R_k = infinity.
        if self.project and (self._radii.are_known or capturing):
            self._radii.blocks.project_(self._radii.on_device, self._non_finite)

    def _grow(self, capturing: bool) -> None:
        """Rescale a cautious PRGD that has entered a phase; a captured graph leaves that to `prepare`."""
        if self._grows and not capturing:
            self._grows = False
            self._find_blocks(is_due=False)
            self._rescale()

    def _step_on_spheres(self, loss: Loss | None, capturing: bool) -> None:
        """Let the base optimizer step from 0, which is its update, and move each block along the update."""
        if not self._radii.are_known:
            if capturing:
                raise RuntimeError("A CUDA graph can hold a relative step only after the warm-up.")
            self._step_base(loss, capturing)
            return
        blocks, rates = self._radii.blocks, self._radii.rates(self.param_groups)
        with blocks.collecting_updates():
            self._step_base(loss, capturing)
        blocks.move_on_spheres_(self._radii.on_device, rates, self._non_finite)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to the base optimizer; the radii of its blocks grow from the norms they have now."""
        super().add_param_group(param_group)
        if hasattr(self, "_radii"):
            try:
                self._radii.find_blocks(self.param_groups, self.k, self.R)
                self._radii.follow(self.param_groups)
            except ValueError:  # The optimizer stays what it was.
                self.param_groups.pop()
                self._radii.find_blocks(self.param_groups, self.k, self.R)
                raise

    def _adjustable(self) -> str:
        if self.warming_up:  # Radii are not in use yet.
            return super()._adjustable()
        safer = "" if self._caution is not None else "; the default warm_up, 'auto', is safer"
        return f"{super()._adjustable()}, or the growth of R, which is {self.R!r}{safer}"

    def _shown(self) -> list[str]:
        cautious = self._caution is not None
        defaults = {"scope": "global", "relative_steps": False, "on_rescale": "keep", "project": not cautious}
        others = [f"{n}={getattr(self, n)!r}" for n, value in defaults.items() if getattr(self, n) != value]
        first = [f"R={self.R!r}", f"T={self.T!r}", *(["cautious=True"] if cautious else [])]
        return [*first, *others, *super()._shown(), f"k={self.k}"]

    def __getstate__(self) -> dict[str, Any]:
        # A copy of the optimizer must not hold a copy of the network.
        return {**super().__getstate__(), "_inputs": None}

    def progress(self) -> dict[str, Any]:
        """Return t, k, R_0, R_k, the number of skipped steps, and what the warm-up left."""
        own = {"k": self.k, "paused": self.paused, "grows": self._grows}
        return {**super().progress(), **own, "R_0": self.R_0, "R_k": self.R_k}

    def restore_progress(self, progress: dict[str, Any]) -> None:
        """Set the numbers that `progress` returned, for the same schedule of times."""
        warm_up, k, paused = (progress[name] for name in ("warm_up", "k", "paused"))
        t = progress["t"] - (NEVER if warm_up is None else warm_up) - paused
        if t > self.T(k) or (k > 0 and t <= self.T(k - 1)):
            raise ValueError(
                f"The state (t = {progress['t']}, k = {k}) does not fit {self.T!r} with "
                f"warm_up = {('auto' if warm_up is None else warm_up)!r}. Make the optimizer with the T of "
                "the run that saved the state."
            )
        super().restore_progress(progress)
        self.k, self.paused, self._grows = k, paused, progress["grows"]
        self._radii.restore(progress["R_0"], progress["R_k"])
