"""Is there a hyperplane between two classes: a verdict with its proof."""

from prgd.separation.search import decide
from prgd.separation.verdict import Separation, Verdict

__all__ = ["Separation", "Verdict", "decide"]
