"""SciPy's non-negative least squares: ``min ||Z^T a||^2 + (sum a - 1)^2`` over a >= 0 (Lawson and Hanson).

Its residual gives w. With an intercept, ``scaling * y`` is one more feature: like LIBLINEAR's, that
intercept is penalised. Where rows are fewer than features, a factor of the Gram matrix, computed on the
clock, stands for Z^T.
"""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from __future__ import annotations

from typing import Any

import numpy as np
from benchmark_utils.forms import as_csr, as_dense, density, gram, signed
from benchmark_utils.shapes import BaseSolver


class Solver(BaseSolver):
    name = "SciPy NNLS"
    mark = "penalises its intercept"
    requirements = ["scipy"]
    sampling_strategy = "run_once"
    parameters = {"scaling": [1.0, 10.0, 100.0, 1000.0]}
    rung = "scaling"

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        if self.scaling != 1.0 and not fit_intercept:
            return True, "without an intercept there is nothing to scale"
        return False, None

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        Z = signed(X, y)
        self.Z, self.y, self.fit_intercept = as_csr(Z) if density(Z) < 0.05 else as_dense(Z), y, fit_intercept
        n, d = X.shape
        self.A = np.vstack([as_dense(Z).T, self._more(n)]) if d <= n else None

    def _more(self, n: int) -> np.ndarray:
        last = [np.ones(n)]
        return np.vstack([self.scaling * self.y, *last] if self.fit_intercept else last)

    def run(self, _: Any) -> None:
        from scipy.optimize import nnls

        n = len(self.y)
        A = self.A
        if A is None:
            A = np.vstack([factor(gram(self.Z)), self._more(n)])
        target = np.zeros(A.shape[0])
        target[-1] = 1.0
        self.a, _ = nnls(A, target, maxiter=30 * n)

    def get_result(self) -> dict[str, Any]:
        return {"w": np.asarray(self.Z.T @ self.a).ravel()}


def factor(K: np.ndarray) -> np.ndarray:
    """Return R with ``R^T R = K``, up to the smallest ridge that lets the factorisation pass."""
    from scipy.linalg import cholesky

    place, ridge = np.diag_indices(len(K)), np.finfo(np.float64).eps * np.trace(K)
    while True:
        K[place] += ridge
        try:
            return cholesky(K)
        except np.linalg.LinAlgError:
            ridge *= 100.0
