"""Claims: each lemma, proposition and theorem of the paper as a function that measures it."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from prgd.checks import unknown

Relation = Literal["<=", ">=", "==", "<", ">"]

# the rooms that hold claims, in the order of the paper
MODULES = (
    "toy",
    "cylinder",
    "first_order",
    "digits",
    "margins",
    "gradients",
    "published",
    "inequalities",
)


class Verdict(Enum):
    """What the figures say about a claim."""

    HOLDS = "holds"
    CAVEAT = "holds with a caveat"
    FAILS = "does not hold"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Finding:
    """What a claim's function returns: the figure, what it is held against, and a sentence.

    Attributes
    ----------
    measured, expected : float
        The deciding figure and what it is compared with.
    relation : {"<=", ">=", "==", "<", ">"}
        How measured must stand to expected. ``"=="`` means within ``tolerance``.
    sentence : str
        What was measured, and what it means, in words.
    caveat : str
        Empty, or why a claim whose figures agree holds only with a caveat.
    tolerance : float
        Relative to expected (absolute where that is 0), for ``"=="`` only.
    figures : mapping of str to numbers or words
        Whatever else was measured.

    Examples
    --------
    >>> Finding(0.1, 0.2, "<=", "The error is below the bound.").verdict
    <Verdict.HOLDS: 'holds'>
    """

    measured: float
    expected: float
    relation: Relation
    sentence: str
    caveat: str = ""
    tolerance: float = 1e-9
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether measured stands to expected as the relation says."""
        a, b = self.measured, self.expected
        if self.relation == "==":
            return math.isclose(a, b, rel_tol=self.tolerance, abs_tol=self.tolerance if b == 0.0 else 0.0)
        return {"<=": a <= b, ">=": a >= b, "<": a < b, ">": a > b}[self.relation]

    @property
    def verdict(self) -> Verdict:
        """Fails where the figures disagree; else holds, with a caveat where one is given."""
        if not self.agrees:
            return Verdict.FAILS
        return Verdict.CAVEAT if self.caveat else Verdict.HOLDS


@dataclass(frozen=True)
class Claim:
    """One claim of the paper and what became of it.

    Attributes
    ----------
    name : str
        For the command line, e.g. ``"lemma-a.1"``.
    where : str
        The place in the paper.
    statement : str
        What the paper says.
    measured, expected, relation, figures
        As in `Finding`.
    verdict : Verdict
        Holds, holds with a caveat, or does not hold.
    sentence : str
        What was measured, and the caveat.
    seconds : float
        What it took.
    """

    name: str
    where: str
    statement: str
    measured: float
    expected: float
    relation: Relation
    verdict: Verdict
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; infinite numbers become text."""
        return {
            "name": self.name,
            "where": self.where,
            "statement": self.statement,
            "measured": _plain(self.measured),
            "expected": _plain(self.expected),
            "relation": self.relation,
            "verdict": str(self.verdict),
            "sentence": self.sentence,
            "figures": {key: _plain(value) for key, value in self.figures.items()},
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Entry:
    """A registered claim: its name, place and statement, and the function that measures it."""

    name: str
    where: str
    statement: str
    measure: Callable[[], Finding]

    def __call__(self) -> Claim:
        """Measure the claim."""
        start = time.perf_counter()
        found = self.measure()
        return Claim(
            self.name,
            self.where,
            self.statement,
            found.measured,
            found.expected,
            found.relation,
            found.verdict,
            f"{found.sentence} {found.caveat}".strip(),
            dict(found.figures),
            time.perf_counter() - start,
        )


_ENTRIES: dict[str, Entry] = {}


def claim(name: str, *, where: str, statement: str) -> Callable[[Callable[[], Finding]], Entry]:
    """Register the decorated function, which measures the claim and returns a `Finding`.

    Parameters
    ----------
    name : str
        Lower case, e.g. ``"theorem-6.4-gd"``; each name once.
    where : str
        The place in the paper, e.g. ``"Theorem 6.4 (GD), Section 6.2"``.
    statement : str
        What the paper says, in plain text.
    """

    def register(measure: Callable[[], Finding]) -> Entry:
        if name in _ENTRIES:
            raise ValueError(f"The claim {name!r} is registered twice.")
        _ENTRIES[name] = entry = Entry(name, where, statement, measure)
        return entry

    return register


def registered() -> dict[str, Entry]:
    """Return every registered claim by name, in the order of the paper.

    Examples
    --------
    >>> registered()["lemma-a.1"].where
    'Lemma A.1, Appendix A.2'
    """
    for module in MODULES:
        importlib.import_module(f"prgd.theory.claims.{module}")
    # by room, so that the order does not depend on which room was imported first
    rooms = [f"prgd.theory.claims.{module}" for module in MODULES]
    return dict(sorted(_ENTRIES.items(), key=lambda item: rooms.index(item[1].measure.__module__)))


def run_claims(
    names: Iterable[str] | None = None, *, show: Callable[[Claim], None] | None = None
) -> list[Claim]:
    """Measure the named claims (default: all) and return them, in the order of the paper.

    Parameters
    ----------
    names : iterable of str, optional
        A name chooses one claim; a prefix such as ``"lemma-c"`` all that begin with it.
    show : callable, optional
        Gets each claim as soon as it is measured.

    Returns
    -------
    list of Claim

    Raises
    ------
    ValueError
        For a name that begins no claim's; the message lists the nearest.

    Examples
    --------
    >>> [str(claim.verdict) for claim in run_claims(["lemma-d.2"])]
    ['holds']
    """
    found = []
    for entry in choose(names):
        found.append(entry())
        if show is not None:
            show(found[-1])
    return found


def choose(names: Iterable[str] | None = None) -> list[Entry]:
    """Return the entries that the names, or prefixes of names, choose; all for None or none given."""
    known = registered()
    wanted = [name.lower() for name in names or ()]
    for name in wanted:
        if not any(key.startswith(name) for key in known):
            raise unknown("claim", name, known)
    return [e for key, e in known.items() if not wanted or any(key.startswith(name) for name in wanted)]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
