"""Each schedule by its formula, and its errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prgd
from prgd.schedules import MAX_RADIUS, NEVER, parse_phases, parse_radius

w = np.array([3.0, 4.0])


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        (prgd.Geometric(1.2), [2.0, 2.4, 2.88]),
        (prgd.Polynomial(2.0), [2.0, 8.0, 18.0]),
        (prgd.PowerRadii(scale=1.0, shift=2.0, a=2.0, cap=20.0), [8.0, 18.0, 20.0]),
        (prgd.Constant(), [2.0, 2.0, 2.0]),
        (prgd.ExplicitRadii([1.0, 7.0]), [1.0, 7.0, 7.0]),
        (prgd.ToyRadius(), [1.25, 1.25, 1.25]),
        (prgd.ProofRadius(2.0, np.array([2.0, 0.0])), [2.5, 2.5, 2.5]),
    ],
)
def test_radii(radius, expected):
    assert [radius(k, w, 2.0) for k in range(3)] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (prgd.Every(5), [0, 5, 10, 15]),
        (prgd.PolynomialPhases(5, 0.6), [0, 5, 13, 23]),
        (prgd.PolynomialPhases(0.1, 0.0), [0, 2, 4, 6]),
        (prgd.PowerTimes(scale=1.0, shift=2.0, b=3.0), [0, 19, 56, 117]),
        (prgd.ExplicitTimes((0, 2.5, 9)), [0, 3, 9, NEVER]),
    ],
)
def test_times_are_whole_and_increasing(times, expected):
    assert [times(k) for k in range(4)] == expected


@given(st.floats(0.1, 50), st.floats(0, 2))
def test_polynomial_phases_last_at_least_what_they_say(T_0, b):
    times = prgd.PolynomialPhases(T_0, b)
    T = [times(k) for k in range(30)]
    for k in range(29):
        assert T_0 * (k + 1) ** b <= T[k + 1] - T[k] <= max(2, T_0 * (k + 1) ** b + 1)


@pytest.mark.parametrize("R_0", [1e-200, 1.0, 1e199])
@pytest.mark.parametrize("c", [0.5, 1.2, 10.0])
def test_geometric_never_overflows(R_0, c):
    radii = [prgd.Geometric(c)(k, w, R_0) for k in (0, 1, 700, 4000, 10**6)]
    assert all(0.0 <= R <= MAX_RADIUS for R in radii)
    assert radii[0] == R_0
    assert radii[1] == pytest.approx(min(R_0 * c, MAX_RADIUS), rel=1e-14)


def test_proof_radius_on_the_ray_is_capped():
    assert prgd.ProofRadius(1.0, np.array([1.0, 0.0]))(0, np.array([5.0, 0.0]), 1.0) == MAX_RADIUS


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: prgd.Geometric(0.0), "above 0"),
        (lambda: prgd.Geometric(float("nan")), "finite"),
        (lambda: prgd.Polynomial(-1.0), "above 0"),
        (lambda: prgd.ExplicitRadii(()), "at least one radius"),
        (lambda: prgd.ExplicitRadii((1.0, 0.0)), "above 0"),
        (lambda: prgd.ProofRadius(1.0, np.zeros(2)), "non-zero"),
        (lambda: prgd.ProofRadius(-1.0, np.ones(2)), "above 0"),
        (lambda: prgd.Every(1), "at least 2"),
        (lambda: prgd.Every(2.5), "whole number"),
        (lambda: prgd.PolynomialPhases(0.0, 1.0), "above 0"),
        (lambda: prgd.PowerRadii(cap=-1.0), "cap of PowerRadii"),
        (lambda: prgd.PowerTimes(scale=0.0), "scale of PowerTimes"),
        (lambda: prgd.PowerTimes(shift=0.1), "only rescale"),
        (lambda: prgd.PolynomialPhases(1.0, -1.0), "at least 0"),
        (lambda: prgd.ExplicitTimes((1, 2)), "begin at T_0 = 0"),
        (lambda: prgd.ExplicitTimes(()), "begin at T_0 = 0"),
        (lambda: prgd.ExplicitTimes((0, 5, 5)), "phase 1 does not advance"),
        (lambda: parse_radius("geometrc:2"), "Did you mean geometric"),
        (lambda: parse_radius("geometric:x"), "Expected numbers"),
        (lambda: parse_radius("geometric:1,2"), "at most 1"),
        (lambda: parse_phases("evry:2"), "Did you mean every"),
    ],
)
def test_errors_say_what_was_expected(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("geometric:1.3", prgd.Geometric(1.3)),
        ("geometric", prgd.Geometric()),
        ("polynomial:0.6", prgd.Polynomial(0.6)),
        ("constant", prgd.Constant()),
        ("explicit:1,2", prgd.ExplicitRadii((1.0, 2.0))),
    ],
)
def test_radii_are_read_from_text(text, value):
    assert parse_radius(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("every:7", prgd.Every(7)),
        ("polynomial:3,0.5", prgd.PolynomialPhases(3.0, 0.5)),
        ("explicit:0,4", prgd.ExplicitTimes((0, 4))),
    ],
)
def test_phases_are_read_from_text(text, value):
    assert parse_phases(text) == value


def test_repr_is_the_whole_configuration():
    algorithm = prgd.PRGD(prgd.Polynomial(0.6), prgd.PolynomialPhases(5.0, 0.6), eta=0.5)
    assert repr(algorithm) == "PRGD(R=Polynomial(a=0.6), T=PolynomialPhases(T_0=5.0, b=0.6), eta=0.5)"


def test_schedules_of_the_appendix():
    """T_k = 3000 (2 + k/3000)^3 from the first step on, and R_k = min(R_0 (2 + k/3000)^0.2, 1000)."""
    times, radii = prgd.PowerTimes(), prgd.PowerRadii()
    T = [times(k) for k in range(9000)]
    assert times.warm_up == 24000
    assert all(b - a >= 12 for a, b in itertools.pairwise(T))
    for k in (0, 1, 500, 3000, 8999):
        assert 24000 + T[k] - 1 < 3000 * (2 + k / 3000) ** 3 <= 24000 + T[k] + 1e-6
        assert radii(k, w, 90.0) == pytest.approx(90.0 * (2 + k / 3000) ** 0.2, rel=1e-14)
    assert radii(0, w, 1e4) == 1000.0
