"""Algorithms, one file each: a file in this folder is found by its presence.

The stem of the file is the algorithm's name on the command line (``dual_acceleration.py`` is
``dual-acceleration``), and the file defines one dataclass of that name without underscores, in any case
(``DualAcceleration``). The fields of the dataclass are the options of ``prgd run --algorithm NAME``.

Other packages add algorithms by the entry point ``prgd.algorithms``, which names a mapping from such names to
classes; `find_algorithm`, the command line and ``prgd.algorithms.NAME`` find these too.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from prgd.algorithms.base import Algorithm as Algorithm
from prgd.algorithms.base import State as State
from prgd.core.checks import unknown
from prgd.core.errors import paper_hint as _paper_hint

if TYPE_CHECKING:  # At run time `discover` finds these names; a type checker needs them in writing.
    from prgd.algorithms.dual_acceleration import DualAcceleration as DualAcceleration
    from prgd.algorithms.gd import GD as GD
    from prgd.algorithms.loss_scaled_gd import LossScaledGD as LossScaledGD
    from prgd.algorithms.ngd import NGD as NGD
    from prgd.algorithms.prgd import PRGD as PRGD
    from prgd.algorithms.progressive_newton import ProgressiveNewton as ProgressiveNewton
    from prgd.algorithms.steepest_descent import SteepestDescent as SteepestDescent


def discover(package: str) -> dict[str, Any]:
    """Return the algorithm of each file of a package, by its name on the command line."""
    found = {}
    for stem in (module.name for module in iter_modules(import_module(package).__path__)):
        if stem == "base" or stem.startswith("_"):
            continue
        module = import_module(f"{package}.{stem}")
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        named = [value for value in classes if value.__name__.lower() == stem.replace("_", "").lower()]
        if len(named) != 1:
            raise ImportError(
                f"{module.__file__} must define one algorithm whose class name is "
                f"{stem.replace('_', '')!r} in any case, as the file is named; found {len(named)}."
            )
        found[stem.replace("_", "-")] = named[0]
    return found


_OWN = discover(__name__)
globals().update({algorithm.__name__: algorithm for algorithm in _OWN.values()})


@cache
def all_algorithms() -> dict[str, Any]:
    """Return the algorithms of this folder and of the packages that are installed beside it, by name."""
    others = [point.load() for point in entry_points(group="prgd.algorithms")]
    return {name: found for algorithms in (_OWN, *others) for name, found in algorithms.items()}


def find_algorithm(name: str) -> Any:
    """Return the algorithm of that name, e.g. ``"dual-acceleration"``, in any case.

    Raises
    ------
    ValueError
        If there is no such algorithm; the message names the nearest ones.
    """
    key = name.lower().replace("_", "-")
    if key not in all_algorithms():
        raise ValueError(f"{unknown('algorithm', name, all_algorithms())}{_paper_hint('algorithms')}")
    return all_algorithms()[key]


if not TYPE_CHECKING:  # With a __getattr__, a type checker would take any name as known.

    def __getattr__(name: str) -> Any:
        """Return an algorithm of another package by the name of its class."""
        if name[:1].isupper():
            for algorithm in all_algorithms().values():
                if algorithm.__name__ == name:
                    return algorithm
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
