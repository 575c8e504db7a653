"""All that decides a training run, as one frozen value."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from prgd.checks import check_integer, check_positive, unknown
from prgd.deep.training.images import Images
from prgd.schedules import APPENDIX_RADII, Polynomial, PowerTimes

Algorithm = Literal["gd", "ngd", "prgd"]
LossScaling = Literal["epoch", "batch"]
DATA = ("synthetic", "cifar10")


@dataclass(frozen=True)
class Settings:
    """What is trained, on what, and how. Two runs of equal settings on one machine are the same run.

    Attributes
    ----------
    data : str
        ``"synthetic"`` or ``"cifar10"``.
    model : str
        A name of `build_model`; the paper's ``vgg16`` for CIFAR-10 and ``cnn`` for synthetic images.
    algorithm : {"gd", "ngd", "prgd"}
    epochs, batch, seed : int
        ``batch`` is that of all processes together. The seed is that of weights, order, dropout and
        augmentation.
    lr : float
        Step size of plain steps. Loss-scaled steps begin with it too: alpha = lr L.
    momentum, weight_decay, dropout : float
    bias : {"first", "none", "all"}
    loss_scaling : {"epoch", "batch"}
        Steps of NGD and PRGD are divided by the loss of the training set, as Lyu and Li do, with alpha
        grown or an epoch undone by what the epoch did to it; or by the loss of the batch, with a
        constant rate.
    schedule_scale : float
        s of ``T_k = s (2 + k/s)^3`` and ``R_k = min(R_0 (2 + k/s)^0.2, 1000)``. The appendix's 3000 for
        CIFAR-10; by default an eighth of an epoch elsewhere, so that the first epoch is warm-up.
    warm_up : int
        Plain steps of PRGD before its first rescaling; T_0 = 8 s unless given.
    on_rescale : {"keep", "scale", "reset"}
        What a rescaling does to the momentum. The paper does not say; a plain script would keep it.
    augment : bool
        Random crops and mirrored images.
    validation : float
        Part of the training set that takes the place of the test set; 0 for none.
    amp : {"bf16", "off"}
    """

    data: str = "synthetic"
    model: str = ""
    algorithm: Algorithm = "prgd"
    epochs: int = 2
    batch: int = 64
    seed: int = 0
    lr: float = 0.0
    momentum: float = 0.9
    weight_decay: float = 0.0
    dropout: float = 0.0
    bias: Literal["first", "none", "all"] = "first"
    loss_scaling: LossScaling = "epoch"
    schedule_scale: float = 0.0
    warm_up: int = 0
    on_rescale: Literal["keep", "scale", "reset"] = "keep"
    augment: bool = False
    validation: float = 0.0
    amp: Literal["bf16", "off"] = "off"

    def __post_init__(self) -> None:
        if self.data not in DATA:
            raise unknown("data set", self.data, DATA)
        is_cifar = self.data == "cifar10"
        self._default("model", "vgg16" if is_cifar else "cnn")
        self._default("lr", 1e-3 if is_cifar else 1e-2)
        for name, kind in (("algorithm", Algorithm), ("loss_scaling", LossScaling), ("amp", ("bf16", "off"))):
            known = kind if isinstance(kind, tuple) else get_args(kind)
            if getattr(self, name) not in known:
                raise unknown(name.replace("_", " "), getattr(self, name), known)
        check_integer("epochs", self.epochs, minimum=1)
        check_integer("batch", self.batch, minimum=1)
        check_integer("seed", self.seed, minimum=0)
        check_integer("warm_up", self.warm_up, minimum=0)
        check_positive("lr", self.lr)
        for name in ("momentum", "weight_decay", "schedule_scale"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}.")
        if not 0.0 <= self.validation < 1.0:
            raise ValueError(f"validation must be at least 0 and below 1; got {self.validation!r}.")

    def _default(self, name: str, value: Any) -> None:
        if not getattr(self, name):
            object.__setattr__(self, name, value)

    @property
    def loss_scaled(self) -> bool:
        """Whether steps are divided by the loss (after the warm-up of PRGD)."""
        return self.algorithm != "gd"

    def steps_per_epoch(self, n: int) -> int:
        """Return how many batches cover n images."""
        return -(-n // self.batch)

    def schedules(self, n: int) -> tuple[Polynomial, PowerTimes]:
        """Return R and T of the appendix, for n training images."""
        scale = self.schedule_scale
        if not scale:
            scale = PowerTimes().scale if self.data == "cifar10" else self.steps_per_epoch(n) / 8.0
        return replace(APPENDIX_RADII, scale=scale), PowerTimes(scale=scale)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return asdict(self)


def differences(saved: dict[str, Any], settings: Settings) -> list[str]:
    """Return what differs between saved settings and these, but for the number of epochs."""
    now = settings.as_dict()
    names = [field.name for field in fields(Settings) if field.name != "epochs"]
    return [f"{n} {saved.get(n)!r}, not {now[n]!r}" for n in names if saved.get(n) != now[n]]


def choose_images(settings: Settings, images: Images) -> Images:
    """Return the images that a run trains and is tested on: the validation split where one is asked for."""
    return images.with_validation(settings.validation) if settings.validation else images
