"""Rows of torch tensors, on any device."""

from typing import Any

from prgd.rows.base import Rows, register


def _make(X: Any, y: Any, sample_weight: Any, n_jobs: int | None) -> Rows:
    from prgd.rows.gpu.tensor_rows import TensorRows  # imports torch

    if n_jobs is not None:
        raise ValueError("n_jobs is for arrays; tensors on the CPU take torch.set_num_threads.")
    return TensorRows(X, y, sample_weight)


register("torch", _make)
