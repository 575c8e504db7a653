"""Batches of label sets: the answers of `max_margin`, each proven, on arrays and by the code of a device."""

from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from adversarial import oracle
from hypothesis import given, settings
from hypothesis import strategies as st

import prgd
from prgd import Status
from prgd.maxmargin import batch as batch_module
from prgd.maxmargin import batch_on_device
from prgd.rows import ChunkedRows, DenseRows

torch = pytest.importorskip("torch")


def on_device(X, y=None):
    """Return rows of a tensor that are solved by the code of a GPU."""
    from prgd.rows.gpu.tensor_rows import TensorRows

    rows = TensorRows(torch.as_tensor(np.array(X)), y)
    rows.is_on_device = True
    return rows


ENGINES = {"array": np.asarray, "tensor": lambda X: torch.as_tensor(np.array(X)), "device": on_device}


def label_sets(seed, n, d, count, *, left_out=0.2, noise=(), dtype=float):
    """Return rows and label sets of planted hyperplanes; those of ``noise`` are random instead."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -0.3).astype(dtype)
    Y = np.sign(X @ rng.standard_normal((d, count)) + 0.1)
    Y[:, list(noise)] = np.sign(rng.standard_normal((n, len(noise))))
    Y[rng.random(Y.shape) < left_out] = 0.0
    return X, Y


def alone(X, y, **options):
    """Return the answer of `max_margin` for the rows that a label set keeps."""
    kept = np.flatnonzero(y)
    return prgd.max_margin(X[kept], y[kept], **options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(60, 20), (90, 8), (40, 200)])
def test_agrees_with_max_margin_on_every_label_set(engine, fit_intercept, shape):
    X, Y = label_sets(3, *shape, 5, noise=[2])
    batch = prgd.max_margin_batch(ENGINES[engine](X), Y, fit_intercept=fit_intercept, tol=1e-7)
    for k, result in enumerate(batch):
        one = alone(X, Y[:, k], fit_intercept=fit_intercept, tol=1e-7)
        assert result.status is one.status
        assert result.margin <= one.upper_bound
        assert one.margin <= result.upper_bound
        if one.status is Status.CERTIFIED:
            cosine = result.coef @ one.coef / np.linalg.norm(result.coef) / np.linalg.norm(one.coef)
            assert cosine >= 2 * (1 - 1e-7) ** 2 - 1 - 1e-9  # both are within acos(1 - tol) of the solution
            kept = Y[:, k] != 0
            margins = Y[kept, k] * (X[kept] @ result.coef + result.intercept)
            assert margins.min() == pytest.approx(1.0, abs=1e-6)
        assert set(result.support.tolist()) <= set(np.flatnonzero(Y[:, k]).tolist())
    assert batch.check(X, Y).is_valid.all()


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(4, 30),
    d=st.integers(1, 8),
    count=st.integers(1, 4),
    engine=st.sampled_from(sorted(ENGINES)),
    fit_intercept=st.booleans(),
)
def test_bounds_hold_in_exact_arithmetic(seed, n, d, count, engine, fit_intercept):
    rng = np.random.default_rng(seed)
    X = rng.integers(-9, 10, (n, d)) / 4.0 + float(rng.integers(0, 2)) * 100.0
    X[:, 0] += 0.125  # no row is zero
    Y = rng.integers(-1, 2, (n, count))
    Y[0], Y[1] = 1, -1
    batch = prgd.max_margin_batch(ENGINES[engine](X), Y, fit_intercept=fit_intercept)
    for k, result in enumerate(batch):
        kept = np.flatnonzero(Y[:, k])
        exact = oracle.solve(X[kept], Y[kept, k], fit_intercept=fit_intercept)
        assert exact.verdict == oracle.VERDICTS.get(result.status.name, oracle.SEPARABLE)
        if exact.verdict == oracle.SEPARABLE:
            assert oracle.is_at_most(result.margin, exact.positive_square)
            assert oracle.is_at_least(result.upper_bound, exact.positive_square)
            assert result.gap <= 1e-6
        else:
            assert result.upper_bound == 0.0
    assert batch.check(X, Y).is_valid.all()


@pytest.mark.parametrize("engine", ENGINES)
def test_label_sets_that_do_not_separate_are_proven_and_the_others_certified(engine):
    X, Y = label_sets(5, 80, 10, 4, noise=[1, 3], left_out=0.0)
    X[0], Y[:, 2] = X[1], np.sign(X[:, 0] - X[0, 0])
    Y[0, 2], Y[1, 2] = 1, -1  # equal rows of both classes on the hyperplane that separates the others
    batch = prgd.max_margin_batch(ENGINES[engine](X), Y)
    names = [status.name for status in batch.status]
    assert names == ["CERTIFIED", "NOT_SEPARABLE", "QUASI_SEPARABLE", "NOT_SEPARABLE"]
    assert batch.gap[0] <= 1e-6
    assert np.isinf(batch.gap[1:]).all()
    assert (batch.upper_bound[1:] == 0.0).all()
    assert batch.check(X, Y).is_valid.all()


def test_sparse_rows_and_sparse_label_sets():
    rng = np.random.default_rng(0)
    X = sp.random_array((120, 400), density=0.1, rng=rng, format="csr")
    Y = np.sign(X @ rng.standard_normal((400, 3)))
    Y[X.sum(axis=1) == 0.0] = 0.0
    batch = prgd.max_margin_batch(X, sp.csr_array(Y), fit_intercept=False)
    dense = prgd.max_margin_batch(X.toarray(), Y, fit_intercept=False)
    assert (batch.gap <= 1e-6).all()
    np.testing.assert_allclose(batch.margin, dense.margin, rtol=2e-6)
    assert batch.check(X, Y).is_valid.all()


def test_coordinate_descent_on_sparse_rows_forms_no_gram_matrix(monkeypatch):
    monkeypatch.setattr(batch_module.SharedProducts, "of", lambda *_: pytest.fail("a Gram matrix was formed"))
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 600), density=0.03, rng=rng, format="csr")
    Y = np.where(X @ rng.standard_normal((600, 3)) > 0.0, 1, -1)
    Y[X.sum(axis=1) == 0.0] = 0
    batch = prgd.max_margin_batch(X, Y)
    assert (batch.gap <= 1e-6).all()
    assert batch.check(X, Y).is_valid.all()


def test_a_list_of_blocks_has_its_problems_in_order():
    (X, Y), (V, T) = label_sets(1, 50, 30, 3), label_sets(2, 70, 40, 2, dtype=np.float32)
    batch = prgd.max_margin_batch([X, V], [Y, T])
    assert batch.block.tolist() == [0, 0, 0, 1, 1]
    assert batch.column.tolist() == [0, 1, 2, 0, 1]
    assert batch.of_block(1).coef.shape == (2, 40)
    np.testing.assert_array_equal(batch.of_block(0).margin, prgd.max_margin_batch(X, Y).margin)
    assert batch.check([X, V], [Y, T]).is_valid.all()
    with pytest.raises(ValueError, match=r"different numbers of columns, \[30, 40\].*of_block"):
        _ = batch.coef
    assert batch.of_block(1).check([X, V], [Y, T]).is_valid.tolist() == [True, True]
    with pytest.raises(IndexError, match=r"one of \[0, 1\], the blocks of these results; got 2"):
        batch.of_block(2)


def test_one_y_serves_all_blocks():
    X, Y = label_sets(1, 50, 60, 3, left_out=0.0)
    batch = prgd.max_margin_batch([X, 2.0 * X], Y)
    np.testing.assert_allclose(batch.margin[3:], 2.0 * batch.margin[:3], rtol=2e-6)
    assert batch.coef.shape == (6, 60)
    assert batch.check((X, 2.0 * X), Y).is_valid.all()


def test_booleans_are_classes_and_leave_no_row_out():
    X, Y = label_sets(1, 50, 60, 3, left_out=0.0)
    batch = prgd.max_margin_batch(X, Y > 0)
    np.testing.assert_array_equal(batch.margin, prgd.max_margin_batch(X, Y).margin)
    pandas = pytest.importorskip("pandas")
    for booleans in ((Y > 0).tolist(), pandas.DataFrame(Y > 0), sp.csr_array(Y > 0)):
        np.testing.assert_array_equal(prgd.max_margin_batch(X, booleans).margin, batch.margin)
    tensors = prgd.max_margin_batch(torch.from_numpy(X), torch.from_numpy(Y > 0))
    np.testing.assert_allclose(tensors.margin, batch.margin, rtol=2e-6)


def test_zeros_are_a_class_if_no_label_is_negative():
    X, Y = label_sets(1, 50, 60, 3, left_out=0.0)
    batch = prgd.max_margin_batch(X, (Y > 0).astype(int))
    np.testing.assert_array_equal(batch.margin, prgd.max_margin_batch(X, Y > 0).margin)
    assert repr(batch) == "BatchResult(3 problems: 3 CERTIFIED; labels 0 and 1, both classes)"
    assert (batch[:1].score(X, (Y[:, :1] > 0).astype(int)) == 1.0).all()
    assert (batch.predict(X) == (Y > 0)).all()
    with pytest.raises(ValueError, match="all columns of the fit"):
        batch.score(X, Y[:, :2])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("shape", "offset", "C"), [((60, 90), 0.0, 0.3), ((80, 20), 1e6, 30.0), ((90, 8), 0.0, 1.0)]
)
def test_soft_margins_agree_with_those_of_single_label_sets(engine, fit_intercept, shape, offset, C):
    X, Y = label_sets(4, *shape, 4, noise=[2])
    X += offset * fit_intercept
    batch = prgd.max_margin_batch(ENGINES[engine](X), Y, C=C, fit_intercept=fit_intercept)
    assert (batch.status == Status.CERTIFIED).all()
    assert batch.check(X, Y).is_valid.all()
    for result, y in zip(batch, Y.T, strict=True):
        one = prgd.soft_margin(X[y != 0], y[y != 0], C=C, fit_intercept=fit_intercept)
        assert result.margin <= one.upper_bound
        assert one.margin <= result.upper_bound
        np.testing.assert_allclose(result.coef, one.coef, atol=2e-3 * np.abs(one.coef).max())


@pytest.mark.parametrize("shape", [(90, 120), (400, 6)])  # with a Gram matrix, and without
def test_folds_choose_a_price_for_each_label_set(shape):
    X, Y = label_sets(5, *shape, 3, left_out=0.1)
    noise = np.random.default_rng(0).random(Y.shape) < [0.0, 0.1, 0.45]
    batch = prgd.max_margin_batch(X, np.where(noise, -Y, Y), C="cv")
    assert (batch.status == Status.CERTIFIED).all()
    assert batch.C[0] > batch.C[2]  # labels of noise want a shorter w
    with pytest.raises(ValueError, match="C must be a positive number or 'cv'"):
        prgd.max_margin_batch(X, Y, C="best")


def test_results_predict_and_score():
    pandas = pytest.importorskip("pandas")
    X, Y = label_sets(6, 60, 8, 3)
    batch = prgd.max_margin_batch(X, Y)
    assert (batch.score(X, Y) == 1.0).all()
    np.testing.assert_allclose(batch.decision_function(X), X @ batch.coef.T + batch.intercept, rtol=1e-12)
    assert set(batch.predict(sp.csr_array(X)).ravel().tolist()) == {-1, 1}
    assert np.isnan(batch.score(X[:4], np.zeros((4, 3)))).all()
    layers = prgd.max_margin_batch([X, 2.0 * X[:, :7]], Y)
    np.testing.assert_array_equal(layers.score([X, 2.0 * X[:, :7]], Y)[:3], 1.0)
    frame, y = pandas.DataFrame(X, columns=list("abcdefgh")), np.where(Y[:, 0] > 0, "yes", "no")
    result = prgd.max_margin(frame, y)
    assert result.score(frame[list("hgfedcba")], y) == np.mean(result.predict(torch.tensor(X)) == y)
    joint = prgd.max_margin(X, np.arange(60) % 3, multi_class="joint")
    assert joint.decision_function(X).shape == (60, 3)
    assert set(joint.predict(X).tolist()) <= {0, 1, 2}
    with pytest.raises(ValueError, match=r"X must have 8 columns, as the data of the fit; got 7."):
        result.predict(X[:, :7])
    with pytest.raises(ValueError, match="row 1"):
        result.predict(np.where(np.arange(60)[:, None] == 1, np.nan, X))


def test_arrays_are_those_of_the_results_and_nothing_is_printed(capfd):
    X, Y = label_sets(4, 60, 20, 4, noise=[1])
    batch = prgd.max_margin_batch(X, Y)
    assert capfd.readouterr() == ("", "")
    assert len(batch) == len(list(batch)) == 4
    for name in ("coef", "intercept", "margin", "upper_bound", "gap", "status"):
        values = getattr(batch, name)
        for k, result in enumerate(batch):
            assert np.array_equal(values[k], getattr(result, name)), name
    assert (batch.cosine[batch.status == Status.CERTIFIED] >= 1 - 1e-6).all()
    assert batch[-1] is batch.results[3]
    assert batch[1:3].column.tolist() == [1, 2]
    assert "3 CERTIFIED" in repr(batch)
    left_out = abs(Y[:, 3])  # is 0 for rows that the label set leaves out
    assert batch[3].check(X, np.where(Y[:, 3] > 0, 1, -1), sample_weight=left_out).is_valid


def test_one_against_the_rest_is_a_batch(monkeypatch):
    from prgd.estimators import fitting

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 20)), np.repeat(["a", "b", "c"], 20)
    X[:, :3] += 4.0 * (y[:, None] == ["a", "b", "c"])
    one_by_one = prgd.MaxMarginClassifier(polish=False, tol=1e-9).fit(X, y)
    batch = Mock(wraps=prgd.max_margin_batch)
    monkeypatch.setattr(fitting, "max_margin_batch", batch)
    together = prgd.MaxMarginClassifier(tol=1e-9).fit(X, y)
    assert batch.call_count == 1
    np.testing.assert_allclose(together.margin_, one_by_one.margin_, rtol=1e-8)
    np.testing.assert_allclose(together.coef_, one_by_one.coef_, atol=1e-4)
    assert all(result.check(X, y == c).is_valid for c, result in zip("abc", together.results_, strict=True))


def test_a_check_finds_other_data():
    X, Y = label_sets(4, 60, 20, 3)
    batch = prgd.max_margin_batch(X, Y)
    other = X.copy()
    other[np.flatnonzero(Y[:, 1])[0]] *= -5.0
    assert not batch.check(other, Y).is_valid.all()
    assert "3 of 3 confirmed" in str(batch.check(X, Y))
    assert "2 of 2 confirmed" in str(batch[1:].check(X, Y))
    assert repr(batch[:0]) == "BatchResult(0 problems)"
    with pytest.raises(ValueError, match=r"column 2 in block 0; got \[2\] label sets in 1 block"):
        batch.check(X, Y[:, :2])
    with pytest.raises(ValueError, match=r"column 1 in block 0; got \[1\] label sets"):
        batch[1:2].check(X, Y[:, 1:2])


def test_a_check_takes_the_columns_of_each_block_by_their_names():
    pd = pytest.importorskip("pandas")
    X, Y = label_sets(4, 40, 3, 2)
    frames = [pd.DataFrame(X, columns=list("abc")), pd.DataFrame(-X, columns=list("xyz"))]
    batch = prgd.max_margin_batch(frames, Y)
    assert batch.check([frames[0][["c", "a", "b"]], frames[1][["z", "y", "x"]]], Y).is_valid.all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8])
def test_label_sets_may_be_tensors_of_any_type(dtype):
    X, Y = label_sets(4, 40, 20, 2)
    tensor = torch.as_tensor(np.array(Y)).to(dtype)
    if dtype.is_floating_point:
        tensor.requires_grad_()
    np.testing.assert_array_equal(prgd.max_margin_batch(X, tensor).coef, prgd.max_margin_batch(X, Y).coef)


def test_saves_and_loads(tmp_path):
    X, Y = label_sets(4, 60, 20, 3, noise=[2])
    batch = prgd.max_margin_batch([X, X], Y)
    batch.save(tmp_path / "batch.npz")
    loaded = prgd.BatchResult.load(tmp_path / "batch.npz")
    np.testing.assert_array_equal(loaded.coef, batch.coef)
    assert loaded.status.tolist() == batch.status.tolist()
    assert loaded.block.tolist() == batch.block.tolist()
    assert loaded.check([X, X], Y).is_valid.all()
    batch[0].save(tmp_path / "one.npz")
    with pytest.raises(ValueError, match="expected the results of a batch, got prgd-result-2"):
        prgd.BatchResult.load(tmp_path / "one.npz")
    (tmp_path / "broken.npz").write_bytes((tmp_path / "batch.npz").read_bytes()[:-200])
    with pytest.raises(ValueError, match="not a whole file of a batch"):
        prgd.BatchResult.load(tmp_path / "broken.npz")


def test_threads_and_working_sets_give_the_same_answers(monkeypatch):
    X, Y = label_sets(6, 80, 30, 5, noise=[2])
    batch = prgd.max_margin_batch(X, Y, n_jobs=1)
    threaded = prgd.max_margin_batch(X, Y, n_jobs=3)
    np.testing.assert_array_equal(threaded.coef, batch.coef)
    monkeypatch.setattr(batch_module, "_MAX_ROWS", 10)  # no Gram matrix fits
    looped = prgd.max_margin_batch(X, Y, n_jobs=2)
    assert looped.status.tolist() == batch.status.tolist()
    np.testing.assert_allclose(looped.margin, batch.margin, rtol=2e-6)


def test_sparse_rows_that_are_solved_one_by_one_may_be_spread_over_threads(monkeypatch):
    monkeypatch.setenv("PRGD_NUM_THREADS", "2")  # for the Gram matrix of each label set, too
    rng = np.random.default_rng(0)
    X = sp.random_array((1200, 40), density=0.05, rng=rng, format="csr")
    products = X @ rng.standard_normal((40, 4))
    Y = np.where(np.abs(products) > 0.15, np.sign(products), 0.0)
    batch = prgd.max_margin_batch(X, Y, n_jobs=2)
    np.testing.assert_allclose(prgd.max_margin_batch(X, Y, n_jobs=1).margin, batch.margin, rtol=2e-6)


def test_engines_are_taken_whatever_their_labels():
    X, Y = label_sets(6, 60, 30, 3)
    expected = prgd.max_margin_batch(X, Y)
    chunks = ChunkedRows.from_blocks([(X[:25], None), (X[25:], None)])
    for rows in (DenseRows(X, Y[:, 0] >= 0, n_jobs=2), chunks):
        np.testing.assert_allclose(prgd.max_margin_batch(rows, Y).margin, expected.margin, rtol=2e-6)


def test_a_thread_that_fails_ends_the_others(monkeypatch):
    X, Y = label_sets(6, 60, 30, 40)
    fail = Mock(side_effect=MemoryError("no room"))
    monkeypatch.setattr(batch_module.GramNewton, "minimise", fail)
    with pytest.raises(MemoryError, match="no room"):
        prgd.max_margin_batch(X, Y, n_jobs=2)
    assert fail.call_count <= 4


def test_parts_that_fit_the_memory_give_the_same_answers(monkeypatch):
    X, Y = label_sets(8, 60, 90, 7, noise=[3])
    batch = prgd.max_margin_batch(on_device(X), Y)
    monkeypatch.setattr(batch_on_device, "_DEFAULT_MEMORY", 2 * 2 * 6 * 8 * 60**2)
    assert [part.size for part in batch_on_device._parts(7, 60, torch.ones(1))] == [2, 2, 2, 1]
    parts = prgd.max_margin_batch(on_device(X), Y)
    np.testing.assert_allclose(parts.margin, batch.margin, rtol=2e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "d", "tol"), [(60, 90, 1e-6), (60, 90, 1e-4), (120, 40, 1e-4)])
def test_a_device_leaves_no_label_set_that_separates_to_the_host(monkeypatch, n, d, tol, fit_intercept):
    monkeypatch.setattr(batch_module, "_spread", lambda *_: pytest.fail("the host had to solve"))
    X, Y = label_sets(8, n, d, 7)
    batch = prgd.max_margin_batch(on_device(X), Y, tol=tol, fit_intercept=fit_intercept)
    assert (batch.gap <= tol).all()


def test_a_full_device_leaves_the_label_sets_to_max_margin(monkeypatch):
    X, Y = label_sets(8, 40, 60, 2)
    monkeypatch.setattr(batch_on_device, "maximise_margin", Mock(side_effect=MemoryError("full")))
    batch = prgd.max_margin_batch(on_device(X), Y, tol=1e-5)
    assert (batch.gap <= 1e-5).all()


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e9])
@pytest.mark.parametrize("scale", [1.0, 2.0**400, 2.0**-400])
@pytest.mark.parametrize("engine", ["array", "device"])
def test_rows_far_from_the_origin_and_of_extreme_units(engine, offset, scale):
    X, Y = label_sets(9, 40, 12, 3)
    X = (X + offset) * scale
    batch = prgd.max_margin_batch(ENGINES[engine](X), Y)
    assert (batch.status == Status.CERTIFIED).all()
    assert batch.check(X, Y).is_valid.all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda Y: np.where(np.arange(3) == 1, 1, Y), "Column 1 of Y must hold both classes, 1 and -1"),
        (lambda Y: np.where(np.arange(3) == 2, -abs(Y), Y), "Column 2 of Y .* it has 0 and -1 alone"),
        (lambda Y: np.where(np.arange(3) == 0, 0, Y), "Column 0 of Y .* it has 0 alone"),
        (lambda Y: np.where(np.arange(3) == 0, Y > 0, Y), "Column 0 .* 1 and 0 alone. .* booleans, or as 2"),
        (lambda Y: 2 * Y, "Y must hold 1, -1, and 0 .* column 0 has -?2.0 at row 0"),
        (lambda Y: np.where(Y == 0, np.nan, Y), r"Y must hold 1, -1, and 0 .* column \d has nan at row"),
        (lambda Y: Y[:-1], r"Y must hold a row for each of the 30 rows of X .* got shape \(29, 3\)"),
        (lambda Y: Y[:, 0], r"got shape \(30,\). Use Y\[:, None\] for one label set"),
        (lambda Y: Y[:, :0], r"got shape \(30, 0\)"),
    ],
)
def test_bad_label_sets_are_named(change, sentence):
    X, Y = label_sets(1, 30, 5, 3)
    Y[0, 0] = 1
    with pytest.raises(ValueError, match=sentence):
        prgd.max_margin_batch(X, change(Y))


def test_bad_lists_are_named():
    X, Y = label_sets(1, 30, 5, 3)
    bad, tensor, one_class = np.array(X), torch.as_tensor(X), np.where(np.arange(3) == 1, 1, Y)
    bad[4, 2] = np.nan
    for blocks, label_blocks, error, words in (
        ([X, X], [Y], ValueError, "X has 2 blocks of rows and Y has 1 of label sets"),
        ([X, X], [Y, one_class], ValueError, r"Column 1 of Y\[1\] must hold both classes"),
        ([X, X[:20]], [Y, Y], ValueError, r"Y\[1\] must hold a row for each of the 20 rows of X\[1\]"),
        ([], [], ValueError, "empty list"),
        (X, np.where(Y > 0, "a", "b"), TypeError, "Y must hold real numbers"),
        (bad, Y, ValueError, r"row 4.*column 2"),
        ([X, bad], Y, ValueError, r"X\[1\]: .*row 4.*column 2"),
        ([X, X[0]], Y, ValueError, r"X\[1\]: X must be a matrix"),
        # Every build of torch has the device meta.
        (tensor, tensor.to("meta"), ValueError, r"device of X, cpu; it is on meta. Use Y.to\('cpu'\)"),
    ):
        with pytest.raises(error, match=words):
            prgd.max_margin_batch(blocks, label_blocks)
    with pytest.raises(ValueError, match="tol must be a finite number above 0"):
        prgd.max_margin_batch(X, Y, tol=0.0)
