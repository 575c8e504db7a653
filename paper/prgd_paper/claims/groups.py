"""Claims in groups: the paper's and ours, what does not hold, and how many have each verdict."""

from __future__ import annotations

from collections.abc import Iterable

from prgd_paper.claims.registry import Claim
from prgd_paper.claims.verdict import Verdict

OURS_HEAD = "Statements of ours, which the paper does not make:"


def apart(claims: Iterable[Claim]) -> tuple[list[Claim], list[Claim]]:
    """Return the statements of the paper, and the statements of ours."""
    claims = list(claims)
    return [c for c in claims if not c.is_ours], [c for c in claims if c.is_ours]


def summary(claims: Iterable[Claim]) -> str:
    """Return how many of the paper's claims have each verdict, in words, and then how many of ours.

    Examples
    --------
    >>> from prgd_paper.claims import Finding
    >>> summary([Claim("vgg", "Section 7.2", "...", lambda: Finding(Verdict.NOT_RUN, "No rows."))])
    '1 claim: 0 hold, 0 hold with a caveat, 0 do not hold, 1 not yet run'
    """
    papers, ours = apart(claims)
    always = (Verdict.HOLDS, Verdict.CAVEAT, Verdict.FAILS)
    parts = []
    for noun, more, group in (("claim", "", papers), ("statement", " of ours", ours)):
        found = [c.verdict for c in group]
        shown = [verdict for verdict in Verdict if verdict in always or verdict in found]
        counts = ", ".join(verdict.counted(found.count(verdict)) for verdict in shown)
        if found or not (ours or more):
            parts.append(f"{len(found)} {noun}{'s' if len(found) != 1 else ''}{more}: {counts}")
    return "; ".join(parts)


def crosses(claims: Iterable[Claim]) -> list[Claim]:
    """Return the statements of the paper that do not hold: those that need every word of their evidence."""
    return [c for c in claims if c.verdict is Verdict.FAILS and not c.is_ours]
