"""Verdicts on separability against exact rational arithmetic, and the stages of the search."""

import pickle
from dataclasses import replace
from fractions import Fraction

import grid
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from adversarial import oracle
from scipy.sparse import csr_array
from small_problems import planted, problem, verdicts_of

import prgd
from prgd.proofs import lifted_rows
from prgd.proofs.lifted_rows import LiftedRows
from prgd.proofs.weights import Proof
from prgd.regression import separability
from prgd.rows import ChunkedRows, DenseRows, Rows, open_rows
from prgd.separation import Verdict, proposals, search
from prgd.separation.proposals import find_cancelling_rows


@pytest.mark.slow
def test_never_wrong_on_larger_problems():
    # beyond the size that goes to exact arithmetic at once
    words = verdicts_of(range(1000, 1030), min_rows=110, max_rows=160, max_columns=6)
    assert words["undecided"] <= 1


@pytest.mark.slow
def test_never_wrong_without_exact_arithmetic(monkeypatch):
    monkeypatch.setattr(search, "SMALL_ENTRIES", 0)
    monkeypatch.setattr(proposals, "EXACT_SECONDS", 0.0)
    words = verdicts_of(range(2000, 2070))
    assert words["undecided"] <= 3


# ------------------------------------------------------------------------------------------- what it reports


def overlapping(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + rng.standard_normal(n) > 0.0, "b", "a")


def treated(n=300, d=3, seed=0):
    """Overlapping rows and a treatment that only ever ends well."""
    X, y = overlapping(n, d, seed)
    treatment = (np.arange(n) % 10 == 0) & (y == "b")
    return np.column_stack([X, treatment]), y


def test_separable_names_its_features_and_margin():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 3))
    X[:, 2] *= 1e-3
    y = np.where(X @ [3.0, 1.0, 0.0] > 0.0, 1, -1)
    found = separability(X, y)
    assert found.is_separable is True
    assert found.dual_weights is None
    assert 0.0 < found.margin == found.lower <= found.upper
    margins = y * (X @ found.coef + found.intercept) / np.linalg.norm(found.coef)
    assert found.margin <= margins.min() == pytest.approx(found.margin, rel=1e-9)
    assert found.features[:2].tolist() == [0, 1]
    assert found.separated_rows.size == 200
    assert found.boundary_rows.size == 0
    assert "complete separation: a hyperplane has each of the 200 rows" in str(found)
    assert "Separability('separable'" in repr(found)


def test_one_feature_that_separates_alone():
    X = np.array([[5.0, 1.0], [4.0, np.nextafter(1.0, 2.0)], [5.0, 0.5], [4.0, 2.0]])
    found = separability(X, [1, 0, 1, 0])
    assert found.features.tolist() == [0]
    assert "One feature separates alone (2 features do)" in found.how
    found = separability(X[:, 1:], [1, 0, 1, 0])  # neighbours in float64: no float64 threshold is between
    assert found.verdict == "separable"
    assert found.proof.direction is not None
    assert found.check(X[:, 1:], [1, 0, 1, 0])
    assert separability(X[:, :1], [1, 0, 1, 0], fit_intercept=False).verdict == "not separable"
    assert separability([[-1.0], [2.0]], [1, 0], fit_intercept=False).coef.tolist() == [-1.0]


@pytest.mark.parametrize("names", [("x0", "x1", "x2", "x3"), ("age", "dose", "weight", "treated")])
def test_quasi_separable_names_rows_and_features(names):
    X, y = treated()
    rows = X if names[0] == "x0" else pandas.DataFrame(X, columns=list(names))
    found = separability(rows, pandas.Series(y, dtype="category"))
    assert found.verdict == "quasi-separable"
    assert found.is_separable is False
    assert found.features.tolist() == [3]
    assert found.coef[3] == 1.0
    assert found.intercept == 0.0
    assert found.separated_rows.tolist() == np.flatnonzero(X[:, 3]).tolist()
    assert found.margin == found.lower == found.upper == 0.0
    assert found.dual_weights.sum() == pytest.approx(1.0)
    assert (found.dual_weights >= 0.0).all()
    assert not found.dual_weights[found.separated_rows].any()
    assert found.residual < 1e-12
    assert f"the hyperplane uses {names[3]} (+1)." in str(found)
    assert "{3} is infinite; (Intercept), {0}, {1} and {2} are finite".format(*names) in str(found)
    assert found.check(rows, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_not_separable_carries_weights(fit_intercept):
    X, y = overlapping()
    found = separability(X, y, fit_intercept=fit_intercept)
    assert found.verdict is Verdict.NOT_SEPARABLE
    assert found.coef is None
    assert np.isnan(found.margin)
    assert found.upper == 0.0
    signs = np.where(y == "b", 1, -1)
    assert np.linalg.norm(X.T @ (found.dual_weights * signs)) <= found.residual + 1e-15
    assert found.dual_weights.sum() == pytest.approx(1.0)
    assert ("same weighted mean" in str(found)) == fit_intercept
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert again.check(X, y)


def test_any_frame_with_columns_will_do():
    class Frame:
        """What polars and others offer."""

        columns = ("first", "second")

        def to_numpy(self):
            return np.array([[0, 1], [1, 0]])

    found = separability(Frame(), [0, 1])
    assert found.feature_names == ("first", "second")
    assert found.name(1) == "second"


def test_check_refuses_other_data_and_changed_proofs():
    X, y = treated()
    found = separability(X, y)
    moved = X.copy()
    moved[found.boundary_rows[0]] += 1.0
    flipped = y.copy()
    flipped[found.separated_rows[0]] = "a"
    assert not found.check(X, flipped)
    assert not found.check(moved, y)
    assert not found.check(X[:-1], y[:-1])
    assert not found.check(X[:, :3], y)
    changes = [
        {"dual_weights": -found.dual_weights},
        {"dual_weights": found.dual_weights * 0.0},
        {"dual_weights": None},
        {"dual_weights": np.roll(found.dual_weights, 1)},
        {"coef": -found.coef, "proof": replace(found.proof, direction=None)},
        {"coef": 2.0 * found.coef},
        {"boundary_rows": found.boundary_rows[1:]},
        {"boundary_rows": np.append(found.boundary_rows, 10**6)},
        {"proof": Proof(direction=found.proof.direction)},
        {"proof": replace(found.proof, weights={0: 1})},
        {"proof": replace(found.proof, relations=({0: Fraction(1)},))},
        {"proof": replace(found.proof, relations=found.proof.relations * 2)},
        {"proof": replace(found.proof, relations=({99: Fraction(1)},))},
    ]
    for change in changes:
        assert not replace(found, **change).check(X, y), change
    wrong = replace(found, verdict=Verdict.NOT_SEPARABLE)
    assert not wrong.check(X, y)
    wrong = replace(found, verdict=Verdict.SEPARABLE, dual_weights=None)
    assert not wrong.check(X, y)
    assert not replace(wrong, coef=None).check(X, y)


def test_check_of_a_separator_looks_at_the_margin():
    X, y = np.array([[0.0, 1.0], [1.0, 3.0], [3.0, 0.0]]), [0, 0, 1]
    found = separability(X, y)
    assert found.check(X, y)
    assert not replace(found, margin=2.0 * found.margin).check(X, y)
    assert not replace(found, coef=-found.coef).check(X, y)


# ------------------------------------------------------------------------------------------ kinds of input


class Elsewhere(Rows):
    """An engine that offers the protocol and nothing else."""

    def __init__(self, rows):
        self.n, self.d, self.labels, self._rows = rows.n, rows.d, rows.labels, rows

    def ask(self, query, labels=None):
        return self._rows.ask(query, labels)

    def take(self, indices):
        return self._rows.take(indices)


def kinds(X, y, folder):
    """Yield the rows in forms that the list of engines lacks."""
    np.save(folder / "X.npy", X)
    yield X, y
    yield X.astype(np.float32), y
    yield sp.csc_matrix(X), y
    yield X.tolist(), list(y)
    yield ChunkedRows.from_blocks([(sp.csr_array(X[:9]), y[:9]), (sp.csr_array(X[9:]), y[9:])]), None
    yield open_rows(folder / "X.npy", y, max_memory=200), None
    yield Elsewhere(DenseRows(X, y)), None


@pytest.mark.parametrize("make", [overlapping, treated, lambda n: (treated(n)[0], treated(n)[0][:, 0] > 0.3)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_kind_of_rows_gets_the_same_verdict(make, fit_intercept, tmp_path):
    X, y = make(160)
    X = X.astype(np.float32).astype(np.float64)
    words = set()
    for data, labels in kinds(X, np.asarray(y), tmp_path):
        found = separability(data, labels, fit_intercept=fit_intercept)
        assert found.check(data, labels)
        words.add(found.verdict)
    assert len(words) == 1


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [2.0]], [1, 1], "two classes"),
        ([[1.0]], [1], "two classes"),
        ([[1.0], [2.0], [3.0]], [0, 1, 2], "two classes"),
        ([[1.0], [np.nan]], [0, 1], "NaN or infinite"),
        ([1.0, 2.0], [0, 1], "reshape"),
        (np.array([[2**53 + 1], [0]]), [0, 1], "float64 cannot"),
        (sp.csr_array(np.array([[2**63 - 1], [1]])), [0, 1], "float64 cannot"),
        ([[1.0], [2.0]], None, "Give y"),
        (DenseRows([[1.0], [2.0]], [0, 1], [1.0, 0.0]), None, "rows of both classes"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        separability(X, y)


@pytest.mark.parametrize("engine", grid.engines())
@pytest.mark.parametrize(
    ("expected", "fit_intercept", "n"),
    [
        ("separable", True, 40),
        ("separable", False, 40),
        ("quasi-separable", False, 40),
        ("not separable", True, 40),
        ("separable", True, 400),  # more rows than exact arithmetic takes at once
        ("separable", False, 400),
    ],
)
def test_rows_of_weight_zero_do_not_count(engine, fit_intercept, expected, n, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.integers(-3, 4, (n, 3)).astype(float)
    X[:, 0] = np.where(np.arange(n) % 2, 1.0, -1.0) * (3.0 if expected == "separable" else 1.0)
    if n > 40:
        X += 0.5 * rng.standard_normal((n, 3))
    y = np.sign(X[:, 0]).astype(int)
    if expected == "quasi-separable":  # rows on the hyperplane x0 = 0 overlap in the other features
        X[:20] *= [0.0, 1.0, 1.0]
        X[~X.any(axis=1), 1] = 1.0
    elif expected == "not separable":
        y[:20] = -y[:20]
    s = 1.0 + rng.random(n)
    s[[2, 7, 25, 30]] = 0.0
    X[[2, 7, 25, 30]] = X[[3, 6, 24, 31]]  # copies of rows of the other class: with them, nothing separates
    rows = grid.ENGINES[engine](X, y, s, tmp_path)
    counted = np.flatnonzero(s)
    found = separability(rows, fit_intercept=fit_intercept)
    alone = separability(X[counted], y[counted], fit_intercept=fit_intercept)
    assert found.verdict == alone.verdict == expected
    assert found.check(rows)
    np.testing.assert_array_equal(found.separated_rows, counted[alone.separated_rows])
    np.testing.assert_array_equal(found.boundary_rows, counted[alone.boundary_rows])
    assert found.dual_weights is None or not found.dual_weights[s == 0.0].any()
    assert found.upper == pytest.approx(alone.upper, rel=1e-9)
    assert separability(X, y, fit_intercept=fit_intercept).verdict != "separable"
    best = prgd.max_margin(rows, fit_intercept=fit_intercept)
    assert (best.status is prgd.Status.CERTIFIED) == (expected == "separable")
    if expected == "separable":
        again = prgd.max_margin(X[counted], y[counted], fit_intercept=fit_intercept)
        assert best.margin == pytest.approx(again.margin, rel=1e-5)
        assert found.lower <= again.upper_bound


def test_rows_that_are_z_already():
    assert separability([[1.0, 2.0], [2.0, -1.0]], fit_intercept=False).verdict == "separable"
    assert separability([[1.0], [-1.0]], fit_intercept=False).verdict == "not separable"


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_zero_rows_and_constant_columns(fit_intercept):
    found = separability(np.zeros((30, 25)), [0, 1] * 15, fit_intercept=fit_intercept)
    assert found.verdict == "not separable"
    found = separability(np.ones((3, 2)), [0, 1, 1], fit_intercept=fit_intercept)
    assert found.verdict == "not separable"


@pytest.mark.parametrize("scale", [1e300, 1e-300, 5e-324])
def test_numbers_at_the_ends_of_the_floating_range(scale):
    X = np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 3.0], [1.0, 3.0]]) * scale
    for y in ([0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1]):
        found = separability(X, y)
        assert found.verdict == oracle.solve(X, np.array(y), fit_intercept=True).verdict
        assert found.check(X, y)
    X = np.array([[1.7e308, 1.0], [-1.7e308, 2.0], [1.0, 3.0]])
    assert separability(X, [1, 0, 0]).check(X, [1, 0, 0])


# ------------------------------------------------------------------------------------------- the stages


def test_copies_with_opposite_labels_are_seen_at_once():
    X, _ = overlapping(50, 80)
    y = np.arange(50) % 2
    X[7] = X[4]
    rows = LiftedRows(X, y, fit_intercept=True)
    found = find_cancelling_rows(rows)
    assert found.boundary.tolist() == [4, 7]
    wide = sp.random_array((50, 2000), density=0.01, rng=np.random.default_rng(0), format="lil")
    wide[7] = wide[4]
    for data in (X, wide.tocsr()):
        result = separability(data, y)
        assert result.verdict == "quasi-separable"
        assert result.boundary_rows.tolist() == [4, 7]
        assert result.check(data, y)
    zero = np.vstack([X, np.zeros((1, 80))])
    rows = LiftedRows(zero, np.append(y, 1), fit_intercept=False)
    assert find_cancelling_rows(rows).how == "Row 50 is zero."


def test_many_rows_show_their_overlap_early():
    X, y = overlapping(5000, 5)
    found = separability(X, y)
    assert found.verdict == "not separable"
    assert 0 < np.count_nonzero(found.dual_weights) < 300


@pytest.fixture
def no_interior_point(monkeypatch):
    """Leave the exact simplex method, from some of the rows."""
    monkeypatch.setattr(proposals, "INTERIOR_WIDTH", 0)
    monkeypatch.setattr(search, "STEPS", 1)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (treated, "quasi-separable"),
        (overlapping, "not separable"),
        (lambda n: planted(n, 8, seed=3), "separable"),
    ],
)
def test_exact_simplex_asks_for_more_rows(make, word, no_interior_point):
    X, y = make(3000)
    X = np.column_stack([X, X[:, 0] - 2.0 * np.round(X[:, 1])])
    found = separability(X, y)
    assert found.verdict == word
    assert found.check(X, y)


@pytest.mark.parametrize(("labels", "word"), [("bab", "quasi-separable"), ("bbb", "not separable")])
def test_exact_simplex_asks_for_rows_outside_the_span(labels, word, no_interior_point):
    X, y = overlapping(4000, 2)
    # a feature that is zero but on a few rows, which a start from some of them misses
    X = np.column_stack([X, np.zeros(4000)])
    rare = [1111, 2222, 3333]
    X[rare, 2], y[rare] = (1e-3, -1e-3, 1e-3), list(labels)
    found = separability(X, y)
    assert found.verdict == word
    assert found.check(X, y)
    if word == "quasi-separable":
        assert found.separated_rows.tolist() == rare


def test_nothing_proven_leaves_the_interval(monkeypatch):
    monkeypatch.setattr(proposals, "INTERIOR_WIDTH", 0)
    monkeypatch.setattr(proposals, "EXACT_SECONDS", 0.0)
    X, y = overlapping()
    found = separability(X, y)
    assert found.verdict is Verdict.UNDECIDED
    assert found.is_separable is None
    assert found.lower < 0.0 < found.upper
    assert found.check(X, y)
    assert "the maximum margin lies between" in str(found)
    assert not replace(found, margin=1.0).check(X, y)
    X[1] = X[0]
    y[:2] = "a", "b"
    found = separability(X, y)
    assert found.verdict is Verdict.UNDECIDED
    assert found.is_separable is False
    assert found.upper == 0.0
    assert found.check(X, y)
    assert "separates the classes strictly, which is proven" in str(found)


def test_a_copy_that_is_too_large_is_not_made(monkeypatch):
    monkeypatch.setattr(proposals, "MAX_COPY_ENTRIES", 100)
    X, y = overlapping()
    assert separability(X, y).verdict is Verdict.UNDECIDED
    monkeypatch.setattr(proposals, "MAX_COPY_ENTRIES", 2**25)
    monkeypatch.setattr(lifted_rows, "MAX_DENSE_ENTRIES", 100)
    assert separability(X, y).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("where", "width"),
    [
        ("Search._by_one_feature", 9),
        ("Search._by_steps", 0),
        ("propose_by_interior_point", 9),
    ],
)
def test_ctrl_c_returns_what_there_is(where, width, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(proposals, "INTERIOR_WIDTH", width)
    monkeypatch.setattr(f"prgd.separation.search.{where}", interrupt)
    X, y = overlapping()
    found = separability(X, y)
    assert found.verdict is Verdict.UNDECIDED
    assert "Interrupted" in found.how
    assert found.lower <= found.upper < np.inf
    assert found.check(X, y)


@pytest.mark.parametrize("seed", range(6))
def test_scaling_and_order_do_not_change_the_word(seed):
    _, X, y, fit_intercept = problem(seed)
    rng = np.random.default_rng(seed)
    word = separability(X, y, fit_intercept=fit_intercept).verdict
    order = rng.permutation(len(X))
    columns = 2.0 ** rng.integers(-30, 30, X.shape[1])
    assert separability((X * columns)[order], y[order], fit_intercept=fit_intercept).verdict == word
    assert separability(X, 1 - y, fit_intercept=fit_intercept).verdict == word
    twice = np.vstack([X, X[:2]]), np.append(y, y[:2])
    assert separability(*twice, fit_intercept=fit_intercept).verdict == word


def test_pairs_that_cancel_in_many_columns(monkeypatch):
    monkeypatch.setattr(search, "SMALL_ENTRIES", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 400))
    y = np.arange(30) % 2
    X[1::2][:10] = X[::2][:10]
    found = separability(X, y)
    assert found.verdict == "quasi-separable"
    assert found.boundary_rows.tolist() == list(range(20))
    assert found.proof.weights is not None
    assert found.check(X, y)


def test_dummies_of_one_response_are_infinite(monkeypatch):
    monkeypatch.setattr(proposals, "INTERIOR_WIDTH", 0)  # leaves sparse systems
    level = np.arange(1200) % 60
    y = np.where(level < 2, level, np.arange(1200) // 60 % 2)
    X = csr_array((np.ones(1200), (np.arange(1200), level)))[:, :59]
    found = separability(X, y)
    assert list(found.coefficients.values()) == ["finite", "-inf", "+inf", *["finite"] * 57]
    assert found.check(X, y)
