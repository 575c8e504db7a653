"""Progressive rescaling as an optax transformation around any other one."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from prgd.core.checks import check_integer, unknown
from prgd.jax.arrays import (
    Leaves,
    Scope,
    all_finite,
    check_loss,
    find_blocks,
    is_inexact,
    norm_dtype,
    norms,
    real_dtype,
    scaled,
    widened,
)
from prgd.jax.formulas import RadiusFormula, TimeFormula, radius_formula, time_formula

OnRescale = Literal["reset", "scale", "keep"]
_MOMENTUM = ("trace", "mu")  # fields in which the states of optax hold a momentum
_LAST_STEP = 2**31 - 2  # t is an int32
_WEIGHT = 0.05  # weight of the newest loss in the running loss of the warm-up, as in prgd.deep


class RescaleState(NamedTuple):
    """State of `progressive_rescale`; the arrays R_0 and R_k have one entry for each block.

    Attributes
    ----------
    t : steps so far, the warm-up and skipped steps included.
    k : rescalings so far, which is the number of the next phase.
    R_0 : norm at the first rescaling, 0 before it.
    R_k : radius of this phase, infinite before the first rescaling and for a block of norm 0.
    skipped : steps skipped for a non-finite loss or gradient.
    L_0 : running loss of the warm-up, a mean in which old losses fade; 0 without a warm-up.
    base : state of the base transformation.
    """

    t: jax.Array
    k: jax.Array
    R_0: jax.Array
    R_k: jax.Array
    skipped: jax.Array
    L_0: jax.Array
    base: Any


def progressive_rescale(
    radius: Any,
    times: Any,
    *,
    base: optax.GradientTransformation | None = None,
    scope: Scope = "global",
    warm_up: int = 0,
    on_rescale: OnRescale = "keep",
    project: bool = True,
    max_steps: int = 1_000_000,
) -> optax.GradientTransformationExtraArgs:
    r"""Rescale to radius R_k at t = T_k, else take the base's step and project it to the ball.

    .. math::

        w(T_k + 1) &= R_k\, w(T_k) / \|w(T_k)\| \\
        w(t + 1) &= \mathrm{Proj}_{B(0, R_k)}\, (w(t) + u(t)), \quad u \text{ the update of the base}

    A rescaling replaces the update and does not step the base. A step with a non-finite loss, gradient or
    update of the base leaves parameters and base as they are, and is counted. No error is possible inside
    of ``jax.jit``: a block of norm 0 stays as it is and has no ball until a rescaling finds it larger, and
    `check` finds it outside.

    Parameters
    ----------
    radius : Radius, str, float or callable
        ``(k, R_0) -> R_k`` with R_0 the norm at the first rescaling, as `prgd.schedules.as_radius` reads it.
        A function of your own is called with traced arrays. Radii are kept within the range in which the
        square of a norm and all entries are finite.
    times : Times, str, int or callable
        ``k -> T_k`` with ``T_0 = 0``, in steps after the warm-up, as `prgd.schedules.as_times` reads it.
    base : transformation of optax, optional
        What is stepped, e.g. ``optax.chain(normalize_by_loss(), optax.adam(1e-3))``. Without one, the updates
        that come in are the steps: put `progressive_rescale` last in a chain. Such a chain steps what stands
        before even at a rescaling, so momentum belongs in ``base``.
    scope : {"global", "matrix"}
        All parameters are one vector, as in the paper, or each parameter of two or more dimensions has its
        own R_0 and R_k, and only the base steps the others.
    warm_up : int
        Number of steps of the base at the beginning, in which `normalize_by_loss` inside of ``base`` does not
        divide. After a warm-up, `normalize_by_loss` multiplies by L_0, the running loss at the end of the
        warm-up, so that divided steps begin with the length of plain steps.
    on_rescale : {"keep", "reset", "scale"}
        What a rescaling does to the momentum of the base (fields ``trace`` and ``mu`` of the states of
        optax): leave it unchanged, set it to zero, or multiply it by the factor of the parameters.
    project : bool
        Whether each step is projected to the ball of radius R_k, as in Algorithm 1.
    max_steps : int
        The step after the warm-up up to which the times are tabulated: after it, no rescaling follows.
        `Every` needs no table and has no such end.

    References
    ----------
    Wang, Min and Wu (2024), Algorithm 1.

    Examples
    --------
    >>> optimizer = progressive_rescale(2.0, 5, base=optax.sgd(0.1))
    >>> w = jnp.array([3.0, 4.0])
    >>> state = optimizer.init(w)
    >>> updates, state = optimizer.update(jnp.ones(2), state, w)  # t = T_0: R_0 = R_k = 5
    >>> state.R_k.tolist(), updates.tolist()
    ([5.0], [0.0, 0.0])
    """
    if scope not in get_args(Scope):
        raise unknown("scope", str(scope), get_args(Scope))
    check_integer("warm_up", warm_up, minimum=0)
    check_integer("max_steps", max_steps, minimum=1)
    if warm_up + max_steps > _LAST_STEP:
        raise ValueError(f"warm_up + max_steps must be at most {_LAST_STEP}; got {warm_up + max_steps}.")
    if on_rescale not in get_args(OnRescale):
        raise unknown("on_rescale", str(on_rescale), get_args(OnRescale))
    if not (base is None or (hasattr(base, "init") and hasattr(base, "update"))):
        raise TypeError(
            f"base must be a transformation of optax, such as optax.sgd(0.1); got {type(base).__name__}."
        )
    R, T = radius_formula(radius), time_formula(times, max_steps)
    inner = optax.with_extra_args_support(optax.identity() if base is None else base)
    rescaling = _Rescaling(R, T, inner, scope, warm_up, on_rescale, project)
    return optax.GradientTransformationExtraArgs(rescaling.init, rescaling.update)


@dataclass(frozen=True)
class _Rescaling:
    """The two functions of `progressive_rescale`, whose docstring describes the fields."""

    R: RadiusFormula
    T: TimeFormula
    base: optax.GradientTransformationExtraArgs
    scope: Scope
    warm_up: int
    on_rescale: OnRescale
    project: bool

    def init(self, params: Any) -> RescaleState:
        """Return the state before the first step."""
        leaves = jax.tree.leaves(params)
        R_0 = jnp.zeros(len(find_blocks(leaves, self.scope)), norm_dtype(leaves))
        # Each count is an array of its own: a buffer that stands twice in a state cannot be donated.
        t, k, skipped = (jnp.zeros((), jnp.int32) for _ in range(3))
        R_k, L_0 = jnp.full_like(R_0, jnp.inf), jnp.zeros((), R_0.dtype)
        return RescaleState(t, k, R_0, R_k, skipped, L_0, self.base.init(params))

    def update(
        self, updates: Any, state: RescaleState, params: Any = None, *, value: Any = None, **extra_args: Any
    ) -> tuple[Any, RescaleState]:
        """Return the updates of one step of Algorithm 1, and the state after it."""
        if params is None:
            raise ValueError(
                "progressive_rescale measures the parameters, and got none: call "
                "update(updates, state, params, value=loss)."
            )
        warming_up = state.t < self.warm_up
        given = {**extra_args, "warming_up": warming_up, "L_0": jnp.where(state.L_0 > 0.0, state.L_0, 1.0)}
        if value is not None:
            check_loss(value)
            given["value"] = value
        steps, base_state = self.base.update(updates, state.base, params, **given)
        is_rescaling = state.t - self.warm_up == self.T(state.k)
        is_finite = all_finite(updates, steps, value)

        tree: Any
        weights, tree = jax.tree.flatten(params)
        moves, blocks = tree.flatten_up_to(steps), find_blocks(weights, self.scope)
        length = norms(weights, blocks, state.R_0.dtype)
        R_0, R_k = _next_radii(self.R, state, length, is_rescaling, _largest_radii(weights, blocks))
        factor = jnp.where(jnp.isfinite(R_k) & _is_usable(length), R_k / length, 1.0)
        rescaled = _rescaled(weights, blocks, factor)  # R_k w / ||w|| - w
        projected = _projected(weights, moves, blocks, R_k) if self.project else moves
        new = [
            _chosen(move, is_rescaling, a, is_finite, b)
            for move, a, b in zip(moves, rescaled, projected, strict=True)
        ]

        is_stepped = is_finite & ~is_rescaling
        base_state = jax.tree.map(lambda a, b: jnp.where(is_stepped, a, b), base_state, state.base)
        if self.on_rescale != "keep":
            multiplier = jnp.zeros_like(factor) if self.on_rescale == "reset" else factor
            multiplier = jnp.where(is_rescaling, multiplier, 1.0)
            base_state = _scale_momentum(base_state, params, blocks, multiplier)
        t, k = jnp.minimum(state.t + 1, _LAST_STEP), state.k + is_rescaling
        skipped = state.skipped + (~is_finite & ~is_rescaling)
        L_0 = state.L_0 if value is None else jnp.where(warming_up, _running(state.L_0, value), state.L_0)
        return tree.unflatten(new), RescaleState(t, k, R_0, R_k, skipped, L_0, base_state)


def _running(mean: jax.Array, value: Any) -> jax.Array:
    """Return the running loss after one more loss: a mean of 0 has none yet, and only finite losses count."""
    loss = jnp.asarray(value, mean.dtype)
    new = jnp.where(mean == 0.0, loss, mean + _WEIGHT * (loss - mean))
    return jnp.where(jnp.isfinite(loss), new, mean)


def _is_usable(length: jax.Array) -> jax.Array:
    return (length > 0.0) & (length < jnp.inf)


def _next_radii(
    R: RadiusFormula, state: RescaleState, length: jax.Array, is_rescaling: jax.Array, largest: Any
) -> tuple[jax.Array, jax.Array]:
    """Return R_0 and R_k of each block after this step; a block without a usable radius has no ball."""
    is_first = is_rescaling & (state.R_0 == 0.0) & _is_usable(length)
    R_0 = jnp.where(is_first, length, state.R_0)
    R_k = jnp.asarray(R(state.k, R_0), R_0.dtype)
    largest = jnp.asarray(largest, R_0.dtype)
    R_k = jnp.where((R_0 > 0.0) & (R_k > 0.0), jnp.clip(R_k, 1.0 / largest, largest), jnp.inf)
    return R_0, jnp.where(is_rescaling, R_k, state.R_k)


def _largest_radii(weights: Leaves, blocks: list[list[int]]) -> list[float]:
    """Return for each block the radius up to which norms have a square, and entries stay in their range."""
    return [min(_largest_norm(weights[i]) for i in block) for block in blocks]


def _largest_norm(leaf: Any) -> float:
    largest, widest = (float(jnp.finfo(real_dtype(x)).max) for x in (leaf, widened(leaf)))
    return min(largest / 8, float(np.sqrt(widest)) / 1e3)  # A step may leave the sphere before a projection.


def _rescaled(weights: Leaves, blocks: list[list[int]], factor: jax.Array) -> Leaves:
    """Return the updates that multiply each block by its factor; other leaves do not move."""
    updates = [jnp.zeros((), jnp.int32)] * len(weights)
    for b, block in enumerate(blocks):
        for i in block:
            w = widened(weights[i])
            updates[i] = ((factor[b] - 1.0) * w).astype(w.dtype)
    return updates


def _projected(weights: Leaves, moves: Leaves, blocks: list[list[int]], R_k: jax.Array) -> Leaves:
    """Return the updates that end in the ball of each block; a move that stays inside is not rounded."""
    ends = {i: widened(weights[i]) + widened(moves[i]) for block in blocks for i in block}
    length = norms([ends.get(i) for i in range(len(weights))], blocks, R_k.dtype)
    # A norm that overflows must not send the parameters to zero.
    factor = jnp.where(_is_usable(length) & (length > R_k), R_k / length, 1.0)
    updates = list(moves)
    for b, block in enumerate(blocks):
        for i in block:
            inside = factor[b].astype(real_dtype(ends[i])) * ends[i] - weights[i]
            updates[i] = jnp.where(factor[b] < 1.0, inside, moves[i])
    return updates


def _chosen(move: Any, is_rescaling: jax.Array, rescaled: Any, is_finite: jax.Array, step: Any) -> Any:
    """Return the update of a rescaling, of a step or, for a skipped step, zero, in the dtype of the move."""
    if not is_inexact(move):
        return move
    return jnp.where(is_rescaling, rescaled, jnp.where(is_finite, step, 0)).astype(jnp.result_type(move))


def _scale_momentum(base_state: Any, params: Any, blocks: list[list[int]], factor: jax.Array) -> Any:
    """Multiply the momentum of each block, which lies under a field ``trace`` or ``mu`` as in ``params``."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    factors = {paths[i]: factor[b] for b, block in enumerate(blocks) for i in block}

    def multiplied(path: tuple[Any, ...], leaf: Any) -> Any:
        for depth, key in enumerate(path):
            place = path[depth + 1 :]
            if getattr(key, "name", None) in _MOMENTUM and place in factors:
                return scaled(leaf, factors[place])
        return leaf

    return jax.tree_util.tree_map_with_path(multiplied, base_state)


def check(state: Any) -> None:
    """Raise if a run went wrong where ``jax.jit`` cannot: call it outside, now and then.

    Parameters
    ----------
    state : the state of an optimizer that holds a `RescaleState`, alone, in a chain or under ``jax.vmap``.

    Raises
    ------
    ValueError
        If a block has had no usable norm or radius at the last rescaling, or most steps were skipped.

    Examples
    --------
    >>> optimizer, w = progressive_rescale(1.2, 5), jnp.zeros(2)
    >>> _, state = optimizer.update(w, optimizer.init(w), w)
    >>> check(state)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: progressive_rescale has no radius for block(s) 0, since ... Initialise ...
    """
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, RescaleState))
    found = [leaf for leaf in leaves if isinstance(leaf, RescaleState)]
    if not found:
        raise TypeError(
            f"check needs the state of progressive_rescale; got {type(state).__name__} without one."
        )
    for own in found:
        t, k, skipped = (np.asarray(count) for count in (own.t, own.k, own.skipped))
        lost = np.isinf(np.asarray(own.R_k)) & (k > 0)[..., None]
        if lost.any():
            raise ValueError(
                f"progressive_rescale has no radius for block(s) {', '.join(map(str, np.nonzero(lost)[-1]))}"
                ", since their norm was 0 or not finite at the last rescaling, or their radius was not "
                "positive: they are not rescaled. Initialise them, or warm up until they are not zero."
            )
        if (2 * skipped > t).any():
            raise ValueError(
                f"{skipped.max()} of {t.max()} steps were skipped, for a loss or gradient that is not finite "
                "or a loss that is not positive. Lower the learning rate or the growth of the radii."
            )
