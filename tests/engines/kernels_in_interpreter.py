"""Run by test_tensor_rows.py with TRITON_INTERPRET=1, which must be set before Triton is imported.

Prints one line a case: its name and the largest relative error of a pass and of the margins.
"""

from dataclasses import replace

import numpy as np
import torch

from prgd.losses import LOSSES
from prgd.rows import MarginsAt, TallyAt
from prgd.rows.gpu.tensor_rows import TensorRows


def oracle(Z, s, w, loss):
    m = Z @ w
    log_slope = -m if loss == "exponential" else -np.logaddexp(0.0, m)
    with np.errstate(divide="ignore"):  # of rows that do not matter
        log_value = -m if loss == "exponential" else np.log(np.logaddexp(0.0, -m))
    used = s > 0
    p = s * np.exp(log_slope - log_slope[used].max())
    top = log_value[used].max()
    return float(np.log((s * np.exp(log_value - top)).sum()) + top), p @ Z / p.sum(), m[used].min()


def largest_error(X, y=None, s=None, *, loss="exponential", by_class=False, scale=1.0, **plan):
    """Return the largest error of all numbers of a pass; NaN where one is."""
    n, d = X.shape
    signs = np.ones(n) if y is None else y
    Z = X.double().numpy() * signs[:, None]
    rows = TensorRows(X, y, s)
    kernels = rows._kernels_of(rows.labels)
    if "count" in plan:  # more programs than there are tiles: some have no rows
        count = plan.pop("count")
        kernels.programs = lambda _: count
    kernels.plan = replace(kernels.plan, **plan)
    w = scale * np.random.default_rng(d).standard_normal(d) / np.sqrt(d)
    size = np.linalg.norm(w) * np.linalg.norm(Z, axis=1).max()
    groups = [signs > 0, signs < 0] if by_class else [signs != 0]
    found = [np.abs(rows.ask(MarginsAt(w)) - Z @ w).max() / size]
    v = np.random.default_rng(d + 1).standard_normal(d)
    both = rows.ask(TallyAt(w, LOSSES[loss], by_class, second=v))
    for tally in (rows.ask(TallyAt(w, LOSSES[loss], by_class)), both):
        for g, group in enumerate(groups):
            weights = group * (np.ones(n) if s is None else s)
            log_sum, u, margin = oracle(Z, weights, w, loss)
            found.append(abs(tally.log_sums[g] - log_sum) / max(1.0, abs(log_sum)))
            found.append(np.linalg.norm(tally.mean_rows[g] - u) / np.linalg.norm(u))
            found.append(abs(tally.margins[g] - margin) / size)
            second = (Z @ v)[weights > 0].min() * np.linalg.norm(w) / np.linalg.norm(v)
            found.append(abs(both.second_margins[g] * np.linalg.norm(w) / np.linalg.norm(v) - second) / size)
    return float(np.max(found))  # keeps a NaN


def overflow_error(X, y):
    """Return 0 if a margin along v that leaves float32, or is NaN, counts as -inf, beside the right Tally."""
    v, w = np.full(X.shape[1], 1e39), np.ones(X.shape[1])
    X[0] = 0.0  # 0 times infinity
    rows = TensorRows(X, y)
    with np.errstate(over="ignore", invalid="ignore"):
        tally, both = (rows.ask(TallyAt(w, LOSSES["exponential"], True, second=u)) for u in (None, v))
    np.testing.assert_allclose(both.scalars[:, :-1], tally.scalars, rtol=1e-6)
    return 0.0 if both.second_margins == [-np.inf, -np.inf] else np.nan


def main():
    rng = np.random.default_rng(0)

    def draw(n, d, dtype=torch.float32):
        return torch.from_numpy(rng.standard_normal((n, d))).to(dtype)

    def labels(n):
        return np.where(np.arange(n) % 3 == 0, 1, -1)

    weights = rng.integers(0, 3, 150).astype(float)
    cases = {
        "below one tile": largest_error(draw(5, 3), labels(5)),
        "one row z": largest_error(draw(1, 3)),
        "empty programs": largest_error(draw(150, 5), labels(150), count=7),
        "weights that underflow": largest_error(draw(150, 5), labels(150), scale=1e4),
        "weighted logistic by class": largest_error(
            draw(150, 6), labels(150), weights, loss="logistic", by_class=True
        ),
        "logistic that underflows": largest_error(draw(150, 6), labels(150), loss="logistic", scale=1e4),
        "double by class": largest_error(draw(70, 9, torch.float64), labels(70), by_class=True),
        "by class, few rows of one": largest_error(
            draw(150, 5), np.where(np.arange(150) < 3, 1, -1), by_class=True
        ),
        "many tiles, weighted by class": largest_error(
            draw(250, 6), labels(250), np.tile(weights, 2)[:250], by_class=True, slots=8
        ),
        "bfloat16 in pairs": largest_error(draw(150, 10, torch.bfloat16), labels(150)),
        "bfloat16, odd columns": largest_error(draw(40, 9, torch.bfloat16), labels(40)),
        "bfloat16, wide": largest_error(draw(4, 520, torch.bfloat16), labels(4)),
        "float16": largest_error(draw(40, 8, torch.float16), labels(40)),
        "rows of a wider table": largest_error(draw(40, 12)[:, 3:8], labels(40)),
        "more columns than a warp holds": largest_error(draw(2, 1030), labels(2)),
        "overflow along a second direction": overflow_error(draw(40, 5).abs(), labels(40)),
    }
    for name, error in cases.items():
        print(f"{name}: {error:.3e}")


if __name__ == "__main__":
    main()
