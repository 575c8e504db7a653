"""JAX: progressive rescaling and division by the loss as optax transformations, pure and jittable.

A name is imported at its first use, so that ``import prgd.jax`` needs neither jax nor optax.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prgd.errors import missing_package

if TYPE_CHECKING:
    from prgd.jax.algorithm import prgd as prgd
    from prgd.jax.normalization import normalize_by_loss as normalize_by_loss
    from prgd.jax.rescaling import RescaleState as RescaleState
    from prgd.jax.rescaling import check as check
    from prgd.jax.rescaling import progressive_rescale as progressive_rescale

_HOMES = {
    "RescaleState": "rescaling",
    "check": "rescaling",
    "normalize_by_loss": "normalization",
    "prgd": "algorithm",
    "progressive_rescale": "rescaling",
}
__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # With a __getattr__, a type checker would take any name as known.

    def __getattr__(name: str) -> Any:
        """Import the module of a name at its first use."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = import_module(f"prgd.jax.{_HOMES[name]}")
        except ModuleNotFoundError as error:
            if error.name not in ("jax", "jaxlib", "optax"):
                raise
            raise missing_package("prgd.jax", error.name, "jax") from error
        return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
