"""Maximum-margin classifiers by progressive norm rescaling, with a certificate.

The paper's algorithms (GD, NGD, PRGD) and their peers run on engines that read the data once a
step; every run returns an interval that holds the largest margin.
"""

from typing import TYPE_CHECKING, Any

from prgd import algorithms, datasets, losses, norms, rows, schedules
from prgd.algorithms import GD, NGD, PRGD
from prgd.certificate import Certificate
from prgd.errors import NotSeparableError, NotSeparableWarning, RowsLostError, ZeroRowWarning
from prgd.history import History, Status
from prgd.loop import run
from prgd.maxmargin import BatchResult, max_margin, max_margin_batch, soft_margin
from prgd.problem import Problem
from prgd.result import Result
from prgd.rows import open_cluster, open_rows
from prgd.separation import Separability, separability
from prgd.stopping import Gap, MarginError, MaxSteps, Stalled, any_of

if TYPE_CHECKING:
    from prgd.estimators import MaxMarginClassifier, PRGDClassifier

__version__ = "0.1.0"

__all__ = [
    "GD",
    "NGD",
    "PRGD",
    "BatchResult",
    "Certificate",
    "Gap",
    "History",
    "MarginError",
    "MaxMarginClassifier",
    "MaxSteps",
    "NotSeparableError",
    "NotSeparableWarning",
    "PRGDClassifier",
    "Problem",
    "Result",
    "RowsLostError",
    "Separability",
    "Stalled",
    "Status",
    "ZeroRowWarning",
    "algorithms",
    "any_of",
    "datasets",
    "losses",
    "max_margin",
    "max_margin_batch",
    "norms",
    "open_cluster",
    "open_rows",
    "rows",
    "run",
    "schedules",
    "separability",
    "soft_margin",
]


if not TYPE_CHECKING:  # a type checker would take any name as known

    def __getattr__(name: str) -> Any:
        """Import the estimators when they are asked for: they need scikit-learn, which is slow to load."""
        if name in ("MaxMarginClassifier", "PRGDClassifier"):
            from prgd import estimators

            return getattr(estimators, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
