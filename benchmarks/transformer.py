"""A small decoder transformer and a text of bytes that every machine has: Python's own standard library.

The default network has 10.8 million parameters: 6 layers of width 384 with 6 heads, context 256, a vocabulary
of 256 bytes, RMSNorm before attention and before the two-layer GELU network, learned positions, no biases,
and one matrix for the input embedding and the output (tied). Needs PyTorch and NumPy alone.
"""

from __future__ import annotations

import hashlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, linear, scaled_dot_product_attention

BYTES = 256  # size of the vocabulary
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests"}  # folders that not every installation has
HELD_OUT = 10  # every tenth file is for validation


class Block(nn.Module):
    """Causal attention, then a GELU network of four times the width; both normalise first and add last."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.network_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        # Query, key and value are separate parameters, since each has a norm of its own.
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        # One product for all three reads its input once.
        weight = torch.cat([self.query.weight, self.key.weight, self.value.weight])
        parts = linear(self.attention_norm(x), weight).view(batch, length, 3 * self.heads, -1)
        heads = parts.transpose(1, 2).chunk(3, dim=1)
        attended = scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(gelu(self.up(self.network_norm(x))))


class Transformer(nn.Module):
    """Maps bytes of shape (batch, length) to logits of the next byte, (batch, length, vocabulary)."""

    def __init__(self, layers: int, width: int, heads: int, context: int, vocabulary: int) -> None:
        super().__init__()
        self.context = context
        self.embedding, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)

    def forward(self, index: Tensor) -> Tensor:
        x = self.embedding(index) + self.position.weight[: index.shape[1]]
        for block in self.blocks:
            x = block(x)
        return linear(self.norm(x), self.embedding.weight)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw all weights anew, in place and on the host, so that every device begins with the same numbers.

        Embeddings have deviation 0.02; a matrix has 1 / sqrt(its columns), and those that write to the
        residual stream are divided by sqrt(2 layers).
        """
        generator = torch.Generator().manual_seed(seed)
        for name, p in self.named_parameters():
            if p.ndim < 2:
                p.fill_(1.0)
                continue
            deviation = 0.02 if "blocks" not in name else p.shape[1] ** -0.5
            if "mix" in name or "down" in name:
                deviation /= (2 * len(self.blocks)) ** 0.5
            p.copy_(torch.randn(p.shape, generator=generator) * deviation)


def build_transformer(
    *,
    layers: int = 6,
    width: int = 384,
    heads: int = 6,
    context: int = 256,
    vocabulary: int = BYTES,
    seed: int = 0,
) -> Transformer:
    """Return the transformer on the host in float32, with weights drawn from ``seed``."""
    model = Transformer(layers, width, heads, context, vocabulary)
    model.initialise(seed)
    return model


def parameter_groups(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the weight matrices of the blocks, the embeddings, and the vectors (gains of the norms)."""
    groups: dict[str, list[nn.Parameter]] = {"matrices": [], "embeddings": [], "vectors": []}
    for name, p in model.named_parameters():
        kind = "vectors" if p.ndim < 2 else "matrices" if "blocks" in name else "embeddings"
        groups[kind].append(p)
    return groups


def next_byte_loss(model: nn.Module, window: Tensor, *, bf16: bool = False) -> Tensor:
    """Return the mean cross-entropy in nats a byte of windows of shape (batch, context + 1)."""
    with torch.autocast(window.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False):
        logits = model(window[:, :-1])
    return cross_entropy(logits.float().flatten(0, 1), window[:, 1:].flatten())


@dataclass(frozen=True)
class Text:
    """Bytes for training and validation, from different files, and the facts that identify them."""

    train: np.ndarray[Any, np.dtype[np.uint8]]
    validation: np.ndarray[Any, np.dtype[np.uint8]]
    files: int
    sha256: str

    def facts(self) -> dict[str, Any]:
        """Return what a record stores about the text."""
        sizes = {"train_bytes": len(self.train), "validation_bytes": len(self.validation)}
        return {"files": self.files, **sizes, "sha256": self.sha256}


def text_bytes(folder: Path | None = None, *, max_file: int = 2**17, max_total: int = 2**24) -> Text:
    """Return the bytes of the .py files of a folder, every tenth file for validation.

    Parameters
    ----------
    folder : Path, by default that of the standard library of the Python that runs; its tests and installed
        packages are left out.
    max_file : int, number of bytes that are read of a file at most.
    max_total : int, number of bytes of all files together; the files that come last by path are left out.
    """
    root = Path(sysconfig.get_paths()["stdlib"]) if folder is None else folder
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    digest, total, files = hashlib.sha256(), 0, 0
    for name in names:
        if LEFT_OUT & set(name.split("/")[:-1]):
            continue
        with (root / name).open("rb") as file:
            content = file.read(max_file)
        if total + len(content) > max_total:
            break
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
        parts[files % HELD_OUT == HELD_OUT - 1].append(content)
        total, files = total + len(content), files + 1
    if files < HELD_OUT:
        raise ValueError(f"{root} has {files} .py files; a split by files needs at least {HELD_OUT}.")
    train, validation = (np.frombuffer(bytearray(b"\n".join(part)), dtype=np.uint8) for part in parts)
    return Text(train, validation, files, digest.hexdigest())


def starts(n: int, steps: int, batch: int, context: int, seed: int) -> Tensor:
    """Return where the windows of each batch begin in a text of n bytes: random, of shape (steps, batch)."""
    if n <= context:
        raise ValueError(f"A text of {n} bytes has no window of context + 1 = {context + 1} bytes.")
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, n - context, (steps, batch), generator=generator)


def windows(text: Tensor, begin: Tensor, context: int) -> Tensor:
    """Return the windows of context + 1 bytes that begin at ``begin``, as int64 on the device of the text."""
    return text[begin[:, None] + torch.arange(context + 1, device=text.device)].long()


def validation_windows(text: Tensor, *, max_windows: int, context: int = 256) -> Tensor:
    """Return windows spread evenly over the text, whose targets do not overlap: the same for every run."""
    n = min(max_windows, (len(text) - 1) // context)
    begin = torch.linspace(0, len(text) - 1 - context, n, device=text.device, dtype=torch.float64).long()
    return windows(text, begin, context)


@torch.no_grad()
def mean_loss(model: nn.Module, all_windows: Tensor, *, batch: int = 64, bf16: bool = False) -> float:
    """Return the mean cross-entropy in nats a byte over windows of shape (n, context + 1)."""
    total = torch.zeros((), dtype=torch.float64, device=all_windows.device)
    for part in all_windows.split(batch):
        total += next_byte_loss(model, part, bf16=bf16).double() * len(part)
    return float(total) / len(all_windows)
