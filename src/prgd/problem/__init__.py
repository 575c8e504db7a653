"""A problem: rows and labels, what one pass at w gives, and the interval that follows from it."""

from prgd.problem.coding import Evaluation
from prgd.problem.problem import Problem

__all__ = ["Evaluation", "Problem"]
