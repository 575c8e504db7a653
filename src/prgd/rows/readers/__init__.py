"""Readers of files: LIBSVM, NPY and Parquet."""
