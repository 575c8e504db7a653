"""The verdict on some rows: its type, the objects that prove it, and its check."""

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
    """A verdict on some rows with the objects that prove it; `prgd.Separability` explains the attributes."""

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
