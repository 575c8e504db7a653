"""Rows on a Dask cluster."""
