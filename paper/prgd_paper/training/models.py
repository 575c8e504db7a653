"""Networks whose output is homogeneous in the parameters, ``f(c w) = c^L f(w)``, made by name.

A bias is allowed in the first layer only, where it acts as the weight of a constant input 1: an inner bias
scales by c while its neighbours scale by a power of c. Batch normalisation is left out, since its output does
not depend on the scale of the weights.
"""

from __future__ import annotations

import threading
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from prgd.core.checks import check_integer, unknown

Bias = Literal["first", "none", "all"]
Shape = tuple[int, int, int]  # channels, height, width
_drawing = threading.Lock()


class Architecture(NamedTuple):
    """Widths of convolutions (0 is a max pooling) and of hidden linear layers, with or without dropout."""

    convolutions: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()
    has_dropout: bool = False


# Configuration D of Simonyan and Zisserman (2015).
VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
MODELS = {
    "linear": Architecture(),
    "mlp": Architecture(hidden=(256, 256)),
    "cnn": Architecture(convolutions=(32, 0, 64, 0)),
    "vgg16": Architecture(convolutions=VGG16, hidden=(512, 512), has_dropout=True),
    "vgg16-lyu-li": Architecture(convolutions=VGG16),
}


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

    Convolutions get Kaiming's normal weights (fan out, as in VGG), linear layers PyTorch's uniform weights,
    and biases are 0.

    Parameters
    ----------
    name : str
        ``"linear"``; ``"mlp"``: two hidden layers of 256; ``"cnn"``: two convolutions and one linear layer;
        ``"vgg16"``: the paper's network, with three linear layers and dropout before the first two;
        ``"vgg16-lyu-li"``: one linear layer.
    shape : tuple of int
        Channels, height and width of an image.
    classes : int
    bias : {"first", "none", "all"}
        Which layers have a bias; with ``"all"`` the network is not homogeneous.
    dropout : float
        Probability; for ``"vgg16"`` only.
    seed : int, optional
        Makes the weights the same each time; the global random state does not change.

    Returns
    -------
    nn.Sequential
        Network that maps images of shape ``(n, *shape)`` to logits of shape ``(n, classes)``.

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
    if bias not in get_args(Bias):
        raise unknown("bias", bias, get_args(Bias))
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must be at least 0 and below 1; got {dropout!r}.")
    architecture = MODELS[name]
    if dropout and not architecture.has_dropout:
        raise ValueError(f"Only vgg16 has dropout; got dropout {dropout:g} for {name}. Leave it at 0.")
    check_integer("classes", classes, minimum=2)
    # torch's layers draw from the one global generator, which all threads share.
    with _drawing, torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        layers, size = _convolutions(architecture.convolutions, shape)
        layers.append(nn.Flatten())
        for width in architecture.hidden:
            layers += [Dropout(dropout)] if architecture.has_dropout else []
            layers += [nn.Linear(size, width), nn.ReLU()]
            size = width
        layers.append(nn.Linear(size, classes))
    weighted = [layer for layer in layers if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for i, layer in enumerate(weighted):
        has_bias = bias == "all" or (bias == "first" and i == 0)
        layer.bias = nn.Parameter(torch.zeros(layer.weight.shape[0])) if has_bias else None
    return nn.Sequential(*layers)


class Dropout(nn.Module):
    """Dropout that can draw from a generator of its own, so that runs in one process stay independent.

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
        """Return x with each entry 0 with probability p, else divided by 1 - p; in evaluation return x."""
        if not self.training or self.p == 0.0:
            return x
        kept = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.p
        return x * (kept / (1.0 - self.p)).to(x.dtype)


def _convolutions(widths: tuple[int, ...], shape: Shape) -> tuple[list[nn.Module], int]:
    """Return 3 x 3 convolutions with ReLU, a pooling for each 0, and the number of features they give."""
    channels, height, width = shape
    halvings = widths.count(0)
    if min(height, width) < 2**halvings:
        raise ValueError(
            f"{halvings} poolings need images of at least {2**halvings} x {2**halvings} pixels; got "
            f"{height} x {width}. Choose a smaller model: cnn, mlp or linear."
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
