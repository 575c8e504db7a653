"""How many training runs of VGG-16 should share a CUDA device, and how: steps a second of several processes.

Random images stand in for CIFAR-10. Processes share the device by NVIDIA's MPS if its daemon can be started
(``mps``), or take turns (``plain``); ``compiled`` and ``heuristics`` are one process each, with a compiled
network and with kernels that cuDNN chooses without timing them. ``choice.json`` holds the fastest way.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

EPOCH = 782  # steps
STEPS = 40  # steps between two looks at the clock
WORKERS = {"mps": 6, "plain": 3, "compiled": 1, "heuristics": 1}


def worker(kind: str, model: str, lock: str) -> None:
    """Warm up, say ready, then answer each line with a number of seconds by steps and seconds."""
    import torch
    from prgd_paper.training.command import prepare_device
    from prgd_paper.training.evaluation import evaluate
    from prgd_paper.training.images import synthetic
    from prgd_paper.training.settings import Settings, Where
    from prgd_paper.training.steps import batches, own_stream
    from prgd_paper.training.train_loop import Run

    images = synthetic(2000, size=32)
    prepare_device("")
    if kind == "heuristics":
        torch.backends.cudnn.benchmark = False
    amp = "bf16" if torch.cuda.is_available() else "off"
    settings = Settings("cifar10", model, "prgd", lr=1e-4, amp=amp)
    run = Run(settings, images, Where(compile=kind == "compiled"))
    order = batches(2000, 64, 0, 0).to(run.device)
    run.optimizer.t = run.optimizer.warm_up

    def wait() -> None:
        if run.device.type == "cuda":
            torch.cuda.current_stream().synchronize()

    def steps(count: int) -> None:
        for i in range(count):
            run.stepper.step(order[i % len(order)])

    with own_stream(run.device):
        with Path(lock).open("w") as file:
            if kind != "compiled":  # Timings of kernels by cuDNN disturb each other.
                fcntl.flock(file, fcntl.LOCK_EX)
            steps(STEPS)
            wait()
        print("ready", flush=True)
        for line in sys.stdin:
            if line.strip() == "detail":
                _detail(run, steps, wait, evaluate)
                continue
            started, count = time.perf_counter(), 0
            while time.perf_counter() < started + float(line):
                steps(STEPS)
                wait()
                count += STEPS
            print(json.dumps([count, time.perf_counter() - started]), flush=True)


def _detail(run, steps, wait, evaluate) -> None:
    """Answer with the milliseconds a step takes on the host and in all, the evaluation, and the kernels."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    wait()
    started = time.perf_counter()
    steps(11)  # less than a phase: at most one rescaling
    host = time.perf_counter() - started
    wait()
    total = time.perf_counter() - started
    evaluate(run.model, run.train, amp=run.settings.amp)
    started = time.perf_counter()
    evaluate(run.model, run.train, amp=run.settings.amp)
    evaluation = time.perf_counter() - started
    table = ""
    if run.device.type == "cuda":
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            steps(4)
            torch.cuda.synchronize()
        table = seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=40)
    found = {"host_ms": 1e3 * host / 11, "step_ms": 1e3 * total / 11, "evaluation_2000_s": evaluation}
    print(json.dumps([found, table]), flush=True)


class Worker:
    """A worker process and its pipes."""

    def __init__(self, kind: str, number: int, environment: dict[str, str], model: str, folder: Path):
        self.kind, self.name, self.file = kind, f"{kind} {number}", folder / f"probe-{kind}-{number}.log"
        self.log, lock = self.file.open("w"), str(folder / "lock")
        command = [sys.executable, __file__, "--worker", kind, "--model", model, "--lock", lock]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log}
        self.process = subprocess.Popen(command, env=environment, text=True, bufsize=1, **pipes)

    def ask(self, text: str) -> None:
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def answer(self, timeout: float) -> str:
        """Return the next line, or nothing if it does not come in time or the process has ended."""
        ready, _, _ = select.select([self.process.stdout], [], [], max(timeout, 0.0))
        return self.process.stdout.readline() if ready else ""


def start_mps(folder: Path) -> dict[str, str] | None:
    """Start the MPS daemon; return the variables that make a process use it, or None if there is none."""
    places = os.environ["PATH"] + ":/usr/local/nvidia/bin:/usr/bin:/usr/local/cuda/bin"
    control = shutil.which("nvidia-cuda-mps-control", path=places)
    print("MPS:", control)
    if control is None:
        return None
    names = {"CUDA_MPS_PIPE_DIRECTORY": folder / "mps-pipe", "CUDA_MPS_LOG_DIRECTORY": folder / "mps-log"}
    for place in names.values():
        place.mkdir(parents=True, exist_ok=True)
    variables = {name: str(place) for name, place in names.items()}
    try:
        with (folder / "mps.txt").open("w") as log:  # no pipe: the daemon keeps its end open
            done = subprocess.run(
                [control, "-d"],
                env={**os.environ, **variables},
                stdout=log,
                stderr=log,
                timeout=15,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return None
    print("MPS daemon: exit code", done.returncode, (folder / "mps.txt").read_text().strip())
    return variables if done.returncode == 0 else None


def measure(workers: list[Worker], seconds: float) -> float:
    """Return the steps a second of some workers together; 0 if one does not answer."""
    for one in workers:
        one.ask(str(seconds))
    answers = [one.answer(seconds + 20.0) for one in workers]
    if not all(answers):
        return 0.0
    return sum(count / passed for count, passed in map(json.loads, answers))


def choose(found: dict[str, dict[int, float]]) -> dict[str, object]:
    """Return the way of sharing with most steps a second, with few processes if more add under 4 %."""
    rates = {(kind, n): rate for kind in ("plain", "mps") for n, rate in found.get(kind, {}).items() if rate}
    if not rates:
        return {"mps": False, "together": 3, "compile": False, "heuristics": False, "shared": 0.95}
    most = max(rates.values())
    kind, together = min((key for key in rates if rates[key] > 0.96 * most), key=lambda key: key[1])
    alone = max(found.get(name, {}).get(1, 0.0) for name in ("plain", "mps"))
    gain = {name: found.get(name, {}).get(1, 0.0) / alone for name in ("compiled", "heuristics")}
    return {
        "mps": kind == "mps",
        # Processes also start, evaluate and end: one more hides that, two even where they take turns.
        "together": max(2, together) + (together < 6),
        "compile": gain["compiled"] > 1.15,
        "heuristics": gain["heuristics"] > 0.97,  # no timing, which other processes would disturb
        "shared": 1.15 * EPOCH / most,
        "alone": 1.15 * EPOCH / alone,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", default="")
    parser.add_argument("--model", default="vgg16")
    parser.add_argument("--lock", default="")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--state", type=Path, default=Path("results"), help="folder of MPS and choice.json")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one measurement")
    parser.add_argument("--start", type=float, default=75.0, help="longest time to wait for all workers")
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.model, given.lock)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    given.state.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    mps = start_mps(given.state)
    workers: list[Worker] = []
    for kind, count in WORKERS.items():
        if kind == "mps" and mps is None:
            continue
        variables = {**environment, **(mps or {})} if kind == "mps" else environment
        workers += [Worker(kind, n, variables, given.model, given.state) for n in range(count)]
    waiting, ready = list(workers), []
    while waiting and time.monotonic() - began < given.start:
        for one in list(waiting):
            ended = one.process.poll() is not None
            if ended or one.answer(0.05).strip() == "ready":
                waiting.remove(one)
                ready += [] if ended else [one]
    print(f"{len(ready)} of {len(workers)} workers are ready after {time.monotonic() - began:.0f} s")
    for one in workers:
        if one not in ready:
            print(f"{one.name} is not ready: {one.file.read_text().strip()[-200:]}")
    found: dict[str, dict[int, float]] = {}
    for kind, counts in {
        "plain": (1, 2, 3),
        "mps": (1, 2, 3, 4, 6),
        "heuristics": (1,),
        "compiled": (1,),
    }.items():
        able = [one for one in ready if one.kind == kind]
        for n in [n for n in counts if n <= len(able)]:
            rate = measure(able[:n], given.seconds)
            found.setdefault(kind, {})[n] = rate
            pace = EPOCH / rate if rate else float("nan")
            print(f"{kind:11}{n:3} processes {rate:8.0f} steps/s {pace:7.3f} s an epoch", flush=True)
            if not rate:
                break
    choice = choose(found)
    (given.state / "choice.json").write_text(json.dumps(choice) + "\n")
    (given.out / "probe.json").write_text(json.dumps({"found": found, "choice": choice}, indent=1) + "\n")
    print("choice:", json.dumps(choice), flush=True)
    for one in [one for one in ready if one.kind == "plain"][:1]:
        one.ask("detail")
        numbers, table = json.loads(one.answer(30.0) or '[{}, ""]')
        (given.out / "kernels.txt").write_text(table)
        print("detail:", json.dumps(numbers), flush=True)
    for one in workers:
        one.process.stdin.close()  # ends the process; killing it could harm others that share MPS
    for one in workers:
        try:
            one.process.wait(timeout=8.0)
        except subprocess.TimeoutExpired:
            one.process.kill()
    print(f"{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
