"""Systems in a positive definite matrix, factorised once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prgd._types import Array


def definite_solver(H: Array) -> Callable[[Array], Array]:
    """Return ``b -> H^-1 b`` by Cholesky's factorisation: SciPy's, or NumPy's where there is no SciPy.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where H is not definite to rounding.

    Examples
    --------
    >>> definite_solver(np.diag([2.0, 4.0]))(np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    try:
        from scipy.linalg.lapack import dpotrf, dpotrs
    except ImportError:
        inverse = np.linalg.inv(np.linalg.cholesky(H))  # NumPy has no triangular solve
        return lambda b: np.asarray(inverse.T @ (inverse @ b))
    # straight to LAPACK: the checks around it cost more than a small system
    factor, failure = dpotrf(H, lower=True, clean=False)
    if failure:
        raise np.linalg.LinAlgError(f"The leading minor of order {failure} is not positive definite.")
    return lambda b: np.asarray(dpotrs(factor, b, lower=True)[0])
