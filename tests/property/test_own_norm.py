"""Every steepest method maximises the margin in its own norm and not in others, if the separators differ."""

from itertools import islice

import numpy as np
import pytest
from dual_programs import gamma_star
from prgd_paper.methods import Adam, MirrorDescent
from prgd_paper.theory.sampled_runs import states

import prgd
from prgd.algorithms import SteepestDescent
from prgd.norms import as_norm
from prgd.problem.certificate import certify

NORMS = ("l1", "lp:1.5", "l2", "lp:3", "linf")


def lopsided_rows():
    """Six rows around (1, 1/2, 1/4, ...), so that each norm weighs the columns in its own way."""
    z = 2.0 ** -np.arange(8.0)
    V = 0.7 * z * np.random.default_rng(8).standard_normal((3, 8))
    return np.r_[z + V, z - V]


@pytest.fixture(scope="module")
def largest():
    return {name: gamma_star(lopsided_rows(), np.zeros((6, 0)), name) for name in NORMS}


@pytest.mark.parametrize(
    ("name", "algorithm", "error"),
    [(name, SteepestDescent(8.0, normalized=True, power=0.5), 0.007) for name in NORMS]
    + [
        ("linf", Adam(4.0, beta2=0.9), 0.035),
        ("lp:1.5", MirrorDescent(30.0, p=1.5, loss_scaled=True), 0.001),
        ("lp:3", MirrorDescent(30.0, p=3.0, loss_scaled=True), 0.05),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, (str, float)) else str(value),
)
def test_the_margin_converges_in_the_own_norm_only(name, algorithm, error, largest):
    Z, errors = lopsided_rows(), {1000: [], 4000: []}
    problem = prgd.Problem(Z, norm=name)
    for s in islice(states(problem, algorithm), 4001):
        # Errors oscillate, and rounding decides in which phase a step finds them: the best of 200 counts.
        for end, seen in errors.items():
            if end - 200 < s.t <= end:
                margins = {other: (Z @ s.w).min() / as_norm(other)(s.w) for other in NORMS}
                seen.append({other: 1.0 - margins[other] / largest[other] for other in NORMS})
                certificate = certify(s.at)
                assert certificate.lower <= largest[name] * (1 + 1e-9)
                assert certificate.upper >= largest[name] * (1 - 1e-9)
    early, late = ({other: min(e[other] for e in seen) for other in NORMS} for seen in errors.values())
    assert late[name] <= error
    assert late[name] <= 0.7 * early[name] or late[name] <= 1e-3
    assert min(late[other] for other in NORMS if other != name) >= 0.045  # the separators differ by 0.052


MATRIX_NORMS = ("nuclear", "l2", "spectral", "linf")


def lopsided_classes():
    """Two rows of each of four classes, whose lengths fall from 1 to 1/64."""
    rng, z = np.random.default_rng(6), 4.0 ** -np.arange(4.0)[:, None]
    X = z * (np.eye(4) + 0.3 * rng.standard_normal((4, 4)))
    return np.r_[X, X * (1.0 + 0.3 * rng.standard_normal((4, 4)))], np.arange(8) % 4


@pytest.mark.parametrize("name", MATRIX_NORMS)
def test_joint_margins_converge_in_the_own_norm_only(name):
    pytest.importorskip("clarabel")
    X, y = lopsided_classes()
    options = {"fit_intercept": False, "multi_class": "joint"}
    exact = {other: prgd.max_margin(X, y, norm=other, **options).certificate for other in MATRIX_NORMS}
    problem, algorithm = prgd.Problem(X, y, norm=name), SteepestDescent(64.0, normalized=True, power=0.5)
    s = algorithm.init(problem, np.zeros(problem.shape))
    for _ in range(2000):
        s = algorithm.step(problem, s)
    found = {other: s.at.smallest_margin / as_norm(other)(s.w) for other in MATRIX_NORMS}
    assert 0.97 * exact[name].lower <= found[name] <= exact[name].upper
    assert certify(s.at).upper >= exact[name].lower
    assert max(found[other] / exact[other].lower for other in MATRIX_NORMS if other != name) <= 0.91
