"""Deep networks: GD, NGD and PRGD as PyTorch optimizers, and losses that never underflow.

Works with PyTorch and NumPy alone. Names are imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prgd.deep.loss import log_cross_entropy, log_exponential_loss, log_logistic_loss
    from prgd.deep.loss_scaled_lr import LossScaledLR
    from prgd.deep.optimizer import GD, NGD, PRGD

__all__ = [
    "GD",
    "NGD",
    "PRGD",
    "LossScaledLR",
    "log_cross_entropy",
    "log_exponential_loss",
    "log_logistic_loss",
]

_HOMES = {
    "GD": "optimizer",
    "NGD": "optimizer",
    "PRGD": "optimizer",
    "LossScaledLR": "loss_scaled_lr",
    "log_cross_entropy": "loss",
    "log_exponential_loss": "loss",
    "log_logistic_loss": "loss",
}

if not TYPE_CHECKING:  # a type checker would take any name as known

    def __getattr__(name: str) -> Any:
        """Import the module of a name when it is first asked for."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = import_module(f"prgd.deep.{_HOMES[name]}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ModuleNotFoundError(
                "prgd.deep needs PyTorch: pip install 'prgd[deep]'.", name="torch"
            ) from error
        return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
