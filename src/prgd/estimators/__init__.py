"""scikit-learn estimators: they check and split the data, and call `prgd.max_margin` or `prgd.run`.

`prgd.estimators.model`, which the command line uses, does without scikit-learn, which is slow to load: so the
estimators are imported when they are asked for.
"""

from typing import TYPE_CHECKING

from prgd.core.errors import lazy_names

if TYPE_CHECKING:
    from prgd.estimators.max_margin import MaxMarginClassifier
    from prgd.estimators.prgd_classifier import PRGDClassifier

__all__ = ["MaxMarginClassifier", "PRGDClassifier"]
_FILES = {"max_margin": ("MaxMarginClassifier",), "prgd_classifier": ("PRGDClassifier",)}

if not TYPE_CHECKING:  # a type checker would take any name as known
    __getattr__, __dir__ = lazy_names(__name__, _FILES)
