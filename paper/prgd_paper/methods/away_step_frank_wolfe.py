"""Frank-Wolfe steps with away steps for the point of a hull that is nearest to the origin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from prgd.core.types import Array
from prgd_paper.methods._hull import HullMethod, Support


@dataclass(frozen=True)
class AwayStepFrankWolfe(HullMethod):
    r"""Move the shortest ``u = Z^T p`` towards the row of smallest margin, or away from that of largest.

    The shortest point of the hull is ``gamma_star w_star``. With p on the simplex and

    .. math::

        i = \arg\min_k \langle u, z_k \rangle, \qquad j = \arg\max_{k : p_k > 0} \langle u, z_k \rangle,

    a step goes along ``z_i - u`` if ``<u, u - z_i> >= <u, z_j - u>``, else along ``u - z_j``, by an exact
    line search; weights stay on the simplex, which limits a step of the second kind to ``p_j / (1 - p_j)``,
    where row j is dropped. With an intercept there is a row i and a row j of each class, and a step moves
    both of its points. The iterate is ``w = problem.unit * u``, and p witnesses the upper bound ``||u||``. A
    step makes two passes.

    Notes
    -----
    The rate is linear: ``||u||^2 - gamma_star^2`` falls by a constant factor at each step that drops no row,
    and at most half of all steps drop one. Without away steps it would be 1 / t. So "all existing algorithms
    ... at a slow polynomial rate" can be about gradient methods only (``docs/errata.md``, entry 1).

    ``w0`` only chooses the first row: that of smallest margin along w0, or along the mean row if w0 is 0.

    References
    ----------
    Kumar and Yildirim (2011), A linearly convergent linear-time first-order algorithm for support vector
    classification with a core set result. Lacoste-Julien and Jaggi (2015), On the global linear
    convergence of Frank-Wolfe optimization variants.

    Examples
    --------
    >>> import prgd
    >>> problem = prgd.Problem(*prgd.datasets.digits(0, 1), fit_intercept=True)
    >>> prgd.run(problem, AwayStepFrankWolfe(), stop=prgd.any_of(prgd.Gap(1e-4), 2000)).status.name
    'CERTIFIED'
    """

    def move(self, support: Support, t: int) -> Array:
        """Go towards the row of smallest margin, or away from that of largest."""
        p, m, places = support.p, support.margins, support.leaving()
        towards, away = support.corner(support.entering) - p, p - support.corner(places)
        if float(m @ towards) <= float(m @ away):
            return np.maximum(p + support.step_length(towards, 1.0) * towards, 0.0)
        # A class whose weight lies on one row has no weight to give: its rows do not limit the step.
        limits = [p[j] / -away[j] if away[j] < 0.0 else math.inf for j in places]
        length = support.step_length(away, min(limits))
        moved = np.maximum(p + length * away, 0.0)
        dropped = [j for j, limit in zip(places, limits, strict=True) if limit == length]
        moved[dropped] = 0.0
        return moved
