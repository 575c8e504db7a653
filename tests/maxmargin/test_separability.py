"""Verdicts on separability against exact rational arithmetic, and the proofs one by one."""

from __future__ import annotations

import importlib
import pickle
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from prgd import open_rows
from prgd.proofs.exact import (
    echelon,
    exact_dot,
    partition,
    primes,
    rank_at_least,
    scaled,
    solve,
    structure,
    vanishes,
)
from prgd.proofs.lifted_rows import (
    LiftedRows,
    Proof,
    absorbs,
    balance,
    column_structure,
    completed_weights,
    obeying,
    refined_weights,
    smallest_margin,
    weights_prove,
)
from prgd.rows import ChunkedRows, DenseRows
from prgd.separation import Verdict, separability

# the function has the name of its module
stage = importlib.import_module("prgd.separation.search")
proofs = importlib.import_module("prgd.proofs.lifted_rows")


# ------------------------------------------------------------------ the oracle: textbook simplex in fractions


def is_feasible(A: list[list[Fraction]], b: list[Fraction]) -> bool:
    """Say whether some x >= 0 has A x = b: phase one with artificial variables and Bland's rule."""
    rows = [[-a for a in row] if side < 0 else list(row) for row, side in zip(A, b, strict=True)]
    sides = [abs(side) for side in b]
    n = len(rows[0])
    cost = [-sum(row[j] for row in rows) for j in range(n)]
    value = -sum(sides)
    basis = [n + k for k in range(len(rows))]
    while True:
        enters = next((j for j in range(n) if cost[j] < 0), None)
        if enters is None:
            return value == 0
        ratios = [(sides[k] / row[enters], basis[k], k) for k, row in enumerate(rows) if row[enters] > 0]
        _, _, k = min(ratios)
        pivot = rows[k][enters]
        rows[k] = [a / pivot for a in rows[k]]
        sides[k] /= pivot
        basis[k] = enters
        for i in range(len(rows)):
            if i != k and (factor := rows[i][enters]):
                rows[i] = [a - factor * c if c else a for a, c in zip(rows[i], rows[k], strict=True)]
                sides[i] -= factor * sides[k]
        factor = cost[enters]
        cost = [a - factor * c if c else a for a, c in zip(cost, rows[k], strict=True)]
        value -= factor * sides[k]


def true_verdict(X: np.ndarray, y: np.ndarray, fit_intercept: bool) -> str:
    """Gordan: separable unless some p >= 0 of sum 1 has Z^T p = 0. Stiemke: overlap if some p >= 1 has."""
    signs = np.where(np.asarray(y) == np.max(y), 1, -1)
    Z = np.column_stack([X, np.ones(len(X))]) if fit_intercept else np.asarray(X)
    columns = [[Fraction(float(z)) * int(s) for z, s in zip(column, signs, strict=True)] for column in Z.T]
    zero = [Fraction(0)] * len(columns)
    if not is_feasible([*columns, [Fraction(1)] * len(signs)], [*zero, Fraction(1)]):
        return "separable"
    return "not separable" if is_feasible(columns, [-sum(c) for c in columns]) else "quasi-separable"


def test_the_oracle_on_cases_by_hand():
    line = np.array([[1.0], [2.0], [3.0], [4.0]])
    assert true_verdict(line, np.array([0, 0, 1, 1]), True) == "separable"
    assert true_verdict(line, np.array([0, 1, 0, 1]), True) == "not separable"
    assert (
        true_verdict(np.array([[1.0], [2.0], [2.0], [4.0]]), np.array([0, 0, 1, 1]), True)
        == "quasi-separable"
    )
    assert true_verdict(line, np.array([0, 0, 1, 1]), False) == "not separable"


# ------------------------------------------------------------------------------- adversarial small problems


def grid(rng, n, d):
    return rng.integers(-2, 3, (n, d)).astype(float), rng.integers(0, 2, n)


def ties(rng, n, d):
    X = rng.integers(0, 2, (n, d)).astype(float)
    return X, (X @ rng.integers(-2, 3, d) > 0).astype(int)


def duplicates(rng, n, d):
    X, y = grid(rng, n, d)
    X[: n // 2] = X[rng.integers(0, n, n // 2)]
    return X, y


def degenerate(rng, n, d):
    X = rng.integers(-3, 4, (n, d)).astype(float)
    w = rng.integers(-1, 2, d)
    y = (X @ w > 0).astype(int)
    X[:, 0] = X[:, -1] * 2.0  # a column that depends on another, and rows on a hyperplane
    return X, y


def one_hot(rng, n, d):
    X = np.eye(d + 1)[rng.integers(0, d + 1, n)]
    return X, (X @ rng.integers(-1, 2, d + 1) + rng.integers(-1, 1, n) >= 0).astype(int)


def near(rng, n, d, gap=1e-8):
    """Rows pushed to within ``gap`` of a hyperplane, on the right side or the wrong one."""
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = rng.integers(0, 2, n)
    target = np.where(rng.random(n) < 0.6, 0.0, np.abs(rng.standard_normal(n)))
    return X + np.outer((2 * y - 1) * (target + gap * rng.choice([-1, 1, 1, 1])) - X @ w, w), y


def nearer(rng, n, d):
    return near(rng, n, d, 1e-12)


def wild(rng, n, d):
    X, y = near(rng, n, d)
    return X * 10.0 ** rng.integers(-9, 10, d), y


def decimals(rng, n, d):
    X = np.round(rng.standard_normal((n, d)), 1)
    X[rng.integers(0, n)] = 0.0
    return X, (X @ rng.standard_normal(d) > 0.0).astype(int)


INTEGER = [grid, ties, duplicates, degenerate, one_hot]
FAMILIES = [*INTEGER, near, nearer, wild, decimals]


def problem(seed: int, least=2, most=14, widest=5):
    rng = np.random.default_rng(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    n, d = int(rng.integers(least, most)), int(rng.integers(1, widest + 1))
    X, y = family(rng, n, d)
    y[:2] = (0, 1) if y[:2].sum() != 1 else y[:2]
    return family, X, y, bool(seed // len(FAMILIES) % 2)


def compare(seeds, **sizes) -> Counter[str]:
    """Check every verdict and its proof; count those without one."""
    words: Counter[str] = Counter()
    for seed in seeds:
        family, X, y, fit_intercept = problem(seed, **sizes)
        found = separability(X, y, fit_intercept=fit_intercept)
        assert found.check(X, y), seed
        if found.verdict == Verdict.UNDECIDED:
            assert family not in INTEGER, seed
        else:
            assert found.verdict == true_verdict(X, y, fit_intercept), seed
        assert (found.weights is None) == (found.verdict == "separable" or found.is_separable is None)
        words[found.verdict.value] += 1
    return words


def test_never_wrong_on_small_problems():
    words = compare(range(440))
    assert words["undecided"] == 0
    assert min(words["separable"], words["quasi-separable"], words["not separable"]) > 40


def test_never_wrong_on_larger_problems():
    # beyond the size that goes to exact arithmetic at once
    words = compare(range(1000, 1060), least=110, most=160, widest=6)
    assert words["undecided"] <= 1


def test_never_wrong_without_exact_arithmetic(monkeypatch):
    monkeypatch.setattr(stage, "SMALL", 0)
    monkeypatch.setattr(stage, "EXACT_SECONDS", 0.0)
    words = compare(range(2000, 2130))
    assert words["undecided"] <= 6


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
    assert found.weights is None
    assert 0.0 < found.margin == found.lower <= found.upper
    margins = y * (X @ found.coef + found.intercept) / np.linalg.norm(found.coef)
    assert found.margin <= margins.min() == pytest.approx(found.margin, rel=1e-9)
    assert found.features[:2].tolist() == [0, 1]
    assert found.separated_rows.size == 200
    assert found.boundary_rows.size == 0
    assert "separable: this hyperplane has every one of the 200 rows" in str(found)
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


def test_quasi_separable_names_rows_and_features():
    X, y = treated()
    found = separability(X, y)
    assert found.verdict == "quasi-separable"
    assert found.is_separable is False
    assert found.features.tolist() == [3]
    assert found.coef[3] == 1.0
    assert found.intercept == 0.0
    assert found.separated_rows.tolist() == np.flatnonzero(X[:, 3]).tolist()
    assert found.margin == found.lower == found.upper == 0.0
    assert found.weights.sum() == pytest.approx(1.0)
    assert (found.weights >= 0.0).all()
    assert not found.weights[found.separated_rows].any()
    assert found.residual < 1e-12
    assert "it uses x3 (+1): unpenalised logistic regression" in str(found)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_not_separable_carries_weights(fit_intercept):
    X, y = overlapping()
    found = separability(X, y, fit_intercept=fit_intercept)
    assert found.verdict is Verdict.NOT_SEPARABLE
    assert found.coef is None
    assert np.isnan(found.margin)
    assert found.upper == 0.0
    signs = np.where(y == "b", 1, -1)
    assert np.linalg.norm(X.T @ (found.weights * signs)) <= found.residual + 1e-15
    assert found.weights.sum() == pytest.approx(1.0)
    assert ("same mean" in str(found)) == fit_intercept
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert again.check(X, y)


def test_a_frame_gives_the_names():
    pandas = pytest.importorskip("pandas")
    X, y = treated()
    frame = pandas.DataFrame(X, columns=["age", "dose", "weight", "treated"])
    found = separability(frame, pandas.Series(y, dtype="category"))
    assert "it uses treated (+1)" in str(found)
    assert found.check(frame, y)


def test_any_frame_with_columns_will_do():
    class Frame:
        """What polars and others offer."""

        columns = ("first", "second")

        def to_numpy(self):
            return np.array([[0, 1], [1, 0]])

    found = separability(Frame(), [0, 1])
    assert found.feature_names == ["first", "second"]
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
        {"weights": -found.weights},
        {"weights": found.weights * 0.0},
        {"weights": None},
        {"weights": np.roll(found.weights, 1)},
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
    wrong = replace(found, verdict=Verdict.SEPARABLE, weights=None)
    assert not wrong.check(X, y)
    assert not replace(wrong, coef=None).check(X, y)


def test_check_of_a_separator_looks_at_the_margin():
    X, y = np.array([[0.0, 1.0], [1.0, 3.0], [3.0, 0.0]]), [0, 0, 1]
    found = separability(X, y)
    assert found.check(X, y)
    assert not replace(found, margin=2.0 * found.margin).check(X, y)
    assert not replace(found, coef=-found.coef).check(X, y)


# ------------------------------------------------------------------------------------------ kinds of input


class Elsewhere:
    """An engine that offers the protocol and nothing else."""

    def __init__(self, rows):
        self.n, self.d = rows.n, rows.d
        self.classes, self.class_weights = rows.classes, rows.class_weights
        for name in ("tallies", "margins", "worst", "combine", "take", "measure", "signs", "weights"):
            setattr(self, name, getattr(rows, name))


def kinds(X, y, folder):
    np.save(folder / "X.npy", X)
    third = len(X) // 3
    blocks = [(X[:third], y[:third]), (X[third:], y[third:])]
    return {
        "C": (X, y),
        "F": (np.asfortranarray(X), y),
        "float32": (X.astype(np.float32), y),
        "mapped": (np.load(folder / "X.npy", mmap_mode="r"), y),
        "csr": (sp.csr_array(X), y),
        "csc": (sp.csc_matrix(X), y),
        "list": (X.tolist(), list(y)),
        "chunks": (ChunkedRows.from_blocks(blocks), None),
        "sparse chunks": (ChunkedRows.from_blocks([(sp.csr_array(a), b) for a, b in blocks]), None),
        "file": (open_rows(folder / "X.npy", y, max_memory=200), None),
        "elsewhere": (Elsewhere(DenseRows(X, y)), None),
    }


@pytest.mark.parametrize("make", [overlapping, treated, lambda n: (treated(n)[0], treated(n)[0][:, 0] > 0.3)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_kind_of_rows_gets_the_same_verdict(make, fit_intercept, tmp_path):
    X, y = make(160)
    X = X.astype(np.float32).astype(np.float64)
    words = set()
    for table, labels in kinds(X, np.asarray(y), tmp_path).values():
        found = separability(table, labels, fit_intercept=fit_intercept)
        assert found.check(table, labels)
        words.add(found.verdict)
    assert len(words) == 1


def test_whole_and_boolean_numbers():
    X = np.array([[1, 0], [0, 1], [1, 1]])
    assert separability(X, [1, 0, 1]).verdict == "separable"
    assert separability(X.astype(bool), [True, False, True]).verdict == "separable"
    assert separability(sp.csr_array(X), [1, 0, 1]).verdict == "separable"


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
        (DenseRows([[1.0], [2.0]], [0, 1], [1.0, 0.0]), None, "weight 0"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        separability(X, y)


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
        assert found.verdict == true_verdict(X, np.array(y), True)
        assert found.check(X, y)
    X = np.array([[1.7e308, 1.0], [-1.7e308, 2.0], [1.0, 3.0]])
    assert separability(X, [1, 0, 0]).check(X, [1, 0, 0])


def test_a_wide_table_of_long_numbers_is_decided():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 25)) * 10.0 ** rng.integers(-15, 15, (20, 25))
    y = np.arange(20) % 2
    found = separability(X, y)
    assert found.verdict == "separable"
    assert found.check(X, y)


# ------------------------------------------------------------------------------------------- the stages


def test_copies_with_opposite_labels_are_seen_at_once():
    X, _ = overlapping(50, 80)
    y = np.arange(50) % 2
    X[7] = X[4]
    rows = LiftedRows(X, y, fit_intercept=True)
    found = stage._cancelling_rows(rows)
    assert found.boundary.tolist() == [4, 7]
    result = separability(X, y)
    assert result.verdict == "quasi-separable"
    assert result.boundary_rows.tolist() == [4, 7]
    assert result.check(X, y)
    zero = np.vstack([X, np.zeros((1, 80))])
    rows = LiftedRows(zero, np.append(y, 1), fit_intercept=False)
    assert stage._cancelling_rows(rows).how == "Row 50 is zero."


def test_wide_sparse_rows_with_two_copies():
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 3000), density=0.01, rng=rng, format="lil")
    y = np.arange(60) % 2
    X[1] = X[0]
    found = separability(X.tocsr(), y)
    assert found.verdict == "quasi-separable"
    assert found.boundary_rows.tolist() == [0, 1]
    assert found.check(X.tocsr(), y)


def test_many_rows_show_their_overlap_early():
    X, y = overlapping(5000, 5)
    found = separability(X, y)
    assert found.verdict == "not separable"
    assert 0 < np.count_nonzero(found.weights) < 300


@pytest.mark.parametrize("make", [treated, overlapping])
def test_linear_programming_asks_for_more_rows(make, monkeypatch):
    monkeypatch.setattr(stage, "PROGRAMME_ENTRIES", 0)
    monkeypatch.setattr(stage, "FIRST_LOOKS", ())
    monkeypatch.setattr(stage, "PLAIN_STEPS", 2)
    monkeypatch.setattr(stage, "STEP_ENTRIES", 0)
    X, y = make(3000)
    X = np.column_stack([X, X[:, 0] - 2.0 * np.round(X[:, 1])])
    found = separability(X, y)
    assert found.verdict == ("quasi-separable" if make is treated else "not separable")
    assert found.check(X, y)


@pytest.mark.parametrize(("labels", "word"), [("bab", "quasi-separable"), ("bbb", "not separable")])
def test_linear_programming_asks_for_rows_outside_the_span(labels, word, monkeypatch):
    monkeypatch.setattr(stage, "PROGRAMME_ENTRIES", 0)
    monkeypatch.setattr(stage, "FIRST_LOOKS", ())
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


def test_separable_rows_by_linear_programming(monkeypatch):
    monkeypatch.setattr(stage, "PROGRAMME_ENTRIES", 0)
    monkeypatch.setattr(stage, "PLAIN_STEPS", 1)
    monkeypatch.setattr(stage, "STEP_ENTRIES", 0)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 8))
    y = X @ rng.standard_normal(8) > 0.0
    found = separability(X, y)
    assert found.verdict == "separable"
    assert "linear programming" in found.how


@pytest.mark.parametrize("gap", [1e-9, 1e-11, 1e-13])
def test_margins_below_the_tolerance_of_linear_programming(gap, monkeypatch):
    monkeypatch.setattr(stage, "EXACT_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((400, 8)), np.eye(8)[0]
    y = np.where(rng.random(400) < 0.5, -1, 1)
    X[:, 0] = y * (gap + np.where(rng.random(400) < 0.4, 0.0, np.abs(rng.standard_normal(400))))
    Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    X = X @ Q
    assert (y * (X @ (Q.T @ w)) > 0.5 * gap).all()
    found = separability(X, y)
    assert found.verdict == "separable"
    assert found.check(X, y)


def test_scaled_rows_help_the_iterative_method():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6)) * 10.0 ** rng.integers(-6, 7, 6)
    y = (X / np.abs(X).max(axis=0)) @ rng.standard_normal(6) > 0.0
    found = separability(sp.csr_array(X), y)
    assert found.verdict == "separable"
    assert found.check(X, y)


def test_nothing_proven_leaves_the_interval(monkeypatch):
    monkeypatch.setattr(stage, "EXACT_SECONDS", 0.0)
    monkeypatch.setattr(stage, "_solved_programme", lambda Z, tolerance: None)
    X, y = overlapping()
    found = separability(X, y)
    assert found.verdict is Verdict.UNDECIDED
    assert found.is_separable is None
    assert found.lower < 0.0 < found.upper
    assert found.check(X, y)
    assert "the largest margin lies between" in str(found)
    assert not replace(found, margin=1.0).check(X, y)
    X[1] = X[0]
    y[:2] = "a", "b"
    found = separability(X, y)
    assert found.verdict is Verdict.UNDECIDED
    assert found.is_separable is False
    assert found.upper == 0.0
    assert found.check(X, y)
    assert "separates the classes strictly, that is proven" in str(found)


def test_a_copy_that_is_too_large_is_not_made(monkeypatch):
    monkeypatch.setattr(stage, "MOST_ENTRIES", 100)
    X, y = overlapping()
    assert separability(X, y).verdict is Verdict.UNDECIDED
    monkeypatch.setattr(stage, "MOST_ENTRIES", 2**25)
    monkeypatch.setattr(proofs, "MOST_DENSE", 100)
    assert separability(X, y).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("where", ["_by_one_feature", "_by_steps", "_programme"])
def test_ctrl_c_returns_what_there_is(where, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stage.Search, where, interrupt)
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


# -------------------------------------------------------------------------------------- proofs are sound


@pytest.mark.parametrize("seed", range(20))
def test_no_weights_are_accepted_for_separable_rows(seed):
    rng = np.random.default_rng(seed)
    gap = 10.0 ** -rng.integers(1, 15)
    X, w = rng.standard_normal((40, 4)), rng.standard_normal(4)
    w /= np.linalg.norm(w)
    Z = X + np.outer(gap - X @ w, w)
    if smallest_margin(LiftedRows(Z, None, fit_intercept=False), w).margin <= 0.0:
        pytest.skip("rounding has moved a row to the other side")
    _, _, directions = np.linalg.svd(Z.T, full_matrices=True)
    for p in (np.full(40, 1.0), np.abs(directions[-1]), rng.random(40)):
        p = p + 1e-3
        assert not absorbs(Z, p)
        assert not absorbs(Z, refined_weights(Z, p))


def test_absorbing_needs_full_rank_and_positive_weights():
    Z = np.array([[1.0, 2.0], [-1.0, -2.0], [0.5, 1.0]])
    assert not absorbs(Z, np.array([1.0, 2.0, 2.0]))  # rank 1
    assert absorbs(Z[:, :1], np.array([1.0, 2.0, 2.0]))
    assert not absorbs(Z[:, :1], np.array([1.0, 0.0, 2.0]))
    assert not absorbs(Z[:1], np.ones(1))
    assert absorbs(np.empty((3, 0)), np.ones(3))
    assert not absorbs(np.zeros((3, 1)), np.ones(3))
    assert balance(np.array([[1e300], [1e-300], [-1e300]]), np.ones(3)) is None
    assert not absorbs(np.array([[1e300], [1e-300], [-1e300]]), np.ones(3))
    assert refined_weights(np.zeros((3, 1)), np.ones(3)).tolist() == [1.0] * 3
    assert refined_weights(np.array([[1e300], [1e-300]]), np.ones(2)).tolist() == [1.0] * 2
    assert refined_weights(np.array([[1.0], [2.0]]), np.ones(2)).tolist() == [1.0] * 2


@pytest.mark.parametrize("seed", range(30))
def test_margins_near_zero_get_their_true_sign(seed):
    rng = np.random.default_rng(seed)
    X, v = rng.standard_normal((12, 6)), rng.standard_normal(6)
    X[:, 5] = -(X[:, :5] @ v[:5]) / v[5]  # zero but for rounding
    rows = LiftedRows(X, None, fit_intercept=False)
    direction = [Fraction(float(x)) for x in v]
    true = [exact_dot(x, direction) for x in X]
    found = smallest_margin(rows, v)
    assert (found.margin > 0.0) == (min(true) > 0)
    assert found.margin <= min(true)
    good = np.array([i for i, m in enumerate(true) if m > 0], np.int64)
    if good.size:
        some = smallest_margin(rows, v, index=good)
        assert 0.0 < some.margin <= min(true[i] for i in good)


def test_margins_of_directions_beyond_the_floating_range():
    rows = LiftedRows([[1.0, 1.0], [0.0, 1.0]], None, fit_intercept=False)
    tiny = (Fraction(1), Fraction(1, 2**1200))
    found = smallest_margin(rows, np.array([1.0, 0.0]), tiny)
    assert found == (proofs.TINY, 2)
    huge = (Fraction(2**1200), Fraction(2**1201))
    assert smallest_margin(rows, np.array([np.inf, np.inf]), huge).margin == np.finfo(float).max
    negative = (Fraction(-(2**1200)), Fraction(-1))
    assert smallest_margin(rows, np.array([-np.inf, -1.0]), negative).margin == -np.inf


def test_exact_margins_have_a_budget(monkeypatch):
    monkeypatch.setattr(proofs, "MOST_EXACT", 1)
    rows = LiftedRows([[1.0, -1.0], [2.0, -2.0]], None, fit_intercept=False)
    assert smallest_margin(rows, np.ones(2)).margin == -np.inf


def test_exact_weights_that_do_not_span_need_relations():
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    rows = LiftedRows(X, None, fit_intercept=False)
    p = np.array([0.5, 0.5, 0.0, 0.0])
    proof = Proof(weights={0: 1, 1: 1}, relations=({1: Fraction(1)},))
    assert weights_prove(rows, np.array([0, 1]), p, Proof(weights={0: 1, 1: 1}))
    assert weights_prove(rows, np.array([0, 1, 2]), p, proof)
    assert not weights_prove(rows, np.array([0, 1, 2]), p, Proof(weights={0: 1, 1: 1}))
    assert not weights_prove(rows, np.array([0, 1, 2, 3]), p, proof)
    assert not weights_prove(rows, np.array([0, 1]), p, Proof(weights={0: 1, 1: 2}))
    assert not weights_prove(rows, np.array([0, 1]), p, Proof(weights={0: -1, 1: -1}))
    assert not weights_prove(rows, np.array([0]), p, proof)


def test_relations_between_columns():
    rng = np.random.default_rng(0)
    X = rng.integers(-5, 6, (200, 3)).astype(float)
    X = np.column_stack([X, X[:, 0] - 3.0 * X[:, 1], np.zeros(200)])
    X[150, 4] = 1.0  # not among the rows that are looked at first
    rows = LiftedRows(X, None, fit_intercept=False)
    known = column_structure(rows, np.arange(200))
    assert len(known.columns) == 4
    assert obeying(rows, known.relations, np.arange(200)).size == 200
    few = column_structure(rows, np.arange(150))
    assert len(few.columns) == 3
    assert obeying(rows, few.relations, np.arange(200)).tolist() == [i for i in range(200) if i != 150]
    # irrational ones would need long numbers: they are given up, and found where none are wanted
    Z = rng.standard_normal((6, 3)) @ rng.integers(-3, 4, (3, 5))
    assert structure(Z, range(5), 0).relations is None or len(structure(Z, range(5), 0).columns) == 5


def test_completed_weights_balance_exactly():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((4, 10))
    Z = np.vstack([half, -half])  # wide: four pairs that cancel
    known = structure(Z, range(10), 0)
    assert known.relations is None
    whole = completed_weights(Z, known, np.ones(8))
    assert vanishes(Z.T, whole).all()
    assert completed_weights(half, structure(half, range(10), 0), np.ones(4)) is None


def test_pairs_that_cancel_in_many_columns(monkeypatch):
    monkeypatch.setattr(stage, "SMALL", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 400))
    y = np.arange(30) % 2
    X[1::2][:10] = X[::2][:10]
    found = separability(X, y)
    assert found.verdict == "quasi-separable"
    assert found.boundary_rows.tolist() == list(range(20))
    assert found.proof.weights is not None
    assert found.check(X, y)


# --------------------------------------------------------------------------------------- exact arithmetic


@pytest.mark.parametrize("seed", range(10))
def test_zero_tests_agree_with_fractions(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6, 4)) * 2.0 ** rng.integers(-200, 200, (6, 4))
    k = [int(x) for x in rng.integers(-(10**9), 10**9, 4)]
    A[:3, 3] = 0.0
    A[0, :3] = 0.0
    A[1, :3] = [k[1], -k[0], 0.0]
    true = [sum(Fraction(float(a)) * c for a, c in zip(row, k, strict=True)) == 0 for row in A]
    assert vanishes(A, k).tolist() == true
    assert true[:2] == [True, True]
    table = scaled(A, by_columns=True)
    back = table.integers() * np.array(
        [[Fraction(2) ** int(r + c) for c in table.columns] for r in table.rows]
    )
    assert (back == np.vectorize(Fraction)(A)).all()


def test_primes_are_prime():
    found = [p for p, _ in zip(primes(), range(20), strict=False)]
    assert found[0] == 2**31 - 1
    assert all(all(p % q for q in range(2, 47000)) for p in found[:2])
    assert sorted(set(found), reverse=True) == found


@pytest.mark.parametrize("seed", range(5))
def test_linear_systems_are_solved_exactly(seed):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((5, 5)), rng.standard_normal((5, 2))
    (x,) = solve(A, B, [[3, -1]])
    for row, right in zip(A, B, strict=True):
        assert exact_dot(row, x) == exact_dot(right, [Fraction(3), Fraction(-1)])
    assert solve(A, B, [[3, -1]], most_primes=3) is None
    A[4] = 2.0 * A[0]
    assert solve(A, B, [[3, -1]]) is None


def test_echelon_and_rank():
    assert echelon(np.array([[0, 1], [0, 2], [3, 0]]), 7).columns == [0, 1]
    assert echelon(np.array([[1, 1]]), 7, [1, 0]).columns == [1]
    assert rank_at_least(np.outer([1.0, 2.0], [0.1, 0.7])) == 1


@pytest.mark.parametrize("seed", range(20))
def test_partition_is_strictly_complementary(seed):
    _, X, y, _ = problem(seed)
    Z = X * (2 * y - 1)[:, None]
    boundary, weights, direction = partition(Z)
    margins = [exact_dot(z, direction) for z in Z]
    assert all(
        p > 0 and m == 0 if on else p == 0 and m > 0
        for on, p, m in zip(boundary, weights, margins, strict=True)
    )
    assert vanishes(Z.T, weights).all()


def test_partition_gives_up_when_told():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 6))
    assert partition(Z, most_pivots=6) is None
    assert partition(Z, order=range(39, -1, -1)).boundary.all()
