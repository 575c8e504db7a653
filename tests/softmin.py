"""The exponential loss by NumPy alone: the weights of margins, and the logarithm of their sum."""

import numpy as np


def weights(margins: np.ndarray) -> np.ndarray:
    p = np.exp(margins.min() - margins)
    return p / p.sum()


def log_sum(margins: np.ndarray) -> float:
    return float(np.log(np.exp(margins.min() - margins).sum()) - margins.min())
