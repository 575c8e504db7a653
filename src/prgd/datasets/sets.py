"""The paper's data sets: the two-dimensional ones, where w_star = e_1, and those of scikit-learn's files."""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from prgd.core.types import Array
from prgd.datasets.base import Dataset

PAPER_GAMMA_STAR = math.sin(math.pi / 100)


def toy(gamma_star: float) -> Dataset:
    r"""Return Dataset 1: three points, two on one side and one on the other.

    .. math::
        z_1 = z_3 = (\gamma^\star, \sqrt{1 - \gamma^{\star 2}}), \quad
        z_2 = (\gamma^\star, -\sqrt{1 - \gamma^{\star 2}}), \quad z_i = y_i x_i

    Parameters
    ----------
    gamma_star : float
        The largest margin, strictly between 0 and 1.

    Returns
    -------
    Dataset
        Three rows of norm 1, with ``w_star = (1, 0)``.

    Raises
    ------
    ValueError
        If gamma_star is outside (0, 1).

    References
    ----------
    Dataset 1 (Section 4) of "Achieving Margin Maximization Exponentially Fast via
    Progressive Norm Rescaling".

    Examples
    --------
    >>> toy(0.6).X
    array([[ 0.6,  0.8],
           [ 0.6, -0.8],
           [-0.6, -0.8]])
    """
    _check_gamma_star(gamma_star)
    height = math.sqrt(1.0 - gamma_star**2)
    X = np.array([[gamma_star, height], [gamma_star, -height], [-gamma_star, -height]])
    return _labelled(X, "toy", gamma_star)


def synthetic_one(seed: int, n: int = 100, gamma_star: float = PAPER_GAMMA_STAR) -> Dataset:
    r"""Return appendix E.1's Dataset I: points uniform on the two arcs where ``|x_1| >= gamma_star``.

    The first two points are :math:`(\pm\gamma^\star, \sqrt{1 - \gamma^{\star 2}})` and fix the
    largest margin; the others are drawn by angle, the side first. Labels are the sign of x_1.

    Parameters
    ----------
    seed : int
        Seed of ``numpy.random.default_rng``.
    n : int
        Number of points, at least 2.
    gamma_star : float
        The largest margin, strictly between 0 and 1.

    Returns
    -------
    Dataset
        n rows of norm 1, with ``w_star = (1, 0)``.

    Raises
    ------
    ValueError
        If n is below 2 or gamma_star outside (0, 1).

    References
    ----------
    Appendix E.1 of the paper, Dataset I.

    Examples
    --------
    >>> synthetic_one(seed=0)
    Dataset('synthetic_one', 100 x 2, dense float64)
    """
    rng, side = _begin(seed, n, gamma_star)
    widest = math.acos(gamma_star)
    angle = rng.uniform(-widest, widest, size=n - 2)
    # cos(acos(gamma_star)) may round below gamma_star, which would spoil the exact margin.
    drawn = np.column_stack([side * np.maximum(np.cos(angle), gamma_star), np.sin(angle)])
    return _dataset("synthetic_one", gamma_star, drawn)


def synthetic_two(seed: int, n: int = 100, gamma_star: float = PAPER_GAMMA_STAR) -> Dataset:
    r"""Return appendix E.1's Dataset II: points uniform in the disk where ``|x_1| >= gamma_star``.

    The first two points are :math:`(\pm\gamma^\star, \sqrt{1 - \gamma^{\star 2}})` and fix the
    largest margin; the others are drawn by rejection from the box around one cap of the disk, which
    accepts at least 2/3 at any gamma_star, and sent to a random side. Labels are the sign of x_1.

    Parameters
    ----------
    seed, n, gamma_star
        As for `synthetic_one`.

    Returns
    -------
    Dataset
        n rows of norm at most 1, with ``w_star = (1, 0)``.

    References
    ----------
    Appendix E.1 of the paper, Dataset II.

    Examples
    --------
    >>> synthetic_two(seed=0).y[:2]
    array([ 1., -1.])
    """
    rng, side = _begin(seed, n, gamma_star)
    height = math.sqrt(1.0 - gamma_star**2)
    cap = np.empty((0, 2))
    while len(cap) < n - 2:
        box = rng.uniform([gamma_star, -height], [1.0, height], size=(n, 2))
        cap = np.vstack([cap, box[np.hypot(box[:, 0], box[:, 1]) <= 1.0]])
    return _dataset("synthetic_two", gamma_star, cap[: n - 2] * np.column_stack([side, np.ones(n - 2)]))


def _check_gamma_star(gamma_star: float) -> None:
    if not 0.0 < gamma_star < 1.0:
        raise ValueError(
            f"gamma_star must lie strictly between 0 and 1, since rows have norm at most 1; got"
            f" {gamma_star}. The paper's sets use sin(pi / 100)."
        )


def _begin(seed: int, n: int, gamma_star: float) -> tuple[np.random.Generator, Array]:
    """Return the generator and the sides of all points but the first two."""
    _check_gamma_star(gamma_star)
    if n < 2:
        raise ValueError(f"n must be at least 2, since the first two points are given; got {n}.")
    rng = np.random.default_rng(seed)
    return rng, rng.choice([-1.0, 1.0], size=n - 2)


def _dataset(name: str, gamma_star: float, drawn: Array) -> Dataset:
    """Return the drawn points after the two that fix the largest margin."""
    height = math.sqrt(1.0 - gamma_star**2)
    return _labelled(np.vstack([[[gamma_star, height], [-gamma_star, height]], drawn]), name, gamma_star)


def _labelled(X: Array, name: str, gamma_star: float) -> Dataset:
    return Dataset(X, np.sign(X[:, 0]), name, w_star=np.array([1.0, 0.0]), gamma_star=gamma_star)


def digits(a: int, b: int, n: int | None = None) -> Dataset:
    """Return scikit-learn's 8 x 8 images of the digits ``a`` and ``b``, in file order.

    Rows are divided by the largest norm among those selected, so that all norms are at most 1, as
    the paper assumes.

    Parameters
    ----------
    a, b : int
        Two different digits; ``a`` gets the label -1 and ``b`` +1.
    n : int, optional
        Keep the first n rows; by default all. The paper uses 300.

    Returns
    -------
    Dataset
        Rows of shape (n, 64).

    Raises
    ------
    ValueError
        If a and b are not two digits, or n exceeds the number of their rows.

    References
    ----------
    Section 7.1 of the paper, digit-01 and digit-04.

    Examples
    --------
    >>> digits(0, 1)
    Dataset('digit-01', 360 x 64, dense float64)
    """
    if a == b or a not in range(10) or b not in range(10):
        raise ValueError(f"digits needs two different digits from 0 to 9; got {a!r} and {b!r}.")
    X, target = _all_digits()
    selected = np.flatnonzero((target == a) | (target == b))
    if n is not None and not 2 <= n <= selected.size:
        raise ValueError(
            f"n must lie between 2 and {selected.size}, the rows of digits {a} and {b}; got {n}."
            " Leave it out for all of them."
        )
    selected = selected[:n]
    rows = X[selected]
    rows = rows / np.linalg.norm(rows, axis=1).max()
    return Dataset(rows, np.where(target[selected] == b, 1.0, -1.0), f"digit-{a}{b}")


def _all_digits() -> tuple[Array, Array]:
    """Return the rows and targets of scikit-learn's `load_digits`, from its file alone.

    Importing scikit-learn would take longer than all else that a first `prgd fit digits:0,1` does.
    """
    package: Any = find_spec("sklearn")
    table = np.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return table[:, :-1], table[:, -1]


def cancer() -> Dataset:
    """Return scikit-learn's breast cancer set with its raw features.

    The paper calls it non-separable. All 569 rows are in fact separable, even through the origin,
    but by a margin so small that few runs will find it.

    Returns
    -------
    Dataset
        Rows of shape (569, 30); the label is +1 for benign and -1 for malignant.

    References
    ----------
    Section 7.2 of the paper, Cancer.

    Examples
    --------
    >>> dataset = cancer()
    >>> int((dataset.y == 1).sum())
    357
    """
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = tuple(found.feature_names.tolist())
    return Dataset(found.data, np.where(found.target == 1, 1.0, -1.0), "cancer", feature_names=names)
