"""The verdict on some rows: its type, the objects that prove it, and its check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from prgd.core.arithmetic import error_bound, literal_fractions, nearest_floats
from prgd.core.types import Array, Indices
from prgd.problem.certificate import interval
from prgd.proofs.directions import exact_lower, margin_below, separates, smallest_margin
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import Proof, is_rounded, weights_prove

_MARGIN_TOLERANCE = 1e-9  # relative error that the check allows between the stated margin and its own
INTERRUPTED = "Interrupted before a proof was found."


class Verdict(StrEnum):
    """The four verdicts; each equals its string, so ``verdict == "separable"`` works."""

    SEPARABLE = "separable"
    QUASI_SEPARABLE = "quasi-separable"
    NOT_SEPARABLE = "not separable"
    UNDECIDED = "undecided"


@dataclass(frozen=True, eq=False, repr=False)
class Separation:
    """A verdict on some rows with the objects that prove it.

    Attributes
    ----------
    verdict : Verdict
        - ``separable``: some (w, b) has ``y_i (<w, x_i> + b) > 0`` for all rows;
        - ``quasi-separable``: none has, but some has ``>= 0`` for all rows and ``> 0`` for some;
        - ``not separable``: neither, so the classes overlap;
        - ``undecided``: no proof was found; ``lower`` and ``upper`` are what is known.
    coef : ndarray of shape (d,) or None
        Normal w of the separating, or quasi-separating, hyperplane; None if there is none.
    intercept : float
    margin : float
        ``min_i y_i (<w, x_i> + b) / ||w||`` of this hyperplane, rounded down; 0 if quasi-separable and
        NaN if ``coef`` is None.
    dual_weights : ndarray of shape (n,) or None
        Gordan's weights p >= 0 of sum 1 with ``sum_i p_i y_i (x_i, 1) = 0`` (``y_i x_i`` without
        intercept): no hyperplane separates the rows of positive weight strictly. They are given whenever
        ``is_separable`` is False.
    residual : float
        Norm of that sum in float64; the proof shows that weights nearby make it exactly zero.
    lower, upper : float
        The interval that holds gamma_star, the largest margin (0 or less if not separable).
    separated_rows, boundary_rows : ndarray of int
        Rows strictly on their own side of some hyperplane that has no row on its wrong side; and all others.
        Rows of sample weight 0 do not count, and are in neither.
    features : ndarray of int
        Features of non-zero coefficient, those of largest coefficient times range first.
    feature_names : tuple of str or None
        Those of a data frame or a file.
    proof : Proof
        The exact objects behind the verdict.
    how : str
        The stage that found the verdict and the kind of its proof.
    """

    verdict: Verdict
    fit_intercept: bool
    coef: Array | None
    intercept: float
    margin: float
    dual_weights: Array | None
    residual: float
    lower: float
    upper: float
    separated_rows: Indices
    boundary_rows: Indices
    features: Indices
    feature_names: tuple[str, ...] | None
    proof: Proof
    how: str

    def __repr__(self) -> str:
        rows = f"{self.separated_rows.size} separated and {self.boundary_rows.size} boundary rows"
        bounds = interval(self.lower, self.upper, digits=6)
        return f"{type(self).__name__}({self.verdict.value!r}, {rows}, {bounds})"

    @property
    def is_separable(self) -> bool | None:
        """True or False if it is proven, None if it is not known."""
        if self.verdict is Verdict.SEPARABLE:
            return True
        return None if self.dual_weights is None else False

    def check_rows(self, rows: LiftedRows) -> bool:
        """Prove the verdict on the rows once more, from the stored objects and the rows alone."""
        p, everything = self.dual_weights, rows.counted
        numbers = [self.lower, self.upper, self.intercept, *(() if self.coef is None else self.coef)]
        if np.isnan(numbers).any() or self.lower > self.upper:
            return False
        if np.isnan(self.margin) != (self.coef is None) or self.lower > self.margin:
            return False
        if p is not None and (p.shape != (rows.n,) or not is_rounded(p, self.proof)):
            return False
        if p is not None and not weights_prove(rows, self.boundary_rows, p, self.proof):
            return False
        if self.verdict is Verdict.NOT_SEPARABLE:
            is_whole = np.array_equal(self.boundary_rows, everything) and not self.separated_rows.size
            return p is not None and is_whole and self.coef is None
        if self.verdict is Verdict.SEPARABLE and not (
            np.array_equal(self.separated_rows, everything) and not self.boundary_rows.size
        ):
            return False
        if self.coef is None:
            return self.verdict is Verdict.UNDECIDED
        if self.coef.shape != (rows.d,):
            return False
        v = rows.lift(self.coef, self.intercept)
        exact = self.proof.direction or literal_fractions(v)
        if not np.array_equal(nearest_floats(exact), v):
            return False
        if self.verdict is not Verdict.QUASI_SEPARABLE:
            smallest = smallest_margin(rows, v, exact).margin
            # Another engine may sum in another order, which moves the bound by that of its underflows too.
            allowed = margin_below(smallest + 2.0 * error_bound(rows.width + 1, 0.0, 0.0), self.coef)
            is_as_stated = allowed >= self.margin - _MARGIN_TOLERANCE * abs(self.margin)
            is_as_stated = is_as_stated or exact_lower(rows, exact) >= self.margin
            return is_as_stated and (smallest > 0.0 or self.verdict is Verdict.UNDECIDED)
        both = np.concatenate([self.separated_rows, self.boundary_rows])
        return (
            p is not None
            and self.margin == 0.0
            and self.separated_rows.size > 0
            and np.array_equal(np.sort(both), everything)
            and separates(rows, exact, self.separated_rows, self.boundary_rows)
        )
