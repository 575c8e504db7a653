r"""How far a network is from a KKT point of the problem of maximum margin, by Lyu and Li's definition.

For a network of degree L the problem is to minimise :math:`\frac12\|\theta\|^2` subject to
:math:`s_{nj}(\theta) = f_{y_n}(x_n) - f_j(x_n) \ge 1` for all examples n and all other classes j. Gradient
flow on the cross-entropy converges in direction to its KKT points; the residual says how near it has come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from prgd.core.types import Array
from prgd.deep.homogeneity import check_homogeneous, evaluation_mode
from prgd.deep.margins import class_numbers, pairs, parameter_norm
from prgd.deep.optim.tensors import gathered

_NO_WEIGHT = -1e300  # logarithm of the weight of an empty sum: finite, since -inf minus -inf is NaN


@dataclass(frozen=True)
class KKTResidual:
    r"""The smallest (epsilon, delta) for which the rescaled network is an (epsilon, delta)-KKT point.

    The point is :math:`\tilde\theta = \theta / q^{1/L}`, with q the smallest margin, at which the smallest
    margin is 1; the multipliers are those that the weights of the loss give.

    Attributes
    ----------
    epsilon : float
        Stationarity, :math:`\|\tilde\theta - \sum \lambda_{nj} \nabla s_{nj}(\tilde\theta)\|`; infinite if
        the data are not separated, since no rescaling is feasible then.
    delta : float
        Complementarity, the largest :math:`\lambda_{nj} (s_{nj}(\tilde\theta) - 1)`; infinite as epsilon is.
    cosine : float
        Cosine of the angle between the parameters and :math:`\sum \lambda_{nj} \nabla s_{nj}`, the negative
        gradient of the loss; 1 at a KKT point. It is finite whether or not the data are separated.
    multiplier_sum : float
        Sum of the multipliers, ``feasible_norm**2 / degree`` at a KKT point; NaN if the data are not
        separated.
    support_size : float
        Effective number of constraints that carry weight: ``sum(lambda)**2 / sum(lambda**2)``.
    norm, degree : float
        l2 norm of the parameters, and the degree L of the network.
    margin : float
        The smallest margin q, not normalized.
    """

    epsilon: float
    delta: float
    cosine: float
    multiplier_sum: float
    support_size: float
    norm: float
    degree: float
    margin: float

    @property
    def is_separated(self) -> bool:
        """Whether all margins are positive, so that epsilon and delta have a meaning."""
        return self.margin > 0.0

    @property
    def feasible_norm(self) -> float:
        """Norm of the parameters after the rescaling to a smallest margin of 1; infinite if there is none."""
        return self.norm * _feasible_factor(self.degree, self.margin)

    @property
    def relative_epsilon(self) -> float:
        """``epsilon / feasible_norm``, which the units of data and parameters do not change."""
        return self.epsilon / self.feasible_norm if self.is_separated else math.inf


@dataclass
class KKTSums:
    """Sums over batches of weights and gradients of margins, all relative to the largest weight so far.

    Weights are kept as logarithms: at margins in the hundreds, all of them underflow. A batch with a larger
    weight rescales what was summed before, so batches of any size and order give the same sums.
    """

    leaves: dict[str, Tensor]  # the parameters, detached: no gradient reaches the model's own
    gradient: dict[str, Tensor]  # sum of weight times gradient of margin, in float64
    log_scale: Tensor  # logarithm of the largest weight so far
    mass: Tensor  # sum of the weights, and of their squares
    margin: Tensor
    front: Tensor  # columns (log-weight, margin) of pairs that no pair exceeds in both
    count: int = 0  # examples

    @classmethod
    def of(cls, model: nn.Module, parameters: Iterable[Tensor] | None = None) -> KKTSums:
        """Return empty sums for some parameters of a model, by default all."""
        named = dict(model.named_parameters())
        if not named:
            raise ValueError("kkt_residual needs a model with parameters; this one has none.")
        if parameters is not None:
            chosen = {id(parameter) for parameter in parameters}
            named = {name: value for name, value in named.items() if id(value) in chosen}
            if not named or len(named) != len(chosen):
                raise ValueError(
                    f"parameters must be some of the model's own; {len(named)} of {len(chosen)} are. "
                    "Pass entries of model.parameters()."
                )
        device = next(iter(named.values())).device
        empty = torch.empty(0, 2, dtype=torch.float64, device=device)
        return cls(
            leaves={name: value.detach().requires_grad_() for name, value in named.items()},
            gradient={name: torch.zeros_like(value, dtype=torch.float64) for name, value in named.items()},
            log_scale=empty.new_tensor(_NO_WEIGHT),
            mass=empty.new_zeros(2),
            margin=empty.new_tensor(math.inf),
            front=empty,
        )

    @property
    def device(self) -> torch.device:
        """The device of the first parameter, where batches are evaluated."""
        return self.margin.device

    def add(self, model: nn.Module, inputs: Tensor, target: Tensor, weights: Tensor | None = None) -> None:
        """Add one batch: one forward and one backward pass, in the precision of the model.

        Parameters
        ----------
        model : nn.Module
            The network, in evaluation mode.
        inputs, target : Tensor
            The batch, on any device.
        weights : Tensor of shape (n,) or (n, classes), optional
            Weights in place of the loss's; column ``target`` has no meaning.
        """
        with torch.enable_grad():
            logits = _class_logits(functional_call(model, self.leaves, (inputs.to(self.device),)))
            target = class_numbers(target.to(self.device), logits)
            wide = logits.detach().to(self.device, torch.float64)
            own = target[:, None]
            others = torch.ones_like(wide, dtype=torch.bool).scatter_(1, own, False)
            margins = wide.gather(1, own) - wide
            log_weights = torch.log_softmax(wide, dim=1) if weights is None else _log_weights(weights, wide)
            log_weights = log_weights.masked_fill(~others, -math.inf)
            log_scale = log_weights.amax().clamp(min=_NO_WEIGHT)
            relative = torch.exp(log_weights - log_scale)
            slopes = (-relative).scatter(1, own, relative.sum(dim=1, keepdim=True)).to(logits)
            names, leaves = zip(*self.leaves.items(), strict=True)
            found = torch.autograd.grad(logits, leaves, slopes, allow_unused=True, materialize_grads=True)
        mass = torch.stack([relative.sum(), relative.square().sum()])
        pairs = torch.stack([log_weights[others], margins[others]], dim=1)
        old, new = self._merge(log_scale, mass, pairs[:, 1].amin(), pairs)
        for name, gradient in zip(names, found, strict=True):
            here = gradient.device
            self.gradient[name].mul_(old.to(here)).add_(gradient.double() * new.to(here))
        self.count += len(target)

    def reduce(self) -> None:
        """Merge the sums of all processes, each of which added a part of the data; all get the same sums."""
        small = (self.log_scale, self.mass, self.margin, self.front)
        parts = gathered((*(value.cpu() for value in small), self.count))
        if len(parts) == 1:
            return
        before = self.log_scale
        self.log_scale, self.mass = torch.full_like(before, _NO_WEIGHT), torch.zeros_like(self.mass)
        for *values, _ in parts:
            self._merge(*(value.to(self.device) for value in values))
        self.count = sum(count for *_, count in parts)
        for gradient in self.gradient.values():
            gradient *= torch.exp(before - self.log_scale).to(gradient.device)
            torch.distributed.all_reduce(gradient)

    def _merge(self, log_scale: Tensor, mass: Tensor, margin: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Add sums relative to their own largest weight; return the factors of the old and the new sums."""
        largest = torch.maximum(self.log_scale, log_scale)
        old, new = torch.exp(self.log_scale - largest), torch.exp(log_scale - largest)
        powers = torch.arange(1, 3, device=self.device)
        self.mass = self.mass * old**powers + mass * new**powers
        self.log_scale, self.margin = largest, torch.minimum(self.margin, margin)
        self.front = _front(torch.cat([self.front, pairs]))
        return old, new

    def residual(self, degree: float) -> KKTResidual:
        """Return the residual of all that was added; NaN if a logit or a gradient was not finite."""
        norm, length = parameter_norm(self.leaves.values()), parameter_norm(self.gradient.values())
        margin = float(self.margin)
        # Zero parameters have no direction, and zero gradients make all multipliers 0.
        units = [
            (leaf.detach().double() / (norm or 1.0), self.gradient[name] / (length or 1.0))
            for name, leaf in self.leaves.items()
        ]
        cosine = math.fsum(float((point * pull).sum()) for point, pull in units)
        # The difference is formed entry by entry, since sqrt(2 - 2 cosine) loses half of the digits.
        distance = math.sqrt(math.fsum(float((point - pull).square().sum()) for point, pull in units))
        mass, square_mass = self.mass.tolist()
        log_weights, margins = self.front.unbind(dim=1)
        slack = float((torch.exp(log_weights - self.log_scale) * (margins - margin)).amax())
        factor = _feasible_factor(degree, margin)
        is_feasible = math.isfinite(factor)
        # Gradients at the feasible point are factor**(degree - 1) times those here, margins factor**degree
        # times, and the multipliers make the weighted gradients sum to a vector of length factor * norm.
        unit = norm * factor * factor / (length or math.inf)
        return KKTResidual(
            epsilon=norm * factor * distance if is_feasible else factor,
            delta=unit * slack if is_feasible else factor,
            cosine=cosine,
            multiplier_sum=unit * margin * mass if is_feasible else math.nan,
            support_size=mass * mass / square_mass if square_mass > 0.0 else math.nan,
            norm=norm,
            degree=degree,
            margin=margin,
        )


def kkt_residual(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    *,
    degree: float | None = None,
    parameters: Iterable[Tensor] | None = None,
    dual_weights: Array | Tensor | None = None,
) -> KKTResidual:
    r"""Return how far the network is from a KKT point of the problem of maximum margin.

    .. math::
        \epsilon = \Bigl\|\tilde\theta - \sum_{n, j \ne y_n} \lambda_{nj} \nabla s_{nj}(\tilde\theta)\Bigr\|,
        \quad \delta = \max_{n, j} \lambda_{nj} (s_{nj}(\tilde\theta) - 1),
        \quad \tilde\theta = \theta / q^{1/L}

    with :math:`q = \min s_{nj}(\theta)`. The multipliers are proportional to the weights that the
    cross-entropy gives to the pairs, :math:`-\partial \ell / \partial s_{nj}` (the probability of class j),
    and so large that :math:`\sum \lambda_{nj} \nabla s_{nj}(\tilde\theta)` is as long as
    :math:`\tilde\theta`. Hence epsilon is :math:`\|\tilde\theta\| \sqrt{2 (1 - \cos)}`, with the angle
    between the parameters and the negative gradient of the loss. Other multipliers may give less: epsilon
    and delta are upper bounds.

    A network that does not separate the data has no feasible rescaling: epsilon and delta are infinite, and
    only ``cosine`` is left to look at.

    Parameters
    ----------
    model : nn.Module
        Network with one logit per class, or a single logit for two classes. It is evaluated in evaluation
        mode; its mode is restored, and ``grad`` of its parameters does not change.
    loader : iterable of (inputs, labels)
        Data set that is read once, with one forward and one backward pass a batch; ``[(X, y)]`` for two
        tensors. Labels are class numbers; of two classes also -1 and 1.
    degree : float, optional
        L; by default measured on the first batch, with a warning if the network is not homogeneous. The
        residual then has no meaning, and is NaN if L is not positive.
    parameters : iterable of Tensor, optional
        Parameters in the norm; all parameters by default. The degree must be that in these parameters.
    dual_weights : array of shape (n,) or (n, classes), optional
        Weights in place of the loss's, in the order of the data, at least 0; their scale does not matter. One
        column serves two classes.

    Returns
    -------
    KKTResidual

    References
    ----------
    Lyu and Li (2020), Appendix C for the definition and the multipliers, and their appendix on multi-class
    classification for the constraints of pairs.

    Examples
    --------
    >>> model = nn.Linear(2, 1, bias=False).double()
    >>> model.weight = nn.Parameter(torch.tensor([[300.0, 400.0]], dtype=torch.float64))
    >>> batch = (torch.tensor([[0.6, 0.8], [-0.6, -0.8]], dtype=torch.float64), torch.tensor([1, -1]))
    >>> kkt_residual(model, [batch]).epsilon < 1e-12
    True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"kkt_residual needs a network (nn.Module); got {type(model).__name__}.")
    if torch.is_inference_mode_enabled():
        raise RuntimeError("kkt_residual needs gradients; call it outside of torch.inference_mode().")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        model = model.module  # The wrapper would wait for gradients of its own parameters.
    sums = KKTSums.of(model, parameters)
    weights = None if dual_weights is None else _checked_weights(dual_weights).to(sums.device)
    with evaluation_mode(model):
        for inputs, target in pairs(loader):
            if not len(target):
                continue
            if degree is None:
                degree = check_homogeneous(model, inputs[:4].to(sums.device)).degree
            part = None if weights is None else weights[sums.count :][: len(target)]
            sums.add(model, inputs, target, part)
    if degree is None or not sums.count:
        raise ValueError("kkt_residual needs at least one example; the loader was empty.")
    if weights is not None and len(weights) != sums.count:
        raise ValueError(f"dual_weights must have a row per example, {sums.count}; got {len(weights)}.")
    found = sums.residual(degree)
    if not math.isfinite(found.margin + found.norm + found.cosine):
        raise ValueError(
            "kkt_residual needs finite parameters, logits and gradients; got NaN or infinite ones. "
            "Check the inputs, and whether the training has diverged."
        )
    return found


def _feasible_factor(degree: float, margin: float) -> float:
    """Return ``margin**(-1 / degree)``: infinite if the margin is not positive, NaN if the degree is not."""
    if math.isnan(margin) or not degree > 0.0:
        return math.nan
    exponent = -math.log(margin) / degree if margin > 0.0 else math.inf
    return math.exp(exponent) if exponent < 700.0 else math.inf


def _class_logits(output: Tensor) -> Tensor:
    """Return logits of shape (n, classes); a single logit f becomes (0, f), which has the same margins."""
    if output.ndim not in (1, 2):
        shape = tuple(output.shape)
        raise ValueError(f"kkt_residual needs logits of shape (n, classes) or (n,); got {shape}.")
    output = output.reshape(len(output), -1)
    return output if output.shape[1] > 1 else torch.cat([torch.zeros_like(output), output], dim=1)


def _checked_weights(dual_weights: Array | Tensor) -> Tensor:
    weights = torch.as_tensor(dual_weights).double()
    if not bool(torch.isfinite(weights).all() & (weights >= 0.0).all() & (weights > 0.0).any()):
        raise ValueError("dual_weights must be finite, at least 0 and not all 0. Pass Lagrange multipliers.")
    return weights


def _log_weights(weights: Tensor, logits: Tensor) -> Tensor:
    """Return the logarithms of given weights in the shape of the logits."""
    if weights.ndim == 1 and logits.shape[1] == 2:
        weights = weights[:, None].expand(-1, 2)
    if weights.shape != logits.shape:
        raise ValueError(
            "dual_weights must have a row per example and a column per class, or one column for two "
            f"classes; got {tuple(weights.shape)} for logits of shape {tuple(logits.shape)}."
        )
    return weights.log()


def _front(pairs: Tensor) -> Tensor:
    """Return the pairs (log-weight, margin) that no other pair exceeds in both.

    The largest weight times slack is at one of them; at which one, the smallest margin of all data decides.
    """
    pairs = pairs[pairs[:, 0].argsort(descending=True)]
    best = pairs[:, 1].cummax(dim=0).values
    return pairs[torch.cat([torch.ones_like(best[:1], dtype=torch.bool), pairs[1:, 1] > best[:-1]])]
