"""What PRGD costs in training VGG-16, next to plain SGD, and per matrix next to any base optimizer.

The optimizer's step alone on VGG-16's parameters, with rescalings as often as the paper has them, and a
whole training step (forward, backward, step) at batch 64. On a CUDA device both are measured twice, launched
kernel by kernel and as a CUDA graph (a rescaling then takes the place of a replay, as in `prgd train`); and
an epoch of CIFAR-10's size follows. Steps with a radius for each matrix, plain and relative, are compared
with the base optimizer that they step (SGD, AdamW, Muon), on the parameters of VGG-16 and of a transformer of
10.8 million parameters. Competitors take turns within a round, and a ratio is the median over rounds. Needs
PyTorch and NumPy alone.

    python benchmarks/deep_step.py [--device cuda] [--rounds N] [--batch B] [--per-matrix] [--json FILE]
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from prgd_paper.training.models import build_model
from prgd_paper.training.steps import (
    EAGER_STEPS,
    DeviceImages,
    Stepper,
    batches,
    divided_by_batch_loss,
    own_stream,
)
from torch.nn.functional import cross_entropy

from prgd import deep
from prgd.schedules import APPENDIX_RADII, PowerTimes

SEED = 0
BASELINE = "SGD foreach"
# of PRGD against the baseline
TARGETS = {"optimizer step": 1.7, "training step": 1.05}
MATRIX_TARGET = 1.5  # of a step per matrix against its base optimizer, on an H200
GRAPH = ", CUDA graph"
EPOCH_TARGET = 1.2  # seconds, on an H200
TRAINING_IMAGES = 50_000
Turn = Callable[[], Any]


def copied(parameters: list[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    """Return copies of the parameters, with gradients."""
    generator = torch.Generator().manual_seed(SEED)
    made = [torch.nn.Parameter(p.detach().clone()) for p in parameters]
    for p in made:
        p.grad = torch.randn(p.shape, generator=generator).to(p).mul_(1e-4)
    return made


def optimizers(model: torch.nn.Module) -> dict[str, torch.optim.Optimizer]:
    """Return the competitors, each on a copy of the parameters of its own, with gradients."""

    def copies() -> list[torch.nn.Parameter]:
        return copied(list(model.parameters()))

    options: dict[str, Any] = {"lr": 1e-3, "momentum": 0.9}
    radii: dict[str, Any] = {"R": APPENDIX_RADII, "T": PowerTimes(), "warm_up": 0}
    return {
        BASELINE: torch.optim.SGD(copies(), foreach=True, **options),
        "SGD fused": torch.optim.SGD(copies(), fused=True, **options),
        "PRGD": deep.PRGD(copies(), **radii, **options),
        "PRGD around SGD foreach": deep.PRGD(torch.optim.SGD(copies(), foreach=True, **options), **radii),
        "NGD": deep.NGD(copies(), **options),
    }


def per_matrix(model: torch.nn.Module, base: str) -> dict[str, torch.optim.Optimizer]:
    """Return a base optimizer alone, and with a radius for each matrix, by plain and by relative steps."""
    kept = [p for p in model.parameters() if p.ndim == 2 or base != "Muon"]
    on_cuda = kept[0].is_cuda
    makers: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
        "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=True),
        "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True, capturable=on_cuda),
        "Muon": lambda parameters: torch.optim.Muon(parameters, lr=1e-3),
    }
    radii: dict[str, Any] = {"R": APPENDIX_RADII, "T": PowerTimes(), "scope": "matrix", "warm_up": 0}
    return {
        base: makers[base](copied(kept)),
        "PRGD per matrix": deep.PRGD(makers[base](copied(kept)), **radii),
        "PRGD per matrix, relative": deep.PRGD(makers[base](copied(kept)), relative_steps=True, **radii),
    }


def transformer(layers: int = 6, width: int = 384, context: int = 256, bytes_: int = 256) -> torch.nn.Module:
    """Return the parameters of a small decoder transformer; nothing is computed by it."""
    shapes = [(bytes_, width), (context, width)]
    shapes += [*[(width, width)] * 4, (4 * width, width), (width, 4 * width)] * layers
    generator = torch.Generator().manual_seed(SEED)
    matrices = [torch.randn(shape, generator=generator) * shape[1] ** -0.5 for shape in shapes]
    gains = [torch.ones(width) for _ in range(2 * layers + 1)]
    return torch.nn.ParameterList([*matrices, *gains])


def per_matrix_rows(device: torch.device, rounds: int) -> list[dict[str, Any]]:
    """Return the rows of steps per matrix on the parameters of both networks, for all bases."""
    on_cuda = device.type == "cuda"
    rows = []
    networks = {"VGG-16": build_model("vgg16", seed=SEED), "transformer": transformer()}
    for network, model in networks.items():
        model = model.to(device)
        for base in ("SGD", "AdamW", "Muon"):
            if not hasattr(torch.optim, base):
                print(f"torch {torch.__version__} has no {base}: its rows are left out.")
                continue
            # A step of Muon takes ten times as long. On a CPU, a turn holds about one phase.
            steps = (240 if base != "Muon" else 24) if on_cuda else (12 if base != "Muon" else 1)
            for graphs in (False, True) if on_cuda and base != "Muon" else (False,):
                made = per_matrix(model, base)
                turns = step_turns(made, device)
                if graphs:
                    turns = {name: replayed(turn, made[name], device) for name, turn in turns.items()}
                times = race(turns, device, rounds if on_cuda else min(rounds, 5), steps)
                part = f"{network}, {base}{GRAPH if graphs else ''}"
                targets = {name: MATRIX_TARGET for name in made if name != base and on_cuda}
                rows += compare(part, times, base, targets)
    return rows


def optimizer_turns(model: torch.nn.Module, device: torch.device) -> dict[str, Turn]:
    return step_turns(optimizers(model), device)


def step_turns(made: dict[str, torch.optim.Optimizer], device: torch.device) -> dict[str, Turn]:
    # a loss of nearly 1, so that gradients which are divided by it over and over stay what they are
    loss = torch.tensor(1.0 - 1e-6, device=device)

    def turn(optimizer: torch.optim.Optimizer) -> Turn:
        if isinstance(optimizer, deep.GD | deep.NGD | deep.PRGD):
            return lambda: optimizer.step(loss=loss)
        return optimizer.step

    return {name: turn(optimizer) for name, optimizer in made.items()}


def optimizer_graphs(model: torch.nn.Module, device: torch.device) -> dict[str, Turn]:
    loss = torch.tensor(1.0 - 1e-6, device=device)
    made = optimizers(model)
    sgd, prgd = made[BASELINE], made["PRGD"]
    return {
        BASELINE: replayed(sgd.step, sgd, device),
        "PRGD": replayed(lambda: prgd.step(loss=loss), prgd, device),  # type: ignore[call-arg]
    }


def replayed(step: Turn, optimizer: torch.optim.Optimizer, device: torch.device) -> Turn:
    """Return a turn that replays a CUDA graph of ``step``, or rescales where that is due."""
    graph = torch.cuda.CUDAGraph()
    with own_stream(device):
        for _ in range(EAGER_STEPS):
            step()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            step()

    def turn() -> None:
        if not (isinstance(optimizer, deep.PRGD) and optimizer.prepare()):
            graph.replay()

    return turn


def training_turns(device: torch.device, batch: int, *, graphs: bool) -> dict[str, Turn]:
    generator = torch.Generator().manual_seed(SEED)
    inputs = torch.randn(batch, 3, 32, 32, generator=generator).to(device)
    target = torch.randint(0, 10, (batch,), generator=generator).to(device)

    def turn(kind: str) -> Turn:
        own = build_model("vgg16", seed=SEED).to(device)
        if kind == BASELINE:
            optimizer: Any = torch.optim.SGD(own.parameters(), lr=1e-3, momentum=0.9, foreach=True)
        else:
            optimizer = deep.PRGD(
                own.parameters(), R=APPENDIX_RADII, T=PowerTimes(), warm_up=0, lr=1e-3, momentum=0.9
            )

        def step() -> None:
            optimizer.zero_grad()
            loss = cross_entropy(own(inputs), target)
            loss.backward()
            optimizer.step() if kind == BASELINE else optimizer.step(loss=loss)

        return replayed(step, optimizer, device) if graphs else step

    return {kind: turn(kind) for kind in (BASELINE, "PRGD")}


def race(turns: dict[str, Turn], device: torch.device, rounds: int, steps: int) -> dict[str, list[float]]:
    """Return the seconds a step, for each competitor and round; they take turns of ``steps`` steps."""
    times: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds + 1):
        for name, turn in turns.items():
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                turn()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if number > 0:  # the first round warms up
                times[name].append((time.perf_counter() - start) / steps)
    return times


def epoch_seconds(device: torch.device, batch: int, epochs: int = 5) -> list[float]:
    """Return the seconds of epochs of PRGD on pictures of CIFAR-10's number and size, by CUDA graphs."""
    rng = np.random.default_rng(SEED)
    pictures = rng.integers(0, 256, (TRAINING_IMAGES, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, TRAINING_IMAGES)
    model = build_model("vgg16", seed=SEED).to(device, memory_format=torch.channels_last)
    optimizer = deep.PRGD(
        model.parameters(), R=APPENDIX_RADII, T=PowerTimes(), warm_up=0, lr=1e-3, loss_scaled=False
    )
    data = DeviceImages(pictures, labels, (np.full(3, 0.5), np.full(3, 0.25)), device, pads=False)
    generator = torch.Generator(device).manual_seed(SEED)
    stepper = Stepper(model, optimizer, data, generator, amp="bf16", augment=False, graphs=True)
    stepper.set_objective(divided_by_batch_loss)
    seconds = []
    with own_stream(device):
        for epoch in range(epochs + 1):
            indices = batches(len(data), batch, SEED, epoch).to(device)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for index in indices:
                stepper.step(index)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
    return seconds[1:]  # the first one captures


def compare(
    part: str, times: dict[str, list[float]], baseline: str, targets: dict[str, float]
) -> list[dict[str, Any]]:
    rows = []
    for name, seconds in times.items():
        ratios = sorted(ours / theirs for ours, theirs in zip(seconds, times[baseline], strict=True))
        rows.append(
            {
                "part": part,
                "optimizer": name,
                "milliseconds": 1e3 * statistics.median(seconds),
                "ratio": statistics.median(ratios),
                "ratio_range": (ratios[0], ratios[-1]),
                "target": targets.get(name),
            }
        )
    return rows


def step_rows(device: torch.device, rounds: int, batch: int) -> list[dict[str, Any]]:
    """Return the rows of optimizer steps and training steps of VGG-16, against plain SGD."""
    on_cuda = device.type == "cuda"
    model = build_model("vgg16", seed=SEED).to(device)
    # turns of a whole number of phases, about 12 steps each: every turn rescales
    steps, training_steps = (240, 60) if on_cuda else (24, 1)
    rows = []
    for graphs in (False, True) if on_cuda else (False,):
        name = GRAPH if graphs else ""
        turns = optimizer_graphs(model, device) if graphs else optimizer_turns(model, device)
        times = race(turns, device, rounds, steps)
        rows += compare("optimizer step" + name, times, BASELINE, {"PRGD": TARGETS["optimizer step"]})
        turns = training_turns(device, batch, graphs=graphs)
        times = race(turns, device, rounds if on_cuda else 5, training_steps)
        rows += compare("training step" + name, times, BASELINE, {"PRGD": TARGETS["training step"]})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'part':32}{'optimizer':26}{'ms':>9}   ratio to the first of the part")
    for row in rows:
        low, high = row["ratio_range"]
        verdict = ""
        if row["target"] is not None:
            verdict = f", target {row['target']}: {'pass' if row['ratio'] <= row['target'] else 'FAIL'}"
        print(
            f"{row['part']:32}{row['optimizer']:26}{row['milliseconds']:9.3f}   "
            f"{row['ratio']:.3f} ({low:.3f}-{high:.3f}){verdict}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each competitor")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--per-matrix", action="store_true", help="only steps with a radius for each matrix")
    parser.add_argument("--json", type=Path, help="write the rows and the machine there")
    options = parser.parse_args()
    device = torch.device(options.device)
    on_cuda = device.type == "cuda"
    facts = {
        "device": torch.cuda.get_device_name(device) if on_cuda else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rounds": options.rounds,
        "batch": options.batch,
    }
    rows = [] if options.per_matrix else step_rows(device, options.rounds, options.batch)
    rows += per_matrix_rows(device, options.rounds)
    show(rows)
    report: dict[str, Any] = {"machine": facts, "rows": rows}
    if on_cuda and not options.per_matrix:
        seconds = epoch_seconds(device, options.batch)
        report["epoch_seconds"] = seconds
        typical = statistics.median(seconds)
        verdict = "pass" if typical <= EPOCH_TARGET else "FAIL"
        print(
            f"epoch of {TRAINING_IMAGES} images: {typical:.3f} s, target {EPOCH_TARGET} on an H200: {verdict}"
        )
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
