"""What the zeros of sparse rows tell about their rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from prgd.core.arithmetic import odd_mantissas
from prgd.core.types import Indices, Mask
from prgd.proofs.elimination import residues

_PRIME = 8388593  # the largest prime below 2**23; products of two residues fit in int64
_CLOSE = 2.0**60  # products of integers below 2**53 that agree modulo 2**64 and to this distance are equal


def proportional_rows(Z: Any) -> Indices:
    """Return for each CSR row the first row of which it is a multiple, itself if none, and -1 if it is zero.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> proportional_rows(csr_array([[0.1, 0.2], [0.0, 0.0], [0.2, 0.4], [0.1, 0.3]])).tolist()
    [0, -1, 0, 3]
    """
    lengths = np.diff(Z.indptr)
    filled = np.flatnonzero(lengths)
    first = np.where(lengths > 0, np.arange(len(lengths)), -1)
    if not filled.size:
        return first
    starts, counts = Z.indptr[filled], lengths[filled]
    hashes = _scaled_hashes(Z, starts, counts)
    _, leaders, group = np.unique(hashes, return_index=True, return_inverse=True)
    leader = leaders[group.ravel()]
    same = (leader != np.arange(filled.size)) & (counts == counts[leader])
    same[same] = _are_multiples(Z, starts[same], starts[leader[same]], counts[same])
    first[filled[same]] = filled[leader[same]]
    return first


def _scaled_hashes(Z: Any, starts: Indices, counts: Indices) -> Indices:
    """Return numbers that are equal for rows that are multiples of each other, and rarely for others."""
    rng = np.random.default_rng(0)
    values = residues(Z.data, _PRIME).astype(np.int64) % _PRIME
    scale = np.repeat(_inverses(values[starts]), counts)
    hashes = np.zeros(starts.size, np.int64)
    for _ in range(2):
        weights = rng.integers(1, _PRIME, Z.shape[1])
        terms = values * weights[Z.indices] % _PRIME * scale % _PRIME
        hashes = hashes * _PRIME + np.add.reduceat(terms, starts) % _PRIME
    return hashes


def _inverses(values: Indices) -> Indices:
    """Return the inverses modulo the prime by Fermat's little theorem; 0 for 0."""
    result, power = np.ones_like(values), values.copy()
    for bit in reversed(bin(_PRIME - 2)[2:]):
        if bit == "1":
            result = result * power % _PRIME
        power = power * power % _PRIME
    return result


def _are_multiples(Z: Any, rows: Indices, others: Indices, counts: Indices) -> Mask:
    """Say exactly which rows, given by their starts, are multiples of others with as many entries."""
    if not rows.size:
        return np.empty(0, np.bool_)
    bounds = np.concatenate([[0], np.cumsum(counts)[:-1]])
    inside = np.arange(int(counts.sum())) - np.repeat(bounds, counts)
    here, there = np.repeat(rows, counts) + inside, np.repeat(others, counts) + inside
    mantissa, exponent = odd_mantissas(Z.data)
    a, b = mantissa[here], np.repeat(mantissa[others], counts)
    c, d = mantissa[there], np.repeat(mantissa[rows], counts)
    power = exponent[here] + np.repeat(exponent[others], counts)
    power -= exponent[there] + np.repeat(exponent[rows], counts)
    # Products of odd integers are odd, so equal products have equal powers of two.
    distance = np.abs(a.astype(np.float64) * b - c.astype(np.float64) * d)
    equal = (Z.indices[here] == Z.indices[there]) & (power == 0) & (a * b == c * d) & (distance < _CLOSE)
    return np.asarray(np.logical_and.reduceat(equal, bounds))


def filled_rows(pattern: Any) -> tuple[Indices, Indices]:
    """Return the largest set of columns that are zero except in as many rows, and these rows.

    If all columns are independent, every vector on these rows is a combination of these columns
    (the square part of Dulmage and Mendelsohn's decomposition).

    Parameters
    ----------
    pattern : CSR array of shape (columns, rows)
        1 where a column is not zero.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> columns, rows = filled_rows(csr_array([[1, 0, 0], [1, 1, 1]]))
    >>> columns.tolist(), rows.tolist()
    ([0], [0])
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    matched = maximum_bipartite_matching(pattern, perm_type="column")
    is_open = np.ones(pattern.shape[1], np.bool_)
    is_open[matched[matched >= 0]] = False
    is_reached = matched < 0
    while is_open.any():  # alternating paths from the rows without a column
        new = (pattern @ is_open.astype(np.float64) > 0.0) & ~is_reached
        is_reached |= new
        is_open = np.zeros_like(is_open)
        is_open[matched[new]] = True
    columns = np.flatnonzero(~is_reached)
    return columns, matched[columns].astype(np.int64)


def reachable(pattern: Any, rows: Indices) -> tuple[Indices, Indices]:
    """Return the columns that a combination equal to a vector on some rows can have, and as many rows.

    Parameters
    ----------
    pattern : CSR array of shape (r, r), columns by rows
        Not zero where a column is not zero; all columns are independent.
    rows : ndarray of int
        The rows on which the vector is not zero.
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    matched = maximum_bipartite_matching(pattern, perm_type="row")
    is_inside, new = np.zeros(matched.size, np.bool_), np.unique(rows)
    while new.size:  # A row that is not zero needs the column matched with it, which brings its other rows.
        is_inside[new] = True
        touched = np.unique(pattern[matched[new]].indices)
        new = touched[~is_inside[touched]]
    inside = np.flatnonzero(is_inside)
    columns = matched[inside].astype(np.int64)
    order = np.argsort(columns)
    return columns[order], inside
