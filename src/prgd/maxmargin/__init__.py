"""The certified maximum-margin solver and separability verdicts."""

from prgd.maxmargin.result import Check, MaxMarginResult
from prgd.maxmargin.separability import Separability, Verdict, separability
from prgd.maxmargin.solver import max_margin

__all__ = ["Check", "MaxMarginResult", "Separability", "Verdict", "max_margin", "separability"]
