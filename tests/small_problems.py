"""Small problems of two classes: random ones with a hyperplane, and adversarial ones with ties and copies."""

from collections import Counter

import numpy as np
from adversarial import oracle

import prgd


def grid(rng, n, d):
    return rng.integers(-2, 3, (n, d)).astype(float), rng.integers(0, 2, n)


def ties(rng, n, d):
    X = rng.integers(0, 2, (n, d)).astype(float)
    return X, (X @ rng.integers(-2, 3, d) > 0).astype(int)


def duplicates(rng, n, d):
    X, y = grid(rng, n, d)
    X[: n // 2] = X[rng.integers(0, n, n // 2)]
    return X, y


def degenerate(rng, n, d):
    X = rng.integers(-3, 4, (n, d)).astype(float)
    w = rng.integers(-1, 2, d)
    y = (X @ w > 0).astype(int)
    X[:, 0] = X[:, -1] * 2.0  # a column that depends on another, and rows on a hyperplane
    return X, y


def one_hot(rng, n, d):
    X = np.eye(d + 1)[rng.integers(0, d + 1, n)]
    return X, (X @ rng.integers(-1, 2, d + 1) + rng.integers(-1, 1, n) >= 0).astype(int)


def near(rng, n, d, gap=1e-8):
    """Rows pushed to within ``gap`` of a hyperplane, on the right side or the wrong one."""
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = rng.integers(0, 2, n)
    target = np.where(rng.random(n) < 0.6, 0.0, np.abs(rng.standard_normal(n)))
    return X + np.outer((2 * y - 1) * (target + gap * rng.choice([-1, 1, 1, 1])) - X @ w, w), y


def nearer(rng, n, d):
    return near(rng, n, d, 1e-12)


def wild(rng, n, d):
    X, y = near(rng, n, d)
    return X * 10.0 ** rng.integers(-9, 10, d), y


def decimals(rng, n, d):
    X = np.round(rng.standard_normal((n, d)), 1)
    X[rng.integers(0, n)] = 0.0
    return X, (X @ rng.standard_normal(d) > 0.0).astype(int)


INTEGER = [grid, ties, duplicates, degenerate, one_hot]
FAMILIES = [*INTEGER, near, nearer, wild, decimals]


def problem(seed: int, min_rows=2, max_rows=14, max_columns=5):
    rng = np.random.default_rng(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    n, d = int(rng.integers(min_rows, max_rows)), int(rng.integers(1, max_columns + 1))
    X, y = family(rng, n, d)
    y[:2] = (0, 1) if y[:2].sum() != 1 else y[:2]
    return family, X, y, bool(seed // len(FAMILIES) % 2)


def verdicts_of(seeds, **sizes) -> Counter[str]:
    """Compare every verdict on these problems with the exact one, check its proof, and count the verdicts."""
    words: Counter[str] = Counter()
    for seed in seeds:
        family, X, y, fit_intercept = problem(seed, **sizes)
        found = prgd.separability(X, y, fit_intercept=fit_intercept)
        assert found.check(X, y), seed
        if found.verdict == "undecided":
            assert family not in INTEGER, seed
        else:
            assert found.verdict == oracle.solve(X, y, fit_intercept=fit_intercept).verdict, seed
        assert (found.dual_weights is None) == (found.verdict == "separable" or found.is_separable is None)
        words[found.verdict.value] += 1
    return words


def planted(n, d, push=0.0, seed=0, dtype=float):
    """Rows that a hyperplane separates, each moved away from it by ``push``."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0.0, 1, -1)
    return (X + push * y[:, None] * w).astype(dtype), y


def flipped(n, d, flips, seed=0, rare=0):
    """Rows separated but for some labels, and rare features of one or two rows of a class."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) > 0.0, 1, -1)
    y[rng.choice(n, flips, replace=False)] *= -1
    extra = np.zeros((n, rare))
    for j in range(rare):
        extra[rng.choice(np.flatnonzero(y == (-1) ** j), 1 + j % 2, replace=False), j] = 1.0 + j
    return np.hstack([X, extra]), y
