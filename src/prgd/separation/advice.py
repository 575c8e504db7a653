"""What the verdicts on the coefficients mean, and what to do next, in sentences that name the columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from prgd.separation.evidence import Behaviour

if TYPE_CHECKING:
    from prgd.separation.families import Name
    from prgd.separation.verdict import Separability

_LISTED = 4  # names that a sentence lists
_LEVEL = re.compile(r"([^:]+)\[(?:T\.)?([^\[\]:]+)\]")  # the column of a level, as formulaic names it
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


def sum_in_words(terms: Mapping[Name, Fraction | float], max_terms: int) -> str:
    """Return a combination of columns as text; a term without a name is a number.

    Examples
    --------
    >>> sum_in_words({"x1": Fraction(2, 3), "x2": -1.0, "": 0.1 + 0.2}, 4), sum_in_words({}, 4)
    ('2/3 x1 - x2 + 0.3', '0')
    """
    text = ""
    for name, k in list(terms.items())[:max_terms]:
        size = f"{abs(k)}" if isinstance(k, Fraction) else f"{abs(k):.6g}"
        factor = size if not name else "" if size == "1" else f"{size} "
        text += f" {'-' if k < 0 else '+'} {factor}{shown(name)}"
    more = len(terms) - max_terms
    return (text.removeprefix(" + ").strip() or "0") + (f" + {more} more terms" if more > 0 else "")


def infinite_names(s: Separability) -> list[Name]:
    """Return the names of the infinite coefficients, in the order of the model."""
    return [name for name, found in s.coefficients.items() if found.is_infinite]


def names_with(s: Separability, behaviour: Behaviour) -> list[Name]:
    """Return the names of the coefficients of one behaviour, in the order of the model."""
    return [name for name, found in s.coefficients.items() if found is behaviour]


def meaning(s: Separability) -> str:
    """Return the sentence on all coefficients; empty if nothing is known about them."""
    infinite, finite = infinite_names(s), names_with(s, Behaviour.FINITE)
    aliased, unknown = names_with(s, Behaviour.ALIASED), names_with(s, Behaviour.UNDECIDED)
    if not s.coefficients or len(unknown) == len(s.coefficients):
        return ""
    parts = []
    if infinite and not finite and not unknown:
        every = {1: "the only coefficient is", 2: "both coefficients are"}.get(
            len(infinite), f"all {len(infinite)} coefficients are"
        )
        why = "separation is complete, so " if s.verdict == "separable" else ""
        parts.append(f"{why}{every} infinite ({listed(infinite)})")
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
    if near := s.nearly_aliased:
        them = "it is a combination" if len(near) == 1 else "they are combinations"
        return (
            f"Drop {listed(near)} and ask again: {them} of other columns up to rounding, and the verdicts "
            "may rest on the rounding alone."
        )
    infinite, finite = infinite_names(s), names_with(s, Behaviour.FINITE)
    unknown = names_with(s, Behaviour.UNDECIDED)
    if infinite and not finite and not unknown:
        ways = ", or ".join(_ways_out(s, infinite)[::-1])
        return f"All of these coefficients are infinite, so that no estimate exists: {ways}."
    if infinite:
        ways = ", or ".join(_ways_out(s, infinite))
        others = f"; {_estimable(s, finite)}" if finite else ""
        return f"{listed(infinite)} {_are(infinite)} infinite: {ways}{others}."
    if unknown or not s.coefficients:
        return "Whether all estimates are finite is not known: Firth's penalty or a prior makes them so."
    if aliased := names_with(s, Behaviour.ALIASED):
        them = "it is a combination" if len(aliased) == 1 else "they are combinations"
        return f"Drop {listed(aliased)}: {them} of other columns, and all others have finite estimates."
    return "Nothing needs to be done: all estimates are finite."


def _ways_out(s: Separability, infinite: Sequence[Name]) -> list[str]:
    """Return what keeps estimates finite: columns to drop, levels to merge, penalties."""
    bare = list(dict.fromkeys(name if isinstance(name, str) else name[1] for name in infinite))
    levels = {name: match[1] for name in bare if (match := _LEVEL.fullmatch(name))}
    columns = [name for name in bare if name not in (*levels, *_CONSTANTS) and not _is_threshold(s, name)]
    rows = {name if isinstance(name, str) else name[1]: 0 for name in infinite}
    for name, involved in s.involved.items():
        rows[name if isinstance(name, str) else name[1]] += involved.total
    # Separated rows in which the columns of a factor are zero have its reference level.
    references = dict.fromkeys(factor for level, factor in levels.items() if s.involved and not rows[level])
    merged = [level for level, factor in levels.items() if factor not in references]
    ways = []
    if columns and s.verdict == "separable" and len(columns) > 1:
        ways.append(f"drop columns that tell the classes apart ({listed(_main_columns(s) or columns)})")
    elif columns:
        ways.append(f"drop {listed(columns)}")
    if merged:
        which = "another level" if len(merged) == 1 else "others"
        ways.append(f"merge the level{'s' * (len(merged) > 1)} {listed(merged)} with {which}")
    if references:
        ways.append(f"merge the reference level of {listed(list(references))} with another level")
    return [*ways, "use Firth's penalty or a prior"]


def _estimable(s: Separability, finite: Sequence[Name]) -> str:
    """Return how the finite coefficients are estimated."""
    words = f"{listed(finite)} can be estimated from the {s.limiting_rows.size:,} limiting_rows alone"
    if s.loses_classes:
        words += ", but not by a plain refit: some of these rows lose classes in the limit"
    return words


def _main_columns(s: Separability) -> list[str]:
    """Return the features of the separating hyperplane of two classes, the most important first."""
    return [s.name(j) for j in s.features.tolist()] if s.family == "binomial" else []


def _is_threshold(s: Separability, name: str) -> bool:
    return s.family == "ordinal" and bool(re.search(r"[|/]", name))


def _are(names: Sequence[Name]) -> str:
    return "is" if len(names) == 1 else "are"
