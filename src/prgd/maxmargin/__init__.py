"""The certified maximum-margin solver."""

from prgd.maxmargin.solver import Round, max_margin

__all__ = ["Round", "max_margin"]
