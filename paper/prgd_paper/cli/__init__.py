"""The commands of the paper: ``prgd reproduce``, ``claims``, ``race`` and ``train``."""
