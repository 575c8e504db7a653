"""JAX: progressive rescaling and division by the loss as optax transformations, pure and jittable.

A name is imported at its first use, so that ``import prgd.jax`` needs neither jax nor optax.
"""

from typing import TYPE_CHECKING

from prgd.core.errors import lazy_names

if TYPE_CHECKING:
    from prgd.jax.algorithm import normalize_by_loss as normalize_by_loss
    from prgd.jax.algorithm import prgd as prgd
    from prgd.jax.rescaling import RescaleState as RescaleState
    from prgd.jax.rescaling import check as check
    from prgd.jax.rescaling import progressive_rescale as progressive_rescale

_MODULES = {
    "algorithm": ("normalize_by_loss", "prgd"),
    "rescaling": ("RescaleState", "check", "progressive_rescale"),
}
__all__ = sorted(name for names in _MODULES.values() for name in names)

if not TYPE_CHECKING:  # With a __getattr__, a type checker would take any name as known.
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, needs=("jax", "jaxlib", "optax"), extra="jax")
