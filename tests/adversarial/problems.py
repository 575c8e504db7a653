"""Generators of small problems of two classes that are hard for floating-point arithmetic.

Each generator takes a random source and returns a `Case`; both intercept settings, and separable and other
data, occur often. The data are the numbers of X exactly as stored: of a sparse matrix the exact sums of its
parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Case:
    """One problem.

    Attributes
    ----------
    may_refuse : bool
        A ValueError with a sentence is a right answer.
    engine : {"array", "chunks", "tensor"} or the name of a type of torch's numbers
        What the numbers of X are given to prgd as; tensors lie on a GPU if there is one.
    copies : int
        How often tensors repeat the rows, which changes no answer but the work of kernels.
    """

    X: Any
    y: Any
    fit_intercept: bool
    name: str
    may_refuse: bool = False
    engine: str = "array"
    copies: int = 1


WITH_INTERCEPT = {"fit_intercept": True}
GENERATORS: dict[str, Callable[[np.random.Generator], Case]] = {}


def generator(make):
    """Register a function that returns X, y and, if it likes, a dictionary of other fields of the case."""
    name = make.__name__

    def build(rng: np.random.Generator) -> Case:
        X, y, *options = make(rng)
        fields = {"fit_intercept": bool(rng.integers(2)), **(options[0] if options else {})}
        return Case(X, two_classes(y), name=name, **fields)

    build.__name__ = name
    GENERATORS[name] = build
    return build


def two_classes(y) -> np.ndarray:
    """Return the labels, the first one changed if they are all equal."""
    if (y == y[0]).all():
        y = np.array(y)
        y[0] = {"yes": "no", "no": "yes"}[str(y[0])] if y.dtype.kind == "U" else -y[0]
    return y


def size(rng, max_rows=12, max_columns=4):
    return int(rng.integers(2, max_rows + 1)), int(rng.integers(1, max_columns + 1))


def labelled(rng, X, share_separable=0.75):
    """Return labels by a random hyperplane, or by chance (then the classes mostly overlap)."""
    n, d = X.shape
    if rng.random() > share_separable:
        return rng.choice([-1, 1], n)
    along = X @ rng.standard_normal(d)
    return np.where(along > (rng.permutation(along)[0] if rng.random() < 0.5 else 0.0), 1, -1)


def plain(rng, **limits):
    X = rng.standard_normal(size(rng, **limits))
    return X, labelled(rng, X)


def apart(rng, X, y, gap):
    """Move the rows along a random direction so that some are within ``gap`` of the boundary."""
    w = rng.standard_normal(X.shape[1])
    w /= np.linalg.norm(w)
    distance = np.where(rng.random(len(X)) < 0.6, 0.0, np.abs(rng.standard_normal(len(X)))) + gap
    return X + np.outer(y * distance - X @ w, w)


def each(rng, X, low, high):
    """Return a random power of ten for each column."""
    return 10.0 ** rng.uniform(low, high, X.shape[1])


def sparse_form(rng, X, kinds):
    return kinds[int(rng.integers(len(kinds)))](X)


def read_only(rng, X):
    X.flags.writeable = False
    return X


def strided(rng, X):
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), 1e300)
    view = wide[::2, ::3] if rng.random() < 0.5 else wide[::-2, ::-3]
    view[:] = X
    return view


def equal_columns(rng, X):
    constant = np.full((len(X), 1), rng.choice([0.0, 1.0, 7.5]))
    return np.hstack([X[:, :2], X[:, :1] * rng.choice([1.0, 1.0, 3.0, 1e6]), constant])


def bfloat16(rng, X):
    bits = (X * 10.0 ** rng.uniform(-3, 3)).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


CSR, SPARSE = (sparse.csr_array, sparse.csr_matrix), (sparse.csr_array, sparse.csc_array, sparse.coo_array)
# Gaussian rows and labels of which only the numbers are changed.
CHANGES = {
    "gaussian": lambda rng, X: X,
    "unit_mix": lambda rng, X: X * each(rng, X, -8, 8),
    "scale_of_all": lambda rng, X: X * 10.0 ** rng.uniform(-200, 150),
    "scale_in_range": lambda rng, X: X * 10.0 ** rng.uniform(-148, 148),
    "row_scales": lambda rng, X: X * 10.0 ** rng.uniform(-8, 8, (len(X), 1)),
    "float32": lambda rng, X: (X + rng.choice([0.0, 100.0, 1e5])).astype(np.float32),
    "float32_units": lambda rng, X: (X * each(rng, X, -8, 8)).astype(np.float32),
    "float16": lambda rng, X: (X * 10.0 ** rng.uniform(-4, 3)).astype(np.float16),
    "fortran_order": lambda rng, X: np.asfortranarray(X + 10.0 ** rng.uniform(0, 8)),
    "nested_lists": lambda rng, X: X.round(3).tolist(),
    "big_endian": lambda rng, X: X.astype(">f8"),
    "offset_all_columns": lambda rng, X: X + 10.0 ** rng.choice([rng.uniform(0, 12), rng.integers(0, 13)]),
    "offset_per_column": lambda rng, X: X + rng.choice([-1, 1], X.shape[1]) * each(rng, X, 0, 12),
    "sparse_csr": lambda rng, X: sparse_form(rng, X * (rng.random(X.shape) < 0.5), CSR),
    "sparse_float32": lambda rng, X: sparse_form(
        rng, (X * (rng.random(X.shape) < 0.6)).astype(np.float32), SPARSE
    ),
    "strided": strided,
    "read_only": read_only,
    "equal_columns": equal_columns,
    "zero_rows": lambda rng, X: X * (rng.random((len(X), 1)) >= rng.choice([0.3, 1.0], p=[0.95, 0.05])),
    "zero_columns": lambda rng, X: X * (rng.random(X.shape[1]) >= 0.5),
    "subnormal_entries": lambda rng, X: np.where(
        rng.random(X.shape) < 0.4, X * (5e-324 * 10.0 ** rng.integers(0, 6)), X
    ),
    # Numbers of one or two decimals, as people type them.
    "decimals": lambda rng, X: X.round(int(rng.integers(1, 3))) + rng.choice([0.0, 20.0, 1900.0]),
    "chunked_rows": lambda rng, X: X + rng.choice([0.0, 1e2, 1e8]),
    "torch_tensor": lambda rng, X: (X + rng.choice([0.0, 1e2, 1e5])).astype(rng.choice(["f4", "f8"])),
    "torch_bfloat16": bfloat16,
}
FIELDS = {
    "offset_all_columns": WITH_INTERCEPT,
    "offset_per_column": WITH_INTERCEPT,
    "chunked_rows": {"engine": "chunks"},
    "torch_tensor": {"engine": "tensor"},
    "torch_bfloat16": {"engine": "bfloat16"},
}


def changed(name: str):
    """Return the generator of plain rows after the change of that name; every fourth has labels of text."""

    def make(rng):
        X, y = plain(rng)
        labels = np.where(y > 0, "yes", "no") if rng.random() < 0.25 else y
        labels.flags.writeable = False
        return CHANGES[name](rng, X), labels, FIELDS.get(name, {})

    make.__name__ = name
    return generator(make)


for _name in CHANGES:
    changed(_name)


@generator
def offset_without_intercept(rng):
    X, y = plain(rng)
    offset = 10.0 ** rng.uniform(0, 12, X.shape[1] if rng.random() < 0.5 else 1)
    X = X + offset
    return X, y if rng.random() < 0.3 else labelled(rng, X / offset), {"fit_intercept": False}


@generator
def unix_time(rng):
    X, y = plain(rng)
    X[:, rng.integers(X.shape[1])] = 1.7e9 + rng.integers(0, 10 ** rng.integers(1, 8), len(X))
    if rng.random() < 0.5:
        y = labelled(rng, X - X.mean(axis=0))
    return X, y


@generator
def offset_and_units(rng):
    X, y = plain(rng, max_columns=2)
    units = 10.0 ** rng.uniform(-8, 8, X.shape[1])
    return (X + 10.0 ** rng.uniform(0, 12, X.shape[1])) * units, y, WITH_INTERCEPT


@generator
def near_ties(rng):
    """Small integers with some entries moved by one ulp, as in the failures that were found."""
    n, d = size(rng)
    X = rng.integers(-3, 4, (n, d)) * float(rng.choice([1, 3]))
    y = labelled(rng, X)
    moved = (rng.random((n, d)) < rng.uniform(0.05, 0.5)) & (X != 0)
    return np.where(moved, np.nextafter(X, X + rng.choice([-1, 1], (n, d))), X), y


@generator
def near_zeros(rng):
    """Small integers with some zeros replaced by the smallest numbers: gamma_star may be below all floats."""
    n, d = size(rng)
    X = rng.integers(-1, 2, (n, d)).astype(float)
    y = labelled(rng, X)
    moved = (rng.random((n, d)) < 0.5) & (X == 0)
    return np.where(moved, rng.choice([-1, 1], (n, d)) * 5e-324 * rng.choice([1, 1, 1e10]), X), y


@generator
def near_tie_rows(rng):
    """Copies of rows, one ulp apart, sometimes with opposite labels."""
    X, y = plain(rng, max_rows=6)
    copies = np.nextafter(X, X + rng.choice([-1, 1], X.shape))
    other = np.where(rng.random(len(y)) < rng.choice([0.0, 0.2]), -y, y)
    return np.vstack([X, copies]), np.concatenate([y, other])


@generator
def tiny_margins(rng):
    n, d = size(rng)
    X, y = rng.standard_normal((n, d)), rng.choice([-1, 1], n)
    gap = 10.0 ** rng.uniform(-12, -6) * rng.choice([1, 1, 1, -1])
    return apart(rng, X, y, gap), y


@generator
def tiny_margins_far_away(rng):
    n, d = size(rng, max_columns=3)
    X, y = rng.standard_normal((n, d)), rng.choice([-1, 1], n)
    return apart(rng, X, y, 10.0 ** rng.uniform(-9, -3)) + 10.0 ** rng.uniform(0, 6), y, WITH_INTERCEPT


@generator
def thin_hulls(rng):
    """Two parallel, nearly flat sets: the nearest points are far along the sets."""
    n, d = size(rng, max_columns=3)
    X, y = rng.standard_normal((n, d)), rng.choice([-1, 1], n)
    X[:, 0] = y * 10.0 ** rng.uniform(-6, 0) + rng.standard_normal(n) * 10.0 ** rng.uniform(-12, -3)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return X @ turn, y


@generator
def duplicate_rows(rng):
    X, y = plain(rng, max_rows=7)
    chosen = rng.integers(0, len(X), int(rng.integers(1, 6)))
    flipped = np.where(rng.random(len(chosen)) < rng.choice([0.0, 0.0, 0.3]), -1, 1)
    return np.vstack([X, X[chosen]]), np.concatenate([y, y[chosen] * flipped])


@generator
def collinear_columns(rng):
    X, y = plain(rng, max_columns=2)
    mixed = X @ rng.integers(-2, 3, (X.shape[1], int(rng.integers(1, 3))))
    return np.hstack([X, mixed]), y


@generator
def dummies(rng):
    """A full set of dummies, whose sum is the constant column, sometimes beside a number."""
    n, d = size(rng)
    X = np.eye(d)[rng.integers(0, d, n)]
    if d < 4 and rng.random() < 0.5:
        X = np.hstack([X, rng.standard_normal((n, 1)).round(1)])
    side = np.where(X @ rng.integers(-2, 3, X.shape[1]) > 0, 1, -1)
    return X, rng.choice([-1, 1], n) if rng.random() < 0.5 else side


@generator
def small_integers(rng):
    X = rng.integers(-3, 4, size(rng)).astype(float)
    return X, labelled(rng, X, 0.6)


@generator
def binary(rng):
    X = rng.integers(0, 2, size(rng)).astype(float)
    w = rng.integers(-2, 3, X.shape[1])
    return X, rng.choice([-1, 1], len(X)) if rng.random() < 0.3 else np.where(X @ w > 0, 1, -1)


@generator
def integer_ties(rng):
    """Integers labelled by an integer hyperplane with rows on it: often quasi-separable."""
    n, d = size(rng)
    X, w = rng.integers(-3, 4, (n, d)).astype(float), rng.integers(-2, 3, d)
    side = np.sign(X @ w)
    return X, np.where(side == 0, rng.choice([-1, 1], n), side).astype(int)


@generator
def nearly_quasi_separable(rng):
    """Rows of both classes on a hyperplane, some moved off it by a few ulps."""
    n, d = size(rng)
    X, w = rng.integers(-9, 10, (n, d)) / 1.0, rng.integers(-2, 3, d)
    side = np.sign(X @ w)
    y = np.where(side == 0, rng.choice([-1, 1], n), side).astype(int)
    tiny = 2.0 ** -rng.integers(20, 50)
    return X + tiny * rng.integers(-1, 2, (n, d)) * (rng.random((n, d)) < 0.3), y


@generator
def sparse_duplicates(rng):
    """COO or CSR with entries given in parts, some of which cancel with rounding, and stored zeros."""
    n, d = size(rng)
    X = rng.integers(-8, 9, (n, d)) / 4.0 * (rng.random((n, d)) < 0.6)
    part = rng.integers(-8, 9, (n, d)) / 4.0 * rng.choice([1.0, 1.0, 2.0**52, 2.0**60])
    rows, columns = np.nonzero((X != 0) | (rng.random((n, d)) < 0.3))
    values = np.concatenate([term[rows, columns] for term in (X, part, -part)])
    i, j = np.tile(rows, 3), np.tile(columns, 3)
    y = labelled(rng, X, 0.7)
    if rng.random() < 0.5:
        order = rng.permutation(len(i))
        return sparse.coo_array((values[order], (i[order], j[order])), shape=(n, d)), y, {"may_refuse": True}
    order = np.argsort(i, kind="stable")
    counts = np.bincount(i, minlength=n)
    start = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((values[order], j[order], start), shape=(n, d)), y, {"may_refuse": True}


@generator
def wide(rng):
    n, d = int(rng.integers(2, 5)), int(rng.integers(5, 12))
    X = rng.standard_normal((n, d))
    if rng.random() < 0.3:
        X[:, 1:] *= 10.0 ** rng.uniform(-8, 0)
    return X, rng.choice([-1, 1], n)


@generator
def one_row_per_class(rng):
    d = int(rng.integers(1, 5))
    X = rng.standard_normal((2, d)) * 10.0 ** rng.uniform(-6, 6)
    if rng.random() < 0.3:
        X[1] = X[0] + rng.standard_normal(d) * 10.0 ** rng.uniform(-15, -3)
    return X, np.array([1, -1])


@generator
def one_against_many(rng):
    X, _ = plain(rng)
    y = np.full(len(X), -1)
    y[rng.integers(len(X))] = 1
    return X + rng.choice([0.0, 1e3, 1e7]), y


@generator
def subnormal_data(rng):
    n, d = size(rng)
    X = rng.integers(-20, 21, (n, d)) * 5e-324 * 10.0 ** rng.integers(0, 10)
    return X, labelled(rng, X * 1e300)


@generator
def subnormal_margins(rng):
    """Ordinary rows in one column, and a second column that decides by numbers near the end of the range."""
    n = int(rng.integers(2, 9))
    y = rng.choice([-1, 1], n)
    first = rng.choice([-1.0, 1.0, 2.0], n)
    return np.column_stack([first, y * rng.integers(1, 9, n) * 10.0 ** -rng.uniform(150, 320)]), y


@generator
def integer_dtypes(rng):
    kind = rng.choice(["int8", "int16", "int32", "int64", "uint8", "uint32", "bool"])
    n, d = size(rng)
    low, high = {"bool": (0, 2), "uint8": (0, 256), "int8": (-128, 128)}.get(str(kind), (0, 1000))
    X = rng.integers(low, high, (n, d)).astype(kind)
    return X, labelled(rng, X - X.astype(float).mean(axis=0), 0.7)


@generator
def long_integers(rng):
    """64-bit integers, of which float64 cannot hold some: right about these numbers, or refused."""
    n, d = size(rng, max_columns=2)
    X = 2 ** int(rng.integers(50, 62)) + rng.integers(-5, 6, (n, d))
    exact = (X.astype(np.float64).astype(np.int64) == X).all()
    return X, labelled(rng, X - X.mean(axis=0)), {**WITH_INTERCEPT, "may_refuse": not exact}


@generator
def a_few_ulps_apart(rng):
    """Rows that differ in their last bits alone, as far from the origin as that means."""
    n, d = size(rng, max_columns=3)
    X = rng.choice([1.0, 2.0**53, 1e-5, 1e12]) * (1.0 + np.abs(rng.integers(-8, 9, (n, d))) * 2.0**-52)
    return X, labelled(rng, X - X.mean(axis=0))


@generator
def grid_points(rng):
    """Many equal distances: lattice points, several optimal supports."""
    n, d = size(rng)
    X = rng.choice([-1.0, 1.0], (n, d)) * rng.choice([1.0, 0.1, 3.0])
    X[:, 0] += rng.choice([0.0, 1e3, 0.1])
    return X, labelled(rng, X, 0.9)


@generator
def more_rows(rng):
    """Enough rows for a working set, and for other ways to a verdict than exact arithmetic on all rows."""
    n, d = int(rng.integers(30, 150)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, d))
    y = labelled(rng, X, 0.8)
    along = X @ rng.standard_normal(d)
    if rng.random() < 0.3:  # a gap between the classes
        y = np.where(along > 0, 1, -1)
        X[:, 0] += y * 10.0 ** rng.uniform(-3, 1)
    return X * 10.0 ** rng.uniform(-3, 3, d) + rng.choice([0.0, 0.0, 1e3, 1e6]), y


def make(name: str, seed) -> Case:
    """Return the case of a generator's name and a seed."""
    return GENERATORS[name](np.random.default_rng(seed))
