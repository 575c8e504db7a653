r"""Logarithms of losses: log L and its gradient, grad L / L, are accurate even if L is 1e-300 or 0.

A network with margins in the hundreds has a loss below the range of float32, and its gradient is exactly 0.
``log L`` stays an ordinary number, and its gradient is the normalized gradient of NGD and PRGD: train on
``log L`` with ``loss_scaled=False``, and the optimizer divides by nothing.
"""

import math
from typing import Any

import torch
from torch import Tensor


def log_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    r"""Return the logarithm of the mean cross-entropy.

    .. math:: \log \frac1n \sum_i \log\Bigl(1 + e^{u_i}\Bigr), \quad
        u_i = \log \sum_{j \ne y_i} e^{z_{ij} - z_{i y_i}}

    Parameters
    ----------
    logits : Tensor of shape (n, classes), at least two classes; 16-bit logits are converted to float32.
    target : Tensor of shape (n,), integers from 0 to classes - 1.

    Examples
    --------
    >>> logits = torch.tensor([[0.0, 800.0]], requires_grad=True)
    >>> loss = log_cross_entropy(logits, torch.tensor([1]))
    >>> loss.item()  # the loss itself is e^-800
    -800.0
    >>> torch.autograd.grad(loss, logits)[0].tolist()
    [[1.0, -1.0]]
    """
    if logits.ndim != 2 or logits.shape[1] < 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            "log_cross_entropy needs logits of shape (n, classes), with at least two classes, and a target "
            f"of shape (n,); got {tuple(logits.shape)} and {tuple(target.shape)}."
        )
    if target.is_floating_point() or target.dtype == torch.bool:
        raise TypeError(f"target must hold class numbers of an integer dtype; got {target.dtype}.")
    right = target.long().unsqueeze(1)
    differences = _wide(logits)
    differences = differences - differences.gather(1, right)
    others = differences.scatter(1, right, -math.inf)
    return _log_mean_exp(_log_softplus(torch.logsumexp(others, dim=1)))


def log_logistic_loss(margins: Tensor) -> Tensor:
    r"""Return the logarithm of the mean logistic loss, :math:`\log \frac1n \sum_i \log(1 + e^{-m_i})`.

    Parameters
    ----------
    margins : Tensor of any shape; ``y_i f(x_i)`` with labels -1 and 1.

    Examples
    --------
    >>> log_logistic_loss(torch.tensor([700.0, 700.0])).item()
    -700.0
    """
    return _log_mean_exp(_log_softplus(-_wide(margins).reshape(-1)))


def log_exponential_loss(margins: Tensor) -> Tensor:
    r"""Return the logarithm of the mean exponential loss, :math:`\log \frac1n \sum_i e^{-m_i}`.

    Parameters
    ----------
    margins : Tensor of any shape; ``y_i f(x_i)`` with labels -1 and 1.

    Examples
    --------
    >>> log_exponential_loss(torch.tensor([-800.0, -800.0])).item()
    800.0
    """
    return _log_mean_exp(-_wide(margins).reshape(-1))


def _log_softplus(u: Tensor) -> Tensor:
    result: Tensor = _LogSoftplus.apply(u)  # type: ignore[no-untyped-call]
    return result


class _LogSoftplus(torch.autograd.Function):
    """``log(log(1 + e^u))`` and its derivative ``sigmoid(u) / log(1 + e^u)``, for any u."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        # Below u = log(eps) the value is u to rounding, while e^u may underflow to 0.
        small = u < math.log(torch.finfo(u.dtype).eps)
        value = torch.where(small, u, torch.logaddexp(u, torch.zeros_like(u)).log())
        ctx.save_for_backward(u, value)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        u, value = ctx.saved_tensors
        return gradient * torch.exp(torch.nn.functional.logsigmoid(u) - value)


def _log_mean_exp(values: Tensor) -> Tensor:
    return torch.logsumexp(values, dim=0) - math.log(values.numel())


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
