"""Can a hyperplane separate the two classes? A verdict with its proof, or none.

Quick looks, an iterative method, linear programming and exact arithmetic propose; `proofs` decides.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd.algorithms import DualAcceleration
from prgd.errors import ZeroRowWarning
from prgd.losses import Array
from prgd.maxmargin.exact import (
    Index,
    Relation,
    Structure,
    Vector,
    partition,
    scaled,
    whole_numbers,
)
from prgd.maxmargin.proofs import (
    TINY,
    LiftedRows,
    Proof,
    column_structure,
    completed_weights,
    is_zero_on,
    obeying,
    refined_weights,
    rounding,
    smallest_margin,
    weights_prove,
)
from prgd.problem import Problem
from prgd.rows import Rows
from prgd.vectors import norm

SMALL = 600  # entries of a table that goes to exact arithmetic at once
EXACT_SECONDS = 30.0  # what exact arithmetic may take as the last resort, by an estimate that is not timed
MOST_ENTRIES = 2**25  # entries of the largest copy that is made of the data
PROGRAMME_ENTRIES = 500_000  # entries above which linear programming starts from some of the rows
TIME_LIMIT = 60.0  # seconds for one linear program
ROUNDS = 30  # times that linear programming may ask for more rows
ZOOMS = 3  # times that it may look closer
PLAIN_STEPS, MOST_STEPS = 150, 3000
STEP_ENTRIES = 2e10  # entries that dual acceleration may read on scaled rows
FIRST_LOOKS = (32, 128)  # steps after which linear programming may be tried on a few of the rows


class Verdict(StrEnum):
    """The four words; each equals its string, so ``verdict == "separable"`` works."""

    SEPARABLE = "separable"
    QUASI_SEPARABLE = "quasi-separable"
    NOT_SEPARABLE = "not separable"
    UNDECIDED = "undecided"


@dataclass(frozen=True, eq=False, repr=False)
class Separability:
    """A verdict on separability with the objects that prove it.

    Attributes
    ----------
    verdict : Verdict
        - ``separable``: some (w, b) has ``y_i (<w, x_i> + b) > 0`` for all rows;
        - ``quasi-separable``: none has, but some has ``>= 0`` for all rows and ``> 0`` for some;
        - ``not separable``: neither, so the classes overlap;
        - ``undecided``: no proof was found, see ``lower`` and ``upper``.
    coef : ndarray of shape (d,) or None
        Normal w of the separating, or quasi-separating, hyperplane.
    intercept : float
    margin : float
        ``min_i y_i (<w, x_i> + b) / ||w||`` of this witness, rounded down; 0 where quasi-separable and
        NaN where there is no witness.
    weights : ndarray of shape (n,) or None
        Gordan's weights p >= 0 of sum 1 with ``sum_i p_i y_i (x_i, 1) = 0`` (``y_i x_i`` without
        intercept): no hyperplane separates the rows of positive weight strictly. Given wherever
        ``is_separable`` is False.
    residual : float
        Norm of that sum in float64; the proof says that it can be made zero.
    lower, upper : float
        The interval that holds gamma_star, the largest margin (0 or less where not separable).
    separated_rows, boundary_rows : ndarray of int
        Rows strictly on their side of some hyperplane that has no row on its wrong side; and the others.
    features : ndarray of int
        Features of the witness, the most important first (coefficient times range of the feature).
    feature_names : list of str, optional
    proof : Proof
        The exact objects behind it.
    how : str
        What found it and how it was proven.
    """

    verdict: Verdict
    fit_intercept: bool
    coef: Array | None
    intercept: float
    margin: float
    weights: Array | None
    residual: float
    lower: float
    upper: float
    separated_rows: Index
    boundary_rows: Index
    features: Index
    feature_names: list[str] | None
    proof: Proof
    how: str

    def __repr__(self) -> str:
        rows = f"{self.separated_rows.size} rows separated, {self.boundary_rows.size} on the boundary"
        bounds = f"{self.lower:.6g} <= gamma_star <= {self.upper:.6g}"
        return f"Separability({self.verdict.value!r}, {rows}, {bounds})"

    @property
    def is_separable(self) -> bool | None:
        """True or False where it is proven, None where it is not known."""
        if self.verdict is Verdict.SEPARABLE:
            return True
        return None if self.weights is None else False

    def check(self, X: Any, y: Any = None) -> bool:
        """Prove the verdict once more, from the stored objects and the data alone.

        Returns
        -------
        bool
            False where the data are others, or a stored number was changed so that nothing is proven.
            Of an undecided result the lower bound is checked, and the weights where it has some.
        """
        rows = LiftedRows(read_table(X)[0], y, fit_intercept=self.fit_intercept)
        n, everything = rows.n, np.arange(rows.n)
        if self.weights is not None:
            if self.weights.shape != (n,):
                return False
            if not weights_prove(rows, self.boundary_rows, self.weights, self.proof):
                return False
        if self.verdict is Verdict.NOT_SEPARABLE:
            return self.weights is not None and np.array_equal(self.boundary_rows, everything)
        if self.coef is None:
            return self.verdict is Verdict.UNDECIDED
        if self.coef.shape != (rows.d,):
            return False
        v = np.append(self.coef, self.intercept) if self.fit_intercept else self.coef
        exact = self.proof.direction or tuple(Fraction(float(value)) for value in v)
        if not np.array_equal(_rounded(exact), v):
            return False
        if self.verdict is not Verdict.QUASI_SEPARABLE:
            least = smallest_margin(rows, v, exact).margin
            stated = self.margin * norm(self.coef)
            return least >= stated - 1e-9 * abs(stated) and (least > 0.0 or self.verdict is Verdict.UNDECIDED)
        both = np.concatenate([self.separated_rows, self.boundary_rows])
        return (
            self.weights is not None
            and self.separated_rows.size > 0
            and np.array_equal(np.sort(both), everything)
            and is_zero_on(rows, exact, self.boundary_rows)
            and smallest_margin(rows, v, exact, self.separated_rows).margin > 0.0
        )

    def name(self, feature: int) -> str:
        """Return the name of a feature: its column's, else ``x0``, ``x1`` and so on."""
        return f"x{feature}" if self.feature_names is None else self.feature_names[feature]

    def __str__(self) -> str:
        return "\n".join(_explained(self))


def _explained(s: Separability) -> list[str]:
    n = s.separated_rows.size + s.boundary_rows.size
    kind = "hyperplane" if s.fit_intercept else "hyperplane through the origin"
    carried = 0 if s.weights is None else np.count_nonzero(s.weights)
    balance = "give both classes the same mean" if s.fit_intercept else "balance at the origin"
    weighted = f"  weights on {carried} rows {balance} (to {s.residual:.1e})."
    if s.verdict is Verdict.SEPARABLE:
        lines = [
            f"separable: this {kind} has every one of the {n} rows on its own side.",
            f"  its margin is {s.margin:.6g}; the largest is at most {s.upper:.6g}.",
            f"  it uses {_listed(s)}.",
        ]
    elif s.verdict is Verdict.QUASI_SEPARABLE:
        lines = [
            f"quasi-separable: this {kind} has no row on the wrong side, none has all strictly on their own.",
            f"  {s.separated_rows.size} rows lie on their own side ({_numbers(s.separated_rows)}), "
            f"{s.boundary_rows.size} on the hyperplane itself ({_numbers(s.boundary_rows)}).",
            f"  it uses {_listed(s)}: unpenalised logistic regression sends these coefficients to infinity.",
        ]
    elif s.verdict is Verdict.NOT_SEPARABLE:
        lines = [f"not separable: each {kind} has rows on its wrong side, or all rows on it.", weighted]
    elif s.weights is not None:
        lines = [
            f"undecided: no {kind} separates the classes strictly, that is proven; one that has no row on "
            "the wrong side was neither found nor ruled out.",
            weighted,
        ]
    else:
        lines = [
            f"undecided: neither a {kind} that separates nor a proof that there is none was found.",
            f"  the largest margin lies between {s.lower:.3g} and {s.upper:.3g}.",
        ]
    return [*lines, f"  {s.how}"]


def _listed(s: Separability, most: int = 5) -> str:
    """Name the features with their coefficients, the most important first."""
    coef = np.empty(0) if s.coef is None else s.coef
    shown = ", ".join(f"{s.name(j)} ({coef[j]:+.3g})" for j in s.features[:most].tolist())
    return shown if s.features.size <= most else f"{s.features.size} features, most of all {shown}"


def _numbers(rows: Index, most: int = 5) -> str:
    return ", ".join(str(i) for i in rows[:most].tolist()) + (", ..." if rows.size > most else "")


def separability(X: Any, y: Any = None, *, fit_intercept: bool = True) -> Separability:
    r"""Say whether a hyperplane separates the two classes, and prove it.

    With ``z_i = y_i (x_i, 1)`` and ``v = (w, b)``, exactly one is true:

    - ``separable``: some v has :math:`Z v > 0`;
    - ``quasi-separable``: none has, but some has :math:`Z v \ge 0` and :math:`Z v \ne 0`;
    - ``not separable``: some :math:`p > 0` has :math:`Z^\top p = 0` (Stiemke).

    Parameters
    ----------
    X : array, sparse matrix, data frame or Rows
        Dense or sparse, in memory, mapped or chunked. A data frame's column names are used in the
        explanation. The verdict is about these float64 numbers, taken literally. Large data are read in
        passes; only some of their rows are ever copied.
    y : array of shape (n,)
        Labels of two classes. Leave it out where X is an engine that holds them.
    fit_intercept : bool
        False asks for a hyperplane through the origin.

    Returns
    -------
    Separability
        Its ``print`` explains the verdict; its ``check`` proves it again.

    Raises
    ------
    ValueError
        When y does not hold two classes, X is not finite, or X holds numbers that float64 cannot.

    Notes
    -----
    Duplicate rows with opposite labels, or one feature that separates alone, are seen at once. Then a few
    hundred steps of dual acceleration look for a witness, HiGHS for the partition into separated and
    boundary rows, and an exact simplex method settles small problems. Whatever these propose is proven
    with bounds on all rounding, or in whole numbers. Ctrl-C returns ``undecided`` with the interval so far.

    References
    ----------
    Gordan (1873); Stiemke (1915); Goldman and Tucker (1956); Albert and Anderson (1984), On the existence
    of maximum likelihood estimates in logistic regression models; Konis (2007), the R package
    detectseparation.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [1.0, 2.0]]
    >>> found = separability(X, ["no", "yes", "no", "yes", "yes"])
    >>> print(found)
    quasi-separable: this hyperplane has no row on the wrong side, none has all strictly on their own.
      1 rows lie on their own side (4), 4 on the hyperplane itself (0, 1, 2, 3).
      it uses x0 (+1): unpenalised logistic regression sends these coefficients to infinity.
      Found by an exact simplex method; proven: the weights, as whole numbers, balance exactly.
    >>> found.check(X, ["no", "yes", "no", "yes", "yes"])
    True
    """
    table, names = read_table(X)
    rows = LiftedRows(table, y, fit_intercept=fit_intercept)
    search = _Search(rows)
    try:
        found = search.found()
    except KeyboardInterrupt:
        found, search.is_interrupted = None, True
    return search.result(found, names)


def read_table(X: Any) -> tuple[Any, list[str] | None]:
    """Return the numbers of a table and the names of its columns, where it is a data frame.

    Raises
    ------
    ValueError
        When float64 cannot hold a number: the verdict would be about other data.
    """
    if isinstance(X, Rows):
        return X, None
    names = None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names, X = [str(name) for name in X.columns], X.to_numpy()
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    numbers = X if isinstance(X, np.ndarray) else X.data
    kind, size = numbers.dtype.kind, numbers.dtype.itemsize
    if (kind in "iu" and size == 8) or (kind == "f" and size > 8):
        with np.errstate(invalid="ignore", over="ignore"):
            back = numbers.astype(np.float64).astype(numbers.dtype)
        if not (back == numbers).all():
            raise ValueError(
                f"X holds {numbers.dtype} numbers that float64 cannot: a verdict would be about rounded "
                "data. Subtract a constant from such columns, or round them yourself."
            )
    return X, names


class _Found(NamedTuple):
    verdict: Verdict
    how: str
    v: Array | None = None
    p: Array | None = None
    proof: Proof = Proof()
    boundary: Index = np.empty(0, np.int64)


class _Proposal(NamedTuple):
    """What linear programming or exact arithmetic says about some of the rows, their numbers in ``rows``."""

    rows: Index
    boundary: npt.NDArray[np.bool_]
    weights: Array | list[int]
    direction: Array
    exact: Vector | None
    source: str


class _Search:
    """The stages in their order, and what is known so far."""

    def __init__(self, rows: LiftedRows) -> None:
        self.rows = rows
        self.lower, self.best = 0.0 - rows.max_norm, np.empty(0)  # a margin, and the v that has it
        self.upper = math.inf
        self.gordan: _Found | None = None
        self.hardness = np.zeros(rows.n)  # the rows of least margin, or most weight, come first
        self.ranges = np.ones(rows.d)
        self.coordinates: Array | None = None  # of linear programming, where it looks closer
        self.flat: tuple[Any, Index] | None = None  # its boundary rows, and the scales of their columns
        self.is_interrupted = False

    def found(self) -> _Found | None:
        """Return the first verdict that is proven."""
        rows = self.rows
        everything = np.arange(rows.n)
        self.gordan = _cancelling_rows(rows)
        if (found := self._by_one_feature()) is not None:
            return found
        if rows.n * rows.width <= SMALL and (found := self._grow(self._exact, everything)) is not None:
            return found
        if self.gordan is None and (found := self._by_steps()) is not None:
            return found
        start = everything if rows.n * rows.width <= PROGRAMME_ENTRIES else self._hard_rows(6)
        for _ in range(ZOOMS):
            if (found := self._grow(self._programme, start)) is not None:
                return found
            if not self._look_closer():
                break
        return self._grow(self._exact, start if start.size <= 6 * rows.width else self._hard_rows(6))

    def _by_one_feature(self) -> _Found | None:
        """Look for a feature that separates alone, and measure the range of each."""
        rows = self.rows
        low, high = np.full((2, rows.width), math.inf), np.full((2, rows.width), -math.inf)
        for index, Z in rows.blocks(np.arange(rows.n), as_stored=True):
            for k, sign in enumerate((1, -1)):
                part = Z[rows.signs[index] == sign]
                if part.shape[0]:
                    least, most = part.min(axis=0), part.max(axis=0)
                    dense = [x if isinstance(x, np.ndarray) else x.toarray().ravel() for x in (least, most)]
                    low[k], high[k] = np.minimum(low[k], dense[0]), np.maximum(high[k], dense[1])
        with np.errstate(over="ignore", invalid="ignore"):
            x_low, x_high = np.minimum(low[0], -high[1]), np.maximum(high[0], -low[1])
            self.ranges = np.minimum(x_high - x_low, np.finfo(np.float64).max)[: rows.d]
            # what the two classes are apart, by the feature and by its negative
            apart = np.stack([low, -high])
            gaps = apart.sum(axis=1) if rows.fit_intercept else 2.0 * apart.min(axis=1)
        gaps = gaps[:, : rows.d]
        way, feature = (int(k) for k in np.unravel_index(np.argmax(gaps), gaps.shape))
        if not gaps[way, feature] > 0.0:
            return None
        exact = [Fraction(0)] * rows.width
        exact[feature] = Fraction(1 - 2 * way)
        if rows.fit_intercept:
            plus, minus = (Fraction(float(value)) for value in apart[way, :, feature])
            exact[rows.d] = (minus - plus) / 2
        exact = list(_shortened(exact)) if max(abs(x) for x in exact) > 2**900 else exact
        alone = int(np.count_nonzero((gaps > 0.0).any(axis=0)))
        others = f" ({alone} features do)" if alone > 1 else ""
        return self._witness(_rounded(exact), tuple(exact), f"One feature separates alone{others}")

    def _witness(self, v: Array, exact: Vector | None, source: str) -> _Found | None:
        """Prove that v separates all rows, by its float64 numbers if they do."""
        rows = self.rows
        length = norm(v[: rows.d]) * (1.0 + 1e-14)
        if not 0.0 < length < math.inf:
            return None
        for direction in (None, exact) if exact is not None else (None,):
            least = smallest_margin(rows, v, direction)
            margin = max(least.margin / length, TINY) if least.margin > 0.0 else least.margin / length
            if margin > self.lower:
                self.lower, self.best = margin, v
            if least.margin > 0.0:
                exactly = f", {least.exact_rows} of them in fractions" if least.exact_rows else ""
                how = f"{source}; proven: the margins exceed the bound on their rounding{exactly}."
                return _Found(Verdict.SEPARABLE, how, v=v, proof=Proof(direction=direction))
        return None

    def _by_steps(self) -> _Found | None:
        """Look for a witness by dual acceleration: on the rows as they are, then on scaled ones."""
        rows = self.rows
        if 1e-150 < rows.max_norm < 1e150:
            problem = Problem(rows.rows, fit_intercept=rows.fit_intercept)
            if (found := self._steps(problem, PLAIN_STEPS, np.zeros(rows.width, np.int64))) is not None:
                return found
        copy = rows.sparse(np.arange(rows.n), MOST_ENTRIES)
        if copy is None:
            return None
        Z, _, columns = _balanced(copy)
        is_dense = Z.nnz > 0.3 * rows.n * rows.width
        steps = int(np.clip(STEP_ENTRIES / Z.nnz, PLAIN_STEPS, MOST_STEPS))
        # where linear programming is quick, it is better than many steps
        steps = steps if rows.n * rows.width > PROGRAMME_ENTRIES else steps // 5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZeroRowWarning)  # a row may vanish here, but not in the data
            problem = Problem(Z.toarray() if is_dense else Z)
        return self._steps(problem, steps, columns)

    def _steps(self, problem: Problem, steps: int, columns: Index) -> _Found | None:
        rows, algorithm = self.rows, DualAcceleration()
        is_plain = problem.rows is rows.rows
        state = algorithm.init(problem, np.zeros(problem.d))
        for t in range(1, steps + 1):
            state = algorithm.step(problem, state)
            state.w.flags.writeable = False
            if is_plain:
                self._bound(problem.upper_bound(state.w))
            if problem.smallest_margin(state.w) > 0.0:
                v = np.append(state.w, problem.intercept(state.w)) if problem.fit_intercept else state.w
                found = self._witness(np.ldexp(v, columns), None, f"Found by dual acceleration in {t} steps")
                if found is not None:
                    return found
            if t in FIRST_LOOKS and is_plain:
                self.hardness = problem.margins(state.w)
                # many rows are on the wrong side: a few of them and of the others may show the overlap
                if np.count_nonzero(self.hardness < 0.0) > 2 * rows.width:
                    found = self._grow(self._programme, self._hard_rows(5), rounds=2)
                    if found is not None:
                        return found
        self.hardness = problem.margins(state.w)
        if is_plain:
            v = np.append(state.w, problem.intercept(state.w)) if problem.fit_intercept else state.w
            self._witness(v, None, "")  # for the lower bound
        return None

    def _bound(self, upper: float) -> None:
        n = self.rows.n
        self.upper = min(self.upper, upper + rounding(n + 9) * self.rows.max_norm + n * TINY)

    def _hard_rows(self, times: int) -> Index:
        """Return ``times`` as many rows as there are columns: hard ones, and as many of all degrees."""
        rows, chosen = self.rows, []
        each = times * rows.width // 4 + 10
        for group in (np.flatnonzero(rows.signs > 0), np.flatnonzero(rows.signs < 0)):
            order = group[np.argsort(self.hardness[group], kind="stable")]
            chosen += [order[:each], order[:: max(1, order.size // each)]]
        return np.unique(np.concatenate(chosen)).astype(np.int64)

    def _programme(self, index: Index) -> _Proposal | None:
        r"""Propose the partition of some rows by linear programming.

        ``max sum_i min(p_i, 1)`` over ``p >= 0`` with ``Z^T p = 0``; the dual is a v with margins of at least
        1 on the rows of weight 0 and of 0 on the others.
        """
        Z = self.rows.sparse(index, MOST_ENTRIES)
        if Z is None:
            return None
        if self.coordinates is not None:
            Z = type(Z)(Z @ self.coordinates)
        # the new coordinates have their sizes for the sake of the boundary rows: leave them
        Z, row_powers, columns = _balanced(Z, by_columns=self.coordinates is None)
        # at margins of about its tolerance HiGHS may fail; with a loose one it calls them zero
        solved = _solved_programme(Z, 1e-7) or _solved_programme(Z, 1e-5)
        if solved is None:
            return None
        p, v = solved
        margins = Z @ v
        boundary = p > np.maximum(0.5, margins)
        self.hardness[index] = np.where(boundary, -p, margins)
        self.flat = Z[boundary], columns
        v = np.ldexp(v, columns)
        direction = v if self.coordinates is None else self.coordinates @ v
        source = "Found by linear programming"
        return _Proposal(index, boundary, np.ldexp(p, row_powers), direction, None, source)

    def _look_closer(self) -> bool:
        """Choose coordinates in which the boundary rows are alike in all directions.

        Rows within 1e-9 of a hyperplane look as if they lay on it; divided by their singular values they do
        not.
        """
        if self.flat is None:
            return False
        (flat, columns), self.flat = self.flat, None
        if flat.shape[0] < self.rows.width or flat.shape[0] * flat.shape[1] > MOST_ENTRIES // 16:
            return False
        _, sizes, directions = np.linalg.svd(flat.toarray(), full_matrices=False)
        steps = np.ldexp((directions / np.maximum(sizes, 1e-15 * sizes[0])[:, None]).T, columns[:, None])
        self.coordinates = steps if self.coordinates is None else self.coordinates @ steps
        return True

    def _exact(self, index: Index) -> _Proposal | None:
        """Propose the partition of some rows by the exact simplex method, where that is affordable."""
        n, d = index.size, self.rows.width
        if n * d > MOST_ENTRIES // 64:
            return None
        Z = self.rows.take(index)
        rank = min(n, d)
        digits = rank * scaled(Z, by_columns=True).bits / 30.0
        if 5.0 * rank * rank * (n + d) * (2e-6 + 5e-9 * digits * digits) > EXACT_SECONDS:
            return None
        order = np.argsort(self.hardness[index], kind="stable")
        split = partition(Z, order.tolist(), most_pivots=100 * rank + 100)
        if split is None:
            return None
        exact = _shortened(split.direction)
        return _Proposal(
            index, split.boundary, split.weights, _rounded(exact), exact, "Found by an exact simplex method"
        )

    def _grow(
        self, oracle: Callable[[Index], _Proposal | None], index: Index, rounds: int = ROUNDS
    ) -> _Found | None:
        """Ask an oracle about some rows, and again with those rows that its answer does not fit."""
        for _ in range(rounds):
            proposal = oracle(index)
            if proposal is None:
                return None
            outcome = self._separating(proposal) if not proposal.boundary.any() else self._partition(proposal)
            if isinstance(outcome, _Found):
                return outcome
            if not outcome.size:
                return None
            most = max(200, index.size)
            worst = outcome[np.argsort(self.rows.margins(proposal.direction)[outcome], kind="stable")[:most]]
            index = np.union1d(index, worst)
        return None

    def _outside(self, index: Index) -> Index:
        mask = np.ones(self.rows.n, np.bool_)
        mask[index] = False
        return np.flatnonzero(mask).astype(np.int64)

    def _separating(self, proposal: _Proposal) -> _Found | Index:
        """Prove that a direction separates all rows, or return others that it does not."""
        found = self._witness(proposal.direction, proposal.exact, proposal.source)
        if found is not None:
            return found
        outside = self._outside(proposal.rows)
        return outside[self.rows.margins(proposal.direction)[outside] <= 0.0]

    def _partition(self, proposal: _Proposal) -> _Found | Index:
        """Prove a partition with boundary rows, or return other rows that it does not fit."""
        rows, nothing = self.rows, np.empty(0, np.int64)
        inside = proposal.rows[proposal.boundary]
        known = column_structure(rows, inside)
        weights = None if known is None else self._weights(proposal, inside, known)
        if known is None or weights is None:
            return nothing
        p, proof = weights
        how = _how(proposal.source, proof)
        self.gordan = _Found(Verdict.UNDECIDED, how, p=p, proof=proof, boundary=inside)
        direction: tuple[Array, Vector] | None = None
        outside = self._outside(inside)
        separated = np.empty(0, np.int64)
        # where the boundary rows span everything, no direction is left
        if known.others and not proposal.boundary.all():
            separated = proposal.rows[~proposal.boundary]
            direction = self._direction(proposal, known, inside)
            if direction is None:
                return nothing
            outside = self._outside(proposal.rows)
            margins = rows.margins(direction[0])[outside]
            slack = rounding(rows.width + 9) * (rows.max_norm + 1.0) * norm(direction[0])
            if (margins < -slack).any():
                return outside[margins < -slack]
            separated = np.union1d(separated, outside[margins > slack])
            outside = outside[margins <= slack]
        if outside.size:
            if known.relations is None:
                return outside
            members = obeying(rows, known.relations, outside)
            if members.size < outside.size:
                return np.setdiff1d(outside, members)
            inside = np.union1d(inside, members)
            if not weights_prove(rows, inside, p, proof):
                return nothing
        if direction is None:
            return _Found(Verdict.NOT_SEPARABLE, how, p=p, proof=proof, boundary=inside)
        v, exact = direction
        is_proven = (
            is_zero_on(rows, exact, inside) and smallest_margin(rows, v, exact, separated).margin > 0.0
        )
        if not is_proven:
            return nothing
        proof = replace(proof, direction=exact)
        return _Found(Verdict.QUASI_SEPARABLE, how, v=v, p=p, proof=proof, boundary=inside)

    def _weights(self, proposal: _Proposal, inside: Index, known: Structure) -> tuple[Array, Proof] | None:
        """Prove the weights of the boundary rows: as exact ones, or by absorbing their residual."""
        if not isinstance(proposal.weights, np.ndarray):
            whole = [w for w, on in zip(proposal.weights, proposal.boundary, strict=True) if on]
            return self._proven_weights(inside, whole, known.relations)
        rows, given = self.rows, proposal.weights[proposal.boundary]
        if inside.size * rows.width > MOST_ENTRIES:
            return None
        Z = rows.take(inside)
        if known.relations is not None:
            proof = Proof(relations=tuple(known.relations))
            for improve in (False, True):
                p = np.zeros(rows.n)
                p[inside] = refined_weights(Z[:, known.columns], given) if improve else given
                p = _normalised(p, rows)
                self._bound(norm(rows.rows.combine(p)))
                if weights_prove(rows, inside, p, proof):
                    return p, proof
        completed = completed_weights(Z, known, given)
        return None if completed is None else self._proven_weights(inside, completed, known.relations)

    def _proven_weights(
        self, inside: Index, whole: Sequence[int], relations: Sequence[Relation] | None
    ) -> tuple[Array, Proof] | None:
        total = sum(whole)
        p = np.zeros(self.rows.n)
        # a positive weight stays positive, however small
        p[inside] = [max(float(Fraction(w, total)), TINY) for w in whole]
        exact = dict(zip(inside.tolist(), whole, strict=True))
        proof = Proof(weights=exact, relations=tuple(relations or ()))
        return (p, proof) if weights_prove(self.rows, inside, p, proof) else None

    def _direction(self, proposal: _Proposal, known: Structure, inside: Index) -> tuple[Array, Vector] | None:
        """Return an exact direction that is zero on the boundary and positive on the rows proposed so."""
        if proposal.exact is not None:
            return proposal.direction, proposal.exact
        rows, separated = self.rows, proposal.rows[~proposal.boundary]
        for bits in (4, 12, 30, 52):
            values = _coarse(proposal.direction, self.ranges, bits)
            exact = known.null_vector([values[j] for j in known.others])
            if exact is None:
                return None
            exact = _shortened(exact)
            v = _rounded(exact)
            if smallest_margin(rows, v, exact, separated).margin > 0.0 and is_zero_on(rows, exact, inside):
                return v, exact
        return None

    def result(self, found: _Found | None, names: list[str] | None) -> Separability:
        """Put what was found, or what there is, into words and numbers."""
        rows = self.rows
        if found is None:
            how = "Interrupted before a proof was found." if self.is_interrupted else "All proofs failed."
            found = self.gordan or _Found(Verdict.UNDECIDED, how, v=self.best if self.best.size else None)
        p, v = found.p, found.v
        self._bound(norm(rows.rows.combine(_normalised(np.full(rows.n, 1.0 / rows.n), rows))))
        lower, upper = self.lower, self.upper
        if p is not None:
            upper = 0.0
            lower = 0.0 if found.verdict is Verdict.QUASI_SEPARABLE else min(lower, 0.0)
        coef = None if v is None else v[: rows.d]
        features = np.empty(0, np.int64)
        if coef is not None:
            with np.errstate(over="ignore"):
                share = np.abs(coef) * self.ranges
            order = np.lexsort((-np.abs(coef), -share))
            features = order[coef[order] != 0.0].astype(np.int64)
        boundary = found.boundary
        is_partition = found.verdict is not Verdict.UNDECIDED
        return Separability(
            verdict=found.verdict,
            fit_intercept=rows.fit_intercept,
            coef=coef,
            intercept=float(v[rows.d]) if v is not None and rows.fit_intercept else 0.0,
            margin=lower if coef is not None else math.nan,
            weights=p,
            residual=math.nan if p is None else norm(rows.combine(p)),
            lower=lower,
            upper=upper,
            separated_rows=self._outside(boundary) if is_partition else np.empty(0, np.int64),
            boundary_rows=boundary,
            features=features,
            feature_names=names,
            proof=found.proof,
            how=found.how,
        )


def _cancelling_rows(rows: LiftedRows) -> _Found | None:
    """Look for a zero row, or two rows z_i = -z_j: copies with opposite labels."""
    random = np.random.default_rng(0).standard_normal(rows.width)
    with np.errstate(over="ignore", invalid="ignore"):
        key = rows.margins(random)
        # equal rows have equal keys but for rounding
        order = np.argsort(np.abs(key), kind="stable")
        ahead, behind = order[:-1], order[1:]
        near = np.abs(key[ahead] + key[behind]) <= 1e-9 * np.abs(key[ahead])
    candidates = [[int(i)] for i in np.flatnonzero(key == 0.0)]
    candidates += np.stack([ahead[near], behind[near]], axis=1).tolist()
    for candidate in candidates[:1000]:
        index = np.sort(np.array(candidate, np.int64))
        p = np.zeros(rows.n)
        p[index] = 1.0 / index.size
        proof = Proof(weights=dict.fromkeys(index.tolist(), 1))
        if weights_prove(rows, index, p, proof):
            how = f"Row {index[0]} is zero." if index.size == 1 else f"Rows {index[0]} and {index[1]} cancel."
            return _Found(Verdict.UNDECIDED, how, p=p, proof=proof, boundary=index)
    return None


def _balanced(Z: Any, *, by_columns: bool = True) -> tuple[Any, Index, Index]:
    """Return ``2**r_i Z_ij 2**c_j``, with columns and rows of like size, r and c; no margin changes sign."""
    n, d = Z.shape
    row_of = np.repeat(np.arange(n), np.diff(Z.indptr))
    data = np.array(Z.data)
    rows, columns = np.zeros(n, np.int64), np.zeros(d, np.int64)
    for groups, powers in ((Z.indices, columns), (row_of, rows)) if by_columns else ((row_of, rows),):
        # first the largest entry to [1/2, 1), so that no square leaves the floating range, then the mean
        largest = np.zeros(powers.size)
        np.maximum.at(largest, groups, np.abs(data))
        powers -= np.frexp(largest)[1]
        squares = np.zeros(powers.size)
        np.add.at(squares, groups, np.ldexp(data, powers[groups]) ** 2)
        if powers is columns:
            squares /= np.maximum(np.bincount(groups, minlength=d), 1)
        powers -= np.round(0.5 * np.log2(np.where(squares > 0.0, squares, 1.0))).astype(np.int64)
        data = np.ldexp(data, powers[groups])
    return type(Z)((data, Z.indices, Z.indptr), shape=Z.shape), rows, columns


def _solved_programme(Z: Any, tolerance: float) -> tuple[Array, Array] | None:
    """Return weights p and direction v of the linear program, where HiGHS finds them in reasonable time."""
    from scipy.optimize import linprog
    from scipy.sparse import hstack

    n, d = Z.shape
    bounds = np.zeros((2 * n, 2))
    bounds[:n, 1], bounds[n:, 1] = 1.0, np.inf
    solved: Any = linprog(  # type: ignore[call-overload]  # a table of bounds is welcome too
        np.repeat([-1.0, 0.0], n),
        A_eq=hstack([Z.T, Z.T], format="csc"),
        b_eq=np.zeros(d),
        bounds=bounds,
        method="highs-ds",
        options={
            "time_limit": TIME_LIMIT,
            "maxiter": 2 * n + 20 * d + 1000,
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
        },
    )
    if solved.status != 0:
        return None
    return solved.x[:n] + solved.x[n:], -solved.eqlin.marginals


def _normalised(p: Array, rows: LiftedRows) -> Array:
    """Return weights of sum 1, with an intercept of sum 1/2 in each class."""
    groups = [rows.signs > 0, rows.signs < 0] if rows.fit_intercept else [rows.signs != 0]
    p = p.copy()
    for group in groups:
        if (total := p[group].sum()) > 0.0:
            p[group] /= total * len(groups)
    return p


def _coarse(v: Array, ranges: Array, bits: int) -> list[Fraction]:
    """Round a direction to ``bits`` bits of its largest entry, each entry measured by its feature's range."""
    size = np.append(ranges, np.ones(v.size - ranges.size))
    size = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
    top = np.frexp(np.abs(v * size).max())[1]
    steps = top - bits - np.frexp(size)[1]
    return [
        Fraction(round(float(np.ldexp(x, -k)))) * Fraction(2) ** int(k) for x, k in zip(v, steps, strict=True)
    ]


def _shortened(v: Sequence[Fraction]) -> Vector:
    """Return a positive multiple of v: coprime whole numbers where they are short, else of size about 1."""
    whole = whole_numbers(v)
    common = math.gcd(*whole) or 1
    length = max(abs(x) // common for x in whole).bit_length()
    scale = 1 if length <= 20 else 2**length
    return tuple(Fraction(x // common, scale) for x in whole)


def _rounded(v: Sequence[Fraction]) -> Array:
    return np.array([float(x) for x in v])


def _how(source: str, proof: Proof) -> str:
    if proof.weights is not None:
        return f"{source}; proven: the weights, as whole numbers, balance exactly."
    count = len(proof.relations)
    plural = "" if count == 1 else "s"
    columns = f", with {count} exact relation{plural} between features" if count else ""
    return f"{source}; proven: a correction smaller than the weights makes their residual zero{columns}."
