"""Deep networks: GD, NGD and PRGD as PyTorch optimizers, and losses that never underflow.

PyTorch and NumPy are enough. A name is imported at its first use, so that ``import prgd.deep`` is quick.
"""

from typing import TYPE_CHECKING

from prgd.core.errors import lazy_names

if TYPE_CHECKING:
    from prgd.deep.homogeneity import Homogeneity as Homogeneity
    from prgd.deep.homogeneity import NotHomogeneousWarning as NotHomogeneousWarning
    from prgd.deep.homogeneity import check_homogeneous as check_homogeneous
    from prgd.deep.homogeneity import homogeneity_degree as homogeneity_degree
    from prgd.deep.kkt import KKTResidual as KKTResidual
    from prgd.deep.kkt import kkt_residual as kkt_residual
    from prgd.deep.margins import Margins as Margins
    from prgd.deep.margins import normalized_margin as normalized_margin
    from prgd.deep.optim.loss import log_cross_entropy as log_cross_entropy
    from prgd.deep.optim.loss import log_exponential_loss as log_exponential_loss
    from prgd.deep.optim.loss import log_logistic_loss as log_logistic_loss
    from prgd.deep.optim.ngd import GD as GD
    from prgd.deep.optim.ngd import NGD as NGD
    from prgd.deep.optim.prgd import PRGD as PRGD
    from prgd.deep.optim.running_loss import TrainingWarning as TrainingWarning

_MODULES = {
    "homogeneity": ("Homogeneity", "NotHomogeneousWarning", "check_homogeneous", "homogeneity_degree"),
    "kkt": ("KKTResidual", "kkt_residual"),
    "margins": ("Margins", "normalized_margin"),
    "optim.loss": ("log_cross_entropy", "log_exponential_loss", "log_logistic_loss"),
    "optim.ngd": ("GD", "NGD"),
    "optim.prgd": ("PRGD",),
    "optim.running_loss": ("TrainingWarning",),
}
__all__ = sorted(name for names in _MODULES.values() for name in names)

if not TYPE_CHECKING:  # With a __getattr__, a type checker would take any name as known.
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, needs=("torch",), extra="deep")
