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

    Examples
    --------
    >>> Verdict("does not hold").sign, Verdict.FAILS.plural
    ('✗', 'do not hold')
    """

    HOLDS = ("holds", "hold", "✓", "green")
    CAVEAT = ("holds with a caveat", "hold with a caveat", "◐", "yellow")
    FAILS = ("does not hold", "do not hold", "✗", "red")
    NOT_DECIDED = ("not decided", "not decided", "?", "dim")
    NOT_RUN = ("not yet run", "not yet run", "…", "dim")

    plural: str
    sign: str
    colour: str

    def __new__(cls, words: str, plural: str, sign: str, colour: str) -> Verdict:
        """Make a member whose value is its words."""
        member = str.__new__(cls, words)
        member._value_ = words
        member.plural, member.sign, member.colour = plural, sign, colour
        return member
