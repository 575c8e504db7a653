"""Norms by hand: values, names, error sentences, and bounds that do not trust the decomposition."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from prgd.core.checks import parse, to_text
from prgd.norms import L1, L2, NORMS, GroupNorm, Linf, Lp, Nuclear, Spectral, as_norm, norm
from prgd.norms.matrix import distance_above

ALL = [L2(), L1(), Linf(), Lp(1.5), Lp(3.0), Spectral(), Nuclear(), GroupNorm("rows"), GroupNorm("columns")]
W = np.array([[3.0, 0.0, 0.0], [0.0, -4.0, 0.0]])


@pytest.mark.parametrize(
    ("value", "length", "dual", "steepest"),
    [
        (L2(), 5.0, 5.0, W / 5.0),
        (L1(), 7.0, 4.0, [[0, 0, 0], [0, -1, 0]]),
        (Linf(), 4.0, 7.0, [[1, 0, 0], [0, -1, 0]]),
        (
            Lp(3.0),
            91.0 ** (1 / 3),
            (3.0**1.5 + 4.0**1.5) ** (2 / 3),
            np.array([[3**0.5, 0, 0], [0, -(4**0.5), 0]]) / (3**1.5 + 4**1.5) ** (1 / 3),
        ),
        (Spectral(), 4.0, 7.0, [[1, 0, 0], [0, -1, 0]]),
        (Nuclear(), 7.0, 4.0, [[0, 0, 0], [0, -1, 0]]),
        (GroupNorm("rows"), 7.0, 4.0, [[0, 0, 0], [0, -1, 0]]),
        (GroupNorm("columns"), 7.0, 4.0, [[0, 0, 0], [0, -1, 0]]),
    ],
    ids=str,
)
def test_a_matrix_by_hand(value, length, dual, steepest):
    assert value(W) == pytest.approx(length, rel=1e-15)
    assert value.dual(W) == pytest.approx(dual, rel=1e-15)
    assert value.rescale(W, 2.0) == pytest.approx(W * (2.0 / length), rel=1e-15)
    assert value.project(W, 100.0) is W
    np.testing.assert_allclose(value.project(W, 2.0), value.rescale(W, 2.0), rtol=0, atol=0)
    np.testing.assert_allclose(value.steepest(W), steepest, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(value.ascent(W), value.dual(W) * value.steepest(W), rtol=1e-15)


def test_ties_go_to_the_first():
    u = np.array([[0.0, -2.0, 2.0], [2.0, 0.0, 0.0]])
    assert L1().steepest(u).tolist() == [[0, -1, 0], [0, 0, 0]]
    assert L1().steepest(np.asfortranarray(u)).tolist() == [[0, -1, 0], [0, 0, 0]]
    assert GroupNorm("columns").steepest(u).tolist() == [[0, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("value", ALL, ids=str)
def test_zero_and_numbers_that_are_not_finite(value):
    zero = np.zeros((2, 3))
    assert value(zero) == value.dual(zero) == value.above(zero) == value.dual_above(zero) == 0.0
    assert not value.steepest(zero).any()
    assert not value.ascent(zero).any()
    for entry, is_same in ((math.nan, math.isnan), (math.inf, math.isinf)):
        w = np.array([[entry, 1.0, 1.0], [1.0, 1.0, 1.0]])
        for measure in (value, value.dual, value.above, value.dual_above):
            assert is_same(measure(w)), (measure, entry)


@pytest.mark.parametrize("value", ALL, ids=str)
def test_the_name_is_read_back(value):
    assert as_norm(value.name) == value
    assert as_norm(f" {value.name} ") == value
    assert as_norm(value) is value or as_norm(value) == value
    assert str(value) == value.name


@pytest.mark.parametrize("p", [1.0000000000000002, 1.1, 4 / 3, 1e300])
def test_every_digit_of_p_is_kept(p):
    assert as_norm(Lp(p).name) == Lp(p)
    assert parse(f"lp:{p!r}", NORMS, "norm") == Lp(p)
    assert parse(to_text(Lp(p), NORMS), NORMS, "norm") == Lp(p)


SPELLINGS = {
    L1(): [1, "1", "lp:1", "L1"],
    L2(): [2, np.float64(2.0), "lp:2", Lp(2), "frobenius"],
    Lp(1.5): [1.5, np.float32(1.5), "1.5", "L1.5"],
    Lp(3.0): [3, "l3", "LP:3"],
    Lp(4.0): [np.int64(4)],
    Linf(): [math.inf, "inf", "lp:inf", "Linf"],
    GroupNorm("rows"): ["rows", "Rows"],
}


@pytest.mark.parametrize(("expected", "given"), [(n, one) for n, texts in SPELLINGS.items() for one in texts])
def test_numbers_and_texts_are_read(given, expected):
    assert as_norm(given) == expected


@pytest.mark.parametrize(
    ("given", "error", "start"),
    [
        ("lq", ValueError, "Unknown norm 'lq'. Did you mean"),
        ("manhattan", ValueError, "Unknown norm 'manhattan'. Known"),
        ("", ValueError, "Unknown norm ''"),
        *((text, ValueError, f"The norm 'lp' needs p after a colon; got '{text}'") for text in ("lp", "lp:")),
        ("lp:x", ValueError, "Expected numbers after the colon; got 'lp:x'"),
        ("lp:1,2", ValueError, "Expected at most 1 number"),
        ("rows:1", ValueError, "The norm 'rows' takes no numbers"),
        *(
            (given, ValueError, f"The p of a norm must be a number of at least 1; got {shown}")
            for shown, spellings in {
                "0.5": ["l0.5", "lp:0.5"],
                "nan": ["nan", math.nan, 10**400],
                "0": [0],
                "-inf": [-math.inf],
            }.items()
            for given in spellings
        ),
        *((given, TypeError, f"A norm cannot be made of {given}") for given in (None, True, 2j, [2], L2)),
    ],
)
def test_what_is_no_norm_is_refused_with_a_list_of_norms(given, error, start):
    with pytest.raises(error) as caught:
        as_norm(given)
    message = str(caught.value)
    assert message.startswith(start)
    names = "'l2', 'l1', 'linf', 'frobenius', 'spectral', 'nuclear', 'rows', 'columns', 'lp:1.5' and 'l1.5'"
    assert names in message
    assert "a number p of at least 1 or math.inf" in message


@pytest.mark.parametrize("p", [0.5, 1.0, math.inf, math.nan, -3, "3", None, True, 10**400, [2.0]])
def test_lp_needs_a_finite_p_above_one(p):
    with pytest.raises(ValueError, match=r"finite number p above 1.*Use L1\(\) for p = 1"):
        Lp(p)


def test_group_norms_need_an_axis():
    with pytest.raises(ValueError, match="'rows' or 'columns'; got 'row'"):
        GroupNorm("row")


@pytest.mark.parametrize("value", ALL[-4:], ids=str)
def test_matrix_norms_refuse_vectors(value):
    v = np.ones(3)
    for call in (value, value.dual, value.steepest, value.above, value.dual_above):
        with pytest.raises(ValueError, match=rf"{value.name}.*shape \(classes, features\).*got .*\(3,\)"):
            call(v)
    with pytest.raises(ValueError, match="or use l2, l1, linf or a number p"):
        value.check_shape((3,))
    value.check_shape((3, 2))


@pytest.mark.parametrize("value", ALL[:-4], ids=str)
def test_entrywise_norms_take_any_shape(value):
    value.check_shape((3,))
    value.check_shape((3, 2))
    w = np.arange(24.0).reshape(4, 6)
    for view in (w, w.T, w[::2, ::-1]):
        flat = view.ravel()
        for measure in (value, value.dual, value.above, value.dual_above):
            assert measure(view) == measure(flat)
        np.testing.assert_array_equal(value.steepest(view).ravel(), value.steepest(flat))


@pytest.mark.parametrize("size", [1, 3, 100, 9000])
def test_the_euclidean_norm_of_a_vector_keeps_its_bits(size):
    v = np.random.default_rng(size).standard_normal(size)
    parts = [v[k : k + 2**13] for k in range(0, size, 2**13)]
    length = math.sqrt(sum(float(part @ part) for part in parts))
    assert norm(v) == norm(v.reshape(1, -1)) == L2()(v) == L2().dual(v) == length
    assert L2().ascent(v) is v
    assert L2().steepest(v).tobytes() == (v / length).tobytes()
    assert L2().rescale(v, 3.0).tobytes() == ((v / length) * 3.0).tobytes()
    assert L2().project(v, 0.5 * length).tobytes() == ((v / length) * (0.5 * length)).tobytes()


@pytest.mark.parametrize("value", ALL, ids=str)
def test_the_dual_norm_of_rows_and_of_pairs(value):
    x = np.random.default_rng(3).standard_normal(5)
    q = value.row_exponent
    length = as_norm(q)(x)
    pair = np.outer(np.array([0.0, 1.0, 0.0, -1.0]), x)
    assert value.dual(pair) == pytest.approx(value.pair_factor * length, rel=1e-14)
    if not isinstance(value, (Spectral, Nuclear, GroupNorm)):
        assert value.dual(x) == pytest.approx(length, rel=1e-14)


@pytest.mark.parametrize("value", [*ALL, Lp(1.01), Lp(2.0), Lp(100.0)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (4, 4), (7, 2)])
def test_the_largest_ratio_of_the_dual_and_the_euclidean_norm_is_attained(value, shape):
    ratio = value.dual_ratio(shape)
    single = np.zeros(shape)
    single[0, 0] = 1.0
    seen = [value.dual(v) / norm(v) for v in (np.ones(shape), np.eye(*shape), single)]
    assert max(seen) == pytest.approx(ratio, rel=1e-14)
    for v in np.random.default_rng(0).standard_normal((20, *shape)):
        assert value.dual(v) <= ratio * norm(v) * (1.0 + 1e-14)


@pytest.mark.parametrize("value", [Spectral(), Nuclear()], ids=str)
def test_bounds_hold_for_wrong_decompositions(value, monkeypatch):
    """Whatever LAPACK returns, the bounds are above the norms, and at most those from the Frobenius norm."""
    rng = np.random.default_rng(5)
    V = rng.standard_normal((3, 6))
    length, dual = value(V), value.dual(V)
    loosest = math.sqrt(3.0) * norm(V) * (1.0 + 1e-14)
    U, s, Vt = np.linalg.svd(V / 2.0 ** math.frexp(norm(V))[1], full_matrices=False)
    for factors in (
        (U, 0.5 * s, Vt),
        (0.9 * U, s, Vt),
        (U, s, 1.01 * Vt),
        (U + 1e-9 * rng.standard_normal(U.shape), s, Vt),
        (U, s * np.array([0.0, 1.0, 1.0]), Vt),
        (0.0 * U, s, Vt),
        (1e9 * U, s, Vt),
        (U * math.nan, s, Vt),
        (U, np.full_like(s, math.nan), Vt),
        (U, s[::-1], Vt),
    ):
        monkeypatch.setattr(np.linalg, "svd", lambda *_, found=factors, **__: found)
        with np.errstate(invalid="ignore"):
            assert length <= value.above(V) <= loosest
            assert dual <= value.dual_above(V) <= loosest


def test_bounds_hold_without_a_decomposition(monkeypatch):
    V = np.random.default_rng(6).standard_normal((3, 5))
    spectral, nuclear, steepest = Spectral()(V), Nuclear()(V), Spectral().steepest(V)

    def fail(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", fail)
    # The second algorithm of LAPACK is asked.
    assert Spectral()(V) == pytest.approx(spectral, rel=1e-14)
    np.testing.assert_allclose(Spectral().steepest(V), steepest, atol=1e-14)
    assert spectral <= Spectral().above(V) <= spectral * (1.0 + 1e-13)
    monkeypatch.setattr("scipy.linalg.svd", fail)
    assert norm(V) <= Spectral().above(V) <= norm(V) * (1.0 + 1e-14)
    assert nuclear <= Nuclear().above(V) <= math.sqrt(3.0) * norm(V) * (1.0 + 1e-14)
    with pytest.raises(np.linalg.LinAlgError):
        Spectral()(V)


@pytest.mark.parametrize("value", ALL, ids=str)
def test_a_bound_on_entries_bounds_the_dual_norm_whatever_the_signs(value):
    bounds = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.25]])
    for signs in product((-1.0, 0.0, 1.0), repeat=6):
        assert value.dual(bounds * np.reshape(signs, (2, 3))) <= value.dual_of_bounds(bounds)


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_of_a_product_has_the_digits_of_its_smallness(seed):
    """Products are within rounding of C, and the bound is the exact distance up to rounding of that."""
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((4, 3)))[0]
    B = np.linalg.qr(rng.standard_normal((60, 3)))[0].T
    C = A @ B
    a, b, c = ([[Fraction(x) for x in row] for row in M.tolist()] for M in (A, B.T, C))
    products = [[sum(x * y for x, y in zip(row, column, strict=True)) for column in b] for row in a]
    square = sum((c[i][j] - products[i][j]) ** 2 for i in range(4) for j in range(60))
    exact = math.sqrt(square)
    assert exact <= distance_above(C, A, B) <= exact * (1.0 + 1e-5)
    assert distance_above(C, 100.0 * A, B) == math.inf


def test_the_spectral_direction_of_a_matrix_of_low_rank_has_that_rank():
    a, b = np.array([1.0, -2.0, 2.0]) / 3.0, np.array([2.0, 3.0, 6.0, 0.0]) / 7.0
    for scale in (1e-300, 0.1, 1e300):
        direction = Spectral().steepest(scale * np.outer(a, b))
        np.testing.assert_allclose(direction, np.outer(a, b), atol=1e-14)
        assert np.linalg.matrix_rank(direction) == 1


@dataclass(frozen=True)
class Doubled(L1):
    """Twice the l1 norm: all that a new norm needs, besides its line in NORMS."""

    name = "doubled"

    def __call__(self, w):
        return 2.0 * super().__call__(w)


def test_a_new_norm_is_a_class_and_a_line(monkeypatch):
    monkeypatch.setitem(NORMS, "doubled", Doubled())
    assert as_norm("doubled") == Doubled() != L1()
    assert as_norm("doubled")(W) == 14.0
    assert Doubled().rescale(W, 7.0).tolist() == (W / 2.0).tolist()
