"""The mechanics that GD, NGD and PRGD share: base optimizer, division by the loss, skipped steps, state."""

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any, Literal
from weakref import finalize

import torch
from torch import Tensor

from prgd.core.checks import check_integer
from prgd.deep.optim.base import (
    begin_late_momentum,
    check_options,
    checked_base,
    checked_parameters,
    default_sgd,
    dense_entries,
    described,
    described_rate,
    tell_warm_up,
)
from prgd.deep.optim.compiled import compiled_step, registered
from prgd.deep.optim.criterion import (
    Accumulate,
    Criterion,
    RecordedLosses,
    accumulated_batches,
    checked_loss,
    recording,
)
from prgd.deep.optim.running_loss import ADAPT_EVERY, SEPARATED, WARN_EVERY, Caution, Monitor, RunningLoss
from prgd.deep.optim.tensors import grouped, processes, scale_and_check_
from prgd.schedules import NEVER

Loss = Tensor | float
Closure = Callable[[], Loss]  # evaluates the model again and returns the loss
# Parameters or their groups, a network, or a base optimizer.
Params = Iterable[Any] | torch.nn.Module | torch.optim.Optimizer
WarmUp = int | Literal["auto"]


class Wrapper(torch.optim.Optimizer):
    """An optimizer around a base optimizer, with which it shares parameter groups and state.

    Its own state (the step t, the number of skipped steps) is kept beside the base's, never inside it.
    """

    #: The base optimizer, which shares its parameter groups and state. Step the wrapper in its place.
    base: torch.optim.Optimizer

    def __init__(
        self, params: Params, *, loss_scaled: bool, warm_up: WarmUp, cautious: bool = False, **sgd: Any
    ) -> None:
        if warm_up != "auto":
            check_integer('warm_up, if it is not "auto",', warm_up, minimum=0)
        if isinstance(params, Wrapper):
            raise TypeError(f"The base optimizer is itself a {type(params).__name__}; pass its .base.")
        given = isinstance(params, torch.optim.Optimizer)
        check_options(type(self), sgd, type(params) if given else None)
        self.base = checked_base(params) if given else default_sgd(params, sgd)
        super().__init__(self.base.param_groups, self.base.defaults)
        self._share()
        self.loss_scaled, self.t = loss_scaled, 0
        self._waits = warm_up == "auto"  # whether the end of the warm-up is not known yet
        self._reached = [0.0] * self._waits  # t, the running loss and its aim, until `tell_warm_up` has told
        finalize(self, tell_warm_up, self._reached)
        self.warm_up: int = NEVER if warm_up == "auto" else warm_up
        parameters = checked_parameters(self._parameters())
        device = parameters[0].device
        self._dtype = torch.float64 if any(p.dtype == torch.float64 for p in parameters) else torch.float32
        self._one = torch.ones((), dtype=self._dtype, device=device)
        self._plain_on_device = torch.empty((), dtype=torch.bool, device=device)
        self._set_plain(not loss_scaled or self.warm_up > 0)
        self.running_loss = RunningLoss(self._one)
        self._L_0 = torch.ones_like(self._one)
        self._set_first_loss(1.0)
        self._caution = Caution(self._one, self._L_0) if cautious else None
        self._monitor = Monitor()
        self._non_finite = torch.zeros((), dtype=torch.float32, device=device)
        self._skipped = torch.zeros_like(self._non_finite)  # float32 counts exactly up to 2^24
        self._has_stepped = False
        self._stepped: list[int] = []  # the parameters of the last step, whose momentum has begun
        self._losses = RecordedLosses()
        self._number = registered(self)

    @property
    def warming_up(self) -> bool:
        """Whether the next step is a plain step of the warm-up."""
        return self.t < self.warm_up

    @property
    def skipped(self) -> int:
        """Number of steps skipped for a non-finite loss or gradient. Reading it waits for the device."""
        return int(self._skipped)

    @property
    def rescale_due(self) -> bool:
        """Whether the next step only rescales, so that it needs neither a gradient nor a loss."""
        return False

    @torch.no_grad()
    def step(self, closure: Closure | None = None, *, loss: Loss | None = None) -> Loss | None:  # type: ignore[override]
        """Take one step and return the loss.

        Parameters
        ----------
        closure : callable that evaluates the model again and returns the loss; optional.
        loss : the mean loss before `GradScaler`, which a loss-scaled step needs without `watch` or a closure.
        """
        if torch.compiler.is_compiling():
            return self._compiled_step(closure, loss)
        loss = self._evaluated(closure, loss, needs_loss=True)
        capturing = self._capturing()
        if not capturing:
            self.prepare()
        self._step_base(loss, capturing)
        return loss

    def _compiled_step(self, closure: Closure | None, loss: Loss | None) -> Loss | None:
        """Take a step as one operator of the graph that is being compiled."""
        if closure is not None:
            loss = self._evaluated(closure, loss, needs_loss=False)
        compiled_step(self, self._number, loss)
        return loss

    def prepare(self) -> bool:
        """Do the host's part of the next step, before the replay of a CUDA graph that holds a ``step``.

        Replay the graph if False comes back; True means that it was all of the step (a rescaling).
        """
        self._advance()
        return False

    def _advance(self) -> None:
        if self.t == self.warm_up and self.loss_scaled:
            self._set_plain(False)
            if self.t > 0:  # Loss-scaled steps begin with the length of plain steps.
                self._set_first_loss(self.running_loss.read() or 1.0)
                if self._caution is not None:
                    self._caution.begin(self.L_0)
        self.t += 1
        if self.t % (ADAPT_EVERY if self._waits or self._caution is not None else WARN_EVERY) == 0:
            self._read_running_loss()

    def _set_first_loss(self, L_0: float) -> None:
        """Set L_0, by which steps over the loss begin with the length of plain steps."""
        self.L_0 = L_0 if L_0 > 0.0 else 1.0  # A quotient of two negative losses is no factor.
        self._L_0.fill_(self.L_0)

    def _read_running_loss(self) -> None:
        """Read the running loss: the warm-up may end, and a run that goes wrong gets its warning."""
        loss = self.running_loss.read()
        if self._waits and loss is not None:
            self._waits = not 0.0 <= loss < SEPARATED
            self.warm_up = self.warm_up if self._waits else self.t
            self._reached[:] = (self.t, loss, SEPARATED) if self._waits and self._reached else ()
            tell_warm_up(self._reached, self.param_groups)
        elif self._caution is not None and loss is not None and self.t > self.warm_up:
            self._caution.adapt(loss, self.L_0)
        if self.t % WARN_EVERY == 0:
            # Without loss scaling the numbers that are given may be logarithms of losses.
            risen = loss if self.loss_scaled and not self.warming_up else None
            self._monitor.check(self.skipped, risen, self._adjustable())

    def _adjustable(self) -> str:
        """Return the options that make steps smaller, with their values, as part of a sentence."""
        return described_rate(self.param_groups[0])

    def _set_plain(self, plain: bool) -> None:
        """Choose between plain steps and steps divided by the loss, on the host and on the device."""
        self._plain = plain
        self._plain_on_device.fill_(plain)

    def watch(self, criterion: Criterion, *, accumulate: Accumulate = "mean") -> Criterion:
        """Return a criterion like ``criterion`` that records its loss, so that ``step()`` needs none.

        The loss is recorded when the backward pass goes through it, not in validation. ``step(loss=loss)``
        takes precedence over recorded losses, and these over a closure's; ``step`` and ``zero_grad`` forget.

        Parameters
        ----------
        criterion : module or function that returns the loss of a batch, a tensor of one number.
        accumulate : what several losses between two steps are: with ``"mean"``, losses of which the loop
            divides each by their number; with ``"sum"``, shares of one loss.

        Examples
        --------
        >>> from prgd.deep import NGD
        >>> w = torch.nn.Parameter(torch.tensor([2.0]))
        >>> optimizer = NGD([w], lr=0.25, momentum=0.0)
        >>> criterion = optimizer.watch(torch.nn.MSELoss())
        >>> criterion(w, torch.zeros(1)).backward()
        >>> optimizer.step().item(), w.item()  # 2 - 0.25 * 4 / 4
        (4.0, 1.75)
        """
        return recording(criterion, self._losses, accumulate)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Delete the gradients and forget their losses, as ``torch.optim.Optimizer.zero_grad``."""
        self._losses.clear()
        super().zero_grad(set_to_none)

    def _evaluated(self, closure: Closure | None, loss: Loss | None, *, needs_loss: bool) -> Loss | None:
        """Return the loss given, or the loss that criteria recorded, or the loss of the closure.

        Raise if a step that ``needs_loss`` got none, and steps are divided by it or it ends the warm-up.
        """
        returned = None
        if closure is not None:
            if not callable(closure):
                raise TypeError(
                    f"step's first argument is a closure; call step(loss=loss). Got {type(closure).__name__}."
                )
            with torch.enable_grad():
                returned = closure()
        recorded = self._losses.take()
        loss = recorded if loss is None else loss
        if loss is None and returned is not None:
            if self.loss_scaled and (n := accumulated_batches(closure)) > 1:
                raise ValueError(
                    f"Gradients are those of {n} batches, and the closure returns the loss of the last batch "
                    f"divided by {n}. Watch the criterion: self.criterion = optimizer.watch(self.criterion)."
                )
            loss = returned
        if loss is None and needs_loss and (self.loss_scaled or self._waits):
            why = "divides the gradient" if self.loss_scaled else "ends a warm-up 'auto'"
            raise ValueError(
                f"{type(self).__name__} {why} by the loss, and got none. Call step(loss=loss), or "
                "step(closure) with a closure that returns the loss, or criterion = "
                "optimizer.watch(criterion) once and then step(), or train on prgd.deep.log_cross_entropy "
                "with loss_scaled=False and a warm_up that is a number."
            )
        return None if loss is None else checked_loss(loss)

    def _step_base(self, loss: Loss | None, capturing: bool) -> None:
        """Divide the gradients by the loss, then take a step of the base optimizer or skip the step."""
        for p in (p for p in self._parameters() if not p.requires_grad):
            p.grad = None  # A base would step along a gradient of earlier, and move what is frozen.
        stepped = [p for p in self._parameters() if p.grad is not None]
        gradients: list[Any] = [p.grad for p in stepped]
        if not self._skips_on_device and any(gradient.is_sparse for gradient in gradients):
            gradients = dense_entries(gradients, self.base)
        factor, witness = self._gradient_factor(loss, capturing)
        self._non_finite.zero_()
        scale_and_check_(grouped([*gradients, *witness]), factor, self._non_finite)
        self._step_unless_non_finite(stepped, capturing)
        self._skipped.add_(self._non_finite)

    def _gradient_factor(self, loss: Loss | None, capturing: bool) -> tuple[Tensor, list[Tensor]]:
        """Return the factor of the gradient, and a number that is finite if the loss is usable.

        The factor is L_0 / loss, 1, or `Caution`'s. One kernel checks the number and the gradients.
        """
        if loss is None:
            return self._one, []
        device = self._non_finite.device
        value = torch.as_tensor(loss, dtype=self._dtype, device=device)
        value = value.reshape(()) if value.ndim else value
        world, _ = processes()
        if world > 1:
            # Replicas that divide by losses of their own would drift apart.
            torch.distributed.all_reduce(value := value.clone())
            value /= world
        self.running_loss.add(value)
        if not self.loss_scaled or (self._plain and not capturing):
            return self._one, [value.clone()]
        if self._caution is not None:  # A cautious factor is 1 during the warm-up, so one graph serves both.
            # A step of SGD is proportional to the gradient; AdamW and Muon feel a factor only as it changes.
            is_linear = isinstance(self.base, torch.optim.SGD)
            factor = self._caution.factor(value, self.running_loss.mean) if is_linear else self._one
            return factor, [value.clone()]
        inverse = self._L_0 / value
        # log(L_0 / loss) is finite exactly for positive losses whose inverse is finite.
        witness = inverse.log()
        if capturing:  # One graph serves plain and loss-scaled steps.
            inverse = torch.where(self._plain_on_device, self._one, inverse)
            witness = torch.where(self._plain_on_device, value, witness)
        return inverse, [witness]

    @property
    def _skips_on_device(self) -> bool:
        """Whether the base is fused and has its state, so that it reads on the device whether to skip."""
        return self._has_stepped and getattr(self.base, "_step_supports_amp_scaling", False)

    def _step_unless_non_finite(self, stepped: list[Tensor], capturing: bool) -> None:
        """Take a step of the base optimizer, unless ``_non_finite`` is set.

        Fused optimizers read the flag on the device. Other optimizers wait for the flag, and so does the
        first step: a fused SGD leaves its momentum uninitialised if it skips its first step.
        """
        if self._skips_on_device:
            if (ids := [*map(id, stepped)]) != self._stepped:
                begin_late_momentum(self.base, has_stepped=True)
                self._stepped = ids
            self.base.found_inf = self._non_finite  # type: ignore[attr-defined]
            try:
                self.base.step()
            finally:
                del self.base.found_inf  # type: ignore[attr-defined]
        elif capturing:
            raise RuntimeError(
                "A CUDA graph can hold a step only after one step outside of it, and with a base optimizer "
                f"that skips on the device, such as torch.optim.SGD(..., fused=True); got {self.base!r}."
            )
        elif not bool(self._non_finite):
            begin_late_momentum(self.base, has_stepped=False)
            self.base.step()
            self._has_stepped = True

    def _capturing(self) -> bool:
        """Tell whether a CUDA graph is being captured; a capture must not change the state on the host."""
        return self._non_finite.is_cuda and torch.cuda.is_current_stream_capturing()

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _share(self) -> None:
        self.param_groups, self.state = self.base.param_groups, self.base.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to the base optimizer, as ``torch.optim.Optimizer.add_param_group``."""
        if self.param_groups is not self.base.param_groups:  # called by the constructor of torch's Optimizer
            super().add_param_group(param_group)
            return
        self.base.add_param_group(param_group)
        self._has_stepped = False

    def state_dict(self) -> dict[str, Any]:
        """Return the base's state and, under ``"prgd"``, the wrapper's; ``weights_only=True`` loads it."""
        shapes = [list(p.shape) for p in self._parameters()]
        tell_warm_up(self._reached)
        return {**self.base.state_dict(), "prgd": {**self.progress(), "shapes": shapes}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the step at which ``state_dict`` was taken, bit by bit."""
        if "prgd" not in state_dict:
            raise ValueError(
                f"This is not the state of a {type(self).__name__}: it has no entry 'prgd'. Load the state "
                "of a base optimizer with optimizer.base.load_state_dict."
            )
        own = dict(state_dict["prgd"])
        saved = [tuple(shape) for shape in own.pop("shapes")]
        shapes = [tuple(p.shape) for p in self._parameters()]
        if saved != shapes:
            there, here = next(pair for pair in zip_longest(saved, shapes) if pair[0] != pair[1])
            raise ValueError(
                f"The state is of another model: it has {len(saved)} parameters, this model {len(shapes)}; "
                f"the first to differ has the shape {there} there and {here} here."
            )
        self.restore_progress(own)
        self.base.load_state_dict({k: v for k, v in state_dict.items() if k != "prgd"})
        self._share()
        self._has_stepped = False

    def progress(self) -> dict[str, Any]:
        """Return the wrapper's own state in plain numbers."""
        warm_up = None if self._waits else self.warm_up
        return {
            "t": self.t,
            "skipped": self.skipped,
            "warm_up": warm_up,
            "L_0": self.L_0,
            **self.running_loss.state(),
            "caution": None if self._caution is None else self._caution.state(),
        }

    def restore_progress(self, progress: dict[str, Any]) -> None:
        """Set the numbers that `progress` returned."""
        self.t = progress["t"]
        self._skipped.fill_(progress["skipped"])
        self._waits = progress["warm_up"] is None
        self.warm_up = NEVER if self._waits else progress["warm_up"]
        self._set_first_loss(progress["L_0"])
        self.running_loss.restore(progress)
        if self._caution is not None and progress["caution"] is not None:
            self._caution.restore(progress["caution"])
        self._monitor = Monitor(progress["skipped"])
        self._set_plain(not self.loss_scaled or self.t < self.warm_up)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        """Return the parts of the repr: the base optimizer, and how far the run is."""
        warm_up = ["warm_up='auto'"] if self._waits else [f"warm_up={self.warm_up}"] if self.warm_up else []
        warm_up += [f"warming_up={self.warming_up}"] if warm_up else []
        # The loss is the last that was read, so that a repr never waits for the device.
        loss = [] if self.running_loss.last is None else [f"running_loss={self.running_loss.last:.3g}"]
        return [described(self.base), *warm_up, *loss, f"t={self.t}"]

    def __getstate__(self) -> dict[str, Any]:
        # A scheduler patches ``step`` on the instance, and a copy must get a step of its own.
        return {name: value for name, value in self.__dict__.items() if name != "step"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._number = registered(self)
