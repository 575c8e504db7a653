"""The certified maximum-margin solver and separability verdicts."""

from prgd.maxmargin.result import Check, MaxMarginResult
from prgd.maxmargin.solver import max_margin

__all__ = ["Check", "MaxMarginResult", "max_margin"]
