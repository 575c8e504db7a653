"""Times of two checkouts of prgd in turns, case by case: new over old, below 1 the new one is faster.

Each checkout has a process of its own, which stays alive, makes the data from fixed seeds and warms up off
the clock. The two take turns, the order changes from round to round, and the median over rounds counts. Short
cases are called several times for one measurement. With one thread the time is that of the processor, which
a busy machine disturbs less, else that of the clock. Answers are compared too: status and margin, or verdict.
Real sets are those of the folder PRGD_DATA, if it is named.

    python benchmarks/old_new.py --old DIR/src --new DIR/src [--only WORD ...] [--rounds N] [--threads N]
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

SHORTEST = 0.05  # seconds that a measurement takes at least
DATA = Path(os.environ.get("PRGD_DATA", "no folder"))
now = time.process_time if os.environ.get("PRGD_NUM_THREADS") == "1" else time.perf_counter
SETS = ("arcene", "basehock", "fashion_1v9", "letter_AB", "mnist_0v1", "mushrooms", "pcmac", "reuters_grain")


def rows(n: int, d: int, shift: float = 0.3, flipped: int = 0, classes: int = 2, density: float = 1.0) -> Any:
    """Return normal rows, or sparse ones, labelled by a linear rule, the first ones with the wrong label."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((n, d)), rng.standard_normal((d, classes))
    X *= rng.random((n, d)) < density
    y = (X @ W).argmax(axis=1)
    if classes == 2:
        w = (W[:, 1] - W[:, 0]) / np.linalg.norm(W[:, 1] - W[:, 0])
        X += shift * np.where(y == 1, 1.0, -1.0)[:, None] * w * (density == 1.0)
    y[:flipped] = (y[:flipped] + 1) % classes
    return (X if density == 1.0 else sp.csr_array(X)), y


JOINT = {"multi_class": "joint"}
# Case: the call, the options of its rows, and its own.
GENERATED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "tiny": ("max_margin", {"n": 40, "d": 3}, {}),
    "small": ("max_margin", {"n": 1000, "d": 20}, {}),
    "no intercept": ("max_margin", {"n": 1000, "d": 20}, {"fit_intercept": False}),
    "many rows": ("max_margin", {"n": 100_000, "d": 30}, {}),
    "small margin": ("max_margin", {"n": 4000, "d": 200, "shift": 0.0}, {}),
    "wide": ("max_margin", {"n": 300, "d": 3000}, {}),
    "sparse": ("max_margin", {"n": 3000, "d": 5000, "density": 0.01}, {}),
    "overlap": ("max_margin", {"n": 2000, "d": 20, "flipped": 100}, {}),
    "joint": ("max_margin", {"n": 500, "d": 25, "classes": 10}, JOINT),
    "l1": ("max_margin", {"n": 5000, "d": 30}, {"norm": "l1"}),
    "linf": ("max_margin", {"n": 5000, "d": 30}, {"norm": "linf"}),
    "l_1.5": ("max_margin", {"n": 1000, "d": 30}, {"norm": 1.5}),
    "spectral": ("max_margin", {"n": 300, "d": 10, "classes": 5}, JOINT | {"norm": "spectral"}),
    "soft": ("soft_margin", {"n": 5000, "d": 20, "flipped": 200}, {"C": 1.0}),
    "soft sparse": ("soft_margin", {"n": 3000, "d": 5000, "flipped": 50, "density": 0.01}, {"C": 10.0}),
    "classifier": ("MaxMarginClassifier", {"n": 1500, "d": 20, "classes": 6}, {}),
    "batch": ("max_margin_batch", {"n": 500, "d": 200}, {"progress": False}),
    "separable": ("separability", {"n": 5000, "d": 30}, {}),
    "not separable": ("separability", {"n": 5000, "d": 30, "flipped": 50}, {}),
    "few flipped": ("separability", {"n": 5000, "d": 100, "shift": 0.0, "flipped": 3}, {}),
    "joint pass": ("pass", {"n": 100_000, "d": 50, "classes": 10}, {}),
    "10,000 steps": ("run", {"n": 40, "d": 2}, {"stop": 10_000}),
    "50 steps": ("run", {"n": 100_000, "d": 30}, {"stop": 50}),
    "20 steps dense": ("run", {"n": 20_000, "d": 1000}, {"stop": 20}),
    "100 steps sparse": ("run", {"n": 3000, "d": 5000, "density": 0.01}, {"stop": 100}),
    "1,000 runs": ("sweep", {"n": 100, "d": 10}, {"stop": 1000}),
    "of PRGD over SGD": ("deep step", {"n": 1, "d": 1}, {}),
}
CASES = {f"{call} {name}": (call, data, options) for name, (call, data, options) in GENERATED.items()}
if DATA.is_dir():
    CASES |= {f"max_margin {name}": ("max_margin", {"real": name}, {}) for name in SETS}
    CASES |= {f"separability {name}": ("separability", {"real": name}, {}) for name in SETS[1:]}


def prepared(call: str, data: dict[str, Any], options: dict[str, Any]) -> Callable[[], Any]:
    """Make the data of a case, and return what is timed."""
    import prgd

    if "real" in data:
        found = prgd.datasets.load(next(DATA.glob(f"{data['real']}.*")))
        X, y = found.X, found.y
    else:
        X, y = rows(**data)
    rng = np.random.default_rng(1)
    if call == "MaxMarginClassifier":
        return lambda: prgd.MaxMarginClassifier(**options).fit(X, y)
    if call == "max_margin_batch":
        y = np.sign(X @ rng.standard_normal((X.shape[1], 30)))
    if call == "run":
        problem, algorithm = prgd.Problem(X, y), prgd.PRGD("geometric:1.2", "every:10")
        return lambda: prgd.run(problem, algorithm, w0=np.ones(X.shape[1]), **options)
    if call == "sweep":  # a list of runs, or where none is taken one after another
        problem, etas = prgd.Problem(X, y), np.geomspace(0.1, 1.0, 500).tolist()
        runs = [(prgd.NGD(eta), None) for eta in etas] + [(prgd.PRGD(eta=eta), np.ones(10)) for eta in etas]
        if hasattr(prgd.problem.certificate, "certify_all"):
            return lambda: prgd.run(problem, *map(list, zip(*runs, strict=True)), **options)
        return lambda: [prgd.run(problem, *one, **options) for one in runs]
    if call == "pass":
        problem, W = prgd.Problem(X, y), rng.standard_normal((data["classes"], data["d"]))
        return lambda: problem.at(W).dual_vector
    if call == "deep step":
        import torch

        torch.set_num_threads(1)
        model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(20)))
        optimizer = prgd.deep.PRGD(torch.optim.SGD(model.parameters(), lr=1e-9, momentum=0.9))
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        return lambda: optimizer.step(loss=1.0)
    return lambda: getattr(prgd, call)(X, y, **options)


def work() -> None:
    """Answer the name of a case on the standard input: first by its answer, then by seconds."""
    name, call, repeats = "", None, 1
    for line in sys.stdin:
        if line.strip() != name:
            name = line.strip()
            call = prepared(*CASES[name])
            found = call()
            margin = f" {found.margin:.5g}" if isinstance(getattr(found, "margin", None), float) else ""
            text = str(getattr(found, "verdict", getattr(found, "status", type(found).__name__))) + margin
            start = now()
            call()
            repeats = max(1, math.ceil(SHORTEST / (now() - start)))
            print(json.dumps(text[:300]), flush=True)
            continue
        start = now()
        for _ in range(repeats):
            call()
        print(json.dumps((now() - start) / repeats), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True, help="folder src of the old checkout")
    parser.add_argument("--new", type=Path, required=True, help="folder src of the new checkout")
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", default="1")
    given = parser.parse_args()
    threads = dict.fromkeys(("PRGD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), given.threads)
    command, pipe = [sys.executable, "-W", "ignore", __file__, "--worker"], subprocess.PIPE
    workers = []
    for source in (given.old, given.new):
        environment = {**os.environ, **threads, "PYTHONPATH": str(source.resolve())}
        workers.append(subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True))

    def ask(name: str, order: int) -> list[Any]:
        found = []
        for worker in workers[::order]:
            print(name, file=worker.stdin, flush=True)
            found.append(json.loads(worker.stdout.readline()))
        return found[::order]

    ratios: dict[str, float] = {}
    for name in (name for name in CASES if any(word in name for word in given.only)):
        answers = ask(name, 1)
        turns = [ask(name, (-1) ** k) for k in range(given.rounds)]
        ratios[name] = median(new / old for old, new in turns)
        old, new = (1e3 * median(turn[k] for turn in turns) for k in (0, 1))
        same = "" if answers[0] == answers[1] else f"  ANSWERS DIFFER: {answers[0]} | {answers[1]}"
        print(f"{name:36} {old:10.3f} ms {new:10.3f} ms {ratios[name]:6.2f}{same}", flush=True)
    worst = max(ratios, key=ratios.__getitem__)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    print(f"geometric mean {mean:.3f}, worst {ratios[worst]:.2f} ({worst}), {len(ratios)} cases")


if __name__ == "__main__":
    work() if sys.argv[1:] == ["--worker"] else main()
