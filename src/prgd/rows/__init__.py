"""Engines: who computes a Tally. One protocol, one test suite."""

from prgd.rows.base import Measure, Rows
from prgd.rows.chunks import ChunkedRows, open_rows
from prgd.rows.dense import DenseRows
from prgd.rows.sparse import SparseRows

__all__ = ["ChunkedRows", "DenseRows", "Measure", "Rows", "SparseRows", "open_rows"]
