"""Algorithm 1 as an optax optimizer: progressive rescaling around SGD, and the division by the loss."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from prgd.jax.arrays import Scope, check_loss, scaled, widened
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


def normalize_by_loss() -> optax.GradientTransformationExtraArgs:
    r"""Divide the gradient by the loss, :math:`\nabla L / L`; ``update`` takes the loss as ``value``.

    A loss that cannot be divided by (negative, 0, not finite, or with an infinite inverse) makes the updates
    NaN: `progressive_rescale`, or `optax.apply_if_finite`, around this transformation skips the step.

    Examples
    --------
    >>> transformation = normalize_by_loss()
    >>> state = transformation.init(jnp.ones(2))
    >>> transformation.update(jnp.array([1.0, 3.0]), state, value=0.5)[0].tolist()
    [2.0, 6.0]
    """

    def update(
        updates: Any,
        state: optax.EmptyState,
        params: Any = None,
        *,
        value: Any = None,
        warming_up: Any = False,
        L_0: Any = 1.0,
        **extra_args: Any,
    ) -> tuple[Any, optax.EmptyState]:
        if value is None:
            raise ValueError(
                "normalize_by_loss divides the gradient by the loss, and got none: call "
                "update(updates, state, params, value=loss)."
            )
        check_loss(value)
        loss = widened(value)
        quotient = widened(L_0) / loss
        is_usable = (loss > 0.0) & (quotient > 0.0) & (quotient < jnp.inf)
        factor = jnp.where(warming_up, 1.0, jnp.where(is_usable, quotient, jnp.nan))
        return jax.tree.map(lambda g: scaled(g, factor), updates), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)
