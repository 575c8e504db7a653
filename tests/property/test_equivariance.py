"""Scaling, permuting or, by a symmetry of the norm, turning the data moves all iterates as it must."""

import grid
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prgd


@pytest.mark.parametrize("name", grid.ALGORITHMS)
@pytest.mark.parametrize("set_name", ["synthetic-two", "gaussian"])
@settings(max_examples=4)
@given(seed=st.integers(0, 10**6), log_scale=st.floats(-4, 4))
def test_symmetry_of_the_norm_scale_and_order(name, set_name, seed, log_scale):
    rng = np.random.default_rng(seed)
    data, entry = grid.PROBLEMS[set_name](), grid.ALGORITHMS[name]
    Q = entry.symmetry(data.X.shape[1], rng)
    c, order = 10**log_scale, rng.permutation(len(data.y))
    a = entry.problem(data.X, data.y)
    b = entry.problem(c * data.X[order] @ Q, data.y[order])
    w0 = grid.start(a, entry)
    first = prgd.run(a, entry.algorithm, w0, stop=30)
    second = prgd.run(b, entry.algorithm, None if w0 is None else w0 @ Q / c, stop=30)
    # <w, z> is what the loss sees: w shrinks as the rows grow, and margins grow with them
    assert np.linalg.norm(second.w * c - first.w @ Q) <= 1e-9 * np.linalg.norm(first.w)
    assert second.certificate.upper == pytest.approx(c * first.certificate.upper, rel=1e-9)


@pytest.mark.parametrize("name", grid.ALGORITHMS)
def test_scaled_units_are_the_literal_paper_on_scaled_rows(name):
    data, entry = prgd.datasets.digits(0, 1, 60), grid.ALGORITHMS[name]
    X = data.X * np.sqrt(entry.problem(data.X, data.y).unit)
    literal, pixels = entry.problem(X, data.y, scale="none"), entry.problem(16.0 * X, data.y)
    w0 = grid.start(literal, entry)
    a = prgd.run(literal, entry.algorithm, w0, stop=40)
    b = prgd.run(pixels, entry.algorithm, None if w0 is None else w0 / 16.0, stop=40)
    np.testing.assert_allclose(16.0 * b.w, a.w, rtol=1e-9, atol=1e-12)
    assert b.certificate.lower == pytest.approx(16.0 * a.certificate.lower, rel=1e-9)


@pytest.mark.parametrize("name", [name for name, entry in grid.ALGORITHMS.items() if entry.joint])
@settings(max_examples=2)
@given(seed=st.integers(0, 10**6), log_scale=st.floats(-4, 4))
def test_both_sides_of_joint_problems(name, seed, log_scale):
    """A symmetry of the norm turns the columns, and classes are renamed: W turns on both sides."""
    rng, entry = np.random.default_rng(seed), grid.ALGORITHMS[name]
    X, y = grid.three_classes()
    Q, c, classes = entry.symmetry(X.shape[1], rng), 10**log_scale, rng.permutation(3)
    a, b = entry.problem(X, y), entry.problem(c * X @ Q, classes[y])
    w0 = grid.start(a, entry)
    first = prgd.run(a, entry.algorithm, w0, stop=20)
    turned = None if w0 is None else (w0 @ Q / c)[np.argsort(classes)]
    second = prgd.run(b, entry.algorithm, turned, stop=20)
    assert first.w.shape == (3, X.shape[1])
    assert np.linalg.norm(c * second.w[classes] - first.w @ Q) <= 1e-9 * np.linalg.norm(first.w)
    assert second.certificate.upper == pytest.approx(c * first.certificate.upper, rel=1e-9)
