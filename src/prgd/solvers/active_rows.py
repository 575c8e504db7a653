"""The rows that carry weight at w, gathered once, and the Newton systems on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prgd.core.arithmetic import EPSILON
from prgd.core.types import Array, Indices, Mask
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.problem.coding import Evaluation
from prgd.rows import MarginsAt
from prgd.rows.blocks import row_squares
from prgd.solvers.linear_systems import conjugate_gradients

Groups = list[Any]  # a mask of the rows of each group, or one slice of all rows

WINDOW = 28.0  # a row whose margin is this far above the smallest has a weight below e^-28 = 7e-13 of it
HEAVY = 1e-3  # a row is heavy if its weight is at least this fraction of the largest
MAX_MISSING = 1e-6  # fraction of the weight that may lie outside the active rows
GATHER_BYTES = 2**27  # active rows are copied if they take at most so many bytes; else the engine multiplies
CHECK_EVERY = 4  # steps of the conjugate gradients in row space after which the residual is computed
_SAMPLE_ROWS = 16  # rows that are gathered to estimate the size of a copy


class ActiveRows:
    r"""Rows near the smallest margin of ``w``: their weights, and systems in the Hessian of log L.

    .. math:: H = Z^\top D Z + \lambda I, \qquad D = \mathrm{diag}(p) - p p^\top

    (with an intercept, one such D for each class and the rows of that class alone).

    Parameters
    ----------
    problem : Problem, with the exponential loss.
    w : ndarray of shape (d,)
    indices : ascending indices of the rows.

    Attributes
    ----------
    reads : float
        Rows read so far divided by n: gathering reads each row once, and so does each product.

    Examples
    --------
    >>> problem = Problem([[1.0, 0.0], [0.0, 1.0]])
    >>> rows = ActiveRows(problem, np.zeros(2), np.arange(2))
    >>> rows.solve(1.0, np.array([1.0, 0.0]), 0.0).round(12)  # H = [[1.25, -0.25], [-0.25, 1.25]]
    array([0.83333333, 0.16666667])
    """

    def __init__(self, problem: Problem, w: Array, indices: Indices) -> None:
        self.w, self.indices, self.reads = w, indices, indices.size / problem.n
        self._problem, self._n = problem, problem.n
        self._Z = _gather(problem, indices)
        # Systems are solved with rows in units of their size: squares would leave the floating range.
        self._unit = math.ldexp(1.0, math.frexp(problem.max_norm)[1])
        self._groups = _among(problem.labels.groups(problem.fit_intercept), indices)
        weights = problem.labels.sample_weight
        # A sample weight of 3 stands for three copies of a row, and must lead to the same steps.
        self._copies = np.ones(indices.size)
        if weights.size:
            self._copies = weights[indices] / weights[weights > 0.0].min()
        self._margins, self._slopes = self._times(self._Z, w), np.zeros(indices.size)

    @classmethod
    def find(cls, problem: Problem, at: Evaluation, indices: Indices) -> ActiveRows:
        """Gather the rows found earlier; if weight lies elsewhere, find them among all rows by a pass."""
        reads, w = 0.0, at.w
        if indices.size:
            rows = cls(problem, w, indices)
            missing = max(MAX_MISSING, 100.0 * EPSILON * problem.max_norm * at.length)
            exponent, sums = rows._exponent(0.0), zip(at.tally.log_sums, rows._groups, strict=True)
            if all(abs(total - np.logaddexp.reduce(exponent[group])) <= missing for total, group in sums):
                return rows
            reads = rows.reads
        rows = cls(problem, w, problem.near(w, WINDOW))
        rows.reads += reads + 1.0
        return rows

    def _exponent(self, size: float) -> Array:
        weights = self._problem.labels.sample_weight
        exponent = -(self._margins + size * self._slopes)
        return exponent + np.log(weights[self.indices]) if weights.size else exponent

    def aim(self, direction: Array) -> None:
        """Choose the direction along which `dual_vector` moves."""
        self._slopes = self._times(self._Z, direction)

    def movement(self) -> float:
        """Return the largest change of a heavy row's margin along the direction, less their mean."""
        p = self.dual_weights()
        return float(np.abs(_centred(self._slopes, p, self._groups)[p >= HEAVY * p.max()]).max())

    def dual_weights(self, size: float = 0.0) -> Array:
        """Return p at ``w + size direction``, of sum 1 (of 1/2 in each class with an intercept)."""
        p = self._exponent(size)
        for group in self._groups:
            part = np.exp(p[group] - p[group].max())
            p[group] = part / (part.sum() * len(self._groups))
        return p

    def dual_vector(self, size: float) -> Array:
        """Return ``Z^T p`` at ``w + size direction``."""
        return self._combine(self._Z, self.dual_weights(size))

    def near(self, size: float) -> Indices:
        """Return the rows among these with a margin near the smallest at ``w + size direction``."""
        return self.indices[self._is_near(self._margins + size * self._slopes)]

    def _is_near(self, margins: Array) -> Mask:
        found = np.ones(self.indices.size, bool)
        for group in self._groups:
            found[group] = margins[group] <= margins[group].min() + WINDOW
        return found

    def next_weights(self) -> DualWeights:
        r"""Return the weights that Newton's step x, the chosen direction, predicts: ``p - D Z x``.

        If x solves :math:`H x = Z^\top p - \lambda w`, their dual vector is exactly
        :math:`\lambda (w + x)`. Negative ones are set to 0.
        """
        p = self.dual_weights()
        found = np.maximum(p - p * _centred(self._slopes, p, self._groups), 0.0)
        for group in self._groups:
            if not found[group].any():
                found[group] = p[group]
        return DualWeights.normalized(self._problem, self.indices, found)

    def solve(self, lam: float, b: Array, residual: float, ray: Array | None = None) -> Array:
        r"""Return the Newton step x, with :math:`\|H x - b\|` at most ``residual``.

        Parameters
        ----------
        lam : float
        b : ndarray of shape (d,)
            The negative gradient, ``Z^T p - lam w``.
        residual : float
        ray : ndarray of shape (d,), optional
            A first direction to try, the rescaling ``w``.
        """
        # Weights concentrate along the path, so fewer rows count now than when they were gathered.
        p, kept = self.dual_weights(), self._is_near(self._margins)
        if self._Z is None:
            return self._solve_by_features(None, np.where(kept, p, 0.0), self._groups, lam, b, residual, ray)
        Z, p, groups = self._Z, p[kept], self._groups
        if not kept.all():
            Z, groups = Z[kept], _among(groups, kept)
        # Early, weights are even and H is well conditioned. Late, p_i / lam spans many decades, which does
        # not slow the system in row space down; but that system needs fewer rows than features.
        margins, copies = self._margins[kept], self._copies[kept]
        if float(p @ margins) > WINDOW and copies.sum() <= b.size:
            return self._solve_by_rows(Z, p, groups, lam, margins, copies, residual)
        return self._solve_by_features(Z, p, groups, lam, b, residual, ray)

    def _solve_by_features(
        self, Z: Any, p: Array, groups: Groups, lam: float, b: Array, residual: float, ray: Array | None
    ) -> Array:
        """Solve H x = b by conjugate gradients from the best multiple of the ray."""
        unit = self._unit
        lam, b, residual = lam / unit / unit, b / unit, residual / unit

        def times(v: Array) -> Array:
            image = p * _centred(self._times(Z, v) / unit, p, groups)
            return self._combine(Z, image) / unit + lam * v

        x, r = np.zeros(b.size), b
        if ray is not None:
            ray = ray * unit
            image = times(ray)
            size = float(ray @ b) / float(ray @ image)
            x, r = size * ray, b - size * image
        goal, max_steps = max(residual, EPSILON * norm(b)) ** 2, 4 * min(p.size, b.size) + 20
        return conjugate_gradients(times, x, r, lambda _, r, square: not square > goal, max_steps)[0] / unit

    def _solve_by_rows(
        self, Z: Any, p: Array, groups: Groups, lam: float, margins: Array, copies: Array, residual: float
    ) -> Array:
        r"""Solve for the same step in row space, a ridge regression, by preconditioned conjugate gradients.

        Newton's next iterate is ``Z^T a`` with

        .. math:: Z Z^\top a + \lambda a / p + \tau 1 = Z w, \qquad 1^\top a = 1 / \lambda

        (a tau and a sum for each class). The iteration starts from ``a = p / lam``, which is w rescaled to
        this lam, and the diagonal preconditioner removes the span of p. The residual of H x = b is
        ``Z^T D r``.
        """
        w_next, unit = self._combine(Z, p) / lam, self._unit
        lam = lam / unit / unit
        diagonal = row_squares(Z) / unit / unit / copies + lam / p
        self.reads += p.size / self._n
        inverse = 1.0 / diagonal

        def times(q: Array) -> Array:
            image = self._times(Z, self._combine(Z, q) / unit) / unit + (lam / p) * q
            return _centred(image, inverse, groups)

        def has_ended(k: int, r: Array, square: float) -> bool:
            is_due = k > 0 and k % CHECK_EVERY == 0
            return not square > 0.0 or (
                is_due and norm(self._combine(Z, p * _centred(r, p, groups))) <= residual
            )

        def precondition(r: Array) -> Array:
            return inverse * _centred(r, inverse, groups)

        r = _centred(margins - self._times(Z, w_next), inverse, groups)
        a, _, _ = conjugate_gradients(times, np.zeros(p.size), r, has_ended, 4 * p.size + 20, precondition)
        return w_next + self._combine(Z, a) / unit / unit - self.w

    def _times(self, Z: Any, v: Array) -> Array:
        if Z is None:
            self.reads += 1.0
            return self._problem.rows.ask(MarginsAt(v), self._problem.labels)[self.indices]
        self.reads += Z.shape[0] / self._n
        return np.asarray(Z @ v)

    def _combine(self, Z: Any, q: Array) -> Array:
        if Z is None:
            self.reads += np.count_nonzero(q) / self._n
            full = np.zeros(self._n)
            full[self.indices] = q
            return self._problem.combine(full)
        self.reads += Z.shape[0] / self._n
        return np.asarray(Z.T @ q)


def _among(groups: Groups, chosen: Indices | Mask) -> Groups:
    """Return the groups among the chosen rows."""
    return [group if isinstance(group, slice) else group[chosen] for group in groups]


def _centred(v: Array, weight: Array, groups: Groups) -> Array:
    """Return v minus its weighted mean in each group."""
    v = v.copy()
    # The mean is subtracted twice: rounding leaves eps |v| of it, which adds up over the rows to
    # eps gamma ||v||. That may exceed lam ||v||, and then the length of w would be lost to rounding.
    for group in groups * 2:
        v[group] -= float(weight[group] @ v[group]) / float(weight[group].sum())
    return v


def _gather(problem: Problem, indices: Indices) -> Any:
    """Return the rows as a matrix, or None if a copy of them would be large."""
    if 8 * indices.size * problem.d > GATHER_BYTES:
        sample = problem.take(indices[:: -(-indices.size // _SAMPLE_ROWS)])
        size = sample.nbytes if isinstance(sample, np.ndarray) else sample.data.nbytes + sample.indices.nbytes
        if size / sample.shape[0] * indices.size > GATHER_BYTES:
            return None
    return problem.take(indices)
