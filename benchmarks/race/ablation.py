"""What each part of ``prgd.max_margin`` contributes: the same fits with one part replaced.

    python benchmarks/race/ablation.py [--sets SET ...] [--variants V ...] [--limit SECONDS]
                                       [--report-only] [--write-docs FILE]

Each fit runs in its own process until the gap is certified, on the data of the race.
"""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

RACE = Path(__file__).parent
if str(RACE) not in sys.path:
    sys.path.insert(0, str(RACE))

from benchmark_utils.forms import as_form, density  # noqa: E402
from benchmark_utils.shapes import BaseSolver, ladders  # noqa: E402

FULL = "all parts"
MAX_ROWS = 14_000  # rows of the largest Gram matrix of all rows, 1.6 GB


def changed(part: str) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which another function stands in for a part of the solver."""
    import prgd
    from prgd.maxmargin import moves
    from prgd.solvers import gram_matrix, minimal

    def six_steps(problem: Any) -> Any:
        return prgd.run(problem, prgd.algorithms.find_algorithm("dual-acceleration")(), stop=6).w

    others = {
        "a longer start": (moves, "_mean", six_steps),
        "all rows at once": (moves, "_is_small", lambda problem: True),
        "a working set always": (moves, "_is_small", lambda problem: False),
        "SciPy's products": (gram_matrix, "sparse_products", minimal.sparse_products),
    }
    return mock.patch.object(*others[part]) if part in others else contextlib.nullcontext()


class Solver(BaseSolver):
    """``max_margin`` with one of its parts replaced, or an algorithm of `prgd.run` instead of it."""

    name = "ablation"
    requirements = ["prgd", "numpy", "scipy", "numba"]
    uses_max_margin = True
    parameters = {
        "part": [
            FULL,
            "a longer start",
            "no polish",
            "all rows at once",
            "a working set always",
            "SciPy's products",
            "progressive Newton alone",
            "gated PRGD alone",
        ],
        "tol": [1e-4, 1e-6],
    }
    rung = "tol"

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        import prgd

        if self.part == "all rows at once" and X.shape[0] > MAX_ROWS:
            return True, f"the Gram matrix of {X.shape[0]} rows is too large"
        if self.part.endswith("alone") and self._algorithm() not in prgd.algorithms.all_algorithms():
            return True, f"this version has no algorithm {self._algorithm()}"
        return False, None

    def _algorithm(self) -> str:
        return {"progressive Newton alone": "progressive-newton", "gated PRGD alone": "gated-prgd"}[self.part]

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        self.X = as_form(X, "dense" if density(X) > 0.3 else "sparse")
        self.y, self.fit_intercept = y, fit_intercept

    def run(self, _: Any) -> None:
        if self.part.endswith("alone"):
            self._run_algorithm()
        else:
            self._run_max_margin()

    def _run_algorithm(self) -> None:
        import prgd

        problem = prgd.Problem(self.X, self.y, fit_intercept=self.fit_intercept)
        algorithm = prgd.algorithms.find_algorithm(self._algorithm())()
        # Without this rule a stalled run would last until the limit.
        stop = prgd.any_of(prgd.Gap(self.tol), prgd.Stalled(3000))
        found = prgd.run(problem, algorithm, stop=stop).certificate
        self.result = {"w": found.w, "certified": found.gap, "passes": problem.passes}

    def _run_max_margin(self) -> None:
        import prgd

        options = {"polish": False} if self.part == "no polish" else {}
        with changed(self.part):
            found = prgd.max_margin(self.X, self.y, fit_intercept=self.fit_intercept, tol=self.tol, **options)
        self.result = {"w": found.coef, "certified": found.gap, "passes": found.passes}

    def get_result(self) -> dict[str, Any]:
        return self.result


def measure(data: Any, fit_intercept: bool, gamma_star: float, rules: Any, tell: Any) -> dict[str, Any]:
    """Return the time and the passes to each tolerance, for each part."""
    from benchmark_utils.sweep import sweep, time_to
    from benchmark_utils.worker import Worker

    found: dict[str, Any] = {}
    for ladder in ladders(Solver):
        part = ladder[0]["part"]
        with Worker(
            RACE / "ablation.py", data.path, fit_intercept, gamma_star, list(rules.targets)
        ) as worker:
            runs = sweep([ladder], worker.run, rules, lambda text: tell(f"{data.name}: {text}"))
        found[part] = {"reason": next((run["reason"] for run in runs if run["reason"]), "")}
        for target in rules.targets:
            best = min(runs, key=lambda run, t=target: time_to(run, t))
            passes = best["laps"][0].get("passes") if best["laps"] else None
            found[part][f"{target:g}"] = {"seconds": time_to(best, target), "passes": passes}
    return found


def table(results: dict[str, Any], target: float, limit: float) -> tuple[list[str], list[list[str]]]:
    """Return one line for each case; the last has geometric means of the time over that with all parts."""
    from benchmark_utils.score import geometric_mean, three_digits

    parts = Solver.parameters["part"]
    lines = []
    ratios: dict[str, list[float]] = {part: [] for part in parts}
    for case, row in results.items():
        line = [case]
        for part in parts:
            entry = row[part][f"{target:g}"]
            seconds, reason = entry["seconds"], row[part]["reason"]
            if seconds < float("inf"):
                line.append(f"{three_digits(seconds)} s, {entry['passes']:.0f} passes")
            else:
                line.append(
                    "-" if "too large" in reason or "no algorithm" in reason else f"not in {limit:g} s"
                )
            if line[-1] != "-":
                full = min(row[FULL][f"{target:g}"]["seconds"], limit)
                ratios[part].append(min(seconds, limit) / full)
        lines.append(line)
    means = [geometric_mean(ratios[part]) for part in parts]
    lines.append(["mean of time over that with all parts", *(three_digits(mean) for mean in means)])
    return ["set", *parts], lines


def main(arguments: list[str] | None = None) -> None:
    from benchmark_utils import load, report
    from benchmark_utils.race import VARIANTS, Race
    from benchmark_utils.score import Case, power
    from benchmark_utils.sweep import Rules
    from benchmark_utils.worker import set_threads
    from rich.console import Console

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", metavar="SET", help="names of data sets; default all")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that one fit may take")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RACE.parents[1] / "bench-results" / "race")
    parser.add_argument("--report-only", action="store_true", help="show the last results, run nothing")
    parser.add_argument("--write-docs", type=Path, metavar="FILE", help="put the table between its marks")
    options = parser.parse_args(arguments)
    kept = options.out / "ablation.json"
    if options.report_only:
        if not kept.exists():
            raise SystemExit(f"No ablation was run yet: {kept} is not there. Leave --report-only out.")
        record = json.loads(kept.read_text(encoding="utf-8"))
    else:
        set_threads(options.threads)
        targets = tuple(Solver.parameters["tol"])
        rules = Rules(targets=targets, limit=options.limit, budget=3.0 * options.limit)
        sets = load.datasets(options.sets, options.out / "data")
        race = Race(options.out, {}, sets, options.variants, rules, options.threads)
        results: dict[str, Any] = {}
        with Console(stderr=True).status("") as status:
            for data in sets:
                for variant in options.variants:
                    status.update(f"{data.name}, {variant}: certificate")
                    gamma_star = race.gamma_star(data, variant)
                    if gamma_star is not None:
                        case = str(Case(data.name, variant))
                        results[case] = measure(data, VARIANTS[variant], gamma_star, rules, status.update)
        record = {"limit": options.limit, "targets": targets, "results": results, "skipped": race.skipped}
        kept.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else 200)
    parts = []
    for target in record["targets"]:
        head, lines = table(record["results"], target, record["limit"])
        report.print_table(console, f"To a certified gap of {power(target)}", head, lines, rule_before=1)
        parts.append(f"To a certified gap of {power(target)}:\n\n{report.markdown(head, lines)}")
    for name, reason in record["skipped"].items():
        console.print(f"Left out: {name}: {reason}.", highlight=False)
    if options.write_docs:
        report.write_between(options.write_docs, "ablation", "\n\n".join(parts))


if __name__ == "__main__":
    main()
