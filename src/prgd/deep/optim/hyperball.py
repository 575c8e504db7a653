"""PRGDSGD and PRGDAdamW: relative steps, by flat arguments as in ``cls(params, lr=...)``."""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch

from prgd.deep.optim.base import has_fused, listed
from prgd.deep.optim.prgd import PRGD

HYPERBALL = {"R": "constant", "warm_up": 0, "scope": "matrix", "relative_steps": True, "loss_scaled": False}


class PRGDSGD(PRGD):
    r"""SGD with relative steps on spheres of radius R_k, one for each matrix: `PRGD` with flat arguments.

    .. math:: W \leftarrow R_k\, \mathrm{norm}(W - \eta R_k\, \mathrm{norm}(u))

    Here u is SGD's update and norm(x) = x / ||x||. A bare ``step()`` is enough, since a relative step needs
    no loss. Vectors are stepped by SGD alone.

    Parameters
    ----------
    params : parameters or parameter groups, or a network.
    lr : float; a step turns a matrix by about this angle.
    momentum, weight_decay : float
    nesterov : bool
    **options : R, T, warm_up, cautious, scope, relative_steps, on_rescale, loss_scaled, project
        As for `PRGD`, with the defaults ``R="constant"``, ``warm_up=0`` and ``scope="matrix"``.

    Examples
    --------
    >>> W = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> optimizer = PRGDSGD([W], lr=0.1)
    >>> W.grad = torch.tensor([[1.0, 0.0]])
    >>> optimizer.step()
    >>> round(W.norm().item(), 5)
    5.0
    """

    _defaults: ClassVar[dict[str, Any]] = HYPERBALL

    def __init__(
        self,
        params: Iterable[Any] | torch.nn.Module,
        lr: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        **options: Any,
    ) -> None:
        options |= {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, **(self._defaults | options))


class PRGDAdamW(PRGD):
    """AdamW with relative steps on spheres of radius R_k, one for each matrix: `PRGD` with flat arguments.

    With the default, constant radii this is Adam-Hyperball. A bare ``step()`` is enough, since a relative
    step needs no loss. Vectors are stepped by AdamW alone, and weight decay acts on them alone.

    Parameters
    ----------
    params : parameters or parameter groups, or a network.
    lr : float; a step turns a matrix by about this angle.
    betas : pair of float
    eps, weight_decay : float
    **options : R, T, warm_up, cautious, scope, relative_steps, on_rescale, loss_scaled, project
        As for `PRGD`, with the defaults ``R="constant"``, ``warm_up=0`` and ``scope="matrix"``.

    Examples
    --------
    >>> W = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> optimizer = PRGDAdamW([W], lr=0.02, R="geometric:1.01")
    >>> W.grad = torch.tensor([[1.0, 0.0]])
    >>> optimizer.step()
    >>> optimizer.R_k
    [5.0]
    """

    _defaults: ClassVar[dict[str, Any]] = HYPERBALL

    def __init__(
        self,
        params: Iterable[Any] | torch.nn.Module,
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        **options: Any,
    ) -> None:
        groups = listed(params)
        base = torch.optim.AdamW(groups, lr, betas, eps, weight_decay, fused=has_fused(groups))
        super().__init__(base, **(self._defaults | options))
