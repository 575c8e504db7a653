"""The command ``prgd train``, whose options are the fields of `training.settings`.

Quick to import: PyTorch is loaded when the command runs.
"""

from __future__ import annotations

import warnings
from typing import Any

from prgd.cli.common import Debug, one_line_errors, with_options
from prgd.cli.options import COMPUTING, DATA, METHOD, OUTPUT, options_of
from prgd_paper.training.settings import Launch, Settings, Where

_PANELS = (DATA, METHOD, COMPUTING, OUTPUT)
_OPTIONS = [o for form in (Settings, Launch, Where) for o in options_of(form)]


@with_options(sorted(_OPTIONS, key=lambda o: _PANELS.index(o.panel)))
def train_command(*, debug: Debug = False, **given: Any) -> None:
    """Train a homogeneous network with GD, NGD or PRGD; log loss, accuracy and normalized margin.

    Several processes share a run under torchrun, with python -m prgd_paper.training.command, which takes
    the same options and needs PyTorch and NumPy alone.

    Example: prgd train --data cifar10 --fetch --algorithm prgd --epochs 60 --amp bf16 --out results
    """
    with one_line_errors(debug):
        try:
            from prgd_paper.training.command import WARNINGS, train_with
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            said = "prgd train needs torch: pip install './paper[deep]' in a checkout of prgd."
            raise ModuleNotFoundError(said, name="torch") from error
        for kind in WARNINGS:
            warnings.simplefilter("always", kind)
        train_with(given)
