"""Which rate a run shows: 1 / log t, a power of t, or exponential."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from prgd.core.types import Array

Model = Literal["1/log t", "t^-a", "e^-ct"]
LETTERS: Mapping[Model, str] = {"1/log t": "A", "t^-a": "a", "e^-ct": "c"}  # the constant of each model

MIN_POINTS = 8
# A difference of 10 in Bayes' information criterion is "very strong" in the scale of Kass and Raftery.
MIN_EVIDENCE = 10.0
MIN_R_SQUARED = 0.8
SAME = 1e-6  # log errors that differ by less are equal: a fit need not be better than this
DEEP = 1e-10  # an error that fell below this fraction of its maximum may end on a plateau of rounding


class Fit(NamedTuple):
    """One model fitted to the logarithm of the error."""

    constant: float  # A of A / (log t + b), a of C t^-a, c of C e^-ct
    second: float  # b of A / (log t + b), C of the other two models
    residual: float  # root of the mean square residual of log(error)


@dataclass(frozen=True, eq=False)
class RateFit:
    """The rate that `fit_rate` chose, and all three fits.

    Attributes
    ----------
    rate : {"1/log t", "t^-a", "e^-ct", "undecided"}
        The model chosen, or "undecided".
    constant : float
        A of ``A / (log t + b)``, a of ``C t^-a`` or c of ``C e^-ct``; NaN if undecided.
    interval : pair of float
        95 % interval of the constant, by a moving-block bootstrap of the residuals; NaN if undecided.
    window : pair of float
        The first and last t used.
    n : int
        Points used.
    fits : mapping of model to Fit
        All three fits, the rejected ones included; empty if the points are too few.
    evidence : float
        Difference of Bayes' information criterion to the second best model, for as many points as the
        residuals have independent ones.
    r_squared : float
        Share of the variance of log(error) that the best model explains.
    reason : str
        Why the rate is undecided; else empty.
    """

    rate: Model | Literal["undecided"]
    constant: float
    interval: tuple[float, float]
    window: tuple[float, float]
    n: int
    fits: Mapping[Model, Fit]
    evidence: float
    r_squared: float
    reason: str

    def __str__(self) -> str:
        where = f"on t = {self.window[0]:g} to {self.window[1]:g} ({self.n} points)"
        if self.rate == "undecided":
            return f"undecided {where}: {self.reason}"
        low, high = self.interval
        constant = f"{LETTERS[self.rate]} = {self.constant:.4g}"
        return f"{self.rate} {where}: {constant}, 95 % in [{low:.4g}, {high:.4g}]"


def fit_rate(t: Any, error: Any, window: tuple[float, float] | None = None, *, seed: int = 0) -> RateFit:
    r"""Choose among 1 / log t, t^-a and e^{-ct} for an error that falls.

    Three models of two parameters each are fitted to the logarithm of the error by least squares:

    .. math::

        \frac{A}{\log t + b}, \qquad C\, t^{-a}, \qquad C\, e^{-ct}

    The best is chosen when it beats the second by 10 or more of Bayes' information criterion. Residuals
    of a smooth curve are not independent, so the number of points is divided by their correlation
    length first.

    Parameters
    ----------
    t : array of shape (n,)
        Times above 1, increasing.
    error : array of shape (n,)
        The error at each time; points that are not positive are left out.
    window : pair (first, last), optional
        Use only these t. By default all but the first tenth of the points, up to where the error meets
        its rounding plateau: when it fell by ten decimals or more, the first time within a factor of 30
        of the level at the end.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    RateFit
        The rate is "undecided" if there are fewer than 8 points, no model explains 80 % of the variance,
        the best model is not clearly better than the second, or the interval of its constant contains 0.

    Raises
    ------
    ValueError
        When t does not increase or does not exceed 1, or shapes differ.

    Notes
    -----
    The interval is by moving blocks: residuals of the chosen model are drawn in blocks as long as their
    correlation (at least n^(1/3)), added to its curve, and the constant refitted, by one Gauss-Newton step.

    References
    ----------
    The rates of Table 1 and Theorems 6.1 and 6.4 of the paper.

    Examples
    --------
    >>> t = np.arange(2, 2000)
    >>> print(fit_rate(t, 3.0 / t))
    t^-a on t = 201 to 1999 (1799 points): a = 1, 95 % in [1, 1]
    """
    t, error = np.asarray(t, dtype=np.float64), np.asarray(error, dtype=np.float64)
    if t.ndim != 1 or t.shape != error.shape:
        raise ValueError(f"t and error must be arrays of one shape (n,); got {t.shape} and {error.shape}.")
    if not (np.isfinite(t).all() and (np.diff(t) > 0.0).all() and (t > 1.0).all()):
        raise ValueError("t must be finite, above 1 (log t is a rate) and increasing.")
    used = _window(t, error, window)
    t, y = t[used], np.log(error[used])
    ends = (float(t[0]), float(t[-1])) if t.size else (math.nan, math.nan)
    unknown = RateFit("undecided", math.nan, (math.nan, math.nan), ends, t.size, {}, 0.0, 0.0, "")
    if t.size < MIN_POINTS:
        return replace(unknown, reason=f"{t.size} points are too few.")
    fits = {model: _fit(model, t, y) for model in LETTERS}
    first, second = sorted(fits, key=lambda model: fits[model].residual)[:2]
    residuals = y - _curve(first, fits[first], t)
    length = _correlation_length(residuals)
    ratio = (fits[second].residual ** 2 + SAME**2) / (fits[first].residual ** 2 + SAME**2)
    evidence = t.size / length * math.log(ratio)
    spread = float(np.var(y))
    r_squared = 1.0 - fits[first].residual ** 2 / spread if spread > SAME**2 else 0.0
    fitted = replace(unknown, fits=fits, evidence=evidence, r_squared=r_squared)
    if r_squared < MIN_R_SQUARED:
        share = f"{max(r_squared, 0.0):.0%} of the variance of log(error)"
        return replace(fitted, reason=f"the best model, {first}, explains {share}.")
    if evidence < MIN_EVIDENCE:
        lead = f"{evidence:.1f} only, of {MIN_EVIDENCE:g} needed"
        return replace(fitted, reason=f"{first} is better than {second} by {lead}.")
    interval = _interval(first, fits[first], t, residuals, length, seed)
    if interval[0] <= 0.0:
        return replace(fitted, reason=f"the constant of {first} may be 0.")
    return replace(fitted, rate=first, constant=fits[first].constant, interval=interval)


def _window(t: Array, error: Array, window: tuple[float, float] | None) -> Any:
    used = np.isfinite(error) & (error > 0.0)
    if window is not None:
        return used & (t >= window[0]) & (t <= window[1])
    used &= np.arange(t.size) >= t.size // 10
    highest = float(np.max(error, where=used, initial=0.0))
    level = float(np.median(np.abs(error[-max(3, t.size // 20) :]))) if t.size else 0.0
    if level <= DEEP * highest:
        level = 30.0 * max(level, float(np.finfo(np.float64).eps) * highest)
        reached = np.flatnonzero(used & (error <= level))
        used &= np.arange(t.size) < (reached[0] if reached.size else t.size)
    return used


def _fit(model: Model, t: Array, y: Array) -> Fit:
    if model != "1/log t":
        x = _abscissa(model, t)
        centred = x - x.mean()
        slope = float(centred @ (y - y.mean()) / (centred @ centred))
        level = float(y.mean() - slope * x.mean())
        residual = y - (level + slope * x)
        return Fit(-slope, math.exp(min(level, 700.0)), float(np.sqrt(np.mean(residual**2))))
    from scipy.optimize import minimize_scalar

    log_t = np.log(t)

    def misfit(shift: float) -> float:
        return float(np.var(y + np.log(log_t - log_t[0] + math.exp(shift))))

    # log t + b begins at e^shift. The grid runs from a pole just before the window to a curve flat on it.
    grid = np.linspace(-12.0, 12.0, 97)
    start = grid[int(np.argmin([misfit(shift) for shift in grid]))]
    found = minimize_scalar(misfit, bounds=(start - 0.25, start + 0.25), method="bounded")
    b = math.exp(float(found.x)) - float(log_t[0])
    level = float(np.mean(y + np.log(log_t + b)))
    return Fit(math.exp(level), b, math.sqrt(float(found.fun)))


def _abscissa(model: Model, t: Array) -> Array:
    """Return the x in which the logarithm of the model C t^-a or C e^-ct is a line."""
    return np.log(t) if model == "t^-a" else t


def _curve(model: Model, fit: Fit, t: Array) -> Array:
    if model == "1/log t":
        return np.asarray(math.log(fit.constant) - np.log(np.log(t) + fit.second))
    return np.asarray(math.log(fit.second) - fit.constant * _abscissa(model, t))


def _correlation_length(residuals: Array) -> float:
    """Return how many neighbours count as one independent residual, by their first autocorrelation."""
    centred = residuals - residuals.mean()
    size = float(centred @ centred)
    if size <= residuals.size * SAME**2:
        return 1.0
    r = min(max(float(centred[1:] @ centred[:-1]) / size, 0.0), 1.0 - 1e-9)
    return min((1.0 + r) / (1.0 - r), residuals.size / 4.0)


def _interval(
    model: Model, fit: Fit, t: Array, residuals: Array, length: float, seed: int
) -> tuple[float, float]:
    n, draws = t.size, 500
    block = int(min(max(math.ceil(n ** (1.0 / 3.0)), math.ceil(length)), n // 2))
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, n - block + 1, size=(draws, math.ceil(n / block)))
    index = (starts[:, :, None] + np.arange(block)).reshape(draws, -1)[:, :n]
    drawn = (residuals - residuals.mean())[index]
    if model == "1/log t":
        slopes = np.column_stack([np.ones(n), -1.0 / (np.log(t) + fit.second)])
        change = np.linalg.lstsq(slopes, drawn.T, rcond=None)[0][0]
        constants = fit.constant * np.exp(change)
    else:
        x = _abscissa(model, t)
        centred = x - x.mean()
        constants = fit.constant - drawn @ centred / (centred @ centred)
    low, high = np.quantile(constants, [0.025, 0.975])
    return float(low), float(high)
