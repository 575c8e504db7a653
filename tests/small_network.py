"""A network of two layers, its data, and its parameters as one vector, for tests of the torch optimizers."""

import torch
from torch.nn.functional import cross_entropy

BASES = {
    "fused SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "fused SGD, no momentum": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
    "foreach SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "fused AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
}


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


def trained(optimizer_of, batches, parts=1):
    """Train with ``step(loss=...)`` on ``parts`` batches a step; return the parameters and the progress."""
    model, losses = network(), []
    optimizer = optimizer_of(model)
    for inputs, targets in batches:
        losses.append(cross_entropy(model(inputs), targets))
        (losses[-1] / parts).backward()
        if len(losses) == parts:
            optimizer.step(loss=sum(loss.detach() for loss in losses) / parts)
            optimizer.zero_grad()
            losses = []
    return flat(model), optimizer.progress()
