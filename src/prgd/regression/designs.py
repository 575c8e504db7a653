"""What a formula learnt of its data, as text, and the design that it makes of other data by that."""

import ast
from typing import Any

import numpy as np

from prgd.core.checks import plain
from prgd.regression.formula import FormulaColumns, Parsed, features_of
from prgd.regression.formula_limits import names_in
from prgd.regression.separability import Regression


def learnt_by(read: Regression) -> str:
    """Return what a formula without offsets learnt of its data, for `design_again`.

    Examples
    --------
    >>> from prgd.regression.formula import read_formula
    >>> text, data = "y ~ scale(x) + g", {"y": ["a", "b"], "x": [1, 3], "g": ["u", "v"]}
    >>> read = read_formula(text, data, family="multinomial", is_python=False)
    >>> design_again(text, {"x": [2], "g": ["v"]}, learnt_by(read)).tolist()
    [[0.0, 1.0]]
    """
    (specs,) = read.design.args  # type: ignore[union-attr]
    factors: dict[str, list[Any]] = {}
    for expression, levels in read.factors.items():
        name = expression.strip("`")
        names = [name] if name in read.variables else sorted(names_in(expression)[0])
        factors |= {name: list(levels) for name in names}
    return repr((plain(dict(specs.rhs.transform_state), float), factors))


def design_again(formula: str, data: Any, learnt: str, *, is_full: bool = False) -> Any:
    """Return the features that a formula of known functions makes of other data; the response may lack."""
    import pandas as pd
    from formulaic import ModelSpec, ModelSpecs

    table, response = FormulaColumns(data), formula.partition("~")[0].strip(" `")
    parsed = Parsed.read(formula, [*dict.fromkeys([*table.names, response])], False)
    frame = table.frame([name for name in parsed.used if name != response], parsed.looked_up)
    state, factors = ast.literal_eval(learnt)
    for name, levels in factors.items():
        if other := sorted({*frame[name]} - {*levels}):
            rows = np.flatnonzero(np.isin([*frame[name]], other))
            raise ValueError(
                f"Column {name!r}: {other[0]!r} is none of those of the fit, {', '.join(map(str, levels))}. "
                f"Drop such rows ({rows.size:,}; the first is row {rows[0]}, from 0), or fit again with them."
            )
        frame[name] = pd.Categorical(frame[name], categories=levels)
    spec = ModelSpec(formula=parsed.formula.rhs, transform_state=state)
    found = parsed.matrices(ModelSpecs(rhs=spec), frame, is_full)
    return features_of(found.rhs, parsed.has_intercept)[0]
