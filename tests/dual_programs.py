"""The largest margin as a dual program over all rows or pairs, written apart from prgd: HiGHS, Clarabel."""

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog


def two_classes(X, y):
    """Return the terms y_i x_i and the coefficients of the intercept."""
    return X * y[:, None], y[:, None].astype(float)


def pairs(X, y):
    """Return the terms x_i (x) (e_y - e_j) of all pairs and the coefficients of the intercepts."""
    classes, codes = np.unique(y, return_inverse=True)
    i, j = np.nonzero(np.arange(classes.size) != codes[:, None])
    factors = np.eye(classes.size)[codes[i]] - np.eye(classes.size)[j]
    return np.einsum("mk,md->mkd", factors, X[i]).reshape(i.size, -1), factors


def gamma_star(terms, intercepts, norm, shape=None):
    """Return the smallest ``||A^T p||_*`` over the simplex with ``B^T p = 0``; 0 if it is tiny."""
    size = float(np.abs(terms).max())
    first = _dual_program(terms / size, intercepts, norm, shape)
    if first < 1e-7:
        return 0.0
    # The tolerances of the solvers are absolute, so that a value of 1 is accurate to as many digits.
    return size * first * _dual_program(terms / (size * first), intercepts, norm, shape)


def _dual_program(A, B, norm, shape):
    m = len(A)
    equal = np.vstack([np.ones(m), B.T])
    right = np.eye(len(equal))[0]
    if norm in ("l1", "linf"):
        return _linear(A, equal, right, norm)
    # Variables: p, and those of the norm. Clarabel asks for limits - entries x in a cone.
    extra, entries, limits, cones = _epigraph(A, norm, shape)
    simplex = sp.block_array([[sp.csr_array(equal), sp.csr_array((len(equal), extra))]])
    positive = sp.block_array([[-sp.eye_array(m), sp.csr_array((m, extra))]])
    rows = sp.csc_matrix(sp.vstack([simplex, positive, entries]))
    cost = np.zeros(m + extra)
    cost[m] = 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads, settings.chordal_decomposition_enable = False, 1, False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    every = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(m), *cones]
    limits = np.concatenate([right, np.zeros(m), limits])
    nothing = sp.csc_matrix((cost.size, cost.size))
    found = clarabel.DefaultSolver(nothing, cost, rows, limits, every, settings).solve()
    return found.obj_val


def _linear(A, equal, right, norm):
    m, D = A.shape
    if norm == "l1":  # the dual norm is the largest entry
        bound, cost = np.ones((D, 1)), np.append(np.zeros(m), 1.0)
    else:
        bound, cost = np.eye(D), np.append(np.zeros(m), np.ones(D))
    above = np.vstack([np.hstack([A.T, -bound]), np.hstack([-A.T, -bound])])
    equal = np.hstack([equal, np.zeros((len(equal), bound.shape[1]))])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(cost, above, np.zeros(2 * D), equal, right, options=tight).fun


def _epigraph(A, norm, shape):
    m, D = A.shape
    first = sp.csr_array(np.eye(1, 1))
    if norm == "l2":  # (t, u) in a second-order cone
        entries = sp.block_array([[sp.csr_array((1, m)), -first], [sp.csr_array(-A.T), None]])
        return 1, entries, np.zeros(D + 1), [clarabel.SecondOrderConeT(D + 1)]
    if norm.startswith("lp:"):  # |u_j|^q <= t_j t^(q - 1), sum t_j <= t, with t = 1 after scaling
        p = float(norm[3:])
        q = p / (p - 1.0)
        j = np.arange(D)
        entries = sp.lil_array((3 * D + 1, m + 1 + D))
        entries[3 * j, m + 1 + j] = -1.0
        entries[3 * j + 1, m] = -1.0
        entries[2 : 3 * D : 3, :m] = -A.T
        entries[3 * D, m + 1 :] = 1.0
        entries[3 * D, m] = -1.0
        cones = [clarabel.PowerConeT(1.0 / q)] * D + [clarabel.NonnegativeConeT(1)]
        return D + 1, entries, np.zeros(3 * D + 1), cones
    K, d = shape  # the spectral norm, whose dual is the nuclear norm: (trace P + trace Q) / 2
    n = K + d
    column, row = np.tril_indices(n)
    is_w = (row < K) & (column >= K)
    scale = np.where(row == column, 1.0, np.sqrt(2.0))
    others = np.flatnonzero(~is_w)
    entries = sp.lil_array((row.size + 1, m + 1 + others.size))
    for at in np.flatnonzero(is_w):
        entries[at, :m] = -scale[at] * A[:, row[at] * d + column[at] - K]
    for k, at in enumerate(others):
        entries[at, m + 1 + k] = -scale[at]
        if row[at] == column[at]:
            entries[row.size, m + 1 + k] = 0.5
    entries[row.size, m] = -1.0
    cones = [clarabel.PSDTriangleConeT(n), clarabel.NonnegativeConeT(1)]
    return 1 + others.size, entries, np.zeros(row.size + 1), cones
