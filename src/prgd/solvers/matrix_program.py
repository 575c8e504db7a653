r"""Margins in the spectral and the nuclear norm, by a primal-dual interior point for semidefinite programs.

.. math:: \max \gamma \quad \text{with} \quad \langle A_t, W \rangle + \langle B_t, b \rangle \ge \gamma
    \text{ for all terms}, \quad S = \begin{pmatrix} P & W \\ W^T & Q \end{pmatrix} \succeq 0,

where P and Q are identity matrices for ``||W|| <= 1`` in the spectral norm, and any matrices of
``trace P + trace Q <= 2`` in the nuclear norm. The matrix has K + d rows only, so that a step costs little
more than the products of the terms. Margins do not change if a vector is added to all rows of W, and both
norms are smallest if the rows have the sum 0: W is written in an orthonormal basis of K - 1 such directions.

References
----------
Helmberg, Rendl, Vanderbei and Wolkowicz (1996), An interior-point method for semidefinite programming, SIAM
J. Optim. 6(2), for the direction; Mehrotra (1992), On the implementation of a primal-dual interior point
method, SIAM J. Optim. 2(4), for predictor and corrector; Recht, Fazel and Parrilo (2010), Guaranteed
minimum-rank solutions of linear matrix equations via nuclear norm minimization, SIAM Review 52(3), for the
two norms as programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from prgd.core.types import Array, Indices
from prgd.norms import Norm
from prgd.solvers.linear_systems import shifted_solver
from prgd.solvers.terms import Solution, Terms

_MAX_STEPS = 120
_STEP_FRACTION = 0.98  # fraction of the step to the boundary that is taken
_SHORTEST_STEP = 1e-8  # shorter steps end the solve
_SMALL_VALUE = 1e-9  # the gap is relative to the value of the program, or to this number
_NEGLIGIBLE = 1e-20  # terms are skipped whose multiplier over slack is below this fraction of the largest
_ACTIVE = 1e-6  # terms are active whose multiplier is above this fraction of the largest
_REFINEMENTS = 2  # steps of iterative refinement of each system


def solve_matrix_program(terms: Terms, norm: Norm, tol: float) -> Solution | None:
    """Return the largest smallest term over ``||W|| <= 1``, to about ``tol``; None if no step is taken."""
    terms, basis = terms.in_row_space()
    K, d = terms.shape
    H = np.linalg.qr(np.eye(K) - 1.0 / K)[0][:, : K - 1]  # a basis of the vectors of sum 0
    m, B = terms.row.size, terms.intercepts
    rows = np.einsum("mkd,kr->mrd", terms.matrix.toarray().reshape(m, K, d), H).reshape(m, -1)
    # Steps from W = 0 are most accurate on entries of at most 1, however small the value is.
    exponent = math.frexp(float(np.abs(rows).max(initial=0.0)))[1]
    rows = np.ldexp(rows, -exponent)
    program = _Program.of(rows, B, K - 1, d, norm.program)
    found = program.solve(tol)
    if found is None:
        return None
    x, z = found
    W = H @ x[: (K - 1) * d].reshape(K - 1, d)
    W, b, p = terms.solution(W.ravel(), np.ldexp(x[(K - 1) * d : program.at], exponent), z[:m])
    return Solution(W if basis is None else W @ basis.T, b, p)


@dataclass(frozen=True, eq=False)
class _Program:
    """Maximise an entry of x = (W, b, gamma, P, Q), with terms of at least 0 and S positive semidefinite.

    Attributes
    ----------
    T : ndarray of shape (m, at + 1)
        The terms, less gamma, as functions of the first entries of x.
    at : int
        The place of gamma in x.
    entries, row, column : ndarray of int
        Entries of x, and their places in S, above its diagonal or on it.
    S0 : ndarray
        S at x = 0.
    diagonal : ndarray of int
        The entries of x whose sum must be at most 2: those on the diagonals of P and Q, if they are in x.
    """

    T: Array
    at: int
    entries: Indices
    row: Indices
    column: Indices
    S0: Array
    diagonal: Indices

    @classmethod
    def of(cls, A: Array, B: Array, r: int, d: int, program: str) -> _Program:
        T = np.hstack([A, B, -np.ones((len(A), 1))])
        row, column = np.repeat(np.arange(r), d), r + np.tile(np.arange(d), r)
        entries, at = np.arange(r * d), T.shape[1] - 1
        if program == "spectral":
            return cls(T, at, entries, row, column, np.eye(r + d), np.empty(0, np.int64))
        (a, b), (e, f) = np.triu_indices(r), np.triu_indices(d)
        row, column = np.concatenate([row, a, r + e]), np.concatenate([column, b, r + f])
        entries = np.concatenate([entries, at + 1 + np.arange(a.size + e.size)])
        return cls(T, at, entries, row, column, np.zeros((r + d, r + d)), entries[row == column])

    @property
    def start(self) -> Array:
        """A point in the interior: W = 0, and a value below all terms."""
        x = np.zeros(max(self.at, int(self.entries[-1])) + 1)
        x[self.at] = -1.0
        if self.diagonal.size:
            x[self.diagonal] = 1.0 / self.diagonal.size
        return x

    def linear(self, x: Array) -> Array:
        """Return the terms less gamma, and minus the sum of the diagonal if it is limited."""
        terms = self.T @ x[: self.at + 1]
        return np.append(terms, -x[self.diagonal].sum()) if self.diagonal.size else terms

    def slacks(self, x: Array) -> tuple[Array, Array]:
        """Return what must be positive, and what must be positive definite."""
        s = self.linear(x)
        if self.diagonal.size:
            s[-1] += 2.0
        return s, self.S0 + self.matrix(x)

    def transposed(self, z: Array, M: Array) -> Array:
        """Return the products of multipliers z and M with what each entry of x adds to the slacks."""
        products = np.zeros(self.start.size)
        products[: self.at + 1] = self.T.T @ z[: len(self.T)]
        if self.diagonal.size:
            products[self.diagonal] -= z[-1]
        products[self.entries] += 2.0 * self._weight * M[self.row, self.column]
        return products

    def system(self, ratio: Array, Z: Array, inverse: Array) -> Array:
        """Return the matrix of the Newton system, for the ratios of multipliers to slacks."""
        n = self.start.size
        system = np.zeros((n, n))
        terms = ratio[: len(self.T)]
        counted = terms > _NEGLIGIBLE * float(terms.max())
        scaled = self.T[counted] * np.sqrt(terms[counted])[:, None]
        system[: self.at + 1, : self.at + 1] = scaled.T @ scaled
        if self.diagonal.size:
            system[np.ix_(self.diagonal, self.diagonal)] += ratio[-1]
        system[np.ix_(self.entries, self.entries)] += self._curvature(Z, inverse)
        return system

    def matrix(self, x: Array) -> Array:
        """Return the part of S that is linear in x."""
        S = np.zeros_like(self.S0)
        S[self.row, self.column] = S[self.column, self.row] = x[self.entries]
        return S

    @property
    def _weight(self) -> Array:
        return np.where(self.row == self.column, 0.5, 1.0)

    def _curvature(self, Z: Array, inverse: Array) -> Array:
        """Return ``<E_a, Z E_b S^-1>`` for all entries a, b of x in S, where E_a is what a adds to S."""
        i, j, c = self.row, self.column, self._weight
        total = Z[np.ix_(j, i)] * inverse[np.ix_(i, j)]
        total += total.T
        total += Z[np.ix_(j, j)] * inverse[np.ix_(i, i)]
        total += Z[np.ix_(i, i)] * inverse[np.ix_(j, j)]
        return np.asarray(total * (c[:, None] * c))

    def solve(self, tol: float) -> tuple[Array, Array] | None:
        """Return x and the multipliers of the terms, or None if no step could be taken."""
        x = self.start
        s, S = self.slacks(x)
        z, Z = np.full(s.size, 1.0 / s.size), np.eye(len(S)) / len(S)
        best, smallest_error = None, math.inf
        for _ in range(_MAX_STEPS):
            try:
                with np.errstate(all="ignore"):  # numbers that are not finite end the steps
                    dx, dz, dZ, alpha, beta = _Step(self, s, S, z, Z).predicted_and_corrected()
            except (np.linalg.LinAlgError, ValueError):  # rounding ends the steps
                break
            x, z, Z = x + alpha * dx, z + beta * dz, Z + beta * dZ
            s, S = self.slacks(x)
            if not (np.isfinite(x).all() and s.min() > 0.0 and z.min() > 0.0):
                break
            error = self._error(x, s, S, z, Z)
            if error < smallest_error:
                best, smallest_error = (x, z, Z), error
            if error <= tol or max(alpha, beta) < _SHORTEST_STEP:
                break
        return None if best is None else (best[0], self._polished(*best[1:]))

    def _polished(self, z: Array, Z: Array) -> Array:
        """Return multipliers of the active terms that balance the matrix Z, by least squares on their rows.

        Steps solve systems in the squares of the terms, which loses half of the digits if the margin is tiny.
        """
        active = np.flatnonzero(z[: len(self.T)] > _ACTIVE * float(z.max()))
        residual, polished = self._residual(z, Z), z.copy()
        try:
            change = np.linalg.lstsq(self.T[active].T, -residual[: self.at + 1], rcond=None)[0]
        except np.linalg.LinAlgError:
            return z
        polished[active] = np.maximum(z[active] + change, 0.0)
        is_better = np.abs(self._residual(polished, Z)).max() < np.abs(residual).max()
        return polished if is_better else z

    def _residual(self, z: Array, Z: Array) -> Array:
        """Return what the multipliers violate of stationarity."""
        residual = self.transposed(z, Z)
        residual[self.at] += 1.0
        return residual

    def _error(self, x: Array, s: Array, S: Array, z: Array, Z: Array) -> float:
        """Return the gap relative to the value, and what the multipliers violate."""
        residual = self._residual(z, Z)
        gap = float(s @ z) + float(np.vdot(S, Z))
        return (gap + float(np.abs(residual).max())) / max(abs(float(x[self.at])), _SMALL_VALUE)


class _Step:
    """The directions of one step: the Newton system is factorised once."""

    def __init__(self, program: _Program, s: Array, S: Array, z: Array, Z: Array) -> None:
        self.program, self.s, self.S, self.z, self.Z = program, s, S, z, Z
        inverse = np.linalg.inv(S)
        self.inverse = 0.5 * (inverse + inverse.T)
        system = program.system(z / s, Z, self.inverse)
        diagonal = np.diag(system)  # entries that no term of weight involves are 0, and stay
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        self.system = system * self.scale[:, None] * self.scale
        self.solver = shifted_solver(self.system.copy(), first=1)  # refinement undoes the shift

    def predicted_and_corrected(self) -> tuple[Array, Array, Array, float, float]:
        """Return the steps of x, z and Z, and how far s and S, and z and Z, can go."""
        s, S, z, Z = self.s, self.S, self.z, self.Z
        count = s.size + len(S)
        mu = (float(s @ z) + float(np.vdot(S, Z))) / count
        ds, dS, dz, dZ, _ = self.direction(0.0)
        alpha, beta = _length(s, S, ds, dS), _length(z, Z, dz, dZ)
        after = float((s + alpha * ds) @ (z + beta * dz)) + float(np.vdot(S + alpha * dS, Z + beta * dZ))
        target = mu * max(0.0, after / (count * mu)) ** 3
        ds, dS, dz, dZ, dx = self.direction(target, ds * dz, dZ @ dS)
        return dx, dz, dZ, _STEP_FRACTION * _length(s, S, ds, dS), _STEP_FRACTION * _length(z, Z, dz, dZ)

    def direction(
        self, target: float, product: Array | float = 0.0, matrix_product: Array | None = None
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return the steps of s, S, z, Z and x toward complementarity ``target``.

        The products are those of the predictor, which the corrector takes into account.
        """
        program = self.program
        first = (target - product) / self.s - self.z
        second = target * self.inverse - self.Z
        if matrix_product is not None:
            second = second - _symmetric(matrix_product @ self.inverse)
        right = program.transposed(self.z + first, self.Z + second)
        right[program.at] += 1.0
        dx = self._solve(right)
        ds, dS = program.linear(dx), program.matrix(dx)
        dz = first - self.z / self.s * ds
        dZ = second - _symmetric(self.Z @ dS @ self.inverse)
        return ds, dS, dz, dZ, dx

    def _solve(self, right: Array) -> Array:
        right = right * self.scale
        x = self.solver(right)
        for _ in range(_REFINEMENTS):
            x = x + self.solver(right - self.system @ x)
        return np.asarray(x * self.scale)


def _symmetric(M: Array) -> Array:
    return np.asarray(0.5 * (M + M.T))


def _length(s: Array, S: Array, ds: Array, dS: Array) -> float:
    """Return the largest step, at most 1, that keeps s and S in their cones."""
    root = np.linalg.inv(np.linalg.cholesky(S))
    smallest = float(np.linalg.eigvalsh(_symmetric(root @ dS @ root.T))[0])
    return 1.0 / max(float(np.max(-ds / s)), -smallest, 1.0)
