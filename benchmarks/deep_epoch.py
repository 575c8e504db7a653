"""Time of a VGG-16 epoch at batch 64 (782 steps) with GD and PRGD, on a device that nothing else uses.

Random images stand in for CIFAR-10: the time does not depend on them. PyTorch and NumPy are enough:
``python benchmarks/deep_epoch.py``. `vgg_probe.py` times several runs that share a device.
"""

from __future__ import annotations

import argparse
import time

import torch
from prgd_paper.training.command import prepare_device
from prgd_paper.training.evaluation import evaluate
from prgd_paper.training.images import synthetic
from prgd_paper.training.settings import Settings, Where
from prgd_paper.training.steps import batches, own_stream
from prgd_paper.training.train_loop import Run


def epochs(run: Run, count: int) -> list[list[float]]:
    """Return the seconds of the steps and of both evaluations, an epoch each; the first one warms up."""
    found = []
    with own_stream(run.device):
        for epoch in range(count + 1):
            order = batches(len(run.train), run.settings.batch, 0, epoch).to(run.device)
            started = time.perf_counter()
            for index in order:
                # Without the warm-up, every 12th step rescales.
                run.optimizer.t = max(run.optimizer.t, run.optimizer.warm_up)
                run.stepper.step(index)
            if run.device.type == "cuda":
                torch.cuda.current_stream().synchronize()
            stepped = time.perf_counter()
            evaluate(run.model, run.train, amp=run.settings.amp)
            evaluate(run.model, run.test, amp=run.settings.amp)
            if epoch:
                found.append([stepped - started, time.perf_counter() - stepped])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--model", default="vgg16")
    parser.add_argument("--amp", default="bf16")
    parser.add_argument("--no-graphs", dest="graphs", action="store_false")
    parser.add_argument("--device", default="")
    given = parser.parse_args()
    prepare_device(given.device)
    images = synthetic(given.images, size=32)
    where = Where(device=given.device, graphs=given.graphs)
    print(f"{'algorithm':10}{'steps, s':>10}{'evaluation, s':>15}{'together, s':>13}")
    for algorithm in ("gd", "prgd"):
        settings = Settings("cifar10", given.model, algorithm, lr=1e-4, amp=given.amp)
        found = epochs(Run(settings, images, where), given.epochs)
        steps, evaluation = (sorted(column)[len(found) // 2] for column in zip(*found, strict=True))
        print(f"{algorithm:10}{steps:10.3f}{evaluation:15.3f}{steps + evaluation:13.3f}", flush=True)


if __name__ == "__main__":
    main()
