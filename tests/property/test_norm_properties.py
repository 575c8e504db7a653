"""What makes a norm a norm, its dual and its symmetries, at every scale; bounds against exact arithmetic."""

import math

import mpmath
import numpy as np
import pytest
from exact_norms import exact_norms
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prgd.norms import as_norm

SHAPE = (3, 4)
VECTOR_NORMS = ["l2", "l1", "linf", "lp:1.01", "lp:1.5", "lp:3", "lp:40"]
NORMS = [*VECTOR_NORMS, "spectral", "nuclear", "rows", "columns"]
CLOSE = 1e-13

# Few distinct numbers make ties, zero groups and matrices of low rank.
entries = st.sampled_from([0.0, 1.0, -1.0, 0.5]) | st.floats(1e-6, 1.0) | st.floats(-1.0, -1e-6)
matrices = arrays(np.float64, SHAPE, elements=entries)
scales = st.sampled_from([1e-300, 1e-160, 1.0, 1e160, 1e300])
# Entries of very different size, in one matrix.
powers = st.integers(-300, 300).map(lambda k: 10.0**k)
wild_entries = entries | st.tuples(st.floats(-1.0, 1.0), powers).map(math.prod)
wild_matrices = arrays(np.float64, SHAPE, elements=wild_entries)


def close(a, b, size=0.0):
    """Say whether numbers agree to rounding, of themselves or of numbers of this size."""
    return abs(a - b) <= CLOSE * max(abs(a), abs(b), size)


@pytest.mark.parametrize("name", NORMS)
@settings(max_examples=40)
@given(v=matrices, w=matrices, scale=scales, factor=st.floats(-8.0, 8.0))
def test_a_norm_is_homogeneous_and_meets_the_triangle_inequality(name, v, w, scale, factor):
    value = as_norm(name)
    for measure in (value, value.dual):
        assert measure(v) > 0.0 or not v.any()
        assert measure(v + w) <= (measure(v) + measure(w)) * (1.0 + CLOSE)
        assert close(measure(factor * v), abs(factor) * measure(v), 1e-300)
        assert close(measure(scale * v) / scale, measure(v))


@pytest.mark.parametrize("name", NORMS)
@settings(max_examples=40)
@given(u=matrices, w=matrices, scale=scales)
def test_the_steepest_direction_attains_the_dual_norm(name, u, w, scale):
    value = as_norm(name)
    assert np.vdot(u, w) <= value(w) * value.dual(u) * (1.0 + CLOSE)
    direction = value.steepest(scale * u)
    assert direction.shape == u.shape
    if not (scale * u).any():
        assert not direction.any()
        return
    assert close(value(direction), 1.0)
    assert close(np.vdot(u, direction), value.dual(u))
    assert close(value(value.ascent(scale * u)) / scale, value.dual(scale * u) / scale)
    assert close(value(value.rescale(scale * u, 7.0)), 7.0)
    assert value(value.project(scale * u, scale)) <= scale * (1.0 + CLOSE)


@pytest.mark.parametrize(
    ("name", "other"),
    [("l2", "l2"), ("l1", "linf"), ("lp:1.5", "lp:3"), ("lp:1.25", "lp:5"), ("spectral", "nuclear")],
)
@given(w=matrices, scale=scales)
@settings(max_examples=40)
def test_the_dual_of_the_dual_is_the_norm(name, other, w, scale):
    value, dual = as_norm(name), as_norm(other)
    assert close(value.dual(scale * w) / scale, dual(scale * w) / scale)
    assert close(dual.dual(scale * w) / scale, value(scale * w) / scale)


@pytest.mark.parametrize("axis", ["rows", "columns"])
@given(w=matrices)
@settings(max_examples=40)
def test_the_dual_of_the_dual_of_a_group_norm(axis, w):
    """The matrix of the unit vectors of the groups has dual norm 1, and attains the norm."""
    value = as_norm(axis)
    lengths = np.linalg.norm(w, axis=1 if axis == "rows" else 0, keepdims=True)
    u = np.divide(w, lengths, out=np.zeros_like(w), where=lengths > 0.0)
    assert value.dual(u) <= 1.0 + CLOSE
    assert close(np.vdot(u, w), value(w))


def orthogonal(rng, size):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def signed_permutation(rng, size):
    return np.eye(size)[rng.permutation(size)] * rng.choice([-1.0, 1.0], size)


SIDES = {
    "spectral": (orthogonal, orthogonal),
    "nuclear": (orthogonal, orthogonal),
    "rows": (signed_permutation, orthogonal),
    "columns": (orthogonal, signed_permutation),
}
# Powers of other exponents lose digits; a direction turns by rounding over the gap between singular values.
ACCURATE = {"l1": 0.0, "linf": 0.0, "lp:1.5": 0.0, "lp:3": 0.0, "l2": CLOSE}


@pytest.mark.parametrize("name", NORMS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_symmetries_move_the_steepest_direction_alike(name, seed):
    rng = np.random.default_rng(seed)
    value, u = as_norm(name), rng.standard_normal(SHAPE)
    if name in SIDES:
        left, right = (side(rng, size) for side, size in zip(SIDES[name], SHAPE, strict=True))
    else:  # the entries are moved as those of one vector
        left, right = (orthogonal if name == "l2" else signed_permutation)(rng, u.size), np.eye(1)
        u = u.reshape(-1, 1)
    moved = left @ u @ right
    assert close(value(moved), value(u))
    assert close(value.dual(moved), value.dual(u))
    expected = left @ value.steepest(u) @ right
    np.testing.assert_allclose(value.steepest(moved), expected, rtol=CLOSE, atol=ACCURATE.get(name, 1e-9))


@pytest.mark.parametrize("name", [*NORMS, "lp:1.0000000000000002", "lp:1e20"])
@settings(max_examples=50)
@given(w=matrices | wild_matrices, scale=scales)
@example(w=np.full(SHAPE, 0.1), scale=1.0)
@example(w=np.full(SHAPE, 5e-324), scale=1.0)
@example(w=np.outer([1.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.7]), scale=1.0)
def test_bounds_are_above_the_exact_norms_by_little(name, w, scale):
    w = w if np.abs(w).max() > 1.0 else scale * w
    with mpmath.workdps(60):
        value = as_norm(name)
        for bound, exact in zip((value.above(w), value.dual_above(w)), exact_norms(name, w), strict=True):
            assert mpmath.mpf(bound) >= exact
            assert mpmath.mpf(bound) <= exact * (1 + mpmath.mpf(3e-14)) + mpmath.mpf(1e-320)


@pytest.mark.parametrize("name", ["spectral", "nuclear", "rows", "columns", "lp:1.5", "linf"])
def test_bounds_of_larger_matrices_are_tight(name):
    w = np.random.default_rng(8).standard_normal((10, 400))
    value = as_norm(name)
    assert value(w) <= value.above(w) * (1.0 + 1e-15) <= value(w) * (1.0 + 4e-14)
    assert value.dual(w) <= value.dual_above(w) * (1.0 + 1e-15) <= value.dual(w) * (1.0 + 4e-14)
