"""Rows of torch tensors, on any device."""
