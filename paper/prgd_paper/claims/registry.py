"""Claim and Finding, and the one registry that `prgd_paper.theory.claims` and `prgd_paper.reproduce` fill.

A claim is one function with the decorator `claim`. Its file is found because it is there: `discover`
imports every module of a package, and no list of claims or of modules is kept.
"""

from __future__ import annotations

import importlib
import inspect
import math
import operator
import pkgutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Literal

import numpy as np

from prgd.core.checks import unknown
from prgd.core.values import plain
from prgd_paper.claims.quotes import readable
from prgd_paper.claims.verdict import Verdict

Relation = Literal["<=", ">=", "==", "<", ">"]
Interval = tuple[float, float]  # the ends of an interval that holds the true figure
Comparison = tuple[float | Interval, Relation, float]  # (measured, relation, expected)
TOO_FEW = "too few draws for an interval"
WORDS = {"<=": "at most ", ">=": "at least ", "==": "", "<": "less than ", ">": "more than "}

# Words of Claim.where in the order of the paper. A claim takes the first place that its words name;
# claims that name none of these places come last, before statements of ours.
PLACES = (
    "Introduction",
    "Table 1",
    "Section 4",
    "Proposition 4.1",
    "Section 5",
    "Theorem 5.5",
    "Theorem 6.1",
    "Theorem 6.4",
    "Section 7.1, synthetic",
    "Section 7.1, Figures 3",
    "Table 2, Appendix",
    "Table 2",
    "Section 7.1",
    "Section 7.2",
    "Appendix A",
    "Lemma C.1",
    "Lemma C.2",
    "Appendix C",
    "Appendix D",
)


@dataclass(frozen=True)
class Finding:
    """What a claim's function returns: the figures that decide, and a sentence.

    Attributes
    ----------
    decided_by : (measured, relation, expected), or Verdict
        The comparison that must be true for the claim to hold; ``"=="`` means within ``tolerance``. What was
        measured is a number, or the two ends of an interval if chance has a part in it. NOT_DECIDED or
        NOT_RUN if there is nothing to compare.
    sentence : str
        What was measured, and what it means, in words.
    caveat : str
        Empty, or why a claim whose figures agree holds only with a caveat.
    tolerance : float
        Relative to the expected figure (absolute if that is 0), for ``"=="`` only.
    figures : mapping of str to numbers or words
        Whatever else was measured.
    setting : str
        What was run: data, settings, seeds, horizon.
    not_given : str
        Empty, or what the paper does not give (a preprocessing, a horizon, a seed), in words that end the
        sentence "The paper does not give ...". Figures that disagree decide nothing then, since another
        reading may agree.
    given_in : str
        Where the paper gives the setting, if that is not the place of the statement; or the readings of the
        paper that were tried, and all agree.
    would_change : str
        What would change the verdict.
    what : str
        What the measured number is, e.g. ``"share of draws"``.
    is_partial : bool
        Whether there are fewer rows than in the full run (--quick, fewer seeds). Such rows refute nothing.
    changed : str
        Empty, or the settings that a user changed, in words: rows of other settings decide nothing.

    Examples
    --------
    >>> print(Finding((0.1, "<=", 0.2), "The error is below the bound.").verdict)
    holds
    >>> print(Finding(((-0.01, 0.02), ">", 0.0), "The difference in accuracy, 95 % interval.").verdict)
    not decided
    >>> print(Finding((0.3, "<=", 0.2), "The error is above the bound.", not_given="the horizon").verdict)
    not decided
    """

    decided_by: Comparison | Verdict
    sentence: str
    caveat: str = ""
    tolerance: float = 1e-9
    figures: Mapping[str, Any] = field(default_factory=dict)
    setting: str = ""
    not_given: str = ""
    would_change: str = ""
    given_in: str = ""
    what: str = ""
    is_partial: bool = False
    changed: str = ""

    @property
    def verdict(self) -> Verdict:
        """The rule: the whole interval must agree, or all of it must disagree in the paper's setting.

        - HOLDS, or CAVEAT if a caveat is given: the comparison is true for both ends;
        - FAILS: it is false for both ends, and the paper gives the setting;
        - NOT_DECIDED: it is true for one end only, or false in a setting that the paper does not give, or
          false on fewer rows than those of the full run; or a figure is NaN; or settings were changed.
        """
        if isinstance(self.decided_by, Verdict):
            return self.decided_by
        if self.changed:
            return Verdict.NOT_DECIDED
        agrees = self._agreement()
        if all(agrees):
            return Verdict.CAVEAT if self.caveat else Verdict.HOLDS
        open_question = any(agrees) or self.not_given or self.is_partial or self._is_nan()
        return Verdict.NOT_DECIDED if open_question else Verdict.FAILS

    def _is_nan(self) -> bool:
        return not isinstance(self.decided_by, Verdict) and bool(np.isnan(self.decided_by[0]).any())

    def _agreement(self) -> list[bool]:
        """Return whether the comparison is true for each end of the interval; NaN agrees with nothing."""
        if isinstance(self.decided_by, Verdict):
            return []
        measured, relation, b = self.decided_by
        low, high = measured if isinstance(measured, tuple) else (measured, measured)
        if relation == "==":  # an interval agrees with a figure that it contains
            slack = self.tolerance * (abs(b) or 1.0)
            return [bool(low - slack <= b <= high + slack)]
        compare = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}[relation]
        return [bool(compare(low, b)), bool(compare(high, b))]

    @property
    def reason(self) -> str:
        """Why the figures do not decide, in words; empty if they do."""
        if self.verdict is not Verdict.NOT_DECIDED or isinstance(self.decided_by, Verdict):
            return ""
        if self.changed:
            return f"These rows have other settings, and decide nothing: {self.changed}."
        if self._is_nan():
            return "A figure is not a number: nothing can be compared."
        both = "The interval contains both answers." if any(self._agreement()) else ""
        missing = f"The paper does not give {self.not_given}." if self.not_given else ""
        if both or missing:
            return f"{both} {missing}".strip()
        return "Too few draws or steps to refute anything: the full run decides."


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
    finding: Finding = Finding(Verdict.NOT_RUN, "Not yet run.")
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
    def verdict(self) -> Verdict:
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
        if isinstance(by, Verdict):
            return ""
        measured, relation, expected = by
        ends = measured if isinstance(measured, tuple) else (measured,)
        is_known = ends != (-math.inf, math.inf)
        found = " to ".join(f"{end:.4g}" for end in ends) if is_known else TOO_FEW
        what = self.finding.what or self.method.rstrip(".")
        return f"{what}{': ' if what else ''}{found}; holds if {WORDS[relation]}{expected:.4g}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; infinite numbers become text."""
        by = () if isinstance(self.finding.decided_by, Verdict) else self.finding.decided_by
        values = {
            "name": self.name,
            "where": self.where,
            "is_ours": self.is_ours,
            "quote": self.quote,
            "statement": self.statement,
            **dict(zip(("measured", "relation", "expected"), by, strict=False)),
            "method": self.method,
            "comparison": self.comparison,
            "verdict": str(self.verdict),
            "sentence": self.sentence,
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


def discover(package: str) -> list[ModuleType]:
    """Import and return every module of a package, sub-packages left out; their claims register.

    Examples
    --------
    >>> [module.__name__.rpartition(".")[2] for module in discover("prgd_paper.claims")]
    ['groups', 'quotes', 'registry', 'verdict']
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
