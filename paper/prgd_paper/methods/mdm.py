"""The method of Mitchell, Demyanov and Malozemov for the point of a hull that is nearest to the origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prgd.core.types import Array
from prgd_paper.methods._hull import HullMethod, Support


@dataclass(frozen=True)
class MDM(HullMethod):
    r"""Move weight between two rows at a time, to the shortest ``u = Z^T p``.

    The shortest point of the hull is ``gamma_star w_star``. With p on the simplex and

    .. math::

        i = \arg\min_k \langle u, z_k \rangle, \quad j = \arg\max_{k : p_k > 0} \langle u, z_k \rangle,
        \\
        \lambda = \min\Bigl(p_j, \frac{\langle u, z_j - z_i \rangle}{\|z_j - z_i\|^2}\Bigr),

    a step moves the weight lambda from row j to row i. With an intercept p has two simplices, of sum 1/2 for
    each class, and a step takes i and j in the class where ``<u, z_j - z_i>`` is larger. The iterate is
    ``w = problem.unit * u``, and p witnesses the upper bound ``||u||``. A step makes two passes.

    Notes
    -----
    These are the pairwise steps of Frank-Wolfe's method: ``||u||^2 - gamma_star^2`` falls by a constant
    factor at each step that is not cut short by ``lambda = p_j``. So the rate is linear in the number of such
    steps. The bound that is proven for the number of the others, which drop a row, is finite and loose; 10 of
    1,500 steps do on the digits 3 and 8. So MDM, like `AwayStepFrankWolfe`, is no "existing algorithm" of "a
    slow polynomial rate" (``docs/errata.md``, entry 1). Where two rows support the solution, its last step is
    exact.

    ``w0`` only chooses the first row: that of smallest margin along w0, or along the mean row if w0 is 0.

    References
    ----------
    Mitchell, Demyanov and Malozemov (1974), Finding the point of a polyhedron closest to the origin. Lopez
    and Dorronsoro (2010), A common framework for the convergence of the GSK, MDM and SMO algorithms, for two
    hulls. Lacoste-Julien and Jaggi (2015), On the global linear convergence of Frank-Wolfe optimization
    variants.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.digits(0, 1), fit_intercept=True)
    >>> prgd.run(problem, MDM(), stop=prgd.any_of(prgd.Gap(1e-6), 2000)).status.name
    'CERTIFIED'
    """

    def move(self, support: Support, t: int) -> Array:
        """Move weight from the row of largest margin to that of smallest."""
        m = support.margins
        pairs = zip(support.entering, support.leaving(), strict=True)
        i, j = max(pairs, key=lambda pair: m[pair[1]] - m[pair[0]])
        direction = np.zeros_like(m)
        direction[i] += 1.0
        direction[j] -= 1.0
        length = support.step_length(direction, support.p[j])
        return support.p + length * direction
