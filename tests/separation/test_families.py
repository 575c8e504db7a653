"""The rows of each family of models: by hand and against the likelihood itself, and the input it refuses."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from prgd.core.errors import NotFiniteError
from prgd.regression import separability
from prgd.regression.families import FAMILIES, limiting_rows, model_rows
from prgd.regression.responses import read_classes
from prgd.rows import DenseRows
from prgd.separation.search import decide

X = np.array([[1.0, 0.0], [2.0, 5.0], [3.0, -1.0]])


def rows_of(model) -> list[list[float]]:
    """Return the rows z_i with their columns in the order of the names."""
    return model.rows.take(np.arange(model.rows.n))[:, model.columns].tolist()


# ------------------------------------------------------------------------------------------ rows by hand


NAMES = "(Intercept)", "x0", "x1"
BOTH = [[-1, -1, 0], [1, 2, 5], [-1, -2, -5], [-1, -3, 1]]  # the second observation has rows of both signs
BY_HAND = [  # family, response, names, rows and their observations
    ("binomial", ["no", "yes", "no"], NAMES, [[-1, -1, 0], [1, 2, 5], [-1, -3, 1]], None),
    ("binomial", [[0, 2], [3, 4], [0, 1]], NAMES, BOTH, [0, 1, 1, 2]),
    ("poisson", [0, 2.5, 0], NAMES, BOTH, [0, 1, 1, 2]),
    (  # The first class is the reference, and each other one has a block of the intercept and x0, x1.
        "multinomial",
        ["b", "a", "c"],
        tuple((c, name) for c in "bc" for name in NAMES),
        [
            [1, 1, 0, 0, 0, 0],  # b against a
            [1, 1, 0, -1, -1, 0],  # b against c
            [-1, -2, -5, 0, 0, 0],  # a against b
            [0, 0, 0, -1, -2, -5],  # a against c
            [0, 0, 0, 1, 3, -1],  # c against a
            [-1, -3, 1, 1, 3, -1],  # c against b
        ],
        [0, 0, 1, 1, 2, 2],
    ),
    (  # class 1: below its threshold; 3: above the last one; 2: below 2|3, and above 1|2
        "ordinal",
        [1.0, 3.0, 2.0],
        ("1|2", "2|3", "x0", "x1"),
        [[1, 0, -1, 0], [0, -1, 2, 5], [0, 1, -3, 1], [-1, 0, 3, -1]],
        [0, 1, 2, 2],
    ),
]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_matrix, np.asfortranarray])
@pytest.mark.parametrize(("family", "y", "names", "rows", "observations"), BY_HAND)
def test_rows_by_hand(family, y, names, rows, observations, kind):
    model = model_rows(kind(X), y, family=family)
    assert model.names == names
    assert rows_of(model) == rows
    assert (None if model.observations is None else model.observations.tolist()) == observations
    assert model.rows.rows.is_sparse or family not in ("multinomial", "ordinal")
    if family in ("binomial", "multinomial") and np.ndim(y) == 1:
        assert model.classes == tuple(sorted(set(y)))
        without = model_rows(kind(X), y, family=family, fit_intercept=False)
        slopes = [k for k, name in enumerate(names) if "(Intercept)" not in (name, name[1])]
        assert without.names == tuple(names[k] for k in slopes)
        assert rows_of(without) == [[row[k] for k in slopes] for row in rows]


def test_counts_without_data_and_of_one_kind_each():
    assert model_rows(X, [[2, 0], [0, 0], [0, 1]]).observations.tolist() == [0, 2]
    one_each = model_rows(X, [[2, 0], [1, 0], [0, 1]])
    assert one_each.observations is None
    assert one_each.rows.rows.plain_array is X  # no copy is made


def test_observations_of_weight_zero_do_not_count():
    weight = [1.0, 0.0, 3.0, 0.5]
    more = np.vstack([X, [[7.0, 8.0]]])
    labels = model_rows(more, [0, 1, 1, 0], sample_weight=weight)
    assert labels.rows.counted.tolist() == [0, 2, 3]
    found = {}
    for family, y, expected in (
        ("binomial", [[1, 1], [5, 5], [0, 2], [1, 0]], [0, 0, 2, 3]),
        ("poisson", [0, 1, 1, 0], [0, 2, 2, 3]),
        ("multinomial", [0, 1, 1, 2], [0, 0, 2, 2, 3, 3]),
        ("ordinal", [0, 1, 1, 2], [0, 2, 2, 3]),
    ):
        found[family] = model_rows(sp.csr_array(more), y, family=family, sample_weight=weight)
        assert found[family].observations.tolist() == expected
    assert rows_of(found["multinomial"])[2] == [1, 3, -1, 0, 0, 0]
    assert rows_of(found["ordinal"])[-1] == [0, -1, 7, 8]


def test_limiting_observations_and_classes():
    """x0 separates class a from the others, which overlap."""
    x = [[0.0], [1.0], [2.0], [1.0], [2.0]]
    y = ["a", "b", "b", "c", "c"]
    model = model_rows(x, y, family="multinomial")
    found = separability(x, y, family="multinomial")
    assert found.verdict == "quasi-separable"
    assert limiting_rows(model, found.boundary_rows).tolist() == [1, 2, 3, 4]
    assert (found.fit().predict(x) > 0.0).tolist() == [[True, False, False], *4 * [[False, True, True]]]
    assert limiting_rows(model_rows(x, [0, 0, 1, 1, 1]), np.array([1, 2])).tolist() == [1, 2]


def test_limiting_observations_of_poisson():
    """The fixed effect of a group whose responses are all zero goes to minus infinity."""
    x = sp.csr_array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    model = model_rows(x, [0, 0, 0, 3], family="poisson", fit_intercept=False)
    found = separability(x, [0, 0, 0, 3], family="poisson", fit_intercept=False)
    assert found.verdict == "quasi-separable"
    assert limiting_rows(model, found.boundary_rows).tolist() == [2, 3]
    assert found.coef[0] < 0
    assert found.coef[1] == 0


# ---------------------------------------------------------------------------- rows against the likelihood


def log_sigmoid(t):
    return -np.logaddexp(0.0, -t)


def log_likelihood(family: str, X, y, names, theta) -> float:
    """Return the log-likelihood of coefficients that are given by name, from the definition of the model."""
    value = dict(zip(names, theta, strict=True))
    X1 = np.column_stack([np.ones(len(X)), X])
    slopes = ["(Intercept)", *(f"x{j}" for j in range(X.shape[1]))]
    if family == "multinomial":
        classes = np.unique(y).tolist()
        eta = np.column_stack([X1 @ [value.get((str(c), s), 0.0) for s in slopes] for c in classes])
        return float(np.sum(eta[np.arange(len(y)), y] - np.logaddexp.reduce(eta, axis=1)))
    if family == "ordinal":
        eta = X @ [value[s] for s in slopes[1:]]
        cuts = np.array([-np.inf, *(value[f"{k}|{k + 1}"] for k in range(y.max())), np.inf])
        upper, lower = cuts[y + 1] - eta, cuts[y] - eta
        if (upper <= lower).any():
            return -np.inf
        return float(np.sum(log_sigmoid(upper) + log_sigmoid(-lower) + np.log1p(-np.exp(lower - upper))))
    eta = X1 @ [value[s] for s in slopes]
    if family == "poisson":
        return float(np.sum(y * eta - np.exp(eta)))
    successes, failures = (y == 1, y == 0) if y.ndim == 1 else y.T
    return float(np.sum(successes * log_sigmoid(eta) + failures * log_sigmoid(-eta)))


def response(family: str, n: int, rng):
    if family == "counts":
        return np.vstack([rng.integers(0, 3, (n - 2, 2)), [[1, 0], [0, 1]]])
    if family == "poisson":
        return np.append(np.maximum(rng.integers(-2, 3, n - 1), 0), 1)
    classes = 2 if family == "binomial" else 3
    return np.append(rng.integers(0, classes, n - classes), np.arange(classes))


@pytest.mark.parametrize("family", [*FAMILIES, "counts"])
def test_the_rows_tell_the_directions_in_which_the_likelihood_never_falls(family):
    """Along v in the cone the log-likelihood does not fall; along any other v it falls without bound."""
    rng = np.random.default_rng(3)
    outcomes = [0, 0]
    named = "binomial" if family == "counts" else family
    for _ in range(40):
        n, d = int(rng.integers(3, 7)), int(rng.integers(1, 3))
        x, y = rng.integers(-2, 3, (n, d)).astype(float), response(family, n, rng)
        model = model_rows(x, y, family=named)
        Z = np.array(rows_of(model))
        start = np.zeros(len(model.names))
        if family == "ordinal":
            start[: y.max()] = np.arange(y.max())
        directions = rng.integers(-1, 2, (60, start.size))
        for v in np.vstack([directions, Z.sum(axis=0)]):
            is_inside = bool((Z @ v >= 0).all())
            outcomes[is_inside] += 1
            values = [0.0, 1.0, 600.0]
            with np.errstate(over="ignore"):
                path = [log_likelihood(named, x, y, model.names, start + t * v) for t in values]
            if is_inside:
                assert path[0] <= path[1] + 1e-12 <= path[2] + 2e-12
            else:
                assert path[2] < path[0] - 100.0
    assert min(outcomes) > 50


# ------------------------------------------------------------------------------ families that must agree


def decided(*data, **options):
    """Return the verdict on the rows of a model, without those on its coefficients."""
    return decide(model_rows(*data, **options).rows)


def test_two_classes_are_the_same_in_every_family():
    rng = np.random.default_rng(4)
    words = set()
    for _ in range(20):
        x, y = rng.integers(-2, 3, (6, 2)).astype(float), np.append(rng.integers(0, 2, 4), [0, 1])
        verdict = decided(x, y).verdict
        words.add(verdict)
        for family in ("multinomial", "ordinal"):
            assert decided(x, y, family=family).verdict == verdict
        counts = np.column_stack([y, 1 - y]) * rng.integers(1, 5, (6, 1))
        assert decided(sp.csr_array(x), counts).verdict == verdict
        twice, weight = np.vstack([x, x]), np.repeat([2.0, 0.0], 6)
        assert decided(twice, np.append(y, 1 - y), sample_weight=weight).verdict == verdict
    assert len(words) == 3


def test_counts_are_the_labels_that_they_count():
    rng = np.random.default_rng(5)
    for _ in range(20):
        x, counts = rng.integers(-2, 3, (6, 2)).astype(float), rng.integers(0, 2, (6, 2))
        counts[:2] = [[1, 0], [0, 1]]
        index = np.repeat(np.arange(6), counts.sum(axis=1))
        labels = np.concatenate([[1] * s + [0] * f for s, f in counts])
        model, expanded = model_rows(x, counts), decided(x[index], labels)
        found = decide(model.rows)
        assert found.verdict == expanded.verdict
        kept = sorted({int(index[i]) for i in expanded.boundary_rows})
        assert limiting_rows(model, found.boundary_rows).tolist() == kept


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_verdict_is_proven_again_whatever_the_order_of_columns(library, family):
    rng = np.random.default_rng(7)
    y, weight = response(family, 9, rng), [0, 1, 2, 1, 1, 1, 1, 1, 1]
    table = {"u": (y > 0).tolist(), "w": rng.integers(-2, 3, 9).tolist()}
    found = separability(library.DataFrame(table), y, family=family, sample_weight=weight)
    other = library.DataFrame({"w": table["w"], "u": table["u"]})
    assert tuple(found.coefficients) == model_rows(library.DataFrame(table), y, family=family).names
    assert found.feature_names == ("u", "w")
    assert found.verdict in ("separable", "quasi-separable")
    assert found.check(other, y, sample_weight=weight)
    assert not found.check(library.DataFrame({"u": table["w"], "w": table["u"]}), y, sample_weight=weight)


# -------------------------------------------------------------------------------- frames, names, classes


@pytest.mark.parametrize("library", [pd, pl])
def test_names_of_a_data_frame(library):
    frame = library.DataFrame({"age": [1.0, 2.0, 3.0], "dose": [0, 5, 1]})
    counts = library.DataFrame({"dead": [1, 0, 2], "alive": [0, 3, 1]})
    y = library.Series([0, 1, 2])
    for response_, family in ((counts, "binomial"), (y, "poisson")):
        model = model_rows(frame, response_, family=family)
        assert model.names == ("(Intercept)", "age", "dose")
        assert model.feature_names == ("age", "dose")
    assert model_rows(frame, y.to_frame(), family="ordinal").names == ("0|1", "1|2", "age", "dose")
    multinomial = model_rows(frame, y, family="multinomial", fit_intercept=False)
    assert multinomial.names == (("1", "age"), ("1", "dose"), ("2", "age"), ("2", "dose"))
    assert multinomial.feature_names == ("age", "dose")


def test_the_event_is_the_second_label():
    for y in ([0, 1, 1], [-1, 1, 1], [False, True, True], ["control", "dead", "dead"], [1.0, 2.0, 2.0]):
        assert rows_of(model_rows(X, y))[:2] == [[-1, -1, 0], [1, 2, 5]]
        assert rows_of(model_rows(X, pd.Series(y)))[0] == [-1, -1, 0]
    for low_first in (
        pd.Categorical(["low", "high", "high"], categories=["low", "high"]),
        pd.Series(["low", "high", "high"], dtype=pd.CategoricalDtype(["low", "none", "high"])),
        pl.Series(["low", "high", "high"], dtype=pl.Enum(["low", "high"])),
    ):
        model = model_rows(X, low_first)
        assert model.classes == ("low", "high")
        assert rows_of(model)[:2] == [[-1, -1, 0], [1, 2, 5]]


def test_classes_in_the_order_of_a_categorical():
    levels = ["mild", "severe", "absent", "fatal"]
    values = ["fatal", "mild", "severe"]
    for y in (
        pd.Series(values, dtype=pd.CategoricalDtype(levels)),
        pd.DataFrame({"y": pd.Categorical(values, levels, ordered=True)}),
        pl.Series(values, dtype=pl.Enum(levels)),
        pl.DataFrame({"y": pl.Series(values, dtype=pl.Enum(levels))}),
    ):
        assert model_rows(X, y, family="ordinal").names[:2] == ("mild|severe", "severe|fatal")
        assert model_rows(X, y, family="multinomial").names[0] == ("severe", "(Intercept)")
        assert model_rows(X, y, family="multinomial").observations.tolist() == [0, 0, 1, 1, 2, 2]
    assert read_classes(pl.Series(values, dtype=pl.Categorical), 3).labels == ("fatal", "mild", "severe")


def test_engines_have_binomial_labels():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    model = model_rows(DenseRows(X, [0, 1, 0]))
    assert rows_of(model) == [[-1, -1, 0], [1, 2, 5], [-1, -3, 1]]
    assert model_rows(frame, None, fit_intercept=False).names == ("a", "b")
    with pytest.raises(ValueError, match=r"family='poisson' needs X as an array, .* got DenseRows"):
        model_rows(DenseRows(X, [0, 1, 0]), family="poisson")
    with pytest.raises(ValueError, match="holds its labels"):
        model_rows(DenseRows(X, [0, 1, 0]), [0, 1, 0])


# ------------------------------------------------------------------------------------------- bad input

NAN = float("nan")
FRAME = pd.DataFrame({"age": [1.0, 2.0, 3.0], "dose": [4.0, 5.0, 6.0]})
GAP = FRAME.assign(dose=[4.0, NAN, 6.0])
WHOLE = pd.DataFrame({"age": [1, 2, 3], "dose": pd.array([4, None, 6], dtype="Int64")})
Y3 = pd.Series([0, 1, 2], name="grade")
TEXT = pd.DataFrame({"stage": ["I", "II", "I"]})
HALF = pd.DataFrame({"dead": [1, 2, 0.5], "alive": [0, 1, 1]})


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        # the response
        (X, Y3, {}, r"y \('grade'\) must hold two classes with family='binomial'; got 3 \(0, 1, 2\)"),
        (X, ["a", "a", "a"], {}, r"y must hold two classes; got 1 \(a\)"),
        (X, [7, 7, 7], {"family": "multinomial"}, r"at least two classes; got 1 \(7\)"),
        (X, [0, 0, 0], {"family": "poisson"}, "y is 0 in every row that counts"),
        (X, [[1, 0], [2, 0], [1, 0]], {}, "one of its columns is 0 throughout"),
        (X, [[1, 0], [2, -1], [1, 0]], {}, "y at row 1, column 1: expected a number of failures.* got -1"),
        (X, HALF, {}, "y at row 2, column 'dead': expected a number of successes, an integer.* got 0.5"),
        (X, [1, 2, -3], {"family": "poisson"}, "must not be negative with family='poisson'; row 2 has -3"),
        (X, ["low", "mid", "high"], {"family": "ordinal"}, r"alphabetical order \(high, low, mid\)"),
        (X, None, {"family": "ordinal"}, "family='ordinal' needs y"),
        # missing values
        (X, [0, None, 1], {}, "y has no label at row 1"),
        (X, pd.Series([0, 1, NAN], name="grade"), {}, r"y \('grade'\) has a label .* not finite, at row 2"),
        (X, pd.Series(["a", None, "b"], name="grade"), {}, r"y \('grade'\) has no label at row 1"),
        (X, pd.Categorical(["a", None, "b"]), {"family": "multinomial"}, "y has no label at row 1"),
        (X, pl.Series([None, "a", "b"], dtype=pl.Enum(["a", "b"])), {"family": "ordinal"}, "label at row 0"),
        (X, [1.0, None, 2.0], {"family": "poisson"}, r"y at row 1: expected a number, got none"),
        (X, pd.Series([1, None, 2], name="n", dtype="Int64"), {"family": "poisson"}, r"\('n'\) at row 1: "),
        (X, pl.Series("n", [1, None, 2]), {"family": "poisson"}, r"y \('n'\) at row 1: expected a finite"),
        (X, [[1, 0], [NAN, 1], [1, 0]], {}, "y at row 1, column 0: expected a finite number; got nan"),
        (X, [[1, 0], [2, None], [1, 0]], {}, "y at row 1, column 1: expected a number, got none"),
        (GAP, [0, 1, 0], {}, "NaN or infinite, at row 1, column 'dose'"),
        (GAP, [0, 1, 0], {"family": "poisson"}, "NaN or infinite, at row 1, column 'dose'"),
        (pl.from_pandas(GAP), [0, 1, 2], {"family": "ordinal"}, "NaN or infinite, at row 1, column 'dose'"),
        (WHOLE, [0, 1, 0], {}, "row 1, column 'dose'"),
        ([[1.0, 2.0], [3.0, None]], [0, 1], {}, "X at row 1, column 1: expected a number, got none"),
        (sp.csr_array([[0.0, 1.0], [NAN, 0.0]]), [0, 1], {}, "NaN or infinite, at row 1, column 0"),
        (sp.csr_array([[0.0, 1.0], [0.0, NAN]]), [0, 1], {"family": "multinomial"}, "at row 1, column 1"),
        (TEXT, [0, 1, 1], {}, r"Column 'stage' of X must hold.*separability\.from_formula"),
        # shapes
        (np.empty((0, 2)), [], {}, "at least one row and one column"),
        (np.empty((3, 0)), [0, 1, 0], {"family": "poisson"}, "at least one row and one column"),
        (pd.DataFrame(index=[0, 1]), [0, 1], {}, "at least one row and one column"),
        (X, [0, 1], {}, r"y must hold one label for each of the 3 rows of X; got shape \(2,\)"),
        (X, [0, 1], {"family": "poisson"}, r"one number for each of the 3 rows of X; got shape \(2,\)"),
        (X, [[0, 1]], {}, r"successes and failures for each of the 3 rows of X; got shape \(1, 2\)"),
        (X, np.ones((3, 3)), {}, r"successes and failures for each of the 3 rows of X; got shape \(3, 3\)"),
        (X, pd.Categorical(["a", "b"]), {}, "one label for each of the 3 rows of X; got 2"),
        # weights
        (X, [0, 1, 0], {"sample_weight": [1, -1, 1]}, "sample_weight must be finite and not negative; row 1"),
        (X, [0, 1, 0], {"sample_weight": [1, 1, NAN], "family": "poisson"}, "sample_weight must .*; row 2"),
        (X, [0, 1, 0], {"sample_weight": [0, 0, 0]}, "sample_weight is zero everywhere"),
        (X, [0, 1, 0], {"sample_weight": [1, 1]}, "sample_weight must hold one number for each"),
        (X, [0, 1, 0], {"sample_weight": [1, 0, 1]}, "Every row of class 1 of y has sample_weight 0"),
        (X, Y3, {"sample_weight": [0, 1, 1], "family": "ordinal"}, r"class 0 of y \('grade'\) has"),
        (X, [0, 1, 0], {"sample_weight": [1, 0, 1], "family": "poisson"}, "y is 0 in every row that counts"),
        # names and options
        (X, [0, 1, 0], {"family": "logit"}, "binomial, multinomial, poisson or ordinal; got 'logit'"),
        (X, Y3, {"family": "ordinal", "fit_intercept": False}, "thresholds?.* fit_intercept=False"),
        (pd.DataFrame(X, columns=["a", "a"]), [0, 1, 0], {}, "Two coefficients would be called 'a'"),
        (pd.DataFrame(X, columns=["a", "(Intercept)"]), [0, 1, 0], {}, r"'\(Intercept\)'.*fit_intercept=F"),
    ],
)  # fmt: skip
def test_bad_input(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        separability(X, y, **options)


def test_text_is_no_amount_and_the_error_of_a_missing_entry_keeps_its_place():
    with pytest.raises(TypeError, match="y must hold real numbers; got dtype <U4"):
        separability(X, ["none", "one", "two"], family="poisson")
    with pytest.raises(NotFiniteError) as caught:
        separability(GAP, [0, 1, 0])
    assert (caught.value.row, caught.value.column, caught.value.name) == (1, 1, "dose")


def test_classes_that_would_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("prgd.regression.families.physical_memory", lambda: 1e6)
    y = np.arange(500)
    with pytest.raises(ValueError, match=r"The rows of 500 classes take 0\.0\d+ GB.* family='ordinal'"):
        model_rows(np.ones((500, 2)), y, family="multinomial")
    assert model_rows(np.ones((500, 2)), y, family="ordinal").rows.n == 998
