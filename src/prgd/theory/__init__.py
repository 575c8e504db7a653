"""The paper's assumptions, constants, lemmas and theorems as code that can be asked and checked."""

from prgd.theory.assumptions import AssumptionsReport, Check, assumptions, interior_alpha
from prgd.theory.orthogonal import GDLimit, Orthogonal, Trace, follow, gd_limit, orthogonal
from prgd.theory.rates import RateFit, fit_rate
from prgd.theory.support import Reference, max_margin_reference

__all__ = [
    "AssumptionsReport",
    "Check",
    "GDLimit",
    "Orthogonal",
    "RateFit",
    "Reference",
    "Trace",
    "assumptions",
    "fit_rate",
    "follow",
    "gd_limit",
    "interior_alpha",
    "max_margin_reference",
    "orthogonal",
]
