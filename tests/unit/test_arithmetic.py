"""Bounds on rounding against fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from prgd.core import arithmetic


@pytest.mark.parametrize("seed", range(20))
def test_a_dot_product_lies_within_its_bounds(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 50)) * 10.0 ** rng.integers(-8, 8, (2, 50))
    b[-1] = (
        -float(arithmetic.exact_dot(a[:-1], [Fraction(x) for x in b[:-1].tolist()])) / a[-1]
    )  # nearly cancels
    true = arithmetic.exact_dot(a, [Fraction(x) for x in b.tolist()])
    allowed = arithmetic.rounding_factor(50) * float(np.abs(a) @ np.abs(b)) * 1.01
    assert abs(Fraction(float(a @ b)) - true) <= allowed


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(-1, 3), Fraction(10), Fraction(0)])
def test_rounding_down(value):
    assert Fraction(arithmetic.round_down(value)) <= value
    found = arithmetic.round_down(value)
    assert math.nextafter(found, math.inf) >= value or found == value


def test_rounding_down_beyond_the_floating_range():
    assert arithmetic.round_down(Fraction(1, 2**2000)) == arithmetic.SMALLEST
    assert arithmetic.round_down(Fraction(-1, 2**2000)) < 0.0
    assert arithmetic.round_down(Fraction(2**2000)) == arithmetic.LARGEST
    assert arithmetic.round_down(Fraction(-(2**2000))) == -math.inf


def test_shortened_directions_keep_their_ratio():
    assert arithmetic.shortened([Fraction(1, 2), Fraction(-2, 3)]) == (3, -4)
    long = [Fraction(2**30 + 1), Fraction(1)]
    short = arithmetic.shortened(long)
    assert short[0] / short[1] == long[0]
    assert abs(short[0]) < 1


@pytest.mark.parametrize("size", [0, 100, -100, -140, -160])
def test_sums_and_products_without_error(size):
    rng = np.random.default_rng(abs(size))
    a, b = rng.standard_normal((2, 500)) * 10.0 ** (size + rng.integers(-12, 13, (2, 500)))
    pairs = [(Fraction(x), Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    for found, exact, underflow in (
        (arithmetic.two_sum(a, b), [x + y for x, y in pairs], 0),
        (arithmetic.two_product(a, b), [x * y for x, y in pairs], 5),
    ):
        for high, low, value in zip(*(part.tolist() for part in found), exact, strict=True):
            # Products below 2^-960 lose at most five units of the smallest float64; nothing else is lost.
            lost = abs(Fraction(high) + Fraction(low) - value)
            allowed = underflow * Fraction(arithmetic.SMALLEST)
            assert lost <= (allowed if abs(value) < Fraction(2) ** -960 else 0)


def test_sums_and_products_beyond_the_floating_range_are_not_finite():
    with np.errstate(over="ignore", invalid="ignore"):
        assert not np.isfinite(arithmetic.two_sum(np.float64(1.7e308), np.float64(1.7e308))[1])
        assert not np.isfinite(arithmetic.two_product(np.float64(1e307), np.float64(1.0))[1])
        assert not np.isfinite(arithmetic.two_product(np.float64(1e200), np.float64(1e200))[1])
