"""Vectors of a cone in which a function has the other sign: each lies in the cone and has that sign."""

import numpy as np
import pytest

from prgd.regression.cone_vectors import near_vectors, opposite_vectors


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
