"""GD and NGD as PyTorch optimizers around any base optimizer."""

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


class NGD(Wrapper):
    r"""Steps along the gradient divided by the loss.

    .. math:: g(t) = \nabla L(w(t)) / L(w(t))

    goes to the base optimizer in place of the gradient; with momentum, the momentum is that of g. After a
    warm-up, g is multiplied by the running loss at its end, so that divided steps begin with the length of
    plain steps.

    Parameters
    ----------
    params : parameters or parameter groups, a network, or a base optimizer such as `torch.optim.AdamW`.
    loss_scaled : bool
        Whether ``step`` divides the gradient by the loss. Pass False if the gradient is that of a
        `log_cross_entropy` or another log L, which is divided already.
    warm_up : int
        Number of plain steps at the beginning. (With ``loss_scaled=False``, train on ``log_loss.exp()`` while
        ``warming_up``.)
    **sgd : options of `torch.optim.SGD`
        The base that is made if parameters are given; the defaults are lr 1e-3 and momentum 0.9.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> w.grad = torch.tensor([2e-9])
    >>> optimizer = NGD([w], lr=0.25, momentum=0.0)
    >>> optimizer.step(loss=4e-9), w.item()
    (4e-09, 0.875)
    """

    def __init__(self, params: Params, *, loss_scaled: bool = True, warm_up: int = 0, **sgd: Any) -> None:
        super().__init__(params, loss_scaled=loss_scaled, warm_up=warm_up, **sgd)
