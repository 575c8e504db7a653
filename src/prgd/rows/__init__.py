"""Engines: who computes a Tally. One protocol, one test suite."""

from prgd.rows.base import Measure, Rows
from prgd.rows.cluster.cluster_rows import ClusterRows
from prgd.rows.cluster.opening import open_cluster
from prgd.rows.dense import DenseRows
from prgd.rows.out_of_core import ChunkedRows, open_rows
from prgd.rows.sparse import SparseRows

__all__ = [
    "ChunkedRows",
    "ClusterRows",
    "DenseRows",
    "Measure",
    "Rows",
    "SparseRows",
    "open_cluster",
    "open_rows",
]
