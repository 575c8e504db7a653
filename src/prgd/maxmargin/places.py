"""Where the rows lie, on the host or on a device, and what that changes in a solve.

Steps of pairwise descent are too small for a device: there the interior point solves every set, and the set
grows in larger parts.
"""

from __future__ import annotations

import numpy as np

from prgd.core.types import Array
from prgd.problem import Problem
from prgd.solvers.working_set import DeviceSet, WorkingSet

# A problem with at most so many rows starts with all of them, if their entries and products are not too many.
_FEW_ROWS, _FEW_ENTRIES, _FEW_PRODUCTS = 256, 2**23, 10**9
# With so many columns for each row most rows will carry weight, so more rows are taken at once.
_MANY_COLUMNS, _MAX_ROWS_AT_ONCE = 10, 2048
# On a device the interior point takes all rows at once if they are not many more than columns.
_MAX_DEVICE_ROWS_PER_COLUMN, _MAX_DEVICE_ENTRIES = 8, 2**28
_MIN_FIRST_ROWS, _MAX_FIRST_ROWS = 64, 256  # rows that start the working set
_MIN_NEW_ROWS = 64  # rows that join the working set in a round, at least
_MAX_ROWS = 5000  # above, rows that carry no weight and have large margins leave: a Gram matrix of 200 MB
_MAX_ROWS_WITHOUT_GRAM = 20_000  # the same limit if the interior point needs no Gram matrix
_INTERIOR_TOLERANCE = 1e-4  # gap at which the interior point has identified the support
# Multiplications of a matrix product, times threads, up to which BLAS gets one thread: its threads wait by
# spinning, and on two cores that others use too they made a solve take ten times as long.
_SMALL_PRODUCTS = 2**33


def has_small_products(problem: Problem, threads: int) -> bool:
    """Say whether the matrix products of a solve are so small that BLAS does better with one thread."""
    n, d = problem.n, problem.d
    return (
        not problem.rows.is_on_device
        and min(n, 2 * d + _FEW_ROWS) * d * min(n, d) <= _SMALL_PRODUCTS // threads
    )


class Host:
    """Rows that are solved in the memory of the host.

    Attributes
    ----------
    first_tolerance : float
        Relative violation at which the first solve of a growing set stops.
    nearly_violated : float
        Rows whose margin is below so many times that of the set join, if one is below it.
    few_joining : float
        Fraction of the set: if fewer rows join, the set is solved for good next.
    descends : bool
        Pairwise descent solves the sets; else the interior point does.
    """

    sets: type[WorkingSet] = WorkingSet
    first_tolerance, nearly_violated, few_joining, descends = 0.1, 1.0, 0.0, True
    max_first_rows = _MAX_FIRST_ROWS

    def is_small(self, problem: Problem) -> bool:
        """Say whether the products of all rows cost less than the passes that find the rows that matter."""
        n, d = problem.n, problem.d
        if n > (_FEW_ROWS if d < _MANY_COLUMNS * n else _MAX_ROWS_AT_ONCE):
            return False
        if problem.rows.is_sparse:
            return True
        return problem.rows.is_in_arrays and n * d <= _FEW_ENTRIES and n * n * d <= _FEW_PRODUCTS

    def max_rows(self, problem: Problem, descends: bool) -> int:
        """Return how many rows a set may have before those of large margin leave."""
        return _MAX_ROWS if descends else _MAX_ROWS_WITHOUT_GRAM

    def max_new_rows(self, p: Array) -> int:
        """Return how many rows may join a set of weights p: about as many as carry weight."""
        return max(_MIN_NEW_ROWS, int(np.count_nonzero(p)))

    def first_count(self, d: int) -> int:
        """Return how many rows start the set."""
        return min(max(_MIN_FIRST_ROWS, 2 * d), self.max_first_rows)

    def first_weights(self, working: WorkingSet) -> Array:
        """Put all weight on the shortest row of each group."""
        p, squares = np.zeros(working.size), np.diag(working.G)
        for group in range(working.groups):
            members = np.flatnonzero(working.group == group)
            p[members[np.argmin(squares[members])]] = 1.0
        return p

    def interior_tolerance(self, set_tol: float) -> float:
        """Return the gap to which the interior point solves a set."""
        return min(set_tol, _INTERIOR_TOLERANCE)


class Device(Host):
    """Rows that are solved on the device where they lie."""

    sets = DeviceSet
    first_tolerance, nearly_violated, few_joining, descends = 0.02, 1.25, 0.02, False
    max_first_rows = _MAX_ROWS_AT_ONCE

    def is_small(self, problem: Problem) -> bool:
        """Say whether the interior point takes all rows at once."""
        n, d = problem.n, problem.d
        max_rows = max(_MAX_ROWS_AT_ONCE, _MAX_DEVICE_ROWS_PER_COLUMN * d)
        return n <= max_rows and n * d <= _MAX_DEVICE_ENTRIES

    def max_rows(self, problem: Problem, descends: bool) -> int:
        """Return how many rows a set may have before those of large margin leave."""
        return max(_MAX_ROWS_WITHOUT_GRAM, _MAX_DEVICE_ENTRIES // problem.d)

    def max_new_rows(self, p: Array) -> int:
        """Return how many rows may join a set of weights p: as many as the set has."""
        return max(_MAX_ROWS_AT_ONCE, p.size)

    def first_weights(self, working: WorkingSet) -> Array:
        """Give all rows of a group the same weight."""
        return np.asarray(1.0 / np.bincount(working.group)[working.group])

    def interior_tolerance(self, set_tol: float) -> float:
        """Return the gap to which the interior point solves a set."""
        return set_tol
