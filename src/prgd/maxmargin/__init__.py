"""The certified maximum-margin solver."""

from prgd.maxmargin.batch import max_margin_batch
from prgd.maxmargin.batch_result import BatchResult
from prgd.maxmargin.soft import soft_margin
from prgd.maxmargin.solver import max_margin
from prgd.running.history import Round

__all__ = ["BatchResult", "Round", "max_margin", "max_margin_batch", "soft_margin"]
