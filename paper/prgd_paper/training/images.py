"""Labelled sets of pictures in memory, and a synthetic set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Statistics = tuple[Array, Array]  # mean and standard deviation of each channel


@dataclass(frozen=True, eq=False)
class Images:
    """Training and test pictures as bytes, with labels from 0 to ``classes - 1``.

    Attributes
    ----------
    name : str
    train, test : ndarray of uint8, shape (n, channels, height, width)
    train_labels, test_labels : ndarray of int64, shape (n,)
    classes : int

    Raises
    ------
    ValueError
        If shapes, dtypes or labels do not fit each other.
    """

    name: str
    train: Array
    train_labels: Array
    test: Array
    test_labels: Array
    classes: int = 10

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            pictures, labels = getattr(self, part), getattr(self, f"{part}_labels")
            if pictures.dtype != np.uint8 or pictures.ndim != 4:
                raise ValueError(
                    f"{part} images must be uint8 of shape (n, channels, height, width); "
                    f"got {pictures.dtype} of shape {pictures.shape}."
                )
            if labels.shape != pictures.shape[:1] or not labels.size:
                raise ValueError(
                    f"Expected one {part} label an image; got {labels.shape} for {len(pictures)} images."
                )
            if labels.min() < 0 or labels.max() >= self.classes:
                raise ValueError(
                    f"{part} labels must lie between 0 and {self.classes - 1}; "
                    f"got {labels.min()} to {labels.max()}."
                )
        if self.train.shape[1:] != self.test.shape[1:]:
            raise ValueError(
                f"Training and test images differ in shape: {self.train.shape[1:]} and {self.test.shape[1:]}."
            )

    def __repr__(self) -> str:
        channels, height, width = self.shape
        size = f"{len(self.train):,} + {len(self.test):,} of {channels} x {height} x {width}"
        return f"Images({self.name!r}, {size}, {self.classes} classes)"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.shape[1:]
        return int(channels), int(height), int(width)

    @cached_property
    def channel_statistics(self) -> Statistics:
        """Mean and standard deviation of each channel over the training set, for pixels from 0 to 1.

        They are computed from counts of the 256 values, without a sum of 150 million floats.
        """
        counts = [np.bincount(channel.ravel(), minlength=256) for channel in self.train.swapaxes(0, 1)]
        values = np.arange(256) / 255.0
        mean = np.array([count @ values / count.sum() for count in counts])
        square = np.array([count @ values**2 / count.sum() for count in counts])
        return mean, np.sqrt(square - mean**2)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all images and labels."""
        found = hashlib.blake2b(digest_size=16)
        for part in (self.train, self.train_labels, self.test, self.test_labels):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).data)
        return found.hexdigest()

    @lru_cache(maxsize=2)  # noqa: B019 - sets live as long as the program
    def with_validation(self, fraction: float, seed: int = 0) -> Images:
        """Return the images with a random part of the training set in place of the test set.

        Parameters
        ----------
        fraction : float
            Part of the training set that is held out, e.g. 0.1.
        seed : int
            Seed of the split.

        Examples
        --------
        >>> synthetic(100).with_validation(0.1)
        Images('synthetic, validation', 90 + 10 of 3 x 16 x 16, 10 classes)
        """
        held_out = round(fraction * len(self.train))
        if not 0 < held_out < len(self.train):
            raise ValueError(
                f"The validation part must hold some training images, not all; got {fraction!r} of "
                f"{len(self.train)}."
            )
        order = np.random.default_rng(seed).permutation(len(self.train))
        rest, part = np.sort(order[held_out:]), np.sort(order[:held_out])
        return replace(
            self,
            name=f"{self.name}, validation",
            train=self.train[rest],
            train_labels=self.train_labels[rest],
            test=self.train[part],
            test_labels=self.train_labels[part],
        )


def synthetic(n: int = 2000, size: int = 16, classes: int = 10, seed: int = 0) -> Images:
    """Return pictures of smooth random patterns with noise, one pattern a class; the set is separable.

    Parameters
    ----------
    n : int
        Number of training images; the number of test images is a fifth of it.
    size : int
        Height and width in pixels.
    classes, seed : int

    Examples
    --------
    >>> synthetic(50, size=8)
    Images('synthetic', 50 + 10 of 3 x 8 x 8, 10 classes)
    """
    random = np.random.default_rng(seed)
    coarse = random.normal(size=(classes, 3, 4, 4))
    repeats = -(-size // 4)
    patterns = coarse.repeat(repeats, axis=2).repeat(repeats, axis=3)[:, :, :size, :size]
    total = n + max(1, n // 5)
    labels = np.arange(total) % classes
    random.shuffle(labels)
    strength = random.uniform(0.6, 1.4, size=(total, 1, 1, 1))
    pictures = 128.0 + 32.0 * (0.5 * strength * patterns[labels] + random.normal(size=(total, 3, size, size)))
    pictures = np.clip(pictures, 0, 255).astype(np.uint8)
    return Images("synthetic", pictures[:n], labels[:n], pictures[n:], labels[n:], classes)
