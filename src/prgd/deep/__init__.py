"""Deep networks: GD, NGD and PRGD as PyTorch optimizers, and losses that never underflow.

Works with PyTorch and NumPy alone. Names are imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prgd.deep.homogeneity import (
        Homogeneity,
        NotHomogeneousWarning,
        check_homogeneous,
        homogeneity_degree,
    )
    from prgd.deep.margins import Margins, normalized_margin
    from prgd.deep.optim.gd import GD
    from prgd.deep.optim.loss import log_cross_entropy, log_exponential_loss, log_logistic_loss
    from prgd.deep.optim.loss_scaled_lr import LossScaledLR
    from prgd.deep.optim.ngd import NGD
    from prgd.deep.optim.prgd import PRGD
    from prgd.deep.training.cifar import cifar10, fetch_cifar10
    from prgd.deep.training.images import Images, synthetic
    from prgd.deep.training.models import build_model
    from prgd.deep.training.settings import Settings, Where
    from prgd.deep.training.train_loop import Run, train

__all__ = [
    "GD",
    "NGD",
    "PRGD",
    "Homogeneity",
    "Images",
    "LossScaledLR",
    "Margins",
    "NotHomogeneousWarning",
    "Run",
    "Settings",
    "Where",
    "build_model",
    "check_homogeneous",
    "cifar10",
    "fetch_cifar10",
    "homogeneity_degree",
    "log_cross_entropy",
    "log_exponential_loss",
    "log_logistic_loss",
    "normalized_margin",
    "synthetic",
    "train",
]

_HOMES = {
    "GD": "optim.gd",
    "NGD": "optim.ngd",
    "PRGD": "optim.prgd",
    "LossScaledLR": "optim.loss_scaled_lr",
    "log_cross_entropy": "optim.loss",
    "log_exponential_loss": "optim.loss",
    "log_logistic_loss": "optim.loss",
    "Homogeneity": "homogeneity",
    "NotHomogeneousWarning": "homogeneity",
    "check_homogeneous": "homogeneity",
    "homogeneity_degree": "homogeneity",
    "Images": "training.images",
    "synthetic": "training.images",
    "Margins": "margins",
    "normalized_margin": "margins",
    "build_model": "training.models",
    "Settings": "training.settings",
    "Run": "training.train_loop",
    "Where": "training.settings",
    "train": "training.train_loop",
    "cifar10": "training.cifar",
    "fetch_cifar10": "training.cifar",
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
