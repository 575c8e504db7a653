"""Some thousands of adversarial problems with fixed seeds: no statement about them may be false."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from adversarial import oracle, trial
from adversarial.problems import GENERATORS, Case, make
from adversarial.trial import Outcome, described, judge

import prgd
from prgd.solvers import coordinate_descent

SHORT, LONG = 4, 28  # cases of each generator that `make check` and `make test` try
SHARED = 250  # cases of which the share that is certified is counted
EXTRAS = ("", "", "", "run", "estimator")


def judged(name: str, seeds) -> list[tuple[Case, Outcome]]:
    cases = [make(name, [2021, seed]) for seed in seeds]
    return [(case, judge(case, EXTRAS[k % len(EXTRAS)])) for k, case in enumerate(cases)]


def assert_true(judged_cases) -> None:
    """Fail with the kinds and numbers of failures, and the first case of each kind."""
    first, counts = {}, Counter()
    for case, outcome in judged_cases:
        for kind, message in outcome.failures:
            counts[kind] += 1
            first.setdefault(kind, f"{message}\n{described(case)}")
    assert not counts, f"{dict(counts)}\n" + "\n".join(f"{kind}: {text}" for kind, text in first.items())


@pytest.mark.parametrize("name", GENERATORS)
def test_a_few_problems(name):
    assert_true(judged(name, range(SHORT)))


@pytest.mark.no_cover  # test_a_few_problems runs nearly the same lines.
@pytest.mark.parametrize("name", GENERATORS)
def test_a_few_problems_by_coordinate_descent_on_sparse_rows(name, monkeypatch):
    """Small problems never take this way, so the rules that keep them from it are switched off."""
    rules = {"_FEW_ROWS": 0, "_ROWS_FOR_EACH_COLUMN": 10**9, "DENSE_FRACTION": 2.0}
    for rule, value in rules.items():
        monkeypatch.setattr(coordinate_descent, rule, value)

    def given(case):
        is_plain = isinstance(case.X, np.ndarray) and case.X.dtype in (np.float32, np.float64)
        return sp.csr_array(case.X) if is_plain and case.X.dtype.isnative else case.X, case.y

    monkeypatch.setattr(trial, "given", given)
    assert_true(judged(name, range(300, 300 + SHORT)))


@pytest.mark.slow
@pytest.mark.no_cover  # test_a_few_problems runs the same lines.
@pytest.mark.parametrize("name", GENERATORS)
def test_problems(name):
    assert_true(judged(name, range(SHORT, LONG)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["offset_all_columns", "offset_per_column", "offset_and_units", "unit_mix", "float32_units"]
)
def test_offsets_and_units_are_certified(name):
    """At least 99 % of the separable cases are certified to 1e-6, as other data are."""
    cases = [make(name, [2022, seed]) for seed in range(SHARED)]
    exact = [oracle.solve(case.X, case.y, fit_intercept=case.fit_intercept) for case in cases]
    separable = [case for case, found in zip(cases, exact, strict=True) if found.verdict == "separable"]
    results = [prgd.max_margin(case.X, case.y, fit_intercept=case.fit_intercept) for case in separable]
    statuses = Counter(result.status for result in results)
    assert len(separable) > SHARED / 3
    assert statuses[prgd.Status.CERTIFIED] >= 0.99 * len(separable), statuses


def far_away() -> Case:
    rng = np.random.default_rng(3)
    for _ in range(37):
        X = rng.standard_normal((8, 2)) + 1e12
        w = rng.standard_normal(2)
        y = np.where((X - 1e12) @ w > 0, 1, -1)
    return Case(X, y, True, "far_away")


SEVENTEEN_DIGITS = [[-2.9999999999999996, -9], [-3, 0], [0, 6], [3, 9], [-3, -9]]
NINE_COLUMNS = [8.999999999999998, 9, -3, -3, 9, 6, 3, -9, 9], [3, -3, 6, 6, 6, 3, 3, -6, 3]
NINE_ROWS = np.column_stack([*NINE_COLUMNS, [3, -9, 3, 0, 9, 9, -6, 9, 3]])
NINE_LABELS = [-1, 1, -1, -1, 1, 1, -1, -1, 1]
LONG_INTEGERS = np.array([[2**53], [2**53 + 1]])
CONSTANT_DUMMY = np.column_stack([np.ones(9), [0.6, 0.7, -0.4, 1.2, -0.2, -0.4, 1.8, 0.7, -0.1]])
SUBNORMAL = [[4.94065646e-316, -8.89318163e-316], [9.38724727e-316, -9.881313e-317]]
BELOW_THE_ROOT = [[-1.0, -3.470605864154862e-162], [-1.0, 2.9748050264184533e-162]]
NEARLY_EQUAL = [[371894.79634080944, -358853.7328892844], [371894.79634080944, -358853.73288928386]]
PARALLEL = [[-0.48578838476080555, -485788.3847608055, 0.0], [-0.4390560327880761, -439056.0327880761, 0.0]]
COARSE = np.array([[18014398509481986], [18014398509481986], [18014398509481979], [18014398509481981]]) * 1.0
WITH, WITHOUT = True, False
FOUND = {
    # CERTIFIED with a lower bound above gamma_star and above the upper bound, which gap = 0 hid
    "bounds cross at an offset of 1e12": far_away(),
    "bounds cross in one dimension": Case([[58084.35565326054], [58084.35565333988]], [1, -1], WITH, ""),
    "upper bound 0 on separable data": Case(SEVENTEEN_DIGITS, [-1, -1, -1, -1, 1], WITH, ""),
    "upper bound off by half a percent": Case(NEARLY_EQUAL, [1, -1], WITHOUT, ""),
    "lower bound 0 where gamma_star is -1": Case([[1.0], [1.0]], [-1, 1], WITHOUT, ""),
    "gamma_star below the smallest float": Case([[-5e-324], [2.0], [0.0]], [-1, 1, 1], WITH, ""),
    "ZeroDivisionError": Case(NINE_ROWS, NINE_LABELS, WITH, ""),
    "ZeroDivisionError in run, which looked for Gordan's weights": Case(COARSE, [1, 1, -1, -1], WITH, ""),
    "integers that float64 cannot hold": Case(LONG_INTEGERS, [0, 1], WITH, "", may_refuse=True),
    "objects that float64 cannot hold": Case(LONG_INTEGERS.astype(object), [0, 1], WITH, "", may_refuse=True),
    "STALLED with a constant dummy": Case(CONSTANT_DUMMY, [1, -1, 1, -1, -1, 1, -1, 1, 1], WITH, ""),
    "STALLED in one dimension": Case([[979], [487], [246], [284]], [-1, 1, 1, 1], WITHOUT, ""),
    "STALLED on nearly parallel rows": Case(PARALLEL, [1, -1], WITHOUT, ""),
    "check denies its own verdict on subnormal data": Case(SUBNORMAL, [-1, 1], WITHOUT, ""),
    "margins whose squares underflow": Case(BELOW_THE_ROOT, [-1, 1], WITHOUT, ""),
}


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("extra", ["", "run", "estimator"])
def test_what_earlier_trials_found(name, extra):
    assert_true([(FOUND[name], judge(FOUND[name], extra))])
