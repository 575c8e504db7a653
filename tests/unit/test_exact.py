"""The door of all input: what is taken exactly, and without a copy."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from prgd.rows.exact import as_float, check_exact

BIG = 2**53


@pytest.mark.parametrize(
    "X",
    [
        np.array([[BIG], [-BIG], [2**62], [1]]),
        np.array([[-(2**63)], [1], [0], [1]]),
        np.array([[2**63], [2**64 - 2**11], [0], [1]], np.uint64),
        np.array([[0.1], [0.2], [0.3], [0.4]], np.float32).astype(np.longdouble),
        np.array([[Fraction(1, 4)], [Decimal("0.5")], [True], [2**70]], object),
        [[2**70], [0.1], [True], [1e300]],
        pd.DataFrame({"a": pd.array([1, 2, 3, 2**60], dtype="Int64"), "b": [True, False, True, False]}),
        pl.DataFrame({"a": [1, 2, 3, 2**60], "b": [True, False, True, False]}),
    ],
)
def test_numbers_with_a_float64_are_taken_as_they_are(X):
    wanted = X.to_numpy(dtype=object) if isinstance(X, pd.DataFrame) else X
    wanted = [
        [float(x) for x in row]
        for row in (X.rows() if isinstance(X, pl.DataFrame) else np.array(wanted, object))
    ]
    found = as_float(X)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == np.float64
    check_exact(X)


def test_floats_are_not_copied_at_the_door():
    for X in (np.eye(3), np.eye(3, dtype=np.float32), np.asfortranarray(np.eye(3))):
        assert as_float(X) is X
