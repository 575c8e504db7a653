"""Log-loss and normalized gradient at any norm and margin, against mpmath on the same margins."""

import grid
import mpmath
import numpy as np
import pytest

import prgd
from prgd.rows import Measure

MARGINS = np.concatenate([[-1e3, -30.0, -1e-12, 0.0], np.logspace(-12, 3, 31), [36.9, 37.1, 710.0, 760.0]])
MEASURING = ["dense", "sparse", "dense-compiled", "sparse-compiled"]  # engines
NORMS = [1e-200, 1e-100, 1e-12, 1.0, 1e12, 1e100, 1e200]


def problem_with_margins(length, margins, loss, **options):
    """Rows whose margins at w = (length, 0) are the given ones."""
    rng = np.random.default_rng(0)
    Z = np.column_stack([margins / length, rng.standard_normal(margins.size)])
    return Z, prgd.Problem(Z, loss=loss, scale="none", **options), np.array([length, 0.0])


def exact(Z, m, s, loss):
    mpmath.mp.dps = 80
    m = [mpmath.mpf(float(v)) for v in m]
    if loss == "exponential":
        value = [mpmath.exp(-v) for v in m]
        slope = value
    else:
        value = [mpmath.log1p(mpmath.exp(-v)) for v in m]
        slope = [1 / (1 + mpmath.exp(v)) for v in m]
    total = mpmath.fsum(a * v for a, v in zip(s, value, strict=True))
    gradient = [
        -mpmath.fsum(a * c * mpmath.mpf(float(z)) for a, c, z in zip(s, slope, Z[:, j], strict=True)) / total
        for j in range(Z.shape[1])
    ]
    return mpmath.log(total / mpmath.fsum(s)), gradient


@pytest.mark.kernels
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("length", NORMS)
@pytest.mark.parametrize("least", [-np.inf, 1e-12, 1.0, 600.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_mpmath(loss, length, least, weighted):
    margins = MARGINS[least <= MARGINS]
    s = np.arange(1, margins.size + 1) % 4 + 1.0 if weighted else np.ones(margins.size)
    Z, problem, w = problem_with_margins(length, margins, loss, sample_weight=s if weighted else None)
    log_loss, gradient = exact(Z, problem.margins(w), s, loss)
    assert problem.at(w).log_loss == pytest.approx(float(log_loss), rel=4e-15, abs=4e-16)
    found = problem.at(w).normalized_gradient
    assert np.isfinite(found).all()
    for j in range(2):
        # the terms of a component may cancel: its error is relative to the largest row entry
        scale = float(np.abs(Z[:, j]).max()) if least < 0 else abs(float(gradient[j]))
        assert abs(found[j] - float(gradient[j])) <= 1e-13 * max(scale, abs(float(gradient[j])))


@pytest.mark.parametrize("length", [1e-200, 1e-12, 1.0, 1e12, 1e200])
@pytest.mark.parametrize(
    ("algorithm", "gap", "steps"),
    [
        (prgd.NGD(), np.inf, 50),
        (prgd.PRGD(), np.inf, 50),
        (prgd.PRGD(norm="lp:3"), np.inf, 50),
        (prgd.algorithms.DualAcceleration(), np.inf, 50),
        (prgd.algorithms.GameDynamics(), np.inf, 50),
        (prgd.algorithms.MirrorDescent(p=1.1, loss_scaled=True), np.inf, 50),
        (prgd.algorithms.MirrorDescent(p=10.0, loss_scaled=True), np.inf, 50),
        (prgd.algorithms.Adam(), np.inf, 50),
        (prgd.algorithms.SteepestDescent(norm="linf"), np.inf, 50),
        (prgd.algorithms.SteepestDescent(norm="l1", normalized=True), np.inf, 50),
        (prgd.algorithms.ProgressiveNewton(), 1e-9, 60),
        (prgd.algorithms.GatedPRGD(), 1e-9, 60),
    ],
)
def test_runs_stay_finite_from_any_length(algorithm, gap, steps, length):
    data = prgd.datasets.synthetic_one(0)
    problem = prgd.Problem(data.X, data.y)
    result = prgd.run(problem, algorithm, np.array([0.8, 0.6]) * length, stop=steps)
    assert np.isfinite(result.w).all()
    assert np.isfinite(result.history["log_loss"]).all()
    assert data.gamma_star * (1 - gap) <= result.certificate.lower <= data.gamma_star * (1 + 1e-12)
    assert data.gamma_star * (1 - 1e-12) <= result.certificate.upper <= data.gamma_star * (1 + gap)


@pytest.mark.no_cover  # The other tests of phases run the same lines.
def test_radii_beyond_the_floating_range_do_not_overflow():
    data = prgd.datasets.synthetic_one(1)
    problem = prgd.Problem(data.X, data.y)
    algorithm = prgd.PRGD(prgd.schedules.Geometric(3.0), prgd.schedules.Every(2))
    result = prgd.run(problem, algorithm, [1.0, 0.1], stop=1_400, record=1_400)  # 3^647 overflows
    assert result.history["R_k"][-1] == 1e200
    assert np.isfinite(result.w).all()


@pytest.mark.kernels
@pytest.mark.parametrize("engine", MEASURING)
@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e200])
def test_row_norms_do_not_overflow(size, engine, tmp_path):
    rows = grid.ENGINES[engine](np.array([[3.0, 4.0], [0.3, 0.4]]) * size, None, None, tmp_path)
    assert rows.ask(Measure()).max_norm == pytest.approx(5 * size, rel=1e-14)


@pytest.mark.kernels
@pytest.mark.parametrize("engine", MEASURING)
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1.7e308])
def test_row_norms_at_the_ends_of_the_floating_range(size, engine, tmp_path):
    assert grid.ENGINES[engine](np.diag([size, size]), None, None, tmp_path).ask(Measure()) == (size, 0)


@pytest.mark.kernels
def test_the_kernel_exponential_is_exact_to_two_units():
    from prgd.rows import _kernels

    x = np.concatenate([np.linspace(-50.0, 0.0, 4001), -np.logspace(-18, 0, 40), [-700.0]])
    bits, out = np.empty(x.size, np.int64), np.empty(x.size)
    _kernels.exp_all(x, x.size, bits, bits.view(np.float64), out)
    np.testing.assert_array_max_ulp(out, np.exp(x), maxulp=2)
