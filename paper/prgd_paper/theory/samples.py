"""Random data sets for which Assumption 5.4 holds by construction, with the known answer."""

from __future__ import annotations

import math

import numpy as np

from prgd.core.checks import check_integer
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
