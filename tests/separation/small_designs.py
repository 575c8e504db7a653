"""Random regressions of few rows and columns of small integers, with all that makes coefficients special."""

from fractions import Fraction

import numpy as np
from separation.oracle import Design

KINDS = ("binomial", "counts", "multinomial", "poisson", "ordinal")
_TRIES = 50  # responses that are drawn for a model matrix before another matrix is drawn


def _factor(rng: np.random.Generator, n: int, levels: int, *, full: bool) -> np.ndarray:
    """Return the indicators of a factor, of which some levels may be empty."""
    level = rng.integers(levels, size=n)
    return (level[:, None] == np.arange(0 if full else 1, levels)).astype(int)


def _columns(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, str]:
    """Draw a model matrix of at most d columns, and say what it is made of."""
    kind = rng.choice(["integers", "binary", "factor", "full factor", "cells", "mixed"])
    high = int(rng.integers(1, 4))
    if kind == "factor":
        X = _factor(rng, n, d + 1, full=False)
    elif kind == "full factor":
        X = _factor(rng, n, d, full=True)
    elif kind == "cells":  # two factors and their interaction, in which cells may be empty
        a, b = _factor(rng, n, 2, full=False), _factor(rng, n, 2, full=False)
        X = np.hstack([a, b, a * b, rng.integers(-high, high + 1, (n, 1))])[:, :d]
    elif kind == "mixed":
        X = np.hstack([_factor(rng, n, 2, full=False), rng.integers(-high, high + 1, (n, d))])[:, :d]
    elif kind == "binary":
        X = rng.integers(0, 2, (n, d))
    else:
        X = rng.integers(-high, high + 1, (n, d))
    note = str(kind)
    for name, share in (("duplicate", 0.1), ("combination", 0.15), ("zero", 0.07), ("constant", 0.1)):
        if rng.random() < share:
            j = int(rng.integers(X.shape[1]))
            if name == "duplicate":
                new = X[:, int(rng.integers(X.shape[1]))] * int(rng.choice([1, 1, -1, 2]))
            elif name == "combination":
                new = X @ rng.integers(-1, 2, X.shape[1]) + int(rng.integers(-1, 2))
            else:
                new = np.full(n, 0 if name == "zero" else int(rng.choice([1, 2, -1])))
            X[:, j] = new
            note += f", {name} column"
    if rng.random() < 0.3:
        X[rng.integers(n, size=n // 2)] = X[rng.integers(n, size=n // 2)]
        note += ", duplicated rows"
    return X, note


def _score(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Return values along a random direction, so that responses that follow them are separated."""
    return X @ rng.integers(-2, 3, X.shape[1]) + int(rng.integers(-1, 2))


def _response(rng: np.random.Generator, kind: str, X: np.ndarray) -> tuple:
    """Draw a response: random, along a direction, or along it but for ties or one row."""
    n = len(X)
    score, follows = _score(rng, X), rng.random() < 0.6
    noise = rng.random(n) < (0.0 if rng.random() < 0.7 else 0.2)
    if kind in ("binomial", "counts"):
        up = np.where(score == 0, rng.integers(0, 2, n), score > 0) if follows else rng.integers(0, 2, n)
        up = np.where(noise, 1 - up, up)
        if kind == "binomial":
            return tuple(up.tolist())
        total, other = rng.integers(0, 4, n), rng.integers(0, 3, n) * (rng.random(n) < 0.25)
        pairs = np.where(up[:, None] == 1, np.stack([total, other], 1), np.stack([other, total], 1))
        return tuple((int(a), int(b)) for a, b in pairs)
    if kind == "poisson":
        zero = np.where(score == 0, rng.integers(0, 2, n), score < 0) if follows else rng.integers(0, 2, n)
        zero = np.where(noise, 1 - zero, zero)
        return tuple(np.where(zero == 1, 0, rng.integers(1, 4, n)).tolist())
    classes = int(rng.integers(3, 5))
    if not follows:
        return tuple(rng.integers(classes, size=n).tolist())
    if kind == "ordinal":
        label = np.digitize(score + rng.integers(0, 2, n) * noise, np.sort(rng.integers(-2, 4, classes - 1)))
    else:
        scores = np.stack([_score(rng, X) for _ in range(classes)], 1) + 0.5 * rng.random((n, classes))
        label = np.where(noise, rng.integers(classes, size=n), scores.argmax(axis=1))
    return tuple(label.tolist())


def _usable(kind: str, y: tuple, counted: np.ndarray) -> bool:
    """Say whether a response is one that a model can be asked about: more than one value counts."""
    seen = [y[i] for i in np.flatnonzero(counted)]
    if kind == "counts":
        return sum(a for a, _ in seen) > 0 and sum(b for _, b in seen) > 0
    if kind == "poisson":
        return any(seen)
    enough = len(set(seen)) >= (2 if kind == "binomial" else 3)
    return enough and set(seen) == set(y)


def design(seed: int, index: int) -> Design:
    """Return the random design of a number: the kinds of models take turns."""
    rng = np.random.default_rng([seed, index])
    kind = KINDS[index % len(KINDS)]
    while True:
        n = int(rng.integers(4, 11) if kind in ("multinomial", "ordinal") else rng.integers(3, 9))
        X, note = _columns(rng, n, int(rng.integers(1, 5)))
        fit_intercept = kind == "ordinal" or rng.random() < 0.85
        weight = rng.integers(0, 3, n) if rng.random() < 0.2 else None
        for _ in range(_TRIES):
            y = _response(rng, kind, X)
            if _usable(kind, y, np.ones(n, bool) if weight is None else weight > 0):
                return Design(
                    family="binomial" if kind == "counts" else kind,
                    X=tuple(map(tuple, X.tolist())),
                    y=y,
                    fit_intercept=bool(fit_intercept),
                    sample_weight=None if weight is None else tuple(weight.tolist()),
                    note=note,
                )


def hard_design(seed: int, index: int) -> Design:
    """Return a design of floating-point numbers on which rounding may mislead."""
    rng = np.random.default_rng([seed, index, 1])
    kind = KINDS[index % len(KINDS)]
    while True:
        n, d = int(rng.choice([8, 15, 30, 120], p=[0.3, 0.3, 0.3, 0.1])), int(rng.integers(1, 5))
        n = min(n, 30) if kind == "multinomial" else n
        X = rng.standard_normal((n, d))
        if rng.random() < 0.5:
            X[:, : (d + 1) // 2] = rng.integers(0, 2, (n, (d + 1) // 2))
        y = _response(rng, kind, X)
        note = "real"
        if rng.random() < 0.3:  # near 2^52, nanoseconds since 1970, subnormal numbers
            start, step = ((2.0**52, 1.0), (1.7e18, 256.0), (0.0, 5e-324))[int(rng.integers(3))]
            X[:, -1], note = start + step * rng.integers(-9, 10, n), "real, long numbers"
        if d > 1 and rng.random() < 0.3:  # a column that is nearly a combination of others
            X[:, -1] = X[:, :-1].sum(axis=1) + 10.0 ** rng.uniform(-15, -5) * rng.standard_normal(n)
            note += ", near copy"
        if rng.random() < 0.3:  # rows that are nearly others
            i, j = rng.integers(n, size=(2, n // 3))
            X[i] = X[j] * (1.0 + 10.0 ** rng.uniform(-15, -5) * rng.standard_normal((n // 3, 1)))
            note += ", near ties"
        if rng.random() < 0.3:
            X *= 10.0 ** rng.integers(-9, 10, d)
            note += ", scales"
        if rng.random() < 0.2:
            X += 10.0 ** rng.integers(3, 9)
            note += ", far from 0"
        if _usable(kind, y, np.ones(n, bool)):
            exact = tuple(tuple(Fraction(value) for value in row) for row in X.tolist())
            return Design("binomial" if kind == "counts" else kind, exact, y, note=note)
