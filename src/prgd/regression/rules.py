"""Rules: cells and ranges of the data in which separated rows have one outcome alone, in the user's words.

A rule is a conjunction of conditions on columns, such as "stage I and age > 61". It is stated only if all of
its rows that count are separated and have its outcome, so it is both true and a reason for the verdict.
If levels of factors alone separate a row, then all rows of its cell are separated alike, so some rule of
levels holds for it. Rules with thresholds are stated only if few of them explain all that levels do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prgd.core.types import Indices, Mask
from prgd.proofs.lifted_rows import spread
from prgd.regression.families import ModelRows
from prgd.regression.responses import column_of, read_design, response_names
from prgd.rows import Rows

if TYPE_CHECKING:
    from prgd.regression.result import Separability
    from prgd.regression.separability import Regression

_RELATIONS: Mapping[str, Any] = {"=": np.equal, ">": np.greater, "<=": np.less_equal}
_MAX_ENTRIES = 2**22  # entries of the columns beyond which no rule is looked for
_MAX_WORK = 5e8  # entries that a search reads before it stops, about half a second
_SEED_WORK = 20  # work that looking at a row takes for each entry of the columns, besides its search
_LENGTH = 3  # conditions of a rule with thresholds, at most
_CUTS = 16  # thresholds of a column on each side of a row that a search tries first, at most
_THRESHOLDS = 500  # thresholds of all columns together, unless there are more columns
_BEAM = 64  # conjunctions that a search extends by one more condition
_NUMBER_RULES = 4  # rules with thresholds that are stated about one outcome, at most


@dataclass(frozen=True)
class Condition:
    """A condition on a column: it equals a level, or is above or at most a number.

    Examples
    --------
    >>> str(Condition("stage", "=", "IV")), str(Condition("age", ">", 61.0))
    ('stage IV', 'age > 61')
    >>> Condition("age", ">", 61.0).holds({"age": [60, 61, 62]})
    array([False, False,  True])
    """

    column: str
    relation: str
    value: Any

    def holds(self, data: Any) -> Mask:
        """Return which rows meet it, of a data frame, a dict of columns or a matrix (columns x0, x1, ...)."""
        dtype = None if self.relation == "=" else np.float64  # The column's type might round a threshold.
        values = np.asarray(column_of(data, self.column), dtype)
        return np.asarray(_RELATIONS[self.relation](values, self.value), np.bool_)

    def __str__(self) -> str:
        value = str(self.value)
        own = value if isinstance(self.value, str) else f"{self.relation} {value.removesuffix('.0')}"
        return f"{self.column} {own}"


@dataclass(frozen=True, eq=False)
class Rule:
    """A true sentence about the data: all rows that meet some conditions have one outcome, and are separated.

    Attributes
    ----------
    conditions : tuple of Condition
    outcome : Condition
        The column of the response, ``=``, ``!=``, ``<=`` or ``>=``, and a class or 0. Of counts the column is
        that of the successes or failures of which there are none.
    rows : ndarray of int
        The rows that meet the conditions and count, from 0.
    hides_rows : bool
        Whether other rows meet the conditions too, but do not count since their weight is 0.

    Examples
    --------
    >>> print(Rule((Condition("drug", "=", "c"),), Condition("cured", "=", "1"), np.arange(8)))
    all 8 rows with drug c have cured 1
    """

    conditions: tuple[Condition, ...]
    outcome: Condition
    rows: Indices
    hides_rows: bool = False

    def holds(self, data: Any) -> Mask:
        """Return which rows of the data meet all conditions; the data are as for `Condition.holds`."""
        return np.asarray(np.all([condition.holds(data) for condition in self.conditions], axis=0), np.bool_)

    def __str__(self) -> str:
        column, relation, value = self.outcome.column, self.outcome.relation, self.outcome.value
        what = f"{column} {value}" if relation in ("=", "!=") else f"{column} {relation} {value}"
        where = f"{' of positive weight' * self.hides_rows} with {' and '.join(map(str, self.conditions))}"
        is_never, count = relation == "!=", self.rows.size
        if count == 1:
            return f"the only row{where} {'does not have' if is_never else 'has'} {what}"
        return f"{f'none of the {count:,}' if is_never else f'all {count:,}'} rows{where} have {what}"


def find_rules(s: Separability) -> tuple[Rule, ...]:
    """Return rules that cover separated rows, those of most rows first; none if that takes too long."""
    regression, model = s._regression, s.model
    columns = _columns(regression, model) if regression and model and s.separated_rows.size else []
    if not columns or model is None:
        return ()
    n = columns[0].ranks.size
    observations = np.arange(n) if model.observations is None else model.observations
    counted = np.isin(np.arange(n), observations[model.rows.counted])
    search, explained = _Search(columns, n), np.zeros(n, np.bool_)
    found: list[Rule] = []
    for outcome, allowed, needed in _outcomes(s, model, observations, n, response_names(regression.y)):
        for conditions, at in search.cover(counted & ~allowed, needed & ~explained):
            rows, hidden = np.flatnonzero(at & counted), at & regression.is_given & ~counted
            found.append(Rule(conditions, outcome, rows, bool(hidden.any())))
            if outcome.relation == "=":  # Rows of one certain class need no sentence about other classes.
                explained |= at
    return tuple(sorted(found, key=lambda rule: -rule.rows.size)) if search.work > 0.0 else ()


def _outcomes(
    s: Separability, model: ModelRows, observations: Indices, n: int, names: tuple[str, ...]
) -> Iterator[tuple[Condition, Mask, Mask]]:
    """Yield outcomes, the observations that a rule about each may cover, and those that it should."""

    def observed(rows: Mask) -> Mask:
        return np.isin(np.arange(n), observations[rows])

    is_separated = np.isin(np.arange(model.rows.n), s.separated_rows)
    if model.codes is None or model.family == "binomial":
        for k, sign in enumerate((-1, 1)):
            at = observed(is_separated & (model.rows.signs == sign))
            value = 0 if model.codes is None else model.classes[k]
            yield Condition(names[min(k, len(names) - 1)], "=", value), at, at
        return
    codes, kept = model.codes, observed(~is_separated)
    for k, label in enumerate(model.classes):
        at = observed(is_separated) & ~kept & (codes == k)
        yield Condition(names[0], "=", label), at, at
    if model.rivals is not None:
        for k, label in enumerate(model.classes):
            at = observed(is_separated & (model.rivals == k))
            yield Condition(names[0], "!=", label), at, at
        return
    # An observation of an inner class has two rows: one against higher classes, and one against lower ones.
    is_second = np.diff(observations, prepend=-1) == 0
    for k in range(1, len(model.classes) - 1):
        for relation, others, side in (("<=", codes < k, ~is_second), (">=", codes > k, is_second)):
            at = observed(is_separated & side & (codes[observations] == k))
            yield Condition(names[0], relation, model.classes[k]), at | others, at


# The search for rules ---------------------------------------------------------------------------------


class _Column(NamedTuple):
    """A column as the ranks of its values among the distinct ones, which are sorted if they are numbers."""

    name: str
    values: Sequence[Any]
    ranks: Indices
    is_number: bool


class _Literal(NamedTuple):
    """A condition on the ranks of a column, given by its place among the columns."""

    column: int
    relation: str
    rank: int


_Literals = tuple[_Literal, ...]


def _columns(regression: Regression, model: ModelRows) -> list[_Column]:
    """Return the columns that have more than one value, factors first; none if the data are too large."""
    X, frame = regression.X, regression.variables
    if isinstance(X, Rows) or hasattr(X, "cpu") or hasattr(regression.y, "cpu"):
        return []
    table = X if frame is None else frame
    if np.prod(getattr(table, "shape", None) or np.shape(table), dtype=float) > _MAX_ENTRIES:
        return []
    if frame is None:
        X = read_design(X)
        X = X if isinstance(X, np.ndarray) else X.toarray()
        given = zip(model.feature_names or [f"x{j}" for j in range(X.shape[1])], X.T, strict=True)
    else:
        given = zip(map(str, frame), [frame[name].to_numpy() for name in frame], strict=True)
    found = []
    for name, values in given:
        if is_number := values.dtype.kind in "iuf":
            distinct, ranks = np.unique(values, return_inverse=True)
        else:
            places = {value: k for k, value in enumerate(dict.fromkeys(values.tolist()))}
            distinct, ranks = np.array([*places], object), np.array([places[x] for x in values.tolist()])
        if distinct.size > 1:
            found.append(_Column(name, distinct.tolist(), ranks, is_number and distinct.size > 2))
    return sorted(found, key=lambda column: column.is_number)


class _Search:
    """A search for rules among columns; the work that is left bounds its time."""

    def __init__(self, columns: list[_Column], n: int) -> None:
        self.columns, self.n, self.work = columns, n, _MAX_WORK

    def cover(self, bad: Mask, needed: Mask) -> list[tuple[tuple[Condition, ...], Mask]]:
        """Return rules that hold for no bad row, and together for all needed ones if possible.

        Rules of levels come first. Those with thresholds are left out unless few of them cover all others.
        """
        left, has_all = needed.copy(), True
        found: list[tuple[_Literals, Mask]] = []
        while left.any() and self.work > 0.0:
            self.work -= _SEED_WORK * self.n * len(self.columns)
            seed = int(np.argmax(left))
            literals = self.around(seed, bad)
            levels = [literal for literal in literals if literal.relation == "="]
            is_pure = not (self.mask(levels) & bad).any()
            rule = self.best(levels if is_pure else literals, bad, needed) if is_pure or has_all else ()
            rule = self.loosened(rule, seed, bad)
            left &= ~self.mask(rule or levels)
            found += [(rule, self.mask(rule))] * bool(rule)
            has_all &= bool(rule) and sum(map(_has_threshold, found)) <= _NUMBER_RULES
        if not has_all or left.any():
            found = [item for item in found if not _has_threshold(item)]
        count = np.sum([at for _, at in found], axis=0)
        for item in sorted(found, key=lambda item: item[1].sum()):
            if (count[item[1] & needed] > 1).all():  # Other rules cover these rows too.
                count, found = count - item[1], [other for other in found if other is not item]
        return [(tuple(map(self.condition, sorted(rule))), at) for rule, at in found]

    def mask(self, rule: Sequence[_Literal]) -> Mask:
        """Return the rows that meet all conditions of a rule."""
        found = np.ones(self.n, np.bool_)
        for j, relation, rank in rule:
            found &= _RELATIONS[relation](self.columns[j].ranks, rank)
        return found

    def around(self, seed: int, bad: Mask) -> list[_Literal]:
        """Return the conditions that a row meets, with some of the thresholds that exclude bad rows."""
        found, count = [], max(2, min(_CUTS, _THRESHOLDS // len(self.columns)))
        for j, column in enumerate(self.columns):
            own = int(column.ranks[seed])
            if not column.is_number:
                found.append(_Literal(j, "=", own))
                continue
            ranks = np.unique(column.ranks[bad])
            for relation, cuts in ((">", ranks[ranks < own]), ("<=", ranks[ranks > own] - 1)):
                found += [_Literal(j, relation, rank) for rank in spread(cuts, count).tolist()]
        return found

    def best(self, literals: list[_Literal], bad: Mask, needed: Mask) -> _Literals:
        """Return the conjunction without bad rows that has most needed rows; empty if none is found.

        Of levels it is one of the shortest. With thresholds a longer one must have more rows than every
        shorter one. A beam search extends the conjunctions whose fraction of needed rows is largest.
        """
        masks = np.array([self.mask([literal]) for literal in literals]).reshape(-1, self.n)
        wrong, right = (masks[:, at].astype(np.float32) for at in (bad, needed))
        is_levels = all(literal.relation == "=" for literal in literals)
        bases: list[tuple[int, ...]] = [()]
        best, most = bases[0], 0.0
        for _ in range(len(literals) if is_levels else _LENGTH):
            self.work -= len(bases) * masks.size
            if not bases or self.work < 0.0 or (best and is_levels):
                break
            bads, goods = (
                np.array([at[list(base)].prod(axis=0) for base in bases]) @ at.T for at in (wrong, right)
            )
            pure = np.where(bads == 0.0, goods, 0.0)
            if (largest := float(pure.max(initial=0.0))) > most:
                base, k = divmod(int(pure.argmax()), len(literals))
                best, most = (*bases[base], k), largest
            score = (goods + 1.0) / (goods + bads + 2.0)
            order = [divmod(k, len(literals)) for k in np.argsort(-score, axis=None, kind="stable").tolist()]
            longer = [tuple(sorted((*bases[base], k))) for base, k in order if k not in bases[base]]
            bases = list(dict.fromkeys(longer))[:_BEAM]
        return tuple(literals[k] for k in best)

    def loosened(self, rule: _Literals, seed: int, bad: Mask) -> _Literals:
        """Return a rule whose thresholds are as far from a row as bad rows allow; some are not needed."""
        for literal in [literal for literal in rule if literal.relation != "="]:
            ranks, others = self.columns[literal.column].ranks, tuple(x for x in rule if x is not literal)
            near = ranks[bad & self.mask(others)]
            if literal.relation == ">":
                cut = int(near[near < ranks[seed]].max(initial=-1))
            else:
                cut = int(near[near > ranks[seed]].min(initial=self.n)) - 1
            rule = (*others, literal._replace(rank=cut)) if 0 <= cut < self.n - 1 else others
        return rule

    def condition(self, literal: _Literal) -> Condition:
        """Return a condition on ranks as one on values."""
        name, values, _, is_number = self.columns[literal.column]
        low, *high = values[literal.rank : literal.rank + 2]
        return Condition(name, literal.relation, short_number(low, *high) if is_number else low)


def _has_threshold(item: tuple[_Literals, Mask]) -> bool:
    return any(literal.relation != "=" for literal in item[0])


def short_number(low: float, high: float) -> float:
    """Return a number with few digits that is at least ``low`` and below ``high``.

    Examples
    --------
    >>> short_number(61.0, 62.0), short_number(2.1374, 2.318), short_number(-3.5, 5.0)
    (61.0, 2.2, 0.0)
    """
    exact = Decimal(low)
    largest = max(exact.copy_abs(), Decimal(high).copy_abs()).adjusted()
    for place in range(largest + 1, largest - 17, -1):
        number = float(exact.quantize(Decimal(1).scaleb(place), ROUND_CEILING))
        if low <= number < high:
            return number + 0.0  # no negative zero
    return low
