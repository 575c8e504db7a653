"""A network of two layers, its data, and its parameters as one vector, for tests of the torch optimizers."""

from __future__ import annotations

import torch


def examples(n):
    """Return n inputs and their classes."""
    inputs = torch.randn(n, 5, generator=torch.Generator().manual_seed(1))
    return inputs, torch.randint(0, 3, (n,), generator=torch.Generator().manual_seed(2))


def network(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(5, 8, bias=False), torch.nn.ReLU(), torch.nn.Linear(8, 3, bias=False)]
    return torch.nn.Sequential(*layers).to(dtype)


def flat(model):
    """Return a copy of all parameters as one vector."""
    return torch.cat([p.detach().reshape(-1).clone() for p in model.parameters()])
