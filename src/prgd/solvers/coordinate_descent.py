r"""Coordinate descent on sparse rows: no Gram matrix is formed, and a step reads one row.

The dual of ``min ||w||^2 / 2`` subject to ``<w, z_i> + b y_i >= 1`` is

.. math:: \min_{a \ge 0} \tfrac12 \|Z^\top a\|^2 - \sum_i a_i \quad
   (\text{with } y^\top a = 0 \text{ if there is an intercept})

and ``w = Z^T a`` is kept in memory. The dual of a soft margin with prices c_i has the ridge
:math:`\tfrac12 \sum_i a_i^2 / c_i` more, and the same moves solve it. Three alternate:

1. `sweep` minimises over one weight after the other, in random order, and leaves out rows that have no weight
   and a large margin (Hsieh et al. 2008). Sweeps find the support in few passes, and its weights, too, if the
   price of slacks is moderate. With an intercept, the sum ``y^T a`` is penalised and b is its multiplier, so
   that single weights can move.
2. `solve_face` solves for the weights of the support by conjugate gradients, once more without those that
   became negative. A search along that step, with negative weights set to zero, keeps the upper bound
   ``||Z^T a|| / sum(a)`` from growing (Moré and Toraldo).
3. `measure` computes the margins of all rows: they give the gap, and the rows of the next sweep.

References
----------
C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan (2008). A dual coordinate descent method
for large-scale linear SVM. ICML.
J. J. Moré, G. Toraldo (1991). On the solution of large quadratic programming problems with bound constraints.
SIAM J. Optim. 1(1).
"""

import math
from typing import Any, NamedTuple, cast

import numpy as np

from prgd.core.arithmetic import SMALLEST
from prgd.core.threads import check_time
from prgd.core.types import Array, Indices
from prgd.norms import norm
from prgd.problem import Problem
from prgd.problem.certificate import DualWeights
from prgd.proofs.slacks import exact_step, soft_weights
from prgd.rows import MarginsAt
from prgd.solvers.costs import NS_ENTRY, NS_FLOP
from prgd.solvers.working_set import DENSE_FRACTION, ZERO_MARGIN

_FEW_ROWS = 256  # at most this many rows are solved faster by their Gram matrix, without compiled kernels
_ROWS_FOR_EACH_COLUMN = 25  # with more rows few of them carry weight, and a working set finds these faster
_COLUMNS_FOR_EACH_ENTRY = 8  # with more columns, vectors of d numbers cost more than the rows
_MAX_NORM = 1e50  # row norms between the inverse and this have weights in the floating range
_SMALL_ROW = 1e-24  # a row whose squared norm is below this fraction of the largest has no usable weight
# Products of entries after which a working set takes over: 0.1 s, or more for many entries, and for
# many pairs of rows that carry weight, since a working set would factorise the Gram matrix of these.
_MIN_WORK, _WORK_FOR_EACH_ENTRY, _WORK_FOR_EACH_PAIR = 10**8, 400, 100
# Products of entries for each one of two dense Newton steps over the columns, after which these take over.
_NEWTON_COST = 2.0 * NS_FLOP / NS_ENTRY
_PASSES_LEFT = 0.1  # fraction of the passes that are left to the working set
_FIRST_SWEEPS, _SWEEPS = 15, 5  # sweeps before conjugate gradients, at most
_FAST = 0.75  # ratio of the losses of two sweeps up to which sweeps go on: they outrun conjugate gradients
_MAX_RATE = 0.999  # the rate that is expected if the loss does not fall
_SETTLED = 0.02  # fraction of the support that may change in a sweep before conjugate gradients follow
_STILL = 0.002  # fraction of the support: if fewer weights changed in a sweep, the support is known
_PENALTY = 0.1  # penalty of the sum y^T a, in units of the mean squared row norm
_REDUCTION, _FEW_STEPS = 0.1, 10  # conjugate gradients end early while the support changes
_MAX_STEPS = 100  # conjugate gradients in one move
_GOAL = 0.7  # largest residual of the support, as a fraction of the tolerance
_SHORTER, _TRIALS = 0.4, 5  # factor by which a rejected step is shortened, and how often
_SEED = 88172645463325252


class RowWeights(NamedTuple):
    """Weights of the support, and the direction that was found with them.

    Attributes
    ----------
    weights : DualWeights
        Their sum is 1, or 1/2 in each class with an intercept, to rounding.
    passes : float
        Entries read where the data lie, divided by their number.
    w, b : ndarray of shape (d,) and float
        The direction, and the best intercept of a soft margin.
    """

    weights: DualWeights
    passes: float
    w: Array
    b: float


def suits(problem: Problem, is_soft: bool = False) -> bool:
    """Say whether the rows are CSR in memory, and more than a Gram matrix is fast for."""
    n, d = problem.n, problem.d
    if (A := problem.rows.csr_arrays) is None or n <= _FEW_ROWS:
        return False
    # A working set would store the rows of images as dense ones.
    if not is_soft and (n > _ROWS_FOR_EACH_COLUMN * d or A[1].size > DENSE_FRACTION * n * d):
        return False
    return d <= _COLUMNS_FOR_EACH_ENTRY * A[1].size and 1.0 / _MAX_NORM < problem.max_norm < _MAX_NORM


def row_weights(problem: Problem, tol: float, max_passes: float, C: float = math.inf) -> RowWeights | None:
    """Return weights whose gap is below ``tol``, or the best ones found; None if the rows are too uneven.

    C is the price of squared slacks.
    """
    descent = CoordinateDescent(problem, *cast(tuple[Any, Any, Any], problem.rows.csr_arrays), C)
    if float(descent.diagonal[descent.rows].min()) <= _SMALL_ROW * problem.max_norm**2:
        return None
    return descent.run(tol, (1.0 - _PASSES_LEFT) * max_passes)


class CoordinateDescent:
    """Weights a of all rows, ``w = Z^T a``, and the moves that the docstring of the module describes.

    Attributes
    ----------
    c : ndarray of shape (n,)
        The prices of squared slacks, infinite if the margin is hard.
    diagonal : ndarray of shape (n,)
        The squared row norms, the ridge 1 / c_i, and the penalty if there is an intercept.
    A : tuple of ndarray
        What the kernels take: the rows, their signs, the ridge (0 if the margin is hard), and the diagonal.
    rows, active : ndarray of int, and int
        The first ``active`` of these rows are swept; sweeps change their order.
    state : ndarray
        (b, penalty, y^T a, level, loss): what `_kernels.sweep` reads and writes.
    gap : float
        An estimate of the gap after the last sweep, infinite if the margin is hard.
    changes : int
        Weights that became or ceased to be zero in the last sweep.
    reads, work : int
        Entries read so far where the data lie, and products of entries, those of gathered rows included.
    """

    def __init__(self, problem: Problem, data: Any, indices: Any, indptr: Any, C: float = math.inf) -> None:
        from prgd.rows._kernels import row_squares
        from prgd.solvers import _kernels

        self.kernel, self.problem, labels, self.is_hard = _kernels, problem, problem.labels, math.isinf(C)
        self.entries, self.reads, self.work = max(int(indptr[-1] - indptr[0]), 1), 0, 0
        self.y, self.has_intercept = labels.signs, problem.fit_intercept
        self.counts = labels.sample_weight > 0.0 if labels.sample_weight.size else np.ones(problem.n, bool)
        self.rows = np.flatnonzero(self.counts)
        y = self.y[self.rows]
        self.groups = [self.rows[y == s] for s in (1, -1)] if self.has_intercept else [self.rows]
        self.b, self.w = 0.0, np.zeros(problem.d)
        self.a, self.margins, self.diagonal = np.zeros((3, problem.n))
        row_squares((data, indices, indptr), 0, problem.n, self.diagonal)
        penalty = _PENALTY * float(self.diagonal.mean()) if self.has_intercept else 0.0
        self.c = soft_weights(problem, C)
        ridge = np.divide(1.0, self.c, out=np.zeros(problem.n), where=self.counts)
        self.diagonal += penalty + ridge
        unsigned = [v.view(f"u{v.dtype.itemsize}") for v in (indices, indptr)]
        self.A = data, *unsigned, self.y, ridge, self.diagonal
        self.state, self.gap = np.array([0.0, penalty, 0.0, np.inf, np.inf]), np.inf
        self.active, self.changes, self.seed = self.rows.size, 0, _SEED

    def run(self, tol: float, max_passes: float) -> RowWeights | None:
        """Repeat the moves until the gap is below ``tol`` or no pass is left; None if no bound was found."""
        lower, upper, best, direction, is_face_known = -np.inf, np.inf, None, (self.w, 0.0), False
        max_sweeps, d = _FIRST_SWEEPS, self.problem.d
        newton = np.inf if self.is_hard else _NEWTON_COST * d * d * (self.a.size + d / 3.0)
        while self.sweep(max_sweeps, _GOAL * tol, newton):
            is_face_known |= self.changes <= _STILL * int(np.count_nonzero(self.a))
            if self.has_intercept or self.gap > _GOAL * tol:
                is_face_known = self.solve_face(is_face_known, _GOAL * tol)
            now_lower, now_upper = self.measure()
            if now_upper < upper:
                upper, best = now_upper, self.a.copy()
            if now_lower > lower:
                lower, direction = now_lower, (self.w.copy(), self.b)
            has_vanished = upper <= ZERO_MARGIN * self.problem.max_norm
            gap = (upper - lower) / upper if not has_vanished and upper < np.inf else np.inf
            # A working set may be faster after so many products.
            pairs = int(np.count_nonzero(self.a)) ** 2
            max_work = max(_MIN_WORK, _WORK_FOR_EACH_ENTRY * self.entries, _WORK_FOR_EACH_PAIR * pairs)
            is_spent = self.work >= min(max_work, newton) or self.reads >= max_passes * self.entries
            if gap <= tol or has_vanished or is_spent:
                break
            self.choose_rows(gap)
            max_sweeps = _SWEEPS
        if best is None:
            return None
        weights = DualWeights.normalized(self.problem, np.arange(best.size), best)
        return RowWeights(weights, self.reads / self.entries, *direction)

    def sweep(self, max_sweeps: int, goal: float, max_work: float) -> bool:
        """Sweep until the gap is small; return False if that would take more than ``max_work`` products.

        Slow sweeps end once the support has settled.
        """
        self.gap, loss, sweeps = np.inf, np.inf, 0
        while True:
            check_time()
            sweeps += 1
            self.active, reads, self.changes, self.seed = self.kernel.sweep(
                self.A, self.a, self.w, self.rows, self.active, self.state, self.seed
            )
            self.reads, self.work = self.reads + reads, self.work + reads
            # The steps of a sweep reduce the gap that the slopes before them give, the first most.
            before, loss = loss, float(self.state[4]) / max(float(self.a.sum()), SMALLEST)
            rate = min(loss / before, _MAX_RATE) if before < np.inf else _MAX_RATE
            self.gap = loss * (rate if sweeps > 2 else 1.0)
            support = int(np.count_nonzero(self.a))
            if self.gap <= goal:
                return True
            # If more rows carry weight than there are columns, their Gram matrix is singular up to the ridge.
            is_singular = support > self.w.size and sweeps > 2
            if is_singular and self.work - reads * math.log(self.gap / goal) / math.log(rate) > max_work:
                return False
            if rate > _FAST and (self.changes <= _SETTLED * support or sweeps >= max_sweeps):
                return True

    def solve_face(self, is_face_known: bool, goal: float) -> bool:
        """Move to equal margins on the support; return whether all its weights stay positive."""
        face = np.flatnonzero(self.a)
        A = self._gathered(face)
        start = self._balanced(self.a[face], A)
        if start is None:  # sweeps must give weight to both classes first
            return False
        if self.has_intercept or is_face_known:  # the weights have changed, or are nearly those of the end
            self._combine(A, start)
        upper, x = self._length(A, start) / float(start.sum()), start.copy()
        limits = (0.0, goal, _MAX_STEPS) if is_face_known else (_REDUCTION, goal, _FEW_STEPS)
        self._equal_margins(A, x, limits)
        if not (is_positive := bool(x.min() > 0.0)):
            kept = np.flatnonzero(x > 0.0)
            B = self._gathered(face[kept])
            part = self._balanced(x[kept], B)
            if part is not None:
                self._combine(B, part)
                self._equal_margins(B, part, limits)
                x[:] = 0.0
                x[kept] = part
            x = self._projected(A, start, x - start, upper)
        # The best multiple of the weights makes the margins of the support 1 on average.
        square = self._length(A, x) ** 2
        size = float(x.sum()) / square if square > 0.0 else 1.0
        self.a[face] = size * x
        self.w *= size
        self.state[2] = 0.0
        return is_positive

    def _equal_margins(self, A: Any, x: Array, limits: tuple[float, float, int]) -> None:
        """Replace weights x, whose vector is w, by such that leave equal margins, to the limits."""
        work = np.empty((2, x.size)), np.empty(self.w.size)
        steps, self.state[0] = self.kernel.equal_margins(A, x, self.w, self.has_intercept, *limits, *work)
        self.work += (2 * steps + 1) * A[0].size

    def _length(self, A: Any, x: Array) -> float:
        """Return the norm of ``Z^T x`` and of the roots of ``ridge_i x_i^2`` together."""
        return math.hypot(norm(self.w), norm(np.sqrt(A[4]) * x))

    def _projected(self, A: Any, start: Array, change: Array, max_upper: float) -> Array:
        """Return ``max(start + length change, 0)`` for a length at which the upper bound is small enough."""
        for trial in range(_TRIALS):
            x = self._balanced(np.maximum(start + _SHORTER**trial * change, 0.0), A)
            if x is not None:
                self._combine(A, x)
                if self._length(A, x) <= max_upper * float(x.sum()):
                    return x
        self._combine(A, start)
        return start

    def _balanced(self, x: Array, A: Any) -> Array | None:
        """Scale both classes so that ``y^T x = 0``, if there is an intercept; None if one has no weight."""
        if not self.has_intercept:
            return x
        y = A[3]
        plus, minus = float(x[y > 0].sum()), float(x[y < 0].sum())
        if not min(plus, minus) > 0.0:
            return None
        return np.asarray(x * np.where(y > 0, 0.5 + 0.5 * minus / plus, 0.5 + 0.5 * plus / minus))

    def _combine(self, A: Any, x: Array) -> None:
        self.kernel.combine(A, x, self.w)
        self.work += A[0].size

    def _gathered(self, rows: Indices) -> tuple[Any, ...]:
        """Copy rows to a storage of their own: scattered rows take a third longer to read."""
        data, indices, indptr, *numbers = self.A
        if rows.size == self.problem.n:
            return self.A
        pointers = np.append(np.uint64(0), np.cumsum(indptr[rows + 1] - indptr[rows]))
        found = np.empty(int(pointers[-1]), data.dtype), np.empty(int(pointers[-1]), indices.dtype), pointers
        self.kernel.gather(self.A, rows, found)
        self.reads += found[0].size
        return *found, *(v[rows] for v in numbers)

    def measure(self) -> tuple[float, float]:
        """Compute all margins; return the margin of w, at the best intercept, and the upper bound of a."""
        self.margins = self.problem.rows.ask(MarginsAt(self.w), self.problem.labels)
        self.reads += self.entries
        self.work += self.entries
        length, sums = self._length(self.A, self.a), [float(self.a[group].sum()) for group in self.groups]
        upper = length / sum(sums) if min(sums) > 0.0 else np.inf
        if self.is_hard:
            smallest = [float(self.margins[group].min()) for group in self.groups]
            return sum(smallest) / (len(smallest) * length) if length > 0.0 else -np.inf, upper
        if self.has_intercept:
            self.b = exact_step(self.margins, self.y.astype(float), self.c, 0.0, 0.0, float(self.state[0]))
        slack = np.maximum(1.0 - self.b * self.y - self.margins, 0.0)
        return 1.0 / math.sqrt(norm(self.w) ** 2 + float(self.c @ slack**2)), upper

    def choose_rows(self, gap: float) -> None:
        """Let the next sweep read the rows that carry weight, or whose margin is small against the gap."""
        margins = self.margins + self.state[0] * self.y
        self.rows = np.flatnonzero(self.counts & ((self.a > 0.0) | (margins < 1.0 + gap)))
        self.active, self.state[3] = self.rows.size, np.inf
