"""prgd.jax against the NumPy core and the torch optimizer, step by step in float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

import prgd
from prgd import deep
from prgd.jax import normalize_by_loss, progressive_rescale
from prgd.jax import prgd as prgd_sgd
from prgd.schedules import APPENDIX_RADII, Every, Geometric, Polynomial, PolynomialPhases

STEPS, TOLERANCE = 200, 1e-10
SCHEDULES = {
    "geometric": (Geometric(1.05), Every(5)),
    "polynomial": (Polynomial(0.5), PolynomialPhases(4, 0.6)),
}


@pytest.fixture(autouse=True)
def in_float64():
    jax.config.update("jax_enable_x64", True)  # jax.enable_x64, a context, is not in old versions
    yield
    jax.config.update("jax_enable_x64", False)


def trajectory(optimizer, loss, params, steps=STEPS):
    """Return the parameters after each step, as flat vectors, the last state, and the number of traces."""
    traces = []

    @jax.jit
    def step(params, state):
        traces.append(1)
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state, params, value=value)
        return optax.apply_updates(params, updates), state

    state, path = optimizer.init(params), []
    for _ in range(steps):
        params, state = step(params, state)
        path.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)]))
    return np.array(path), state, len(traces)


def assert_equal_paths(ours, theirs):
    errors = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
    assert errors.max() <= TOLERANCE


# a linear model: the core, and torch


@pytest.fixture(scope="module")
def linear():
    X, y = prgd.datasets.synthetic_one(seed=0)
    problem = prgd.Problem(X, y, scale="none")
    return problem, X * y[:, None], prgd.run(problem, prgd.GD(), stop=100).w


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("form", ["wrapper", "chain"])
def test_a_linear_model_follows_the_core_in_one_trace(linear, name, form):
    (R, T), (problem, Z, w0) = SCHEDULES[name], linear
    chain = optax.chain(normalize_by_loss(), optax.sgd(1.0), progressive_rescale(R, T))
    optimizer = prgd_sgd(1.0, R, T) if form == "wrapper" else chain
    path, state, traces = trajectory(optimizer, lambda w: jnp.exp(-Z @ w).mean(), jnp.array(w0))
    core = []
    prgd.run(problem, prgd.PRGD(R, T), w0, stop=STEPS, observe=lambda state, *_: core.append(state.w))
    assert_equal_paths(path, np.array(core[-STEPS:]))
    own = state if form == "wrapper" else state[-1]
    assert (traces, int(own.t), int(own.skipped)) == (1, STEPS, 0)
    assert T(int(own.k) - 1) < STEPS <= T(int(own.k))


# a network with two layers: torch


def network():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(12, 4)), [rng.normal(size=(6, 4)) / 2, rng.normal(size=(1, 6)) / 2]
    return X, np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1.0, -1.0), weights


def our_path(optimizer):
    X, y, weights = network()

    def loss(params):
        return jnp.exp(-y * (jax.nn.relu(X @ params[0].T) @ params[1].T)[:, 0]).mean()

    return trajectory(optimizer, loss, [jnp.array(w) for w in weights])


def torch_path(optimizer_of):
    X, y, weights = network()
    params = [torch.nn.Parameter(torch.tensor(w)) for w in weights]
    optimizer, path = optimizer_of(params), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        outputs = torch.relu(torch.tensor(X) @ params[0].T) @ params[1].T
        loss = torch.exp(-torch.tensor(y) * outputs[:, 0]).mean()
        loss.backward()
        optimizer.step(loss=loss)
        path.append(np.concatenate([p.detach().numpy().ravel() for p in params]))
    return np.array(path), optimizer


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"on_rescale": "reset", "warm_up": 0},
        {"on_rescale": "scale", "warm_up": 7, "scope": "matrix"},
        {"on_rescale": "keep", "warm_up": 0, "project": False},
    ],
)
def test_a_network_with_momentum_follows_torch(options):
    R, T = Polynomial(0.3), Every(6)
    theirs, optimizer = torch_path(lambda p: deep.PRGD(p, R=R, T=T, lr=0.02, momentum=0.9, **options))
    ours, state, traces = our_path(prgd_sgd(0.02, R, T, momentum=0.9, **options))
    assert_equal_paths(ours, theirs)
    assert (int(state.t), int(state.k), traces) == (optimizer.t, optimizer.k, 1)
    np.testing.assert_allclose(state.R_k, np.atleast_1d(optimizer.R_k), rtol=TOLERANCE)


@pytest.mark.slow
def test_a_base_with_second_moments_follows_torch():
    R, T = APPENDIX_RADII, PolynomialPhases(4, 0.6)
    adamw = partial(torch.optim.AdamW, lr=0.02, weight_decay=0.1)
    theirs, _ = torch_path(lambda p: deep.PRGD(adamw(p), R=R, T=T, warm_up=0))
    base = optax.chain(normalize_by_loss(), optax.adamw(0.02, weight_decay=0.1))
    assert_equal_paths(our_path(progressive_rescale(R, T, base=base))[0], theirs)
