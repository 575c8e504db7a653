"""Engines: rows in arrays, files, on a device or a cluster, all asked through one interface.

An engine is one file or folder here. It registers itself with `register` when it is imported, and all of
them are imported with this package.
"""

from importlib import import_module
from pkgutil import iter_modules

from prgd.rows.arrays import DenseRows, SparseRows
from prgd.rows.base import LeafRows, Query, Rows, as_rows, register
from prgd.rows.blocks import Fingerprint, LargestRow, Measure
from prgd.rows.cluster.cluster_rows import ClusterRows
from prgd.rows.cluster.opening import open_cluster
from prgd.rows.joint_queries import JointAccurateAt, JointMarginsAt, JointSmallestAt, JointTallyAt
from prgd.rows.labels import Labels
from prgd.rows.out_of_core import ChunkedRows, open_rows
from prgd.rows.queries import AccurateAt, Combine, CurvatureAt, MarginsAt, SmallestAt, TallyAt

for _module in iter_modules(__path__):
    if not _module.name.startswith("_"):
        import_module(f"{__name__}.{_module.name}")

__all__ = [
    "AccurateAt",
    "ChunkedRows",
    "ClusterRows",
    "Combine",
    "CurvatureAt",
    "DenseRows",
    "Fingerprint",
    "JointAccurateAt",
    "JointMarginsAt",
    "JointSmallestAt",
    "JointTallyAt",
    "Labels",
    "LargestRow",
    "LeafRows",
    "MarginsAt",
    "Measure",
    "Query",
    "Rows",
    "SmallestAt",
    "SparseRows",
    "TallyAt",
    "as_rows",
    "open_cluster",
    "open_rows",
    "register",
]
