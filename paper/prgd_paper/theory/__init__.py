"""The paper's assumptions, constants, lemmas and theorems as functions that can be asked and checked.

So are the statements of docs/exponential.md, which are ours: entropies, the path, and the dual vector of NGD.

What the functions return, and the cylinders they take, are types of the modules beside them.
`prgd_paper.theory.claims` holds each lemma and theorem as a claim that is measured.
"""

from prgd_paper.theory.cylinder import Constants as Constants
from prgd_paper.theory.cylinder import favorable_cylinder as favorable_cylinder
from prgd_paper.theory.cylinder import velocity_bound as velocity_bound
from prgd_paper.theory.dual_vector import linear_rate as linear_rate
from prgd_paper.theory.entropies import entropy_excess as entropy_excess
from prgd_paper.theory.entropies import entropy_excess_bound as entropy_excess_bound
from prgd_paper.theory.entropies import renyi_entropy as renyi_entropy
from prgd_paper.theory.entropies import softmax_weights as softmax_weights
from prgd_paper.theory.expansion import drift as drift
from prgd_paper.theory.expansion import margin_vertex as margin_vertex
from prgd_paper.theory.expansion import path_expansion as path_expansion
from prgd_paper.theory.expansion import predictor as predictor
from prgd_paper.theory.infimum import check_bound as check_bound
from prgd_paper.theory.infimum import numerical_constants as numerical_constants
from prgd_paper.theory.infimum import velocity_infimum as velocity_infimum
from prgd_paper.theory.nondegeneracy import assumptions as assumptions
from prgd_paper.theory.nondegeneracy import interior_dual_weights as interior_dual_weights
from prgd_paper.theory.orthogonal_dynamics import follow as follow
from prgd_paper.theory.orthogonal_dynamics import gd_limit as gd_limit
from prgd_paper.theory.orthogonal_dynamics import orthogonal as orthogonal
from prgd_paper.theory.path import path_points as path_points
from prgd_paper.theory.path import regularization_path as regularization_path
from prgd_paper.theory.path_point import PathPoint as PathPoint
from prgd_paper.theory.path_problems import path_problem as path_problem
from prgd_paper.theory.rates import fit_rate as fit_rate
from prgd_paper.theory.ray_geometry import geometry as geometry
from prgd_paper.theory.ray_geometry import inradius as inradius
from prgd_paper.theory.ray_geometry import lambda_min as lambda_min
from prgd_paper.theory.samples import random_nondegenerate as random_nondegenerate
from prgd_paper.theory.schedule_bound import steps_bound as steps_bound
from prgd_paper.theory.statements import check_statements as check_statements
from prgd_paper.theory.support import max_margin_reference as max_margin_reference
from prgd_paper.theory.support import signed_rows as signed_rows
from prgd_paper.theory.theorem import TheoremRun as TheoremRun
from prgd_paper.theory.theorem import theorem_run as theorem_run
from prgd_paper.theory.velocity import centripetal_velocity as centripetal_velocity
from prgd_paper.theory.velocity import decompose as decompose
from prgd_paper.theory.velocity import direction_error as direction_error
from prgd_paper.theory.velocity import toy_attractor as toy_attractor
from prgd_paper.theory.velocity import velocity_field as velocity_field
