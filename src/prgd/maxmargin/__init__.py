"""The certified maximum-margin solver."""

from prgd.maxmargin.moves import Round
from prgd.maxmargin.soft import soft_margin
from prgd.maxmargin.solver import max_margin

__all__ = ["Round", "max_margin", "soft_margin"]
