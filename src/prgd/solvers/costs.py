"""What steps of the solvers cost, in nanoseconds on one core: these estimates choose the cheaper way.

Only their ratios matter. They were measured on one core of a server of 2023, with OpenBLAS.
"""

from __future__ import annotations

NS_CALL = 1e5  # for the calls of a pivot or of a step of the interior point
NS_CUBE = 0.012  # for the cube of the dimension in a factorisation of LAPACK
NS_SQUARE = 3.0  # for an entry of a matrix that a pivot copies and multiplies
NS_STEP, NS_WEIGHT = 1.5, 5.0  # for each row of a step of descent, and for each one that carries weight
NS_ENTRY = 1.0  # for an entry that a pass reads
NS_PASS = 2e4  # for a pass, however few rows it reads
NS_FLOP = 0.05  # for a multiplication and an addition in a dense product
NS_SPARSE_PAIR = 0.35  # for an entry of a sparse row and each row whose product with it is computed
NS_BLOCK, NS_SUM = 15e3, 2.0  # for a small product of BLAS, and for an entry that is summed instead
FIRST_STEPS = 500  # steps of descent before the support is looked at
_PIVOT_ROUNDS, _INTERIOR_STEPS = 3, 20  # how many factorisations the two usually take


def steps_worth_a_pivot(support: int, m: int) -> int:
    """Return how many steps of descent on m rows take about as long as pivots on a support."""
    pivot = NS_CUBE * support**3 + NS_SQUARE * (support**2 + m**2) + NS_CALL
    return int(_PIVOT_ROUNDS * pivot / (NS_STEP * m + NS_WEIGHT * support))


def max_steps_of_descent(m: int, d: int, has_interior: bool) -> int:
    """Return how many steps a set of m rows is worth: few if an interior point in d dimensions takes over."""
    max_steps = 2000 + 20 * m
    if not has_interior:
        return max_steps
    interior = _INTERIOR_STEPS * (NS_CUBE * (3 * m + d) * d**2 + NS_CALL)
    return min(max_steps, FIRST_STEPS + int(0.5 * interior / (NS_STEP * m)))
