"""Norms of matrices in a small transformer: AdamW, fixed radii (Hyperball), growing radii, global PRGD.

    python benchmarks/transformer_radii.py check                # graphs against eager steps, in miniature
    python benchmarks/transformer_radii.py run --out FOLDER --seconds 450 --together 4 [--compile] [--tiny]
    python benchmarks/transformer_radii.py table --out FOLDER   # prints the table and writes the record
    python benchmarks/transformer_radii.py plot                 # draws docs/images/transformer-radii.png

The text is the standard library of the Python that runs, the network that of `transformer.py`. Every method
tries the same number of rates with one seed, and then runs with three other seeds at its best rate;
differences from AdamW are paired by seed. Embeddings and gains are AdamW's in every method. A run whose file
exists is not run again, and none is started that would end after the deadline. Needs PyTorch and NumPy alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from prgd_paper.training.steps import EAGER_STEPS, own_stream
from torch import Tensor
from transformer import (
    build_transformer,
    mean_loss,
    next_byte_loss,
    parameter_groups,
    starts,
    text_bytes,
    validation_windows,
    windows,
)

from prgd import deep
from prgd.core.replay import record
from prgd.schedules import Every, Geometric

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "transformer_radii.json"
IMAGE = ROOT / "docs" / "images" / "transformer-radii.png"
WEIGHT_DECAY = 0.1  # of AdamW's matrices and embeddings; matrices on a sphere have none
EMBEDDING_RATE = 0.01  # of embeddings and gains in every method: methods differ in their matrices alone
PHASES = 50  # phases in which a geometric radius grows
TUNING_SEED = 0
BARRED = "failed twice"
# 97.5 % quantiles of Student's t with 1 to 9 degrees of freedom
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Scale:
    """The size of the study: network, batches, steps, and the numbers of rates and seeds."""

    layers: int = 6
    width: int = 384
    heads: int = 6
    context: int = 256
    batch: int = 64
    steps: int = 1500
    rates: int = 4  # rates that every method tries at least; three of them are given
    max_rates: int = 8  # A method whose best rate is at the end of so many tries no further rate.
    seeds: int = 3
    points: int = 10  # points of a curve
    windows: int = 3840  # validation windows at the end; a quarter of them for the points of a curve before


TINY = Scale(
    layers=1, width=16, heads=2, context=16, batch=2, steps=8, max_rates=3, seeds=2, points=2, windows=8
)


@dataclass(frozen=True)
class Method:
    """How the matrices are stepped; ``rates`` are the first three that are tried."""

    label: str
    rates: tuple[float, ...]
    scope: str = "none"  # none: AdamW; matrix: relative steps on spheres; global: Algorithm 1
    growth: float = 1.0
    shape: str = "geometric"  # geometric: by PRGD's own schedule over the run; late: by group["radius"]

    def optimizer(self, model: torch.nn.Module, rate: float, steps: int) -> torch.optim.Optimizer:
        """Return the optimizer, with each group's peak rate under "peak" and its rate a tensor."""
        kinds = parameter_groups(model)
        settings = {
            "matrices": (rate, WEIGHT_DECAY, True),
            "embeddings": (EMBEDDING_RATE, WEIGHT_DECAY, False),
        }
        settings["vectors"] = (EMBEDDING_RATE, 0.0, False)
        device = kinds["matrices"][0].device
        groups = [
            {
                "params": kinds[kind],
                "lr": torch.tensor(peak, device=device),  # Replays of a CUDA graph read the present rate.
                "peak": peak,
                "weight_decay": decay,
                "homogeneous": homogeneous,
            }
            for kind, (peak, decay, homogeneous) in settings.items()
        ]
        base = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True, capturable=device.type == "cuda")
        if self.scope == "none":
            return base
        if self.scope == "global":
            # As in the paper, radii grow in the second half, after plain steps. The growth of `for_steps` is
            # that of the outputs of a homogeneous network, the product of that of all matrices.
            growth = self.growth ** len(kinds["matrices"])
            return deep.PRGD.for_steps(base, steps, growth=growth, warm_up=0.5, cautious=False)
        T = max(2, steps // PHASES)
        R = "constant"
        if self.growth > 1.0 and self.shape == "geometric":
            R = Geometric(self.growth ** (1.0 / max(1, (steps - 1) // T)))
        return deep.PRGD(base, R=R, T=Every(T), scope="matrix", relative_steps=True, warm_up=0)

    def radius(self, progress: float) -> float:
        """Return ``group["radius"]`` at a fraction of the run: constant for half of it, then linear."""
        return 1.0 + (self.growth - 1.0) * max(0.0, 2.0 * progress - 1.0) if self.shape == "late" else 1.0


RELATIVE = (0.005, 0.01, 0.02)
METHODS = {
    "adamw": Method("AdamW", (1e-3, 2e-3, 4e-3)),
    "hyperball": Method("fixed radii (Hyperball)", RELATIVE, "matrix"),
    "geometric-1.4": Method("radii x 1.4, geometric", RELATIVE, "matrix", 1.4),
    "geometric-2.2": Method("radii x 2.2, geometric", RELATIVE, "matrix", 2.2),
    "late-1.4": Method("radii x 1.4, second half", RELATIVE, "matrix", 1.4, "late"),
    "late-2.2": Method("radii x 2.2, second half", RELATIVE, "matrix", 2.2, "late"),
    "global": Method("global PRGD", (1e-3, 2e-3, 4e-3), "global", 1.4),
}


def rate_factor(t: int, steps: int) -> float:
    """Return the fraction of the peak rate at step t: a linear rise over 5 % of the run, then decay to 0."""
    rise = max(1, steps // 20)
    return min((t + 1) / rise, (steps - t) / (steps - rise))


class Training:
    """Trains the network once for each run; model, text and compiled code stay for the next run."""

    def __init__(
        self, scale: Scale, device: torch.device, *, mode: str, compiled: bool, folder: Path | None = None
    ) -> None:
        self.scale, self.device, self.mode = scale, device, mode
        self.bf16 = device.type == "cuda"
        network = {name: getattr(scale, name) for name in ("layers", "width", "heads", "context")}
        self.model = build_transformer(**network).to(device)
        text = text_bytes(folder)
        self.facts = text.facts()
        self.text = torch.from_numpy(text.train).to(device)
        held_out = torch.from_numpy(text.validation).to(device)
        self.validation = validation_windows(held_out, max_windows=scale.windows, context=scale.context)
        self.loss: Callable[..., Tensor] = next_byte_loss
        self.compiled = compiled and self._compile()

    def _compile(self) -> bool:
        """Compile the loss and its gradient; return False, and stay without, if that is not possible."""
        self.loss = torch.compile(next_byte_loss, dynamic=False)
        try:
            batch = self.validation[:1].repeat(self.scale.batch, 1)
            self.loss(self.model, batch, bf16=self.bf16).backward()
        except Exception as error:  # of a missing compiler, among many
            print(f"Not compiled: {error}", file=sys.stderr, flush=True)
            self.loss = next_byte_loss
        self.model.zero_grad(set_to_none=True)
        return self.loss is not next_byte_loss

    def run(self, method: Method, rate: float, seed: int) -> dict[str, Any]:
        """Train from scratch; return losses in nats a byte and how long it took."""
        scale, began = self.scale, time.monotonic()
        self.model.initialise(seed)
        optimizer = method.optimizer(self.model, rate, scale.steps)
        begin = starts(len(self.text), scale.steps, scale.batch, scale.context, seed).to(self.device)
        self._counter = torch.zeros(1, dtype=torch.int64, device=self.device)  # steps with a gradient
        self._losses = torch.full((scale.steps,), math.nan, device=self.device)
        marks = {scale.steps * (i + 1) // scale.points for i in range(scale.points)}
        curve = []
        with own_stream(self.device):
            step = self._stepper(optimizer, begin)
            for t in range(scale.steps):
                for group in optimizer.param_groups:
                    group["lr"].fill_(group["peak"] * rate_factor(t, scale.steps))
                    if group["homogeneous"] and method.shape == "late":
                        group["radius"] = method.radius(t / max(1, scale.steps - 1))
                step()
                if t + 1 in marks:
                    rows = self.validation if t + 1 == scale.steps else self.validation[::4]
                    curve.append((t + 1, mean_loss(self.model, rows, batch=scale.batch, bf16=self.bf16)))
        losses = self._losses[~self._losses.isnan()].cpu()
        last = losses[-max(1, scale.steps // 20) :]
        norms = [float(p.detach().norm()) for p in parameter_groups(self.model)["matrices"]]
        row = {
            "validation": curve[-1][1],
            "training": float(last.mean()),  # over the last 5 % of the steps
            "curve": curve,
            "norm": math.sqrt(sum(n * n for n in norms)),
            "skipped": getattr(optimizer, "skipped", 0),
            "seconds": time.monotonic() - began,
            "mode": self.mode,
        }
        for p in self.model.parameters():
            p.grad = None
        return row

    def _stepper(self, optimizer: torch.optim.Optimizer, begin: Tensor) -> Callable[[], None]:
        """Return a training step: eager at first, then a CUDA graph of it, or of all but the optimizer."""
        wrapped = isinstance(optimizer, deep.PRGD)
        kept: list[Tensor] = [torch.ones((), device=self.device)]
        taken = 0

        def backward() -> None:
            optimizer.zero_grad(set_to_none=True)
            batch = windows(self.text, begin.index_select(0, self._counter)[0], self.scale.context)
            loss = self.loss(self.model, batch, bf16=self.bf16)
            loss.backward()
            kept[0] = loss.detach()
            self._losses.index_copy_(0, self._counter, kept[0].float().reshape(1))
            self._counter.add_(1)

        def update() -> None:
            optimizer.step(loss=kept[0]) if wrapped else optimizer.step()  # type: ignore[call-arg]

        def whole() -> None:
            backward()
            update()

        replay: Callable[[], None] | None = None

        def capture() -> None:
            nonlocal replay
            stream = torch.cuda.current_stream()
            try:
                replay = record(whole if self.mode == "graph" else backward, stream=stream)
            except RuntimeError as error:
                print(f"No {self.mode}: {error}", file=sys.stderr, flush=True)
                self.mode = {"graph": "half", "half": "eager"}[self.mode]

        def step() -> None:
            nonlocal taken
            if wrapped and optimizer.rescale_due and not (self.mode == "graph" and replay):
                optimizer.step(loss=kept[0])  # type: ignore[call-arg]
                return
            taken += 1
            while self.mode != "eager" and taken > EAGER_STEPS and replay is None:
                capture()
            if replay is None:
                whole()
            elif self.mode == "half":
                replay()
                update()
            elif not (wrapped and optimizer.prepare()):
                replay()

        return step


@dataclass(frozen=True)
class Job:
    """One run."""

    part: str  # tune or final
    method: str
    rate: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.part}-{self.method}-{self.rate:g}-{self.seed}"


class Results:
    """The folder of results: a file for each run that is done."""

    def __init__(self, folder: Path) -> None:
        self.runs, self.claims = folder / "runs", folder / "claims"
        self.runs.mkdir(parents=True, exist_ok=True)
        self.claims.mkdir(exist_ok=True)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(file.read_text()) for file in sorted(self.runs.glob("*.json"))]

    def write(self, row: dict[str, Any]) -> None:
        job = Job(**row["job"])
        partial = self.runs / f"{job.name}.{os.getpid()}"
        partial.write_text(json.dumps(row) + "\n")
        partial.replace(self.runs / f"{job.name}.json")

    def has(self, job: Job) -> bool:
        return (self.runs / f"{job.name}.json").is_file()

    def claim(self, job: Job) -> bool:
        """Take a run for this process; return False if another process has it."""
        try:
            with (self.claims / job.name).open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True

    def release(self, process: int) -> None:
        """Give back the run of a process that has ended before the run was done; a second failure bars it."""
        for claim in self.claims.iterdir():
            if claim.read_text() != str(process) or (self.runs / f"{claim.name}.json").is_file():
                continue
            tried = claim.with_name(f"{claim.name}.tried")
            if tried.exists():
                claim.write_text(BARRED)
            else:
                claim.rename(tried)

    def is_barred(self, job: Job) -> bool:
        claim = self.claims / job.name
        return claim.is_file() and claim.read_text() == BARRED


def usable(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


def next_rate(losses: dict[float, float], rates: int, max_rates: int) -> float | None:
    """Return the rate to try next, or None if the best one lies inside of enough rates.

    A best rate at an end is followed by one beyond that end, half or twice as large. A best rate inside is
    followed, until there are enough, by the geometric mean of it and its better neighbour.
    """
    tried = sorted(losses)
    at = min(range(len(tried)), key=lambda i: usable(losses[tried[i]]))
    if len(tried) >= max_rates:
        return None
    if at in (0, len(tried) - 1):
        return tidy(tried[at] * (0.5 if at == 0 else 2.0))
    if len(tried) >= rates:
        return None
    neighbour = min((at - 1, at + 1), key=lambda i: usable(losses[tried[i]]))
    return tidy(math.sqrt(tried[at] * tried[neighbour]))


def tidy(rate: float) -> float:
    return float(f"{rate:.3g}")


def plan(rows: list[dict[str, Any]], scale: Scale, methods: list[str]) -> tuple[list[Job], bool]:
    """Return the runs that can be named now, in the order in which they start, and whether they are all."""
    tuned: dict[str, dict[float, float]] = {name: {} for name in methods}
    for row in rows:
        job = Job(**row["job"])
        if job.part == "tune" and job.method in tuned:
            tuned[job.method][job.rate] = row["validation"]
    first = [
        Job("tune", name, rate, TUNING_SEED)
        for i in range(3)  # the middle rate of every method first
        for name in methods
        for rate in (METHODS[name].rates[(1, 0, 2)[i]],)
    ]
    more, best, complete = [], {}, True
    for name in methods:
        losses = tuned[name]
        if not set(METHODS[name].rates) <= set(losses):
            complete = False
        elif (rate := next_rate(losses, scale.rates, scale.max_rates)) is not None:
            more.append(Job("tune", name, rate, TUNING_SEED))
            complete = False
        else:
            best[name] = min(losses, key=lambda r: usable(losses[r]))
    seeds = range(TUNING_SEED + 1, TUNING_SEED + 1 + scale.seeds)
    final = [Job("final", name, best[name], seed) for seed in seeds for name in methods if name in best]
    return first + more + final, complete


def work(results: Results, scale: Scale, methods: list[str], options: argparse.Namespace) -> int:
    """Take runs of the plan, one after the other, until all are done or the deadline is near."""
    device = torch.device(options.device)
    mode = options.mode if device.type == "cuda" else "eager"
    training = Training(scale, device, mode=mode, compiled=options.compile, folder=options.text)
    expected = options.guess
    facts = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "text": training.facts,
        "scale": asdict(scale),
        "compiled": training.compiled,
    }
    while time.time() + expected < options.deadline:
        jobs, complete = plan(results.rows(), scale, methods)
        open_jobs = [job for job in jobs if not results.has(job)]
        job = next((job for job in open_jobs if results.claim(job)), None)
        if job is None:
            if complete or all(results.is_barred(job) for job in open_jobs):
                break
            time.sleep(0.2)  # A run of another process decides what comes next.
            continue
        row = training.run(METHODS[job.method], job.rate, job.seed)
        results.write({"job": asdict(job), **row, **facts})
        print(
            f"{time.strftime('%H:%M:%S')} {job.name}: validation {row['validation']:.4f}, training "
            f"{row['training']:.4f}, {row['seconds']:.1f} s, {row['mode']}",
            flush=True,
        )
        if device.type == "cuda":
            gc.collect()  # A graph holds its memory until it is collected.
        expected = 1.1 * row["seconds"]
    return 0


def run(options: argparse.Namespace) -> int:
    """Work in this process, or start ``together`` processes that do; gather all rows in results.json."""
    scale = replace(TINY if options.tiny else Scale(), **({"steps": options.steps} if options.steps else {}))
    methods = options.methods.split(",") if options.methods else list(METHODS)
    results = Results(options.out)
    if options.worker:
        return work(results, scale, methods, options)
    if options.resume:
        for row in json.loads(options.resume.read_text())["runs"]:
            results.write(row)
    shutil.rmtree(results.claims)
    results.claims.mkdir()
    command = [sys.executable, __file__, *options.arguments, "--worker", "--deadline", str(options.deadline)]
    if options.together == 0:
        work(results, scale, methods, options)
    workers = [subprocess.Popen(command) for _ in range(options.together)]
    restarts = options.together
    done = -1
    while workers or done < 0:
        time.sleep(0.5 if workers else 0.0)
        for i, worker in reversed(list(enumerate(workers))):
            if (code := worker.poll()) is None:
                continue
            results.release(worker.pid)
            del workers[i]
            if code != 0 and restarts > 0:
                restarts -= 1
                workers.append(subprocess.Popen(command))
        if (now := len(list(results.runs.glob("*.json")))) != done:
            done = now
            gather(results, options.collect or options.out / "results.json")
        if time.time() > options.deadline + 5.0:
            for worker in workers:
                worker.kill()
    jobs, complete = plan(results.rows(), scale, methods)
    missing = [job.name for job in jobs if not results.has(job)]
    print(
        f"{done} runs are done, {len(missing)} that can be named are missing: {' '.join(missing) or 'none'}."
    )
    return 0 if complete and not missing else 3


def check(options: argparse.Namespace) -> int:
    """Compare a miniature of each method by CUDA graphs with eager steps; return 1 if they differ."""
    device, scale = torch.device(options.device), replace(TINY, steps=options.steps or 40)
    modes = ("eager", options.mode if device.type == "cuda" else "eager")
    eagerly, training = (
        Training(scale, device, mode=mode, compiled=False, folder=options.text) for mode in modes
    )
    worst = 0.0
    for name, method in METHODS.items():
        rows = [each.run(method, method.rates[1], TUNING_SEED) for each in (eagerly, training)]
        (eager, eager_norm), (other, other_norm) = ((row["validation"], row["norm"]) for row in rows)
        difference = max(abs(other - eager) / eager, abs(other_norm - eager_norm) / eager_norm)
        worst = max(worst, difference) if math.isfinite(difference) else math.inf
        print(
            f"{name:16} eager {eager:.5f}, {training.mode} {other:.5f}; norms {eager_norm:.5f} and "
            f"{other_norm:.5f}; {rows[1]['seconds']:.1f} s",
            flush=True,
        )
    print(f"largest relative difference {worst:.1e}: {'pass' if worst < 1e-2 else 'FAIL'}")
    return int(worst >= 1e-2)


def gather(results: Results, file: Path) -> None:
    """Write all rows to one file, a line for each run."""
    lines = ",\n".join(json.dumps(row) for row in results.rows())
    partial = file.with_suffix(".partial")
    partial.write_text(f'{{"runs": [\n{lines}\n]}}\n', encoding="utf-8")
    partial.replace(file)


def interval(values: list[float]) -> tuple[float, float]:
    """Return the mean and the half-width of its 95 % t-interval; the width of one value is infinite."""
    n = len(values)
    if n < 2:
        return statistics.fmean(values), math.inf
    return statistics.fmean(values), STUDENT[n - 2] * statistics.stdev(values) / math.sqrt(n)


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each method: rate, means over the seeds, and differences from AdamW paired by seed."""
    final: dict[str, dict[int, dict[str, Any]]] = {}
    tuned: dict[str, dict[float, float]] = {}
    for row in rows:
        job = Job(**row["job"])
        if job.part == "final":
            final.setdefault(job.method, {})[job.seed] = row
        else:
            tuned.setdefault(job.method, {})[job.rate] = row["validation"]
    found = []
    for name in (name for name in METHODS if name in final):
        runs, reference = final[name], final.get("adamw", {})
        entry: dict[str, Any] = {"method": name, "label": METHODS[name].label, "seeds": sorted(runs)}
        entry["rate"] = next(iter(runs.values()))["job"]["rate"]
        entry["tuning"] = dict(sorted(tuned.get(name, {}).items()))
        entry["norm"] = statistics.fmean(row["norm"] for row in runs.values())
        for kind in ("validation", "training"):
            entry[kind] = statistics.fmean(row[kind] for row in runs.values())
            shared = sorted(set(runs) & set(reference))
            if name != "adamw" and shared:
                entry[f"{kind}_difference"] = interval([runs[s][kind] - reference[s][kind] for s in shared])
        found.append(entry)
    return found


def show(entries: list[dict[str, Any]]) -> None:
    print(
        "| method | rate | rates tried | seeds | validation | minus AdamW (95 %) | verdict | training "
        "| minus AdamW (95 %) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for entry in entries:
        cells = []
        for kind in ("validation", "training"):
            mean, half = entry.get(f"{kind}_difference", (0.0, math.nan))
            cells.append("" if math.isnan(half) else f"{mean:+.4f} ± {half:.4f}")
        mean, half = entry.get("validation_difference", (0.0, math.inf))
        verdict = "lower" if mean + half < 0 else "higher" if mean - half > 0 else "not decided"
        verdict = "" if entry["method"] == "adamw" else verdict
        tried = ", ".join(f"{rate:g}: {loss:.3f}" for rate, loss in entry["tuning"].items())
        print(
            f"| {entry['label']} | {entry['rate']:g} | {tried} | {len(entry['seeds'])} "
            f"| {entry['validation']:.4f} | {cells[0]} | {verdict} | {entry['training']:.4f} | {cells[1]} |"
        )


def table(options: argparse.Namespace) -> int:
    """Print the table and write the record, from the folder of results or from a gathered file."""
    rows = (
        json.loads(options.out.read_text())["runs"] if options.out.is_file() else Results(options.out).rows()
    )
    if not rows:
        raise SystemExit(f"No run is done in {options.out}. Start with the verb run.")
    entries = summary(rows)
    show(entries)
    shared = ("device", "torch", "python", "text", "scale", "compiled")
    texts = {row["text"]["sha256"] for row in rows}
    if len(texts) > 1:
        raise SystemExit(f"The runs have {len(texts)} different texts; compare runs of one machine.")
    facts = {name: rows[0][name] for name in shared}
    facts["device_seconds"] = sum(row["seconds"] for row in rows)
    lines = [json.dumps({k: v for k, v in row.items() if k not in shared}) for row in rows]
    content = f'{{"facts": {json.dumps(facts)},\n"methods": [\n'
    content += ",\n".join(map(json.dumps, entries)) + '\n],\n"runs": [\n' + ",\n".join(lines) + "\n]}\n"
    options.record.write_text(content, encoding="utf-8")
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    return 0


def plot(options: argparse.Namespace) -> int:
    """Draw validation loss against steps from the record: mean over seeds, with the range as a band."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in json.loads(options.record.read_text())["runs"] if row["job"]["part"] == "final"]
    figure, (all_steps, last) = pyplot.subplots(1, 2, figsize=(9.0, 3.6))
    for number, name in enumerate(METHODS):
        curves = [row["curve"] for row in rows if row["job"]["method"] == name]
        if not curves:
            continue
        # The last point is of all validation windows, and the others of a quarter of them.
        t = [step for step, _ in curves[0][:-1]]
        losses = [[loss for _, loss in points] for points in zip(*curves, strict=True)][:-1]
        for axes in (all_steps, last):
            axes.plot(
                t,
                [statistics.fmean(values) for values in losses],
                color=f"C{number}",
                label=METHODS[name].label,
            )
            axes.fill_between(
                t, [min(v) for v in losses], [max(v) for v in losses], color=f"C{number}", alpha=0.2
            )
            axes.set_xlabel("step")
    all_steps.set_ylabel("validation loss (nats a byte)")
    ends = [row["curve"][-2][1] for row in rows]
    steps = rows[0]["curve"][-2][0]
    last.set_xlim(0.7 * steps, steps)
    last.set_ylim(min(ends) - 0.01, max(ends) + 0.08)
    last.set_title("the end of the runs", fontsize="medium")
    last.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(options.image, dpi=150)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("verb", choices=["check", "run", "table", "plot"])
    made.add_argument("--out", type=Path, default=Path("transformer-results"), help="folder of results")
    made.add_argument("--seconds", type=float, default=math.inf, help="time limit")
    made.add_argument("--together", type=int, default=4, help="processes that share the device; 0: this one")
    made.add_argument("--mode", choices=["graph", "half", "eager"], default="graph", help="on a CUDA device")
    made.add_argument("--compile", action="store_true", help="compile the network")
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    made.add_argument("--methods", default="", help="names with commas; all by default")
    made.add_argument("--steps", type=int, default=0)
    made.add_argument("--text", type=Path, help="folder of .py files; by default the standard library")
    made.add_argument("--tiny", action="store_true", help="a network and runs of seconds on a CPU")
    made.add_argument("--guess", type=float, default=15.0, help="seconds of the first run of a process")
    made.add_argument("--collect", type=Path, help="file of all rows; by default results.json in the folder")
    made.add_argument("--resume", type=Path, help="file of all rows of an earlier call")
    made.add_argument("--record", type=Path, default=RECORD)
    made.add_argument("--image", type=Path, default=IMAGE)
    made.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    return made


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(arguments)
    options.arguments = arguments
    if options.deadline is None:
        options.deadline = time.time() + options.seconds
    return {"check": check, "run": run, "table": table, "plot": plot}[options.verb](options)


if __name__ == "__main__":
    sys.exit(main())
