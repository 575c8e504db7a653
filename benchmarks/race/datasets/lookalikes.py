"""Generated sets with the shape of text, gene expressions, images and small tables."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmark_utils.shapes import BaseDataset


class Dataset(BaseDataset):
    name = "look-alikes"
    parameters = {"which": ["table", "genes", "text", "images"]}

    def get_data(self) -> dict[str, Any]:
        rng = np.random.default_rng(20240)
        X, y = globals()[self.which](rng)
        return {"X": X, "y": y}

    def fingerprint(self) -> str:
        return f"numpy-{np.__version__}"


def table(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Whole numbers from 0 to 15 in 16 columns, with a strip around a random plane left empty."""
    X = rng.integers(0, 16, (4000, 16)).astype(np.float64)
    height = (X - 7.5) @ rng.standard_normal(16) / 4.0
    far = np.flatnonzero(np.abs(height) > 1.0)[:1500]
    return X[far], np.sign(height[far])


def genes(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Few rows of many correlated columns, of which 50 tell the classes apart."""
    n, d = 72, 7000
    y = np.where(np.arange(n) < 47, 1.0, -1.0)
    X = rng.standard_normal((n, 20)) @ rng.standard_normal((20, d)) + 2.0 * rng.standard_normal((n, d))
    X[:, :50] += np.outer(y, rng.uniform(0.5, 1.5, 50))
    return X, y


def text(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Documents of about 80 words drawn by Zipf's law, weighted by tf-idf; topics shift some words."""
    n, d = 1500, 20_000
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    common = 1.0 / np.arange(3, d + 3)
    topic = rng.random(d) < 0.1
    tilt = np.where(topic, rng.choice([0.3, 3.0], d), 1.0)
    rows, columns = [], []
    for i in range(n):
        share = common * (tilt if y[i] > 0 else 1.0 / tilt)
        words = np.unique(rng.choice(d, rng.poisson(80) + 5, p=share / share.sum()))
        rows.append(np.full(words.size, i))
        columns.append(words)
    place = (np.concatenate(rows), np.concatenate(columns))
    X = sp.csr_array((np.ones(place[0].size), place), shape=(n, d))
    idf = np.log((1.0 + n) / (1.0 + np.bincount(X.indices, minlength=d))) + 1.0
    X = sp.csr_array(X @ sp.diags_array(idf))
    lengths = np.sqrt(X.multiply(X).sum(axis=1))
    return sp.csr_array(sp.diags_array(1.0 / lengths) @ X), y


def images(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Blurred strokes on 28 x 28 pixels, a ring or a bar, most pixels zero."""
    n, side = 5000, 28
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    v, u = np.mgrid[0:side, 0:side] - (side - 1) / 2.0
    X = np.empty((n, side * side))
    for i in range(n):
        a, b, turn = rng.uniform(5.0, 9.0), rng.uniform(4.0, 7.0), rng.uniform(-0.5, 0.5)
        x, z = np.cos(turn) * u - np.sin(turn) * v, np.sin(turn) * u + np.cos(turn) * v
        off = (
            np.abs(np.hypot(x / b, z / a) - 1.0) * b
            if y[i] > 0
            else np.hypot(x, np.maximum(np.abs(z) - a, 0.0))
        )
        ink = np.exp(-0.5 * (off / rng.uniform(0.9, 1.6)) ** 2) + 0.1 * rng.standard_normal(off.shape)
        X[i] = np.where(ink > 0.15, np.round(255.0 * np.clip(ink, 0.0, 1.0)), 0.0).ravel()
    return sp.csr_array(X), y
