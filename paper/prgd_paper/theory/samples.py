"""Random data sets with known answers: non-degenerate ones, and problems for the statements about the path.

Planted problems have entries of few bits, and are rotated by matrices of entries 0 and +-1/2: rows that are
drawn on the margin lie on it exactly, at any scale of w. Their w_star is known exactly, and so are the margin
rows that carry weight, and those that carry none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prgd.core.checks import check_integer
from prgd.core.types import Array, Indices
from prgd.datasets import Dataset


def random_nondegenerate(
    seed: int,
    *,
    rank: int | None = None,
    support: int | None = None,
    others: int | None = None,
    dimension: int | None = None,
) -> Dataset:
    r"""Draw a non-degenerate data set: support vectors that span it, with strictly positive dual weights.

    Support vectors are :math:`z_i = \gamma^\star w^\star - u_i`, where all but one :math:`u_i \perp w^\star`
    and the weights :math:`\alpha_i` are drawn, and the last closes :math:`\sum_i \alpha_i u_i = 0`. Further
    rows have margins above :math:`\gamma^\star`. All rows have norm at most 1, and signs are drawn.

    Parameters
    ----------
    seed : int
    rank : int, optional
        Rank of the data, at least 2 (default: drawn from 2 to 5).
    support : int, optional
        Number of support vectors, at least ``rank`` (default: up to 3 more than that).
    others : int, optional
        Number of rows off the support (default: drawn from 0 to 10).
    dimension : int, optional
        Columns, at least ``rank`` (default: up to 2 more): the span may be a proper subspace.

    Returns
    -------
    Dataset
        With ``w_star`` and ``gamma_star``, exact to rounding.

    References
    ----------
    Assumption 5.4 of the paper.

    Examples
    --------
    >>> from prgd_paper.theory.nondegeneracy import assumptions
    >>> data = random_nondegenerate(0, rank=3, support=4, others=5, dimension=6)
    >>> report = assumptions(data)
    >>> report.is_nondegenerate, report.n_support, report.data_rank
    (True, 4, 3)
    """
    rng = np.random.default_rng(seed)
    r = int(rng.integers(2, 6)) if rank is None else rank
    check_integer("rank", r, minimum=2)
    N = r + int(rng.integers(0, 4)) if support is None else support
    check_integer("support", N, minimum=r)
    m = int(rng.integers(0, 11)) if others is None else others
    check_integer("others", m, minimum=0)
    d = r + int(rng.integers(0, 3)) if dimension is None else dimension
    check_integer("dimension", d, minimum=r)

    gamma_star = float(rng.uniform(0.05, 0.5))
    alpha = rng.uniform(0.2, 1.0, size=N)
    U = rng.standard_normal((N, r - 1))
    U[-1] = -(alpha[:-1] @ U[:-1]) / alpha[-1]
    widest = math.sqrt(1.0 - gamma_star**2)
    U *= widest * rng.uniform(0.3, 1.0) / np.linalg.norm(U, axis=1).max()

    margins = gamma_star + rng.uniform(0.05, 0.9, size=m) * (1.0 - gamma_star)
    off = rng.standard_normal((m, r - 1))
    off *= (rng.uniform(0.0, 1.0, size=m) * np.sqrt(1.0 - margins**2) / np.linalg.norm(off, axis=1))[:, None]

    coordinates = np.vstack(
        [np.column_stack([np.full(N, gamma_star), -U]), np.column_stack([margins, off]).reshape(m, r)]
    )
    axes, _ = np.linalg.qr(rng.standard_normal((d, r)))
    y = rng.choice([-1.0, 1.0], size=N + m)
    y[:2] = (1.0, -1.0)
    Z = rng.permutation(coordinates @ axes.T)
    return Dataset(y[:, None] * Z, y, f"nondegenerate-{seed}", w_star=axes[:, 0], gamma_star=gamma_star)


KINDS = (
    "gaussian",
    "fewer rows than columns",
    "duplicates",
    "no span",
    "zero-weight rows",
    "uniform weights",
    "thin",
)
BITS = 12  # entries of planted rows are multiples of 2^-12
NONE: Indices = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class PathProblem:
    """Separable rows, labels for an intercept, and what is known of the solution in l2.

    Attributes
    ----------
    kind : str
    Z : ndarray of shape (n, d), the rows ``z_i = y_i x_i``.
    signs : ndarray of shape (n,), the labels y; both classes occur.
    w_star, gamma_star : the max-margin direction in l2 and its margin, exact; None if not planted.
    carrying : margin rows that carry weight in some optimal p.
    idle : margin rows that carry none.
    groups : the class of each row if the solution is that with an intercept.
    """

    kind: str
    Z: Array
    signs: Array
    w_star: Array | None = None
    gamma_star: float | None = None
    carrying: Indices = field(default_factory=lambda: NONE)
    idle: Indices = field(default_factory=lambda: NONE)
    groups: Array | None = None

    def with_intercept(self) -> PathProblem:
        """Return a planted problem whose intercept is fitted, of the same solution and as exact.

        Class + has the rows, moved by a vector, and class - the rows with half of their parts orthogonal to
        w_star, moved back by it.
        """
        (n, d), w_star = self.Z.shape, np.asarray(self.w_star)
        move = _dyadic(np.random.default_rng([n, d]), (1, d))
        other = 0.5 * (self.Z + np.outer(self.Z @ w_star, w_star))
        signs = np.repeat([1.0, -1.0], n)
        carrying, idle = (np.concatenate([rows, rows + n]) for rows in (self.carrying, self.idle))
        Z = np.vstack([self.Z + move, other - move])
        return PathProblem(self.kind, Z, signs, self.w_star, self.gamma_star, carrying, idle, signs)


def path_problem(seed: int, max_size: int = 200) -> PathProblem:
    """Draw a separable problem; seven consecutive seeds give each of `KINDS` once.

    Parameters
    ----------
    seed : int
    max_size : int
        The largest n and d; sizes from 2 on are drawn evenly in their logarithm.

    Examples
    --------
    >>> [path_problem(seed, 20).Z.shape for seed in range(3)]
    [(5, 10), (8, 13), (4, 8)]
    >>> problem = path_problem(4, 20)
    >>> margins = problem.Z @ problem.w_star
    >>> bool((margins[problem.idle] == problem.gamma_star).all()), len(problem.idle) > 0
    (True, True)
    """
    rng = np.random.default_rng([18, seed])
    kind = KINDS[seed % len(KINDS)]
    n, d = (int(2.0 ** rng.uniform(1.0, math.log2(max_size + 1))) for _ in range(2))
    if kind in ("gaussian", "fewer rows than columns", "duplicates"):
        return _gaussian(rng, kind, n, d)
    return _planted(rng, kind, max(n, 5), max(d, 4))


def _labels(rng: Any, n: int) -> Array:
    signs = rng.choice([-1.0, 1.0], size=n)
    signs[:2] = (1.0, -1.0)
    return np.asarray(signs)


def _gaussian(rng: Any, kind: str, n: int, d: int) -> PathProblem:
    if kind == "fewer rows than columns":
        n, d = sorted((n, d))
        d += n == d
    scale = 10.0 ** rng.uniform(-2.0, 1.0)
    Z = rng.standard_normal((n, d))
    axis = rng.standard_normal(d)
    axis /= np.linalg.norm(axis)
    along = Z @ axis
    Z += np.outer(np.abs(along) + 10.0 ** rng.uniform(-3.0, 0.5) - along, axis)
    Z *= scale / np.linalg.norm(Z, axis=1).max()
    if kind == "duplicates":
        Z[rng.integers(0, n, size=n // 2 + 1)] = Z[rng.integers(0, n)]
        Z = Z[rng.integers(0, n, size=n)] if n > 2 else Z
    return PathProblem(kind, Z, _labels(rng, n))


def _planted(rng: Any, kind: str, n: int, d: int) -> PathProblem:
    """Draw margin rows ``gamma e_1 + y_i``, idle rows on the same margin, and rows above it; then rotate."""
    gamma_star = 2.0 ** -int(rng.integers(13, 21) if kind == "thin" else rng.integers(0, 7))
    has_idle = kind in ("zero-weight rows", "uniform weights")
    # The rank of the y_i that carry weight; with d - 1 their rows would span the space.
    rank = int(rng.integers(1, max(2, d - 1 - has_idle)))
    support = int(np.clip(rng.integers(2, 2 * rank + 3), 2, max(2, n - 2)))
    rows, weights = np.zeros((support, d)), rng.integers(1, 5, size=support)
    if kind == "uniform weights":
        support += support % 2
        half = _dyadic(rng, (support // 2, rank))
        rows = np.zeros((support, d))
        rows[:, 1 : rank + 1] = np.concatenate([half, -half])
    else:
        weights[-1] = 2 ** math.ceil(math.log2(weights[:-1].sum() + 1) / 2.0)
        rows[:-1, 1 : rank + 1] = _dyadic(rng, (support - 1, rank))
        # The last row closes sum_i weight_i y_i = 0, and its weight is a power of two: nothing is rounded.
        rows[-1] = -(weights[:-1] @ rows[:-1]) / weights[-1]
    idle = np.zeros((int(rng.integers(1, 4)) if has_idle else 0, d))
    idle[:, 1:] = _dyadic(rng, (len(idle), d - 1))
    if has_idle:  # A positive entry where rows that carry weight have none: no optimal p can balance it.
        idle[:, rank + 1] = np.abs(idle[:, rank + 1]) + 0.25
    others = np.zeros((max(n - support - len(idle), 0), d))
    others[:, 1:] = _dyadic(rng, (len(others), d - 1))
    rows[:, 0], idle[:, 0] = gamma_star, gamma_star
    others[:, 0] = gamma_star * (1.0 + rng.integers(1, 65, size=len(others)) / 16.0)
    Z, w_star = _rotated(rng, np.vstack([rows, idle, others]))
    order = rng.permutation(len(Z))
    place = np.argsort(order)
    return PathProblem(
        kind,
        Z[order],
        _labels(rng, len(Z)),
        w_star,
        gamma_star,
        np.sort(place[:support]),
        np.sort(place[support : support + len(idle)]),
    )


def _dyadic(rng: Any, shape: tuple[int, int]) -> Array:
    return np.asarray(rng.integers(-(2**BITS), 2**BITS + 1, size=shape) / 2.0**BITS)


def _rotated(rng: Any, rows: Array) -> tuple[Array, Array]:
    """Return rows and e_1, rotated by signed permutations and blocks of Hadamard's matrix of order 4."""
    d = rows.shape[1]
    block = 0.5 * np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1.0]])
    Q = np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], size=d)
    for start in range(0, d - 3, 4):
        Q[:, start : start + 4] = Q[:, start : start + 4] @ block
    Q = Q[:, rng.permutation(d)]
    return rows @ Q, Q[0].copy()
