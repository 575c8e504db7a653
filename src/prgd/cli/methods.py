"""The algorithms that ``prgd run`` and ``prgd race`` name: their options, warm-ups and standstills.

A field ``its_field`` of an algorithm is the option ``--its-field``. Its help is the entry of the field in the
docstring of the class. Numbers and flags are read by Typer; a schedule arrives as text.
"""

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from prgd.algorithms import NGD, PRGD, SteepestDescent, all_algorithms, find_algorithm
from prgd.cli.options import STOP, Option, option, options_of
from prgd.core.checks import to_text
from prgd.norms import L2, Norm, as_norm
from prgd.running.history import ROUNDING, Stalled, Status, Stop
from prgd.running.result import Result
from prgd.schedules import RADII, TIMES, Every, Geometric, Radius, Times, as_radius, as_times

# The symbols of the paper get longer names; --norm is that of the margin.
FLAGS = {
    "R": ("--radius", "-R"),
    "T": ("--phases", "-T"),
    "R_0": ("--first-radius",),
    "norm": ("--step-norm",),
}
HELP = {
    "eta": "Step size, of the warm-up too.",
    "R_0": "prgd: radius R_0, from which the radii grow; by default the norm of the starting point.",
    "norm": "prgd, steepest-descent: norm of the steps, also of those of such a warm-up; by default --norm.",
}
READERS: dict[type, Callable[[Any], Any]] = {Radius: as_radius, Times: as_times, Norm: as_norm}
SCHEDULES: dict[type, tuple[str, Mapping[str, Any]]] = {
    Radius: ("radii R_k", RADII),
    Times: ("steps T_k of the rescalings", TIMES),
}
WARM_UP = "gd:1000"  # what prgd starts with: Appendix E.1 of the paper
STEEPEST_WARM_UP = "steepest-descent:1000"  # what it starts with in other norms than l2
STILL = 1e-6  # A gap that changed by a smaller fraction stands still.
GROWTH = 1e3  # After radii grew so much, steps turn w by as much less.
SHORTEST = 100  # fewest steps of a standstill
INSTEAD = "prgd fit finds the largest margin itself"
Given = tuple[str, Any]  # an option as the user typed it, and its value


# Options


def algorithm_options() -> list[Option]:
    """Return one option for each field of any algorithm."""
    owners: dict[str, dict[str, Option]] = {}
    for name, algorithm in all_algorithms().items():
        for field, o in options_by_field(algorithm).items():
            owners.setdefault(field, {})[name] = o
    return [_shared(found) for found in owners.values()]


def complete_algorithm(incomplete: str) -> list[str]:
    """Return the algorithms that the text may become."""
    return [name for name in all_algorithms() if name.startswith(incomplete)]


def given_options(settings: Mapping[str, Any], every: int | None) -> dict[str, Given]:
    """Return the fields that the user set, each with its option and value; ``--every`` sets T."""
    flags = {o.name: o.flags[0] for o in algorithm_options()}
    given = {
        name: (f"--no-{flags[name][2:]}" if value is False else flags[name], value)
        for name, value in settings.items()
        if value is not None
    }
    if every is not None:
        if "T" in given:
            raise ValueError("--every and --phases both say when to rescale: give one of them.")
        given["T"] = ("--every", every)
    return given


def options_by_field(algorithm: Any) -> dict[str, Option]:
    """Return the options of an algorithm by the names of their fields; none if it is no dataclass."""
    options = options_of(algorithm) if is_dataclass(algorithm) and isinstance(algorithm, type) else []
    return {o.name: replace(o, flags=FLAGS.get(o.name, o.flags)) for o in options}


def _shared(owners: Mapping[str, Option]) -> Option:
    """Return the option that these algorithms share; its default is None, for an option that is not given."""
    o = next(iter(owners.values()))
    if any(other.kind is not o.kind for other in owners.values()):
        raise TypeError(f"The field {o.name} has several types in {', '.join(owners)}: rename one of them.")
    defaults = {_shown(other.default) for other in owners.values()}
    shown = defaults.pop() if len(defaults) == 1 else "depends on the algorithm"
    if o.kind in SCHEDULES:
        what, known = SCHEDULES[o.kind]
        forms = [f"{name}:{','.join(f.name.upper() for f in fields(form))}" for name, form in known.items()]
        o = replace(o, help=f"{what}: {'; '.join(f.rstrip(':') for f in forms)},...", metavar="SCHEDULE")
    if o.kind is Norm:
        o = replace(o, metavar="NORM")
    words = re.sub(r"^(bool|int|float),? ", "", o.help)  # The type stands in the metavar.
    help = HELP.get(o.name) or f"{', '.join(owners)}: {words}"
    return replace(o, help=help, default=None, shown_default=shown)


def _shown(default: Any) -> str:
    """Return a default as the user would write it."""
    for _, known in SCHEDULES.values():
        if type(default) in known.values():
            return to_text(default, known)
    if default in (None, MISSING):
        return "none"
    return f"{default:g}" if isinstance(default, float) else str(default)


# Algorithms by name


def find_form(name: str) -> Any:
    """Return the class of an algorithm of that name, or the class or value that ``FILE.py:NAME`` names."""
    return _from_file(name) if ".py:" in name else find_algorithm(name)


def build_algorithm(name: str, given: Mapping[str, Given], form: Any = None) -> Any:
    """Return the algorithm that a name means, or of the class ``form``, with the options that were given."""
    form = find_form(name) if form is None else form
    known = options_by_field(form)
    for field, (flag, _) in given.items():
        if not isinstance(form, type):
            raise ValueError(f"{flag} does not apply to {name}, which has its settings. Leave {flag} out.")
        if field not in known:
            flags = " and ".join(o.flags[0] for o in known.values())
            raise ValueError(
                f"{flag} does not apply to {name}, which takes {flags or 'no settings'}. "
                f"Leave {flag} out, or choose another --algorithm."
            )
    for field, o in known.items():
        if field not in given and o.default is MISSING:
            raise ValueError(f"{name} has no default for {o.flags[0]}: give it.")
    settings = {field: _read(known[field].kind, *option) for field, option in given.items()}
    return form(**settings) if isinstance(form, type) else form


def _read(kind: type, flag: str, value: Any) -> Any:
    try:
        return READERS[kind](value) if kind in READERS else value
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error


def _from_file(text: str) -> Any:
    """Return the class or the value that ``FILE.py:NAME`` names, if it is an algorithm."""
    path, _, name = text.rpartition(":")
    file = Path(path).expanduser()
    if not file.is_file():
        raise ValueError(f"{text} names an algorithm in a file; found no file {path}.")
    spec: Any = importlib.util.spec_from_file_location(f"prgd_own_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dataclasses look up their type hints there.
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    found = vars(module).get(name)
    if missing := [part for part in ("init", "step") if not callable(getattr(found, part, None))]:
        own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
        what = f"{name} of {path} has no {' and no '.join(missing)}" if name in vars(module) else f"no {name}"
        raise ValueError(
            f"{text}: {what}. An algorithm is a class or a value with init(problem, w0) and step(problem, "
            f"state); {path} defines {', '.join(own) or 'nothing'}."
        )
    return found


# Warm-ups


def default_warm_up(margin_norm: str, given: Mapping[str, Given]) -> str:
    """Return the warm-up of prgd: steps in the norm in which it steps itself."""
    norm = as_norm(given["norm"][1] if "norm" in given else margin_norm)
    return WARM_UP if norm == L2() else STEEPEST_WARM_UP


def parse_warm_up(text: str, given: Mapping[str, Given]) -> tuple[Any, int]:
    """Return the algorithm of ``--warm-up``, with the step size and norm that were given, and its steps."""
    name, _, steps = text.partition(":")
    if not steps.isdecimal() or int(steps) < 1:
        raise ValueError(f"--warm-up expects NAME:STEPS, e.g. {WARM_UP}, or 0; got {text!r}.")
    takes_norm = "norm" in options_by_field(find_algorithm(name))
    shared = ("eta", "norm") if takes_norm else ("eta",)
    return build_algorithm(name, {field: given[field] for field in shared if field in given}), int(steps)


# Standstills


def patience_option() -> Any:
    """Return the field of the option ``--patience``."""
    return option(
        None,
        "Stop when the certified gap has stood still for so many steps; 0: never.",
        panel=STOP,
        metavar="STEPS",
        minimum=0,
        shown_default="190 for prgd, whose geometric radii grow a thousandfold meanwhile; else 0",
    )


def patience_of(algorithm: Any) -> int:
    """Return for how many steps an algorithm may stand still by default; 0: for any number.

    Geometric radii outgrow the step size, so that w stands still for ever. Others may only be slow, or wait
    for a gate.
    """
    if type(algorithm) is not PRGD:
        return 0
    R, T = algorithm.R, algorithm.T
    if not isinstance(R, Geometric) or not isinstance(T, Every) or R.c <= 1.0:
        return 0
    return max(SHORTEST, math.ceil(math.log(GROWTH) / math.log(R.c)) * T.steps)


def stall_rules(algorithm: Any, patience: int | None) -> list[Stop]:
    """Return the rule of ``--patience``, if there is one; None stands for the default of the algorithm."""
    steps = patience_of(algorithm) if patience is None else patience
    return [Stalled(steps, STILL)] if steps else []


def status_text(result: Result, algorithm: Any, warm_up: Any) -> str:
    """Return why a run ended; if its gap has stood still, since which step and what to do."""
    if result.status not in (Status.STALLED, Status.CONVERGED, Status.MAX_STEPS) or not result.margin > 0.0:
        return str(result.status)
    gaps, last = result.history["gap"], result.history["gap"][-1]
    moved = [k for k, gap in enumerate(gaps) if not abs(gap - last) <= STILL * last]
    since = int(result.history["t"][moved[-1] + 1 if moved else 0])
    if result.status is Status.MAX_STEPS and (result.t < 2 * SHORTEST or 2 * since > result.t):
        return str(result.status)
    said = stalled_text(since, result.gap, algorithm, warm_up, as_norm(result.norm))
    return f"{said} Both bounds hold."


def stalled_text(
    since: int, gap: float, algorithm: Any, warm_up: Any, norm: Norm, is_race: bool = False
) -> str:
    """Return the sentences about a gap that stands still, after a warm-up, in the norm of the margin."""
    if gap <= ROUNDING:
        return f"Converged: the gap is at rounding since step {since:,}."
    if not patience_of(algorithm):
        return f"The gap has not changed since step {since:,}; {INSTEAD}."
    is_euclidean = (algorithm.norm or norm) == L2()
    other = ("ngd", NGD) if is_euclidean else ("steepest-descent", SteepestDescent)
    ways = ["--radius polynomial:0.6 --phases polynomial:5,0.6"]
    ways += [] if isinstance(warm_up, other[1]) else [f"--warm-up {other[0]}:1000"]
    if is_race:
        ways = [f'"prgd {way}" (in quotes)' for way in ways]
    return (
        f"The gap has not changed since step {since:,}, and more steps do not help: the radii outgrew the "
        f"step size. Use {', or '.join(ways)}; {INSTEAD}."
    )
