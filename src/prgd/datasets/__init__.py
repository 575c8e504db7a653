"""Data sets: the paper's synthetic ones, digits and cancer, and files in four formats."""

from prgd.datasets.base import Dataset
from prgd.datasets.files import load
from prgd.datasets.paper import synthetic_one, synthetic_two, toy
from prgd.datasets.real import cancer, digits

__all__ = ["Dataset", "cancer", "digits", "load", "synthetic_one", "synthetic_two", "toy"]
