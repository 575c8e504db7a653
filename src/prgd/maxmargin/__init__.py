"""The certified maximum-margin solver and separability verdicts."""

from prgd.maxmargin.result import Check, MaxMarginResult
from prgd.maxmargin.separability import separability
from prgd.maxmargin.solver import max_margin
from prgd.maxmargin.verdict import Separability, Verdict

__all__ = ["Check", "MaxMarginResult", "Separability", "Verdict", "max_margin", "separability"]
