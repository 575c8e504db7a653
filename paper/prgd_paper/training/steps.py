"""The inner loop: images on the device, one training step, and its CUDA graph."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prgd.core.replay import Work, record
from prgd.deep.optim.loss import log_cross_entropy
from prgd.deep.optim.tensors import processes
from prgd.deep.optim.wrapper import Wrapper
from prgd_paper.training.images import Array, Statistics
from prgd_paper.training.models import Dropout

Objective = Callable[[Tensor], Tensor]  # maps the log of the batch's loss to the objective
PAD = 4  # width in pixels of the border around an image, for random crops
EAGER_STEPS = 3  # steps before a capture, in which libraries choose kernels and the optimizer makes its state


class DeviceImages:
    """Pictures and labels on a device, as bytes; batches are returned normalised, channels last in memory.

    Parameters
    ----------
    pictures : ndarray of uint8, shape (n, channels, height, width)
    labels : ndarray of int64, shape (n,)
    statistics : pair of ndarray of shape (channels,)
        Mean and standard deviation that normalise the pixels, for pixels from 0 to 1.
    device : torch.device
    pads : bool
        Whether to store the border of zeros that ``augmented`` needs.
    """

    def __init__(
        self, pictures: Array, labels: Array, statistics: Statistics, device: torch.device, *, pads: bool
    ) -> None:
        self.size, (mean, deviation) = pictures.shape[2:], statistics
        stored = torch.from_numpy(pictures).to(device).permute(0, 2, 3, 1)
        if pads:
            stored = nn.functional.pad(stored, (0, 0, PAD, PAD, PAD, PAD))
        self.pictures = stored.contiguous()
        self.labels = torch.from_numpy(labels).to(device)
        self.factor = torch.tensor(1.0 / (255.0 * deviation), dtype=torch.float32, device=device)
        self.offset = torch.tensor(-mean / deviation, dtype=torch.float32, device=device)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images and labels of some indices."""
        pictures = self.pictures[index]
        if pictures.shape[1] != self.size[0]:
            pictures = pictures[:, PAD:-PAD, PAD:-PAD]
        return self._normalized(pictures), self.labels[index]

    def augmented(self, index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return images shifted by up to four pixels each way and mirrored half of the time, and labels."""
        height, width = self.size
        n, device = len(index), index.device
        shifts = torch.randint(0, 2 * PAD + 1, (2, n, 1), generator=generator, device=device)
        mirrored = torch.randint(0, 2, (n, 1), generator=generator, device=device, dtype=torch.bool)
        rows = torch.arange(height, device=device) + shifts[0]
        columns = torch.arange(width, device=device)
        columns = torch.where(mirrored, width - 1 - columns, columns) + shifts[1]
        pictures = self.pictures[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        return self._normalized(pictures), self.labels[index]

    def _normalized(self, pictures: Tensor) -> Tensor:
        return torch.addcmul(self.offset, pictures.float(), self.factor).permute(0, 3, 1, 2)


def autocast(device: torch.device, amp: str) -> contextlib.AbstractContextManager[Any]:
    """Return the context of the forward pass: bfloat16 if ``amp`` is "bf16"; parameters stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=amp == "bf16", cache_enabled=False)


def divided_by_batch_loss(log_loss: Tensor) -> Tensor:
    """Return a number whose gradient is grad L / L, with L the loss of this batch over all processes."""
    reference = log_loss.detach()
    world, _ = processes()
    if world > 1:
        every = [torch.empty_like(reference) for _ in range(world)]
        torch.distributed.all_gather(every, reference)
        reference = torch.logsumexp(torch.stack(every), dim=0) - math.log(world)
    return torch.exp(log_loss - reference)


@dataclass(eq=False)
class Stepper:
    """Takes training steps; on a CUDA device it records one step as a graph and replays the graph.

    A graph holds all of a step: gathering the batch, forward, backward and the optimizer. Rescalings are
    steps of their own and run outside of the graph.

    Parameters
    ----------
    model : nn.Module
        Network to train; with several processes, wrapped by `DistributedDataParallel`.
    optimizer : Wrapper
    data : DeviceImages
    generator : torch.Generator
        Source of dropout and augmentation; it must be on the device.
    amp : {"bf16", "off"}
    augment, graphs : bool
    """

    model: nn.Module
    optimizer: Wrapper
    data: DeviceImages
    generator: torch.Generator
    _: KW_ONLY
    amp: str
    augment: bool
    graphs: bool

    def __post_init__(self) -> None:
        for module in self.model.modules():
            if isinstance(module, Dropout):
                module.generator = self.generator
        self.set_objective(torch.exp)  # the loss itself

    def set_objective(self, objective: Objective) -> None:
        """Choose the number that is differentiated; a graph of another objective is dropped."""
        self.objective = objective
        self._graph: tuple[Work, Tensor] | None = None  # the replay, and the indices that it reads
        self._eager_steps = 0

    def step(self, index: Tensor) -> None:
        """Take one step on the images of ``index``; a rescaling ignores the images."""
        if self.optimizer.rescale_due:
            self.optimizer.step()
        elif self.graphs and self._eager_steps >= EAGER_STEPS:
            replay, captured_index = self._graph = self._graph or self._capture(index)
            self.optimizer.prepare()
            captured_index.copy_(index)
            replay()
        else:
            self._step(index)
            self._eager_steps += 1

    def _step(self, index: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(index.device, self.amp):
            images = self.data.augmented(index, self.generator) if self.augment else self.data.batch(index)
            inputs, target = images
            logits = self.model(inputs)
        self.objective(log_cross_entropy(logits, target)).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def _capture(self, index: Tensor) -> tuple[Work, Tensor]:  # pragma: cuda only
        kept, stream = index.clone(), torch.cuda.current_stream()
        return record(lambda: self._step(kept), stream=stream, generator=self.generator), kept


def batches(n: int, batch: int, seed: int, epoch: int) -> Tensor:
    """Return the indices of an epoch's batches, of shape (steps, batch), from seed and epoch alone.

    If n is no multiple of the batch, images of the first batch fill the last: graphs need one shape.

    Examples
    --------
    >>> batches(10, 4, 0, 0).shape, len(set(batches(10, 4, 0, 0).flatten().tolist()))
    (torch.Size([3, 4]), 10)
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(n, generator=generator)
    steps = -(-n // batch)
    repeats = -(-steps * batch // n)
    return order.repeat(repeats)[: steps * batch].view(steps, batch)


@contextlib.contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Run the block on a stream of its own, which graphs need, and so do runs that share a device."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # pragma: cuda only
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)
