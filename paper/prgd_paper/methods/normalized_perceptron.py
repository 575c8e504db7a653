"""The normalized perceptron."""

from __future__ import annotations

from dataclasses import dataclass

from prgd.core.types import Array
from prgd_paper.methods._hull import HullMethod, Support


@dataclass(frozen=True)
class NormalizedPerceptron(HullMethod):
    r"""The perceptron that takes the row of smallest margin, as a mean of rows instead of their sum.

    .. math::

        u_{t+1} = \Bigl(1 - \frac{1}{t+1}\Bigr) u_t + \frac{1}{t+1} z_i, \qquad
        i = \arg\min_k \langle u_t, z_k \rangle

    It is the subgradient method on :math:`\frac12 \|u\|^2 - \min_k \langle u, z_k \rangle`, whose least point
    is ``gamma_star w_star``, and Frank-Wolfe's method with steps 1 / (t + 1) on ``||Z^T p||``. With an
    intercept a step takes one row of each class. The iterate is ``w = problem.unit * u``, and ``u = Z^T p``
    witnesses the upper bound ``||u||``. A step makes two passes.

    Notes
    -----
    With c = gamma_star w_star and rows of norm at most 1,

    .. math:: \|u_t - c\|^2 \le (1 - \gamma_\star^2) / t, \qquad
        \|u_t\| - \gamma(u_t) \le 2 / (\gamma_\star \sqrt t).

    Proof: ``t (u_t - c) = (t - 1) (u_{t-1} - c) + (z_i - c)``, and ``<u_{t-1} - c, z_i - c> <= 0``: c is in
    the hull, so ``<u_{t-1}, z_i> <= <u_{t-1}, c>``, and ``<c, z_i> >= ||c||^2``. So ``t^2 ||u_t - c||^2``
    grows by ``||z_i - c||^2 <= 1 - gamma_star^2`` at most. The second bound follows from ``<u_t, z_k> >=
    gamma_star^2 - e`` and ``||u_t|| <= gamma_star + e`` with ``e = ||u_t - c||``.

    ``w0`` only chooses the first row: that of smallest margin along w0, or along the mean row if w0 is 0.

    References
    ----------
    Ramdas and Pena (2016), Towards a deeper geometric, analytic and algorithmic understanding of margins.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> prgd.run(problem, NormalizedPerceptron(), stop=100).certificate.gap < 0.1
    True
    """

    def move(self, support: Support, t: int) -> Array:
        """Give the row of smallest margin the weight 1 / (t + 1)."""
        return t / (t + 1) * support.p + support.corner(support.entering) / (t + 1)
