"""Division of the gradient by the loss, as an optax transformation."""

from __future__ import annotations

from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from prgd.jax.blocks import scaled, widened


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
        factor = jnp.where(warming_up, 1.0, _quotient(widened(L_0), widened(value)))
        return jax.tree.map(lambda g: scaled(g, factor), updates), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)


def check_loss(value: Any) -> None:
    """Raise unless the loss is one number."""
    is_array = isinstance(value, (jax.Array, np.ndarray))
    if not (is_array or isinstance(value, Real)) or jnp.shape(value) != () or jnp.iscomplexobj(value):
        got = f"shape {value.shape} of {value.dtype}" if is_array else repr(value)
        raise ValueError(f"The loss (value) must be one real number; got {got}. Pass the mean of the batch.")


def _quotient(L_0: jax.Array, loss: jax.Array) -> jax.Array:
    """Return L_0 / loss, and NaN if the loss is not positive or the quotient not finite."""
    quotient = L_0 / loss
    return jnp.where((loss > 0.0) & (quotient > 0.0) & (quotient < jnp.inf), quotient, jnp.nan)
