"""GD, NGD and PRGD as PyTorch optimizers, with losses that never underflow."""
