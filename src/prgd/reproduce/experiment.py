"""Experiment: a figure or table of the paper as a value. Compute makes rows; all else reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from prgd.reproduce.figures import Figure, Table
from prgd.theory.claims import Claim, Entry, Finding

Row = dict[str, Any]  # column -> text, whole number or float; the same columns in every row of an experiment
OURS = "beyond the paper"


class Pending(NamedTuple):
    """A claim that has not been measured yet."""

    name: str
    where: str
    statement: str
    sentence: str
    verdict: str = "not yet run"


Judged = Claim | Pending


def judge(name: str, where: str, statement: str, finding: Finding) -> Claim:
    """Return the claim that a finding decides.

    Examples
    --------
    >>> judge("one", "Section 7", "1 <= 2", Finding(1.0, 2.0, "<=", "It is.")).verdict.value
    'holds'
    """
    return Entry(name, where, statement, lambda: finding)()


def _no_tables(rows: Any, settings: Any) -> list[Table]:
    return []


@dataclass(frozen=True)
class Experiment:
    """One figure or table: its settings, its tasks, and functions that compute, draw and judge.

    Attributes
    ----------
    name : str
        As in the paper, e.g. ``"figure-3"``.
    title : str
    where : str
        The place in the paper, or `OURS`.
    settings, quick : frozen dataclass
        Two values of one type: the full experiment, and one that takes seconds. A field ``seeds`` is the
        number of random draws; it is the only field that does not change the rows of a task.
    tasks : callable
        ``settings -> names``: pieces that can be computed apart, e.g. one a seed.
    compute : callable
        ``(settings, task) -> rows``; deterministic, one thread.
    draw, tables, claims : callable
        ``(rows, settings) -> figures, tables, judged claims``; rows is a pandas data frame.
    reading : callable
        ``(rows, settings) -> text``: two or three sentences with figures from the rows.
    seconds : float
        What a task takes, roughly: long ones start first.
    rows_of : str
        The experiment whose rows these are, where they are shared.
    """

    name: str
    title: str
    where: str
    settings: Any
    quick: Any
    tasks: Callable[[Any], Sequence[str]]
    compute: Callable[[Any, str], list[Row]]
    draw: Callable[[Any, Any], list[Figure]]
    claims: Callable[[Any, Any], list[Judged]]
    reading: Callable[[Any, Any], str]
    tables: Callable[[Any, Any], list[Table]] = _no_tables
    seconds: float = 1.0
    rows_of: str = ""

    @property
    def rows_name(self) -> str:
        """The name under which the rows are kept."""
        return self.rows_of or self.name

    @property
    def is_ours(self) -> bool:
        """Whether the paper has no such figure."""
        return self.where == OURS

    def chosen(self, quick: bool, seeds: int | None) -> Any:
        """Return the settings that the command line asks for."""
        settings = self.quick if quick else self.settings
        if seeds is None or not hasattr(settings, "seeds"):
            return settings
        return replace(settings, seeds=seeds)

    def key(self, settings: Any) -> str:
        """Return a hash of all that decides the rows of a task: the settings without ``seeds``."""
        import prgd

        values = {name: value for name, value in asdict(settings).items() if name != "seeds"}
        text = json.dumps([self.rows_name, prgd.__version__, values], sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
