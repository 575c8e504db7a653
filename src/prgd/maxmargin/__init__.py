"""The certified maximum-margin solver."""

from prgd.maxmargin.result import Check, MaxMarginResult
from prgd.maxmargin.solve import max_margin

__all__ = ["Check", "MaxMarginResult", "max_margin"]
