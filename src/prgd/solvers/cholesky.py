"""Systems in a positive definite matrix, factorised once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prgd._types import Array
from prgd.solvers import minimal


def definite_solver(H: Array) -> Callable[[Array], Array]:
    """Return ``b -> H^-1 b`` by Cholesky's factorisation.

    Raises
    ------
    numpy.linalg.LinAlgError
        If H is not positive definite to rounding.

    Examples
    --------
    >>> definite_solver(np.diag([2.0, 4.0]))(np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    if not minimal.HAS_SCIPY:
        return minimal.definite_solver(H)
    # LAPACK is called directly: the checks of SciPy's functions cost more than a small system.
    from scipy.linalg.lapack import dpotrf, dpotrs

    # H is symmetric, and its transpose has the order of entries that LAPACK takes without a copy by SciPy.
    factor, failure = dpotrf(H.T, lower=True, clean=False)
    if failure:
        raise np.linalg.LinAlgError(f"The leading minor of order {failure} is not positive definite.")
    return lambda b: np.asarray(dpotrs(factor, b, lower=True)[0])
