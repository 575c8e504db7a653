"""What the verdicts on the coefficients mean, and what to do next, in sentences that name the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prgd.separation.evidence import Behaviour

if TYPE_CHECKING:
    from prgd.separation.families import Name
    from prgd.separation.verdict import Separability

INFINITE = (Behaviour.PLUS_INFINITY, Behaviour.MINUS_INFINITY, Behaviour.EITHER)
_LISTED = 4  # names that a sentence lists
_LEVEL = re.compile(r"([^:]+)\[(?:T\.)?([^\[\]:]+)\]")  # the column of a level, as formulaic and patsy name it
_CONSTANTS = ("(Intercept)", "Intercept", "const")


def shown(name: Name) -> str:
    """Return a name as text: that of a class before that of its coefficient.

    Examples
    --------
    >>> shown(("IV", "age"))
    'IV: age'
    """
    return name if isinstance(name, str) else ": ".join(name)


def listed(names: Sequence[Name]) -> str:
    """Return names as a list in words; of many the first few and how many more.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e", "f"])
    ('a, b and c', 'a, b, c, d and 2 more')
    """
    words = [shown(name) for name in names[:_LISTED]]
    if len(names) > _LISTED:
        words.append(f"{len(names) - _LISTED} more")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def with_behaviour(s: Separability, *behaviours: Behaviour) -> list[Name]:
    """Return the names of the coefficients of some behaviours, in the order of the model."""
    return [name for name, found in s.coefficients.items() if found in behaviours]


def meaning(s: Separability) -> str:
    """Return the sentence on all coefficients; empty if nothing is known about them."""
    infinite, finite = with_behaviour(s, *INFINITE), with_behaviour(s, Behaviour.FINITE)
    aliased, unknown = with_behaviour(s, Behaviour.ALIASED), with_behaviour(s, Behaviour.UNDECIDED)
    if not s.coefficients or len(unknown) == len(s.coefficients):
        return ""
    parts = []
    if infinite and not finite and not unknown:
        every = f"all {len(infinite)} coefficients are" if len(infinite) > 1 else "the coefficient is"
        parts.append(f"{every} infinite ({listed(infinite)})")
    elif infinite:
        parts.append(f"{listed(infinite)} {_are(infinite)} infinite")
    if finite:
        every = "every coefficient is finite" if len(finite) == len(s.coefficients) else ""
        parts.append(every or f"{listed(finite)} {_are(finite)} finite")
    if unknown:
        parts.append(f"{listed(unknown)} {_are(unknown)} undecided")
    if aliased:
        parts.append(f"{listed(aliased)} {_are(aliased)} aliased")
    return f"Maximum likelihood: {'; '.join(parts)}."


def advice(s: Separability) -> str:
    """Return in one sentence what to do next about infinite and aliased coefficients, naming them."""
    infinite, finite = with_behaviour(s, *INFINITE), with_behaviour(s, Behaviour.FINITE)
    if infinite:
        start, ways = f"{listed(infinite)} {_are(infinite)} infinite", _ways_out(s, infinite)
        if not finite:
            start = f"All of these coefficients are infinite, so no estimate is finite: {listed(infinite)}"
            return f"{start}; {', or '.join(ways)}."
        rows = f"the {s.limiting_rows.size:,} limiting_rows"
        return f"{start}: {', or '.join(ways)}; {listed(finite)} can be estimated from {rows} alone."
    if with_behaviour(s, Behaviour.UNDECIDED) or not s.coefficients:
        return "It is not known whether all coefficients are finite: use Firth's penalty or a prior to be safe."
    if aliased := with_behaviour(s, Behaviour.ALIASED):
        them = "it is a combination" if len(aliased) == 1 else "they are combinations"
        return f"Drop {listed(aliased)}: {them} of other columns, and all others have finite estimates."
    return "Nothing needs to be done: all estimates are finite."


def _ways_out(s: Separability, infinite: Sequence[Name]) -> list[str]:
    """Return what keeps estimates finite: columns to drop, levels to merge, penalties."""
    bare = list(dict.fromkeys(name if isinstance(name, str) else name[1] for name in infinite))
    levels = [name for name in bare if _LEVEL.fullmatch(name)]
    columns = [name for name in bare if name not in (*levels, *_CONSTANTS) and not _is_threshold(s, name)]
    ways = []
    if columns:
        ways.append(f"drop {listed(columns)}")
    if levels:
        which = "another level" if len(levels) == 1 else "others"
        ways.append(f"merge the level{'s' * (len(levels) > 1)} {listed(levels)} with {which}")
    return [*ways, "use Firth's penalty or a prior"]


def _is_threshold(s: Separability, name: str) -> bool:
    return s.family == "ordinal" and bool(re.search(r"[|/]", name))


def _are(names: Sequence[Name]) -> str:
    return "is" if len(names) == 1 else "are"
