"""Our own experiments, beyond the paper: one file each, found by their presence."""
