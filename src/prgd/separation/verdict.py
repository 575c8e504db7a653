"""The verdict on separability: its words, what proves it, how it is explained and checked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np

from prgd._types import Array
from prgd.norms import norm
from prgd.proofs.exact import Index
from prgd.proofs.lifted_rows import LiftedRows, Proof, is_zero_on, smallest_margin, weights_prove
from prgd.rows import Rows


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
        if not np.array_equal(rounded(exact), v):
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


def rounded(v: Sequence[Fraction]) -> Array:
    """Return the nearest float64 numbers."""
    return np.array([float(x) for x in v])
