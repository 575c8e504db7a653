"""Progressive rescaling in any norm, with steps that stay inside the ball."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prgd.algorithms.base import norm_for
from prgd.algorithms.prgd import PRGD, PRGDState
from prgd.core.types import Array
from prgd.norms import L1, Linf, Norm, Spectral
from prgd.problem import Problem


def inside(norm: Norm, w: Array, u: Array, length: float, R: float) -> Array:
    r"""Return the best point of a ball near w: no other has a larger ``<u, v>``.

    .. math:: \mathrm{argmax} \{ \langle u, v \rangle : \|v\| \le R, \|v - w\| \le a \}, \qquad \|w\| \le R

    In l-infinity this is the step of sign descent, clipped; in l1 the step of coordinate descent, which takes
    from the worst coordinates what the ball has no room for. Other norms have no such formula here: the
    spectral one gets the nearest point of the ball to the steepest step (singular values are clipped), all
    others its radial projection.

    Examples
    --------
    >>> from prgd.norms import as_norm
    >>> inside(as_norm("linf"), np.array([3.0, 1.0]), np.array([1.0, 2.0]), 1.5, 3.0)
    array([3. , 2.5])
    >>> inside(as_norm("l1"), np.array([2.0, 1.0]), np.array([3.0, 0.5]), 1.0, 3.0)
    array([2.5, 0.5])
    """
    if isinstance(norm, L1):
        return _moved_mass(w, u, length, R)
    v = w + length * norm.steepest(u)
    if isinstance(norm, Linf):
        return np.clip(v, -R, R)
    if isinstance(norm, Spectral) and norm(v) > R:
        U, s, Vt = np.linalg.svd(v, full_matrices=False)
        return np.asarray((U * np.minimum(s, R)) @ Vt)
    return norm.project(v, R)


def _moved_mass(w: Array, u: Array, length: float, R: float) -> Array:
    """Return the best point of the l1 ball near w: the largest entry of u gains, the smallest ones pay."""
    v, k = w.astype(np.float64), int(np.abs(u).argmax())
    best, sign = abs(u.flat[k]), np.sign(u.flat[k])
    # An entry of the other sign shrinks first, and the room that this frees counts twice.
    free = max(R - float(np.abs(v).sum()), 0.0) + 2.0 * max(-sign * v.flat[k], 0.0)
    v.flat[k] += sign * min(length, free)
    left, worth = length - free, np.where(v != 0.0, np.sign(v) * u, np.inf).ravel()
    for i in np.argsort(worth):
        if left <= 0.0 or worth[i] >= best:
            break
        mass = min(0.5 * left, abs(v.flat[i]))  # a unit of mass that moves is a length of two
        v.flat[i] -= np.sign(v.flat[i]) * mass
        v.flat[k] += sign * mass
        left -= 2.0 * mass
    return v


@dataclass(frozen=True, repr=False)
class InsidePRGD(PRGD):
    r"""Algorithm 1 in any norm, with steps that stay inside the ball of radius R_k. Ours, not the paper's.

    .. math::

        w(T_k + 1) &= R_k\, w(T_k) / \|w(T_k)\| \\
        w(t + 1) &= \mathrm{argmax} \{ \langle u, v \rangle : \|v\| \le R_k, \|v - w(t)\| \le a \}, \quad
        a = \eta \|u\|_*, \quad u = Z^\top p

    The length a is that of the step of `PRGD`, in units of ``problem.unit``. In l1 and l-infinity the radial
    projection of `PRGD` keeps an angle for good where w_star is a corner of the ball; these steps do not, and
    their error falls exponentially if w_star is unique (``docs/any_norm.md``, Theorem 3). In other norms see
    `inside`.

    Parameters
    ----------
    R : Radius or StateRadius, ``(k, R_0) -> R_k``; a StateRadius also sees the iterate. It may be what
        `prgd.schedules.as_radius` reads, such as 1.2 or ``"polynomial:0.6"``.
    T : Times, ``k -> T_k`` with ``T_0 = 0``, or what `prgd.schedules.as_times` reads, such as 5.
    eta : float, in units of ``problem.unit``.
    R_0 : float, optional; ``||w0||`` by default.
    project : bool, without effect: all steps stay inside the ball.
    norm : Norm, text or number, optional; that of the problem by default.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem([[1.0, 2.0], [3.0, -1.0]], norm="linf")
    >>> result = prgd.run(problem, InsidePRGD(), np.array([3.0, 1.0]), stop=100)
    >>> result.certificate.lower > 1.999
    True
    """

    def step(self, problem: Problem, s: PRGDState) -> PRGDState:
        """Rescale, or take one step inside the ball."""
        if s.t == self.T(s.phase):
            rescaled: PRGDState = super().step(problem, s)
            return rescaled
        norm, u = norm_for(problem, self.norm), -s.at.normalized_gradient
        length = self.eta * problem.unit_in(norm) * norm.dual(u)
        return replace(s, t=s.t + 1, at=problem.at(inside(norm, s.w, u, length, s.R_k)))
