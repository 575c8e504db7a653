"""`separability` with its other entrances, from a formula and from statsmodels, as attributes.

So it stays a function to `help`, to documentation and to pickle, and a type checker knows the attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, cast

from prgd.separation import decide
from prgd.separation.formula import from_formula
from prgd.separation.statsmodels import from_statsmodels
from prgd.separation.verdict import Separability

P = ParamSpec("P")


class Entrances(Generic[P]):
    """What a type checker knows of a function that has `from_formula` and `from_statsmodels`."""

    from_formula = staticmethod(from_formula)
    from_statsmodels = staticmethod(from_statsmodels)

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> Separability:
        """Return the verdict."""
        raise NotImplementedError


def with_entrances(function: Callable[P, Separability]) -> Entrances[P]:
    """Return the function itself, with the other entrances as its attributes."""
    vars(function).update(from_formula=from_formula, from_statsmodels=from_statsmodels)
    return cast("Entrances[P]", function)


separability = with_entrances(decide.separability)
