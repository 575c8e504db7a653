"""The certified maximum-margin solver."""

from prgd.maxmargin.batch import BatchResult, max_margin_batch
from prgd.maxmargin.soft import soft_margin
from prgd.maxmargin.solve import Round
from prgd.maxmargin.solver import max_margin

__all__ = ["BatchResult", "Round", "max_margin", "max_margin_batch", "soft_margin"]
