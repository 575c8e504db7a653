"""The certified maximum-margin solver."""

from prgd.maxmargin.solve import Round, max_margin

__all__ = ["Round", "max_margin"]
