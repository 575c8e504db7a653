"""Claim, and the one registry that `prgd_paper.theory.claims`, `figures` and `studies` fill.

A claim is one function with the decorator `claim`. Its file is found because it is there: `discover`
imports every module of a package, and no list of claims or of modules is kept.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from prgd.core.checks import plain, unknown
from prgd_paper.claims.finding import Finding, Judgement
from prgd_paper.claims.quotes import readable

TOO_FEW = "too few draws for an interval"
NOT_YET_RUN = Finding(Judgement.NOT_RUN, "Not yet run.")
OURS_HEAD = "Statements of ours, which the paper does not make:"
RELATIONS = {"<=": "at most ", ">=": "at least ", "==": "", "<": "less than ", ">": "more than "}
# What no run can tell of a claim: its statement in short, and whether its verdict matters.
WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
# Verdicts that a proof gives, by the beginning of the claim's name: that of the paper, as corrected, or ours.
PROVED = (
    "proposition-", "theorem-5.5", "theorem-6.", "table-1-gd", "table-1-ngd", "table-1-prgd",
    "regularization-path-toy", "section-4-projection", "section-5", "lemma-a.1", "lemma-c.1", "lemma-c.2",
    "lemma-c.3", "lemma-d.", "theorem-c.7",
)  # fmt: skip
NOT_PROVED = ("theorem-5.5-constants", "section-4-projection-useful", "table-1-prgd-exp")

# Words of Claim.where in the order of the paper. A claim takes the first place that its words name;
# claims that name none of these places come last, before statements of ours.
PLACES = (
    "Introduction", "Table 1", "Section 4", "Proposition 4.1", "Section 5", "Theorem 5.5", "Theorem 6.1",
    "Theorem 6.4", "Section 7.1, synthetic", "Section 7.1, Figures 3", "Table 2, Appendix", "Table 2",
    "Section 7.1", "Section 7.2", "Appendix A", "Lemma C.1", "Lemma C.2", "Appendix C", "Appendix D",
)  # fmt: skip


Measure = Callable[..., Finding]  # from no arguments, or from (rows, settings) of an experiment


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, the function that measures it, and what the function found.

    Attributes
    ----------
    name : str
        For the command line, e.g. ``"lemma-a.1"``.
    where : str
        The place in the paper.
    statement : str
        What the paper says, in our words.
    quote : str
        The paper's own words, exactly; empty if the statement is ours.
    measure : callable
        Returns a `Finding`: from no arguments, or from ``(rows, settings)`` of the experiment.
    experiment : str
        The experiment beside which the report shows the claim; empty if it belongs to none.
    needs_rows : bool
        Whether ``measure`` reads the rows of the experiment.
    method : str
        How the claim is measured, in a sentence: what the deciding figure is.
    finding : Finding
        What was found; NOT_RUN until the claim is called.
    seconds : float
        How long the measurement took.
    """

    name: str
    where: str
    statement: str
    measure: Measure = field(repr=False, compare=False)
    experiment: str = ""
    quote: str = ""
    needs_rows: bool = False
    method: str = ""
    finding: Finding = NOT_YET_RUN
    seconds: float = field(default=0.0, compare=False)

    def __call__(
        self, rows: Any = None, settings: Any = None, *, is_partial: bool = False, changed: str = ""
    ) -> Claim:
        """Return the claim with what its function finds, from the experiment's rows if it needs them."""
        start = time.perf_counter()
        finding = self.measure(rows, settings) if self.needs_rows else self.measure()
        if self.needs_rows:
            finding = replace(finding, is_partial=finding.is_partial or is_partial, changed=changed)
        return replace(self, finding=finding, seconds=time.perf_counter() - start)

    @property
    def verdict(self) -> Judgement:
        """What the figures say."""
        return self.finding.verdict

    @property
    def sentence(self) -> str:
        """What was measured, why it does not decide if it does not, and the caveat."""
        f = self.finding
        return " ".join(part for part in (f.sentence, f.reason, f.caveat) if part)

    @property
    def is_ours(self) -> bool:
        """Whether the statement is ours, not the paper's."""
        return self.where.startswith("beyond the paper")

    @property
    def is_line(self) -> bool:
        """Whether the statement is a line of a proof, which may fail while what is proved stands."""
        return not self.is_ours and re.search("roof (sketch )?of ", self.where) is not None

    @property
    def why(self) -> str:
        """Why the verdict is not a plain "holds", in a sentence or two; empty if it is."""
        found, first = self.finding, self.finding.sentence.split(". ")[0].removesuffix(".")
        if self.verdict is Judgement.CAVEAT:
            return found.caveat
        return "" if self.verdict is Judgement.HOLDS else f"{first}. {found.reason}".strip()

    @property
    def matters(self) -> str:
        """Whether a verdict that is not a plain "holds" matters, and why; empty if it is, or is of ours."""
        return "" if self.verdict is Judgement.HOLDS else WORDS.get(self.name, {}).get("matters", "")

    @property
    def rests_on(self) -> str:
        """Whether the verdict is proved or measured."""
        return rests_on(self.name)

    @property
    def quotation(self) -> str:
        """The paper's words in quotation marks, with symbols in place of TeX; empty if there are none."""
        return f"\u201c{readable(self.quote)}\u201d" if self.quote else ""

    @property
    def question(self) -> str:
        """How the claim is measured, if the comparison does not say so already."""
        return self.method if self.finding.what or not self.comparison else ""

    @property
    def source(self) -> str:
        """Where the paper gives the setting that was run, without a full stop."""
        return (self.finding.given_in or self.where).removesuffix(".")

    @property
    def comparison(self) -> str:
        """The deciding figures in words, e.g. ``share of draws: 0.9 to 0.97; holds if at least 0.95``.

        Without a name of the figure, how it is measured stands in its place. Empty if there are no figures.
        """
        by = self.finding.decided_by
        if isinstance(by, Judgement):
            return ""
        measured, relation, expected = by
        ends = measured if isinstance(measured, tuple) else (measured,)
        is_known = ends != (-math.inf, math.inf)
        found = " to ".join(f"{end:.4g}" for end in ends) if is_known else TOO_FEW
        what = self.finding.what or self.method.rstrip(".")
        return f"{what}{': ' if what else ''}{found}; holds if {RELATIONS[relation]}{expected:.4g}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; infinite numbers become text."""
        by = () if isinstance(self.finding.decided_by, Judgement) else self.finding.decided_by
        values = {
            "name": self.name,
            "where": self.where,
            "is_ours": self.is_ours,
            "is_line": self.is_line,
            "quote": self.quote,
            "statement": self.statement,
            **dict(zip(("measured", "relation", "expected"), by, strict=False)),
            "method": self.method,
            "comparison": self.comparison,
            "verdict": str(self.verdict),
            "sentence": self.sentence,
            "why": self.why,
            "not_given": self.finding.not_given,
            "setting": self.finding.setting,
            "source": self.source,
            "would_change": self.finding.would_change,
            "figures": dict(self.finding.figures),
            "seconds": round(self.seconds, 3),
        }
        return dict(plain(values, lambda number: number if math.isfinite(number) else str(number)))


_CLAIMS: dict[str, Claim] = {}


def claim(
    name: str, statement: str = "", *, where: str, experiment: str = "", quote: str = ""
) -> Callable[[Measure], Claim]:
    """Register the decorated function, which measures the claim and returns a `Finding`.

    The first paragraph of the function's docstring is the statement of the paper, the second one says how it
    is measured.

    Parameters
    ----------
    name : str
        Lower case, e.g. ``"theorem-6.4-gd"``; each name once.
    statement : str, optional
        What the paper says, in plain text, if the docstring says only how it is measured.
    where : str
        The place in the paper, e.g. ``"Theorem 6.4 (GD), Section 6.2"``; ``"beyond the paper"`` if the
        statement is ours.
    quote : str, optional
        The paper's own words, exactly.
    experiment : str, optional
        The name of the experiment beside which the report shows the claim. A function with parameters
        ``(rows, settings)`` gets the experiment's rows.
    """

    def register(measure: Measure) -> Claim:
        if name in _CLAIMS:
            raise ValueError(f"The claim {name!r} is registered twice.")
        needs_rows = bool(inspect.signature(measure).parameters)
        doc = inspect.getdoc(getattr(measure, "func", measure)) or ""  # the function inside a partial one
        paragraphs = [" ".join(p.split()) for p in doc.split("\n\n")]
        said, method, *_ = [statement, *paragraphs, ""] if statement else [*paragraphs, "", ""]
        _CLAIMS[name] = Claim(name, where, said, measure, experiment, quote, needs_rows, method)
        return _CLAIMS[name]

    return register


def rests_on(name: str) -> str:
    """Return "proved" if a proof gives the verdict of this claim, "measured" if only runs do.

    Examples
    --------
    >>> rests_on("lemma-a.1"), rests_on("table-2-gd")
    ('proved', 'measured')
    """
    is_proved = name.startswith(PROVED) and name not in NOT_PROVED
    # The statements of ours that docs/note/note.md proves are named after their numbers.
    return "proved" if is_proved or re.match(r"e\d+-", name) else "measured"


def discover(package: str) -> list[ModuleType]:
    """Import and return every module of a package, sub-packages left out; their claims register.

    Examples
    --------
    >>> [module.__name__.rpartition(".")[2] for module in discover("prgd_paper.claims")]
    ['finding', 'quotes', 'registry']
    """
    folder = importlib.import_module(package).__path__
    names = [found.name for found in pkgutil.iter_modules(folder) if not found.ispkg]
    return [importlib.import_module(f"{package}.{name}") for name in names]


def registered(experiments: Iterable[str] | None = None) -> dict[str, Claim]:
    """Return the registered claims by name, in the order of the paper.

    Parameters
    ----------
    experiments : iterable of str, optional
        Only the claims of these experiments.
    """
    wanted = None if experiments is None else set(experiments)
    found = [c for c in _CLAIMS.values() if wanted is None or c.experiment in wanted]
    return {c.name: c for c in sorted(found, key=place)}


def place(claim: Claim) -> int:
    """Return where the paper makes the claim, as an index of `PLACES`; statements of ours come last."""
    if claim.is_ours:
        return len(PLACES) + 1
    return next((k for k, words in enumerate(PLACES) if words in claim.where), len(PLACES))


def choose(known: Mapping[str, Claim], names: Iterable[str] = ()) -> list[Claim]:
    """Return the claims that the names, or beginnings of names, choose; all if no name is given.

    Raises
    ------
    ValueError
        For a name that begins no claim's; the message lists the nearest.
    """
    wanted = [name.lower() for name in names]
    for name in wanted:
        if not any(key.startswith(name) for key in known):
            raise unknown("claim", name, known)
    return [c for key, c in known.items() if not wanted or key.startswith(tuple(wanted))]


def apart(claims: Iterable[Claim]) -> tuple[list[Claim], list[Claim]]:
    """Return the statements of the paper, and the statements of ours."""
    claims = list(claims)
    return [c for c in claims if not c.is_ours], [c for c in claims if c.is_ours]


def summary(claims: Iterable[Claim]) -> str:
    """Return in words how many of the paper's statements, of its proofs' lines and of ours have each verdict.

    Examples
    --------
    >>> summary([Claim("vgg", "Section 7.2", "...", lambda: Finding(Judgement.NOT_RUN, "No rows."))])
    '1 claim: 0 hold, 0 hold with a caveat, 0 do not hold, 1 not yet run'
    """
    papers, ours = apart(claims)
    statements, lines = [c for c in papers if not c.is_line], [c for c in papers if c.is_line]
    groups = {("claim", "claims"): statements, ("line of a proof", "lines of proofs"): lines}
    groups |= {("statement of ours", "statements of ours"): ours}
    always = (Judgement.HOLDS, Judgement.CAVEAT, Judgement.FAILS)
    parts: list[str] = []
    for (one, several), group in groups.items():
        found = [c.verdict for c in group]
        shown = [verdict for verdict in Judgement if verdict in always or verdict in found]
        counts = ", ".join(verdict.counted(found.count(verdict)) for verdict in shown)
        if found or not (papers or ours or parts):
            parts.append(f"{len(found)} {one if len(found) == 1 else several}: {counts}")
    return "; ".join(parts)


def crosses(claims: Iterable[Claim]) -> list[Claim]:
    """Return the statements of the paper that do not hold, and those of its proofs' lines."""
    return [c for c in claims if c.verdict is Judgement.FAILS and not c.is_ours]
