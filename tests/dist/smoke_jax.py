"""Extra jax: Algorithm 1 for optax lowers a loss."""

import installed
import jax
import jax.numpy as jnp
import optax

import prgd.jax

installed.check("jax", "optax")
X = jax.random.normal(jax.random.key(0), (64, 4))
y = jnp.sign(X[:, 0])


def loss_of(w: jax.Array) -> jax.Array:
    return jnp.mean(jnp.log1p(jnp.exp(-y * (X @ w))))


optimizer = prgd.jax.prgd(0.05, "polynomial:0.3", 10, warm_up=100)
w = jnp.zeros(4)
state, first = optimizer.init(w), loss_of(w)
for _ in range(300):
    value, gradient = jax.value_and_grad(loss_of)(w)
    updates, state = optimizer.update(gradient, state, w, value=value)
    w = optax.apply_updates(w, updates)
assert loss_of(w) < 0.5 * first, (loss_of(w), first)
