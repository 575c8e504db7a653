"""What `max_margin` returns, and how anyone can check it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prgd._types import Array
from prgd.norms import norm
from prgd.problem import Problem, as_rows
from prgd.result import Status


class Check(NamedTuple):
    """Bounds recomputed in float64 from ``coef``, ``intercept`` and ``dual`` alone."""

    margin: float
    upper_bound: float
    gap: float
    is_valid: bool


@dataclass(frozen=True, eq=False)
class MaxMarginResult:
    """The maximum-margin separator with its certificate.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        Normal of the separating hyperplane, scaled so that the smallest margin is 1, as SVC does
        (of norm 1 where the data are not separated).
    intercept : float
        Unpenalised; 0 without ``fit_intercept``.
    margin : float
        ``min_i y_i (<coef, x_i> + intercept) / ||coef||``, the lower bound on gamma_star.
    upper_bound : float
        ``||sum_i dual_i y_i x_i||``, the upper bound on gamma_star.
    gap : float
        ``(upper_bound - margin) / upper_bound``.
    dual_coef : csr_array of shape (1, n)
        Weights of the certificate: not negative, of sum 1 (1/2 in each class with an intercept). Needs SciPy;
        ``support`` and ``dual`` hold the same.
    support : ndarray of int
        Rows of positive dual weight.
    dual : ndarray
        The weights of those rows.
    passes : float
        Readings of the whole data, products on some of the rows counted by their share.
    status : Status
    history : list of dict
        One entry a certifying pass: passes, margin, upper_bound, gap, rows in the working set, seconds.
    """

    coef: Array
    intercept: float
    margin: float
    upper_bound: float
    gap: float
    support: npt.NDArray[np.int64]
    dual: Array
    n: int
    passes: float
    status: Status
    fit_intercept: bool
    history: list[dict[str, float]] = field(repr=False, default_factory=list)

    @cached_property
    def dual_coef(self) -> Any:
        """Weights of all rows, as a sparse row."""
        from scipy.sparse import csr_array

        rows = np.zeros(self.support.size, np.int64)
        return csr_array((self.dual, (rows, self.support)), shape=(1, self.n))

    @property
    def is_separable(self) -> bool | None:
        """True where the margin is positive, False where the bound is zero, None where unknown."""
        if self.margin > 0.0:
            return True
        return False if self.status is Status.NOT_SEPARABLE else None

    def check(self, X: Any, y: Any = None) -> Check:
        """Recompute both bounds in float64 from the data; nothing of the solver is used.

        ``is_valid`` says that the weights are those of a certificate and that both bounds agree with
        the stated ones to rounding.
        """
        rows = as_rows(X, y, None, None)
        margins = rows.margins(self.coef) + self.intercept * rows.signs()
        p = np.zeros(self.n)
        p[self.support] = self.dual
        length = norm(self.coef)
        margin = float(margins.min()) / length if length > 0.0 else 0.0
        upper = norm(rows.combine(p))
        slack = 1e-9 * upper + 64 * np.finfo(np.float64).eps * rows.measure().max_norm
        groups = [rows.signs() > 0, rows.signs() < 0] if self.fit_intercept else [slice(None)]
        in_simplex = p.min() >= 0.0 and all(abs(p[g].sum() * len(groups) - 1.0) < 1e-12 for g in groups)
        agrees = abs(margin - self.margin) <= slack and abs(upper - self.upper_bound) <= slack
        gap = max(0.0, (upper - margin) / upper) if upper > 0.0 else np.inf
        return Check(margin, upper, gap, bool(in_simplex and agrees))

    def problem(self, X: Any, y: Any = None) -> Problem:
        """Return the `Problem` that this result solves."""
        return Problem(X, y, fit_intercept=self.fit_intercept)
