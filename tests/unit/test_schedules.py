"""Each schedule by its formula, and its errors."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prgd
from prgd.core.checks import to_text
from prgd.schedules import MAX_RADIUS, NEVER, as_radius, as_times


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        (prgd.schedules.Geometric(1.2), [2.0, 2.4, 2.88]),
        (prgd.schedules.Polynomial(2.0), [2.0, 8.0, 18.0]),
        (prgd.schedules.Polynomial(2.0, 2.0, 1.0, 20.0), [8.0, 18.0, 20.0]),
        (prgd.schedules.Constant(), [2.0, 2.0, 2.0]),
        (prgd.schedules.ExplicitRadii([1.0, 7.0]), [1.0, 7.0, 7.0]),
    ],
)
def test_radii(radius, expected):
    assert [radius(k, 2.0) for k in range(3)] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (prgd.schedules.Every(5), [0, 5, 10, 15]),
        (prgd.schedules.PolynomialPhases(5, 0.6), [0, 5, 13, 23]),
        (prgd.schedules.PolynomialPhases(0.1, 0.0), [0, 2, 4, 6]),
        (prgd.schedules.PowerTimes(scale=1.0, shift=2.0, b=3.0), [0, 19, 56, 117]),
        (prgd.schedules.ExplicitTimes((0, 2.5, 9)), [0, 3, 9, NEVER]),
    ],
)
def test_times_are_whole_and_increasing(times, expected):
    assert [times(k) for k in range(4)] == expected


@given(st.floats(0.1, 50), st.floats(0, 2))
def test_polynomial_phases_last_at_least_what_they_say(T_0, b):
    times = prgd.schedules.PolynomialPhases(T_0, b)
    T = [times(k) for k in range(30)]
    for k in range(29):
        assert T_0 * (k + 1) ** b <= T[k + 1] - T[k] <= max(2, T_0 * (k + 1) ** b + 1)


@pytest.mark.parametrize("R_0", [1e-200, 1.0, 1e199])
@pytest.mark.parametrize("c", [0.5, 1.2, 10.0])
def test_geometric_never_overflows(R_0, c):
    radii = [prgd.schedules.Geometric(c)(k, R_0) for k in (0, 1, 700, 4000, 10**6)]
    assert all(0.0 <= R <= MAX_RADIUS for R in radii)
    assert radii[0] == R_0
    assert radii[1] == pytest.approx(min(R_0 * c, MAX_RADIUS), rel=1e-14)


@pytest.mark.parametrize(
    ("w", "D", "expected"), [([3.0, 4.0], 1.0, 1.25), ([3.0, -4.0], 2.0, 2.5), ([5.0, 0.0], 1.0, MAX_RADIUS)]
)
def test_lift_to_a_distance_from_the_ray(w, D, expected):
    at = prgd.Problem([[0.3, 0.9]]).at(np.array(w))
    assert prgd.schedules.LiftTo(D, np.array([2.0, 0.0])).at(0, 1.0, at) == expected


def test_radii_of_a_formula_work_elementwise():
    R_0 = np.array([1e-200, 1.0, 3.0, 1e199])
    for radius in (prgd.schedules.Geometric(1.2), prgd.schedules.Polynomial(0.6), prgd.schedules.Constant()):
        for k in (0, 3, 5000):
            assert radius(k, R_0) == pytest.approx([radius(k, float(R)) for R in R_0], rel=1e-15)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: prgd.schedules.Geometric(0.0), "above 0"),
        (lambda: prgd.schedules.Geometric(float("nan")), "finite"),
        (lambda: prgd.schedules.Polynomial(-1.0), "above 0"),
        (lambda: prgd.schedules.ExplicitRadii(()), "at least one radius"),
        (lambda: prgd.schedules.ExplicitRadii((1.0, 0.0)), "above 0"),
        (lambda: prgd.schedules.LiftTo(1.0, np.zeros(2)), "non-zero"),
        (lambda: prgd.schedules.LiftTo(-1.0, np.ones(2)), "above 0"),
        (lambda: prgd.schedules.Every(1), "at least 2"),
        (lambda: prgd.schedules.Every(2.5), "integer"),
        (lambda: prgd.schedules.PolynomialPhases(0.0, 1.0), "above 0"),
        (lambda: prgd.schedules.Polynomial(cap=-1.0), "cap of Polynomial"),
        (lambda: prgd.schedules.PowerTimes(scale=0.0), "scale of PowerTimes"),
        (lambda: prgd.schedules.PowerTimes(shift=0.1), "only rescale"),
        (lambda: prgd.schedules.PolynomialPhases(1.0, -1.0), "at least 0"),
        (lambda: prgd.schedules.ExplicitTimes((1, 2)), "begin at T_0 = 0"),
        (lambda: prgd.schedules.ExplicitTimes(()), "begin at T_0 = 0"),
        (lambda: prgd.schedules.ExplicitTimes((0, 5, 5)), "phase 1 does not advance"),
        (lambda: as_radius("geometrc:2"), "Did you mean geometric"),
        (lambda: as_radius("geometric:x"), "Expected numbers"),
        (lambda: as_radius("geometric:1,2"), "at most 1"),
        (lambda: as_times("evry:2"), "Did you mean every"),
    ],
)
def test_errors_say_what_was_expected(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (as_radius, "geometric:1.3", prgd.schedules.Geometric(1.3)),
        (as_radius, "geometric", prgd.schedules.Geometric()),
        (as_radius, "polynomial:0.6", prgd.schedules.Polynomial(0.6)),
        (as_radius, "constant", prgd.schedules.Constant()),
        (as_radius, "explicit:1,2", prgd.schedules.ExplicitRadii((1.0, 2.0))),
        (as_times, "every:7", prgd.schedules.Every(7)),
        (as_times, "polynomial:3,0.5", prgd.schedules.PolynomialPhases(3.0, 0.5)),
        (as_times, "explicit:0,4", prgd.schedules.ExplicitTimes((0, 4))),
    ],
)
def test_schedules_are_read_from_text(read, text, value):
    assert read(text) == value
    if read is as_radius:
        assert read(to_text(value, prgd.schedules.RADII)) == value


@pytest.mark.parametrize("algorithm", [prgd.PRGD, prgd.algorithms.InsidePRGD])
def test_an_algorithm_reads_schedules(algorithm):
    geometric = algorithm(prgd.schedules.Geometric(1.3), prgd.schedules.Every(4))
    assert algorithm(R=1.3, T=4) == algorithm(R="geometric:1.3", T="every:4") == geometric
    assert repr(algorithm(R=1.3, T=4)) == repr(geometric)
    with pytest.raises(TypeError, match=r"two arguments, \(k, R_0\) -> R_k; got <function"):
        prgd.PRGD(R=lambda k: 2.0**k)
    assert prgd.PRGD(R=lambda k, R_0=1.0: R_0 * 2.0**k).R(3, 1.0) == 8.0
    with pytest.raises(TypeError, match="radius must be a number"):
        algorithm(R=None)
    with pytest.raises(TypeError, match="times must be an integer"):
        algorithm(T=2.5)


def test_functions_are_schedules():
    problem = prgd.Problem(*prgd.datasets.toy(0.3))
    own = prgd.PRGD(R=lambda k, R_0: R_0 * 2.0**k, T=lambda k: 3 * k)
    found = prgd.run(problem, own, [1.0, 0.0], stop=10)
    same = prgd.run(problem, prgd.PRGD(R=2.0, T=3), [1.0, 0.0], stop=10)
    assert list(found.history["R_k"]) == list(same.history["R_k"])
    np.testing.assert_array_equal(found.w, same.w)


def test_repr_is_the_whole_configuration():
    algorithm = prgd.PRGD(prgd.schedules.Polynomial(0.6), prgd.schedules.PolynomialPhases(5.0, 0.6), eta=0.5)
    assert repr(algorithm) == "PRGD(R=Polynomial(a=0.6), T=PolynomialPhases(T_0=5.0, b=0.6), eta=0.5)"


def test_schedules_of_the_appendix():
    """T_k = 3000 (2 + k/3000)^3 from the first step on, and R_k = min(R_0 (2 + k/3000)^0.2, 1000)."""
    times, radii = prgd.schedules.PowerTimes(), prgd.schedules.APPENDIX_RADII
    T = [times(k) for k in range(9000)]
    assert times.warm_up == 24000
    assert all(b - a >= 12 for a, b in itertools.pairwise(T))
    for k in (0, 1, 500, 3000, 8999):
        assert 24000 + T[k] - 1 < 3000 * (2 + k / 3000) ** 3 <= 24000 + T[k] + 1e-6
        assert radii(k, 90.0) == pytest.approx(90.0 * (2 + k / 3000) ** 0.2, rel=1e-14)
    assert radii(0, 1e4) == 1000.0
