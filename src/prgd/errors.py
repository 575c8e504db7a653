"""The library's own exceptions and warnings."""

from __future__ import annotations


class NotSeparableError(ValueError):
    """No hyperplane separates the two classes, where one is needed.

    Attributes
    ----------
    weights : ndarray or None
        Gordan's proof: weights p >= 0 of sum 1 with ``Z.T @ p = 0`` (to rounding), when known.
    """

    def __init__(self, message: str, weights: object = None) -> None:
        super().__init__(message)
        self.weights = weights


class ZeroRowWarning(UserWarning):
    """Some rows are zero: they have margin 0 for every w, so no margin through the origin exists."""
