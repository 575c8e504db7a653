"""Regressions whose classes may separate: which coefficients are infinite, with the proof.

`separability` has `from_formula` and `from_statsmodels` as attributes, so that it stays a function to `help`,
to documentation and to pickle, and a type checker knows the attributes.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec, cast

from prgd.regression import separability as _module
from prgd.regression.fit import Fit
from prgd.regression.formula import from_formula
from prgd.regression.result import Separability
from prgd.regression.statsmodels import from_statsmodels

__all__ = ["Fit", "Separability", "separability"]

P = ParamSpec("P")


class _WithReaders(Generic[P]):
    """What a type checker knows of a function that has `from_formula` and `from_statsmodels`."""

    from_formula = staticmethod(from_formula)
    from_statsmodels = staticmethod(from_statsmodels)

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> Separability:
        """Return the verdict."""
        raise NotImplementedError


def _with_readers(function: Callable[P, Separability]) -> _WithReaders[P]:
    vars(function).update(from_formula=from_formula, from_statsmodels=from_statsmodels)
    return cast("_WithReaders[P]", function)


separability = _with_readers(_module.separability)
