"""scikit-learn estimators: they check and split the data, and call `prgd.max_margin` or `prgd.run`.

`prgd.estimators.model`, which the command line uses, does without scikit-learn, which is slow to load: so the
estimators are imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prgd.estimators.max_margin import MaxMarginClassifier
    from prgd.estimators.prgd_classifier import PRGDClassifier

__all__ = ["MaxMarginClassifier", "PRGDClassifier"]
_FILES = {"MaxMarginClassifier": "max_margin", "PRGDClassifier": "prgd_classifier"}

if not TYPE_CHECKING:  # a type checker would take any name as known

    def __getattr__(name: str) -> Any:
        """Import an estimator when it is asked for."""
        if name in _FILES:
            return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
