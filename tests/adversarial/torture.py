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

HANG_SECONDS = 60.0  # a case that takes longer counts as a hang; its process is ended and replaced
REPORT_SECONDS = 0.5  # time between two messages of a worker
SHOWN = 5  # failures of each kind that are printed
EXTRA_SHARE = 0.05  # share of the cases that also try `run`, and of those that also try the estimator


def load_files():
    """Return the function that damages and reads one file, or None if there is none."""
    try:
        from adversarial.damaged_files import trial
    except ModuleNotFoundError as error:
        if error.name != "adversarial.damaged_files":
            raise
        return None
    return trial


def problem_case(seed: int, index: int):
    """Return the case of a number, and what else is tried on it."""
    from adversarial.problems import GENERATORS

    names = list(GENERATORS)
    rng = np.random.default_rng([seed, 0, index])
    draw = rng.random()
    extra = "run" if draw < EXTRA_SHARE else "estimator" if draw < 2 * EXTRA_SHARE else ""
    return GENERATORS[names[index % len(names)]](rng), extra


def try_problem(seed: int, index: int) -> tuple[tuple[str, ...], list[dict]]:
    """Judge one problem: what is counted, and its failures."""
    from adversarial.trial import described, judge

    case, extra = problem_case(seed, index)
    outcome = judge(case, extra)
    if not outcome.failures:
        failures = []
    else:
        about = {**described(case), "seed": seed, "case": index, "exact": outcome.verdict}
        failures = [
            {"failure": kind, "message": text, "size": size, **about} for kind, text, size in outcome.failures
        ]
    return ("problem", case.name, outcome.verdict, outcome.status, outcome.separability), failures


def try_file(seed: int, index: int, folder: Path) -> tuple[tuple[str, ...], list[dict]]:
    """Damage and read one file: what is counted, and its failure."""
    about = {"seed": seed, "case": index, "only": "files"}
    try:
        said = load_files()(np.random.default_rng([seed, 1, index]), folder)
    except Exception as error:  # the readers' undocumented errors are findings of the trial
        said = f"unknown: FAILED: {type(error).__name__}: {error}"
    kind, _, outcome = said.partition(": ")
    if not outcome:
        kind, outcome = "file", said
    failed = outcome.startswith("FAILED")
    failures = [{"failure": "file", "generator": kind, "message": outcome, **about}] if failed else []
    return ("file", kind, "FAILED" if failed else outcome), failures


def work(
    seed: int, first: int, stride: int, parts: list[tuple[str, float]], clock, place: int, pipe: Connection
):
    """Try cases first, first + stride, ... of each part until its time is over, and report."""
    try_problem(seed, 0)  # compiles and imports, off the clock of the watchdog
    counts: Counter = Counter()
    failures: list[dict] = []
    reported = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        for number, (part, deadline) in enumerate(parts):
            index = first
            while time.monotonic() < deadline:
                clock[3 * place : 3 * place + 3] = [time.monotonic(), float(index), float(number)]
                found = (
                    try_problem(seed, index) if part == "problems" else try_file(seed, index, Path(folder))
                )
                counts[found[0]] += 1
                failures += found[1]
                index += stride
                if time.monotonic() - reported > REPORT_SECONDS:
                    clock[3 * place] = 0.0
                    pipe.send((counts, failures))
                    counts, failures, reported = Counter(), [], time.monotonic()
    clock[3 * place] = 0.0
    pipe.send((counts, failures))
    pipe.send(None)


class Crew:
    """The worker processes; one that hangs or dies is noted and replaced."""

    def __init__(self, seed: int, jobs: int, parts: list[tuple[str, float]]) -> None:
        self.seed, self.jobs, self.parts = seed, jobs, parts
        self.context = multiprocessing.get_context("spawn")
        self.clock = self.context.RawArray("d", 3 * jobs)  # start time, case and part of each worker
        self.processes: dict[Connection, tuple[multiprocessing.Process, int]] = {}
        self.counts: Counter = Counter()
        self.failures: list[dict] = []
        for place in range(jobs):
            self._start(place, place, parts)

    def _start(self, place: int, first: int, parts: list[tuple[str, float]]) -> None:
        self.clock[3 * place : 3 * place + 3] = [0.0, -1.0, 0.0]
        receiver, sender = self.context.Pipe(duplex=False)
        arguments = (self.seed, first, self.jobs, parts, self.clock, place, sender)
        process = self.context.Process(target=work, args=arguments, daemon=True)
        process.start()
        sender.close()
        self.processes[receiver] = (process, place)

    def listen(self) -> list[dict]:
        """Take what the workers report within a second, replace those that hang, and return new failures."""
        known = len(self.failures)
        for pipe in wait(list(self.processes), timeout=1.0):
            process, place = self.processes[pipe]
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                process.join()
                self._replace(pipe, "crash", f"the process ended with code {process.exitcode}")
                continue
            if message is None:
                process.join()
                del self.processes[pipe]
            else:
                self.counts += message[0]
                self.failures += message[1]
        for pipe, (_, place) in list(self.processes.items()):
            started = self.clock[3 * place]
            if started and time.monotonic() - started > HANG_SECONDS:
                self._replace(pipe, "hang", f"no answer within {HANG_SECONDS:.0f} s")
        return self.failures[known:]

    def _replace(self, pipe: Connection, kind: str, text: str) -> None:
        process, place = self.processes.pop(pipe)
        process.kill()
        process.join()
        index, number = int(self.clock[3 * place + 1]), int(self.clock[3 * place + 2])
        if index < 0:
            raise SystemExit("A worker process ended before its first case; its error is printed above.")
        part = self.parts[number][0]
        about = {"seed": self.seed, "case": index, "only": part}
        if part == "problems":
            from adversarial.trial import described

            about |= described(problem_case(self.seed, index)[0])
        self.failures.append({"failure": kind, "message": text, **about})
        if time.monotonic() < self.parts[-1][1]:
            self._start(place, index + self.jobs, self.parts[number:])


def shown(failure: dict) -> str:
    where = f"--seed {failure['seed']} --case {failure['case']}"
    where += " --only files" if failure.get("only") == "files" else ""
    lines = [f"{failure['failure']} ({failure.get('generator', '')}, {where}): {failure['message']}"]
    if "X" in failure:
        lines.append(f"    X = {failure['X']}  # {failure['kind']}")
        lines.append(f"    y = {failure['y']}; fit_intercept = {failure['fit_intercept']}")
    return "\n".join(lines)


def problem_table(counts: Counter) -> list[str]:
    """Return the lines of the table: cases by generator and exact verdict, and the statuses of max_margin."""
    cases: dict[tuple[str, str], Counter] = defaultdict(Counter)
    undecided: Counter = Counter()
    for key, count in counts.items():
        if key[0] == "problem":
            cases[key[1], key[2]][key[3]] += count
            undecided[key[1], key[2]] += count * (key[4] == "undecided")
    lines = [f"{'generator':24} {'exact verdict':16} {'cases':>8} {'certified':>10}  statuses"]
    total: dict[str, Counter] = defaultdict(Counter)
    for (name, verdict), statuses in sorted(cases.items()):
        lines.append(_row(name, verdict, statuses, undecided[name, verdict]))
        total[verdict] += statuses
    for verdict, statuses in sorted(total.items()):
        lines.append(
            _row("all", verdict, statuses, sum(n for key, n in undecided.items() if key[1] == verdict))
        )
    return lines


def _row(name: str, verdict: str, statuses: Counter, undecided: int) -> str:
    solved = statuses.total() - statuses["refused"]
    share = f"{100 * statuses['CERTIFIED'] / solved:.2f} %" if verdict == "separable" and solved else ""
    parts = [f"{status} {count}" for status, count in statuses.most_common()]
    parts += [f"(separability undecided {undecided})"] if undecided else []
    return f"{name:24} {verdict:16} {statuses.total():8} {share:>10}  {', '.join(parts)}"


def file_table(counts: Counter) -> list[str]:
    kinds: dict[str, Counter] = defaultdict(Counter)
    for key, count in counts.items():
        if key[0] == "file":
            kinds[key[1]][key[2]] += count
    lines = [
        f"{kind:24} {outcomes.total():8}  {', '.join(f'{o} {n}' for o, n in outcomes.most_common())}"
        for kind, outcomes in sorted(kinds.items())
    ]
    return [f"{'file kind':24} {'cases':>8}  outcomes", *lines] if lines else []


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="default: one per core"
    )
    parser.add_argument("--only", choices=("problems", "files"))
    parser.add_argument("--case", type=int, help="try one case of the seed and print it")
    parser.add_argument("--failures", type=Path, help="append all failures to this JSON-lines file")
    return parser.parse_args(arguments)


def one_case(options: argparse.Namespace) -> int:
    if options.only == "files":
        with tempfile.TemporaryDirectory() as folder:
            found, failures = try_file(options.seed, options.case, Path(folder))
    else:
        found, failures = try_problem(options.seed, options.case)
    print(*found)
    print(*map(shown, failures), sep="\n")
    return int(bool(failures))


def planned(options: argparse.Namespace) -> list[tuple[str, float]]:
    """Return the parts of the run, each with the time of its end."""
    now = time.monotonic()
    names = [options.only] if options.only else ["problems", *(["files"] if load_files() else [])]
    return [(name, now + options.seconds * (k + 1) / len(names)) for k, name in enumerate(names)]


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.case is not None and options.seed is not None:
        return one_case(options)
    if options.only == "files" and load_files() is None:
        print("There is no tests/adversarial/damaged_files.py: no files can be tried.", file=sys.stderr)
        return 2
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.jobs} processes, {options.seconds:g} s", flush=True)
    start = time.monotonic()
    crew, kinds = Crew(seed, options.jobs, planned(options)), Counter()
    worst: dict[str, float] = defaultdict(float)
    while crew.processes:
        for failure in crew.listen():
            kinds[failure["failure"]] += 1
            worst[failure["failure"]] = max(worst[failure["failure"]], failure.get("size", 0.0))
            if kinds[failure["failure"]] <= SHOWN:
                print(shown(failure), flush=True)
            if options.failures is not None:
                with options.failures.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(failure) + "\n")
        if sys.stdout.isatty():
            elapsed = time.monotonic() - start
            progress = f"{elapsed:6.0f} s  {crew.counts.total()} cases, {len(crew.failures)} failures"
            print(progress, end="\r", flush=True)
    problems = sum(n for key, n in crew.counts.items() if key[0] == "problem")
    files = crew.counts.total() - problems
    print(*problem_table(crew.counts), "", *file_table(crew.counts), sep="\n")
    print(f"\n{problems} problems, {files} damaged files, {time.monotonic() - start:.0f} s, seed {seed}")
    print("failures:" if kinds else "failures: none")
    for kind, count in kinds.most_common():
        print(f"  {kind} {count}" + (f" (largest relative error {worst[kind]:.1e})" if worst[kind] else ""))
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
