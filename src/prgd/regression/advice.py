"""What the verdicts on the coefficients mean, and what to do next, in sentences that name the columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prgd.core.checks import printable
from prgd.core.types import Indices
from prgd.regression.coefficients import Behaviour
from prgd.regression.families import ModelRows, Name
from prgd.regression.rules import Condition

if TYPE_CHECKING:
    from prgd.regression.result import Separability

_LISTED = 4  # names that a sentence lists
_LISTED_FIRST = 8  # names that the first sentence lists, of each kind of coefficients
_LEVEL = re.compile(r"(.+)\[(?:T\.)?([^\[\]]+)\]")  # the column of a level, as formulaic names it
_COLON = re.compile(r":(?![^\[]*\])")  # between the parts of an interaction, and not within a level
_PLAIN = re.compile(r"C\((\w+)[,)].*|(\w+)")  # a factor whose column has a name that needs no quotes
KEPT = 5  # observations of each coefficient whose numbers are kept
_CONSTANTS = ("(Intercept)", "Intercept", "const")


def shown(name: Name) -> str:
    """Return a name as text: that of a class before that of its coefficient.

    Examples
    --------
    >>> shown(("IV", "age"))
    'IV: age'
    """
    return printable(name if isinstance(name, str) else ": ".join(name)).replace("\n", r"\n")


def listed(names: Sequence[Name], max_names: int = _LISTED) -> str:
    """Return names as a list in words; of many the first few and how many more.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e", "f"])
    ('a, b and c', 'a, b, c, d and 2 more')
    """
    words = [shown(name) for name in names[:max_names]]
    if len(names) > max_names:
        words.append(f"{len(names) - max_names} more")
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
    """Return the sentence on the estimates of all coefficients; empty if nothing is known about them."""
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
        parts.append(f"{why}{every} infinite ({listed(infinite, _LISTED_FIRST)})")
    elif infinite:
        parts.append(f"{listed(infinite, _LISTED_FIRST)} {_are(infinite)} infinite")
    if finite:
        every = "every coefficient is finite" if len(finite) == len(s.coefficients) else ""
        parts.append(every or f"{listed(finite, _LISTED_FIRST)} {_are(finite)} finite")
    if unknown:
        parts.append(f"{listed(unknown, _LISTED_FIRST)} {_are(unknown)} undecided")
    if aliased:
        parts.append(f"{listed(aliased, _LISTED_FIRST)} {_are(aliased)} aliased")
    return f"{'; '.join(parts)}."


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
        found = _ways_out(s, infinite)
        text = ", or ".join(found if s.references else found[::-1])
        if not s.limiting_rows.size:
            return f"All of these coefficients are infinite, so that no estimate exists: {text}."
        rows = f"the fitted values of the {s.limiting_rows.size:,} limiting_rows do"
        return f"No coefficient has a finite estimate, but {rows}: {text}."
    if infinite:
        ways = ", or ".join(_ways_out(s, infinite))
        if finite:
            ways += f"; fit() estimates {listed(finite)} from the {s.limiting_rows.size:,} limiting_rows"
        return f"{listed(infinite)} {_are(infinite)} infinite: {ways}."
    if unknown or not s.coefficients:
        return "Whether all estimates are finite is not known: Firth's penalty or a prior makes them so."
    if aliased := names_with(s, Behaviour.ALIASED):
        them = "it is a combination" if len(aliased) == 1 else "they are combinations"
        return f"Drop {listed(aliased)}: {them} of other columns, and all others have finite estimates."
    return "Nothing needs to be done: all estimates are finite."


def _ways_out(s: Separability, infinite: Sequence[Name]) -> list[str]:
    """Return what keeps estimates finite: references to change, rows or terms to drop, levels to merge."""
    bare = [name if isinstance(name, str) else name[1] for name in infinite]
    marks = "|/" if s.family == "ordinal" else ""  # between the classes in the name of a threshold
    own = [name for name in dict.fromkeys(bare) if name not in _CONSTANTS and not {*marks} & {*name}]
    within = {_term(s, part) for name in own if len(parts := _COLON.split(name)) > 1 for part in parts}
    levels: dict[str, list[str]] = {}
    dropped = []
    for name in own:
        match = None if len(_COLON.split(name)) > 1 else _level(s, name)
        if match is None:
            dropped.append(_term(s, name))
        elif match[1] not in within:  # else dropping the interaction comes first
            levels.setdefault(match[1], []).append(match[2])
    dropped += [factor for factor in levels if len(s._factors.get(factor, ())) == 2]
    merged = {factor: of for factor, of in levels.items() if factor not in (*dropped, *s.references)}
    ways = [_another_reference(*item) for item in s.references.items()]
    if s.family == "poisson" and s.limiting_rows.size and s.fitted_rows.size:
        ways.append(f"drop the {s.fitted_rows.size:,} rows outside limiting_rows")
    if (columns := list(dict.fromkeys(dropped))) and s.verdict == "separable" and len(columns) > 1:
        features = s.features.tolist() if s.family == "binomial" else []  # the most important first
        main = list(dict.fromkeys(_term(s, s.name(j)) for j in features))
        ways.append(f"drop columns that tell the classes apart ({listed(main or columns)})")
    elif columns:
        # Without the interaction the coefficients of its parts may be infinite.
        ways.append(f"drop {listed(columns)}{' and ask again' * bool(within)}")
    if merged:
        which = "another level" if sum(map(len, merged.values())) == 1 else "others"
        some = [f"level{'s' * (len(of) > 1)} {listed(of)} of {factor}" for factor, of in merged.items()]
        ways.append(f"merge {listed(some)} with {which}")
    return [*ways, "use Firth's penalty or a prior"]


def _another_reference(factor: str, levels: tuple[Any, Any]) -> str:
    """Return the advice on a factor whose reference level has one outcome alone."""
    reference, other = levels
    match = _PLAIN.fullmatch(factor)
    example = f", such as C({match[1] or match[2]}, Treatment({other!r}))" if match else ""
    return (
        f"take another reference level of {factor}{example}, since all are infinite relative to {reference}"
    )


def _level(s: Separability, part: str) -> re.Match[str] | None:
    """Return the factor and the level of a column, or of its part of an interaction; None for others."""
    match = _LEVEL.fullmatch(part)
    return match if match and ("[T." in part or match[1] in s._factors) else None


def _term(s: Separability, name: str) -> str:
    """Return the term of a column: ``drug`` for ``drug[T.b]``, ``drug:age`` for ``drug[T.b]:age``."""
    parts = [(part, _level(s, part)) for part in _COLON.split(name)]
    return ":".join(match[1] if match else part for part, match in parts)


def _are(names: Sequence[Name]) -> str:
    return "is" if len(names) == 1 else "are"


# Rows that make coefficients infinite ----------------------------------------------------------------------


class Involved(NamedTuple):
    """The observations that are involved in an infinite coefficient: how many, and the first of them."""

    total: int
    first: tuple[int, ...]


def rows_involved(model: ModelRows, separated: Indices, names: Sequence[Name]) -> dict[Name, Involved]:
    """Return for some coefficients the observations of separated rows whose column is not zero.

    This takes one pass over the separated rows.

    Examples
    --------
    >>> from prgd.regression.families import model_rows
    >>> model = model_rows([[0.0, 1.0], [0.0, 2.0], [1.0, 2.0]], [0, 1, 1])
    >>> rows_involved(model, np.array([2]), ["x0", "(Intercept)"])
    {'x0': Involved(total=1, first=(2,)), '(Intercept)': Involved(total=1, first=(2,))}
    """
    if not names:
        return {}
    columns = dict(zip(model.names, model.columns.tolist(), strict=True))
    wanted = np.array([columns[name] for name in names])
    counts = np.zeros(wanted.size, np.int64)
    last = np.full(wanted.size, -1)  # the observation that was counted last, whose rows two blocks may share
    first: list[list[int]] = [[] for _ in names]
    for part, Z in model.rows.blocks(separated, as_stored=True):
        at, k = Z[:, wanted].nonzero()
        if model.observations is None:
            at = part[at]
        else:  # An observation may have several rows.
            at, k = np.divmod(np.unique(model.observations[part[at]] * wanted.size + k), wanted.size)
            at, k = at[fresh := at != last[k]], k[fresh]
            np.maximum.at(last, k, at)
        for j in [j for j, found in enumerate(first) if len(found) < KEPT]:
            first[j] += at[k == j][: KEPT - len(first[j])].tolist()
        counts += np.bincount(k, minlength=wanted.size)
    return {
        name: Involved(count, tuple(found))
        for name, count, found in zip(names, counts.tolist(), first, strict=True)
    }


def single_outcome_references(s: Separability) -> dict[str, tuple[Any, Any]]:
    """Return factors whose reference level has one outcome alone: that level, and another to take instead.

    All other levels, which must have columns of their own, are then infinite relative to the reference, in
    a binomial or Poisson model with an intercept. Another level of one outcome would be no better.
    """
    found: dict[str, tuple[Any, Any]] = {}
    if s.family not in ("binomial", "poisson") or not s.fit_intercept or not s.limiting_rows.size:
        return found
    certain = {rule.conditions[0] for rule in s.rules if len(rule.conditions) == 1}
    for factor, levels in s._factors.items():
        match = _PLAIN.fullmatch(factor)
        column = (match[1] or match[2]) if match else factor
        pure = [level for level in levels if Condition(column, "=", level) in certain]
        words = {level: s.coefficients.get(f"{factor}[T.{level}]") for level in levels}
        infinite = [level for level, word in words.items() if word is not None and word.is_infinite]
        references = [level for level in pure if words[level] is None]
        if references and len(infinite) == len(levels) - 1:
            found[factor] = references[0], min(infinite, key=pure.__contains__)
    return found
