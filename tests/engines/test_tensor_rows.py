"""Rows of torch tensors: kernels in Triton's interpreter, NumPy and torch alone, plans, and bad input."""

from unittest.mock import Mock

import grid
import numpy as np
import pytest
import torch
from triton_interpreter import errors_in_interpreter

import prgd
from prgd.losses import EXPONENTIAL
from prgd.rows import Combine, DenseRows, MarginsAt, Measure, SmallestAt, TallyAt
from prgd.rows.gpu import tensors as _tensors
from prgd.rows.gpu.launch import LaunchPlan, choose_plan
from prgd.rows.gpu.tensor_rows import TensorRows
from prgd.rows.joint_queries import JointTallyAt
from prgd.solvers.working_set import WorkingSet

META = torch.empty(2, device="meta")


@pytest.mark.slow
def test_kernels_in_the_interpreter():
    cases = errors_in_interpreter("engines/kernels_in_interpreter.py")
    assert len(cases) == 16
    for name, error in cases.items():
        assert error <= (1e-14 if name.startswith("double") else 1e-6), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_precision_of_sums_in_kernels(dtype, monkeypatch):
    pytest.importorskip("triton", reason="Triton is for Linux")
    X = torch.ones((10_000, 4), dtype=dtype)
    assert TensorRows(X).unit_roundoff == 2.0**-53
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    rows = TensorRows(X)
    assert rows.unit_roundoff == (2.0**-53 if dtype == torch.float64 else 2.0**-24)
    assert 8 < rows.sum_roundings < 1000  # programs and their slots share the rows


@pytest.mark.parametrize(
    ("d", "options", "plan"),
    [
        (64, {}, LaunchPlan(4, 32, 16, 4, 3)),
        (512, {"in_pairs": True}, LaunchPlan(4, 4, 128, 4, 3)),
        (1024, {}, LaunchPlan(4, 4, 128, 4, 2)),
        (4096, {}, LaunchPlan(4, 1, 512, 4, 2)),
        (4096, {"in_pairs": True}, LaunchPlan(2, 1, 512, 4, 2, stages=4)),
        (8192, {"in_pairs": True}, LaunchPlan(2, 1, 1024, 8, 1, stages=4)),
        (256, {"wide": True}, LaunchPlan(2, 8, 64, 4, 4)),
        (1024, {"wide": True}, LaunchPlan(2, 4, 128, 4, 2)),
        (4096, {"wide": True}, LaunchPlan(2, 1, 1024, 8, 2)),
        (1024, {"wide": True, "load_bytes": 8}, LaunchPlan(2, 2, 128, 4, 2)),
        (8192, {"wide": True, "load_bytes": 8}, LaunchPlan(1, 1, 512, 8, 1)),
    ],
)
def test_plans_as_measured(d, options, plan):
    assert choose_plan(d, vector_bytes=16, **{"load_bytes": 4, **options}) == plan


@pytest.mark.parametrize(("load_bytes", "in_pairs"), [(2, False), (4, False), (4, True), (8, False)])
@pytest.mark.parametrize("vector_bytes", [2, 4, 8, 16])
@pytest.mark.parametrize("wide", [False, True])
def test_plans_for_any_width(load_bytes, in_pairs, vector_bytes, wide):
    for d in [*range(1, 600), *range(600, 8193, 37), 8192]:
        plan = choose_plan(d, load_bytes, max(vector_bytes, load_bytes), in_pairs=in_pairs, wide=wide)
        sizes = (plan.steps, plan.slots, plan.width, plan.warps)  # Triton takes powers of two
        assert all(size & (size - 1) == 0 and size > 0 for size in sizes)
        assert plan.warps <= 16
        lanes = 32 * plan.warps // plan.slots
        assert -(-d // lanes) <= 32  # numbers that a thread holds


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("layout", ["strided", "csr"])
def test_joint_tallies_by_products(layout, by_class):
    rng = np.random.default_rng(3)
    X = torch.from_numpy(rng.standard_normal((60, 4)))
    y, s, w = np.arange(60) % 3, rng.integers(0, 3, 60).astype(float), rng.standard_normal((3, 4))
    rows = TensorRows(X.to_sparse_csr() if layout == "csr" else X, y, s)
    rows._step = 25  # several parts
    query = JointTallyAt(w, EXPONENTIAL, by_class)
    found, expected = rows.ask(query), DenseRows(X.numpy(), y, s).ask(query)
    np.testing.assert_allclose(found.log_sums, expected.log_sums, rtol=1e-13)
    np.testing.assert_allclose(found.scalars[:, 4:], expected.scalars[:, 4:], rtol=1e-13)
    some = expected.scalars[:, 3] > 0.0
    means, exact = (tally.vector[some] / tally.scalars[some, 3:4] for tally in (found, expected))
    np.testing.assert_allclose(means, exact, rtol=1e-12, atol=1e-14)


def test_a_csr_tensor_is_solved_like_its_table(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 30)) * (rng.random((200, 30)) < 0.1)
    y = np.where(X @ rng.standard_normal(30) > 0, 1, -1)
    X[:, 0] += y
    rows = grid.ENGINES["tensor-csr"](X, y, None, tmp_path)
    result, expected = prgd.max_margin(rows, tol=1e-9), prgd.max_margin(X, y, tol=1e-9)
    assert result.margin == pytest.approx(expected.margin, rel=1e-8)
    working = WorkingSet(prgd.Problem(rows, fit_intercept=True))
    working.add(np.array([3, 5, 8]))
    np.testing.assert_array_equal(working.rows_of(np.arange(3)), (y[:, None] * X)[[3, 5, 8]])


# What is refused


@pytest.mark.parametrize(
    "ask",
    [
        lambda rows: rows.ask(TallyAt(np.ones(3), EXPONENTIAL)),
        lambda rows: rows.ask(MarginsAt(np.ones(3))),
        lambda rows: rows.ask(SmallestAt(np.ones(3), 1, False, np.empty(0, np.int64))),
        lambda rows: rows.ask(Combine.of(np.ones(3))),
        lambda rows: rows.ask(Measure()),
        lambda rows: rows.take(np.array([1])),
    ],
)
def test_a_full_device_says_how_many_rows_fit(ask, monkeypatch):
    rows = TensorRows(torch.eye(3), [1, -1, 1])
    for name in ("blocks", "_send", "_products"):
        monkeypatch.setattr(rows, name, Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory.")))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0, 60_000))
    with pytest.raises(MemoryError, match=r"hold about 900 such rows.*bfloat16.*open_rows"):
        ask(rows)


@pytest.mark.parametrize(
    ("X", "y", "device", "error", "words"),
    [
        (np.eye(2), [1, -1], "cuda", ValueError, "finds no CUDA device"),
        (torch.eye(2).to_sparse_coo(), [1, -1], None, TypeError, "to_sparse_csr"),
        (torch.eye(2, dtype=torch.complex64), [1, -1], None, TypeError, "real numbers"),
        (torch.eye(2), [1, -1, 1], None, ValueError, "one label for each"),
        (torch.eye(2), torch.ones(2), None, ValueError, "two classes"),
        (torch.eye(2), META, None, ValueError, r"on the device of X, cpu; it is on meta. Use y.to\('cpu'\)"),
    ],
)
def test_tensors_and_devices_of_another_kind(X, y, device, error, words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(error, match=words):
        TensorRows(X, y, **({} if device is None else {"device": device}))
    with pytest.raises(ValueError, match="set_num_threads"):
        prgd.Problem(torch.eye(2), [1, -1], n_jobs=2)


def test_numbers_that_are_no_floats_are_widened():
    rows = TensorRows(torch.tensor([[1, 2], [3, 4]]), ["no", "yes"])
    assert repr(rows) == "TensorRows(2 x 2 torch.float64 on cpu)"
    np.testing.assert_array_equal(rows.ask(MarginsAt(np.array([1.0, 0.0]))), [-1.0, 3.0])
    frozen = np.eye(2)
    frozen.flags.writeable = False
    assert _tensors.as_tensor(frozen, "cpu").dtype == torch.float64
