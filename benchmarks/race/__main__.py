"""Race max-margin solvers: seconds until the true relative gap is 1e-2, 1e-4 and 1e-6.

    python -m benchmarks.race [--only PEER ...] [--sets SET ...] [--variants V ...] [--limit SECONDS]
                              [--quick] [--force] [--report-only] [--write-docs FILE]

Data come from the folder that PRGD_DATA names, else from scikit-learn and a generator.
"""

import argparse
import json
import sys
import time
from pathlib import Path

RACE = Path(__file__).parent
sys.path.insert(0, str(RACE))


def main(arguments: list[str] | None = None) -> None:
    from benchmark_utils import facts, load, report
    from benchmark_utils.race import VARIANTS, Race, read_scores
    from benchmark_utils.sweep import Rules
    from benchmark_utils.worker import set_threads
    from rich.console import Console

    paths = load.solver_paths()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.race", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", nargs="+", metavar="PEER", help=f"of {', '.join(paths)}")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="names of data sets; default all")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--limit", type=float, help="seconds that one run may take (60; quick: 5)")
    parser.add_argument("--budget", type=float, help="seconds after which a sweep begins no run (1.5 limits)")
    parser.add_argument("--threads", type=int, default=2, help="of everyone who can use them")
    parser.add_argument("--quick", action="store_true", help="the three smallest sets, 5 s a run")
    parser.add_argument("--force", action="store_true", help="run again what is on disk")
    parser.add_argument("--out", type=Path, default=RACE.parents[1] / "bench-results" / "race")
    parser.add_argument("--report-only", action="store_true", help="show the last race, run nothing")
    parser.add_argument("--write-docs", type=Path, metavar="FILE", help="put the tables between its marks")
    options = parser.parse_args(arguments)
    limit = options.limit or (5.0 if options.quick else 60.0)
    if limit <= 0.0 or options.threads < 1:
        parser.error("--limit must be positive and --threads at least 1")
    if unknown := [name for name in options.only or [] if name not in paths]:
        parser.error(f"no peer is called {', '.join(unknown)}; there are {', '.join(paths)}")

    console = Console(width=None if sys.stdout.isatty() else 200)
    if options.report_only:
        scores, about = read_scores(options.out)
    else:
        set_threads(options.threads)
        about = {"machine": facts.machine()}
        sets = load.datasets(options.sets, options.out / "data")
        if options.quick and not options.sets:
            sets = sets[:3]
        # our own times are needed for every ratio
        peers = {s: p for s, p in paths.items() if not options.only or s in {"ours", *options.only}}
        rules = Rules(limit=limit, budget=options.budget or 1.5 * limit)
        race = Race(options.out, peers, sets, options.variants, rules, options.threads, options.force)
        started = time.perf_counter()
        # a line that changes on a terminal; nothing at all where the output is piped
        with Console(stderr=True).status("") as status:
            race.tell = status.update
            try:
                scores, _ = race.run()
            except KeyboardInterrupt:
                raise SystemExit("Interrupted. What is done is kept: call again to go on.") from None
        about |= {
            "minutes": round((time.perf_counter() - started) / 60.0, 1),
            "threads": options.threads,
            "limit": limit,
            "budget": rules.budget,
            "targets": rules.targets,
            "certificates": race.certificates,
            "skipped": race.skipped,
        }
        about["machine"]["load after"] = facts.load_average()
        text = json.dumps(about, indent=1) + "\n"
        (options.out / "facts.json").write_text(text, encoding="utf-8")
    if not scores.times:
        for name, reason in about["skipped"].items():
            console.print(f"Left out: {name}: {reason}.", highlight=False)
        raise SystemExit("Nothing was raced.")
    report.print_all(scores, about, console)
    report.write_page(options.out / "race.html", scores, about)
    console.print(f"Rows, facts and the page of profiles: {options.out}", highlight=False, soft_wrap=True)
    if options.write_docs:
        report.write_between(options.write_docs, "race", report.docs_part(scores, about))


if __name__ == "__main__":
    main()
