"""The closed forms of Appendix A on the toy dataset, followed by `prgd.run` step by step.

With s = sqrt(1 - gamma^2), NGD decouples: w_1(t) = gamma t and
w_2(t+1) = w_2(t) + s (2 - e^(2 s w_2)) / (2 + e^(2 s w_2)).
PRGD with T_k = 2k and R_k = ||w|| / w_2 has w_2(2k+2) = 1 and, by (S3),
w_1(2k+2) = q^-k (w_1(2) + gamma / (1 - q)) - gamma / (1 - q). Time 2k+2 of the paper, which counts the
NGD step before, is step 2k+1 of our PRGD run.
"""

import mpmath
import numpy as np
import pytest

import prgd
from prgd import datasets

GAMMA = 0.3
PHASES = 40


@pytest.fixture(scope="module")
def problem():
    data = datasets.toy(GAMMA)
    return prgd.Problem(data.X, data.y, scale="none")


def constants():
    mpmath.mp.dps = 60
    gamma = mpmath.mpf(GAMMA)
    s = mpmath.sqrt(1 - gamma**2)
    q = 1 + s * (2 - mpmath.exp(2 * s)) / (2 + mpmath.exp(2 * s))
    return gamma, s, q


def test_ngd_follows_the_decoupled_recursion(problem):
    gamma, s, _ = constants()
    result = prgd.run(problem, prgd.NGD(), stop=0)
    w_1, w_2 = mpmath.mpf(0), mpmath.mpf(0)
    for t in range(1, 301):
        e = mpmath.exp(2 * s * w_2)
        w_1, w_2 = w_1 + gamma, w_2 + s * (2 - e) / (2 + e)
        result = prgd.run(problem, prgd.NGD(), resume=result, stop=t)
        np.testing.assert_allclose(result.w, [float(w_1), float(w_2)], rtol=1e-12)


@pytest.fixture(scope="module")
def iterates(problem):
    """Iterates of PRGD at steps 0..2 * PHASES + 1, from one step of NGD."""
    algorithm = prgd.PRGD(prgd.schedules.LiftTo(1.0, np.array([1.0, 0.0])), prgd.schedules.Every(2))
    result = prgd.run(problem, algorithm, prgd.run(problem, prgd.NGD(), stop=1).w, stop=0)
    found = [result]
    for t in range(1, 2 * PHASES + 2):
        found.append(prgd.run(problem, algorithm, resume=found[-1], stop=t))
    return found


def expected_w_1(k):
    gamma, s, q = constants()
    first = 3 * gamma / s  # w_1(2) = w_1(1) / w_2(1), w(1) = (gamma, s / 3)
    return q ** (-k) * (first + gamma / (1 - q)) - gamma / (1 - q)


@pytest.mark.parametrize("k", range(PHASES + 1))
def test_prgd_follows_s1_to_s3(k, iterates):
    """(S1) w_2 = 1 and ||w|| = R_k; (S3) w_1 to 1e-12 relative, or to the cancellation in Zw.

    A step forms the margins gamma w_1 +- s w_2, of size about gamma w_1, each with a rounding error of
    at most u = 2^-52 times that size (two products and a sum). Only their difference 2 s w_2 moves
    w_2, so its error is below 2 u gamma w_1; the map p -> w_2 has slope at most s / 2 in it, and
    dividing by q <= 1/2 and summing the geometric series of earlier phases leaves a relative error of w_1
    below 4 u w_1 for gamma = 0.3.
    """
    w = iterates[2 * k + 1].w
    R_k = iterates[2 * k + 1].history["R_k"][-1]
    w_1 = float(expected_w_1(k))
    tolerance = 1e-12 if k <= 15 else 4 * 2.0**-52 * w_1
    assert w[1] == pytest.approx(1.0, rel=1e-13)
    assert R_k == pytest.approx(np.hypot(w[0], w[1]), rel=1e-14)
    assert abs(w[0] - w_1) <= tolerance * w_1


@pytest.mark.parametrize("k", range(1, 16))
def test_prgd_follows_s2_and_q_before_the_projection(k, problem, iterates):
    """(S2), read as w_2/w_1 on both sides; w_2 = q is the step before it is projected."""
    _, _, q = constants()
    before, after = iterates[2 * k].w, iterates[2 * k + 1].w
    assert after[1] / after[0] == pytest.approx(before[1] / before[0], rel=1e-14)
    v = after - problem.at(after).normalized_gradient
    assert v[1] == pytest.approx(float(q), rel=1e-12)
    assert v[0] == pytest.approx(after[0] + GAMMA, rel=1e-14)
