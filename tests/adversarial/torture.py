"""Try prgd on new adversarial problems and damaged files for a given time, on all cores.

``python tests/adversarial/torture.py --seconds 60`` prints its seed, a table by generator and verdict and the
failures by kind, and exits with 1 if there was any failure. ``--seed S`` repeats a run, ``--seed S --case K``
one of its cases.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from multiprocessing.connection import Connection, wait
from pathlib import Path

if __name__ in ("__main__", "__mp_main__"):  # one thread in each process, set before NumPy is loaded
    for variable in ("PRGD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0:1] = [str(Path(__file__).resolve().parents[1])]

import numpy as np
from adversarial.damaged_files import trial
from adversarial.problems import GENERATORS
from adversarial.trial import described, judge

HANG_SECONDS = 60  # a case that takes longer counts as a hang: its process ends itself, and is replaced
REPORT_SECONDS = 0.5  # time between two messages of a worker
SHOWN = 5  # failures of each kind that are printed
EXTRA_SHARE = 0.05  # share of the cases that also try `run`, and of those that also try the estimator
PARTS = ("problems", "files")
Found = tuple[tuple[str, ...], list[dict]]  # what is counted, and the failures


def problem_case(seed: int, index: int):
    """Return the case of a number, and what else is tried on it."""
    names = list(GENERATORS)
    rng = np.random.default_rng([seed, 0, index])
    draw = rng.random()
    extra = "run" if draw < EXTRA_SHARE else "estimator" if draw < 2 * EXTRA_SHARE else ""
    return GENERATORS[names[index % len(names)]](rng), extra


def try_problem(seed: int, index: int) -> Found:
    """Judge one problem."""
    case, extra = problem_case(seed, index)
    outcome = judge(case, extra)
    failures = [
        {
            "failure": kind,
            "message": text,
            "size": size,
            "exact": outcome.verdict,
            **about(seed, index, "problems"),
        }
        for kind, text, size in outcome.failures
    ]
    return ("problems", case.name, outcome.verdict, outcome.status, outcome.separability), failures


def try_file(seed: int, index: int, folder: Path) -> Found:
    """Damage and read one file."""
    try:
        said = trial(np.random.default_rng([seed, 1, index]), folder)
    except Exception as error:  # the readers' undocumented errors are findings of the trial
        said = f"unknown: FAILED: {type(error).__name__}: {error}"
    kind, _, outcome = said.partition(": ")
    if not outcome.startswith("FAILED"):
        return ("files", kind, outcome), []
    failure = {"failure": "file", "message": outcome, **about(seed, index, "files"), "generator": kind}
    return ("files", kind, "FAILED"), [failure]


def about(seed: int, index: int, part: str) -> dict:
    """Return what a failure says of its case."""
    known = described(problem_case(seed, index)[0]) if part == "problems" else {}
    return {"seed": seed, "case": index, "only": part, **known}


def work(seed: int, stride: int, ends: dict[str, float], now, pipe: Connection) -> None:
    """Try cases of each part until its end, from where ``now`` stands, and report now and then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    try_problem(seed, 0)  # compiles and imports, off the clock
    counts, failures, reported = Counter(), [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        for number, (part, end) in enumerate(ends.items()):
            while number == now[0] and time.monotonic() < end:
                signal.alarm(HANG_SECONDS)
                case, one = (
                    try_problem(seed, now[1]) if part == "problems" else try_file(seed, now[1], Path(folder))
                )
                signal.alarm(0)
                counts[case] += 1
                failures += one
                now[1] += stride
                if time.monotonic() - reported > REPORT_SECONDS:
                    pipe.send((counts, failures))
                    counts, failures, reported = Counter(), [], time.monotonic()
            if number == now[0]:
                now[:] = [number + 1, now[1] % stride]
    pipe.send((counts, failures))
    pipe.send(None)


class Crew:
    """The worker processes; one that hangs or dies is noted and replaced."""

    def __init__(self, seed: int, jobs: int, ends: dict[str, float]) -> None:
        self.seed, self.jobs, self.ends = seed, jobs, ends
        self.context = multiprocessing.get_context("spawn")
        self.workers: dict[Connection, tuple[multiprocessing.Process, list[int]]] = {}
        self.counts: Counter = Counter()
        for first in range(jobs):
            self._start(self.context.RawArray("q", [0, first]))  # the number of the part, and the case

    def _start(self, now) -> None:
        receiver, sender = self.context.Pipe(duplex=False)
        process = self.context.Process(
            target=work, args=(self.seed, self.jobs, self.ends, now, sender), daemon=True
        )
        process.start()
        sender.close()
        self.workers[receiver] = process, now

    def listen(self) -> list[dict]:
        """Return the failures that the workers report within a second; replace those that have died."""
        failures = []
        for pipe in wait(list(self.workers), timeout=1.0):
            process, now = self.workers[pipe]
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                process.join()
                failures.append(self._died(process.exitcode, *now))
                now[1] += self.jobs
                self._start(now)
                message = None
            if message is None:
                process.join()
                del self.workers[pipe]
            else:
                self.counts += message[0]
                failures += message[1]
        return failures

    def _died(self, code: int, number: int, index: int) -> dict:
        is_hang = code == -signal.SIGALRM
        text = f"no answer within {HANG_SECONDS} s" if is_hang else f"the process ended with code {code}"
        case = about(self.seed, index, list(self.ends)[number])
        return {"failure": "hang" if is_hang else "crash", "message": text, **case}

    def stop(self) -> None:
        """End all workers."""
        for process, _ in self.workers.values():
            process.kill()
            process.join()


def shown(failure: dict) -> str:
    where = f"--seed {failure['seed']} --case {failure['case']} --only {failure['only']}"
    lines = [f"{failure['failure']} ({failure.get('generator', '')}, {where}): {failure['message']}"]
    if "X" in failure:
        lines.append(f"    X = {failure['X']}  # {failure['kind']}")
        lines.append(f"    y = {failure['y']}; fit_intercept = {failure['fit_intercept']}")
    return "\n".join(lines)


def table(counts: Counter) -> list[str]:
    """Return lines: problems by generator and exact verdict, files by kind, with the outcomes of each."""
    cases: dict[tuple[str, str], Counter] = defaultdict(Counter)
    for (part, *key), count in counts.items():
        if part == "files":
            cases["file", key[0]][key[1]] += count
            continue
        name, verdict, status, separability = key
        for row in ((name, verdict), ("all", verdict)):
            cases[row][status] += count
            cases[row]["separability undecided"] += count * (separability == "undecided")
    lines = [f"{'generator':24} {'verdict or kind':28} {'cases':>8} {'certified':>10}  outcomes"]
    for (name, verdict), outcomes in sorted(cases.items()):
        undecided = outcomes.pop("separability undecided", 0)
        solved = outcomes.total() - outcomes["refused"]
        share = f"{100 * outcomes['CERTIFIED'] / solved:.2f} %" if verdict == "separable" and solved else ""
        parts = [f"{status} {count}" for status, count in outcomes.most_common() if count]
        parts += [f"(separability undecided {undecided})"] if undecided else []
        lines.append(f"{name:24} {verdict:28} {outcomes.total():8} {share:>10}  {', '.join(parts)}")
    return lines


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="default: one per core")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--case", type=int, help="try one case of the seed and print it")
    parser.add_argument("--failures", type=Path, help="append all failures to this JSON-lines file")
    options = parser.parse_args(arguments)
    if options.case is not None and options.seed is None:
        parser.error("--case is a case of a seed: give --seed too")
    return options


def one_case(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        rest = (Path(folder),) if options.only == "files" else ()
        found, failures = (try_file if rest else try_problem)(options.seed, options.case, *rest)
    print(*found)
    print(*map(shown, failures), sep="\n")
    return int(bool(failures))


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.case is not None:
        return one_case(options)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.jobs} processes, {options.seconds:g} s", flush=True)
    start, kinds, largest = time.monotonic(), Counter(), defaultdict(float)
    parts = [options.only] if options.only else PARTS
    ends = {part: start + options.seconds * (k + 1) / len(parts) for k, part in enumerate(parts)}
    crew = Crew(seed, options.jobs, ends)
    try:
        while crew.workers:
            for failure in crew.listen():
                kind = failure["failure"]
                kinds[kind] += 1
                largest[kind] = max(largest[kind], failure.get("size", 0.0))
                if kinds[kind] <= SHOWN:
                    print(shown(failure), flush=True)
                if options.failures is not None:
                    with options.failures.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(failure) + "\n")
    except KeyboardInterrupt:
        print("interrupted")
        crew.stop()
    problems = sum(n for key, n in crew.counts.items() if key[0] == "problems")
    print(*table(crew.counts), "", sep="\n")
    seconds = time.monotonic() - start
    print(
        f"{problems} problems, {crew.counts.total() - problems} damaged files, {seconds:.0f} s, seed {seed}"
    )
    print(f"failures: {'none' if not kinds else ''}")
    for kind, count in kinds.most_common():
        print(
            f"  {kind}: {count}" + (f" (largest relative error {largest[kind]:.1e})" if largest[kind] else "")
        )
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
