"""The normalized margin of a network over a data set, with its distribution."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prgd.core.types import Array
from prgd.deep.homogeneity import check_homogeneous, evaluation_mode


@dataclass(frozen=True, eq=False)
class Margins:
    r"""The margin ``f_y - max f_j`` of every example, with the norm and the degree that normalize margins.

    .. math:: m_i = f_{y_i}(x_i) - \max_{j \ne y_i} f_j(x_i), \qquad \bar\gamma = \min_i m_i / \|\theta\|^L

    Attributes
    ----------
    margins : ndarray of float64, shape (n,)
        Margins in the order of the data; a margin is negative if the prediction is wrong.
    norm : float
        l2 norm of the homogeneous parameters.
    degree : float
        Degree L of the network: margins grow as ``norm**L``.
    """

    margins: Array = field(repr=False)
    norm: float
    degree: float

    @property
    def normalized_margin(self) -> float:
        """The smallest margin divided by ``norm**degree``."""
        return float(self.normalized.min())

    @property
    def normalized(self) -> Array:
        """All margins divided by ``norm**degree``."""
        return normalize(self.margins, self.norm, self.degree)

    @property
    def accuracy(self) -> float:
        """The fraction of the examples whose margin is positive."""
        return float((self.margins > 0.0).mean())


def normalize(margins: Array, norm: float, degree: float) -> Array:
    """Return ``margins / norm**degree``, also if the power alone would overflow.

    Examples
    --------
    >>> print(f"{normalize(np.array([1e300]), 1e100, 4.0)[0]:.9e}")
    1.000000000e-100
    """
    margins = np.asarray(margins, dtype=np.float64)
    if not norm > 0.0:
        return np.full(margins.shape, math.nan)
    exponent = int(degree * math.log2(norm))
    rest = 2.0 ** (degree * math.log2(norm) - exponent)
    return np.asarray(np.ldexp(margins / rest, -exponent))


def example_margins(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``f_y - max_{j != y} f_j`` of each row.

    Examples
    --------
    >>> example_margins(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
    tensor([1.])
    """
    own = logits.gather(1, target[:, None])
    return own[:, 0] - logits.scatter(1, target[:, None], -math.inf).amax(dim=1)


def class_numbers(target: Tensor, logits: Tensor) -> Tensor:
    """Return labels as class numbers; labels -1 and 1 of two classes become 0 and 1.

    Examples
    --------
    >>> class_numbers(torch.tensor([-1.0, 1.0]), torch.zeros(2, 2))
    tensor([0, 1])
    """
    if logits.ndim != 2:
        raise ValueError(f"Expected one logit per class, shape (n, classes); got {tuple(logits.shape)}.")
    n, classes = logits.shape
    if target.numel() != n:
        raise ValueError(
            f"Expected {n} labels, class numbers with one per row of logits; got shape "
            f"{tuple(target.shape)}. One-hot labels become class numbers by argmax(dim=1)."
        )
    target = target.reshape(-1)
    numbers = torch.where(target == -1, 0, target).long() if classes == 2 else target.long()
    wrong = (numbers < 0) | (numbers >= classes) | ((numbers != target) & (target != -1))
    if bool(wrong.any()):
        raise ValueError(
            f"Labels must be class numbers from 0 to {classes - 1}, or -1 and 1 for two classes; got "
            f"{target[wrong][0].item()}. A network has one logit per class, here {classes}."
        )
    return numbers


def pairs(loader: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Return the batches of a loader, each a pair of inputs and labels."""
    for batch in loader:
        parts = batch if isinstance(batch, (tuple, list)) else [batch]
        if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
            raise TypeError(
                "The loader must give pairs (inputs, labels) of tensors; got "
                f"{' and '.join(type(part).__name__ for part in parts)}. A batch alone is [(X, y)]."
            )
        yield parts[0], parts[1]


def parameter_norm(parameters: Iterable[Tensor]) -> float:
    """Return the l2 norm of all parameters together, summed in float64."""
    squares = [parameter.detach().double().square().sum() for parameter in parameters]
    return float(torch.stack([square.to(squares[0].device) for square in squares]).sum().sqrt())


@torch.no_grad()
def normalized_margin(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    *,
    degree: float | None = None,
    parameters: Iterable[Tensor] | None = None,
) -> Margins:
    r"""Return the margins of all examples and the normalized margin of the network.

    .. math:: \bar\gamma(w) = \min_i \Bigl(f_{y_i}(x_i) - \max_{j \ne y_i} f_j(x_i)\Bigr) / \|w\|_2^L

    Parameters
    ----------
    model : nn.Module
        Network with one logit per class, evaluated in evaluation mode; its mode is restored.
    loader : iterable of (inputs, labels)
        Data set that is read once, with one batch in memory at a time; ``[(X, y)]`` for two tensors. Labels
        are class numbers, or -1 and 1 for two classes.
    degree : float, optional
        L; by default measured on the first batch, with a warning if the network is not homogeneous.
    parameters : iterable of Tensor, optional
        Parameters in the norm; all parameters by default.

    Returns
    -------
    Margins
        The normalized margin is its ``normalized_margin``.

    References
    ----------
    Lyu and Li (2020), equation (3).

    Examples
    --------
    >>> model = nn.Linear(2, 2, bias=False)
    >>> model.weight = nn.Parameter(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> batch = (torch.eye(2), torch.tensor([0, 1]))
    >>> round(normalized_margin(model, [batch]).normalized_margin, 3)
    0.6
    """
    first = next(model.parameters())
    parts = []
    with evaluation_mode(model):
        for inputs, target in pairs(loader):
            inputs, target = inputs.to(first.device), target.to(first.device)
            if degree is None:
                degree = check_homogeneous(model, inputs[:4]).degree
            logits = model(inputs).double()
            parts.append(example_margins(logits, class_numbers(target, logits)))
    if not parts or degree is None:
        raise ValueError("normalized_margin needs at least one batch; the loader was empty.")
    norm = parameter_norm(model.parameters() if parameters is None else parameters)
    return Margins(torch.cat(parts).cpu().numpy(), norm, degree)
