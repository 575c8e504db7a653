"""What the moves of a solve cost, in nanoseconds on one core: these estimates choose the cheaper one."""

from __future__ import annotations

from prgd.problem import Problem
from prgd.solvers.working_set import WorkingSet

# A problem with at most so many rows starts with all of them, if their entries and products are not too many.
_FEW_ROWS, _FEW_ENTRIES, _FEW_PRODUCTS = 256, 2**23, 10**9
# With so many columns for each row most rows will carry weight, so more rows are taken at once.
_MANY_COLUMNS, MAX_ROWS_AT_ONCE = 10, 2048
# On a device the interior point takes all rows at once if they are not many more than columns.
_MAX_DEVICE_ROWS_PER_COLUMN, MAX_DEVICE_ENTRIES = 8, 2**28
# Multiplications of a matrix product, times threads, up to which BLAS gets one thread: its threads wait by
# spinning, and on two cores that others use too they made a solve take ten times as long.
_SMALL_PRODUCTS = 2**33
FIRST_STEPS = 500  # steps of descent before the support is looked at
# Nanoseconds of a pivot (factorisation, copies and products, calls), and of a step of descent for each row of
# the set and each one that carries weight.
_NS_CUBE, _NS_SQUARE, _NS_CALL, _NS_STEP, _NS_WEIGHT = 0.012, 3.0, 1e5, 1.5, 5.0
_PIVOT_ROUNDS, _INTERIOR_STEPS = 3, 20  # how many factorisations the two usually take


def is_small(problem: Problem, on_device: bool) -> bool:
    """Say whether the products of all rows cost less than the passes that find the rows that matter."""
    n, d = problem.n, problem.d
    if on_device:
        return n <= max(MAX_ROWS_AT_ONCE, _MAX_DEVICE_ROWS_PER_COLUMN * d) and n * d <= MAX_DEVICE_ENTRIES
    if n > (_FEW_ROWS if d < _MANY_COLUMNS * n else MAX_ROWS_AT_ONCE):
        return False
    if problem.rows.is_sparse:
        return True
    return problem.rows.is_in_arrays and n * d <= _FEW_ENTRIES and n * n * d <= _FEW_PRODUCTS


def has_small_products(problem: Problem, threads: int) -> bool:
    """Say whether the matrix products of a solve are so small that BLAS does better with one thread."""
    n, d = problem.n, problem.d
    return (
        not problem.rows.is_on_device
        and min(n, 2 * d + _FEW_ROWS) * d * min(n, d) <= _SMALL_PRODUCTS // threads
    )


def steps_worth_a_pivot(support: int, m: int) -> int:
    """Return how many steps of descent on m rows take about as long as pivots on a support."""
    pivot = _NS_CUBE * support**3 + _NS_SQUARE * (support**2 + m**2) + _NS_CALL
    return int(_PIVOT_ROUNDS * pivot / (_NS_STEP * m + _NS_WEIGHT * support))


def max_steps_of_descent(working: WorkingSet, has_interior: bool) -> int:
    """Return how many steps a set is worth: few if an interior point takes over at a low cost."""
    m, d = working.size, working.dimensions
    max_steps = 2000 + 20 * m
    if not (has_interior and working.is_low_dimensional):
        return max_steps
    interior = _INTERIOR_STEPS * (_NS_CUBE * (3 * m + d) * d**2 + _NS_CALL)
    return min(max_steps, FIRST_STEPS + int(0.5 * interior / (_NS_STEP * m)))
