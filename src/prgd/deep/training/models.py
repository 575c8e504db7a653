"""Networks whose output is homogeneous in the parameters, ``f(c w) = c^L f(w)``, made by name.

A bias is allowed in the first layer only, where input 1 stands beside it: an inner bias scales by c while
its neighbours scale by a power of c. Batch normalisation is left out: it takes the scale away.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from prgd.checks import check_integer, unknown

Bias = Literal["first", "none", "all"]
Shape = tuple[int, int, int]  # channels, height, width

# the widths of configuration D of Simonyan and Zisserman (2015); 0 is a max pooling
VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
SMALL = (32, 0, 64, 0)
_drawing = threading.Lock()


def build_model(
    name: str,
    shape: Shape = (3, 32, 32),
    classes: int = 10,
    *,
    bias: Bias = "first",
    dropout: float = 0.0,
    seed: int | None = None,
) -> nn.Sequential:
    """Return a network by its name, with fresh weights.

    Convolutions get Kaiming's normal weights (fan out, as VGG's), linear layers PyTorch's uniform ones,
    and biases 0.

    Parameters
    ----------
    name : str
        ``"linear"``; ``"mlp"``: two hidden layers of 256; ``"cnn"``: two convolutions and one linear layer;
        ``"vgg16"``: the paper's, with three linear layers and dropout before the first two;
        ``"vgg16-lyu-li"``: one linear layer.
    shape : tuple of int
        Channels, height and width of an image.
    classes : int
    bias : {"first", "none", "all"}
        Which layers have one; with ``"all"`` the network is not homogeneous.
    dropout : float
        Probability; for ``"vgg16"`` only.
    seed : int, optional
        Makes the weights the same each time; the global random state stays as it was.

    Returns
    -------
    nn.Sequential
        Takes images of shape (n, *shape), returns logits of shape (n, classes).

    References
    ----------
    Appendix E.2 of the paper; Lyu and Li (2020), Section K.

    Examples
    --------
    >>> model = build_model("linear", (1, 8, 8), 3, seed=0)
    >>> tuple(model(torch.zeros(5, 1, 8, 8)).shape)
    (5, 3)
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    if bias not in ("first", "none", "all"):
        raise unknown("bias", bias, ("first", "none", "all"))
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must be at least 0 and below 1; got {dropout!r}.")
    if dropout and name != "vgg16":
        raise ValueError(f"Only vgg16 has dropout; got dropout {dropout:g} for {name}. Leave it at 0.")
    check_integer("classes", classes, minimum=2)
    # torch's layers draw from the one global generator, which threads share
    with _drawing, torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        model = nn.Sequential(*MODELS[name](shape, classes, dropout))
    _set_biases(model, bias)
    return model


class Dropout(nn.Module):
    """Dropout that can draw from a generator of its own, so that runs in one process do not disturb another.

    Examples
    --------
    >>> layer = Dropout(0.5)
    >>> layer.generator = torch.Generator().manual_seed(0)
    >>> layer(torch.ones(4)).tolist()
    [0.0, 2.0, 0.0, 0.0]
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return x with each entry 0 with probability p, else divided by 1 - p; x itself in evaluation."""
        if not self.training or self.p == 0.0:
            return x
        kept = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.p
        return x * (kept / (1.0 - self.p)).to(x.dtype)


def _linear(shape: Shape, classes: int, dropout: float) -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(math.prod(shape), classes)]


def _mlp(shape: Shape, classes: int, dropout: float, width: int = 256) -> list[nn.Module]:
    hidden = [nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return [nn.Flatten(), *hidden, nn.Linear(width, classes)]


def _cnn(shape: Shape, classes: int, dropout: float) -> list[nn.Module]:
    features, size = _convolutions(SMALL, shape)
    return [*features, nn.Flatten(), nn.Linear(size, classes)]


def _vgg16(shape: Shape, classes: int, dropout: float, width: int = 512) -> list[nn.Module]:
    features, size = _convolutions(VGG16, shape)
    hidden = [Dropout(dropout), nn.Linear(size, width), nn.ReLU()]
    hidden += [Dropout(dropout), nn.Linear(width, width), nn.ReLU()]
    return [*features, nn.Flatten(), *hidden, nn.Linear(width, classes)]


def _vgg16_lyu_li(shape: Shape, classes: int, dropout: float) -> list[nn.Module]:
    features, size = _convolutions(VGG16, shape)
    return [*features, nn.Flatten(), nn.Linear(size, classes)]


MODELS: dict[str, Callable[[Shape, int, float], list[nn.Module]]] = {
    "linear": _linear,
    "mlp": _mlp,
    "cnn": _cnn,
    "vgg16": _vgg16,
    "vgg16-lyu-li": _vgg16_lyu_li,
}


def _convolutions(widths: tuple[int, ...], shape: Shape) -> tuple[list[nn.Module], int]:
    """Return 3 x 3 convolutions with ReLU, halved at each 0, and the number of features at their end."""
    channels, height, width = shape
    halvings = widths.count(0)
    if min(height, width) < 2**halvings:
        raise ValueError(
            f"{halvings} poolings need images of at least {2**halvings} x {2**halvings} pixels; got "
            f"{height} x {width}. Take a smaller model: cnn, mlp or linear."
        )
    layers: list[nn.Module] = []
    for w in widths:
        if w == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        convolution = nn.Conv2d(channels, w, 3, padding=1)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        layers += [convolution, nn.ReLU(inplace=True)]
        channels = w
    return layers, channels * (height >> halvings) * (width >> halvings)


def _set_biases(model: nn.Sequential, bias: Bias) -> None:
    layers = [layer for layer in model if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for i, layer in enumerate(layers):
        kept = bias == "all" or (bias == "first" and i == 0)
        layer.bias = nn.Parameter(torch.zeros(layer.weight.shape[0])) if kept else None


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters.

    Examples
    --------
    >>> count_parameters(build_model("vgg16", bias="none"))
    15239872
    """
    return sum(parameter.numel() for parameter in model.parameters())
