"""JAX: progressive rescaling and division by the loss as optax transformations, pure and jittable.

A name is imported at its first use, so that ``import prgd.jax`` needs neither jax nor optax.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prgd.errors import missing_package

if TYPE_CHECKING:
    from prgd.jax.transforms import RescaleState as RescaleState
    from prgd.jax.transforms import check as check
    from prgd.jax.transforms import normalize_by_loss as normalize_by_loss
    from prgd.jax.transforms import prgd as prgd
    from prgd.jax.transforms import progressive_rescale as progressive_rescale

__all__ = ["RescaleState", "check", "normalize_by_loss", "prgd", "progressive_rescale"]

if not TYPE_CHECKING:  # With a __getattr__, a type checker would take any name as known.

    def __getattr__(name: str) -> Any:
        """Import the transformations at the first use of one of them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = import_module("prgd.jax.transforms")
        except ModuleNotFoundError as error:
            if error.name not in ("jax", "jaxlib", "optax"):
                raise
            raise missing_package("prgd.jax", error.name, "jax") from error
        return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
