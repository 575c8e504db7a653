r"""The dynamics orthogonal to the max-margin direction: where GD and NGD end up beside the ray.

Far out on the ray only the support vectors matter, and :math:`P_\perp(w)` follows gradient descent on
:math:`\log L_\perp`. GD and NGD come to rest beside the ray, at the minimiser :math:`v^\star`, and not on
it: this is why they turn so slowly (Theorem 6.4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prgd.algorithms import GD
from prgd.core.checks import check_positive
from prgd.core.types import Array
from prgd.problem import Problem
from prgd_paper.theory.entropies import log_sum_exp, minimise_soft_loss, softmax_weights
from prgd_paper.theory.ray_geometry import Geometry, geometry, margin_errors
from prgd_paper.theory.sampled_runs import Times, iterates
from prgd_paper.theory.support import EPS
from prgd_paper.theory.velocity import decompose, direction_error


@dataclass(frozen=True, eq=False)
class Orthogonal:
    r"""The loss beside the ray and its minimiser; made by `orthogonal`.

    .. math::

        L_\perp(v) = \frac{1}{|I|} \sum_{i \in I} e^{-\langle v, P_\perp(z_i) \rangle}

    Attributes
    ----------
    geometry : Geometry
    v_star : ndarray of shape (d,)
        The minimiser in the span of the support's :math:`P_\perp(z_i)`.
    log_loss_star : float
        :math:`\log L_\perp(v^\star)`, at most 0.
    curvature : pair of float
        The smallest and largest eigenvalue of the Hessian of :math:`\log L_\perp` at ``v_star``, on that
        span; NGD converges to ``v_star`` when its step is below ``2 / curvature[1]``.
    """

    geometry: Geometry
    v_star: Array
    log_loss_star: float
    curvature: tuple[float, float]

    def log_loss(self, v: Any) -> float:
        r"""Return :math:`\log L_\perp(v)`; a part of v along ``w_star`` does not count."""
        return float(log_sum_exp(self._exponent(v))) - math.log(self.geometry.n_support)

    def loss(self, v: Any) -> float:
        r"""Return :math:`L_\perp(v)`."""
        return math.exp(self.log_loss(v))

    def gradient(self, v: Any) -> Array:
        r"""Return :math:`\nabla L_\perp(v)`, a vector of shape (d,) orthogonal to ``w_star``."""
        g = self.geometry
        weights = np.exp(self._exponent(v))
        return g.basis @ (weights @ g.U[g.is_support]) / g.n_support

    def _exponent(self, v: Any) -> Array:
        g = self.geometry
        v = np.asarray(v, dtype=np.float64)
        if v.shape != (g.Z.shape[1],):
            raise ValueError(f"v must have shape ({g.Z.shape[1]},); got {v.shape}.")
        return np.asarray(g.U[g.is_support] @ (g.basis.T @ v))


def orthogonal(data: Any) -> Orthogonal:
    r"""Return the loss beside the max-margin ray, with its unique minimiser ``v_star`` to rounding.

    .. math::

        L_\perp(v) = \frac1{|I|} \sum_{i \in I} e^{\langle v, u_i\rangle}, \qquad v^\star = \arg\min_v
        L_\perp(v)

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry

    Returns
    -------
    Orthogonal

    Raises
    ------
    NotSeparableError
        When there is no separator.
    ValueError
        When no dual weights are positive on every support vector: then :math:`L_\perp` has no minimiser.

    Notes
    -----
    The dual weights that the minimiser selects are proportional to
    :math:`e^{-\langle v^\star, P_\perp(z_i) \rangle}`: setting the gradient to zero gives
    :math:`\sum_i e^{-\langle v^\star, z_i \rangle} P_\perp(z_i) = 0`.

    References
    ----------
    Appendix C.2 (definition of :math:`L_\perp`) and Theorem C.6 of the paper.

    Examples
    --------
    >>> import prgd
    >>> found = orthogonal(prgd.datasets.toy(0.6))
    >>> abs(float(found.v_star[1]) - math.log(2) / 1.6) < 1e-15  # log 2 / (2 sqrt(1 - gamma^2))
    True
    """
    g = geometry(data)
    if "positive" in g.degenerate:
        raise ValueError(
            "No dual weights are positive on every support vector (Assumption 5.4 fails), so L_perp has no "
            "minimiser: P_perp(w) drifts to infinity along GD and NGD. See "
            "prgd_paper.theory.nondegeneracy.assumptions."
        )
    U = g.U[g.is_support]
    _, sigma, Vt = np.linalg.svd(U, full_matrices=False)
    longest = float(np.linalg.norm(g.Z, axis=1).max())
    V = Vt[sigma > longest * max(U.shape) * EPS].T
    if V.shape[1] == 0:
        return Orthogonal(g, np.zeros(g.Z.shape[1]), 0.0, (math.inf, 0.0))
    rows = U @ V
    x = minimise_soft_loss(-rows, 0.0, np.zeros(V.shape[1])).astype(np.float64)
    p, value = softmax_weights(rows @ x), float(log_sum_exp(rows @ x)) - math.log(len(rows))
    eigenvalues = np.linalg.eigvalsh((rows.T * p) @ rows - np.outer(p @ rows, p @ rows))
    return Orthogonal(g, g.basis @ (V @ x), value, (float(eigenvalues[0]), float(eigenvalues[-1])))


class GDLimit(NamedTuple):
    r"""GD's asymptote: :math:`w(t) = \text{slope} \log t + \tilde w + o(1)`.

    ``slope`` is :math:`w^\star / \gamma^\star`, ``w_tilde`` the limit and ``along`` its part
    :math:`\langle \tilde w, w^\star \rangle`; the rest of it is ``v_star``.
    """

    slope: Array
    w_tilde: Array
    along: float


def gd_limit(data: Any, eta: float = 1.0) -> GDLimit:
    r"""Return the limit of :math:`w(t) - (w^\star/\gamma^\star) \log t` along GD.

    With L a mean over n rows and :math:`w^\star` a unit vector,

    .. math::

        \tilde w = v^\star + \frac{w^\star}{\gamma^\star}
            \log\Big( \frac{\eta\, \gamma^{\star 2} |I|}{n} L_\perp(v^\star) \Big), \qquad
        \frac{\eta}{n} e^{-\langle \tilde w, z_i \rangle} = a_i, \quad
        \frac{w^\star}{\gamma^\star} = \sum_{i \in I} a_i z_i .

    Parameters
    ----------
    data : array Z of shape (n, d), pair (X, y), Dataset or Geometry
    eta : float
        GD's step, literally: ``GD.eta * problem.unit``.

    Returns
    -------
    GDLimit

    Raises
    ------
    ValueError
        When the data are degenerate: then the limit depends on the path.

    Notes
    -----
    Why: let :math:`w(t) = (w^\star/\gamma^\star) \log t + \tilde w + o(1)`. A support vector's margin is
    :math:`\log t + \langle \tilde w, z_i \rangle`, so the step is
    :math:`\frac{\eta}{nt} \sum_{i \in I} e^{-\langle \tilde w, z_i \rangle} z_i + o(1/t)`, and it must be
    :math:`\frac{1}{t} w^\star/\gamma^\star`. The part of this equation orthogonal to :math:`w^\star` says
    :math:`\nabla L_\perp(P_\perp(\tilde w)) = 0`, hence :math:`P_\perp(\tilde w) = v^\star`; the part along
    it gives the logarithm. Theorem C.7 prints :math:`w^\star \log t` and no 1/n: it quotes Soudry et al.,
    where L is a sum and their :math:`\hat w` has norm :math:`1/\gamma^\star`.

    References
    ----------
    Theorem C.7 of the paper, corrected; Soudry et al. (2018), Theorem 4.

    Examples
    --------
    >>> import prgd
    >>> data = prgd.datasets.toy(0.6)
    >>> limit = gd_limit(data)
    >>> w = prgd.run(prgd.Problem(*data), prgd.GD(), stop=10_000).w
    >>> bool(np.linalg.norm(w - limit.slope * math.log(10_000) - limit.w_tilde) < 0.01)
    True
    """
    check_positive("eta", eta)
    found = orthogonal(data)
    g = found.geometry
    if g.degenerate:
        raise ValueError(
            f"The data are degenerate (Assumption 5.4 fails: {g.degenerate}), so GD's limit depends on its "
            "path."
        )
    gamma_star, w_star = g.reference.gamma_star, g.reference.w_star
    share = math.log(eta * gamma_star**2 * g.n_support / g.n) + found.log_loss_star
    along = share / gamma_star
    return GDLimit(w_star / gamma_star, along * w_star + found.v_star, along)


class Trace(NamedTuple):
    """A run seen from the ray, at chosen times; each but the target an array over these."""

    target: Orthogonal
    log_t: Array
    w: Array  # of shape (m, d)
    along: Array  # <w, w_star>
    off: Array  # ||P_perp(w)||
    distance: Array  # ||P_perp(w) - v_star||
    direction: Array  # ||w/||w|| - w_star||
    margin: Array  # gamma_star - gamma(w)
    gd_distance: Array  # ||w - slope log t - w_tilde||, NaN unless the algorithm is GD on spanning data

    @property
    def t(self) -> Array:
        """The times, whole numbers; infinite where no float holds them."""
        with np.errstate(over="ignore"):
            return np.rint(np.exp(self.log_t))


def follow(problem: Problem, algorithm: Any, target: Orthogonal, times: Times, w0: Any = None) -> Trace:
    r"""Run an algorithm and measure, at each time, how far its orthogonal part is from ``v_star``.

    Parameters
    ----------
    problem : Problem
        Of the same rows as ``target``.
    algorithm : Algorithm, e.g. `prgd.NGD`.
    target : Orthogonal
    times : increasing integers of at least 1.
    w0 : array of shape (d,), optional

    Returns
    -------
    Trace

    References
    ----------
    Theorems C.6 and C.7 of the paper.

    Examples
    --------
    >>> import prgd
    >>> data = prgd.datasets.toy(0.6)
    >>> trace = follow(prgd.Problem(*data), prgd.NGD(), orthogonal(data), [1, 10, 50])
    >>> trace.distance.round(6)  # NGD's orthogonal part converges to v_star
    array([1.6655e-01, 1.7000e-05, 0.0000e+00])
    """
    g = target.geometry
    if problem.d != g.Z.shape[1] or problem.n != g.n:
        raise ValueError(
            f"The problem has {problem.n} rows of {problem.d} columns, the target {g.n} of {g.Z.shape[1]}."
        )
    W = iterates(problem, algorithm, times, w0)
    log_t = np.log(np.array(times[: len(W)], dtype=np.float64))  # A run that diverges does not reach all.
    return seen_from_the_ray(
        target, log_t, W, algorithm.eta * problem.unit if type(algorithm) is GD else None
    )


def seen_from_the_ray(target: Orthogonal, log_t: Array, W: Array, gd_eta: float | None = None) -> Trace:
    """Return the `Trace` of iterates; ``gd_eta`` is GD's step if they are GD's."""
    g = target.geometry
    along, off = decompose(W, g.reference.w_star)
    gd_distance = np.full(log_t.size, math.nan)
    if gd_eta is not None and not g.degenerate:
        limit = gd_limit(g, gd_eta)
        gd_distance = np.linalg.norm(W - np.outer(log_t, limit.slope) - limit.w_tilde, axis=1)
    return Trace(
        target,
        log_t,
        W,
        along,
        np.linalg.norm(off, axis=1),
        np.linalg.norm(off - target.v_star, axis=1),
        direction_error(W, g.reference.w_star),
        margin_errors(g, W),
        gd_distance,
    )
