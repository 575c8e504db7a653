"""prgd.jax by itself: schedules that are traced, scopes, faults, and the conventions of optax."""

import math
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import prgd.jax
from prgd import schedules
from prgd.jax import check, normalize_by_loss, progressive_rescale
from prgd.jax.formulas import radius_formula, time_formula

Z = jnp.array([[1.0, 0.2, 0.1], [0.3, 1.0, -0.2], [0.5, 0.4, 0.9]])


class Layer(NamedTuple):
    weight: jax.Array
    bias: jax.Array


def exponential_loss(w):
    return jnp.exp(-Z @ w).mean()


def step(optimizer, loss, params, state, **faults):
    value, gradient = jax.value_and_grad(loss)(params)
    gradient = jax.tree.map(lambda g: g * faults.get("gradient", 1.0), gradient)
    value = value * faults.get("value", 1.0)
    updates, state = optimizer.update(gradient, state, params, value=value)
    return optax.apply_updates(params, updates), state


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert [x.dtype for x in jax.tree.leaves(a)] == [x.dtype for x in jax.tree.leaves(b)]


# schedules


@pytest.mark.parametrize(
    "radius",
    [
        schedules.Geometric(1.2),
        schedules.Polynomial(1.2),
        schedules.APPENDIX_RADII,
        schedules.Constant(),
        schedules.ExplicitRadii((1.0, 5.0, 3.0)),
    ],
)
def test_radii_are_those_of_the_schedule(radius):
    k = np.arange(150)
    ours = radius_formula(radius)(jnp.asarray(k, jnp.int32), jnp.float32(1.7))
    np.testing.assert_allclose(jnp.broadcast_to(ours, k.shape), [radius(int(i), 1.7) for i in k], rtol=1e-5)


@pytest.mark.parametrize(
    "times",
    [
        schedules.Every(7),
        schedules.PolynomialPhases(5, 0.6),
        schedules.PowerTimes(),
        schedules.ExplicitTimes((0, 3, 40)),
        lambda k: 2 * k * (k + 1),
    ],
)
def test_times_are_exactly_those_of_the_schedule(times):
    k = np.arange(1000)
    exact = np.array([times(int(i)) for i in k])
    found = np.asarray(time_formula(times, 100_000)(jnp.asarray(k, jnp.int32)))
    expected = np.where((exact <= 100_000) | isinstance(times, schedules.Every), exact, -1)
    np.testing.assert_array_equal(found, expected)


def test_a_radius_of_ones_own_is_traced():
    own = radius_formula(lambda k, R_0: R_0 * jnp.exp(0.1 * k.astype(R_0.dtype)))
    np.testing.assert_allclose(own(jnp.int32(10), jnp.ones(1)), np.e, rtol=1e-6)
    optimizer = progressive_rescale(lambda k, R_0: R_0 * (1 + k) ** 0.5, 2, base=optax.set_to_zero())
    w = jnp.array([3.0, 4.0])
    params, states = jax.lax.scan(
        lambda carry, _: (lambda p, s: ((p, s), s.R_k))(*step(optimizer, jnp.sum, *carry)),
        (w, optimizer.init(w)),
        length=6,
    )
    np.testing.assert_allclose(states[::2, 0], 5.0 * np.sqrt([1, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose(params[0], w * np.sqrt(3), rtol=1e-6)


# scopes


def test_each_matrix_has_its_own_radius():
    """A plain loop in NumPy: matrices are rescaled and projected, vectors are stepped by the base alone."""
    rng = np.random.default_rng(0)
    params = [rng.normal(size=shape) for shape in [(3, 2), (2,), (2, 2, 2)]]
    gradients = [rng.normal(size=(9, *p.shape)) for p in params]
    times = schedules.ExplicitTimes((0, 3, 6))
    optimizer = progressive_rescale(1.5, times, base=optax.sgd(0.3), scope="matrix")
    ours = [jnp.array(p, jnp.float32) for p in params]
    update, state, R_0 = jax.jit(optimizer.update), optimizer.init(ours), [np.linalg.norm(p) for p in params]
    for t in range(9):
        updates, state = update([jnp.asarray(g[t], jnp.float32) for g in gradients], state, ours)
        ours = optax.apply_updates(ours, updates)
        for i, p in enumerate(params):
            R_k = R_0[i] * 1.5 ** (t // 3)
            if t % 3 == 0:
                p *= 1.0 if p.ndim < 2 else R_k / np.linalg.norm(p)
            else:
                p -= 0.3 * gradients[i][t]
                p *= 1.0 if p.ndim < 2 else min(1.0, R_k / np.linalg.norm(p))
            np.testing.assert_allclose(ours[i], p, atol=1e-5)
    assert state.R_k.shape == (2,)


# the conventions of optax

TREES = {
    "a vector": jnp.array([1.0, 2.0, -1.0]),
    "nested, with scalars, empty leaves and None": {
        "a": [Layer(jnp.ones((2, 3)), jnp.float32(2.0)), None],
        "b": (jnp.zeros((0, 4)), jnp.ones(2)),
    },
    "mixed dtypes": {"a": jnp.ones((2, 2), jnp.bfloat16), "b": jnp.ones(3), "c": jnp.ones(2, jnp.float16)},
    "complex": {"a": jnp.ones((2, 2), jnp.complex64)},
    "nothing": {},
}


@pytest.mark.parametrize("tree", TREES)
def test_update_is_pure_and_keeps_trees_and_dtypes(tree):
    params = TREES[tree]
    optimizer = prgd.jax.prgd(0.1, 1.2, 2, momentum=0.9, on_rescale="scale")
    assert isinstance(optimizer, optax.GradientTransformationExtraArgs)
    state = optimizer.init(params)
    assert_same(state, optimizer.init(params))
    gradient = jax.tree.map(jnp.ones_like, params)
    update = jax.jit(optimizer.update)
    for _ in range(4):
        updates, new = update(gradient, state, params, value=0.5, unknown=1)
        assert_same((updates, new), update(gradient, state, params, value=0.5, unknown=1))
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(new))
        for before, after in ((params, updates), (state, new)):
            assert jax.tree.structure(before) == jax.tree.structure(after)
            pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
            assert all((a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type) for a, b in pairs)
        params, state = optax.apply_updates(params, updates), new
    optax.tree_utils.tree_map_params(optimizer, lambda leaf: leaf, state)
    if tree != "nothing":
        np.testing.assert_allclose(state.R_k, 1.2 * state.R_0, rtol=1e-6)
        length = np.sqrt(sum(np.sum(np.abs(np.asarray(p, complex)) ** 2) for p in jax.tree.leaves(params)))
        assert length <= state.R_k[0] * 1.01
        check(state)


def test_integers_pass_through():
    params = {"w": jnp.ones(3), "count": jnp.arange(3)}
    gradient = {"w": jnp.ones(3), "count": np.zeros(3, jax.dtypes.float0)}
    optimizer = progressive_rescale(2.0, 2)
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    assert updates["count"] is gradient["count"]
    assert normalize_by_loss().update(gradient, None, value=2.0)[0]["count"] is gradient["count"]


@pytest.mark.slow
def test_seeds_are_mapped_and_steps_scanned():
    optimizer = prgd.jax.prgd(0.2, "geometric:1.3", 3, momentum=0.5)

    def run(w):
        def body(carry, _):
            return step(optimizer, exponential_loss, *carry), None

        return jax.lax.scan(body, (w, optimizer.init(w)), length=12)[0]

    starts = jax.random.normal(jax.random.key(0), (3, 3))
    params, state = jax.jit(jax.vmap(run))(starts)
    check(state)
    for i in range(2):
        w, state_i = jax.jit(run)(starts[i])
        np.testing.assert_allclose(params[i], w, rtol=1e-5)
        np.testing.assert_allclose(state.R_k[i], state_i.R_k, rtol=1e-6)


def test_some_parameters_can_be_left_out():
    params = {"w": jnp.array([3.0, 4.0]), "gain": jnp.array([7.0])}
    gradient = jax.tree.map(jnp.ones_like, params)
    rescaled = optax.masked(progressive_rescale(2.0, 2), {"w": True, "gain": False})
    masked = optax.chain(optax.sgd(0.1), rescaled)
    labels = {"w": "homogeneous", "gain": "other"}
    parts = {"homogeneous": prgd.jax.prgd(0.1, 2.0, 2), "other": optax.sgd(0.1)}
    parted = optax.multi_transform(parts, labels)
    for optimizer in (masked, parted):
        found, state = params, optimizer.init(params)
        for _ in range(3):  # rescalings at t = 0 and 2
            updates, state = optimizer.update(gradient, state, found, value=1.0)
            found = optax.apply_updates(found, updates)
        np.testing.assert_allclose(np.linalg.norm(found["w"]), 10.0, rtol=1e-6)
        np.testing.assert_allclose(found["gain"], 6.7, rtol=1e-6)
        check(state)


def test_hyperparameters_can_be_injected():
    static = ("radius", "times", "warm_up", "max_steps")
    optimizer = optax.inject_hyperparams(prgd.jax.prgd, static_args=static)(0.1, 1.5, 3)
    w = jnp.array([1.0, 0.5, 0.2])
    state = optimizer.init(w)
    w, state = step(optimizer, exponential_loss, w, state)
    state.hyperparams["learning_rate"] = 0.0
    assert_same(w, step(optimizer, exponential_loss, w, state)[0])


def test_the_warm_up_does_not_divide():
    optimizer = prgd.jax.prgd(0.1, schedules.Constant(), 4, warm_up=2)
    plain, w = optax.sgd(0.1), jnp.array([1.0, 0.5, 0.2])
    state, v, plain_state = optimizer.init(w), w, plain.init(w)
    for _ in range(2):
        w, state = step(optimizer, exponential_loss, w, state)
        v, plain_state = step(optax.with_extra_args_support(plain), exponential_loss, v, plain_state)
        assert_same(w, v)
        assert float(state.R_k[0]) == np.inf
    w, state = step(optimizer, exponential_loss, w, state)
    np.testing.assert_allclose(state.R_0, np.linalg.norm(v), rtol=1e-6)


# faults


@pytest.mark.parametrize(
    "fault", [{"gradient": np.nan}, {"gradient": np.inf}, {"value": np.nan}, {"value": 0.0}, {"value": -1.0}]
)
def test_a_step_that_is_not_finite_is_skipped_and_counted(fault):
    optimizer = prgd.jax.prgd(0.1, 1.2, 4, momentum=0.9)
    w = jnp.array([1.0, 0.5, 0.2])
    w, state = step(optimizer, exponential_loss, w, optimizer.init(w), **fault)  # a rescaling reads neither
    w, state = step(optimizer, exponential_loss, w, state)
    found, after = step(optimizer, exponential_loss, w, state, **fault)
    assert_same((found, after.base), (w, state.base))
    assert (int(after.t), int(after.k), int(after.skipped)) == (3, 1, 1)


def test_a_base_is_not_stepped_at_a_rescaling():
    def key(state):
        return optax.tree_utils.tree_get(state.base, "rng_key")

    base = optax.noisy_sgd(0.1, 0.1, 0.55, 0)  # the seed, which older versions call otherwise
    optimizer, w = progressive_rescale(1.2, 2, base=base), jnp.array([1.0, 0.5])
    state = optimizer.init(w)
    _, rescaled = optimizer.update(jnp.ones(2), state, w)
    _, stepped = optimizer.update(jnp.ones(2), rescaled, w)
    assert_same(jax.random.key_data(key(state)), jax.random.key_data(key(rescaled)))
    counts = [int(optax.tree_utils.tree_get(s.base, "count")) for s in (rescaled, stepped)]
    assert counts == [0, 1]


def test_a_block_of_norm_zero_stays_and_is_found():
    params = [jnp.zeros((2, 2)), jnp.ones((2, 2))]
    optimizer = progressive_rescale(1.5, 2, base=optax.sgd(0.1), scope="matrix")
    state, gradient = optimizer.init(params), [jnp.ones((2, 2))] * 2
    check(state)
    updates, state = optimizer.update(gradient, state, params)
    assert_same(updates[0], params[0])
    with pytest.raises(ValueError, match=r"no radius for block\(s\) 0, since their norm was 0"):
        check(state)
    for _ in range(2):
        params = optax.apply_updates(params, updates)
        updates, state = optimizer.update(gradient, state, params)
    check(state)  # The base has moved the block, and the next rescaling has measured it.
    np.testing.assert_allclose(state.R_0, [0.2, 2.0], rtol=1e-6)


def test_check_finds_runs_that_skip():
    optimizer, w = prgd.jax.prgd(0.1, 1.2, 9), jnp.array([1.0, 0.5, 0.2])
    state = optimizer.init(w)
    for _ in range(4):
        w, state = step(optimizer, exponential_loss, w, state, value=0.0)
    with pytest.raises(ValueError, match="3 of 4 steps were skipped"):
        check((state,))
    with pytest.raises(TypeError, match="check needs the state of progressive_rescale; got tuple"):
        check(optax.sgd(0.1).init(w))


@pytest.mark.parametrize(
    ("growth", "dtype", "largest", "rtol"),
    [
        (1e30, jnp.float32, float(np.finfo(np.float32).max) ** 0.5 / 1e3, 1e-5),
        (10.0, jnp.float16, 8188, 1e-3),
    ],
)
def test_radii_stay_in_the_range_of_the_dtype(growth, dtype, largest, rtol):
    optimizer, w = progressive_rescale(growth, 2), jnp.array([3.0, 4.0], dtype)
    state = optimizer.init(w)
    for _ in range(12):
        updates, state = optimizer.update(jnp.zeros(2, dtype), state, w)
        w = optax.apply_updates(w, updates)
    np.testing.assert_allclose(np.linalg.norm(w.astype(np.float32)), largest, rtol=rtol)


def test_a_phase_of_a_run_that_never_ends():
    optimizer, w = progressive_rescale(2.0, 2**40), jnp.array([3.0, 4.0])
    assert int(optimizer.update(w, optimizer.init(w), w)[1].k) == 1


RESCALE = progressive_rescale(1.2, 5)
BAD = [
    (lambda: progressive_rescale([1.2], 5), TypeError, "radius must be a number, text"),
    (lambda: progressive_rescale("exponential:2", 5), ValueError, "exponential"),
    (lambda: progressive_rescale(0.0, 5), ValueError, "c of Geometric"),
    (lambda: progressive_rescale(lambda k, R_0: 0.0 * R_0, 5), ValueError, "gave the radius 0.0 at k = 0"),
    (lambda: progressive_rescale(schedules.LiftTo(1.0, [1.0]), 5), ValueError, "reads the iterate"),
    (lambda: progressive_rescale(1.2, 2.5), TypeError, "times must be an integer, text"),
    (lambda: progressive_rescale(1.2, lambda k: k + 1), ValueError, r"T\(0\) must be 0; got 1"),
    (lambda: progressive_rescale(1.2, lambda k: 0), ValueError, "does not advance"),
    (lambda: progressive_rescale(1.2, lambda k: k), ValueError, "Phases of one step only rescale"),
    (lambda: progressive_rescale(1.2, lambda k: 1.5 * k), ValueError, r"T\(1\) must be an integer; got 1.5"),
    (lambda: progressive_rescale(1.2, 5, scope="group"), ValueError, "Unknown scope 'group'"),
    (lambda: progressive_rescale(1.2, 5, on_rescale="drop"), ValueError, "Unknown on_rescale 'drop'"),
    (lambda: progressive_rescale(1.2, 5, warm_up=-1), ValueError, "warm_up"),
    (lambda: progressive_rescale(1.2, 5, max_steps=2**31), ValueError, "must be at most 2147483646"),
    (lambda: progressive_rescale(1.2, 5, scope="matrix").init(jnp.ones(2)), ValueError, "there is none; got"),
    (lambda: progressive_rescale(1.2, 5).update(Z, None), ValueError, "measures the parameters"),
    (lambda: normalize_by_loss().update(Z, None), ValueError, "divides the gradient by the loss"),
    (lambda: normalize_by_loss().update(Z, None, value=jnp.ones(2)), ValueError, r"got shape \(2,\)"),
    (lambda: RESCALE.update(Z, RESCALE.init(Z), Z, value=Z), ValueError, r"got shape \(3, 3\)"),
    (lambda: normalize_by_loss().update(Z, None, value="0.5"), ValueError, "one real number; got '0.5'"),
    (lambda: normalize_by_loss().update(Z, None, value=jnp.ones((), complex)), ValueError, "of complex"),
    (lambda: progressive_rescale(1.2, 5, base=optax.sgd), TypeError, "must be a transformation of optax"),
    (lambda: progressive_rescale(lambda k: 1.0, 5), TypeError, "must take two arguments"),
    (lambda: progressive_rescale(lambda k, R_0: R_0 * math.exp(k), 5), TypeError, "without math and if"),
    (lambda: progressive_rescale(lambda k, R_0: R_0 if k else 1.0, 5), TypeError, "of traced arrays"),
    (lambda: progressive_rescale(lambda k, R_0: "5", 5), TypeError, "of traced arrays"),
    (lambda: prgd.jax.nothing, AttributeError, "has no attribute 'nothing'"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("package", ["jax", "optax"])
def test_a_missing_package_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    for module in ("rescaling", "formulas", "arrays"):
        monkeypatch.delitem(sys.modules, f"prgd.jax.{module}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"prgd.jax needs {package}: pip install '.\[jax\]'"):
        prgd.jax.progressive_rescale(1.2, 5)
    assert "progressive_rescale" in dir(prgd.jax)
