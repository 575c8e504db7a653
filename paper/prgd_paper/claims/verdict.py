"""Verdict: what the figures say about a claim, with the words, sign and colour that show it."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
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
    >>> Verdict("does not hold").sign, Verdict.FAILS.plural
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

    def __new__(cls, words: str, plural: str, sign: str, colour: str, meaning: str) -> Verdict:
        """Make a member whose value is its words."""
        member = str.__new__(cls, words)
        member._value_ = words
        member.plural, member.sign, member.colour, member.meaning = plural, sign, colour, meaning
        return member
