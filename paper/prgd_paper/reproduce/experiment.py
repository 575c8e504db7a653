"""Experiment: a figure or table of the paper as a value. ``compute`` makes rows; all else reads rows."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import prgd
import prgd_paper
from prgd.core.checks import unknown
from prgd_paper.claims import Claim, Finding, Judgement, registered
from prgd_paper.report.elements import Figure, Table
from prgd_paper.reproduce.settings import SEEDS, as_option, differing, plain_settings, to_text, with_changes

# A row maps a column to text, an integer or a float; every row of an experiment has the same columns.
Row = dict[str, Any]
OURS = "beyond the paper"


def one_task(settings: Any) -> Sequence[str]:
    """Return the only task of an experiment that is computed in one piece."""
    return ("all",)


def nothing(rows: Any, settings: Any) -> list[Any]:
    """Return no figure or table."""
    return []


@dataclass(frozen=True)
class Experiment:
    """One figure or table: its settings, its tasks, and functions that compute and draw.

    A file of ``prgd_paper.figures`` or ``studies`` with an ``EXPERIMENT`` is found because it is there. The
    claims about an experiment are the functions registered under its name; see `prgd_paper.claims.claim`.

    Attributes
    ----------
    name : str
        As in the paper, e.g. ``"figure-3"``.
    title : str
    where : str
        The place in the paper, or `OURS`.
    order : float
        The experiments of the page are sorted by this number.
    settings, quick : frozen dataclass
        Two values of one type, which hold every number of the experiment: the full experiment, and one
        that takes seconds. A field ``seeds`` is the number of random draws; it is the only field that
        does not change the rows of a task.
    compute : callable
        ``(settings, task) -> rows``; deterministic, one thread.
    reading : callable
        ``(rows, settings) -> text``: two or three sentences with figures from the rows, a pandas data frame.
    draw, tables : callable
        ``(rows, settings) -> figures``, or tables; by default there are none.
    tasks : callable
        ``settings -> names``: pieces that can be computed apart, e.g. one for each seed.
    seconds : float
        The time that a task takes, roughly: long tasks start first.
    rows_of : str
        The experiment that computes the same rows, if two experiments share them.
    """

    name: str
    title: str
    where: str
    order: float
    settings: Any
    quick: Any
    compute: Callable[[Any, str], list[Row]]
    reading: Callable[[Any, Any], str]
    draw: Callable[[Any, Any], list[Figure]] = nothing
    tables: Callable[[Any, Any], list[Table]] = nothing
    tasks: Callable[[Any], Sequence[str]] = one_task
    seconds: float = 1.0
    rows_of: str = ""

    @classmethod
    def of_module(cls, module: str, **more: Any) -> Experiment:
        """Return the experiment of a module: its ``Settings`` and its functions, found by their names.

        Parameters
        ----------
        module : str
            ``__name__`` of the file, whose stem is the name of the experiment: ``figure_3.py`` makes
            ``"figure-3"``. The file has ``Settings``, ``compute`` and ``reading``, and may have ``draw``,
            ``tables`` and ``tasks``.
        **more
            The fields that are not functions: title, where, order, quick, seconds.
        """
        here = vars(sys.modules[module])
        found = {f: here[f] for f in ("compute", "draw", "reading", "tables", "tasks") if f in here}
        name = module.rpartition(".")[2].replace("_", "-")
        return cls(name=name, settings=here["Settings"](), **found, **more)

    @property
    def rows_name(self) -> str:
        """The name under which the rows are kept."""
        return self.rows_of or self.name

    @property
    def is_ours(self) -> bool:
        """Whether the paper has no such figure."""
        return self.where == OURS

    @property
    def is_for_the_paper(self) -> bool:
        """Whether the paper has this figure or table, or a statement that these rows decide."""
        return not (self.is_ours and all(claim.is_ours for claim in registered((self.name,)).values()))

    def claims(self, rows: Any, settings: Any) -> list[Claim]:
        """Return the claims about the experiment, measured, and those that need more rows than it has."""
        few, changed = self.is_partial(settings), self.changes_in_words(settings)
        own = [c(rows, settings, is_partial=few, changed=changed) for c in registered((self.name,)).values()]
        # A claim of the experiment with which rows are shared asks for rows that are not here.
        missing = (
            f"{self.name} has a part of the rows that decide: prgd reproduce --only {self.rows_of} computes "
            "the others."
        )
        shared = registered((self.rows_of,)).values() if self.rows_of else ()
        return own + [replace(c, finding=Finding(Judgement.NOT_RUN, missing)) for c in shared]

    def is_partial(self, settings: Any) -> bool:
        """Whether the settings are smaller than those of the full run: --quick, or fewer seeds."""
        fewer = getattr(settings, SEEDS, 0) < getattr(self.settings, SEEDS, 0)
        return fewer or bool(differing(settings, self.settings))

    def is_quick(self, settings: Any) -> bool:
        """Whether the settings are nearer to those of --quick than to those of the full run."""
        return len(differing(settings, self.quick)) < len(differing(settings, self.settings))

    def changes(self, settings: Any) -> dict[str, Any]:
        """Return the fields, with their values here, that neither the full run nor --quick has; not seeds."""
        base = self.quick if self.is_quick(settings) else self.settings
        return {name: getattr(settings, name) for name in differing(settings, base)}

    def changes_in_words(self, settings: Any) -> str:
        """Return the changed fields with their values here and in the full run; empty if there are none."""
        return ", ".join(
            f"{name} = {to_text(value)} (full run: {to_text(getattr(self.settings, name))})"
            for name, value in self.changes(settings).items()
        )

    def chosen(self, quick: bool, seeds: int | None, changes: Mapping[str, str] | None = None) -> Any:
        """Return the settings that the command line asks for; ``changes`` are texts by field."""
        settings = self.quick if quick else self.settings
        if seeds is not None and hasattr(settings, SEEDS):
            settings = replace(settings, **{SEEDS: seeds})
        return with_changes(self.name, settings, changes or {})

    def options(self, settings: Any) -> str:
        """Return the options of the command line, each after a space, that ask for these settings."""
        is_quick = self.is_quick(settings)
        seeds = getattr(settings, SEEDS, None)
        is_own = seeds == getattr(self.quick if is_quick else self.settings, SEEDS, None)
        changed = [as_option(self.name, name, value) for name, value in self.changes(settings).items()]
        words = ["--quick"] * is_quick + ([] if is_own else [f"--seeds {seeds}"]) + changed
        return "".join(f" {word}" for word in words)

    def code(self) -> dict[str, str]:
        """Return what stands for the code of the rows: a hash of the module that computes them, and versions.

        A change elsewhere changes a version when it is released; until then, ``--force`` computes again.
        """
        compute = getattr(self.compute, "func", self.compute)  # the function inside a partial one
        source = inspect.getsource(sys.modules[compute.__module__])
        own = hashlib.sha256(source.encode()).hexdigest()[:12]
        return {compute.__module__: own, "prgd": prgd.__version__, "prgd_paper": prgd_paper.__version__}

    def key(self, settings: Any) -> str:
        """Return a hash of all that decides the rows of a task: the settings without seeds, and the code."""
        text = json.dumps([self.rows_name, plain_settings(settings), self.code()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def modules() -> dict[str, str]:
    """Return the module of each experiment by the experiment's name, which is that of its file.

    A file whose name begins with an underscore is a part of an experiment.

    Examples
    --------
    >>> modules()["figure-1"]
    'prgd_paper.figures.figure_1'
    """
    return {
        file.name.replace("_", "-"): f"prgd_paper.{folder}.{file.name}"
        for folder in ("figures", "studies")
        for file in iter_modules([str(Path(__file__).parents[1] / folder)])
        if not file.name.startswith("_")
    }


@cache
def load(name: str) -> Experiment:
    """Import an experiment and the parts of it whose names begin with its name, such as its claims."""
    module = import_module(modules()[name])
    package, _, stem = module.__name__.rpartition(".")
    for part in iter_modules(import_module(package).__path__, f"{package}."):
        if part.name.startswith(f"{package}._{stem}_"):
            import_module(part.name)
    experiment: Experiment = module.EXPERIMENT
    return experiment


def choose(names: Iterable[str] = ()) -> list[Experiment]:
    """Return the named experiments (default: all) in the order of the page; others are not imported.

    Examples
    --------
    >>> choose(["figure-33"])
    Traceback (most recent call last):
    ...
    ValueError: Unknown experiment 'figure-33'. Did you mean figure-3 or figure-6 or figure-4?
    """
    known = modules()
    wanted = [name.strip().lower().replace("_", "-").replace(" ", "-") for name in names]
    for name in wanted:
        if name not in known:
            raise unknown("experiment", name, known)
    return sorted((load(name) for name in set(wanted) or known), key=lambda e: e.order)
