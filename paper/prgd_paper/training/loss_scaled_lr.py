"""The loss-scaled learning rate of Lyu and Li (2019), which undoes epochs that do not lower the loss."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from prgd.core.checks import check_positive
from prgd.deep.optim.tensors import local
from prgd.deep.optim.wrapper import Wrapper

_SMALLEST, _LARGEST = 1e-30, 1e30  # A float32 step of a rate beyond these is 0 or not finite.


class LossScaledLR:
    r"""Step size ``alpha / L``, with L the training loss; an epoch that does not lower L is undone.

    .. math:: \theta(t + 1) = \theta(t) - \frac{\alpha}{L} \nabla L(\theta(t))

    After an epoch that lowered L, ``alpha`` grows by 2^(1/5). After any other epoch, also one with a
    non-finite loss, parameters, buffers and optimizer state return to their values before the epoch, and
    ``alpha`` shrinks by 2^(-1/10). The copy of these values is kept on the device.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer; the ``lr`` of all its groups is set, in place if it is a tensor.
    model : torch.nn.Module, whose parameters and buffers an undo restores.
    log_loss : float, the logarithm of the training loss at the beginning.
    alpha : float.
    grow, shrink : float, the factors of ``alpha``.
    in_log_frame : bool
        Whether the loss is divided by L and not ``lr``: train on ``relative(log_loss)``, whose gradient does
        not underflow if L does.

    References
    ----------
    Lyu and Li (2019), Gradient descent maximizes the margin of homogeneous neural networks, Appendix L.1.

    Examples
    --------
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    >>> rate = LossScaledLR(optimizer, model, log_loss=math.log(0.5), alpha=0.1)
    >>> round(optimizer.param_groups[0]["lr"], 9)
    0.2
    >>> rate.step(loss=0.25), rate.step(loss=math.nan), round(rate.alpha, 4)
    (True, False, 0.1072)
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module,
        *,
        log_loss: float,
        alpha: float = 0.1,
        grow: float = 2.0**0.2,
        shrink: float = 2.0**-0.1,
        in_log_frame: bool = False,
    ) -> None:
        check_positive("alpha", alpha)
        check_positive("grow", grow, above=1.0)
        check_positive("shrink", shrink)
        if shrink >= 1.0:
            raise ValueError(f"shrink must be below 1; got {shrink!r}.")
        if not math.isfinite(log_loss):
            raise ValueError(f"log_loss must be finite before the first epoch; got {log_loss!r}.")
        known = {id(p) for p in model.parameters()}
        if not all(id(p) in known for group in optimizer.param_groups for p in group["params"]):
            raise ValueError("The optimizer has parameters outside of the model: an undo would miss them.")
        self.optimizer, self.model = optimizer, model
        self.alpha, self.grow, self.shrink, self.in_log_frame = alpha, grow, shrink, in_log_frame
        self.log_loss, self.undone = float(log_loss), 0
        # The reference is on the device, so that a captured CUDA graph reads its current value.
        self._reference = torch.tensor(self.log_loss, device=optimizer.param_groups[0]["params"][0].device)
        self._copies: dict[str, Tensor] = {}
        self._progress: dict[str, Any] = {}
        self._save()
        self._set_rate()

    def relative(self, log_loss: Tensor) -> Tensor:
        """Return ``L_batch / L`` from the logarithm of the batch's loss: the objective in the log frame."""
        return torch.exp(log_loss - self._reference)

    @torch.no_grad()
    def step(self, *, loss: float | Tensor | None = None, log_loss: float | Tensor | None = None) -> bool:
        """End an epoch with its training loss or the loss's logarithm; return whether the epoch stands."""
        if (loss is None) == (log_loss is None):
            raise ValueError("LossScaledLR.step needs either loss or log_loss; got both or none.")
        if log_loss is None:
            log_loss = math.log(loss) if loss > 0.0 else math.nan  # type: ignore[operator, arg-type]
        value = float(log_loss)
        stands = math.isfinite(value) and value < self.log_loss
        if stands:
            self.log_loss = value
            self._save()
        else:
            self.undone += 1
            self._undo()
        factor = self.grow if stands else self.shrink
        self.alpha = min(max(self.alpha * factor, _SMALLEST), _LARGEST)
        self._set_rate()
        return stands

    def state_dict(self) -> dict[str, Any]:
        """Return alpha, the last loss and the copies that an undo restores."""
        copies = {name: copy.clone() for name, copy in self._copies.items()}
        numbers = {"alpha": self.alpha, "log_loss": self.log_loss, "undone": self.undone}
        return {**numbers, "progress": dict(self._progress), "copies": copies}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the moment at which ``state_dict`` was taken, also within an epoch."""
        live, copies = self._live(), state_dict["copies"]
        for name in self._copies.keys() & live.keys():
            if name not in copies or copies[name].shape != live[name].shape:
                raise ValueError(
                    f"The state is of another model: {name} has not the shape {tuple(live[name].shape)}."
                )
        self.alpha, self.log_loss = state_dict["alpha"], state_dict["log_loss"]
        self.undone, self._progress = state_dict["undone"], dict(state_dict["progress"])
        for name, copy in copies.items():
            self._copies[name] = copy.to(live[name].device if name in live else self._reference.device)
        self._set_rate()

    def _live(self) -> dict[str, Tensor]:
        """Return all tensors that training changes, by name."""
        names = {id(p): name for name, p in self.model.named_parameters()}
        tensors = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        for parameter, state in self.optimizer.state.items():
            of = names[id(parameter)]
            tensors |= {f"{of}: {key}": value for key, value in state.items() if isinstance(value, Tensor)}
        return {name: local(tensor.detach()) for name, tensor in tensors.items()}

    @torch.no_grad()
    def _save(self) -> None:
        self._copies.clear()  # before new copies are made, which would need as much memory again
        self._copies |= {name: tensor.clone() for name, tensor in self._live().items()}
        if isinstance(self.optimizer, Wrapper):
            self._progress = self.optimizer.progress()

    def _undo(self) -> None:
        for name, tensor in self._live().items():
            if name in self._copies:
                tensor.copy_(self._copies[name])
            else:
                tensor.zero_()  # The undone epoch made this state, and an optimizer's state begins at 0.
        if isinstance(self.optimizer, Wrapper):
            self.optimizer.restore_progress({**self._progress, "skipped": self.optimizer.skipped})

    def _set_rate(self) -> None:
        self._reference.fill_(self.log_loss)
        exponent = math.log(self.alpha) - (0.0 if self.in_log_frame else self.log_loss)
        lr = math.exp(min(max(exponent, math.log(_SMALLEST)), math.log(_LARGEST)))
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
