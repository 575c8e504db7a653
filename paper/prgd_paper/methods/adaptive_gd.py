"""Gradient descent with large steps that adapt to the risk."""

from __future__ import annotations

from dataclasses import dataclass

from prgd.algorithms.base import FixedStep, State
from prgd.norms import L2
from prgd.problem import Problem


@dataclass(frozen=True)
class AdaptiveGD(FixedStep):
    r"""Gradient descent whose steps are divided by the risk: a separator after 1 / gamma_star^2 steps.

    .. math:: w(t+1) = w(t) - \frac{\eta}{G(w(t))} \nabla L(w(t)) = w(t) + \eta Z^\top p, \qquad
        G(w) = \frac1n \sum_i -\ell'(\langle w, z_i \rangle), \quad
        p_i = \frac{-\ell'(\langle w, z_i \rangle)}{n G(w)}

    For the exponential loss G is the risk L itself, and the recursion is that of `NGD`, but for an eta that
    is as large as one likes. The loss may oscillate, and yet some iterate separates after few steps. For the
    logistic loss the division by G is ours: see the notes.

    Parameters
    ----------
    eta : float, in units of ``problem.unit_in(L2())``.

    Notes
    -----
    From w = 0, with rows of norm at most 1, for every eta and t,

    .. math:: \frac1t \sum_{k<t} \log G(w(k)) \le -\frac{\eta}{2} (\gamma_\star^2 t - 1),

    so soon after ``t = 1 / gamma_star^2`` some G(w(k)), k < t, is below exp(-Theta(eta)), and w(k) separates
    once ``n G(w(k)) < -l'(0)``. For the exponential loss log L is convex, and the mean of the iterates meets
    the bound too.

    Proof: ``||w(k+1) - v||^2 <= ||w(k) - v||^2 + 2 eta <Z^T p, w(k) - v> + eta^2``. For v along w_star,
    ``<Z^T p, v> >= gamma_star ||v||``. By ``-l'(m) <= e^-m`` and Jensen's inequality,
    ``<Z^T p, w(k)> <= sum_i p_i log(1 / -l'_i) <= log(1 / G(w(k)))``. Sum over k < t, and take
    ``||v|| = gamma_star eta t``.

    A step size that is a function of the risk alone has no such bound for the logistic loss. GD on
    ``-l^-1(L)``, which for the exponential loss is this method, would divide by ``1 - e^-L``. That is about 1
    while one row of n is far on the wrong side: the step is of length eta / n then, and the row delays a
    separator by a multiple of n steps.

    The reference is about the risk. That the margin's error falls like 1 / t is proven for ``eta <= 1`` only
    (`NGD`).

    References
    ----------
    Zhang, Wu, Lin and Bartlett (2025), Minimax optimal convergence of gradient descent in logistic regression
    via large and adaptive stepsizes: no first-order method separates in fewer than Omega(1 / gamma_star^2)
    steps on every set.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.toy(0.3))
    >>> bool(prgd.run(problem, AdaptiveGD(), stop=12).certificate.lower > 0)  # 1 / gamma_star^2 = 11.1
    True
    """

    eta: float = 10.0

    def step(self, problem: Problem, s: State) -> State:
        """Take one step of length ``eta ||Z^T p||``."""
        w = s.w + self.eta * problem.unit_in(L2()) * s.at.dual_vector
        return State(s.t + 1, problem.at(w))
