"""What JAX's arrays need to be checked, measured and scaled: blocks of a tree with norms, dtypes, losses."""

from numbers import Real
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

Scope = Literal["global", "matrix"]
Leaves = list[Any]


def find_blocks(leaves: Leaves, scope: str) -> list[list[int]]:
    """Return the positions of the leaves of each block; only shapes and dtypes decide.

    With ``scope="global"`` all floating-point leaves are one block, with ``"matrix"`` each of two or more
    dimensions is one. Leaves without entries belong to none.

    Examples
    --------
    >>> leaves = [jnp.ones(2), jnp.ones((2, 2)), jnp.ones((0, 2)), jnp.arange(3)]
    >>> find_blocks(leaves, "global"), find_blocks(leaves, "matrix")
    ([[0, 1]], [[1]])
    """
    filled = [i for i, leaf in enumerate(leaves) if is_inexact(leaf) and jnp.size(leaf)]
    if scope == "global" or not filled:
        return [filled] if filled else []
    matrices = [[i] for i in filled if jnp.ndim(leaves[i]) >= 2]
    if not matrices:
        raise ValueError(
            "scope='matrix' rescales parameters of two or more dimensions, and there is none; got shapes "
            f"{[jnp.shape(leaves[i]) for i in filled]}. Use scope='global'."
        )
    return matrices


def is_inexact(leaf: Any) -> bool:
    """Tell whether a leaf holds floating-point or complex numbers."""
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact))


def widened(leaf: Any) -> jax.Array:
    """Return the leaf with at least the precision of float32."""
    return jnp.asarray(leaf, jnp.promote_types(jnp.result_type(leaf), jnp.float32))


def real_dtype(leaf: Any) -> Any:
    """Return the dtype of the absolute values of a leaf."""
    return jnp.finfo(jnp.result_type(leaf)).dtype


def norm_dtype(leaves: Leaves) -> Any:
    """Return the dtype of norms: float64 if a leaf has that precision, else float32."""
    return jnp.result_type(jnp.float32, *(real_dtype(leaf) for leaf in leaves if is_inexact(leaf)))


def norms(leaves: Leaves, blocks: list[list[int]], dtype: Any) -> jax.Array:
    """Return the Euclidean norm of each block, an array of shape (blocks,).

    Examples
    --------
    >>> norms([jnp.ones(9), jnp.full((4, 4), 2.0)], [[0], [1]], jnp.float32).tolist()
    [3.0, 8.0]
    """
    squares = [sum(_sum_of_squares(leaves[i]).astype(dtype) for i in block) for block in blocks]
    return jnp.sqrt(jnp.stack(squares)) if squares else jnp.zeros(0, dtype)


def _sum_of_squares(leaf: Any) -> jax.Array:
    return jnp.sum(jnp.square(jnp.abs(widened(leaf))))


def scaled(leaf: Any, factor: jax.Array) -> Any:
    """Return a leaf times a factor, in the dtype of the leaf; 16-bit numbers are rounded only once."""
    if not is_inexact(leaf):
        return leaf
    wide = widened(leaf)
    return (wide * factor.astype(real_dtype(wide))).astype(jnp.result_type(leaf))


def all_finite(*trees: Any) -> jax.Array:
    """Tell whether all numbers of some trees are finite, in a 0-dim array."""
    leaves = [leaf for leaf in jax.tree.leaves(trees) if is_inexact(leaf)]
    return jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]).all() if leaves else jnp.array(True)


def check_loss(value: Any) -> None:
    """Raise unless the loss is one number."""
    is_array = isinstance(value, (jax.Array, np.ndarray))
    if not (is_array or isinstance(value, Real)) or jnp.shape(value) != () or jnp.iscomplexobj(value):
        got = f"shape {value.shape} of {value.dtype}" if is_array else repr(value)
        raise ValueError(f"The loss (value) must be one real number; got {got}. Pass the mean of the batch.")
