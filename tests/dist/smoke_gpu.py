"""Extra gpu: rows that are a tensor, on a GPU where there is one, give the margin of an array."""

import sys

import installed
import torch

import prgd

installed.check("torch", *(["triton"] if sys.platform == "linux" else []))
X, y = prgd.datasets.digits(0, 1)
device = "cuda" if torch.cuda.is_available() else "cpu"
far = prgd.max_margin(torch.as_tensor(X, device=device), y)
near = prgd.max_margin(X, y)
assert max(near.margin, far.margin) <= min(near.upper_bound, far.upper_bound), (near, far)
