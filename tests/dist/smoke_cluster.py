"""Extra cluster: rows on a Dask worker of this machine give the margin of rows in memory."""

import dask.array as da
import installed
import numpy as np
from distributed import Client

import prgd

if __name__ == "__main__":  # Workers are processes that import this file.
    installed.check("dask", "distributed")
    X, y = prgd.datasets.digits(0, 1)
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        rows = prgd.open_cluster(da.from_array(X, chunks=(100, -1)), y, client=client)
        far = prgd.max_margin(rows)
    near = prgd.max_margin(X, y)
    assert max(near.margin, far.margin) <= min(near.upper_bound, far.upper_bound)
    assert np.isclose(near.margin, far.margin, rtol=1e-5)
