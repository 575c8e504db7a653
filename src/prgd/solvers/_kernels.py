"""The compiled steps of descent and of active sets, imported on first use.

CSR rows are given as ``(data, indices, indptr)``. The storage ``A`` of coordinate descent is ``(data,
indices, indptr, y, ridge, diagonal)``, with unsigned indices and pointers. Signed ones could count from the
end, which Numba checks at every entry, and the loops would take twice as long.
"""

from typing import Any

import numba as nb
import numpy as np

from prgd.rows._block_kernels import SAFE

MIN_CURVATURE = 1e-300  # the curvature along a pair of equal rows, which would divide by zero
_EXACT_EVERY = 64  # steps after which p^T G p is summed again instead of updated
DEPENDENT = 1e-26  # a row whose square falls below this fraction of itself depends on the rows chosen before
_MASK = 0x7FFFFFFFFFFFFFFF  # random numbers are positive 63-bit integers

_exact = nb.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
_jit = nb.njit(nogil=True, cache=True, fastmath=SAFE, error_model="numpy")
_inner = nb.njit(nogil=True, fastmath=SAFE, error_model="numpy")


@_inner
def _product(p: Any, g: Any) -> float:
    total = 0.0
    for k in range(p.size):
        total += p[k] * g[k]
    return total


@_exact
def descend(
    G: Any, diagonal: Any, group: Any, p: Any, g: Any, tol: float, max_steps: int, unit: float
) -> tuple[int, float]:
    """Take the steps of `prgd.solvers.working_set.descend`.

    ``unit`` keeps the product of two slopes from underflow. Arrays are made by the caller: compiling NumPy's
    functions would take longer than the steps.
    """
    m = p.size
    violation, square = 0.0, 0.0
    for step in range(max_steps):
        if step % _EXACT_EVERY == 0:
            square = _product(p, g)
        i_0, i_1, low_0, low_1 = -1, -1, np.inf, np.inf
        for k in range(m):
            if group[k] == 0:
                if g[k] < low_0:
                    low_0, i_0 = g[k], k
            elif g[k] < low_1:
                low_1, i_1 = g[k], k
        gain, bar, best_i, best_j, worst = 0.0, 0.0, -1, -1, 0.0
        for k in range(m):
            if p[k] > 0.0:
                i, low = (i_0, low_0) if group[k] == 0 else (i_1, low_1)
                slope = g[k] - low
                worst = max(worst, slope)
                curvature = max(diagonal[i] + diagonal[k] - 2.0 * G[i, k], MIN_CURVATURE)
                if unit * slope * slope > bar * curvature:  # otherwise no step of any length gains more
                    move = min(slope / curvature, p[k])
                    found = move * (slope - 0.5 * curvature * move)
                    if found > gain:
                        gain, best_i, best_j = found, i, k
                        bar = 2.0 * unit * gain
        if worst <= tol * square:
            square = _product(p, g)
        violation = worst / square if square > 0.0 else np.inf
        if best_i < 0 or worst <= tol * square:
            return step, violation if best_i >= 0 else 0.0
        i, j = best_i, best_j
        slope = g[j] - g[i]
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * G[i, j], MIN_CURVATURE)
        move = slope / curvature
        if move >= p[j]:
            move = p[j]
            p[j] = 0.0
        else:
            p[j] -= move
        p[i] += move
        square += move * (curvature * move - 2.0 * slope)
        for k in range(m):
            g[k] += move * (G[i, k] - G[j, k])
    return max_steps, violation


@_inner
def _dot(A: Any, i: int, w: Any) -> float:
    """Return ``<w, x_i>``."""
    data, indices, indptr = A[0], A[1], A[2]
    total = 0.0
    for e in range(indptr[i], indptr[i + 1]):
        total += data[e] * w[indices[e]]
    return total


@_inner
def _add(A: Any, i: int, factor: float, w: Any) -> None:
    """Add ``factor x_i`` to w."""
    data, indices, indptr = A[0], A[1], A[2]
    for e in range(indptr[i], indptr[i + 1]):
        w[indices[e]] += factor * data[e]


@_inner
def _shuffle(rows: Any, count: int, seed: int) -> int:
    """Permute the first ``count`` rows at random by Marsaglia's xorshift; return the next seed."""
    for k in range(count - 1, 0, -1):
        seed ^= (seed << 13) & _MASK
        seed ^= seed >> 7
        seed ^= (seed << 17) & _MASK
        j = seed % (k + 1)
        rows[k], rows[j] = rows[j], rows[k]
    return seed


@_jit
def gather(A: Any, rows: Any, B: Any) -> None:
    """Copy these rows to the storage B, whose pointers are known."""
    for k in range(rows.size):
        first, target = A[2][rows[k]], B[2][k]
        for e in range(B[2][k + 1] - target):
            B[0][target + e] = A[0][first + e]
            B[1][target + e] = A[1][first + e]


@_jit
def combine(A: Any, a: Any, w: Any) -> None:
    """Write ``Z^T a`` to w."""
    w[:] = 0.0
    for i in range(a.size):
        if a[i] != 0.0:
            _add(A, i, a[i] * A[3][i], w)


@_jit
def sweep(A: Any, a: Any, w: Any, rows: Any, count: int, state: Any, seed: int) -> tuple[int, int, int, int]:
    """Minimise over the weight of each of the first ``count`` rows in turn, in random order.

    ``state`` is (b, penalty, y^T a, level). Rows without weight whose margin exceeds ``1 + level`` leave the
    first ``count`` rows, and the largest violation seen becomes the next level.

    Returns
    -------
    tuple of int
        The rows that stay, the entries read, the weights that became or ceased to be zero, the next seed.
    """
    _, _, indptr, y, ridge, diagonal = A
    seed = _shuffle(rows, count, seed)
    b, penalty, balance, level = state[0], state[1], state[2], state[3]
    reads: Any = 0
    k, changes, worst, loss = 0, 0, 0.0, 0.0
    while k < count:
        i = rows[k]
        length: Any = np.int64(indptr[i + 1] - indptr[i])
        reads += length
        slope = y[i] * (_dot(A, i, w) + b + penalty * balance) + ridge[i] * a[i] - 1.0
        old = a[i]
        if old == 0.0 and slope >= 0.0:
            if slope > level:
                count -= 1
                rows[k], rows[count] = rows[count], i
            else:
                k += 1
            continue
        worst = max(worst, abs(slope))
        loss += 0.5 * slope * slope / ridge[i] if ridge[i] > 0.0 else np.inf
        new = max(old - slope / diagonal[i], 0.0)
        if new != old:
            changes += old == 0.0 or new == 0.0
            a[i] = new
            _add(A, i, (new - old) * y[i], w)
            balance += (new - old) * y[i]
            reads += length
        k += 1
    state[0], state[2], state[3], state[4] = b + penalty * balance, balance, worst, loss
    return count, reads, changes, seed


@_inner
def _centre(A: Any, r: Any, has_intercept: bool) -> tuple[float, float, float, float]:
    """Subtract the multiple b of the labels from r that leaves ``y^T D^-1 r = 0``.

    Returns
    -------
    tuple of float
        b, the square ``r^T D^-1 r`` that is left, the largest entry of r in absolute value, and the sum of
        ``r_i^2 / (2 ridge_i)``, infinite if a ridge is 0.
    """
    y, ridge, diagonal = A[3], A[4], A[5]
    b = 0.0
    if has_intercept:
        along, size = 0.0, 0.0
        for k in range(r.size):
            along += y[k] * r[k] / diagonal[k]
            size += 1.0 / diagonal[k]
        b = along / size
    rest, largest, loss = 0.0, 0.0, 0.0
    for k in range(r.size):
        r[k] -= b * y[k]
        square = r[k] * r[k]
        rest += square / diagonal[k]
        loss += 0.5 * square / ridge[k] if ridge[k] > 0.0 else np.inf
        largest = max(largest, abs(r[k]))
    return b, rest, largest, loss


@_jit
def equal_margins(
    A: Any, x: Any, w: Any, has_intercept: bool, reduction: float, goal: float, max_steps: int, work: Any,
    step: Any,
) -> tuple[int, float]:  # fmt: skip
    """Solve ``<Z^T x, z_i> + ridge_i x_i + b y_i = 1`` on all rows of A by conjugate gradients, from x.

    ``w = Z^T x`` is updated with x. With an intercept ``y^T x`` stays as it is. The iteration ends as soon as
    the residuals leave a gap of at most ``goal``: none exceeds it, or the primal and the dual of the soft
    margin differ by less than so many times the sum of x. It also ends once the weighted norm of the
    residuals has fallen by the factor ``reduction``. ``work`` has two rows of the size of x, ``step`` has the
    size of w.

    Returns
    -------
    tuple of int and float
        The steps taken, and b.
    """
    y, ridge, diagonal = A[3], A[4], A[5]
    r, q, total = work[0], work[1], 0.0
    for k in range(x.size):
        r[k] = 1.0 - y[k] * _dot(A, k, w) - ridge[k] * x[k]
        total += x[k]
    b, rest, largest, loss = _centre(A, r, has_intercept)
    rest_goal = reduction * reduction * rest
    for k in range(x.size):
        q[k] = r[k] / diagonal[k]
    for t in range(max_steps):
        if largest <= goal or loss <= goal * total or rest <= rest_goal:
            return t, b
        combine(A, q, step)
        curvature = _product(step, step)
        for k in range(x.size):
            curvature += ridge[k] * q[k] * q[k]
        if not curvature > 0.0:
            return t, b
        size = rest / curvature
        for j in range(step.size):
            w[j] += size * step[j]
        for k in range(x.size):
            x[k] += size * q[k]
            r[k] -= size * (y[k] * _dot(A, k, step) + ridge[k] * q[k])
        last = rest
        change, rest, largest, loss = _centre(A, r, has_intercept)
        b += change
        for k in range(x.size):
            q[k] = r[k] / diagonal[k] + rest / last * q[k]
    return max_steps, b


@_inner
def _remove(out: int, count: int, chosen: Any, a: Any, Q: Any, R: Any) -> None:
    """Remove a row from the active set of `nearest_point`, of which so many are left."""
    for k in range(out, count):
        a[k], chosen[k] = a[k + 1], chosen[k + 1]
        for j in range(k + 2):
            R[j, k] = R[j, k + 1]
    for k in range(out, count):  # Givens rotations make R triangular again
        root = np.hypot(R[k, k], R[k + 1, k])
        cosine, sine = R[k, k] / root, R[k + 1, k] / root
        for j in range(Q.shape[1]):
            x, y = R[k, j], R[k + 1, j]
            R[k, j], R[k + 1, j] = cosine * x + sine * y, cosine * y - sine * x
            x, y = Q[k, j], Q[k + 1, j]
            Q[k, j], Q[k + 1, j] = cosine * x + sine * y, cosine * y - sine * x


@_jit
def nearest_point(
    Z: Any, tol: float, max_steps: int, count: int, chosen: Any, a: Any, Q: Any, R: Any, work: Any
) -> tuple[int, int]:
    """Minimise ``||Z^T a||^2 / 2 - sum a`` over ``a >= 0`` by a dual active set.

    The first ``count`` rows ``chosen`` carry the weights a, and ``Z_chosen^T = Q^T R`` with orthonormal rows
    of Q. In each step the row of smallest margin along ``w = Z^T a`` gains weight until its margin is 1, and
    rows whose weight vanishes on the way leave. The iteration ends once no margin is below ``1 - tol``, or
    after ``max_steps``. ``work`` has four rows of the size of w, which is the first.

    Returns
    -------
    tuple of int
        The count; and 0 at the end, 1 if steps are left, 2 if the weights balance the rows.
    """
    w, step, c, r = work[0], work[1], work[2], work[3]
    i, margin, weight = -1, 0.0, 0.0
    while True:
        max_steps -= 1
        if i < 0:
            margin, weight = 1.0 - tol, 0.0
            for k in range(len(Z)):
                product = _product(Z[k], w)
                if product < margin:
                    margin, i = product, k
            if i < 0 or max_steps < 0:
                return count, int(i >= 0)
        size = 0.0
        for j in range(w.size):
            step[j] = Z[i, j]
            size += step[j] * step[j]
        for repeat in range(2):  # the second projection removes what rounding left
            for k in range(count):
                along = _product(Q[k], step)
                c[k] = along if repeat == 0 else c[k] + along
                for j in range(w.size):
                    step[j] -= along * Q[k, j]
        square, out = _product(step, step), -1
        for k in range(count - 1, -1, -1):
            rest = c[k]
            for j in range(k + 1, count):
                rest -= R[k, j] * r[j]
            r[k] = rest / R[k, k]
        is_dependent = square <= DEPENDENT * size
        length = np.inf if is_dependent else (1.0 - margin) / square
        for k in range(count):
            if r[k] > 0.0 and a[k] < length * r[k]:
                length, out = a[k] / r[k], k
        if length == np.inf:  # the row is a combination of the others with weights that are not positive
            chosen[count], a[count] = i, 1.0
            for k in range(count):
                a[k] = -r[k]
            return count + 1, 2
        for k in range(count):
            a[k] = max(a[k] - length * r[k], 0.0)
        weight += length
        if not is_dependent:
            margin += length * square
            for j in range(w.size):
                w[j] += length * step[j]
        if out < 0:
            R[count, count], a[count], chosen[count] = np.sqrt(square), weight, i
            for k in range(count):
                R[k, count] = c[k]
            for j in range(w.size):
                Q[count, j] = step[j] / R[count, count]
            count, i = count + 1, -1
            continue
        count -= 1
        _remove(out, count, chosen, a, Q, R)
