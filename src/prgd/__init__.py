"""Maximum-margin classifiers by progressive norm rescaling, with a certificate.

The paper's algorithms (GD, NGD, PRGD) and their peers run on engines that read the data once a
step; every run returns an interval that holds the largest margin.
"""

from typing import TYPE_CHECKING

from prgd import algorithms, datasets, losses, norms, rows, schedules
from prgd.algorithms import GD, NGD, PRGD
from prgd.core.errors import NotSeparableError, NotSeparableWarning, RowsLostError, ZeroRowWarning
from prgd.core.errors import lazy_names as _lazy_names
from prgd.maxmargin import BatchResult, max_margin, max_margin_batch, soft_margin
from prgd.problem import Problem
from prgd.problem.certificate import Certificate
from prgd.regression import Separability, separability
from prgd.rows import open_cluster, open_rows
from prgd.running.history import Gap, History, MarginError, MaxSteps, Stalled, Status, any_of
from prgd.running.loop import run
from prgd.running.result import Result

if TYPE_CHECKING:
    from prgd import deep as deep
    from prgd import estimators as estimators
    from prgd import jax as jax
    from prgd import plots as plots
    from prgd.estimators import MaxMarginClassifier, PRGDClassifier

__version__ = "0.2.0"

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

# Submodules that are imported when they are first asked for: what they need is slow to load.
_LATER = {"": ("deep", "estimators", "jax", "plots"), "estimators": ("MaxMarginClassifier", "PRGDClassifier")}

if not TYPE_CHECKING:  # a type checker would take any name as known
    __getattr__, __dir__ = _lazy_names(__name__, _LATER)
