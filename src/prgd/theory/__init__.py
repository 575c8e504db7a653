"""The paper's assumptions, constants, lemmas and theorems as functions that can be asked and checked.

So are the statements of docs/exponential.md, which are ours: entropies, the path, and the dual vector of NGD.

What the functions return, and the cylinders they take, are types of the modules beside them.
`prgd.theory.claims` holds each lemma and theorem as a claim that is measured.
"""

from prgd.theory.cylinder import Constants as Constants
from prgd.theory.cylinder import favorable_cylinder as favorable_cylinder
from prgd.theory.cylinder import velocity_bound as velocity_bound
from prgd.theory.dual_vector import linear_rate as linear_rate
from prgd.theory.entropies import entropy_excess as entropy_excess
from prgd.theory.entropies import entropy_excess_bound as entropy_excess_bound
from prgd.theory.entropies import renyi_entropy as renyi_entropy
from prgd.theory.entropies import softmax_weights as softmax_weights
from prgd.theory.expansion import drift as drift
from prgd.theory.expansion import margin_vertex as margin_vertex
from prgd.theory.expansion import path_expansion as path_expansion
from prgd.theory.expansion import predictor as predictor
from prgd.theory.infimum import check_bound as check_bound
from prgd.theory.infimum import numerical_constants as numerical_constants
from prgd.theory.infimum import velocity_infimum as velocity_infimum
from prgd.theory.nondegeneracy import assumptions as assumptions
from prgd.theory.nondegeneracy import interior_dual_weights as interior_dual_weights
from prgd.theory.orthogonal_dynamics import follow as follow
from prgd.theory.orthogonal_dynamics import gd_limit as gd_limit
from prgd.theory.orthogonal_dynamics import orthogonal as orthogonal
from prgd.theory.path import path_points as path_points
from prgd.theory.path import regularization_path as regularization_path
from prgd.theory.path_point import PathPoint as PathPoint
from prgd.theory.path_problems import path_problem as path_problem
from prgd.theory.rates import fit_rate as fit_rate
from prgd.theory.ray_geometry import geometry as geometry
from prgd.theory.ray_geometry import inradius as inradius
from prgd.theory.ray_geometry import lambda_min as lambda_min
from prgd.theory.samples import random_nondegenerate as random_nondegenerate
from prgd.theory.schedule_bound import steps_bound as steps_bound
from prgd.theory.statements import check_statements as check_statements
from prgd.theory.support import max_margin_reference as max_margin_reference
from prgd.theory.support import signed_rows as signed_rows
from prgd.theory.theorem import TheoremRun as TheoremRun
from prgd.theory.theorem import theorem_run as theorem_run
from prgd.theory.velocity import centripetal_velocity as centripetal_velocity
from prgd.theory.velocity import decompose as decompose
from prgd.theory.velocity import direction_error as direction_error
from prgd.theory.velocity import toy_attractor as toy_attractor
from prgd.theory.velocity import velocity_field as velocity_field
