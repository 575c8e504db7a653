"""Loss, accuracy and smallest margin of a network over a whole set that lies on the device."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from prgd.deep.margins import example_margins
from prgd.deep.optim.loss import log_cross_entropy
from prgd.deep.optim.tensors import processes
from prgd.deep.training.steps import DeviceImages, autocast

BATCH = 2000


class Evaluation(NamedTuple):
    """What one pass over a set tells."""

    log_loss: float
    accuracy: float
    margin: float  # the smallest f_y - max f_j, not normalized

    @property
    def loss(self) -> float:
        """The mean cross-entropy; 0 where it underflows."""
        return math.exp(min(self.log_loss, 700.0))


@torch.no_grad()
def evaluate(model: nn.Module, data: DeviceImages, *, amp: str) -> Evaluation:
    """Return loss, accuracy and smallest margin; each process takes a share, and all get the same answer.

    The loss is summed in the log frame, so that it does not underflow. One number is read from the device
    at the end.
    """
    world, rank = processes()
    was_training = model.training
    model.eval()
    parts = []
    share = torch.arange(rank, len(data), world, device=data.labels.device)
    for index in torch.split(share, BATCH):
        inputs, target = data.batch(index)
        with autocast(index.device, amp):
            logits = model(inputs)
        logits = logits.float()
        margins = example_margins(logits, target)
        log_sum = log_cross_entropy(logits, target).double() + math.log(len(index))
        parts.append(torch.stack([log_sum, (margins > 0).sum().double(), margins.min().double()]))
    model.train(was_training)
    found = _everywhere(torch.stack(parts), world)
    log_loss = torch.logsumexp(found[:, 0], dim=0) - math.log(len(data))
    summary = torch.stack([log_loss, found[:, 1].sum() / len(data), found[:, 2].min()])
    return Evaluation(*summary.tolist())


def _everywhere(rows: Tensor, world: int) -> Tensor:
    """Return the rows of all processes, one below the other."""
    if world == 1:
        return rows
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(world)]
    torch.distributed.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    longest = max(int(count) for count in counts)
    padded = rows.new_zeros(longest, rows.shape[1])
    padded[: len(rows)] = rows
    every = [torch.empty_like(padded) for _ in range(world)]
    torch.distributed.all_gather(every, padded)
    return torch.cat([part[: int(count)] for part, count in zip(every, counts, strict=True)])
