"""The steps of accelerated PRGD to a given margin error: Theorem E13 of docs/exponential.md."""

from __future__ import annotations

import math

from prgd.algorithms.accelerated_prgd import phase_steps
from prgd.core.checks import check_positive


def margin_error_bound(lam: float, gamma_star: float, log_n: float) -> float:
    r"""Bound the relative margin error of any w with ``F_lam(w) - min F_lam <= log n``.

    .. math:: \gamma(w)^2 \ge \gamma_\star^2 - 4 \lambda \log n

    For :math:`F_\lambda(w) \ge -\gamma(w)^2 / (2 \lambda)`, by the smallest margin alone, and
    :math:`\min F_\lambda \le \log n - \gamma_\star^2 / (2 \lambda)`, seen at
    :math:`\gamma_\star w_\star / \lambda`. It is 1 if the penalty is too large for a statement.

    Examples
    --------
    >>> round(margin_error_bound(0.03, 1.0, 3.0), 12)
    0.2
    """
    return 1.0 - math.sqrt(max(1.0 - 4.0 * lam * log_n / gamma_star**2, 0.0))


def steps_bound(
    eps: float, gamma_star: float, *, lam: float, L_s: float, log_n: float, rho: float = 2.0
) -> int:
    r"""Return after how many steps the relative margin error of `AcceleratedPRGD` is at most ``eps``.

    The first phase with :math:`\lambda_K \le \lambda_\epsilon = \gamma_\star^2\, \epsilon (2 - \epsilon) /
    (4 \log n)` ends with such a margin, so the bound is :math:`N_1 + \ldots + N_K`. From w0 = 0

    .. math:: N_1 + \ldots + N_K \le \ln(4\rho - 2) \left( \frac{\rho}{\sqrt\rho - 1}
        \sqrt{\frac{L_s}{\lambda_\epsilon}} + K \right) + K, \qquad
        K = 1 + \lceil \log_\rho^+ (\lambda_1 / \lambda_\epsilon) \rceil,

    of which the first term is ``12.24 sqrt(L_s log n / eps) / gamma_star`` for rho = 2 and small eps.

    Parameters
    ----------
    eps : float above 0 and at most 1.
    gamma_star : float, the largest margin.
    lam, L_s : float
        The first penalty and the bound on the curvature, as in the first state of the algorithm.
    log_n : float
        ``prgd.algorithms.accelerated_prgd.entropy_bound``: log n for rows of equal weight and no intercept.
    rho : float above 1, that of the algorithm.

    References
    ----------
    Theorem E13 of docs/exponential.md.

    Examples
    --------
    >>> steps_bound(0.01, 0.5, lam=0.05, L_s=1.0, log_n=math.log(20))
    296
    """
    for name, number in (("eps", eps), ("gamma_star", gamma_star), ("lam", lam), ("log_n", log_n)):
        check_positive(name, number)
    check_positive("rho", rho, above=1.0)
    if not 0.0 <= L_s < math.inf:
        raise ValueError(f"L_s must be a finite number of at least 0; got {L_s!r}.")
    if eps > 1.0:
        raise ValueError(f"eps is a relative error of at most 1; got {eps!r}.")
    needed = target_penalty(eps, gamma_star, log_n)
    steps = phase_steps(lam, L_s, rho)
    while lam > needed:
        lam /= rho
        steps += phase_steps(lam, L_s, rho)
    return steps


def target_penalty(eps: float, gamma_star: float, log_n: float) -> float:
    """Return the largest penalty at which `margin_error_bound` is at most ``eps``."""
    return gamma_star**2 * eps * (2.0 - eps) / (4.0 * log_n)
