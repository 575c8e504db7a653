"""The maximum margin as a quadratic programme, in the form that suits the shape of the data.

primal: ``min ||w||^2 / 2`` with ``Z w + b y >= 1``: d (+ 1) unknowns, n constraints.
dual: ``min a^T Z Z^T a / 2 - sum a`` with ``a >= 0`` (and ``y^T a = 0`` with an intercept): n unknowns.
The Gram matrix of the dual is computed on the clock.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .forms import as_csr, as_dense, density, gram, signed
from .shapes import BaseSolver

MOST_UNKNOWNS = 4000


class QuadraticSolver(BaseSolver):
    """A solver of qpsolvers; a subclass names it, its backends and their settings."""

    sampling_strategy = "run_once"
    rung = "tol"
    solver = ""

    def settings(self) -> dict[str, Any]:
        """Return the solver's own settings."""
        raise NotImplementedError

    def takes_dense(self) -> bool:
        """Return whether the chosen backend wants dense matrices."""
        raise NotImplementedError

    def skip(self, X: Any, y: Any, fit_intercept: bool) -> tuple[bool, str | None]:
        n, d = X.shape
        unknowns, others = (d, n) if self.problem == "primal" else (n, d)
        if unknowns > 4 * others:
            return True, f"{self.problem}: {unknowns} unknowns, the other form has {others}"
        if unknowns > MOST_UNKNOWNS and others <= MOST_UNKNOWNS:
            return True, f"{self.problem}: {unknowns} unknowns are too many"
        if self.problem == "primal" and self.takes_dense() and density(X) < 0.05 and d > 500:
            return True, "primal: dense constraints of very sparse rows"
        if self.problem == "dual" and not self.takes_dense() and self.solver == "piqp":
            return True, "dual: a full Gram matrix has no use for a sparse backend"
        return False, None

    def set_objective(self, X: Any, y: Any, fit_intercept: bool) -> None:
        self.Z, self.y, self.fit_intercept = signed(X, y), y, fit_intercept
        d = X.shape[1]
        if self.problem == "dual":
            # rows that are hardly sparse multiply faster through BLAS
            self.Z = as_csr(self.Z) if density(self.Z) < 0.05 else as_dense(self.Z)
            return
        # the constraint matrix is the data, in the form that the solver likes
        if self.takes_dense():
            G = -as_dense(self.Z)
            self.G = np.hstack([G, -y[:, None]]) if fit_intercept else G
            self.P: Any = np.eye(d + fit_intercept)
            if fit_intercept:
                self.P[-1, -1] = 0.0
        else:
            G = -sp.csc_matrix(self.Z)
            self.G = sp.csc_matrix(sp.hstack([G, sp.csc_matrix(-y[:, None])]) if fit_intercept else G)
            self.P = sp.csc_matrix(sp.diags_array(np.r_[np.ones(d), np.zeros(int(fit_intercept))]))

    def run(self, _: Any) -> None:
        from qpsolvers import Problem, solve_problem

        n, d = self.Z.shape
        if self.problem == "primal":
            problem = Problem(self.P, np.zeros(self.P.shape[0]), self.G, -np.ones(n))
        else:
            K, A = gram(self.Z), self.y[None, :] if self.fit_intercept else None
            if not self.takes_dense():
                K, A = sp.csc_matrix(K), None if A is None else sp.csc_matrix(A)
            b = None if A is None else np.zeros(1)
            problem = Problem(K, -np.ones(n), A=A, b=b, lb=np.zeros(n))
        found = solve_problem(problem, solver=self.solver, **self.settings())
        if found.x is None:
            raise RuntimeError(f"{self.solver} returned no solution")
        self.w = found.x[:d] if self.problem == "primal" else np.asarray(self.Z.T @ found.x).ravel()

    def get_result(self) -> dict[str, Any]:
        return {"w": self.w}
