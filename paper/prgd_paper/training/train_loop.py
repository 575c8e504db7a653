"""One training run: epochs of steps, evaluation, the loss-scaled rate, checkpoints."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from prgd.core.files import OtherFileError, SaveTimer
from prgd.deep.homogeneity import check_homogeneous
from prgd.deep.margins import normalize, parameter_norm
from prgd.deep.optim.ngd import GD, NGD
from prgd.deep.optim.prgd import PRGD
from prgd.deep.optim.tensors import gathered, processes
from prgd.deep.optim.wrapper import Wrapper
from prgd_paper.training import logs
from prgd_paper.training.checkpoint import load_checkpoint, save_checkpoint, whole_checkpoint
from prgd_paper.training.evaluation import Scores, evaluate, evaluate_kkt
from prgd_paper.training.images import Images
from prgd_paper.training.loss_scaled_lr import LossScaledLR
from prgd_paper.training.models import build_model
from prgd_paper.training.settings import Settings, Where
from prgd_paper.training.steps import DeviceImages, Stepper, batches, divided_by_batch_loss, own_stream

_AGREE_EVERY = 16  # steps after which the processes of a shared run agree whether it is time to save


class Run:
    """A training run that can stop and go on at any step.

    Parameters
    ----------
    settings : Settings
    images : Images
        The whole data set; the run makes the validation split.
    where : Where
    """

    def __init__(self, settings: Settings, images: Images, where: Where) -> None:
        self.settings = s = settings
        self.where, self.device = where, where.torch_device
        self.world, self.rank = processes()
        if s.batch % self.world:
            raise ValueError(
                f"batch must be a multiple of the {self.world} processes of the run; got {s.batch}."
            )
        # Who goes on from a checkpoint must see the same images; without a folder there is no checkpoint.
        self._images = "" if where.out is None else images.fingerprint
        images = images.with_validation(s.validation) if s.validation else images
        scale = (images.channel_statistics, self.device)
        self.train = DeviceImages(images.train, images.train_labels, *scale, pads=s.augment)
        self.test = DeviceImages(images.test, images.test_labels, *scale, pads=False)
        self.model = build_model(
            s.model, images.shape, images.classes, bias=s.bias, dropout=s.dropout, seed=s.seed
        )
        some, _ = self.test.batch(torch.arange(2, device=self.device))
        self.degree = check_homogeneous(self.model, some.cpu(), strict=where.strict).degree
        self.model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = self._make_optimizer(len(self.train))
        self.generator = torch.Generator(self.device).manual_seed(s.seed * 1009 + self.rank)
        self.stepper = Stepper(
            self._wrapped(),
            self.optimizer,
            self.train,
            self.generator,
            amp=s.amp,
            augment=s.augment,
            graphs=where.graphs and self.device.type == "cuda" and self.world == 1,
        )
        self.rate: LossScaledLR | None = None
        # The scores of the parameters to which an undo returns.
        self._kept_scores: tuple[Scores, Scores] | None = None
        self._timer = SaveTimer(where.save_every)
        self.epoch, self.position, self.seconds = 0, 0, 0.0
        self.steps = s.steps_per_epoch(len(self.train))
        rows: list[logs.Row] = []
        if where.resume:
            if where.out is None:
                raise ValueError("--resume needs --out, the folder of the run that goes on.")
            state = load_checkpoint(where.out, self.device)
            with whole_checkpoint(where.out):
                rows = self._restore(state)
        self.log = logs.Log(where.out if self.rank == 0 else None, rows, tensorboard=where.tensorboard)

    @property
    def step(self) -> int:
        """The number of steps so far; rescalings and steps of epochs that were undone count too."""
        return self.epoch * self.steps + self.position

    def go(self) -> None:
        """Train to the last epoch, to ``stop_loss``, or until the loss is not finite."""
        quiet = self.where.quiet or self.rank > 0
        with own_stream(self.device), logs.progress(self.settings.epochs * self.steps, quiet=quiet) as shown:
            after_step, after_epoch = shown
            self._started = time.monotonic() - self.seconds
            if not self.log.rows:
                self._save_if_due()
                self._add_row(*self._evaluate(), undone=False)
                after_epoch(self.log.rows[-1])
            while not self._is_over():
                order = self._order_of_epoch()
                while self.position < self.steps:
                    self._take_step(order)
                    after_step(self.step)
                self._end_epoch()
                after_epoch(self.log.rows[-1])
            self._save()
        self.log.close()

    def _is_over(self) -> bool:
        """Return whether the run has ended: by its epochs, its loss, or a loss that is not finite."""
        if self.position or self.epoch == 0:
            return False
        last = self.log.rows[-1]
        is_separated = last["train_accuracy"] == 1.0 and last["train_loss"] < self.settings.stop_loss
        return (
            self.epoch >= self.settings.epochs
            or not last["log_train_loss"] < math.inf
            or (is_separated and not self.optimizer.warming_up)
        )

    def _order_of_epoch(self) -> Tensor:
        """Return the indices of the epoch's batches, of each batch the part of this process."""
        order = batches(len(self.train), self.settings.batch, self.settings.seed, self.epoch)
        return order.to(self.device)[:, self.rank :: self.world]

    def _take_step(self, order: Tensor) -> None:
        if not self._begin_loss_scaling():
            self.stepper.step(order[self.position])
        self.position += 1
        if self.position < self.steps:
            self._save_if_due()

    def _end_epoch(self) -> None:
        """Evaluate, let the loss-scaled rate keep or undo the epoch, and log."""
        train, test = self._evaluate()
        stands = self.rate is None or self.rate.step(log_loss=train.log_loss)
        if not stands:  # The epoch was undone: the parameters are those before it.
            train, test = self._kept_scores or self._evaluate()
        self._kept_scores = train, test
        self.epoch, self.position = self.epoch + 1, 0
        self._add_row(train, test, undone=not stands)
        self._save_if_due()

    def _begin_loss_scaling(self) -> bool:
        """At the end of the warm-up, begin to divide by the loss; return whether that took a step.

        PRGD rescales first, since the first rescaling changes L.
        """
        settings, optimizer = self.settings, self.optimizer
        if self.rate is not None or not settings.loss_scaled or optimizer.warming_up:
            return False
        if settings.loss_scaling == "batch":
            if self.stepper.objective is not divided_by_batch_loss:
                self.stepper.set_objective(divided_by_batch_loss)
            return False
        rescales = optimizer.rescale_due
        if rescales:
            optimizer.step()
        log_loss = evaluate(self.model, self.train, amp=settings.amp).log_loss
        self._make_rate(log_loss, alpha=settings.lr * math.exp(max(log_loss, -60.0)))
        return rescales

    def _make_rate(self, log_loss: float, alpha: float) -> LossScaledLR:
        # With weight decay the rate itself is alpha / L, so that the decay too is divided by L.
        in_log_frame = self.settings.weight_decay == 0.0
        self._kept_scores = None  # An undo returns to the parameters of this moment, not of an epoch's end.
        self.rate = rate = LossScaledLR(
            self.optimizer, self.model, log_loss=log_loss, alpha=alpha, in_log_frame=in_log_frame
        )
        if in_log_frame:
            self.stepper.set_objective(rate.relative)
        return rate

    def _make_optimizer(self, n: int) -> Wrapper:
        s = self.settings
        # A captured graph reads the rate from the device, so that the rate can change.
        lr: Any = torch.tensor(s.lr, device=self.device) if self.device.type == "cuda" else s.lr
        sgd = {"lr": lr, "momentum": s.momentum, "weight_decay": s.weight_decay}
        if s.algorithm == "gd":
            return GD(self.model.parameters(), **sgd)
        if s.algorithm == "ngd":
            return NGD(self.model.parameters(), loss_scaled=False, **sgd)
        R, T = s.schedules(n)
        schedule: dict[str, Any] = {"R": R, "T": T, "warm_up": s.warm_up or T.warm_up}
        schedule |= {"on_rescale": s.on_rescale, "project": s.project}
        return PRGD(self.model.parameters(), **schedule, loss_scaled=False, **sgd)

    def _wrapped(self) -> nn.Module:
        model: Any = torch.compile(self.model) if self.where.compile else self.model
        return DistributedDataParallel(model) if self.world > 1 else model

    def _evaluate(self) -> tuple[Scores, Scores]:
        amp = self.settings.amp
        return evaluate(self.model, self.train, amp=amp), evaluate(self.model, self.test, amp=amp)

    def _add_row(self, train: Scores, test: Scores, *, undone: bool) -> None:
        self.seconds = time.monotonic() - self._started
        norm = parameter_norm(self.model.parameters())
        R_k = getattr(self.optimizer, "R_k", math.inf)
        self.log.add(
            {
                "epoch": self.epoch,
                "step": self.step,
                "train_loss": train.loss,
                "log_train_loss": train.log_loss,
                "train_accuracy": train.accuracy,
                "test_accuracy": test.accuracy,
                "normalized_margin": float(normalize(np.array(train.margin), norm, self.degree)),
                "norm": norm,
                "R_k": R_k if math.isfinite(R_k) else "",
                "lr": self._effective_rate(),
                "undone": int(undone),
                "skipped": self.optimizer.skipped,
                "seconds": round(self.seconds, 3),
                **self._kkt(),
            }
        )

    def _kkt(self) -> logs.Row:
        """Return the columns of the KKT residual, if the settings ask for them."""
        if not self.settings.kkt:
            return {}
        found = evaluate_kkt(self.model, self.train, amp=self.settings.amp, degree=self.degree)
        return {f"kkt_{name}": getattr(found, name) for name in ("epsilon", "delta", "cosine")}

    def _effective_rate(self) -> float:
        """Return the factor of the plain gradient in a step."""
        lr = float(self.optimizer.param_groups[0]["lr"])
        if self.rate is not None and self.rate.in_log_frame:
            return lr * math.exp(min(-self.rate.log_loss, 700.0))
        return lr

    def _save_if_due(self) -> None:
        every = self.where.checkpoint_every
        if (every and self.step > 0 and self.step % every == 0) or self._is_time_to_save():
            self._timer.time(self._save)

    def _is_time_to_save(self) -> bool:
        """Return whether the clock of the first process says so: all processes must save at the same step."""
        if self.where.out is None or (self.world > 1 and self.step % _AGREE_EVERY):
            return False
        return bool(gathered(self._timer.is_due())[0])

    def _save(self) -> None:
        if self.where.out is None:
            return
        state = self.state()
        if self.rank == 0:
            save_checkpoint(self.where.out, state)

    def state(self) -> dict[str, Any]:
        """Return all that a run needs to go on; every process of a shared run must call this."""
        generators = gathered(self.generator.get_state())
        self.seconds = time.monotonic() - self._started
        return {
            "settings": self.settings.as_dict(),
            "images": self._images,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rate": None if self.rate is None else self.rate.state_dict(),
            "generators": generators,
            "epoch": self.epoch,
            "position": self.position,
            "seconds": self.seconds,
            "rows": self.log.rows,
        }

    def _restore(self, state: dict[str, Any]) -> list[logs.Row]:
        other = self.settings.differences(state["settings"])
        if len(state["generators"]) != self.world:
            other.append(f"{len(state['generators'])} processes, not {self.world}")
        if state["images"] != self._images:
            other.append("other images or labels")
        if other:
            raise OtherFileError(
                f"the checkpoint is of another run: {'; '.join(other)}. Give the same options, or another "
                "--out."
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state["rate"] is not None:
            rate = self._make_rate(state["rate"]["log_loss"], state["rate"]["alpha"])
            rate.load_state_dict(state["rate"])
        self.generator.set_state(state["generators"][self.rank].cpu())
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        self.seconds = float(state["seconds"])
        return [dict(row) for row in state["rows"]]


def train(settings: Settings, images: Images, where: Where | None = None) -> Run:
    """Train a network and return the run: ``run.model``, ``run.log.rows``, ``run.epoch``.

    Examples
    --------
    >>> from prgd_paper.training.images import synthetic
    >>> run = train(Settings(epochs=1, algorithm="gd"), synthetic(200, size=8), Where(device="cpu"))
    >>> run.log.rows[-1]["train_loss"] < run.log.rows[0]["train_loss"]
    True
    """
    run = Run(settings, images, where or Where())
    run.go()
    return run
