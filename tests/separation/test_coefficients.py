"""The verdict on every coefficient against an exact oracle that is written apart from prgd."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import nnls
from scipy.sparse import csr_array, hstack
from separation import oracle
from separation.oracle import Design
from separation.oracle_trial import arguments, disagreements
from separation.small_designs import KINDS, design, hard_design

import prgd
from prgd.proofs.lifted_rows import KeptColumns, LiftedRows
from prgd.regression.coefficients import Behaviour
from prgd.regression.cone import Cone
from prgd.regression.cone_vectors import opposite_vectors
from prgd.separation.search import decide

# ------------------------------------------------------------------------------------------------ the oracle

# The words are those of the intercept or the thresholds, and then of the columns.
BY_HAND = [
    # Complete separation along a line: the sign of the intercept is open if 0 lies between the classes.
    (Design("binomial", ((1,), (2,), (3,), (4,)), (0, 0, 1, 1)), "-inf +inf"),
    (Design("binomial", ((-2,), (-1,), (1,), (2,)), (0, 0, 1, 1)), "either +inf"),
    (Design("binomial", ((1,), (2,), (3,), (4,)), (0, 1, 0, 1)), "finite finite"),
    # One value is shared by both classes: the hyperplane passes through it.
    (Design("binomial", ((1,), (2,), (2,), (4,)), (0, 0, 1, 1)), "-inf +inf"),
    # A level of a factor that has one class only.
    (Design("binomial", ((0, 0), (0, 0), (1, 0), (1, 0), (0, 1)), (0, 1, 0, 1, 0)), "finite finite -inf"),
    # The reference level has one class only: its effect is in the intercept and, reversed, in the others.
    (Design("binomial", ((0, 0), (1, 0), (1, 0), (0, 1), (0, 1)), (1, 0, 1, 0, 1)), "+inf -inf -inf"),
    # Counts: a row with successes and failures lies on the boundary; pairs (0, 0) say nothing.
    (Design("binomial", ((0,), (1,), (2,)), ((3, 1), (2, 0), (0, 0))), "finite +inf"),
    # A constant column repeats the intercept; without an intercept it is kept, and its double is aliased.
    (Design("binomial", ((1, 2), (1, 3), (1, 4)), (0, 1, 0)), "finite aliased finite"),
    (Design("binomial", ((1, 2), (1, 2)), (0, 1), fit_intercept=False), "finite aliased"),
    # The row of weight 0 that would overlap does not count.
    (Design("binomial", ((1,), (2,), (3,), (4,)), (0, 0, 1, 0), sample_weight=(1, 1, 1, 0)), "-inf +inf"),
    # Poisson: a level without any event.
    (Design("poisson", ((0,), (0,), (1,)), (2, 0, 0)), "finite -inf"),
    (Design("poisson", ((0,), (1,), (2,)), (2, 1, 0)), "finite finite"),
    # The third class occurs at x0 = 1 only, where the others occur too.
    (Design("multinomial", ((0,), (0,), (1,), (1,), (1,)), (0, 1, 0, 1, 2)), "finite finite -inf +inf"),
    (Design("ordinal", ((0,), (1,), (2,)), (1, 2, 3)), "+inf +inf +inf"),
    # The first two classes overlap; the third has an indicator of its own, which moves with its threshold.
    (Design("ordinal", ((0, 0), (1, 0), (0, 0), (1, 0), (0, 1)), (1, 1, 2, 2, 3)), "finite +inf finite +inf"),
]


def test_relations_of_aliased_columns_by_hand():
    relations = {1: {0: Fraction(2)}, 3: {0: Fraction(3), 2: Fraction(2)}}
    assert oracle.aliased_columns([(1, 2, 0, 3), (1, 2, 1, 5)]) == relations
    assert oracle.aliased_columns([(0, 1), (0, 2)]) == {0: {}}


def test_aliased_columns_of_the_model_matrix_are_those_of_the_cone():
    for index in range(150):
        facts = oracle.cone(design(2, index))
        assert oracle.aliased_columns(facts.rows) == facts.aliased, index


def test_the_designs_hold_every_word_in_every_kind_of_model():
    words = {kind: set() for kind in KINDS}
    for index in range(300):
        words[KINDS[index % len(KINDS)]] |= set(oracle.solve(design(0, index)).words.values())
    assert all(found == {"finite", "+inf", "-inf", "either", "aliased"} for found in words.values())


def witness(**parts):
    return SimpleNamespace(**dict.fromkeys(("above", "below", "weights", "relation")) | parts)


def test_wrong_witnesses_are_found():
    # Columns: the intercept, x0 and its double; rows 0 and 1 overlap at x0 = 0, and row 2 has x0 = 1.
    rows = {0: [-1, 0, 0], 1: [1, 0, 0], 2: [1, 1, 2]}

    def said(column, word, **parts):
        return oracle.check_witness(rows, {0, 1}, {0, 1}, column, word, witness(**parts))

    one = Fraction(1)
    assert said(0, "finite", weights={0: -one}) == ""
    assert said(1, "+inf", above=(0, 3, 0), weights={0: one, 2: one}) == ""
    assert said(2, "aliased", relation={1: 2 * one}) == ""
    assert said(0, "finite") == "a witness of finite has ['weights'], this one []"
    assert said(0, "finite", weights={0: one}) == "the weights do not sum to the unit vector in column 0"
    assert said(1, "finite", weights={0: one, 2: one}) == "a separated row has a weight"
    assert said(1, "-inf", below=(0, -1, 0), weights={2: -one}) == "below is not in the cone"
    assert said(1, "-inf", below=(0, 1, 0), weights={2: -one}) == "below has the entry 1"
    assert said(1, "+inf", above=(0, 1, 0), weights={2: -one}) == "a separated row has a negative weight"
    assert said(1, "+inf", above=(0, 1, 1), weights={}) == "above is not zero in the aliased columns"
    assert said(2, "aliased", relation={1: one}) == "the relation does not hold"
    assert said(2, "aliased", relation={2: one}) == "the relation uses an aliased column"


# ----------------------------------------------------------------------------------- prgd against the oracle


@pytest.mark.parametrize(("case", "words"), BY_HAND)
def test_words_by_hand(case, words):
    true, wrong = disagreements(case, 0)
    assert list(true.words.values()) == words.split()
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 250, 50))
def test_every_word_and_witness_of_small_designs(first):
    for index in range(first, first + 50):  # `make oracle` tries more
        assert disagreements(design(0, index), index)[1] == [], index


@pytest.mark.slow
def test_no_word_is_wrong_where_rounding_may_mislead():
    for index in range(20):
        case = hard_design(0, index)
        X, y, options = arguments(case, index)
        found, words = prgd.separability(X, y, **options), oracle.solve(case).words
        assert list(found.coefficients) == list(words)
        assert all(word in (words[name], "undecided") for name, word in found.coefficients.items()), index
        assert found.check(X, y), index


@pytest.mark.parametrize(
    ("seed", "index"),
    [
        (21, 551),  # a basis of the limiting model's directions that is singular but for rounding
        (6, 322),  # weights of boundary rows whose denominators are within 64 bits
        (5, 42),  # a vector of the other sign that float64 numbers do not have
        (5, 160),  # weights of one sign that float64 numbers do not have
    ],
)
def test_words_and_witnesses_that_rounding_spoils(seed, index):
    assert disagreements(hard_design(seed, index), index)[1] == []


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_complete_separation_names_all_coefficients_as_infinite(kind):
    cases = ((index, design(4, index)) for index in range(kind, 150, len(KINDS)))
    separated = [(index, case) for index, case in cases if oracle.solve(case).verdict == "separable"]
    assert bool(separated) == (KINDS[kind] != "poisson")  # Poisson rows of positive y lie on the boundary
    for index, case in separated[:5]:
        X, y, options = arguments(case, index)
        found = prgd.separability(X, y, **options)
        infinite = [name for name, word in found.coefficients.items() if word != "aliased"]
        assert {found.coefficients[name].value for name in infinite} <= {"+inf", "-inf", "either"}
        how_many = {1: "the coefficient is", 2: "both coefficients are"}
        number = how_many.get(len(infinite), f"all {len(infinite)} coefficients are")
        assert f"separation is complete, so {number} infinite" in str(found)
        listed = {line.split("  ")[0].strip() for line in str(found).splitlines()}
        assert {name if isinstance(name, str) else ": ".join(name) for name in infinite} <= listed


def maximum_margin(Z: np.ndarray, is_boundary: np.ndarray) -> np.ndarray:
    """Return the shortest v with ``Z v >= 1`` off the boundary and ``Z v = 0`` on it (Lawson and Hanson)."""
    basis = null_space(Z[is_boundary], rcond=1e-9) if is_boundary.any() else np.eye(Z.shape[1])
    G = Z[~is_boundary] @ basis
    A = np.vstack([G.T, np.ones(len(G))])
    right = np.append(np.zeros(len(A) - 1), 1.0)
    residual = A @ nnls(A, right)[0] - right
    return basis @ (-residual[:-1] / residual[-1])


@pytest.mark.slow
def test_sign_of_either_is_that_of_the_maximum_margin_direction():
    compared = 0
    for index in range(100):
        case = design(5, index)
        true = oracle.solve(case)
        if "either" not in true.words.values():
            continue
        X, y, options = arguments(case, index)
        signs = prgd.separability(X, y, **options).max_margin_signs
        is_boundary = np.isin(np.arange(len(true.cone.rows)), true.boundary)
        v = maximum_margin(np.array(true.cone.rows, float)[:, true.cone.kept], is_boundary)
        for j, value in zip(true.cone.kept, v, strict=True):
            if true.words[name := true.cone.names[j]] == "either":
                assert signs[name] == ("0" if abs(value) < 1e-6 else "+" if value > 0.0 else "-"), index
                compared += 1
    assert compared > 50


@pytest.mark.slow
def test_no_other_word_passes_the_check():
    for index in range(8):
        case = design(6, index)
        X, y, options = arguments(case, index)
        found = prgd.separability(X, y, **options)
        column = dict(zip(found.model.names, found.model.columns.tolist(), strict=True))
        for name, word in found.coefficients.items():
            for other in set(Behaviour) - {word, Behaviour.UNDECIDED}:
                evidence = found._evidence
                flipped = {j: replace(m, sign=-m.sign) for j, m in evidence.memberships.items()}
                for memberships in (evidence.memberships, flipped):
                    behaviours = evidence.behaviours | {column[name]: other}
                    changed = replace(
                        found,
                        coefficients=found.coefficients | {name: other},
                        _evidence=replace(evidence, behaviours=behaviours, memberships=memberships),
                    )
                    is_confirmed = changed.check(X, y, sample_weight=options["sample_weight"])
                    assert not is_confirmed, (index, name, other)


def random_cone(seed, rows, columns):
    rng = np.random.default_rng(seed)
    t = rng.standard_normal(columns)
    G = rng.standard_normal((rows, columns))
    G *= np.sign(G @ t)[:, None]
    return G, t, np.sign(t).astype(np.int64)


@pytest.mark.parametrize("seed", range(10))
def test_each_function_has_a_vector_of_the_other_sign_or_weights_that_give_it(seed):
    G, t, signs = random_cone(seed, 12, 6)
    vectors, duals = opposite_vectors(G, t, np.eye(6), signs)
    for (k, sign), vector in vectors.items():
        assert (G @ vector > 0.0).all()
        assert vector[k] * sign > 0.0
        assert sign == -signs[k]
    assert sorted([*(k for k, _ in vectors), *duals]) == list(range(6))
    for k, q in duals.items():
        np.testing.assert_allclose(q @ G, signs[k] * np.eye(6)[k], atol=1e-9)


def test_rows_are_reduced_to_the_numbers_that_float64_holds():
    # On the boundary rows x_0 = 3 x_1, so a row is 3 x_1 - x_0 times the coordinate in its unit, 3.
    for row, reduced in (([3.0, -1.0], [[-6.0]]), ([0.1, 0.2], None)):
        rows = LiftedRows(np.array([[3.0, 1.0], [-3.0, -1.0], row]), None, fit_intercept=False)
        found = Cone.of(KeptColumns(rows, [0, 1]), decide(rows)).exactly_reduced(np.array([row]))
        assert found is None if reduced is None else found.tolist() == reduced


def test_dummies_of_two_factors_are_decided_with_all_their_relations():
    # All dummies with an intercept make two relations; levels of one outcome pass their sign to others.
    rng = np.random.default_rng(0)
    codes = [rng.permutation(np.append(np.arange(800), rng.integers(800, size=4200))) for _ in range(2)]
    y = rng.integers(2, size=5000)
    y[codes[0] < 5] = 1
    X = hstack([csr_array((np.ones(5000), (np.arange(5000), code))) for code in codes], format="csr")
    found = prgd.separability(X, y)
    words = list(found.coefficients.values())
    assert words[1:6] == ["+inf"] * 5
    assert words.count("aliased") == 2
    assert "undecided" not in words
    assert found.check(X, y)
