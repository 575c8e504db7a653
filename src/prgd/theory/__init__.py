"""The paper's assumptions, constants, lemmas and theorems as functions that can be asked and checked.

What the functions return, and the cylinders they take, are types of the modules beside them.
`prgd.theory.claims` holds each lemma and theorem as a claim that is measured.
"""

from prgd.theory.cylinder import favorable_cylinder, velocity_bound
from prgd.theory.infimum import check_bound, numerical_constants, velocity_infimum
from prgd.theory.nondegeneracy import assumptions, interior_dual_weights
from prgd.theory.orthogonal_dynamics import follow, gd_limit, orthogonal
from prgd.theory.path import regularization_path
from prgd.theory.rates import fit_rate
from prgd.theory.ray_geometry import geometry, inradius, lambda_min
from prgd.theory.samples import random_nondegenerate
from prgd.theory.statements import check_statements
from prgd.theory.support import max_margin_reference, signed_rows
from prgd.theory.theorem import theorem_run
from prgd.theory.velocity import (
    centripetal_velocity,
    decompose,
    direction_error,
    toy_attractor,
    velocity_field,
)

__all__ = [
    "assumptions",
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
