"""The library's own exceptions and warnings, and what is said of packages that are missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any


class NotSeparableError(ValueError):
    """No hyperplane separates the two classes, where one is needed.

    Attributes
    ----------
    weights : ndarray or None
        Gordan's proof: weights p >= 0 of sum 1 with ``Z.T @ p = 0`` (to rounding), when known.
    """

    def __init__(self, message: str, weights: object = None) -> None:
        super().__init__(message)
        self.weights = weights


class CrossedBoundsError(ArithmeticError):
    """A lower bound on gamma_star exceeds an upper one, so one of them is false.

    Both are rounded outward, so this happens only if the rows changed between two passes, or if prgd or the
    machine's arithmetic has a defect.
    """

    def __init__(self, lower: float, upper: float) -> None:
        super().__init__(
            f"The lower bound {lower!r} on gamma_star exceeds the upper bound {upper!r}. Was the data set "
            "changed during the run? If not, this is a defect of prgd: please report it with the data."
        )
        self.lower, self.upper = lower, upper

    def __reduce__(self) -> tuple[type[CrossedBoundsError], tuple[float, float]]:
        return CrossedBoundsError, (self.lower, self.upper)


class RowsLostError(OSError):
    """Rows that a run was reading are gone: a file vanished or changed, or all workers were lost.

    Attributes
    ----------
    result : Result or None
        What `prgd.run` had reached, set by it: save it, and go on with ``run(..., resume=result)``.
    w : ndarray of shape (d,) or None
        The last w that cluster rows were summed at: a warm start, e.g. ``max_margin(rows, w0=error.w)``.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.result: Any = None
        self.w: Any = None


class ZeroRowWarning(UserWarning):
    """Some rows are zero: they have margin 0 for every w, so no margin through the origin exists."""


class NotSeparableWarning(UserWarning):
    """``fit`` found no hyperplane that separates the classes, and returned a classifier that errs.

    Attributes
    ----------
    classes : list
        The classes that were not separated from the others; of two classes, the second one.
    weights : csr_array of shape (len(classes), n) or None
        For each of them weights p >= 0 of sum 1. Where it is proven, ``Z.T @ p = 0`` (to rounding), which
        no separator allows (Gordan).
    upper_bound : ndarray of shape (len(classes),) or None
        ``||Z.T @ p||``: no separator has a larger margin.
    is_proven : ndarray of bool or None
        False where no separator was found within the limit, though there may be one of a smaller margin.
    """

    def __init__(
        self,
        message: str,
        classes: Any = (),
        weights: Any = None,
        upper_bound: Any = None,
        is_proven: Any = None,
    ) -> None:
        super().__init__(message)
        self.classes, self.weights = classes, weights
        self.upper_bound, self.is_proven = upper_bound, is_proven


class NotFiniteError(ValueError):
    """An entry of X is NaN or infinite; ``row`` and ``column`` count from 0, and a column may have a name."""

    def __init__(self, row: int, column: int, name: str | None = None) -> None:
        shown = column if name is None else repr(name)
        super().__init__(
            f"X has an entry that is NaN or infinite, at row {row}, column {shown} "
            "(counting from 0). Remove the row, or fill the entry in, before fitting."
        )
        self.row, self.column, self.name = row, column, name

    def __reduce__(self) -> tuple[type[NotFiniteError], tuple[int, int, str | None]]:
        return NotFiniteError, (self.row, self.column, self.name)


def missing_package(what: str, package: str, extra: str) -> ModuleNotFoundError:
    """Return the error for a package that is not installed, with the commands that install it.

    prgd is on no package index, so its name alone would not be found.

    Examples
    --------
    >>> print(missing_package("The report", "jinja2", "report"))
    The report needs jinja2: pip install '.[report]' in a checkout of prgd, or pip install \
'FILE.whl[report]' with the wheel that prgd was installed from.
    """
    return ModuleNotFoundError(
        f"{what} needs {package}: pip install '.[{extra}]' in a checkout of prgd, or pip install "
        f"'FILE.whl[{extra}]' with the wheel that prgd was installed from.",
        name=package,
    )


def imported(module: str, what: str, extra: str) -> Any:
    """Return a module of a package that an extra installs; `missing_package` if the package is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package(what, module.partition(".")[0], extra) from error


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], *, needs: tuple[str, ...] = (), extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package that imports a module at its first use.

    Parameters
    ----------
    package : str, dotted name of the package.
    modules : mapping from modules inside of the package to their public names; "" names modules themselves.
    needs : tuple of str, packages without which the modules cannot be imported.
    extra : str, extra of prgd that installs them.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f"{package}.{homes[name] or name}")
        except ModuleNotFoundError as error:
            if error.name not in needs:
                raise
            raise missing_package(package, error.name, extra) from error
        return getattr(module, name) if homes[name] else module

    return get, lambda: sorted({*vars(sys.modules[package]), *homes})


def paper_hint(what: str) -> str:
    """Return the sentence on what prgd_paper adds and how it is installed; nothing where it is installed."""
    if any(point.value.startswith("prgd_paper") for point in entry_points(group=f"prgd.{what}")):
        return ""
    return f" More {what} come with prgd_paper, which is not installed: pip install ./paper in a checkout."
