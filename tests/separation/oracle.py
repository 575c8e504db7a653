"""Which coefficients of a small regression are infinite, in integers and fractions alone, without prgd.

The rows z_i of a model define the recession cone ``K = {v : z_i . v >= 0}`` of its log-likelihood, with v
zero in aliased columns, so that K is pointed. `solve` finds for every coefficient whether v_j takes a
positive and a negative value on K, and for every row whether ``z_i . v`` does. Each answer is a linear
program with zero right-hand sides, solved by the simplex method with Bland's rule, and is verified before it
counts: by a ray of K that takes the value, or by weights ``a >= 0`` whose sum ``sum_i a_i z_i`` bounds the
value by 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

INTERCEPT = "(Intercept)"


@dataclass(frozen=True)
class Design:
    """A small regression: X is exact, and y holds labels, counts, or pairs of successes and failures."""

    family: str
    X: tuple[tuple[int | Fraction, ...], ...]
    y: tuple
    fit_intercept: bool = True
    sample_weight: tuple[int, ...] | None = None
    note: str = ""

    @property
    def counted(self) -> list[int]:
        """The observations of positive weight."""
        weight = self.sample_weight
        return [i for i in range(len(self.X)) if weight is None or weight[i] > 0]


@dataclass(frozen=True)
class Cone:
    """The rows of a model's cone, their observations, and its columns in R's order."""

    names: tuple
    rows: tuple[tuple[int, ...], ...]
    observations: tuple[int, ...]
    aliased: dict[int, dict[int, Fraction]]  # an aliased column as a combination of kept ones

    @property
    def kept(self) -> list[int]:
        return [j for j in range(len(self.names)) if j not in self.aliased]


@dataclass(frozen=True)
class Answer:
    """The word for each coefficient, the boundary rows of the cone, and the limiting model's observations."""

    words: dict
    cone: Cone
    boundary: tuple[int, ...]
    limiting: tuple[int, ...]

    @property
    def verdict(self) -> str:
        if not self.boundary:
            return "separable"
        return "not separable" if len(self.boundary) == len(self.cone.rows) else "quasi-separable"


# ------------------------------------------------------------------------------------ the cone of each family


def cone(design: Design) -> Cone:
    """Build the rows of a design's cone and find its aliased columns."""
    return {"multinomial": _multinomial, "ordinal": _ordinal}.get(design.family, _counts)(design)


def _with_intercept(design: Design) -> tuple[list[str], dict[int, tuple[int, ...]]]:
    """Return the names of the columns of the model matrix, and its rows by observation."""
    names = [f"x{k}" for k in range(len(design.X[0]))]
    first = (1,) if design.fit_intercept else ()
    matrix = {i: first + tuple(design.X[i]) for i in design.counted}
    return [INTERCEPT] * design.fit_intercept + names, matrix


def _counts(design: Design) -> Cone:
    """Binomial and Poisson: a row x for successes or events, and -x for failures or, in Poisson, always."""
    names, matrix = _with_intercept(design)
    rows, observations = [], []
    for i, x in matrix.items():
        if isinstance(design.y[i], tuple):
            up, down = design.y[i]
        elif design.family == "poisson":
            up, down = design.y[i] > 0, True
        else:
            up, down = design.y[i] == max(design.y), design.y[i] != max(design.y)
        for count, sign in ((up, 1), (down, -1)):
            if count:
                rows.append(tuple(sign * value for value in x))
                observations.append(i)
    used = [matrix[i] for i in dict.fromkeys(observations)]
    return Cone(tuple(names), tuple(rows), tuple(observations), aliased_columns(used))


def _multinomial(design: Design) -> Cone:
    names, matrix = _with_intercept(design)
    classes = sorted({design.y[i] for i in matrix})
    width = len(names)
    rows, observations = [], []
    for i, x in matrix.items():
        for other in classes:
            if other == design.y[i]:
                continue
            row = [0] * (width * len(classes))
            own, wrong = classes.index(design.y[i]) * width, classes.index(other) * width
            row[own : own + width] = x
            row[wrong : wrong + width] = [-value for value in x]
            rows.append(tuple(row[width:]))  # the reference, the first class, has the coefficients 0
            observations.append(i)
    one = aliased_columns(list(matrix.values()))
    shifts = [k * width for k in range(len(classes) - 1)]
    aliased = {shift + j: {shift + c: f for c, f in one[j].items()} for shift in shifts for j in one}
    both = [(str(label), name) for label in classes[1:] for name in names]
    return Cone(tuple(both), tuple(rows), tuple(observations), aliased)


def _ordinal(design: Design) -> Cone:
    """Cumulative logit: ``P(y <= k) = F(alpha_k - x . beta)``, the thresholds first."""
    classes = sorted({design.y[i] for i in design.counted})
    last = len(classes) - 1
    rows, observations = [], []
    for i in design.counted:
        k = classes.index(design.y[i])
        for threshold, sign in ((k, 1), (k - 1, -1)):
            if 0 <= threshold < last:
                alpha = [sign * (threshold == m) for m in range(last)]
                rows.append((*alpha, *(-sign * value for value in design.X[i])))
                observations.append(i)
    # The thresholds take the place of an intercept; if x . beta = c, the thresholds are c too.
    one = aliased_columns([(1, *design.X[i]) for i in design.counted])
    aliased = {}
    for j, relation in one.items():
        beta = {last + c - 1: f for c, f in relation.items() if c}
        aliased[last + j - 1] = dict.fromkeys(range(last), -relation[0]) | beta if 0 in relation else beta
    names = [f"{a}|{b}" for a, b in pairwise(classes)]
    names += [f"x{k}" for k in range(len(design.X[0]))]
    return Cone(tuple(names), tuple(rows), tuple(observations), aliased)


def aliased_columns(matrix: Sequence[Sequence[int]]) -> dict[int, dict[int, Fraction]]:
    """Return the columns that depend on earlier ones, as combinations of the earlier independent ones."""
    independent: list[tuple[int, list[Fraction], dict[int, Fraction]]] = []  # reduced, and what it is made of
    aliased = {}
    for j in range(len(matrix[0])):
        column = [Fraction(row[j]) for row in matrix]
        made = {j: Fraction(1)}
        for pivot, other, parts in independent:
            if factor := column[pivot]:
                column = [a - factor * b for a, b in zip(column, other, strict=True)]
                for c, f in parts.items():
                    made[c] = made.get(c, Fraction(0)) - factor * f
        pivot = next((i for i, value in enumerate(column) if value), None)
        if pivot is None:
            aliased[j] = {c: -f for c, f in made.items() if f and c != j}
        else:
            top = column[pivot]
            independent.append((pivot, [a / top for a in column], {c: f / top for c, f in made.items()}))
    return aliased


# --------------------------------------------------------------------------------------- the linear programs


class Dictionary:
    """The slacks ``s_i = z_i . v`` and the entries of v as combinations of a basis of slacks.

    All right-hand sides are zero, so every basis is feasible, and one dictionary serves all linear programs.
    Entries are integers over the common denominator ``self.denominator > 0`` (Edmonds).
    """

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        """Start from rows of full column rank: every entry of v leaves the basis for a slack."""
        self.rows = rows
        self.n, self.d = len(rows), len(rows[0])
        self.table = [list(row) for row in rows]
        self.basic = list(range(self.n))  # the label of slack i is i, that of v_j is n + j
        self.free = [self.n + j for j in range(self.d)]  # the labels of the columns
        self.denominator = 1
        for c in range(self.d):
            r = next(r for r, row in enumerate(self.table) if row[c] and self.basic[r] < self.n)
            self.pivot(r, c)

    def pivot(self, r: int, c: int) -> None:
        top, old = self.table[r], self.denominator
        p = top[c]
        for i, row in enumerate(self.table):
            if i != r:
                factor = row[c]
                self.table[i] = [(a * p - factor * b) // old for a, b in zip(row, top, strict=True)]
                self.table[i][c] = factor
        self.table[r] = [-value for value in top]
        self.table[r][c] = old
        self.denominator = p
        if p < 0:
            self.table = [[-value for value in row] for row in self.table]
            self.denominator = -p
        self.basic[r], self.free[c] = self.free[c], self.basic[r]

    def maximise(self, label: int, sign: int) -> list[int] | None:
        """Return a v of K on which ``sign`` times the labelled variable is positive, or None, proven."""
        while True:
            if label in self.basic:
                target = [sign * value for value in self.table[self.basic.index(label)]]
            else:
                target = [sign * self.denominator * (name == label) for name in self.free]
            rising = [(self.free[c], c) for c, value in enumerate(target) if value > 0]
            if not rising:
                self._verify_bound(label, sign, target)
                return None
            c = min(rising)[1]
            falling = [
                (self.basic[r], r)
                for r, row in enumerate(self.table)
                if row[c] < 0 and self.basic[r] < self.n
            ]
            if not falling:
                at = {name: row[c] for name, row in zip(self.basic, self.table, strict=True)}
                v = [at[self.n + j] for j in range(self.d)]
                assert min(self.values(v)[: self.n]) >= 0
                assert sign * self.values(v)[label] > 0
                return v
            self.pivot(min(falling)[1], c)

    def values(self, v: Sequence[int]) -> list[int]:
        """Return all slacks and then all entries of v."""
        return [sum(map(int.__mul__, row, v)) for row in self.rows] + list(v)

    def _verify_bound(self, label: int, sign: int, target: list[int]) -> None:
        """Verify that the variable times sign is ``-sum_i a_i s_i`` with a >= 0."""
        total = [0] * self.d
        for name, value in zip(self.free, target, strict=True):
            assert value <= 0
            assert name < self.n
            total = [t + value * z for t, z in zip(total, self.rows[name], strict=True)]
        unit = self.rows[label] if label < self.n else [int(self.n + j == label) for j in range(self.d)]
        assert total == [sign * self.denominator * u for u in unit]


def solve(design: Design) -> Answer:
    """Return the word for each coefficient and the boundary rows."""
    facts = cone(design)
    kept = facts.kept
    words = {facts.names[j]: "aliased" for j in facts.aliased}
    # Columns times a positive number leave all signs as they are.
    scales = [math.lcm(*(Fraction(row[j]).denominator for row in facts.rows)) for j in kept]
    rows = [tuple(int(row[j] * scale) for j, scale in zip(kept, scales, strict=True)) for row in facts.rows]
    n = len(rows)
    signs: dict[int, set[int]] = {label: set() for label in range(n + len(kept))}
    if kept:
        dictionary = Dictionary(rows)
        for label, found in signs.items():
            for sign in (1, -1) if label >= n else (1,):
                if sign not in found and (v := dictionary.maximise(label, sign)) is not None:
                    for other, value in enumerate(dictionary.values(v)):
                        if value:
                            signs[other].add(1 if value > 0 else -1)
    names = {(): "finite", (1,): "+inf", (-1,): "-inf", (-1, 1): "either"}
    for k, j in enumerate(kept):
        words[facts.names[j]] = names[tuple(sorted(signs[n + k]))]
    boundary = tuple(i for i in range(n) if not signs[i])
    limiting = tuple(sorted({facts.observations[i] for i in boundary}))
    return Answer({name: words[name] for name in facts.names}, facts, boundary, limiting)


# -------------------------------------------------------------------------------------------------- witnesses


def check_witness(rows, boundary, kept, column: int, word: str, witness) -> str:
    """Return what is wrong with the witness of a coefficient's word, or an empty string.

    Parameters
    ----------
    rows : dict from int to a list of Fraction
        The rows z_i of the cone, by the numbers that ``witness.weights`` uses.
    boundary : set of int
        The rows on which every v of the cone is zero.
    kept : set of int
        The columns that are not aliased.
    column : int
        The column of the coefficient.
    witness
        An object with ``above``, ``below``, ``weights`` and ``relation``.
    """
    sought = {
        "finite": {"weights"},
        "+inf": {"above", "weights"},
        "-inf": {"below", "weights"},
        "either": {"above", "below"},
        "aliased": {"relation"},
    }[word]
    given = {part for part in ("above", "below", "weights", "relation") if getattr(witness, part) is not None}
    if given != sought:
        return f"a witness of {word} has {sorted(sought)}, this one {sorted(given)}"
    for part, sign in (("above", 1), ("below", -1)):
        if part in sought:
            v = [Fraction(value) for value in getattr(witness, part)]
            if len(v) != len(next(iter(rows.values()))) or any(v[j] for j in range(len(v)) if j not in kept):
                return f"{part} is not zero in the aliased columns"
            if any(sum(a * b for a, b in zip(row, v, strict=True)) < 0 for row in rows.values()):
                return f"{part} is not in the cone"
            if not sign * v[column] > 0:
                return f"{part} has the entry {v[column]}"
    if "weights" in sought:
        if not all(isinstance(a, (int, Fraction)) for a in witness.weights.values()):
            return "a weight is not exact"
        if not set(witness.weights) <= set(rows):
            return "a row that does not count has a weight"
        if any(a < 0 and i not in boundary for i, a in witness.weights.items()):
            return "a separated row has a negative weight"
        if word == "finite" and any(a and i not in boundary for i, a in witness.weights.items()):
            return "a separated row has a weight"
        unit = -1 if word == "-inf" else 1
        for j in kept:
            if sum(Fraction(a) * rows[i][j] for i, a in witness.weights.items()) != unit * (j == column):
                return f"the weights do not sum to the unit vector in column {j}"
    if "relation" in sought:
        if not set(witness.relation) <= set(kept) - {column}:
            return "the relation uses an aliased column"
        for row in rows.values():
            if sum(Fraction(f) * row[j] for j, f in witness.relation.items()) != row[column]:
                return "the relation does not hold"
    return ""
