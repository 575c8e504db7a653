"""What the functions of the theory refuse, with words that say why; without a separator, Gordan's weights."""

import math
import re

import numpy as np
import pytest
from prgd_paper.theory import entropies, velocity
from prgd_paper.theory.cylinder import Constants, Cylinder, favorable_cylinder, velocity_bound
from prgd_paper.theory.infimum import numerical_constants, velocity_infimum
from prgd_paper.theory.nondegeneracy import interior_dual_weights
from prgd_paper.theory.orthogonal_dynamics import follow, gd_limit, orthogonal
from prgd_paper.theory.path import regularization_path
from prgd_paper.theory.path_point import PathPoint
from prgd_paper.theory.rates import fit_rate
from prgd_paper.theory.ray_geometry import geometry, inradius, require_nondegenerate
from prgd_paper.theory.samples import random_nondegenerate
from prgd_paper.theory.support import max_margin_reference, signed_rows
from prgd_paper.theory.theorem import theorem_run

import prgd
from prgd import NotSeparableError, datasets

TOY = datasets.toy(0.3)
RAY = [1.0, 0.0]
SOME = Cylinder(1.0, 2.0, 3.0)
TWO_ROWS = np.array([[0.2, 0.1], [0.2, -0.01]])
# a support vector that alpha cannot use: (1, 2) and (1, 1) lie on the same side of w_star = (1, 0)
NO_POSITIVE_ALPHA = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
# the third row spans a direction that the support vectors do not
NOT_SPANNED = np.array([[0.5, 0.5, 0.0], [0.5, -0.5, 0.0], [0.9, 0.0, 0.4]])
REFUSED = [
    *(("have shape (2,)", velocity.decompose, w, RAY) for w in ([1.0, 2.0, 3.0], 1.0, np.ones((2, 2, 2)))),
    *(("norm 1", velocity.decompose, RAY, w) for w in ([2.0, 0.0], [0.0, 0.0], [RAY], [math.nan, 0.0])),
    ("shape (2,)", velocity.centripetal_velocity, prgd.Problem(*TOY), np.ones(3), TOY.w_star),
    ("2 entries", velocity.centripetal_velocities, TOY, [[1.0, 2.0, 3.0]], [1.0, 0.0, 0.0]),
    ("2 columns; got 3", velocity.velocity_field, np.eye(3), np.full(3, 3**-0.5), [1.0], [1.0]),
    *(("between 0 and 1", velocity.toy_attractor, gamma) for gamma in (0.0, 1.0, -0.5, math.nan)),
    ("rank", lambda: random_nondegenerate(0, rank=1)),
    ("support", lambda: random_nondegenerate(0, rank=3, support=2)),
    ("others", lambda: random_nondegenerate(0, others=-1)),
    ("dimension", lambda: random_nondegenerate(0, rank=3, dimension=2)),
    ("at least 0", Cylinder, 1.0, 2.0, -1.0),
    ("D1", Cylinder, 0.0, 1.0, 0.0),
    ("D2 >= D1", Cylinder, 2.0, 1.0, 0.0),
    ("D2 >= D1", Cylinder, 1.0, math.nan, 0.0),
    ("finite", Cylinder, 1.0, 2.0, math.inf),
    ("shape (3,)", SOME.contains, [3.0, 1.0], np.column_stack([TWO_ROWS, np.zeros(2)])),
    ("between 0 and 1", lambda: numerical_constants(TWO_ROWS, share=0.0)),
    ("between 0 and 1", lambda: numerical_constants(TWO_ROWS, share=1.0)),
    ("between 0 and 1", lambda: numerical_constants(TWO_ROWS, safety=1.5)),
    ("'printed', 'corrected' or 'convexity'", lambda: favorable_cylinder(TWO_ROWS)["best"]),
    ("positive dual weights", favorable_cylinder, NO_POSITIVE_ALPHA),
    ("support spans the data", favorable_cylinder, NOT_SPANNED),
    ("one line", require_nondegenerate, [[1.0, 1.0], [2.0, 2.0]]),
    ("Did you mean corrected", theorem_run, TOY, "correct"),
    ("warm-up", lambda: theorem_run(TOY, warm_up="adam")),
    ("max_phases", lambda: theorem_run(TOY, max_phases=0)),
    ("max_warm_up", lambda: theorem_run(TOY, max_warm_up=0)),
    ("divide the rows", lambda: theorem_run(TOY, favorable_cylinder(5.0 * signed_rows(TOY)).convexity)),
    ("below 1", theorem_run, TOY, Constants("numerical", 1.0, 0.0, math.log(2.0))),
    ("degenerate", theorem_run, NOT_SPANNED),
    ("positive", entropies.renyi_entropy, [0.0], 0.0),
    ("sample weights", entropies.entropy_excess_bound, 2, [1.0, 0.0]),
    ("penalty", regularization_path, TOY, [0.0]),
    ("labels", lambda: regularization_path(TOY.X, [1e-3], fit_intercept=True)),
    ("l2, l1 and linf", lambda: regularization_path(TOY, [1e-3], norm="lp:3")),
    ("intercept in l2 only", lambda: regularization_path(TOY, [1e-3], norm="l1", fit_intercept=True)),
    ("residual", lambda: PathPoint(np.eye(2), np.ones(2), prgd.norms.Lp(3.0)).residual(1.0)),
    ("one shape", fit_rate, [2.0, 3.0], [1.0]),
    ("increasing", fit_rate, [3.0, 2.0], [1.0, 1.0]),
    ("above 1", fit_rate, [1.0, 2.0], [1.0, 1.0]),
    ("finite", fit_rate, [2.0, math.nan], [1.0, 1.0]),
    *(("shape", max_margin_reference, np.ones(shape)) for shape in (3, (0, 3))),
    ("finite", max_margin_reference, [[1.0, math.nan]]),
    ("one label", max_margin_reference, (np.ones((3, 2)), [1, -1])),
    ("belongs to 3 rows", lambda: interior_dual_weights(np.eye(2), max_margin_reference(np.eye(3)))),
    ("no minimiser", orthogonal, [[1.0, 0.0], [1.0, 1.0]]),
    ("shape", lambda: orthogonal(TOY).loss(np.ones(3))),
    ("columns", lambda: follow(prgd.Problem(np.eye(3)), prgd.NGD(), orthogonal(TOY), [1])),
    ("eta", gd_limit, TOY, 0.0),
    ("depends on its path", gd_limit, NOT_SPANNED),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_a_wrong_request_is_refused_with_the_reason(case):
    message, ask, *given = case
    with pytest.raises(ValueError, match=re.escape(message)):
        ask(*given)


ASKED = [
    geometry,
    favorable_cylinder,
    inradius,
    numerical_constants,
    orthogonal,
    theorem_run,
    lambda rows: velocity_bound(rows, SOME),
    lambda rows: velocity_infimum(rows, SOME),
    lambda rows: SOME.contains([1.0, 1.0], rows),
]
NOT_SEPARABLE = [
    [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]],
    [[1.0, 0.0], [-1.0, 0.0]],
    [[1.0, 1.0], [-1.0, 0.5], [0.0, -1.0]],
    [[0.0, 0.0], [1.0, 0.0]],
    [[0.0, 0.0]],
    [[1.0, 0.0], [-2.0, 0.0], [1.0, 3.0]],
    *(np.random.default_rng(seed).standard_normal((120, 6)) for seed in range(10)),
]


@pytest.mark.parametrize(
    ("ask", "rows"),
    [(ask, NOT_SEPARABLE[0]) for ask in ASKED] + [(max_margin_reference, rows) for rows in NOT_SEPARABLE],
)
def test_data_without_a_separator_carry_gordans_weights(ask, rows):
    with pytest.raises(NotSeparableError, match="Gordan") as error:
        ask(np.array(rows))
    p = error.value.weights
    assert p.min() >= 0.0
    assert p.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.array(rows).T @ p, 0.0, atol=1e-13)
