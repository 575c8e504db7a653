"""Vectors of a cone in which a function has the other sign: each lies in the cone and has that sign."""

import numpy as np
import pytest

from prgd.proofs.lifted_rows import LiftedRows
from prgd.regression.cone_vectors import basis_vectors, near_vectors, opposite_vectors


def random_cone(seed, rows, columns):
    rng = np.random.default_rng(seed)
    t = rng.standard_normal(columns)
    G = rng.standard_normal((rows, columns))
    G *= np.sign(G @ t)[:, None]
    return G, t, np.sign(t).astype(np.int64)


@pytest.mark.parametrize("seed", range(10))
def test_each_function_has_a_vector_of_the_other_sign_or_weights_that_give_it(seed):
    G, t, signs = random_cone(seed, 12, 6)
    vectors, duals = opposite_vectors(G, t, np.eye(6), signs)
    for (k, sign), vector in [*vectors.items(), *near_vectors(G, t, np.eye(6), signs).items()]:
        assert (G @ vector > 0.0).all()
        assert vector[k] * sign > 0.0
        assert sign == -signs[k]
    assert sorted([*(k for k, _ in vectors), *duals]) == list(range(6))
    for k, q in duals.items():
        np.testing.assert_allclose(q @ G, signs[k] * np.eye(6)[k], atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_a_basis_decides_every_function(seed):
    G, t, signs = random_cone(seed, 6, 6)
    rows = LiftedRows(G, None, fit_intercept=False)
    found = {j: (u, v) for j, u, v in basis_vectors(rows, np.arange(6), t, range(6))}
    assert list(found) == list(range(6))
    for j, (u, v) in found.items():
        np.testing.assert_allclose(u @ G, np.eye(6)[j], atol=1e-9)
        if v is None:
            assert (signs[j] * u >= 0.0).all()
        else:
            assert (G @ v > 0.0).all()
            assert v[j] * signs[j] < 0.0
