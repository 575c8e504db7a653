"""Norms and dual norms of matrices to the precision of mpmath, of entries that are not rounded."""

from fractions import Fraction

import mpmath

DUALS = {"l2": "l2", "l1": "linf", "linf": "l1", "spectral": "nuclear", "nuclear": "spectral"}


def exactly(name, m):
    """Return a norm of rows of mpmath numbers; a number in place of a name is the exponent p."""
    flat = [abs(x) for row in m for x in row]
    largest = max(flat)
    if largest == 0 or name == "linf":
        return largest
    if name == "l1":
        return mpmath.fsum(flat)
    if name in ("rows", "columns"):
        groups = m if name == "rows" else zip(*m, strict=True)
        return mpmath.fsum(mpmath.sqrt(mpmath.fsum(x * x for x in group)) for group in groups)
    if name in ("spectral", "nuclear"):
        s = mpmath.svd_r(mpmath.matrix([[x / largest for x in row] for row in m]), compute_uv=False)
        return largest * (max(s) if name == "spectral" else mpmath.fsum(s))
    p = mpmath.mpf(2) if name == "l2" else name
    return largest * mpmath.fsum((x / largest) ** p for x in flat) ** (1 / p)


def exact_norms(name, rows):
    """Return the norm and the dual norm of rows of floats or fractions."""
    rows = [[Fraction(x) for x in row] for row in rows]
    m = [[mpmath.mpf(x.numerator) / x.denominator for x in row] for row in rows]
    if name.startswith("lp:"):
        p = mpmath.mpf(float(name.removeprefix("lp:")))
        return exactly(p, m), exactly(p / (p - 1), m)
    if name in DUALS:
        return exactly(name, m), exactly(DUALS[name], m)
    groups = m if name == "rows" else zip(*m, strict=True)
    return exactly(name, m), max(exactly("l2", [group]) for group in groups)
