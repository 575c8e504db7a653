"""Finding: the figures that decide a claim; Judgement: what they say, by one rule."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np

Relation = Literal["<=", ">=", "==", "<", ">"]
Interval = tuple[float, float]  # the ends of an interval that holds the true figure
Comparison = tuple[float | Interval, Relation, float]  # (measured, relation, expected)


class Judgement(StrEnum):
    """What the figures say about a claim.

    Attributes
    ----------
    value : str
        The words that a reader sees, in files and on every page.
    plural : str
        The same words for several claims.
    sign : str
        One character that stands for the verdict in a table.
    colour : str
        The verdict's style on a terminal.
    meaning : str
        What the verdict says, by the rule of `prgd_paper.claims.Finding.verdict`.

    Examples
    --------
    >>> Judgement("does not hold").sign, Judgement.FAILS.plural
    ('✗', 'do not hold')
    """

    HOLDS = ("holds", "hold", "✓", "green", "The whole interval agrees with the statement.")
    CAVEAT = (
        "holds with a caveat",
        "hold with a caveat",
        "◐",
        "yellow",
        "The whole interval agrees, and the reader should know something first.",
    )
    FAILS = (
        "does not hold",
        "do not hold",
        "✗",
        "red",
        "The whole interval disagrees, in a setting that the paper gives.",
    )
    NOT_DECIDED = (
        "not decided",
        "not decided",
        "?",
        "dim",
        "The interval contains both answers; or it disagrees, but in a setting that the paper does not give, "
        "so that another reading may agree; or it disagrees in a run smaller than the full one.",
    )
    NOT_RUN = ("not yet run", "not yet run", "…", "dim", "The rows that decide are missing.")

    plural: str
    sign: str
    colour: str
    meaning: str

    def counted(self, count: int) -> str:
        """Return the words with a number before them: 1 does not hold, 2 do not hold."""
        return f"{count} {self.value if count == 1 else self.plural}"

    def __new__(cls, words: str, plural: str, sign: str, colour: str, meaning: str) -> Judgement:
        """Make a member whose value is its words."""
        member = str.__new__(cls, words)
        member._value_ = words
        member.plural, member.sign, member.colour, member.meaning = plural, sign, colour, meaning
        return member


@dataclass(frozen=True)
class Finding:
    """What a claim's function returns: the figures that decide, and a sentence.

    Attributes
    ----------
    decided_by : (measured, relation, expected), or Judgement
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

    decided_by: Comparison | Judgement
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
    def verdict(self) -> Judgement:
        """The rule: the whole interval must agree, or all of it must disagree in the paper's setting.

        - HOLDS, or CAVEAT if a caveat is given: the comparison is true for both ends;
        - FAILS: it is false for both ends, and the paper gives the setting;
        - NOT_DECIDED: it is true for one end only, or false in a setting that the paper does not give, or
          false on fewer rows than those of the full run; or a figure is NaN; or settings were changed.
        """
        if isinstance(self.decided_by, Judgement):
            return self.decided_by
        if self.changed:
            return Judgement.NOT_DECIDED
        agrees = self._agreement()
        if all(agrees):
            return Judgement.CAVEAT if self.caveat else Judgement.HOLDS
        open_question = any(agrees) or self.not_given or self.is_partial or self._is_nan()
        return Judgement.NOT_DECIDED if open_question else Judgement.FAILS

    def _is_nan(self) -> bool:
        return not isinstance(self.decided_by, Judgement) and bool(np.isnan(self.decided_by[0]).any())

    def _agreement(self) -> list[bool]:
        """Return whether the comparison is true for each end of the interval; NaN agrees with nothing."""
        if isinstance(self.decided_by, Judgement):
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
        if self.verdict is not Judgement.NOT_DECIDED or isinstance(self.decided_by, Judgement):
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
