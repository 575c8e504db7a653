"""Training of networks: models, data, loop and checkpoints."""
