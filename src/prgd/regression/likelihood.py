r"""The log-likelihood of every family as a function of the rows of its cone, and the one way to maximise it.

The likelihood grows with each ``eta_i = z_i . beta`` of the rows z_i of a model (`families.model_rows`). As
eta_i of a separated row goes to infinity, the terms that hold it go to their limit. So the limiting model is
that of the other rows alone, with the same terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from prgd.core.threads import lazy
from prgd.core.types import Array, Indices
from prgd.solvers.linear_systems import shifted_solver

_MAX_STEPS = 200  # Newton steps of one fit, at most
_MAX_HALVINGS = 60  # times that a step is halved
_MAX_MOVES = 300  # parts of the way to another value of a coefficient that are tried
_CONVERGED = 1e-24  # squared Newton decrement, as a fraction of the log-likelihood, at a maximum
_NESTED = 1e-15  # the same at a maximum of which only the value matters
_NEAR = 1e-6  # squared decrement below which steps are not halved
_STALLED = 1e3  # multiple of the tolerance below which rounding is what keeps the decrement from falling
_ROUNDING = 1e-12  # fraction of the log-likelihood that a step, or all that is left, may lose by rounding
_TRUSTED = 1.5  # loss of log-likelihood, as a multiple of the predicted one, up to which a move is trusted
_SECANT = 1e-8  # smallest cosine between a step and the change that a secant update explains


class Terms(NamedTuple):
    """The log-likelihood at ``eta``, its slopes, and its negative Hessian in the etas.

    The negative Hessian is ``diag(diagonal) + sign sum_g a_g a_g^T``, where a_g is the part of ``outer`` on
    the rows of one observation.
    """

    value: float
    slope: Array
    diagonal: Array
    outer: Array | None = None
    sign: float = 1.0


class Point(NamedTuple):
    """The (penalised) log-likelihood at some coefficients, its gradient, and the information."""

    beta: Array
    value: float
    score: Array
    information: Array


@dataclass(frozen=True, eq=False)
class Likelihood:
    r"""A log-likelihood as a function of ``eta = Z beta + offset``.

    With F the logistic function, an observation of weight w with the rows j contributes

    - binomial: :math:`w \log F(\eta_j)` for each row;
    - poisson: :math:`-w (y \eta + e^{-\eta})` for its row ``-x``;
    - multinomial: :math:`-w \log(1 + \sum_j e^{-\eta_j})`;
    - ordinal: :math:`w \log F(\eta_j)` for each row, and :math:`w \log(1 - e^{-\eta_1 - \eta_2})` if it has
      two, since :math:`F(u) - F(-v) = F(u) F(v) (1 - e^{-u-v})`.

    Attributes
    ----------
    family : str
    Z : ndarray or csr_array of shape (m, d)
    offset, weight, amounts : ndarray of shape (m,)
        ``amounts`` are the responses of a Poisson model.
    group : ndarray of int of shape (m,)
        The observation of each row, in increasing order.
    is_penalised : bool
        Whether half the log-determinant of the information is added: Jeffreys' prior, Firth's penalty.
    """

    family: str
    Z: Any
    offset: Array
    weight: Array
    amounts: Array
    group: Indices
    is_penalised: bool = False

    def part(self, rows: Any, columns: Indices) -> Likelihood:
        """Return the likelihood of some rows and columns: the other rows have reached their limit."""
        fields = {name: getattr(self, name)[rows] for name in ("offset", "weight", "amounts", "group")}
        return replace(self, Z=self.Z[rows][:, columns], **fields)

    @lazy
    def observations(self) -> tuple[Indices, Indices, Indices]:
        """The first row and the number of rows of each observation, and the place of that of each row."""
        found = np.unique(self.group, return_index=True, return_inverse=True, return_counts=True)
        return found[1], found[2], found[3]

    def terms(self, eta: Array) -> Terms:
        """Return the log-likelihood and its first two derivatives in the etas."""
        from scipy.special import expit, log_expit

        w = self.weight
        if self.family == "poisson":
            mean = np.exp(-eta)
            return Terms(-float(w @ (self.amounts * eta + mean)), w * (mean - self.amounts), w * mean)
        first, place, count = self.observations
        if self.family == "multinomial":
            top = np.maximum.reduceat(-eta, first).clip(min=0.0) if eta.size else eta
            odds = np.exp(-eta - top[place])
            total = np.exp(-top) + np.bincount(place, odds, first.size)
            q = odds / total[place]
            return Terms(-float(w[first] @ (top + np.log(total))), w * q, w * q, np.sqrt(w) * q, -1.0)
        value, slope, diagonal = float(w @ log_expit(eta)), w * expit(-eta), w * expit(eta) * expit(-eta)
        if self.family == "binomial":
            return Terms(value, slope, diagonal)
        distance = np.bincount(place, eta, count.size)  # of two thresholds
        gap = np.where(count == 1, np.inf, distance)[place]
        if (gap <= 0.0).any():
            return Terms(-np.inf, slope, diagonal)
        value += 0.5 * float(w @ np.log(-np.expm1(-gap)))  # Each observation has two rows.
        outer = 0.5 * np.sqrt(w) / np.sinh(0.5 * gap)
        return Terms(value, slope + w / np.expm1(gap), diagonal, outer)

    def at(self, beta: Array) -> Point:
        """Return the log-likelihood, its gradient and the information at some coefficients."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            eta = self.Z @ beta + self.offset
            terms = self.terms(eta)
        if not np.isfinite(terms.value):
            return Point(beta, -np.inf, beta, np.eye(beta.size))
        information = _dense(self.Z.T @ times(terms.diagonal, self.Z))
        sums = None if terms.outer is None else self._sums(terms.outer)
        if sums is not None:
            information += terms.sign * _dense(sums.T @ sums)
        score, value = self.Z.T @ terms.slope, terms.value
        if self.is_penalised:
            sign, size = np.linalg.slogdet(information)
            value += 0.5 * float(size) if sign > 0.0 else -np.inf
            if value > -np.inf:
                score = score + 0.5 * self.Z.T @ self._changes(eta, terms, information)
        return Point(beta, value, score, information)

    def _sums(self, factors: Array) -> Any:
        """Return the sum of the rows of each observation times their factors."""
        from scipy.sparse import csr_array

        first, place, _ = self.observations
        shape = first.size, place.size
        return csr_array((factors, (place, np.arange(place.size))), shape=shape) @ self.Z

    def _changes(self, eta: Array, terms: Terms, information: Array) -> Array:
        """Return the derivative of the log-determinant of the information in each eta.

        It is the trace of ``A dI/d eta``, where A is the inverse of the information I.
        """
        products = self.Z @ np.linalg.inv(information)
        leverage = _row_sums(self.Z, products)
        if self.family == "binomial":
            return np.asarray(terms.diagonal * -np.tanh(0.5 * eta) * leverage)
        if self.family == "poisson":
            return -terms.diagonal * leverage
        place = self.observations[1]
        q = terms.diagonal / self.weight
        inner = _row_sums(self._sums(q)[place], products)
        expected = np.bincount(place, q * leverage) - 2.0 * np.bincount(place, q * inner)
        return np.asarray(terms.diagonal * (2.0 * inner - leverage + expected[place]))

    def maximise(self, here: Point, count: int, tolerance: float = _CONVERGED) -> Point:
        """Return the maximum over the first so many coefficients, by Newton's method with halved steps.

        The Hessian of the penalty is not known, but secant updates of rank one learn it.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the information is singular, or the steps do not converge.
        """
        if np.isinf(here.value):
            raise np.linalg.LinAlgError("the likelihood is zero in float64, as of a large offset")
        learnt, before = np.zeros((count, count)), np.inf
        for _ in range(_MAX_STEPS):
            step, decrement = self._step(here, learnt)
            smallest = min(tolerance * (1.0 + abs(here.value)), _ROUNDING)
            if decrement <= smallest or before <= decrement < _STALLED * tolerance:
                return here
            # Near the maximum a full step is right, and differences of values are rounding.
            slack = np.inf if decrement < _NEAR else _ROUNDING * (1.0 + abs(here.value))
            for k in range(_MAX_HALVINGS):
                beta = here.beta.copy()
                beta[:count] += step * 0.5**k
                there = self.at(beta)
                if there.value >= here.value - slack:
                    break
            else:
                raise np.linalg.LinAlgError("no step raises the likelihood")
            if self.is_penalised:
                moved, change = (there.beta - here.beta)[:count], (here.score - there.score)[:count]
                error = change - (there.information[:count, :count] + learnt) @ moved
                if abs(error @ moved) > _SECANT * np.linalg.norm(error) * np.linalg.norm(moved):
                    learnt = learnt + np.outer(error, error) / (error @ moved)
            here, before = there, decrement
        if before < _ROUNDING:
            return here
        raise np.linalg.LinAlgError("the steps do not converge")

    def _step(self, here: Point, learnt: Array) -> tuple[Array, float]:
        """Return Newton's step and the square of its decrement; what is learnt counts if it is definite."""
        count = len(learnt)
        information, score = here.information[:count, :count].copy(), here.score[:count]
        if not count:
            return score, 0.0
        for hessian in (information + learnt, information):
            try:
                step = shifted_solver(hessian)(score)
            except np.linalg.LinAlgError:
                continue
            if score @ step >= 0.0:  # not NaN either
                return step, float(score @ step)
        raise np.linalg.LinAlgError("the information is singular")

    def moved(self, here: Point, value: float) -> Point:
        """Return the maximum over all but the last coefficient at another value of it, from one nearby."""
        size, count = 1.0, here.beta.size - 1
        for _ in range(_MAX_MOVES):
            way, cross = size * (value - here.beta[-1]), here.information[:-1, -1]
            tangent = shifted_solver(here.information[:-1, :-1].copy())(cross) if count else cross
            beta = here.beta - way * np.append(tangent, -1.0)
            beta[-1] = value if size == 1.0 else beta[-1]
            # A step along the tangent of the path of maxima is trusted if its loss is near the predicted one.
            curvature = here.information[-1, -1] - cross @ tangent
            loss = abs(0.5 * curvature * way**2 - here.score[-1] * way)
            there = self.at(beta)
            if there.value < here.value - _TRUSTED * loss - 1.0:
                size *= 0.5
                continue
            here, size = self.maximise(there, count, _NESTED), min(1.0, 2.0 * size)
            if here.beta[-1] == value:
                return here
        raise np.linalg.LinAlgError("no way leads to the value of the coefficient")


def _dense(product: Any) -> Array:
    return np.asarray(product.toarray() if hasattr(product, "toarray") else product)


def times(factors: Array, Z: Any) -> Any:
    """Return dense or CSR rows times their factors."""
    return factors[:, None] * Z if isinstance(Z, np.ndarray) else type(Z)(Z.multiply(factors[:, None]))


def _row_sums(A: Any, B: Array) -> Array:
    """Return the inner product of each row of A, dense or CSR, with that of B."""
    return np.asarray((A * B).sum(axis=1)).ravel()
