"""
PRGD in JAX: an optax loop
==========================

:func:`prgd.jax.prgd` is the paper's algorithm, PRGD, as an optax transformation. It takes the place of
``optax.sgd``, and gets the loss as ``value``. Everything is jitted; one compiled step serves all phases.

A network with one hidden layer separates two half moons. We compare the *normalized margin*, the smallest
margin of a point divided by the squared norm of the weights. Biases of the *first* layer are allowed: they
act like a constant input, and the network stays homogeneous (weights twice as long give the same decisions).
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from sklearn.datasets import make_moons

import prgd.jax

# sphinx_gallery_thumbnail_number = 2
plt.rc("font", size=12)
plt.rc("axes", titlesize=12)
plt.rc("axes.spines", top=False, right=False)
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"  # safe for colour-blind readers
STEPS, WARM_UP = 4000, 500

X, y = make_moons(200, noise=0.1, random_state=0)
X, y = (
    jnp.column_stack([X, np.ones(len(X))]),
    jnp.asarray(2.0 * y - 1),
)  # the column of ones carries the biases


def network(params, X):
    """Return the output of the network for each row."""
    return jax.nn.relu(X @ params["first"]) @ params["second"]


def loss_fn(params):
    """Return the mean logistic loss."""
    return jax.nn.softplus(-y * network(params, X)).mean()


def normalized_margin(params):
    """Return the smallest margin over the squared norm: two layers, so the degree is 2."""
    return (y * network(params, X)).min() / optax.tree.norm(params, squared=True)


def train(optimizer):
    """Return the last weights and state, and the loss and the margin at each step."""

    def step(carry, _):
        params, state = carry
        value, gradient = jax.value_and_grad(loss_fn)(params)
        updates, state = optimizer.update(
            gradient, state, params, value=value
        )  # optax calls the loss "value"
        return (optax.apply_updates(params, updates), state), (value, normalized_margin(params))

    first, second = jax.random.split(jax.random.key(0))
    params = {
        "first": jax.random.normal(first, (3, 100)) / jnp.sqrt(3),
        "second": jax.random.normal(second, (100,)) / 10,
    }
    run = jax.jit(lambda carry: jax.lax.scan(step, carry, length=STEPS))
    (params, state), curves = run((params, optimizer.init(params)))
    return params, state, curves


# %%
# Two runs
# --------
# Both take 500 steps of SGD with momentum. Then PRGD multiplies the gradient by ``L_0 / L``, the loss at the
# end of the warm-up divided by the present loss, and every 20 steps it rescales the weights to the norm
# ``R_0 (k + 1)^0.1``.

sgd = optax.with_extra_args_support(optax.sgd(0.1, momentum=0.9))
progressive = prgd.jax.prgd(0.1, "polynomial:0.1", 20, momentum=0.9, warm_up=WARM_UP)
runs = {"SGD": train(sgd), "PRGD": train(progressive)}
prgd.jax.check(runs["PRGD"][1])  # raises if the run went wrong where jit cannot
for name, (params, _, (loss, margin)) in runs.items():
    norm = optax.tree.norm(params)
    print(f"{name:4} loss {loss[-1]:.1e}, normalized margin {margin[-1]:.5f}, norm {norm:.1f}")

figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.2, 5.8), sharex=True, layout="constrained")
for name, colour, dashes in (("SGD", GREY, ":"), ("PRGD", BLUE, "-")):
    loss, margin = runs[name][2]
    top.semilogy(loss, dashes, color=colour, linewidth=2)
    bottom.plot(margin, dashes, color=colour, linewidth=2)
    top.text(3000, 1.5 * loss[3000], name, color=colour, weight="bold")
    bottom.text(3000, margin[3000] + 0.0009, name, color=colour, weight="bold")
bottom.axhline(0, color="black", linewidth=0.8)
bottom.text(STEPS, 0.0003, "above: all points are right", ha="right")
top.annotate("warm-up ends", (WARM_UP, 0.012), (900, 0.1), arrowprops={"arrowstyle": "->"})
top.set(ylabel="training loss", title="After the warm-up the loss of PRGD falls faster")
bottom.set(
    ylim=(-0.004, 0.0112), xlabel="step", ylabel="normalized margin", title="... and its margin grows faster"
)
plt.show()

# %%
# What a margin looks like
# ------------------------
# On the thick line the output of the network changes its sign. On the dashed lines the output, divided by
# the squared norm of the weights, equals the smallest margin up to its sign: no point lies between the
# dashed lines, and at least one lies on them.

grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 200), np.linspace(-1.1, 1.6, 150)), axis=-1)
inputs = np.concatenate([grid, np.ones((*grid.shape[:2], 1))], axis=-1)
figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.4), sharey=True, layout="constrained")
for axes, (name, (params, *_)) in zip(panels, runs.items(), strict=True):
    output = np.asarray(network(params, inputs)) / float(optax.tree.norm(params, squared=True))
    margin = float(normalized_margin(params))
    axes.contourf(*np.moveaxis(grid, 2, 0), output, levels=[-9, 0, 9], colors=[ORANGE, BLUE], alpha=0.2)
    axes.contour(*np.moveaxis(grid, 2, 0), output, levels=[0], colors="black", linewidths=2)
    axes.contour(*np.moveaxis(grid, 2, 0), output, levels=[-margin, margin], colors="black", linestyles="--")
    axes.plot(*X[y > 0, :2].T, "o", color=BLUE, markersize=3.5)
    axes.plot(*X[y < 0, :2].T, "^", color=ORANGE, markersize=3.5)
    axes.set(xticks=[], yticks=[], title=f"{name}: margin {margin:.4f}")
plt.show()

# %%
# **What you see.** The normalized margin of PRGD is larger, with the same network, the same data and the
# same number of steps.
#
# **What to do.** Take a warm-up that is long enough to separate the data, radii that grow slowly, and the
# learning rate of SGD. Any optax optimizer can be the base: see :func:`prgd.jax.progressive_rescale`. In
# PyTorch, :ref:`three lines <sphx_glr_gallery_drop_in.py>` do the same. The page on :doc:`JAX </jax>` has
# all options.
