"""Maximum-margin classifiers by progressive norm rescaling, with a certificate.

The paper's algorithms (GD, NGD, PRGD) and their peers run on engines that read the data once a
step; every run returns an interval that holds the largest margin.
"""

from prgd import datasets, rows, schedules
from prgd.algorithms import (
    ALGORITHMS,
    GD,
    NGD,
    PRGD,
    DualAcceleration,
    GameDynamics,
    LossScaledGD,
    find_algorithm,
)
from prgd.certificate import Certificate
from prgd.errors import NotSeparableError, ZeroRowWarning
from prgd.maxmargin import MaxMarginResult, max_margin
from prgd.problem import Problem
from prgd.result import History, Record, Result, Status
from prgd.rows import ChunkedRows, DenseRows, SparseRows, open_rows
from prgd.run import run
from prgd.schedules import (
    Constant,
    Every,
    ExplicitRadii,
    ExplicitTimes,
    Geometric,
    Polynomial,
    PolynomialPhases,
    ProofRadius,
    ToyRadius,
)
from prgd.stopping import Gap, MarginError, MaxSteps, Stalled, any_of

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "GD",
    "NGD",
    "PRGD",
    "Certificate",
    "ChunkedRows",
    "Constant",
    "DenseRows",
    "DualAcceleration",
    "Every",
    "ExplicitRadii",
    "ExplicitTimes",
    "GameDynamics",
    "Gap",
    "Geometric",
    "History",
    "LossScaledGD",
    "MarginError",
    "MaxMarginResult",
    "MaxSteps",
    "NotSeparableError",
    "Polynomial",
    "PolynomialPhases",
    "Problem",
    "ProofRadius",
    "Record",
    "Result",
    "SparseRows",
    "Stalled",
    "Status",
    "ToyRadius",
    "ZeroRowWarning",
    "any_of",
    "datasets",
    "find_algorithm",
    "max_margin",
    "open_rows",
    "rows",
    "run",
    "schedules",
]
