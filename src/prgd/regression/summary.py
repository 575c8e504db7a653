"""How a verdict is shown: as text, as HTML in a notebook, as a data frame, and as facts for JSON."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from prgd.core.checks import plain
from prgd.core.errors import imported
from prgd.core.types import Indices
from prgd.proofs.hyperplanes import overlap_in_words
from prgd.proofs.pivots import combinations, pivot_columns
from prgd.regression.advice import advice, meaning, shown, sum_in_words
from prgd.regression.coefficients import Behaviour

if TYPE_CHECKING:
    from prgd.regression.advice import Involved
    from prgd.regression.families import Name
    from prgd.regression.result import Separability
    from prgd.regression.rules import Rule

_SHOWN = 5  # features or rows that the explanation lists
MAX_LINES = 20  # coefficients that text and HTML show
_WIDTH = 100  # characters of a line of sentences
_RULES = 4  # rules that text and HTML show
_RULE_WIDTH = 78  # characters of a line of a rule
_TERMS = 4  # terms of a relation that text and HTML show
_NUMBERS = ("0", "1"), ("-1", "1"), ("False", "True")  # classes whose event goes without saying
_KINDS = {
    "separable": "complete separation",
    "quasi-separable": "quasi-complete separation",
    "not separable": "no separation",
}
_NUMBERS_OF_PROOF = (
    *("limiting_rows", "coef", "intercept", "margin", "residual", "lower", "upper", "separated_rows"),
    *("boundary_rows", "features", "feature_names", "how"),
)
_HEADER = ("coefficient", "verdict", "rows involved")
_LEGEND = "either: infinite, and the data allow both signs; its sign at maximum margin is given."


class Entry(NamedTuple):
    """What is known about one coefficient.

    Attributes
    ----------
    name : name of the coefficient
    verdict : Behaviour
    involved : Involved or None
        Of an infinite coefficient the observations of separated rows in which its column is not zero.
    max_margin_sign : {"+", "-", "0"} or None
        Of an infinite coefficient whose sign the data do not determine the sign that it has in the
        maximum-margin direction.
    relation : dict from name to Fraction, or None
        Of an aliased column the other columns whose combination it is.
    """

    name: Name
    verdict: Behaviour
    involved: Involved | None = None
    max_margin_sign: str | None = None
    relation: dict[Name, Fraction] | None = None

    @property
    def remark(self) -> str:
        """The last cell of the table: rows, the sign of the margin direction, or the relation."""
        if self.verdict is Behaviour.ALIASED:
            terms = self.relation
            return "depends on others" if terms is None else f"= {sum_in_words(terms, _TERMS)}"
        words = "" if self.involved is None else _numbers(self.involved.total, self.involved.first)
        sign = [] if self.max_margin_sign is None else [f"maximum margin: {self.max_margin_sign}"]
        return "; ".join([words] * bool(words) + sign)


def lines(s: Separability, names: Sequence[Name] | None = None) -> list[Entry]:
    """Return what is known about some coefficients; by default about all, in the order of the model."""
    names = list(s.coefficients) if names is None else names
    terms = relations(s, names)
    return [
        Entry(name, s.coefficients[name], s.involved.get(name), s.max_margin_signs.get(name), terms.get(name))
        for name in names
    ]


def relations(
    s: Separability, names: Sequence[Name], limit: int | None = None
) -> dict[Name, dict[Name, Fraction]]:
    """Return the relations of the aliased ones of some coefficients, which take a pass each.

    Not more than ``limit`` are computed, and none if they are known already.
    """
    if (known := vars(s).get("relations")) is not None or s._evidence is None or s.model is None:
        return known or {}
    model = s.model
    aliased = {*[name for name in names if s.coefficients[name] is Behaviour.ALIASED][:limit]}
    pivots = pivot_columns(model.rows, model.columns) if aliased else None
    if pivots is None:
        return {}
    named = dict(zip(model.columns.tolist(), model.names, strict=True))
    columns = [j for j in s._evidence.aliased if named[j] in aliased]
    found = zip(columns, combinations(model.rows, pivots, columns), strict=True)
    return {named[j]: {named[c]: k for c, k in terms.items()} for j, terms in found if terms is not None}


def as_text(s: Separability) -> str:
    """Return the verdict, its proof in words, the table of the coefficients, and what to do next."""
    first, *rest = explanation(s)
    rules = _wrapped(rules_in_words(s), _RULE_WIDTH)
    sentences = [first, *rules, *rest, *(f"  Note: {note}" for note in s.notes)]
    if not s.coefficients:
        return "\n".join(_wrapped(sentences, _WIDTH))
    cells, hidden = _cells(s)
    widths = [max(len(row[k]) for row in (_HEADER, *cells)) for k in range(2)]
    rows = [f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}".rstrip() for row in (_HEADER, *cells)]
    legend = [_LEGEND] if any(row[1] == "either" for row in cells) else []
    return ruled(sentences, [*rows, *hidden], [*legend, *textwrap.wrap(advice(s), _WIDTH)], _WIDTH)


def _wrapped(sentences: Sequence[str], width: int) -> list[str]:
    style: Any = {"subsequent_indent": "    ", "break_long_words": False, "break_on_hyphens": False}
    return [line for sentence in sentences for line in textwrap.wrap(sentence, width, **style)]


def ruled(sentences: Sequence[str], rows: Sequence[str], last: Sequence[str], width: int) -> str:
    """Return sentences, a table between rules, whose first row is its head, and lines after it."""
    rule = "-" * max(map(len, rows))
    return "\n".join([*_wrapped(sentences, width), rule, rows[0], rule, *rows[1:], rule, *last])


def as_html(s: Separability) -> str:
    """Return the same as HTML, for notebooks with light or dark pages: colours are those of the page."""
    cells, hidden = _cells(s)
    first, *proof = explanation(s)
    table = html_table(_HEADER, cells, [mark(Behaviour(row[1])) for row in cells], hidden)
    legend = [_LEGEND] if any(row[1] == "either" for row in cells) else []
    last = [*rules_in_words(s), *legend, advice(s)] if cells else []
    return html_of(first, table, [*last, *(f"Note: {note}" for note in s.notes)], proof)


def html_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], marks: Sequence[str], more: Sequence[str] = ()
) -> str:
    """Return a table as HTML, each row with its mark, and lines below; nothing if there are no rows."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(
        f'<tr class="{mark}">' + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for mark, row in zip(marks, rows, strict=True)
    )
    below = "".join(f'<tr><td colspan="{len(head)}">{escape(line)}</td></tr>' for line in more)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}{below}</tbody></table>" if rows else ""


def html_of(first: str, table: str, sentences: Sequence[str], proof: Sequence[str] = ()) -> str:
    """Return the first sentence, a table, and what follows, in the style of all verdicts."""
    how = f"<details><summary>how it is proven</summary>{_paragraphs(proof)}</details>" if proof else ""
    head = f'<div class="prgd-separability">{_STYLE}<p><b>{escape(first)}</b></p>'
    return f"{head}{table}{_paragraphs(sentences)}{how}</div>"


def _paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{escape(line.strip())}</p>" for line in sentences if line)


_STYLE = """<style>
.prgd-separability {font-size: 0.95em; line-height: 1.4; max-width: 60em; overflow-wrap: anywhere}
.prgd-separability p {margin: 0.4em 0}
.prgd-separability table {border-collapse: collapse; margin: 0.6em 0; font-variant-numeric: tabular-nums}
.prgd-separability th, .prgd-separability td {text-align: left; padding: 0.2em 1em 0.2em 0.6em; border: 0;
 background: none; color: inherit; vertical-align: top; white-space: normal}
.prgd-separability thead tr {border-bottom: 1px solid currentColor; border-left: 4px solid transparent;
 background: none}
.prgd-separability tbody tr {border-left: 4px solid transparent; background: none}
.prgd-separability tbody tr.infinite {border-left-color: #d9601a}
.prgd-separability tbody tr.infinite td:nth-child(-n+2) {font-weight: bold}
.prgd-separability tbody tr.other {border-left-color: #8a8a8a; font-style: italic}
.prgd-separability summary {cursor: pointer}
</style>"""


def as_frame(s: Separability) -> Any:
    """Return one row for each coefficient as a pandas data frame."""
    table = [
        {
            **name_fields(line.name),
            "verdict": str(line.verdict),
            "max_margin_sign": line.max_margin_sign,
            "rows": 0 if line.involved is None else line.involved.total,
            "first_rows": () if line.involved is None else line.involved.first,
            "relation": None
            if line.relation is None
            else f"= {sum_in_words(line.relation, len(line.relation))}",
        }
        for line in lines(s)
    ]
    names = list(name_fields(next(iter(s.coefficients), "")))
    return frame_of(table, [*names, "verdict", "max_margin_sign", "rows", "first_rows", "relation"])


def frame_of(table: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """Return rows by the names of their columns as a pandas data frame."""
    return imported("pandas", "to_dataframe", "report").DataFrame(table, columns=columns)


def facts(s: Separability) -> dict[str, Any]:
    """Return the verdict, all coefficients and the proof for JSON; of the dual weights only those above 0."""
    weights: dict[str, Any] | None = None
    if s.dual_weights is not None:
        carried = np.flatnonzero(s.dual_weights)
        weights = {"rows": carried.tolist(), "values": s.dual_weights[carried].tolist()}
    found = {
        "verdict": str(s.verdict),
        **{name: getattr(s, name) for name in ("is_separable", "family", "classes", "fit_intercept")},
        "coefficients": [_line_facts(line) for line in lines(s)],
        "rules": [_rule_facts(rule) for rule in s.rules],
        "advice": advice(s),
        "notes": list(s.notes),
        "dual_weights": weights,
        **{name: getattr(s, name) for name in _NUMBERS_OF_PROOF},
    }
    return cast("dict[str, Any]", plain(found, lambda value: value if math.isfinite(value) else None))


def _line_facts(line: Entry) -> dict[str, Any]:
    """Return the facts on one coefficient, without those that its verdict does not have."""
    found: dict[str, Any] = {**name_fields(line.name), "verdict": str(line.verdict)}
    if line.involved is not None:
        found |= {"rows": line.involved.total, "first_rows": list(line.involved.first)}
    if line.max_margin_sign is not None:
        found["max_margin_sign"] = line.max_margin_sign
    if line.relation is not None:
        found["relation"] = [{**name_fields(name), "times": str(k)} for name, k in line.relation.items()]
    return found


def _rule_facts(rule: Rule) -> dict[str, Any]:
    facts = asdict(rule)
    for condition in facts["conditions"]:  # Levels may be intervals or dates.
        if not isinstance(condition["value"], str | float | int):
            condition["value"] = str(condition["value"])
    return {"text": str(rule), **facts, "rows": rule.rows.tolist()}


def name_fields(name: Name) -> dict[str, str]:
    """Return a name as columns of a table."""
    return {"name": name} if isinstance(name, str) else {"class": name[0], "name": name[1]}


def _cells(s: Separability) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return the cells of the table, and a line on coefficients that are left out, if there are many.

    A long table has infinite coefficients first, and finite ones last.
    """
    names, words = list(s.coefficients), s.coefficients
    if len(names) > MAX_LINES:
        names.sort(key=lambda name: (not words[name].is_infinite, words[name] is Behaviour.FINITE))
    left_out = Counter(str(words[name]) for name in names[MAX_LINES:])
    more = ", ".join(f"{count:,} {word}" for word, count in left_out.items())
    note = [f"and {left_out.total():,} more ({more}): to_dataframe() has all"] if left_out else []
    table = lines(s, names[:MAX_LINES])
    return [(shown(line.name), str(line.verdict), line.remark) for line in table], note


def mark(verdict: Behaviour) -> str:
    """Return the class of a row of the table in HTML."""
    return "infinite" if verdict.is_infinite else "finite" if verdict is Behaviour.FINITE else "other"


def _numbers(count: int, first: tuple[int, ...]) -> str:
    """Return how many rows there are, and the numbers of the first ones, counting from 0."""
    listed = ", ".join(map(str, first)) + (", ..." if count > len(first) else "")
    return f"{count:,} (number{'s' * (count != 1)} {listed})" if count else "0"


def _some(rows: Indices) -> str:
    return _numbers(rows.size, tuple(rows[:_SHOWN].tolist()))


# The first sentences ----------------------------------------------------------------------------------


def explanation(s: Separability) -> list[str]:
    """Return the verdict, what it means for the estimates and what it rests on, a sentence after the other.

    The estimates come first, since they are what the user of a regression asks about.
    """
    words, (first, *rest) = meaning(s), (_of_labels if s.family == "binomial" else _of_observations)(s)
    kind = _KINDS.get(s.verdict.value)
    if words and kind is not None:
        rest = [f"  {kind}: {first.partition(': ')[2]}", *rest]
        first = f"{s.verdict.value}: {words}"
    elif words:
        rest.append(f"  {words}")
    return [first, *_event(s), *rest, f"  {s.how}"]


def rules_in_words(s: Separability) -> list[str]:
    """Return the first rules as sentences, and how many there are if some are left out."""
    left_out = [f"found.rules has all {len(s.rules)} sentences like these"] * (len(s.rules) > _RULES)
    return [f"  {sentence}." for sentence in [*map(str, s.rules[:_RULES]), *left_out]]


def _event(s: Separability) -> list[str]:
    """Return what the signs of the coefficients are about, unless classes are numbers or truth values."""
    if s.family == "multinomial" and s.classes:
        return [f"  coefficients compare each class with {s.classes[0]}, the first one."]
    if s.family == "binomial" and len(s.classes) == 2 and s.classes not in _NUMBERS:
        return [f"  the event is {s.classes[1]}, against {s.classes[0]}: a coefficient of +inf is for it."]
    return []


def _of_labels(s: Separability) -> list[str]:
    """Explain the verdict on two classes by a hyperplane."""
    separated, boundary = s.fitted_rows, s.limiting_rows if s.coefficients else s.boundary_rows
    n = separated.size + boundary.size
    kind = "hyperplane" if s.fit_intercept else "hyperplane through the origin"
    support = 0 if s.dual_weights is None else int(np.count_nonzero(s.dual_weights))
    weighted = (
        f"  proof: {overlap_in_words(support, s.fit_intercept)} "
        f"(rounded to float64 they miss by {s.residual:.1e}; exact ones are proven to exist)."
    )
    if s.verdict == "separable":
        return [
            f"separable: a {kind} has each of the {n} rows strictly on its correct side.",
            f"  its margin is {s.margin:.6g}; for the maximum margin, at most {s.upper:.6g}, ask "
            "prgd.max_margin or prgd fit.",
            f"  the hyperplane uses {_features(s)}.",
        ]
    if s.verdict == "quasi-separable":
        return [
            f"quasi-separable: a {kind} has no row on its wrong side, but each such one passes through rows.",
            f"  rows strictly on their correct side: {_some(separated)}; "
            f"on the hyperplane: {_some(boundary)}.",
            f"  the hyperplane uses {_features(s)}.",
        ]
    if s.verdict == "not separable":
        return [
            f"not separable: every {kind} has rows on its wrong side, unless all rows lie on it.",
            weighted,
        ]
    if s.dual_weights is not None:
        return [
            f"undecided: no {kind} separates the classes strictly, which is proven; whether one has no row "
            "on its wrong side (quasi-separable) is not known.",
            weighted,
        ]
    return [
        f"undecided: found neither a {kind} that separates the classes nor a proof that there is none.",
        f"  the maximum margin lies between {s.lower:.3g} and {s.upper:.3g}.",
    ]


def _of_observations(s: Separability) -> list[str]:
    """Explain the verdict on other responses by the likelihood."""
    if s.verdict == "separable":
        return ["separable: along some direction of the coefficients every row is fitted perfectly."]
    if s.verdict == "quasi-separable":
        return [
            "quasi-separable: along some direction of the coefficients the likelihood never stops growing.",
            f"  rows that are fitted perfectly in the limit: {_some(s.fitted_rows)}; "
            f"others (limiting_rows): {_some(s.limiting_rows)}.",
        ]
    if s.verdict == "not separable":
        return ["not separable: the likelihood falls in every direction that changes a fitted value."]
    return ["undecided: it is not known whether the likelihood grows for ever in some direction."]


def _features(s: Separability) -> str:
    """Return the names of the most important features with their coefficients."""
    coef = np.empty(0) if s.coef is None else s.coef
    some = ", ".join(f"{s.name(j)} ({coef[j]:+.3g})" for j in s.features[:_SHOWN].tolist())
    return some if s.features.size <= _SHOWN else f"{s.features.size} features, mainly {some}"
