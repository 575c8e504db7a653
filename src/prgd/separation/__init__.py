"""Separability: a verdict with its proof."""

from prgd.separation.entrances import separability
from prgd.separation.verdict import Separability, Verdict

__all__ = ["Separability", "Verdict", "separability"]
