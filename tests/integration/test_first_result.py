"""What a first fit has to import and compile: little, or a new user waits for it."""

import sys

import grid
import numpy as np
import pytest
import scipy.sparse as sp
from shared import python
from sklearn.datasets import load_breast_cancer, load_digits

import prgd
from prgd.rows import DenseRows, MarginsAt

KERNELS = ("_kernels", "_norm_kernels", "_accurate_kernels")
COMPILED = """
import numba, numpy as np, prgd
rng = np.random.default_rng(0)
prgd.run(prgd.Problem(rng.random((50, 3))), prgd.NGD(), stop=2)
from prgd.rows import _kernels
print(*sorted(n for n, f in vars(_kernels).items() if getattr(f, "signatures", None)))
"""


@pytest.fixture
def no_row_kernels(monkeypatch):
    """Let each import of a kernel over rows fail."""
    for name in KERNELS:
        monkeypatch.setitem(sys.modules, f"prgd.rows.{name}", None)
        monkeypatch.delattr(prgd.rows, name, raising=False)


@pytest.fixture(scope="module")
def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize(
    "convert",
    [np.asarray, np.asfortranarray, sp.csr_array, lambda X: X.astype(np.float32)],
    ids=["C", "F", "sparse", "float32"],
)
def test_a_fit_of_small_rows_compiles_no_kernel_over_rows(convert, breast_cancer, no_row_kernels):
    X, y = breast_cancer
    result = prgd.max_margin(convert(X), y)
    assert result.status is prgd.Status.CERTIFIED
    assert result.margin == pytest.approx(0.0013998468, rel=1e-3)


def test_a_fit_by_the_estimator_compiles_no_kernel_over_rows(breast_cancer, no_row_kernels):
    X, y = breast_cancer
    assert prgd.MaxMarginClassifier().fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_small_rows_and_kernels_certify_the_same_margin(kind, fit_intercept, tmp_path):
    X, target = load_digits(return_X_y=True)
    X, y = X[target < 2][:100], target[target < 2][:100]
    small, compiled = (
        prgd.max_margin(grid.ENGINES[name](X, y, None, tmp_path), fit_intercept=fit_intercept).certificate
        for name in (kind, f"{kind}-compiled")
    )
    assert small.upper == pytest.approx(compiled.upper, rel=1e-6)
    assert max(small.lower, compiled.lower) <= min(small.upper, compiled.upper)


def test_what_is_small_depends_on_the_number_of_entries_alone():
    from prgd.rows.arrays import SMALL_ENTRIES

    row = np.ones((1, SMALL_ENTRIES))
    large = np.ones((2, SMALL_ENTRIES // 2 + 1))
    assert DenseRows(row).is_small
    assert not DenseRows(large).is_small
    assert not DenseRows(np.asfortranarray(large)).is_small
    assert prgd.rows.SparseRows(sp.csr_array(row)).is_small
    assert not prgd.rows.SparseRows(sp.csr_array((SMALL_ENTRIES + 1, 3))).is_small  # rows without entries


def test_products_of_small_rows_do_not_depend_on_the_threads_of_blas():
    X = np.random.default_rng(0).standard_normal((40, 3000))
    rows, w = DenseRows(X), np.random.default_rng(1).standard_normal(3000)
    by_parts = [DenseRows(X[i : i + 1]).ask(MarginsAt(w))[0] for i in range(40)]
    np.testing.assert_array_equal(rows.ask(MarginsAt(w)), by_parts)


@pytest.mark.slow
def test_a_run_on_dense_rows_compiles_nothing_for_others(tmp_path):
    found = python("-c", COMPILED, env={"NUMBA_CACHE_DIR": str(tmp_path)}).stdout.split()
    assert {"tally_slices", "dense_margins", "dense_add", "absorb_plain"} <= set(found)
    assert not {"absorb", "_csr_margins", "log_value", "weighted_sum"} & set(found)
