"""Optimizers with flat keyword arguments, for libraries that make optimizers by ``cls(params, lr=...)``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from prgd.deep.optim.blocks import Scope
from prgd.deep.optim.fused import has_fused, listed
from prgd.deep.optim.prgd import DEFAULT_TIMES, PRGD, OnRescale
from prgd.deep.optim.wrapper import WarmUp
from prgd.schedules import Radius, Times


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
    R, T, warm_up, cautious, scope, relative_steps, on_rescale, loss_scaled, project
        As for `PRGD`. The radius is constant by default.

    Examples
    --------
    >>> W = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> optimizer = PRGDSGD([W], lr=0.1)
    >>> W.grad = torch.tensor([[1.0, 0.0]])
    >>> optimizer.step()
    >>> round(W.norm().item(), 5)
    5.0
    """

    def __init__(
        self,
        params: Iterable[Any] | torch.nn.Module,
        lr: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        R: Radius | str | float = "constant",
        T: Times | str | int = DEFAULT_TIMES,
        warm_up: WarmUp = 0,
        cautious: bool | None = None,
        scope: Scope = "matrix",
        relative_steps: bool = True,
        on_rescale: OnRescale = "keep",
        loss_scaled: bool = False,
        project: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            R=R,
            T=T,
            warm_up=warm_up,
            cautious=cautious,
            scope=scope,
            relative_steps=relative_steps,
            on_rescale=on_rescale,
            loss_scaled=loss_scaled,
            project=project,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )


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
    R, T, warm_up, cautious, scope, relative_steps, on_rescale, loss_scaled, project
        As for `PRGD`. The radius is constant by default.

    Examples
    --------
    >>> W = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> optimizer = PRGDAdamW([W], lr=0.02, R="geometric:1.01")
    >>> W.grad = torch.tensor([[1.0, 0.0]])
    >>> optimizer.step()
    >>> optimizer.R_k
    [5.0]
    """

    def __init__(
        self,
        params: Iterable[Any] | torch.nn.Module,
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        R: Radius | str | float = "constant",
        T: Times | str | int = DEFAULT_TIMES,
        warm_up: WarmUp = 0,
        cautious: bool | None = None,
        scope: Scope = "matrix",
        relative_steps: bool = True,
        on_rescale: OnRescale = "keep",
        loss_scaled: bool = False,
        project: bool | None = None,
    ) -> None:
        groups = listed(params.parameters() if isinstance(params, torch.nn.Module) else params)
        base = torch.optim.AdamW(
            groups, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=has_fused(groups)
        )
        super().__init__(
            base,
            R=R,
            T=T,
            warm_up=warm_up,
            cautious=cautious,
            scope=scope,
            relative_steps=relative_steps,
            on_rescale=on_rescale,
            loss_scaled=loss_scaled,
            project=project,
        )
