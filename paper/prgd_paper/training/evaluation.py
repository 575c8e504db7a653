"""Loss, accuracy, smallest margin and KKT residual of a network over a data set on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from prgd.deep.homogeneity import evaluation_mode
from prgd.deep.kkt import KKTResidual, KKTSums
from prgd.deep.margins import example_margins
from prgd.deep.optim.loss import log_cross_entropy
from prgd.deep.optim.tensors import gathered, processes
from prgd_paper.training.steps import DeviceImages, autocast

BATCH = 2000


class Scores(NamedTuple):
    """Loss, accuracy and smallest margin over one data set."""

    log_loss: float
    accuracy: float
    margin: float  # the smallest f_y - max f_j, not normalized

    @property
    def loss(self) -> float:
        """The mean cross-entropy; 0 if it underflows."""
        return math.exp(min(self.log_loss, 700.0))


@torch.no_grad()
def evaluate(model: nn.Module, data: DeviceImages, *, amp: str) -> Scores:
    """Return loss, accuracy and smallest margin; each process takes a share, and all get the same result.

    The loss is summed as its logarithm, so that it does not underflow. The host waits for the device once, at
    the end.
    """
    parts = []
    with evaluation_mode(model):
        for index in _share(data):
            inputs, target = data.batch(index)
            with autocast(index.device, amp):
                logits = model(inputs).float()
            margins = example_margins(logits, target)
            log_sum = log_cross_entropy(logits, target).double() + math.log(len(index))
            parts.append(torch.stack([log_sum, (margins > 0).sum().double(), margins.min().double()]))
    found = torch.cat(gathered(torch.stack(parts).cpu()))
    log_loss = torch.logsumexp(found[:, 0], dim=0) - math.log(len(data))
    summary = torch.stack([log_loss, found[:, 1].sum() / len(data), found[:, 2].min()])
    return Scores(*summary.tolist())


def evaluate_kkt(model: nn.Module, data: DeviceImages, *, amp: str, degree: float) -> KKTResidual:
    """Return the KKT residual, by one backward pass a batch; each process takes a share, as in `evaluate`.

    The residual is NaN if the network has diverged, and infinite if the network does not separate the data.
    """
    sums = KKTSums.of(model)
    with evaluation_mode(model), autocast(sums.device, amp):
        for index in _share(data):
            sums.add(model, *data.batch(index))
    sums.reduce()
    return sums.residual(degree)


def _share(data: DeviceImages) -> Sequence[Tensor]:
    """Return the indices of this process's part of the data, in batches."""
    world, rank = processes()
    share = torch.arange(rank, len(data), world, device=data.labels.device)
    parts: Sequence[Tensor] = torch.split(share, BATCH)
    return parts
