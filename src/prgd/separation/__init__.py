"""Is there a hyperplane between two classes: a verdict with its proof."""

from prgd.separation.verdict import Verdict

__all__ = ["Verdict"]
