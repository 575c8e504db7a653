"""The solver in tensors, as on a GPU: the same moves on CPU tensors, against NumPy."""

from unittest.mock import Mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import prgd  # noqa: E402
from prgd.core.arithmetic import to_host  # noqa: E402
from prgd.maxmargin import hard  # noqa: E402
from prgd.rows.gpu.tensor_rows import TensorRows  # noqa: E402
from prgd.solvers.interior_point import maximise_margin  # noqa: E402
from prgd.solvers.linear_systems import Columns, Products, definite_solver, definite_solvers  # noqa: E402


def on_device(X, y, sample_weight=None) -> TensorRows:
    """Return rows whose solver computes in tensors, as it does on a GPU."""
    rows = TensorRows(X, y, sample_weight)
    rows.is_on_device = True
    return rows


@pytest.fixture
def never_on_the_host(monkeypatch):
    """Fail if a solve that begins on the device goes on on the host."""
    start = hard.HardMargin.choose_rows

    def choose_rows(method, w):
        is_host = not isinstance(method.place, hard.Device)
        assert not (is_host and method.problem.rows.is_on_device), "the moves were made on the host"
        start(method, w)

    monkeypatch.setattr(hard.HardMargin, "choose_rows", choose_rows)


def separable(n, d, dtype=torch.float64, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1)), rng.standard_normal(d)
    y = np.where(X @ w > 0.0, 1, -1)
    X += 0.05 * np.outer(y, w / np.linalg.norm(w)) + shift
    return torch.from_numpy(X).to(dtype), y


@pytest.mark.usefixtures("never_on_the_host")
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "dtype", "flips"),
    [
        (200, 10, torch.float64, 0),  # all rows at once, over the columns
        (150, 400, torch.float32, 0),  # all rows at once, over the rows
        (9000, 30, torch.bfloat16, 0),  # a working set
        (6000, 12, torch.float64, 0),
        (3000, 8, torch.float64, 30),
    ],
)
def test_the_answer_is_that_of_numpy(n, d, dtype, flips, fit_intercept):
    X, y = separable(n, d, dtype)
    y[:flips] *= -1
    found = prgd.max_margin(on_device(X, y), fit_intercept=fit_intercept)
    expected = prgd.max_margin(X.double().numpy(), y, fit_intercept=fit_intercept)
    assert found.status is expected.status is prgd.Status["NOT_SEPARABLE" if flips else "CERTIFIED"]
    assert flips or found.gap <= 1e-6
    assert found.margin <= expected.upper_bound
    assert expected.margin <= found.upper_bound
    assert found.check(X.double().numpy(), y).is_valid


def test_far_offsets_units_and_weights():
    X, y = separable(3000, 6, shift=1e7)
    assert prgd.max_margin(on_device(X, y)).status is prgd.Status.CERTIFIED
    X, y = separable(3000, 6)
    large = prgd.max_margin(on_device(X * 2.0**600, y))
    assert large.status is prgd.Status.CERTIFIED
    np.testing.assert_allclose(large.margin * 2.0**-600, prgd.max_margin(X.numpy(), y).margin, rtol=2e-6)
    weight = np.ones(3000)
    weight[prgd.max_margin(X.numpy(), y).support] = 0.0
    found = prgd.max_margin(on_device(X, y, weight))
    kept = weight > 0.0
    np.testing.assert_allclose(found.margin, prgd.max_margin(X.numpy()[kept], y[kept]).margin, rtol=2e-6)


def test_products_beyond_the_floating_range_give_no_warning():  # warnings are errors
    X = np.array(
        [[-1.0, 1e-162], [1.0, 3e-162], [2.0, 1e-162], [2.0, -3e-162], [1.0, 4e-162], [-1.0, 5e-163]]
    )
    tensors = torch.from_numpy(np.tile(X, (40, 1))), torch.from_numpy(np.tile([1, 1, 1, -1, 1, 1], 40))
    assert prgd.max_margin(*tensors).status is prgd.Status.CERTIFIED


def test_a_full_device_hands_over_to_the_host_and_other_errors_are_not_hidden(monkeypatch):
    rows = on_device(*separable(5000, 8))
    monkeypatch.setattr(rows, "gather", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory.")))
    assert prgd.max_margin(rows).status is prgd.Status.CERTIFIED
    monkeypatch.setattr(rows, "gather", Mock(side_effect=RuntimeError("an illegal memory access")))
    with pytest.raises(RuntimeError, match="illegal"):
        prgd.max_margin(rows)


def test_a_set_that_is_too_large_drops_idle_rows(monkeypatch):
    monkeypatch.setattr(hard, "_MAX_DEVICE_ROWS", 100)
    monkeypatch.setattr(hard, "_MAX_ROWS_AT_ONCE", 64)
    monkeypatch.setattr(hard, "_MAX_DEVICE_ENTRIES", 8 * 100)
    monkeypatch.setattr(hard.Device, "max_first_rows", 64)
    dropped, drop = [], hard.HardMargin._drop_idle_rows

    def count(method, *arguments):
        before = method.working.size
        drop(method, *arguments)
        dropped.append(before - method.working.size)

    monkeypatch.setattr(hard.HardMargin, "_drop_idle_rows", count)
    assert prgd.max_margin(on_device(*separable(20_000, 8))).status is prgd.Status.CERTIFIED
    assert sum(dropped) > 0


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_both_coordinates_lead_to_the_same_weights(fit_intercept, as_array):
    X, y = separable(60, 20, seed=3)
    Z = X.numpy() * y[:, None]
    size, signs = float(np.linalg.norm(Z, axis=1).max()), as_array(y.astype(float))
    columns, rows = (
        maximise_margin(at, signs, fit_intercept, as_array(start), 1e-9)
        for at, start in (
            (Columns(as_array(Z), size), Z.mean(axis=0)),
            (Products(as_array(Z @ Z.T), size), np.full(60, 1 / 60)),
        )
    )
    assert float(columns.gap) <= 1e-9
    assert float(rows.gap) <= 1e-9
    np.testing.assert_allclose(to_host(columns.p), to_host(rows.p), atol=1e-7)
    w, v = Z.T @ to_host(rows.x), to_host(columns.x)
    np.testing.assert_allclose(v / np.linalg.norm(v), w / np.linalg.norm(w), atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_batch_that_ended_problems_leave_is_solved_as_each_of_them(fit_intercept):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 90))
    Y = np.sign(rng.standard_normal((6, 40)))
    Y[2, :11] = 0.0  # rows that a problem leaves out
    Y[5] = -Y[4]
    size = float(np.linalg.norm(X, axis=1).max())
    at = Products(torch.from_numpy(X @ X.T), size, torch.from_numpy(Y))
    start = torch.from_numpy(np.abs(Y) / np.abs(Y).sum(axis=1, keepdims=True))
    found = maximise_margin(at, torch.from_numpy(Y), fit_intercept, start, 1e-8)
    for k, y in enumerate(Y):
        kept = y != 0.0
        expected = prgd.max_margin(X[kept], y[kept], fit_intercept=fit_intercept, tol=1e-8)
        assert float(found.gap[k]) <= 1e-8
        np.testing.assert_allclose(float(found.upper[k]) * size, expected.upper_bound, rtol=1e-7)
        assert not to_host(found.p[k])[~kept].any()


def test_a_problem_of_a_batch_that_vanishes_ends_alone():
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    Y = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0]], dtype=torch.float64)
    at = Products(torch.from_numpy(X @ X.T), 3.0, Y)
    found = maximise_margin(at, Y, False, torch.full((2, 4), 0.25, dtype=torch.float64), 1e-8)
    assert float(found.upper[0]) < 1e-6  # the first two rows are opposite
    assert float(found.gap[1]) <= 1e-8


def test_systems_of_both_namespaces():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 5, 5))
    H, b = A @ A.transpose(0, 2, 1) + np.eye(5), rng.standard_normal((3, 5))
    many = definite_solvers(torch.from_numpy(H))(torch.from_numpy(b))
    for k in range(3):
        expected = np.linalg.solve(H[k], b[k])
        np.testing.assert_allclose(definite_solver(torch.from_numpy(H[k]))(torch.from_numpy(b[k])), expected)
        np.testing.assert_allclose(many[k], expected)
    H[1] = -np.eye(5)
    with pytest.raises(np.linalg.LinAlgError, match="order 1 is not positive"):
        definite_solver(torch.from_numpy(H[1]))
    many = definite_solvers(torch.from_numpy(H))(torch.from_numpy(b))
    assert torch.isnan(many[1]).all()
    assert torch.isfinite(many[[0, 2]]).all()
    with pytest.raises(TypeError, match="NumPy takes one"):
        definite_solvers(H)
