"""scikit-learn estimators: they check and split the data, and call `prgd.max_margin` or `prgd.run`."""

from prgd.estimators.max_margin import MaxMarginClassifier
from prgd.estimators.prgd_classifier import PRGDClassifier

__all__ = ["MaxMarginClassifier", "PRGDClassifier"]
