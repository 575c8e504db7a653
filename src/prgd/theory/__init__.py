"""The paper's assumptions, constants, lemmas and theorems as code that can be asked and checked.

`prgd.theory.claims` holds each lemma and theorem as a claim that is measured.
"""

from prgd.theory.cylinder import Constants, Cylinder, FavorableCylinder, favorable_cylinder, velocity_bound
from prgd.theory.infimum import BoundCheck, Infimum, check_bound, numerical_constants, velocity_infimum
from prgd.theory.nondegeneracy import AssumptionsReport, Check, assumptions, interior_dual_weights
from prgd.theory.orthogonal_dynamics import GDLimit, Orthogonal, Trace, follow, gd_limit, orthogonal
from prgd.theory.path import Path, regularization_path
from prgd.theory.rates import Fit, RateFit, fit_rate
from prgd.theory.ray_geometry import Geometry, Inradius, geometry, inradius, lambda_min
from prgd.theory.samples import random_nondegenerate
from prgd.theory.statements import Phase, Statement, check_statements
from prgd.theory.support import KKT, Reference, max_margin_reference, signed_rows
from prgd.theory.theorem import TheoremRun, theorem_run
from prgd.theory.velocity import (
    Attractor,
    Field,
    centripetal_velocities,
    centripetal_velocity,
    decompose,
    direction_error,
    toy_attractor,
    velocity_field,
)

__all__ = [
    "KKT",
    "AssumptionsReport",
    "Attractor",
    "BoundCheck",
    "Check",
    "Constants",
    "Cylinder",
    "FavorableCylinder",
    "Field",
    "Fit",
    "GDLimit",
    "Geometry",
    "Infimum",
    "Inradius",
    "Orthogonal",
    "Path",
    "Phase",
    "RateFit",
    "Reference",
    "Statement",
    "TheoremRun",
    "Trace",
    "assumptions",
    "centripetal_velocities",
    "centripetal_velocity",
    "check_bound",
    "check_statements",
    "decompose",
    "direction_error",
    "favorable_cylinder",
    "fit_rate",
    "follow",
    "gd_limit",
    "geometry",
    "inradius",
    "interior_dual_weights",
    "lambda_min",
    "max_margin_reference",
    "numerical_constants",
    "orthogonal",
    "random_nondegenerate",
    "regularization_path",
    "signed_rows",
    "theorem_run",
    "toy_attractor",
    "velocity_bound",
    "velocity_field",
    "velocity_infimum",
]
