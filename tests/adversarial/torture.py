"""Try prgd on new adversarial problems, damaged files and regressions for a given time, on all cores.

``python tests/adversarial/torture.py --seconds 60`` prints its seed, how often each outcome occurred and the
failures by kind, and exits with 1 if there was any failure. ``--seed S`` repeats a run, and
``--seed S --only PART --case K`` one of its cases. The parts are problems of two classes against an exact
oracle, the same as tensors (on a GPU if there is one), files that are damaged and read, regressions whose
coefficients an exact oracle knows (``designs``), those in which the numbers invite rounding, so that words
may be left undecided (``hard-designs``), 300 regressions whose coefficients are followed as a ridge penalty
vanishes, with their fits (``paths``, the same for every seed), sentences about separated cells and ranges,
read as text and checked on the data (``rules``), soft and joint margins of rows far from the origin and
of mixed sizes (``soft-joint``), and larger ones, and factors of many levels, that must end by time
(``budgets``). At its end stand the shares of cases that were certified or decided.
"""

import argparse
import json
import multiprocessing
import os
import re
import secrets
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path

if __name__ in ("__main__", "__mp_main__"):  # one thread in each process, set before NumPy is loaded
    for variable in ("PRGD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0:1] = [str(Path(__file__).resolve().parents[1])]

import numpy as np
from adversarial.damaged_files import trial
from adversarial.problems import GENERATORS
from adversarial.soft_joint import try_limited, try_soft_joint
from adversarial.trial import as_tensor, described, judge
from separation import ridge_paths
from separation.oracle_trial import disagreements
from separation.rule_trial import trial as rule_trial
from separation.small_designs import KINDS, design, hard_design

HANG_SECONDS = 60  # a case that takes longer counts as a hang: its process ends itself, and is replaced
SHOWN = 5  # failures of each kind that are printed
EXTRA_SHARE = 0.05  # share of the cases that also try `run`, and of those that also try the estimator
LEFT_OPEN = ("(left open)", "this one ['above']", "this one ['below']")  # ends of what is no wrong answer
RIDGE_SETS = 300
Found = tuple[str, str, list[tuple[str, str]]]  # the kind of case, its outcome, and failures with their kinds


def try_problem(seed: int, index: int, folder: Path, engines: tuple[str, ...] = ()) -> Found:
    names = list(GENERATORS)
    rng = np.random.default_rng([seed, 2 if engines else 0, index])
    draw = rng.random()
    extra = "run" if draw < EXTRA_SHARE or engines else "estimator" if draw < 2 * EXTRA_SHARE else ""
    case = GENERATORS[names[index % len(names)]](rng)
    if engines:  # The numbers are rounded to a type of torch's.
        case = as_tensor(case, str(rng.choice(engines)), int(rng.choice([1, 40, 2000])))
        if not np.isfinite(case.X).all():
            return case.name, "not finite", []
    outcome = judge(case, extra)
    failures = [(kind, f"{text}\n{described(case)}") for kind, text in outcome.failures]
    found = f"{outcome.status}, separability {outcome.separability}"
    return f"{case.name}, {outcome.verdict}", found, failures


def try_file(seed: int, index: int, folder: Path) -> Found:
    kind, _, outcome = trial(np.random.default_rng([seed, 1, index]), folder).partition(": ")
    failures = [("file", outcome)] if outcome.startswith("FAILED") else []
    return kind, outcome.partition(":")[0], failures


def try_design(seed: int, index: int, folder: Path) -> Found:
    true, wrong = disagreements(design(seed, index), index)
    return f"{KINDS[index % len(KINDS)]}, {true.verdict}", "tried", [("word", text) for text in wrong]


def try_hard_design(seed: int, index: int, folder: Path) -> Found:
    true, wrong = disagreements(hard_design(seed, index), index)
    failures = [("word", text) for text in wrong if not text.endswith(LEFT_OPEN)]
    found = f"{sum('(left open)' in text for text in wrong)} of {len(true.words)} coefficients open"
    return f"{KINDS[index % len(KINDS)]}, {true.verdict}", found, failures


def try_path(seed: int, index: int, folder: Path) -> Found:
    # Of other sets a coefficient may begin to grow at smaller penalties than those that are followed.
    sample = ridge_paths.draw(0, index % RIDGE_SETS)
    return sample.kind, "tried", [("path", text) for text in ridge_paths.compare(sample)[1]]


def try_rules(seed: int, index: int, folder: Path) -> Found:
    kind, outcome, wrong = rule_trial(seed, index)
    return kind, outcome, [("sentence", text) for text in wrong]


def try_soft_or_joint(seed: int, index: int, folder: Path) -> Found:
    return try_soft_joint(np.random.default_rng([seed, 5, index]), index)


def try_budget(seed: int, index: int, folder: Path) -> Found:
    return try_limited(np.random.default_rng([seed, 6, index]), index)


PARTS = {
    "problems": try_problem,
    "tensors": partial(try_problem, engines=("float64", "float32", "bfloat16", "float16")),
    "files": try_file,
    "designs": try_design,
    "hard-designs": try_hard_design,
    "paths": try_path,
    "rules": try_rules,
    "soft-joint": try_soft_or_joint,
    "budgets": try_budget,
}


def attempt(part: str, seed: int, index: int, folder: Path) -> Found:
    try:
        with warnings.catch_warnings():
            if part != "paths":  # There statsmodels leaves the floating range.
                warnings.simplefilter("error", RuntimeWarning)
            return PARTS[part](seed, index, folder)
    except Exception as error:  # any error is a finding of the trial
        return "unknown", "exception", [("exception", f"{type(error).__name__}: {error}")]


def work(seed: int, stride: int, ends: list[tuple[str, float]], now, pipe: Connection) -> None:
    """Try cases of each part until its end, from where ``now`` stands, and report each of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        for part in {part for part, _ in ends}:
            attempt(part, seed, 0, Path(folder))  # compiles and imports, off the clock
        while now[0] < len(ends):
            part, end = ends[now[0]]
            if time.monotonic() > end:
                now[:] = [now[0] + 1, now[1] % stride]
                continue
            signal.alarm(HANG_SECONDS)
            found = attempt(part, seed, now[1], Path(folder))
            signal.alarm(0)
            pipe.send((part, now[1], *found))
            now[1] += stride
    pipe.send(None)


def tried(seed: int, jobs: int, ends: list[tuple[str, float]]) -> Iterator[tuple]:
    """Yield what the workers report; one that hangs or dies is reported too, and replaced."""
    context = multiprocessing.get_context("spawn")
    workers = {}

    def start(now) -> None:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(seed, jobs, ends, now, sender), daemon=True)
        process.start()
        sender.close()
        workers[receiver] = process, now

    for first in range(jobs):
        start(context.RawArray("q", [0, first]))  # the number of the part, and the case
    while workers:
        for pipe in wait(list(workers)):
            process, now = workers[pipe]
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                process.join()
                code = process.exitcode
                is_late = code == -signal.SIGALRM
                text = f"no answer within {HANG_SECONDS} s" if is_late else f"exit code {code}"
                yield ends[now[0]][0], now[1], "unknown", "died", [("hang or crash", text)]
                now[1] += jobs
                start(now)
                message = None
            if message is None:
                del workers[pipe]
            else:
                yield message


def shares(counts: Counter) -> Iterator[str]:
    """Yield for each part, soft and joint apart, how many cases were certified, and coefficients decided."""
    names = {(p, c): f"{p}, {c.split(',')[0]}" if p in ("soft-joint", "budgets") else p for p, c, _ in counts}
    for part in dict.fromkeys(names.values()):
        found = [(outcome, n) for (*case, outcome), n in counts.items() if names[tuple(case)] == part]
        total, solved = (sum(n for o, n in found if re.match(p, o)) for p in ("", "CERTIFIED|(NOT|QUASI)_"))
        words = [(*map(int, re.findall(r"\d+", o)), n) for o, n in found if o.endswith("coefficients open")]
        left, asked = (sum(word[k] * word[2] for word in words) for k in (0, 1))
        told = f"; certified or decided {solved / total:.2%}" if solved else ""
        told += f"; undecided coefficients {left} of {asked:,}, {left / asked:.3%}" if asked else ""
        yield f"{part}: {total:,} cases{told}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="default: one per core")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--case", type=int, help="try one case of the seed and print it")
    parser.add_argument("--failures", type=Path, help="append all failures to this JSON-lines file")
    options = parser.parse_args(arguments)
    if options.case is not None and (options.seed is None or len(options.only) > 1):
        parser.error("--case is a case of a seed and a part: give --seed and --only too")
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    if options.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            *found, failures = attempt(options.only[0], seed, options.case, Path(folder))
        print(*found, *failures, sep="\n")
        return int(bool(failures))
    print(f"seed {seed}, {options.jobs} processes, {options.seconds:g} s", flush=True)
    counts, kinds, share = Counter(), Counter(), options.seconds / len(options.only)
    ends = [(part, time.monotonic() + share * (k + 1)) for k, part in enumerate(options.only)]
    try:
        for part, index, case, outcome, failures in tried(seed, options.jobs, ends):
            counts[part, case, outcome] += 1
            for kind, text in failures:
                kinds[kind] += 1
                if kinds[kind] <= SHOWN:
                    print(f"{kind} ({case}, --seed {seed} --only {part} --case {index}): {text}", flush=True)
                if options.failures is not None:
                    known = {"failure": kind, "message": text, "seed": seed, "only": part, "case": index}
                    with options.failures.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(known) + "\n")
    except KeyboardInterrupt:
        print("interrupted")
    for (part, case, outcome), count in sorted(counts.items()):
        print(f"{part:14}{case:46}{outcome:44}{count:8}")
    for line in shares(counts):
        print(line)
    print(f"{counts.total()} cases, seed {seed}; failures: {dict(kinds) or 'none'}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
