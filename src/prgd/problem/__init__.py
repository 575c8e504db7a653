"""A problem: rows and labels, what one pass at w gives, and the interval that follows from it."""

from prgd.problem.problem import Problem

__all__ = ["Problem"]
