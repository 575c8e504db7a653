"""Systems in a positive definite matrix, factorised once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prgd.losses import Array


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
        from scipy.linalg import cho_factor, cho_solve
    except ImportError:
        inverse = np.linalg.inv(np.linalg.cholesky(H))  # NumPy has no triangular solve
        return lambda b: np.asarray(inverse.T @ (inverse @ b))
    factor = cho_factor(H, lower=True, check_finite=False)
    return lambda b: np.asarray(cho_solve(factor, b, check_finite=False))
