"""The schedules of `prgd.schedules` as functions of a traced k: one compiled step serves all phases.

Radii are computed by formulas, whose rounding does no harm. Times decide by equality at which step a phase
begins, and a float32 formula would round some of them to a neighbour: they come from a table of the integers
that the schedule itself returns.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from prgd.core.checks import time_after
from prgd.schedules import (
    Every,
    ExplicitRadii,
    Geometric,
    Polynomial,
    StateRadius,
    as_radius,
    as_times,
    check_times,
)

RadiusFormula = Callable[[jax.Array, jax.Array], Any]
TimeFormula = Callable[[jax.Array], jax.Array]
_NEVER = -1  # no step has this number


def radius_formula(radius: Any) -> RadiusFormula:
    """Return ``(k, R_0) -> R_k`` for arrays.

    Parameters
    ----------
    radius : Radius, or text or a number that `prgd.schedules.as_radius` reads. Any other callable is called
        with a traced integer k and the array of the R_0, so it must be written in arithmetic or jax.numpy.

    Examples
    --------
    >>> radius_formula("geometric:2")(jnp.int32(3), jnp.ones(1)).tolist()
    [8.0]
    """
    R = as_radius(radius)
    if isinstance(R, StateRadius):
        raise ValueError(f"{R!r} reads the iterate of the core; use radii of k and R_0 alone.")
    if isinstance(R, Geometric):
        rate = math.log(R.c)
        return lambda k, R_0: R_0 * jnp.exp(k.astype(R_0.dtype) * rate)
    if isinstance(R, Polynomial):
        shift, scale, a, cap = R.shift, R.scale, R.a, R.cap
        return lambda k, R_0: jnp.minimum(R_0 * (shift + k.astype(R_0.dtype) / scale) ** a, _held(cap, R_0))
    if isinstance(R, ExplicitRadii):
        radii = np.array(R.radii)
        return lambda k, R_0: jnp.asarray(_held(radii, R_0))[jnp.minimum(k, len(radii) - 1)]
    _check_function(R)
    return cast(RadiusFormula, R)


def _check_function(R: Any) -> None:
    """Raise unless a radius of a user's own can be traced and is positive at k = 0 and R_0 = 1."""
    k, R_0 = jnp.zeros((), jnp.int32), jnp.ones(1)
    try:
        jax.eval_shape(lambda k, R_0: jnp.broadcast_to(R(k, R_0), (1,)), k, R_0)
    except (TypeError, ValueError, AttributeError, jax.errors.JAXTypeError) as error:
        raise TypeError(
            f"{R!r} must be a function (k, R_0) -> R_k of traced arrays, an integer k and the R_0 of all "
            "blocks, written in arithmetic or jax.numpy (jnp.exp, jnp.where) without math and if; it "
            f"failed: {str(error).splitlines()[0]}"
        ) from error
    first = float(jnp.broadcast_to(R(k, R_0), (1,))[0])
    if not (math.isfinite(first) and first > 0.0):
        raise ValueError(f"{R!r} gave the radius {first!r} at k = 0 and R_0 = 1; it must be positive.")


def _held(numbers: Any, R_0: jax.Array) -> Any:
    """Return numbers in the dtype of R_0, those beyond its range replaced by its largest number."""
    return np.minimum(numbers, float(jnp.finfo(R_0.dtype).max)).astype(R_0.dtype)


def time_formula(times: Any, max_steps: int) -> TimeFormula:
    """Return ``k -> T_k`` for an array k, exact up to step ``max_steps`` and without end for `Every`.

    Parameters
    ----------
    times : Times, or text or an integer that `prgd.schedules.as_times` reads.
    max_steps : int, the last step of the table; no phase begins after it.

    Examples
    --------
    >>> [int(time_formula("polynomial:5,0.6", 100)(jnp.int32(k))) for k in range(4)]
    [0, 5, 13, 23]
    """
    T = as_times(times)
    if isinstance(T, Every):
        steps = min(T.steps, 2**31 - 1)  # k is an int32, and so is t, which never gets there
        return lambda k: k * steps
    check_times(T)
    found = [0]
    while T(len(found)) <= max_steps:
        found.append(time_after(T, len(found)))
    table = np.array([*found, _NEVER], np.int32)
    return lambda k: jnp.asarray(table)[jnp.minimum(k, len(table) - 1)]
