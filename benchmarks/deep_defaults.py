"""PRGD with its defaults against the base optimizer alone: final training loss after as many steps.

Every row trains one network at one rate from the same weights, on the same batches, four times: by the base
optimizer alone; by the base again from weights that are 1.0001 times as long (the control: what the loss of
the base is worth); by ``PRGD(base)``; and by ``PRGD.for_steps(base, steps)``. The loss is that of the whole
training set after the last step. A rate is sane if the base at least halves the first loss and the control
ends within 5 % of the base; the target, PRGD's loss at most 5 % above the base's, is for sane rates. Rows of
other rates are printed too. Nothing is timed. Rows that the record holds are not run again: delete
the file to begin anew.

    python benchmarks/deep_defaults.py                        # linear, toy, mlp, cnn and a tiny transformer
    python benchmarks/deep_defaults.py --tasks vgg16 transformer --device cuda --cifar FOLDER

Images are scikit-learn's digits, or `prgd.deep.synthetic` if scikit-learn is missing; VGG-16 trains on the
first images of CIFAR-10 (synthetic ones without ``--cifar``), the transformer of `transformer.py` on bytes of
Python's standard library, of which a fixed sample of windows is the training set; ``recall`` has so few
windows that they are learned by heart.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from prgd_paper.training.command import open_images
from prgd_paper.training.steps import EAGER_STEPS, own_stream
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformer import build_transformer, text_bytes, windows

from prgd.core.replay import record
from prgd.deep import GD, PRGD, build_model, normalized_margin, synthetic

TARGET = 1.05  # PRGD's final training loss divided by the base's, at most
KEY = ("task", "base", "rate", "batch", "steps", "seed")  # what identifies a row
LONGER = 1.0001  # factor of the control's first weights
METHODS = ("base", "control", "defaults", "for_steps")
SGD_RATES, ADAMW_RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), (1e-4, 1e-3, 3e-3, 1e-2)
ON_A_CPU = ("linear", "linear-binary", "toy", "mlp", "cnn", "transformer", "recall")
RECORDS = Path(__file__).parent / "records"
Rows = tuple[Tensor, Tensor]  # inputs and targets


@dataclass(frozen=True)
class Task:
    """A network, its training set, and the runs to make; ``batches`` has 0 for the full batch."""

    rows: Rows
    network: Callable[[], nn.Module]
    steps: int
    batches: tuple[int, ...]
    rates: dict[str, tuple[float, ...]]
    bf16: bool = False


def digits() -> Rows:
    """Return 8 x 8 images of ten classes, of mean 0 and deviation 1."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        images = synthetic(1500, size=8)
        x, y = torch.from_numpy(images.train).float().mean(dim=1), torch.from_numpy(images.train_labels)
    else:
        pixels, labels = load_digits(return_X_y=True)
        x, y = torch.tensor(pixels, dtype=torch.float32), torch.tensor(labels)
    return ((x - x.mean()) / x.std()).reshape(-1, 1, 8, 8), y


def toy() -> Rows:
    """Return the points of examples/drop_in.py: 512 of 3 classes that a small network separates."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, 10, generator=generator)
    return x, (x @ torch.randn(10, 3, generator=generator)).argmax(dim=1)


def perceptron(*widths: int, seed: int) -> nn.Module:
    """Return linear layers without biases, with ReLU in between, for inputs of any shape."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(widths)]
    parts = [part for layer in layers for part in (layer, nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *parts[:-1])


def cifar(folder: Path | None, n: int) -> Rows:
    """Return the first n training images of CIFAR-10, or synthetic ones."""
    images = synthetic(n, size=32) if folder is None else open_images("cifar10", folder)
    x, y = torch.from_numpy(images.train[:n]).float(), torch.from_numpy(images.train_labels[:n])
    return (x - x.mean(dim=(0, 2, 3), keepdim=True)) / x.std(dim=(0, 2, 3), keepdim=True), y


def text(n: int, context: int) -> Rows:
    """Return windows of the text, spread evenly, and the bytes that follow."""
    train = torch.from_numpy(text_bytes().train)
    taken = windows(train, torch.linspace(0, len(train) - 2 - context, n).long(), context)
    return taken[:, :-1].contiguous(), taken[:, 1:].contiguous()


def numbered(rows: Rows) -> Rows:
    """Return windows whose first byte is their number, so that a transformer can learn them by heart."""
    x, y = rows
    return torch.cat([torch.arange(len(x))[:, None], x[:, 1:]], dim=1), y


def tasks(given: argparse.Namespace) -> dict[str, Callable[[], Task]]:
    """Return the tasks by name; each reads its data when it is called."""
    quick, on_gpu = given.quick, given.device != "cpu"
    both = {
        "sgd": SGD_RATES[1::2] if quick else SGD_RATES,
        "adamw": ADAMW_RATES[2:] if quick else ADAMW_RATES,
    }
    short = 200 if quick else 600

    def dense(*widths: int) -> Callable[[], nn.Module]:
        return lambda: perceptron(*widths, seed=given.seed)

    def convolutions() -> nn.Module:
        return build_model("cnn", (1, 8, 8), 10, seed=given.seed)

    def decoder() -> nn.Module:
        size = {"layers": 4, "width": 256, "heads": 4} if on_gpu else {"layers": 2, "width": 64, "heads": 2}
        return build_transformer(**size, context=64, seed=given.seed)

    x, y = digits()
    subset = (x[:600], y[:600])
    n, epochs = (2_000, 2) if quick else (given.images, 60)
    return {
        "linear": lambda: Task((x, y), dense(64, 10), short, (0, 64), both),
        "linear-binary": lambda: Task((x[y < 2], y[y < 2]), dense(64, 2), short, (0, 64), both),
        "toy": lambda: Task(toy(), dense(10, 64, 3), short, (0, 64), both),
        "mlp": lambda: Task((x, y), dense(64, 64, 64, 10), short, (0, 64), both),
        "cnn": lambda: Task(subset, convolutions, short // 2, (64,), both),
        "vgg16": lambda: Task(
            cifar(given.cifar, n),
            lambda: build_model("vgg16", seed=given.seed),
            epochs * n // 128,
            (128,),
            {"sgd": (0.01, 0.03)},
            bf16=on_gpu,
        ),
        "transformer": lambda: Task(
            text(4096, 64),
            decoder,
            1500 if on_gpu else short // 2,
            (64 if on_gpu else 16,),
            {"adamw": (1e-3, 3e-3)},
            bf16=on_gpu,
        ),
        "recall": lambda: Task(
            numbered(text(32, 32)), decoder, short, (0,), {"adamw": (1e-3, 3e-3)}, bf16=on_gpu
        ),
    }


def base_optimizer(kind: str, model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """Return SGD with momentum 0.9, or AdamW without weight decay, which separable data would fight."""
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, fused=True)
    on_gpu = next(model.parameters()).is_cuda
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0, fused=True, capturable=on_gpu)


def indices(n: int, batch: int, steps: int, seed: int) -> Iterator[Tensor]:
    """Yield the indices of each step's batch: epochs without replacement; all rows if ``batch`` is 0."""
    generator, left = torch.Generator().manual_seed(seed), torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if batch == 0:
            yield torch.arange(n)
            continue
        if len(left) < batch:
            left = torch.randperm(n, generator=generator)
        taken, left = left[:batch], left[batch:]
        yield taken


def mean_loss(model: nn.Module, x: Tensor, y: Tensor, bf16: bool) -> Tensor:
    """Return the mean cross-entropy of a batch, over all positions if the targets are sequences."""
    with torch.autocast(x.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False):
        logits = model(x)
    return cross_entropy(logits.float().flatten(0, -2), y.flatten())


@torch.no_grad()
def training_loss(model: nn.Module, task: Task) -> float:
    """Return the loss of the whole training set; it does not depend on the batches of training."""
    x, y = task.rows
    parts = zip(x.split(512), y.split(512), strict=True)
    return sum(float(mean_loss(model, a, b, task.bf16)) * len(b) for a, b in parts) / len(y)


def run_steps(model: nn.Module, optimizer: GD | PRGD, task: Task, order: Tensor) -> None:
    """Take one step for each row of indices; on a CUDA device steps are replayed as a graph."""
    x, y = task.rows
    index = order[0].clone()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = mean_loss(model, x[index], y[index], task.bf16)
        loss.backward()
        optimizer.step(loss=loss.detach())

    replay: Callable[[], None] | None = None
    for t, taken in enumerate(order):
        index.copy_(taken)
        if x.device.type == "cpu" or t < EAGER_STEPS:
            step()
        elif not optimizer.prepare():  # A rescaling is a step of its own and runs outside of the graph.
            # The capture itself takes no step, and the host's part of this step is done.
            replay = replay or record(step, stream=torch.cuda.current_stream())
            replay()


def one_run(method: str, kind: str, rate: float, batch: int, task: Task, seed: int) -> dict[str, Any]:
    """Train once; return the final training loss, the margin and what the optimizer counted."""
    x, y = task.rows
    model = task.network().to(x.device)
    if method == "control":
        with torch.no_grad():
            torch._foreach_mul_(list(model.parameters()), LONGER)
    first = training_loss(model, task)
    base = base_optimizer(kind, model, rate)
    optimizer: GD | PRGD
    with warnings.catch_warnings(record=True) as caught, own_stream(x.device):
        warnings.simplefilter("always")
        if method == "defaults":
            optimizer = PRGD(base)
        elif method == "for_steps":
            optimizer = PRGD.for_steps(base, task.steps)
        else:
            optimizer = GD(base)
        order = torch.stack(list(indices(len(y), batch, task.steps, seed))).to(x.device)
        run_steps(model, optimizer, task, order)
    found = {"loss": training_loss(model, task), "first_loss": first, "skipped": optimizer.skipped}
    found["margin"] = margin(model, task)
    found["warnings"] = sorted({type(w.message).__name__ for w in caught})
    if isinstance(optimizer, PRGD):
        ended = not optimizer.warming_up
        found |= {"warm_up": optimizer.warm_up if ended else None, "rescalings": optimizer.k}
    return found


def margin(model: nn.Module, task: Task) -> float | None:
    """Return the normalized margin over the training set, or None for networks without a degree."""
    x, y = task.rows
    if y.ndim > 1:
        return None
    try:
        value = normalized_margin(model, list(zip(x.split(512), y.split(512), strict=True))).normalized_margin
    except ValueError:  # weights that are not finite
        return None
    return value if math.isfinite(value) else None


def make_row(name: str, kind: str, rate: float, batch: int, task: Task, seed: int) -> dict[str, Any]:
    """Return the four runs of one rate, with the ratios to the base."""
    runs = {method: one_run(method, kind, rate, batch, task, seed) for method in METHODS}
    base = runs["base"]["loss"]
    ratios = {m: runs[m]["loss"] / base if base > 0.0 else math.nan for m in METHODS[1:]}
    trains = math.isfinite(base) and base < 0.5 * runs["base"]["first_loss"]
    repeats = 1.0 / TARGET <= ratios["control"] <= TARGET
    facts = dict(zip(KEY, (name, kind, rate, batch, task.steps, seed), strict=True))
    return {**facts, "trains": trains, "sane": trains and repeats, "ratios": ratios, "runs": runs}


HEADER = (
    f"{'task':14}{'base':6}{'rate':>7}{'batch':>6}{'seed':>5} {'base loss':>9}{'control':>9}{'defaults':>9}"
    f"{'for_steps':>10}{'margins: base':>14}{'defaults':>10}{'for_steps':>10}{'warm-up':>8}{'k':>5}"
    f"{'skipped':>8}  verdict"
)


def verdict(row: dict[str, Any]) -> str:
    """Return whether the row reaches the target, or why its rate is not sane."""
    if not row["trains"]:
        return "base does not train"
    reached = row["ratios"]["defaults"] <= TARGET
    if not row["sane"]:
        return f"base does not repeat itself ({'reached' if reached else 'missed'})"
    return "reached" if reached else "MISSED"


def line(row: dict[str, Any]) -> str:
    """Return a row as a line of the printed table; losses of the other methods are ratios to the base's."""
    runs, ratios = row["runs"], row["ratios"]
    margins = [runs[method]["margin"] for method in ("base", "defaults", "for_steps")]
    own, *others = ["-" if value is None else f"{value:.3g}" for value in margins]
    ran = runs["defaults"]
    return (
        f"{row['task']:14}{row['base']:6}{row['rate']:7g}{row['batch'] or 'all':>6}{row['seed']:5d} "
        f"{runs['base']['loss']:9.2e}{ratios['control']:9.3g}{ratios['defaults']:9.3g}"
        f"{ratios['for_steps']:10.3g}{own:>14}{others[0]:>10}{others[1]:>10}"
        f"{'never' if ran['warm_up'] is None else ran['warm_up']:>8}{ran['rescalings']:5d}{ran['skipped']:8d}"
        f"  {verdict(row)}"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    """Return how many sane rows reach the target, the worst ratio, and in how many rows the margin grew."""
    sane = [row for row in rows if row["sane"]]
    lines = []
    for method in METHODS[2:]:
        ratios = [row["ratios"][method] for row in sane]
        missed = sum(not ratio <= TARGET for ratio in ratios)
        ran = [row["runs"] for row in sane if row["runs"][method]["warm_up"] is not None]
        split = [runs for runs in ran if (runs["base"]["margin"] or 0.0) > 0.0]
        larger = sum((runs[method]["margin"] or 0.0) > runs["base"]["margin"] for runs in split)
        lines.append(
            f"{method}: at most {TARGET:g} times the base's loss in {len(sane) - missed} of {len(sane)} rows "
            f"with a sane rate (worst {max(ratios, default=math.nan):.3g}); the warm-up ended in {len(ran)}, "
            f"the others are the base's own runs. Larger margin in {larger} of {len(split)} rows in which "
            "the warm-up ended and the base separates."
        )
    return "\n".join(lines)


def table(rows: list[dict[str, Any]]) -> str:
    """Return a Markdown table with a line for each task and base, over rates at which the base trains."""
    lines = [
        "| task | base | rates | of them repeatable | warm-up ended | loss of defaults, median (largest) | "
        "`for_steps` | control | larger margin |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    kinds = dict.fromkeys((row["task"], row["base"]) for row in rows)
    for task, base in kinds:
        some = [row for row in rows if (row["task"], row["base"]) == (task, base) and row["trains"]]
        ended = [row for row in some if row["runs"]["defaults"]["warm_up"] is not None]
        split = [row["runs"] for row in ended if (row["runs"]["base"]["margin"] or 0.0) > 0.0]
        larger = sum((runs["defaults"]["margin"] or 0.0) > runs["base"]["margin"] for runs in split)
        ratios = [_ratios(ended, method) for method in ("defaults", "for_steps", "control")]
        counts = f"{len(some)} | {sum(row['sane'] for row in some)} | {len(ended)}"
        lines.append(f"| {task} | {base} | {counts} | {' | '.join(ratios)} | {larger} of {len(split)} |")
    return "\n".join(lines)


def _ratios(rows: list[dict[str, Any]], method: str) -> str:
    found = [row["ratios"][method] for row in rows]
    return f"{statistics.median(found):.2g} ({max(found):.3g})" if found else "the base's runs"


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--tasks", nargs="+", default=list(ON_A_CPU))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer rates and steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=10_000, help="training images of vgg16")
    parser.add_argument("--cifar", type=Path, help="folder with CIFAR-10, as for prgd train")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no row is started after so many")
    parser.add_argument("--table", type=Path, nargs="+", help="print the table of these records, and end")
    parser.add_argument("--json", type=Path, default=RECORDS / "deep_defaults.json")
    given = parser.parse_args()
    if given.table:
        print(table([row for file in given.table for row in json.loads(file.read_text())["rows"]]))
        return
    known = tasks(given)
    if unknown := set(given.tasks) - known.keys():
        parser.error(f"unknown tasks: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    device, started = torch.device(given.device), time.perf_counter()
    on = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    facts = {"torch": torch.__version__, "python": platform.python_version(), "device": on}
    rows: list[dict[str, Any]] = json.loads(given.json.read_text())["rows"] if given.json.exists() else []
    done = {tuple(row[fact] for fact in KEY) for row in rows}
    print(HEADER)
    for row in rows:
        print(line(row))
    for name in given.tasks:
        task = known[name]()
        task = Task(**{**vars(task), "rows": tuple(part.to(device) for part in task.rows)})
        for batch in task.batches:
            for kind, rate in [(kind, rate) for kind, rates in task.rates.items() for rate in rates]:
                late = time.perf_counter() - started > given.seconds
                if late or (name, kind, rate, batch, task.steps, given.seed) in done:
                    continue
                rows.append(make_row(name, kind, rate, batch, task, given.seed))
                print(line(rows[-1]), flush=True)
                given.json.write_text(json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n")
    print(summary(rows))


if __name__ == "__main__":
    main()
