"""Training from the command line with PyTorch and NumPy alone; ``prgd train`` calls `train_with` too."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from prgd.cli.options import from_options
from prgd.core.checks import check_writable
from prgd.deep.homogeneity import NotHomogeneousWarning
from prgd_paper.training.checkpoint import NEWEST, PREVIOUS, DamagedCheckpointWarning
from prgd_paper.training.cifar import cifar10, fetch_cifar10
from prgd_paper.training.images import Images, synthetic
from prgd_paper.training.logs import CSV_NAME
from prgd_paper.training.settings import DEFAULT_FOLDER, Launch, Settings, Where, add_arguments
from prgd_paper.training.train_loop import Run

WARNINGS = (NotHomogeneousWarning, DamagedCheckpointWarning)  # those that the command always shows
FILES = (NEWEST, PREVIOUS, CSV_NAME)
INTERRUPTED = 130  # exit code that a shell reports for a process ended by Ctrl-C


def open_images(data: str, folder: Path = DEFAULT_FOLDER, *, fetch: bool = False) -> Images:
    """Return the images that ``--data`` names."""
    if data == "synthetic":
        return synthetic()
    return fetch_cifar10(folder) if fetch else cifar10(folder)


def train_with(given: Mapping[str, Any]) -> Run:
    """Train with the values of the options, by field name; check the output folder before the long work.

    Under ``torchrun`` the run is shared by its processes.
    """
    settings, where = from_options(Settings, given), from_options(Where, given)
    launch = from_options(Launch, given)
    if where.out is not None:
        check_writable(where.out)
        if not where.resume and not launch.force:
            _check_free(where.out)
    if launch.threads:
        torch.set_num_threads(launch.threads)
    is_shared = int(os.environ.get("WORLD_SIZE", "1")) > 1
    where = _join_processes(where) if is_shared else where
    try:
        prepare_device(where.device)
        run = Run(settings, open_images(settings.data, launch.folder, fetch=launch.fetch), where)
        if where.out is not None and launch.force and not where.resume and run.rank == 0:
            for name in FILES:
                (where.out / name).unlink(missing_ok=True)
        run.go()
        if is_shared:
            torch.distributed.barrier()  # A process that leaves first would break the others' connections.
    except BaseException:
        if is_shared:
            torch.distributed.destroy_process_group()
        raise
    if where.out is not None and run.rank == 0 and not where.quiet:
        print(f"files: {where.out / 'log.csv'}, {where.out / 'checkpoint.pt'}")
    return run


def _check_free(out: Path) -> None:
    """Raise ``ValueError`` if the folder has files of an earlier run, which this one would overwrite."""
    # Processes that share a run check at the same time; none of them has written before all have checked.
    if found := [name for name in FILES if (out / name).exists()]:
        raise ValueError(
            f"{out} has the files of an earlier run ({', '.join(found)}). Give another --out, --resume to go "
            "on from them, or --force to replace them."
        )


def prepare_device(device: str) -> None:
    """Let the CUDA libraries choose the fastest kernels; the CPU needs nothing."""
    if Where(device=device).torch_device.type == "cuda":  # pragma: cuda only
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True


def _join_processes(where: Where) -> Where:
    """Join the processes that torchrun started; each takes a GPU of its own, or shares the CPU."""
    device = where.torch_device
    if device.type == "cuda":  # pragma: cuda only
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return replace(where, device=str(device))


def parser() -> argparse.ArgumentParser:
    """Return a parser with one option for each field of `Settings`, `Where` and `Launch`."""
    p = argparse.ArgumentParser(prog="python -m prgd_paper.training.command", description=main.__doc__)
    add_arguments(p, Settings, Where, Launch)
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Train a network with GD, NGD or PRGD and log loss, accuracy and normalized margin."""
    given = vars(parser().parse_args(arguments))
    with warnings.catch_warnings():
        for kind in WARNINGS:
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *_, **__: print(f"Warning: {message}", file=sys.stderr)
        try:
            train_with(given)
        except (ValueError, TypeError, ImportError, OSError) as error:
            print(f"Error: {' '.join(str(error).splitlines())}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("Interrupted; --resume goes on from the last checkpoint.", file=sys.stderr)
            return INTERRUPTED
    return 0


if __name__ == "__main__":
    code = main()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # Gloo's threads abort now and then while a process takes them down; all files are written here.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
