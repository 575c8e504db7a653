"""Exact answers for small problems of two classes, in integers and fractions alone; nothing of prgd is used.

With z_i = y_i x_i (and a last entry y_i if there is an intercept), `solve` returns the verdict and the square
of gamma_star, the largest ``min_i y_i (<w, x_i> + b)`` over unit w:

- a positive gamma_star is the distance of the origin to the hull of the z_i, or half of the distance of the
  two classes' hulls, found by Wolfe's method in exact arithmetic and verified by its optimality conditions;
- the verdict on data that no hyperplane separates strictly comes from a linear program (Stiemke), solved by
  the simplex method on integers with Bland's rule;
- a negative gamma_star is -1 / max ||w|| over ``Z v >= -1``, by enumeration of the vertices, when asked for.

Every number of the data is a dyadic rational, so one power of two turns all of them into integers.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations

import numpy as np

MAX_SUBSETS = 10_000  # sets of rows that are tried for a vertex, at about 50 microseconds each
SEPARABLE, QUASI_SEPARABLE, NOT_SEPARABLE = "separable", "quasi-separable", "not separable"
# By the names of the statuses that state them.
VERDICTS = {"CERTIFIED": SEPARABLE, "QUASI_SEPARABLE": QUASI_SEPARABLE, "NOT_SEPARABLE": NOT_SEPARABLE}


def exact_matrix(X) -> list[list[Fraction]]:
    """Return the numbers of an array, sparse matrix or nested list, exactly as they are."""
    if hasattr(X, "tocoo"):  # Entries that are stored in parts are the exact sums of these.
        stored, exact = X.tocoo(), [[Fraction(0)] * X.shape[1] for _ in range(X.shape[0])]
        for i, j, value in zip(stored.row, stored.col, stored.data.tolist(), strict=True):
            exact[i][j] += Fraction(value)
        return exact
    if isinstance(X, np.ndarray):
        X = X.astype(np.float64).tolist() if X.dtype == np.float16 else X.tolist()
    return [[Fraction(value) for value in row] for row in X]


def to_integers(matrix: list[list[Fraction]]) -> tuple[list[list[int]], int]:
    """Return integers and the power e such that ``matrix = integers * 2^e``; e is as large as it can be."""
    values = [value for row in matrix for value in row]
    denominator = max((value.denominator for value in values), default=1)
    integers = [[value.numerator * (denominator // value.denominator) for value in row] for row in matrix]
    twos = common_twos(value for row in integers for value in row)
    return [[value >> twos for value in row] for row in integers], twos - denominator.bit_length() + 1


def common_twos(values) -> int:
    """Return the largest k such that 2^k divides all values."""
    common = reduce(int.__or__, values, 0)
    return (common & -common).bit_length() - 1 if common else 0


def dot(a: list[int], b: list[int]) -> int:
    return sum(map(int.__mul__, a, b))


def eliminate(matrix: list[list[int]], columns: int) -> tuple[int, int]:
    """Bring the first columns of an integer matrix to a multiple of the identity, in place, by Bareiss.

    Returns
    -------
    rank : int
    pivot : int
        The value on the diagonal of the first ``rank`` rows, if these columns are independent.
    """
    rank, previous = 0, 1
    for column in range(columns):
        chosen = next((i for i in range(rank, len(matrix)) if matrix[i][column]), None)
        if chosen is None:
            continue
        matrix[rank], matrix[chosen] = matrix[chosen], matrix[rank]
        row = matrix[rank]
        pivot = row[column]
        for i, other in enumerate(matrix):
            if i != rank:
                factor = other[column]
                matrix[i] = [(pivot * a - factor * b) // previous for a, b in zip(other, row, strict=True)]
        rank, previous = rank + 1, pivot
    return rank, previous


def solve_square(matrix: list[list[int]], right: list[int]) -> tuple[list[int], int] | None:
    """Return integers x and a positive q with ``matrix @ x = q right``; None if the matrix is singular."""
    size = len(matrix)
    augmented = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    rank, pivot = eliminate(augmented, size)
    if rank < size:
        return None
    sign = 1 if pivot > 0 else -1
    return [sign * row[-1] for row in augmented], abs(pivot)


def rank_of(matrix: list[list[int]]) -> int:
    return eliminate([list(row) for row in matrix], len(matrix[0]))[0]


class Hull:
    """The hull of some integer points, or the difference of two hulls, seen through inner products.

    A vertex is a tuple: one point (its index), or the difference of a point of the first group and one of
    the second.
    """

    def __init__(self, points: list[list[int]], groups: list[list[int]]) -> None:
        self.points, self.groups = points, groups

    def vertex(self, name: tuple[int, ...]) -> list[int]:
        if len(name) == 1:
            return self.points[name[0]]
        return [a - b for a, b in zip(self.points[name[0]], self.points[name[1]], strict=True)]

    def lowest(self, u: list[int]) -> tuple[int, ...]:
        """Return the vertex of smallest inner product with u."""
        along = [dot(u, point) for point in self.points]
        first = min(self.groups[0], key=along.__getitem__)
        if len(self.groups) == 1:
            return (first,)
        return first, max(self.groups[1], key=along.__getitem__)


def affine_minimum(vertices: list[list[int]]) -> tuple[list[int], int]:
    """Return weights of sum q > 0, and q: their mean is the affine hull's point nearest to the origin."""
    base, others = vertices[0], vertices[1:]
    if not others:
        return [1], 1
    steps = [[a - b for a, b in zip(other, base, strict=True)] for other in others]
    gram = [[dot(a, b) for b in steps] for a in steps]
    solved = solve_square(gram, [-dot(step, base) for step in steps])
    if solved is None:
        raise AssertionError("the vertices of a corral are affinely independent")
    weights, q = solved
    return [q - sum(weights), *weights], q


def combine(weights: list[int], vertices: list[list[int]]) -> list[int]:
    return [dot(weights, column) for column in zip(*vertices, strict=True)]


def nearest_point(hull: Hull) -> tuple[dict[tuple[int, ...], int], list[int], int]:
    """Return the point of a hull nearest to the origin, by Wolfe's method in exact arithmetic.

    Returns
    -------
    weights : dict
        The positive weight of each vertex, as an integer of sum q.
    u, q : list of int, int
        The point is ``u / q``; `is_nearest` holds for it.
    """
    start = tuple(group[0] for group in hull.groups)
    names, weights, q = [start], [1], 1  # the point is sum weights vertex / q
    while True:
        u = combine(weights, [hull.vertex(name) for name in names])
        entering = hull.lowest(u)
        # <u / q, vertex> < ||u / q||^2, multiplied by q^2
        if q * dot(u, hull.vertex(entering)) >= dot(u, u):
            return {name: w for name, w in zip(names, weights, strict=True) if w > 0}, u, q
        names, weights = [*names, entering], [*weights, 0]
        while True:
            vertices = [hull.vertex(name) for name in names]
            target, size = affine_minimum(vertices)
            if all(value > 0 for value in target):
                weights, q = target, size
                break
            # Move from weights / q towards target / size until a weight vanishes, and drop that vertex.
            theta = min(
                (
                    Fraction(w * size, w * size - t * q)
                    for w, t in zip(weights, target, strict=True)
                    if t <= 0 and w * size - t * q > 0
                ),
                default=Fraction(0),
            )
            a, b = theta.numerator, theta.denominator
            moved = [(b - a) * w * size + a * t * q for w, t in zip(weights, target, strict=True)]
            kept = [k for k, value in enumerate(moved) if value > 0]
            names, weights = [names[k] for k in kept], [moved[k] for k in kept]
            q = sum(weights)
            shared = math.gcd(q, *weights)
            weights, q = [value // shared for value in weights], q // shared


def is_nearest(hull: Hull, weights: dict[tuple[int, ...], int], u: list[int], q: int) -> bool:
    """Whether u / q is the hull's point nearest to 0: its weights give it, and no vertex is lower."""
    values = list(weights.values())
    along = [[dot(u, hull.points[i]) for i in group] for group in hull.groups] + [[]]
    return (
        min(values) > 0
        and sum(values) == q
        and combine(values, [hull.vertex(name) for name in weights]) == u
        and q * (min(along[0]) - max(along[1], default=0)) >= dot(u, u)
    )


def nonnegative_solution(matrix: list[list[int]], right: list[int]) -> list[Fraction] | None:
    """Return some x >= 0 with ``matrix @ x = right``, or None: phase 1 of the simplex method on integers.

    Bland's rule (the smallest index enters, ties leave by the smallest index) cannot cycle.
    """
    rows, columns = len(matrix), len(matrix[0])
    tableau = []
    for row, value in zip(matrix, right, strict=True):
        sign = -1 if value < 0 else 1
        tableau.append([*(sign * entry for entry in row), sign * value])
    # The artificial variable of row i has index columns + i; its column is never needed again.
    basis = [columns + i for i in range(rows)]
    cost = [-sum(row[j] for row in tableau) for j in range(columns + 1)]
    pivot = 1  # all entries of the tableau are divided by it
    while cost[-1] < 0:
        entering = next((j for j in range(columns) if cost[j] < 0 and j not in basis), None)
        if entering is None:
            return None
        leaving = None
        for i, row in enumerate(tableau):
            if row[entering] > 0:
                if leaving is None:
                    leaving = i
                    continue
                best = tableau[leaving]
                compared = row[-1] * best[entering] - best[-1] * row[entering]
                if compared < 0 or (compared == 0 and basis[i] < basis[leaving]):
                    leaving = i
        if leaving is None:
            raise AssertionError("the cost of phase 1 is bounded")
        chosen, element = tableau[leaving], tableau[leaving][entering]
        for i, row in enumerate(tableau):
            if i != leaving:
                factor = row[entering]
                tableau[i] = [(element * a - factor * b) // pivot for a, b in zip(row, chosen, strict=True)]
        factor = cost[entering]
        cost = [(element * a - factor * b) // pivot for a, b in zip(cost, chosen, strict=True)]
        pivot, basis[leaving] = element, entering
    x = [Fraction(0)] * columns
    for i, j in enumerate(basis):
        if j < columns:
            x[j] = Fraction(tableau[i][-1], pivot)
    return x


def gordan_weights(Z: list[list[int]]) -> list[Fraction] | None:
    """Return p >= 0 of sum 1 with ``Z^T p = 0``, or None if some v has ``Z v > 0`` (Gordan)."""
    columns = [list(column) for column in zip(*Z, strict=True)]
    return nonnegative_solution([*columns, [1] * len(Z)], [0] * len(columns) + [1])


def stiemke_weights(Z: list[list[int]]) -> list[Fraction] | None:
    """Return p > 0 with ``Z^T p = 0``, or None if some v has ``Z v >= 0`` and ``Z v != 0`` (Stiemke)."""
    columns = [list(column) for column in zip(*Z, strict=True)]
    q = nonnegative_solution(columns, [-sum(column) for column in columns])
    return None if q is None else [value + 1 for value in q]


def reduced(Z: list[list[int]]) -> list[list[int]]:
    """Return Z with the common power of two of each column taken out; signs of Zv do not change."""
    twos = [common_twos(column) for column in zip(*Z, strict=True)]
    return [[value >> k for value, k in zip(row, twos, strict=True)] for row in Z]


@dataclass(frozen=True)
class Exact:
    """The exact answer for one problem.

    Attributes
    ----------
    verdict : str
        "separable", "quasi-separable" or "not separable".
    """

    verdict: str
    signs: list[int]
    points: list[list[int]]  # the rows as integers times 2^power; with an intercept one row is subtracted
    power: int
    fit_intercept: bool
    positive_square: Fraction  # the square of gamma_star if that is positive, else 0
    base: list[Fraction]  # the row that is subtracted; zeros without an intercept
    direction: list[int]  # a multiple of w_star, which is unique if the classes separate; else zeros

    @cached_property
    def sign(self) -> int:
        """The sign of gamma_star."""
        if self.verdict == SEPARABLE:
            return 1
        # gamma_star is 0 if some w != 0 has no row on its wrong side: quasi-separable, or all rows on it.
        if self.verdict == QUASI_SEPARABLE:
            return 0
        return 0 if rank_of(self.points) < len(self.points[0]) else -1

    @cached_property
    def signed_square(self) -> Fraction:
        """``gamma_star |gamma_star|``; for negative gamma_star by enumeration, which takes a while."""
        return self.positive_square if self.sign >= 0 else -self._negative_square()

    @property
    def _can_enumerate(self) -> bool:
        return math.comb(len(self.points), len(self.points[0]) + self.fit_intercept) <= MAX_SUBSETS

    def _negative_square(self) -> Fraction:
        """Return gamma_star^2 = 1 / max ||w||^2 over the vertices of ``y_i (<w, x_i> + b) >= -1``."""
        rows = [
            [s * value for value in point] + ([s] if self.fit_intercept else [])
            for s, point in zip(self.signs, self.points, strict=True)
        ]
        d, largest = len(self.points[0]), Fraction(0)
        rows = [list(row) for row in sorted({tuple(row) for row in rows})]
        for subset in combinations(rows, len(rows[0])):
            solved = solve_square([list(row) for row in subset], [-1] * len(rows[0]))
            if solved is None:
                continue
            v, q = solved
            if all(dot(row, v) >= -q for row in rows):
                largest = max(largest, Fraction(sum(value * value for value in v[:d]), q * q))
        return _scaled(1 / largest, 2 * self.power)

    def margin_square(self, w, intercept=None) -> Fraction:
        """Return ``m |m|`` for the exact margin m of a hyperplane, at its best intercept unless one is given.

        The margin of any hyperplane is at most gamma_star, so this is a cheap proof of a lower bound.
        """
        vector = [Fraction(value) if isinstance(value, Fraction) else Fraction(float(value)) for value in w]
        scale = math.lcm(*(value.denominator for value in vector))
        integers = [int(value * scale) for value in vector]
        if not any(integers):
            raise ValueError("the margin of w = 0 is not defined")
        along = [dot(integers, point) for point in self.points]
        if self.fit_intercept and intercept is None:
            plus = min(a for a, s in zip(along, self.signs, strict=True) if s > 0)
            minus = max(a for a, s in zip(along, self.signs, strict=True) if s < 0)
            margin = Fraction(plus - minus, 2)
        else:
            moved = sum((a * b for a, b in zip(vector, self.base, strict=True)), Fraction(intercept or 0))
            shift = _scaled(moved * scale, -self.power)
            margin = min(s * (a + shift) for a, s in zip(along, self.signs, strict=True))
        return _scaled(margin * abs(margin) / sum(value * value for value in integers), 2 * self.power)

    def is_cosine(self, bound: float, w) -> bool:
        """Whether the cosine between w and w_star is at least ``bound``, exactly; the classes separate."""
        vector = [Fraction(value) if isinstance(value, Fraction) else Fraction(float(value)) for value in w]
        along = sum((a * b for a, b in zip(vector, self.direction, strict=True)), Fraction(0))
        lengths = sum(a * a for a in vector) * dot(self.direction, self.direction)
        return _signed_square(bound) * lengths <= along * abs(along)

    def weights_square(self, indices, weights) -> Fraction:
        """Return ``||Z^T p||^2`` for weights p, divided by their exact sums (1/2 in each class).

        Every such number is at least gamma_star^2, so this is a proof of an upper bound.
        """
        vector = [Fraction(value) if isinstance(value, int) else Fraction(float(value)) for value in weights]
        if min(vector) < 0:
            raise ValueError("the weights must not be negative")
        sides = (1, -1) if self.fit_intercept else (0,)
        total = [Fraction(0)] * len(self.points[0])
        for side in sides:
            pairs = zip(indices, vector, strict=True)
            chosen = [(i, p) for i, p in pairs if not side or self.signs[i] == side]
            mass = sum(p for _, p in chosen) * len(sides)
            for j in range(len(total)):
                total[j] += sum(p * self.signs[i] * self.points[i][j] for i, p in chosen) / mass
        return _scaled(sum((value * value for value in total), Fraction(0)), 2 * self.power)

    @cached_property
    def easy_square(self) -> Fraction:
        """The largest signed squared margin of the coordinate axes: a lower bound of ``signed_square``."""
        d = len(self.points[0])
        axes = [[float(s * (j == k)) for j in range(d)] for k in range(d) for s in (1, -1)]
        return max(self.margin_square(axis) for axis in axes)

    def is_at_most(self, lower: float, w=None) -> bool:
        """Whether ``lower <= gamma_star``; a hyperplane w that proves it saves time.

        Of a problem with too many vertices to enumerate, a negative bound that w does not prove counts as
        true: it cannot be refuted.
        """
        if self.sign >= 0 or lower == -math.inf:
            return is_at_most(lower, self.positive_square)
        if lower >= 0.0 or math.isnan(lower):
            return False
        if is_at_most(lower, self.easy_square):
            return True
        if w is not None and np.any(w) and is_at_most(lower, self.margin_square(w)):
            return True
        return not self._can_enumerate or is_at_most(lower, self.signed_square)

    def is_at_least(self, upper: float) -> bool:
        """Whether ``upper >= gamma_star``."""
        if self.sign < 0 and (upper >= 0.0 or not self._can_enumerate):
            return upper >= 0.0
        return is_at_least(upper, self.signed_square)

    @property
    def gamma_star(self) -> float:
        """gamma_star to about 15 digits, for messages; NaN if there are too many vertices to enumerate."""
        if self.sign < 0 and not self._can_enumerate:
            return math.nan
        return signed_root(self.signed_square)


def root(value: Fraction) -> float:
    """Return the square root of a non-negative fraction, to about 60 bits before the last rounding."""
    if value == 0:
        return 0.0
    shift = 2 * max(0, 64 + (value.denominator.bit_length() - value.numerator.bit_length()) // 2 + 1)
    integer = math.isqrt((value.numerator << shift) // value.denominator)
    return float(Fraction(integer, 1 << (shift // 2)))


def signed_root(value: Fraction) -> float:
    """Return m of ``m |m|``, about as accurate as `root`."""
    return math.copysign(root(abs(value)), value)


def _scaled(value: Fraction, power: int) -> Fraction:
    return value * (1 << power) if power >= 0 else value / (1 << -power)


def _signed_square(value: float) -> Fraction:
    exact = Fraction(value)
    return exact * abs(exact)


def is_at_most(lower: float, gamma_star_squared: Fraction) -> bool:
    """Whether ``lower <= gamma_star``, exactly, for the signed square ``gamma_star |gamma_star|``."""
    if not math.isfinite(lower):
        return lower == -math.inf
    return _signed_square(lower) <= gamma_star_squared


def is_at_least(upper: float, gamma_star_squared: Fraction) -> bool:
    """Whether ``upper >= gamma_star``, exactly, for the signed square ``gamma_star |gamma_star|``."""
    if not math.isfinite(upper):
        return upper == math.inf
    return _signed_square(upper) >= gamma_star_squared


def solve(X, y, *, fit_intercept: bool) -> Exact:
    """Return the exact answer; the larger of the two labels is +1."""
    labels = list(y)
    positive = max(labels)
    signs = [1 if label == positive else -1 for label in labels]
    matrix = exact_matrix(X)
    points, power = to_integers(matrix)
    base = matrix[0] if fit_intercept else [Fraction(0)] * len(matrix[0])
    if fit_intercept:
        # A translation changes nothing, and leaves shorter integers of data far from the origin.
        points = [[a - b for a, b in zip(point, points[0], strict=True)] for point in points]
        points, more = to_integers([[Fraction(value) for value in point] for point in points])
        power += more
        groups = [[i for i, s in enumerate(signs) if s == side] for side in (1, -1)]
        hull = Hull(points, groups)
        lifted = [[s * value for value in point] + [s] for s, point in zip(signs, points, strict=True)]
    else:
        lifted = [[s * value for value in point] for s, point in zip(signs, points, strict=True)]
        hull = Hull(lifted, [list(range(len(points)))])
    weights, u, q = nearest_point(hull)
    if not is_nearest(hull, weights, u, q):
        raise AssertionError("Wolfe's method must end at the nearest point")
    if any(u):
        square = Fraction(dot(u, u), q * q * len(hull.groups) ** 2)
        return Exact(SEPARABLE, signs, points, power, fit_intercept, _scaled(square, 2 * power), base, u)
    verdict = QUASI_SEPARABLE if stiemke_weights(reduced(lifted)) is None else NOT_SEPARABLE
    return Exact(verdict, signs, points, power, fit_intercept, Fraction(0), base, u)
