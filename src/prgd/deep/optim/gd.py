"""GD as a PyTorch optimizer around any base optimizer."""

from __future__ import annotations

from typing import Any

from prgd.deep.optim.wrapper import Params, Wrapper


class GD(Wrapper):
    """Plain steps of the base optimizer; a step with a non-finite loss or gradient is skipped and counted.

    Parameters
    ----------
    params : parameters or parameter groups, or a base optimizer such as `torch.optim.AdamW`.
    **sgd : options of `torch.optim.SGD`
        The base that is made if parameters are given; the defaults are lr 1e-3 and momentum 0.9.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> w.grad = torch.tensor([2.0])
    >>> optimizer = GD([w], lr=0.25, momentum=0.0)
    >>> optimizer.step()
    >>> w.item()
    0.5
    """

    def __init__(self, params: Params, **sgd: Any) -> None:
        super().__init__(params, loss_scaled=False, warm_up=0, **sgd)
