"""The race: certificates first, then every peer on every case, resumable row by row."""

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import facts, load
from .score import Case, Scores, Time, best_time
from .shapes import ladders
from .sweep import Rules, sweep
from .worker import Worker

# raised whenever a change here makes old rows incomparable
FORMAT = 1
VARIANTS = {"origin": False, "intercept": True}
CERTIFIER = Path(__file__).with_name("certifier.py")


@dataclass
class Race:
    """What to run and where its rows are kept."""

    folder: Path
    peers: dict[str, Path]
    sets: list[load.Data]
    variants: list[str]
    rules: Rules
    threads: int
    force: bool = False
    tell: Callable[[str], None] = lambda _: None
    skipped: dict[str, str] = field(default_factory=dict)
    certificates: dict[str, dict[str, float]] = field(default_factory=dict)

    def run(self) -> tuple[Scores, list[dict[str, Any]]]:
        """Return the scores and the rows; what is on disk already is not run again."""
        scores, rows = Scores(self.rules.targets, self.rules.limit), []
        usable = {}
        for stem, path in self.peers.items():
            solver = load.module(path).Solver
            if lacking := load.missing(solver):
                self.skipped[solver.name] = f"{', '.join(lacking)} not installed"
            else:
                usable[stem] = (path, solver)
        for data in self.sets:
            for variant in self.variants:
                case = Case(data.name, variant)
                self.tell(f"{case}: certificate")
                gamma_star = self.gamma_star(data, variant)
                if gamma_star is None:
                    continue
                for stem, (path, solver) in usable.items():
                    record = self.record(data, variant, gamma_star, stem, path, solver)
                    scores.add(case, solver.name, record["runs"])
                    rows += [self._row(data, case, solver, run) for run in record["runs"]]
        self._write(rows, scores)
        return scores, rows

    # The certificate

    def gamma_star(self, data: load.Data, variant: str) -> float | None:
        """Return the checked upper bound on the margin, or None where no separator is known."""
        path = self.folder / "certificates" / f"{data.name}-{data.fingerprint}-{variant}.npz"
        case = str(Case(data.name, variant))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            arguments = (CERTIFIER, data.path, VARIANTS[variant], 1.0, [])
            with Worker(*arguments) as worker:
                for tol, limit in ((1e-6, 300.0), (1e-8, 60.0), (1e-10, 60.0)):
                    found = worker.run({"tol": tol, "path": str(path)}, limit)
                    if found["status"] != "ok" or not found.get("is_separable"):
                        break
            if not path.exists():
                self.skipped[case] = (
                    f"not separable: no margin above {found['upper']:.1e} of the largest row norm"
                    if "upper" in found
                    else found.get("reason", "") or "no certificate within 300 s"
                )
                return None
        objective = load.module(load.RACE / "objective.py")
        X, y = load.read(data.path)
        with np.load(path) as kept:
            checked = objective.check(
                objective.scaled(X), objective.signs(y), VARIANTS[variant], kept["w"], kept["p"]
            )
        if not 0.0 < checked.lower <= checked.upper * (1.0 + 1e-9):
            raise SystemExit(f"{case}: the certificate in {path} does not check. Remove the file.")
        self.certificates[case] = {"lower": checked.lower, "upper": checked.upper, "gap": checked.gap}
        return checked.upper

    # One peer on one case

    def record(
        self, data: load.Data, variant: str, gamma_star: float, stem: str, path: Path, solver: Any
    ) -> dict[str, Any]:
        settings = {
            "format": FORMAT,
            "peer": stem,
            "data": data.fingerprint,
            "variant": variant,
            "limit": self.rules.limit,
            "budget": self.rules.budget,
            "targets": self.rules.targets,
            "threads": self.threads,
            "sweep": ladders(solver),
            "versions": load.versions(solver),
            "processor": facts.processor(),
            "cores": facts.cores(),
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        kept = self.folder / "rows" / f"{data.name}-{variant}-{stem}-{digest}.json"
        if kept.exists() and not self.force:
            found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
            return found
        place = f"{data.name}, {variant}, {solver.name}"
        with Worker(path, data.path, VARIANTS[variant], gamma_star, list(self.rules.targets)) as worker:
            runs = sweep(
                ladders(solver),
                worker.run,
                self.rules,
                lambda text: self.tell(f"{place}: {text}"),
            )
        record = {"settings": settings, "load": facts.load_average(), "runs": runs}
        kept.parent.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_suffix(".tmp")
        temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")
        temporary.replace(kept)
        return record

    # Files

    def _row(self, data: load.Data, case: Case, solver: Any, run: dict[str, Any]) -> dict[str, Any]:
        laps = run["laps"]
        seconds = sorted(lap["seconds"] for lap in laps)
        row: dict[str, Any] = {
            "set": case.data,
            "variant": case.variant,
            "n": data.n,
            "d": data.d,
            "stored": data.stored,
            "peer": solver.name,
            "parameters": json.dumps(run["parameters"]),
            "status": run["status"],
            "reason": run["reason"],
            "laps": len(laps),
            "seconds": seconds[len(seconds) // 2] if seconds else "",
            "gap": laps[0].get("gap", "") if laps else "",
            "certified": laps[0].get("certified", "") if laps else "",
            "cores": round(laps[0].get("cores", 0.0), 2) if laps else "",
        }
        for target in self.rules.targets:
            time = best_time([run], target, self.rules.limit)
            row[f"seconds to {target:g}"] = "" if time.is_capped else time.seconds
        return row

    def _write(self, rows: list[dict[str, Any]], scores: Scores) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if rows:
            write_csv(self.folder / "rows.csv", rows)
        best = [
            {
                "set": case.data,
                "variant": case.variant,
                "target": target,
                "peer": peer,
                "seconds": time.seconds,
                "capped": int(time.is_capped),
                "parameters": json.dumps(time.parameters),
            }
            for target, table in scores.times.items()
            for case, row in table.items()
            for peer, time in row.items()
        ]
        if best:
            write_csv(self.folder / "scores.csv", best)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_scores(folder: Path) -> tuple[Scores, dict[str, Any]]:
    """Return the scores and facts of the last race, from its files."""
    try:
        about = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        with (folder / "scores.csv").open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except FileNotFoundError as error:
        raise SystemExit(
            f"No race was run yet: {error.filename} is not there. Leave --report-only out."
        ) from None
    scores = Scores(tuple(about["targets"]), about["limit"])
    for line in lines:
        row = scores.times.setdefault(float(line["target"]), {}).setdefault(
            Case(line["set"], line["variant"]), {}
        )
        seconds = float(line["seconds"])
        row[line["peer"]] = Time(seconds, line["capped"] == "1", json.loads(line["parameters"]))
    return scores, about
