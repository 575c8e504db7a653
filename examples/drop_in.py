"""A plain PyTorch training loop; the three lines marked (+) are all that PRGD adds to it.

Usage: python examples/drop_in.py
"""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from prgd.deep import PRGD, normalized_margin  # (+)


def make_data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 512 points of 3 classes that a small network separates."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(512, 10, generator=generator)
    teacher = torch.randn(10, 3, generator=generator)
    return x, (x @ teacher).argmax(dim=1)


def train(lr: float, *, use_prgd: bool, steps: int = 1000) -> tuple[float, float]:
    """Return the loss and the normalized margin after so many steps."""
    x, y = make_data()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(10, 64, bias=False), torch.nn.ReLU(), torch.nn.Linear(64, 3, bias=False)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, fused=True)
    if use_prgd:
        optimizer = PRGD(optimizer)  # (+)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        if use_prgd:
            optimizer.step(loss=loss)  # (+)
        else:
            optimizer.step()
    return loss.item(), normalized_margin(model, [(x, y)]).normalized_margin


def main() -> None:
    """Print the loss and the margin of both at a few learning rates."""
    for lr in (0.1, 0.3, 1.0):
        for name, use_prgd in (("SGD", False), ("PRGD", True)):
            loss, margin = train(lr, use_prgd=use_prgd)
            print(f"lr {lr:g}: {name:5} loss {loss:.1e}, normalized margin {margin:.4f}")


if __name__ == "__main__":
    main()
