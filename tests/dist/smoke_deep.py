"""Extra deep: the optimizer wraps one of PyTorch, and its steps lower the loss."""

import installed
import torch

from prgd.deep import PRGD

installed.check("torch")
torch.manual_seed(0)
x = torch.randn(64, 4)
y = (x[:, 0] > 0).long()
model = torch.nn.Linear(4, 2, bias=False)
optimizer = PRGD(torch.optim.SGD(model.parameters(), lr=0.1))
losses = []
for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step(loss=loss)
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0], losses
