"""Algorithm 1 as an optax optimizer: progressive rescaling around SGD, with the gradient over the loss."""

from __future__ import annotations

from typing import Any

import optax

from prgd.jax.blocks import Scope
from prgd.jax.normalization import normalize_by_loss
from prgd.jax.rescaling import OnRescale, progressive_rescale


def prgd(
    learning_rate: Any,
    radius: Any,
    times: Any,
    *,
    momentum: Any = None,
    nesterov: bool = False,
    loss_scaled: bool = True,
    scope: Scope = "global",
    warm_up: int = 0,
    on_rescale: OnRescale = "keep",
    project: bool = True,
    max_steps: int = 1_000_000,
) -> optax.GradientTransformationExtraArgs:
    r"""Algorithm 1: `progressive_rescale` around `optax.sgd`, with the gradient divided by the loss.

    .. math::

        w(T_k + 1) = R_k\, \frac{w(T_k)}{\|w(T_k)\|}, \qquad w(t + 1) = \mathrm{Proj}_{B(0, R_k)} \Big(w(t) -
        \eta \frac{\nabla L}{L}\Big)

    Parameters
    ----------
    learning_rate, momentum, nesterov : as in `optax.sgd`. A schedule of the rate does not count rescalings.
    loss_scaled : bool
        Whether the gradient is divided by the loss. If not, train on the logarithm of the loss, whose
        gradient is that quotient and does not underflow.
    radius, times, scope, warm_up, on_rescale, project, max_steps : as in `progressive_rescale`.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> Z = jnp.array([[1.0, 0.2], [0.3, 1.0]])
    >>> loss = lambda w: jnp.exp(-Z @ w).mean()
    >>> optimizer, w = prgd(0.5, "geometric:1.2", 5), jnp.array([1.0, 0.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(100):
    ...     value, gradient = jax.value_and_grad(loss)(w)
    ...     updates, state = optimizer.update(gradient, state, w, value=value)
    ...     w = optax.apply_updates(w, updates)
    >>> int(state.k), round(float(jnp.min(Z @ w) / jnp.linalg.norm(w)), 2)
    (20, 0.88)
    """
    sgd = optax.sgd(learning_rate, momentum=momentum, nesterov=nesterov)
    return progressive_rescale(
        radius,
        times,
        base=optax.chain(normalize_by_loss(), sgd) if loss_scaled else sgd,
        scope=scope,
        warm_up=warm_up,
        on_rescale=on_rescale,
        project=project,
        max_steps=max_steps,
    )
