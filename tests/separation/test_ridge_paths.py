"""A sample of `ridge_paths`: infinite coefficients grow as ridge vanishes, and finite ones converge."""

import numpy as np
import pytest
from separation.ridge_paths import KINDS, Model, compare, converges, draw, grows, limit


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_coefficients_follow_the_verdict(kind):
    for index in range(kind, 3 * len(KINDS), len(KINDS)):  # `make oracle` tries more
        words, wrong = compare(draw(0, index))
        assert not wrong
        assert {"+inf", "-inf"} & set(words.values())


def test_growth_and_convergence():
    k = np.arange(9.0)
    assert grows(0.1 * k)
    assert not converges(0.1 * k)
    assert converges(3.0 + 10.0**-k)
    assert not grows(3.0 - 10.0**-k)
    assert limit(3.0 + 10.0**-k) == pytest.approx(3.0, abs=1e-12)


@pytest.mark.parametrize("family", ["binomial", "poisson", "multinomial"])
def test_gradients_and_hessians(family):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 2)), rng.integers(3 if family == "multinomial" else 2, size=12)
    allowed = np.eye(3, dtype=bool)[y] | (rng.random((12, 3)) < 0.7) if family == "multinomial" else None
    model = Model(family, X, y, allowed)
    beta = rng.standard_normal(2 * model.classes)
    _, gradient, hessian = model.evaluate(beta)
    for j, unit in enumerate(1e-5 * np.eye(beta.size)):
        (up, slope_up, _), (down, slope_down, _) = model.evaluate(beta + unit), model.evaluate(beta - unit)
        assert gradient[j] == pytest.approx((up - down) / 2e-5, abs=1e-8)
        assert hessian[j] == pytest.approx((slope_up - slope_down) / 2e-5, abs=1e-8)
