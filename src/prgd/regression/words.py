"""What users of other tools write, and the line to type here instead."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_WORDS = {  # arguments of R, statsmodels and scikit-learn -> the line to type
    **dict.fromkeys(("weights", "freq_weights", "sample_weights"), "{}, sample_weight=weights)"),
    **dict.fromkeys(("data", "formula"), "separability.from_formula('y ~ x1 + x2', data)"),
    **dict.fromkeys(("endog", "exog"), "separability(exog, endog)"),
    **dict.fromkeys(("method", "C"), "{}): no verdict depends on it"),
    "penalty": "{}).fit('firth'): no verdict depends on it, and a fit does",
    "offset": "{}).fit(offset=offset): no verdict depends on it, and a fit does",
    "exposure": "{}).fit(offset=np.log(exposure)): no verdict depends on it, and a fit does",
    **dict.fromkeys(("subset", "missing", "na_action"), "{}) with the rows to keep, such as data.dropna()"),
    "intercept": "{}, fit_intercept=False)",
}


def answers(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that answers the arguments of other tools with the line to type.

    Examples
    --------
    >>> @answers
    ... def separability(X, y): ...
    >>> separability([[1.0]], [1], weights=[2.0])
    Traceback (most recent call last):
    TypeError: separability takes no weights=. Call separability(X, y, sample_weight=weights).
    """
    door, accepted = function.__name__, list(signature(function).parameters)
    call = f"{'' if door == 'separability' else 'separability.'}{door}({', '.join(accepted[:2])}"

    @wraps(function)
    def answered(*args: P.args, **keywords: P.kwargs) -> T:
        given = {**dict(zip(accepted, args, strict=False)), **keywords}
        first = given.get(accepted[0], given.get("formula"))
        if line := _line(door, first, given.get("y", given.get("data"))):
            got = repr(first) if isinstance(first, str) else type(first).__name__
            raise TypeError(f"{door} takes {' and '.join(accepted[:2])}; got {got}. Call {line}.")
        for word in [word for word in keywords if word in _WORDS and word not in accepted]:
            line = _WORDS[word] if accepted[1:] else "{}), which reads it from the model"
            raise TypeError(f"{door} takes no {word}=. Call {line.format(call)}.")
        return function(*args, **keywords)

    return answered


def _line(door: str, first: Any, second: Any) -> str:
    """Return the line to type if the first argument belongs elsewhere; empty if it does not."""
    if hasattr(first, "get_params") and hasattr(first, "fit"):
        X = "model[:-1].transform(X)" if type(first).__name__ == "Pipeline" else "X"
        return f"separability({X}, y) with the data that it is fitted to"
    if type(first).__module__.startswith("statsmodels.") and door != "from_statsmodels":
        return "separability.from_statsmodels(results)"
    text = second if isinstance(second, str) and not isinstance(first, str) else first
    if not isinstance(text, str) or (text is first and door == "from_formula"):
        return ""
    if "~" in text:
        return f"separability.from_formula({text!r}, data)"
    if text is first:
        return f"separability(prgd.open_rows({text!r}, y))"
    return f"separability(data.drop(columns={text!r}), data[{text!r}])"
