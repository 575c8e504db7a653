"""Systems in positive definite matrices, factorised once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prgd.core.namespace import namespace
from prgd.solvers import minimal


def definite_solver(H: Any) -> Callable[[Any], Any]:
    """Return ``b -> H^-1 b`` by Cholesky's factorisation, for one matrix of NumPy or torch.

    Raises
    ------
    numpy.linalg.LinAlgError
        If H is not positive definite to rounding.

    Examples
    --------
    >>> definite_solver(np.diag([2.0, 4.0]))(np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    if not isinstance(H, np.ndarray):
        torch = namespace(H)
        factors, info = torch.linalg.cholesky_ex(H)
        if int(info):
            raise _not_definite(int(info))
        return lambda b: torch.cholesky_solve(b.reshape(len(b), -1), factors).reshape(b.shape)
    if not minimal.HAS_SCIPY:
        return minimal.definite_solver(H)
    # LAPACK is called directly: the checks of SciPy's functions cost more than a small system.
    from scipy.linalg.lapack import dpotrf, dpotrs

    # H is symmetric, and its transpose has the order of entries that LAPACK takes without a copy by SciPy.
    factor, failure = dpotrf(H.T, lower=True, clean=False)
    if failure:
        raise _not_definite(failure)
    return lambda b: np.asarray(dpotrs(factor, b, lower=True)[0])


def definite_solvers(H: Any) -> Callable[[Any], Any]:
    """Return ``b -> H^-1 b`` for a batch of matrices; NaN in the place of one that is not definite."""
    torch = namespace(H)
    if torch is np:
        raise TypeError("Batches of matrices are factorised by torch; NumPy takes one after the other.")
    factors, info = torch.linalg.cholesky_ex(H)
    broken = torch.where(info > 0, torch.nan, 0.0)[:, None]
    return lambda b: torch.cholesky_solve(b[..., None], factors)[..., 0] + broken


def _not_definite(order: int) -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError(f"The leading minor of order {order} is not positive definite.")
