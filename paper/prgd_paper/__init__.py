"""The paper re-run: its figures, tables, theorems and claims, the training of VGG-16, and our own studies."""
