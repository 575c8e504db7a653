"""How a separated regression is fitted: the limiting model, Firth's penalty, profiles and their ends."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prgd.core.types import Array, Indices, Mask
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.pivots import pivot_columns
from prgd.regression.coefficients import Behaviour
from prgd.regression.families import ModelRows, Name
from prgd.regression.likelihood import Likelihood, Point, times
from prgd.separation.search import decide
from prgd.separation.verdict import Verdict

if TYPE_CHECKING:
    from prgd.regression.result import Separability

_MAX_DENSE = 2**18  # entries of the rows up to which they are stored as a dense array
_SPARSE = 0.1  # fraction of entries that are not zero above which they are, too
_MAX_TRIALS = 100  # values that are tried for an end of an interval
_LONGEST = 4.0  # longest step to a trial beyond all others, as a multiple of the one before
_FIRST_STEP = 2.0  # longest first step towards an end, in the units of a scaled column
_SINGULAR = 1e13  # condition of the information of orthogonal columns beyond which rounding decides
_TOLERANCE = 1e-9  # error of the root of the statistic at an end of an interval
_NOISE = 1e-14  # rounding of the statistic, as a fraction of the log-likelihood
_MAX_NOISE = 0.1  # rounding of the root of the statistic beyond which an interval has no end


class Estimate(NamedTuple):
    """What is reported about one coefficient.

    Attributes
    ----------
    name : name of the coefficient
    verdict : Behaviour
        What becomes of it without a penalty.
    estimate, std_error : float
        NaN for ``either`` and ``aliased``; the standard error of an infinite one is NaN too.
    lower, upper : float
        The interval of values that the likelihood-ratio test does not reject.
    statistic, p : float
        The likelihood-ratio test of a coefficient of 0, of one degree of freedom.
    """

    name: Name
    verdict: Behaviour
    estimate: float = np.nan
    std_error: float = np.nan
    lower: float = np.nan
    upper: float = np.nan
    statistic: float = np.nan
    p: float = np.nan


@dataclass(frozen=True, eq=False)
class Fitting:
    """A model that is being fitted, and its likelihood on all rows.

    Attributes
    ----------
    found : Separability
    whole : Likelihood
        That of all rows that count, in the columns that are not aliased.
    kept : ndarray of int
        The places of these columns among the names of the model.
    rows : ndarray of int
        The rows, of those of the model.
    start : ndarray of float
        Coefficients of positive likelihood.
    """

    found: Separability
    model: ModelRows
    whole: Likelihood
    kept: Indices
    rows: Indices
    start: Array

    @classmethod
    def of(cls, found: Separability, model: ModelRows, offset: Array) -> Fitting:
        """Read the rows of a model into memory."""
        rows = model.rows.counted
        if model.family == "poisson":  # A row -x_i stands for the whole observation.
            rows = rows[model.rows.signs[rows] < 0]
        kept = [k for k, word in enumerate(found.coefficients.values()) if word is not Behaviour.ALIASED]
        Z = _read(model.rows, rows)[:, model.columns]
        signs = np.asarray(model.rows.signs[rows], np.float64)
        thresholds = len(model.classes) - 1 if model.family == "ordinal" else 0
        if thresholds:
            signs = -np.asarray(Z[:, :thresholds].sum(axis=1)).ravel()
        group = rows if model.observations is None else model.observations[rows]
        own = signs * offset[group]
        amounts = np.zeros(rows.size) if model.amounts is None else model.amounts[rows]
        whole = Likelihood(model.family, Z[:, kept], own, model.weight[rows], amounts, group)
        start = np.zeros(len(kept))
        if thresholds:  # evenly spread, in their order
            start[:thresholds] = np.linspace(-1.0, 1.0, thresholds + 2)[1:-1]
        return cls(found, model, whole, np.array(kept), rows, start)

    def independent(self, is_used: Mask, order: Indices) -> Indices:
        """Return those of some columns that do not depend on others before them, on some of the rows."""
        columns = self.model.columns[self.kept]
        found = pivot_columns(self.model.rows, columns[order], self.rows[is_used])
        if found is None:
            raise np.linalg.LinAlgError("it is not proven which columns of the limiting rows are independent")
        places = {int(column): k for k, column in enumerate(columns)}
        return np.array([places[column] for column in found.kept], np.int64)

    def part(self, is_used: Mask, columns: Indices) -> tuple[Likelihood, Array, Array]:
        """Return the likelihood of some rows in columns that are independent there, as ``Z = Q R``.

        Returns
        -------
        likelihood : Likelihood
            That of ``theta = R beta``: the columns of Q are orthogonal, and have mean square 1.
        R : ndarray
            Upper triangular, so that the last of the columns alone belongs to the last of theta.
        start : ndarray
            A theta of positive likelihood.
        """
        part = self.whole.part(np.flatnonzero(is_used), columns)
        Q, R = rotated(part.Z)
        given = self.whole.Z[is_used] @ self.start
        start = Q.T @ given / max(1, given.size) if isinstance(Q, np.ndarray) else R @ self.start[columns]
        return replace(part, Z=Q), R, start

    def boundary_without(self, column: int) -> Mask:
        """Return which rows stay on the boundary if a coefficient is given."""
        others = np.delete(self.model.columns[self.kept], column)
        if not others.size:
            return np.ones(self.rows.size, np.bool_)
        index = self.model.rows.counted
        Z = _read(self.model.rows, index)[:, others]
        verdict = decide(LiftedRows(Z, None, fit_intercept=False))
        if verdict.verdict is Verdict.UNDECIDED:
            raise np.linalg.LinAlgError("it is not decided which rows are separated")
        return np.isin(self.rows, index[verdict.boundary_rows])


def _read(rows: LiftedRows, index: Indices) -> Any:
    """Return rows as a dense array, or as a CSR array if they are stored so, many, and mostly zero."""
    parts = [Z for _, Z in rows.blocks(index, as_stored=True)]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    Z = vstack(parts, format="csr")
    return Z.toarray() if index.size * rows.width <= max(_MAX_DENSE, Z.nnz / _SPARSE) else Z


def rotated(Z: Any) -> tuple[Any, Array]:
    """Return Q and R with ``Z = Q R``; of CSR rows, R is the diagonal of the sizes of the columns."""
    if isinstance(Z, np.ndarray):
        Q, R = np.linalg.qr(Z)
        size = np.sign(R.diagonal()) * max(1, len(Z)) ** 0.5
        return Q * size, R / size[:, None]
    scale = np.sqrt(np.asarray((Z**2).mean(axis=0)).ravel())
    return times(1.0 / scale, Z.T).T, np.diag(scale)


# Profiles ---------------------------------------------------------------------------------------------------


class Profile:
    """The likelihood-ratio statistic of the last coefficient as a function of its value.

    Parameters
    ----------
    likelihood : Likelihood
    here : Point
        The maximum at some value of the coefficient.
    supremum : float
        The log-likelihood that the statistic compares with.
    """

    def __init__(self, likelihood: Likelihood, here: Point, supremum: float) -> None:
        self.likelihood, self.here, self.supremum = likelihood, here, supremum

    def statistic(self, value: float) -> float:
        """Return the statistic of a value of the coefficient; NaN if that has a larger likelihood than all.

        Far from the data a penalised likelihood has several maxima, and the estimates may be at a lower one.
        """
        self.here = self.likelihood.moved(self.here, value)
        found = 2.0 * (self.supremum - self.here.value)
        return max(0.0, found) if found > -_MAX_NOISE else np.nan

    def end(self, value: float, step: float, target: float) -> float:
        """Return the value whose statistic is the target, from a value on its other side and a first step.

        A positive step goes to larger values; the statistic grows, or falls, along the way.
        """
        goal, other, trial = target**0.5, value + np.copysign(np.inf, step), value + step
        is_inside, tolerance = self.statistic(value) < target, max(_TOLERANCE, _NOISE * abs(self.supremum))
        for _ in range(_MAX_TRIALS if tolerance < _MAX_NOISE else 0):
            root = self.statistic(trial) ** 0.5
            if abs(root - goal) <= tolerance:
                return trial
            if (root < goal) is is_inside:
                step, value = trial - value, trial
            else:
                other = trial
            # The root is nearly linear, so that Newton's step serves if it lies between the last two values.
            limit = value + _LONGEST * step if np.isinf(other) else other
            trial = trial + (root - goal) * root / self.here.score[-1]
            if not min(value, limit) < trial < max(value, limit):
                trial = value + 2.0 * step if np.isinf(other) else 0.5 * (value + other)
        raise np.linalg.LinAlgError("the profile likelihood has no end")


def estimates(
    fitting: Fitting, level: float | None, *, is_penalised: bool
) -> tuple[list[Estimate], Array, float]:
    """Fit a model, and report on every coefficient.

    Returns
    -------
    table : list of Estimate
    beta : ndarray of float
        The coefficients that are not aliased; of the infinite ones values at which the boundary rows have
        their limit.
    log_likelihood : float
        The supremum of the log-likelihood, or its value at the penalised estimates.
    """
    from scipy.special import chdtrc, chdtri

    words = [word for word in fitting.found.coefficients.values() if word is not Behaviour.ALIASED]
    finite = [k for k, word in enumerate(words) if is_penalised or word is Behaviour.FINITE]
    is_boundary, columns = np.ones(fitting.rows.size, np.bool_), np.arange(len(words))
    if is_penalised:
        fitting = replace(fitting, whole=replace(fitting.whole, is_penalised=True))
    elif len(finite) < len(words):
        is_boundary = np.isin(fitting.rows, fitting.found.boundary_rows)
        order = np.append(finite, np.setdiff1d(columns, finite)).astype(np.int64)
        columns = np.sort(fitting.independent(is_boundary, order))
    part, R, start = fitting.part(is_boundary, columns)
    best = part.maximise(part.at(start), columns.size)
    if columns.size and np.linalg.cond(best.information) > _SINGULAR:
        raise np.linalg.LinAlgError("the information is singular up to rounding")
    inverse = np.linalg.inv(R)
    # Squares of numbers of 1e200 leave the floating range, and hypot takes none.
    errors = np.hypot.reduce(inverse @ np.linalg.inv(np.linalg.cholesky(best.information)).T, axis=1)
    target = None if level is None else float(chdtri(1.0, 1.0 - level))
    beta, table = np.zeros(len(words)), [Estimate(*item) for item in fitting.found.coefficients.items()]
    beta[columns] = inverse @ best.beta
    for k, word in enumerate(words):
        place, ends = fitting.kept[k], _no_end
        if is_penalised or word is Behaviour.FINITE:
            error = float(errors[np.searchsorted(columns, k)])
            table[place] = table[place]._replace(estimate=beta[k], std_error=error)
            ends = partial(_two_ends, fitting, is_boundary, columns, k, beta, error)
        elif word is not Behaviour.EITHER:
            table[place] = table[place]._replace(estimate=float(word))
            ends = partial(_one_end, fitting, k, float(word), best.value)
        if target is not None:
            with suppress(np.linalg.LinAlgError):  # A profile that fails leaves its cells empty.
                lower, upper, statistic = ends(target)
                table[place] = table[place]._replace(
                    lower=lower, upper=upper, statistic=statistic, p=chdtrc(1.0, statistic)
                )
    value = replace(part, is_penalised=False).at(best.beta).value if is_penalised else best.value
    return table, beta, value


def _no_end(target: float) -> tuple[float, float, float]:
    """Return the interval of a coefficient of either sign, of which the likelihood rejects no value."""
    return -np.inf, np.inf, 0.0


def _two_ends(
    fitting: Fitting, is_used: Mask, columns: Indices, k: int, beta: Array, error: float, target: float
) -> tuple[float, float, float]:
    """Return the interval of a finite coefficient, and the statistic of 0."""
    order = np.append(columns[columns != k], k)
    part, R, _ = fitting.part(is_used, order)
    best, unit = part.at(R @ beta[order]), R[-1, -1]
    step = min(error * unit * target**0.5, _FIRST_STEP)
    profiles = [Profile(part, best, best.value) for _ in range(3)]
    lower, upper = (p.end(best.beta[-1], s * step, target) for p, s in zip(profiles, (-1, 1), strict=False))
    return lower / unit, upper / unit, profiles[2].statistic(0.0)


def _one_end(
    fitting: Fitting, k: int, estimate: float, supremum: float, target: float
) -> tuple[float, float, float]:
    """Return the interval of an infinite coefficient, whose other end is infinite, and the statistic of 0.

    With the coefficient fixed, fewer rows are separated: those that others make so.
    """
    is_boundary = fitting.boundary_without(k)
    others = fitting.independent(is_boundary, np.delete(np.arange(fitting.kept.size), k))
    part, R, start = fitting.part(is_boundary, np.append(others, k))
    profile = Profile(part, part.maximise(part.at(start), start.size - 1), supremum)
    statistic = profile.statistic(0.0)
    # The statistic falls towards the infinite estimate.
    step = float(np.sign(estimate)) * (1.0 if statistic > target else -1.0)
    ends = estimate, profile.end(0.0, step, target) / R[-1, -1]
    return min(ends), max(ends), statistic
