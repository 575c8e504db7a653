"""Data sets: the paper's synthetic ones, digits and cancer, and files in four formats."""

from prgd.datasets.base import Dataset, load
from prgd.datasets.sets import cancer, digits, synthetic_one, synthetic_two, toy

__all__ = ["Dataset", "cancer", "digits", "load", "synthetic_one", "synthetic_two", "toy"]
