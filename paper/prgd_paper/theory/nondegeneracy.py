"""The paper's assumptions, each asked of a data set: holds or not, the number, the tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prgd.core.errors import NotSeparableError
from prgd.core.types import Array
from prgd_paper.theory.support import EPS, ROUNDING, Reference, max_margin_reference, signed_rows

WEIGHT_TOL = 1e-10  # dual weights have sum 1: a weight below this counts as zero
MEAN_TOL = 1e-9  # two points are one if they are within this share of the largest row norm


# What the number of each check is.
MEANINGS = {
    "separable": "gamma_star",
    "positive dual weights": "largest possible smallest weight on the support",
    "support spans the data": "rank of the data less rank of the support vectors",
    "mean is elsewhere": "distance of gamma_star w_star from the support's mean",
}


class Condition(NamedTuple):
    """One assumption: whether it holds, the number that decides (see `MEANINGS`), and its tolerance."""

    name: str
    holds: bool | None  # None if there is no separator to ask about
    number: float
    tolerance: float


@dataclass(frozen=True, eq=False)
class AssumptionsReport:
    """Each assumption with the number that decides it; prints as a table.

    Attributes
    ----------
    n, d : int
        Rows and columns of the data.
    separable, positive_dual, spanning, off_mean : Condition
        Assumption 3.1, the two parts of Assumption 5.4, and the further condition of Theorem 6.4.
    data_rank, support_rank, n_support : int
        Ranks of all rows and of the support vectors, and the number of these (0 without a separator).
    reference : Reference or None
        The max-margin solution, if there is one.
    dual_weights : ndarray or None
        The dual weights whose smallest entry on the support is as large as possible.
    gordan_weights : ndarray or None
        Gordan's proof that no separator exists, if none does.
    """

    n: int
    d: int
    separable: Condition
    positive_dual: Condition
    spanning: Condition
    off_mean: Condition
    data_rank: int
    support_rank: int
    n_support: int
    reference: Reference | None
    dual_weights: Array | None
    gordan_weights: Array | None

    @property
    def checks(self) -> tuple[Condition, ...]:
        """The four checks, in the order of the paper."""
        return (self.separable, self.positive_dual, self.spanning, self.off_mean)

    @property
    def is_nondegenerate(self) -> bool:
        """Whether Assumptions 3.1 and 5.4 hold."""
        return all(c.holds is True for c in self.checks[:3])

    def __str__(self) -> str:
        head = f"{self.n} rows, {self.d} columns, data rank {self.data_rank}"
        if self.reference is not None:
            head += (
                f"; {self.n_support} support vectors of rank {self.support_rank}; "
                f"gamma_star = {self.reference.gamma_star:.9g}"
            )
        words = {True: "yes", False: "no", None: "-"}
        table = [("assumption", "holds", "number", "tolerance", "meaning of the number")]
        for name, holds, number, tolerance in self.checks:
            table.append((name, words[holds], f"{number:.6g}", f"{tolerance:.1e}", MEANINGS[name]))
        widths = [max(len(row[k]) for row in table) for k in range(5)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table]
        return "\n".join([head, *(line.rstrip() for line in lines)])


def assumptions(data: Any) -> AssumptionsReport:
    r"""Ask whether the paper's assumptions hold for a data set.

    Four conditions: a separator exists (Assumption 3.1); some dual weights are strictly positive on every
    support vector, and the support vectors span the data (Assumption 5.4, non-degenerate data);
    :math:`\gamma^\star w^\star` is not the mean support vector (the further condition of Theorem 6.4).

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y) or Dataset

    Returns
    -------
    AssumptionsReport
        ``print`` shows it as a table. Data without a separator are reported, not refused.

    References
    ----------
    Assumptions 3.1 and 5.4 and Theorem 6.4 of the paper.

    Examples
    --------
    >>> print(assumptions([[2.0, 1.0], [2.0, -0.5], [3.0, 0.0]]))
    3 rows, 2 columns, data rank 2; 2 support vectors of rank 2; gamma_star = 2
    assumption              holds  number    tolerance  meaning of the number
    separable               yes    2         4.3e-14    gamma_star
    positive dual weights   yes    0.333333  1.0e-10    largest possible smallest weight on the support
    support spans the data  yes    0         2.8e-15    rank of the data less rank of the support vectors
    mean is elsewhere       yes    0.25      3.0e-09    distance of gamma_star w_star from the support's mean
    """
    Z = signed_rows(data)
    data_rank, rank_tol = _rank(Z)
    longest = float(np.linalg.norm(Z, axis=1).max())
    reference = dual_weights = None
    gordan: Any = None
    gamma_star, n_support, support_rank = 0.0, 0, 0
    lowest = rank_lost = distance = math.nan
    try:
        reference = max_margin_reference(Z)
    except NotSeparableError as error:
        gordan = error.weights
    else:
        gamma_star, rows = reference.gamma_star, Z[reference.support]
        n_support, support_rank = len(rows), _rank(rows)[0]
        rank_lost = float(data_rank - support_rank)
        dual_weights = interior_dual_weights(Z, reference)
        lowest = float(dual_weights[reference.support].min())
        distance = float(np.linalg.norm(gamma_star * reference.w_star - rows.mean(axis=0)))

    def decided(holds: bool) -> bool | None:
        return None if reference is None else holds

    return AssumptionsReport(
        len(Z),
        Z.shape[1],
        Condition("separable", reference is not None, gamma_star, ROUNDING * longest),
        Condition("positive dual weights", decided(lowest > WEIGHT_TOL), lowest, WEIGHT_TOL),
        Condition("support spans the data", decided(rank_lost == 0.0), rank_lost, rank_tol),
        Condition("mean is elsewhere", decided(distance > MEAN_TOL * longest), distance, MEAN_TOL * longest),
        data_rank,
        support_rank,
        n_support,
        reference,
        dual_weights,
        gordan,
    )


def interior_dual_weights(data: Any, reference: Reference) -> Array:
    r"""Return the dual weights whose smallest entry on the support is as large as possible.

    .. math::

        \max_{\alpha} \min_{i \in I} \alpha_i \quad \text{with} \quad
        \sum_{i \in I} \alpha_i z_i = \gamma^\star w^\star, \; \sum_{i \in I} \alpha_i = 1

    All alpha of this kind are :math:`\alpha_0 + B c` with B a basis of the null space of
    :math:`[Z_I^\top; 1^\top]`, so the linear program is over c, and its answer is feasible to rounding
    whatever the tolerance of the solver.

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y) or Dataset
    reference : Reference of the same data.

    Returns
    -------
    ndarray of shape (n,)
        Positive on the whole support exactly when the first part of Assumption 5.4 holds.

    Examples
    --------
    >>> Z = [[2.0, 1.0], [2.0, 1.0], [2.0, -1.0]]
    >>> interior_dual_weights(Z, max_margin_reference(Z)).round(12).tolist()
    [0.25, 0.25, 0.5]
    """
    from scipy.linalg import svd
    from scipy.optimize import linprog

    Z = signed_rows(data)
    if reference.dual_weights.shape != (len(Z),) or reference.w_star.shape != (Z.shape[1],):
        raise ValueError(
            f"The reference belongs to {reference.dual_weights.size} rows of {reference.w_star.size} "
            f"columns; got data of shape {Z.shape}."
        )
    rows = Z[reference.support] / np.linalg.norm(Z, axis=1).max()
    lifted = np.concatenate([rows, np.ones((len(rows), 1))], axis=1).T
    _, sigma, Vt = svd(lifted)
    rank = int((sigma > sigma[0] * max(lifted.shape) * EPS * 64.0).sum())
    basis = Vt[rank:].T
    if basis.shape[1] == 0:
        return reference.dual_weights
    start = reference.dual_weights[reference.support]
    cost = np.append(np.zeros(basis.shape[1]), -1.0)
    limits = np.column_stack([-basis, np.ones(len(rows))])
    solution: Any = linprog(cost, limits, start, bounds=(None, None), method="highs")
    found = start + basis @ solution.x[:-1]
    alpha = np.zeros(len(Z))
    # Where zero is the answer, the solver may pass zero by its tolerance.
    alpha[reference.support] = np.maximum(found, 0.0) if found.min() > start.min() else start
    return alpha


def _rank(rows: Array) -> tuple[int, float]:
    """Return the rank, and the singular value below which one counts as zero."""
    sigma = np.linalg.svd(rows, compute_uv=False)
    tolerance = float(sigma[0]) * max(rows.shape) * EPS
    return int((sigma > tolerance).sum()), tolerance
