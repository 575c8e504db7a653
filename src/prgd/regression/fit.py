"""The fit of a regression whose classes may separate: its table, how it is shown, and predictions."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from prgd.core.checks import plain
from prgd.core.files import atomic_write
from prgd.core.types import Array
from prgd.regression import summary
from prgd.regression.advice import listed, shown
from prgd.regression.coefficients import Behaviour
from prgd.regression.families import ModelRows
from prgd.regression.fitting import Estimate, Fitting, estimates
from prgd.regression.prediction import Prediction
from prgd.rows.exact import as_float

if TYPE_CHECKING:
    from prgd.regression.result import Separability

_WIDTH = 78  # characters of a line
_ROUNDING = 1e-8  # an estimate below this fraction of its standard error is shown as 0


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted regression: estimates, standard errors, profile intervals and tests, infinite ones included.

    ``found.fit()`` of a `prgd.Separability` makes it. ``print`` shows the table.

    Attributes
    ----------
    coefficients : tuple of Estimate
        For each coefficient ``name``, ``verdict`` (``finite``, ``+inf``, ``-inf``, ``either``, ``aliased``),
        ``estimate``, ``std_error``, the ends ``lower`` and ``upper`` of its profile interval, and
        ``statistic`` and ``p`` of the likelihood-ratio test that it is 0; NaN where there is none.
    family : str
    penalty : {None, "firth"}
    level : float or None
        The confidence level of the intervals; None if neither they nor the tests were asked for.
    log_likelihood : float
        The supremum of the log-likelihood; with a penalty, the log-likelihood at the estimates.
    n, df : int
        The number of observations that count, and of coefficients that are not aliased.
    classes : tuple of str
    notes : tuple of str
    """

    coefficients: tuple[Estimate, ...]
    family: str
    penalty: str | None
    level: float | None
    log_likelihood: float
    n: int
    df: int
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    _prediction: Prediction

    def predict(self, X: Any, *, offset: Any = None) -> Array:
        """Return the limits of the fitted probabilities of new rows, or of their rates in a Poisson model.

        Parameters
        ----------
        X : array or data frame
            The features, as `prgd.separability` was given them; of a verdict by ``from_formula``, or by a
            formula of statsmodels, a data frame with the columns of the formula.
        offset : array of shape (n,), optional
            By default that of a formula, else 0.

        Returns
        -------
        ndarray
            Of shape (n,): the probability of the event, or the rate. Of shape (n, number of classes) for
            multinomial and ordinal models. Rows on the side that separation decides have exactly 0 or 1 (a
            rate of 0, or infinity). NaN where the data do not determine the limit: where the likelihood
            approaches its supremum along paths of different limits, or a row breaks the relation by which a
            column is aliased.
        """
        design, own = self._prediction.design(X)
        given = own if offset is None else offset
        return self._prediction.of(design, _read_offset(given, len(design), self.family, "rows of X"))

    def to_dataframe(self) -> Any:
        """Return the table as a pandas data frame, a row for each coefficient."""
        return summary.frame_of([_fields(line) for line in self.coefficients])

    def to_json(self) -> str:
        """Return the fit as JSON; infinite numbers are the words +inf and -inf, and NaN is null."""
        return json.dumps(self.facts(), indent=1, allow_nan=False)

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the table as CSV, and write it to a file if one is named."""
        text, lines = io.StringIO(), self.facts()["table"]
        writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        if path is not None:
            with atomic_write(path, "w") as file:
                file.write(text.getvalue())
        return text.getvalue()

    def facts(self) -> dict[str, Any]:
        """Return what JSON holds."""
        names = ("family", "penalty", "level", "log_likelihood", "n", "df", "classes", "notes")
        table = [_fields(line) for line in self.coefficients]
        found = {**{name: getattr(self, name) for name in names}, "table": table}
        return cast("dict[str, Any]", plain(found, _word))

    def _sentences(self) -> list[str]:
        kind = "Firth's penalty" if self.penalty else "Maximum likelihood"
        numbers = f"n = {self.n:,}, df = {self.df}, log-likelihood {self.log_likelihood:.6g}"
        return [f"{kind}, {self.family}: {numbers}", *self.notes]

    def _cells(self) -> list[list[str]]:
        """Return the cells of the table, the head first."""
        level = [] if self.level is None else [f"from {100 * self.level:g} %", "to", "p"]
        rows = [["coefficient", "estimate", "std. error", *level]]
        for line in self.coefficients:
            rounded = 0.0 if abs(line.estimate) < _ROUNDING * line.std_error else line.estimate
            word = str(line.verdict) if math.isnan(line.estimate) else _number(rounded)
            p = "<0.0001" if line.p < 1e-4 else "" if math.isnan(line.p) else f"{line.p:.4f}"
            ends = [_number(line.lower), _number(line.upper), p] if level else []
            rows.append([shown(line.name), word, _number(line.std_error), *ends])
        return rows

    def __str__(self) -> str:
        rows = self._cells()
        longest, *widths = (max(len(row[k]) for row in rows) for k in range(len(rows[0])))
        left = min(longest, _WIDTH - sum(widths) - 2 * len(widths))
        text = []
        for name, *row in rows:
            cells = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            text += [name] * (len(name) > left)  # A long name has a line of its own.
            text.append(f"{name if len(name) <= left else '':{left}}  {cells}".rstrip())
        return summary.ruled(self._sentences(), text, [], _WIDTH)

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        marks = ["finite" if self.penalty else summary.mark(line.verdict) for line in self.coefficients]
        first, *rest = self._sentences()
        return summary.html_of(first, summary.html_table(head, rows, marks), rest)


def fit(s: Separability, penalty: str | None, offset: Any, level: float | None) -> Fit:
    """Return the fit of the model of a verdict; the arguments are those of `prgd.Separability.fit`."""
    model = _model(s, penalty, level)
    given = model.offset if offset is None else offset
    fitting = Fitting.of(s, model, _read_offset(given, model.n, s.family, "rows of the model"))
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            lines, beta, value = estimates(fitting, level, is_penalised=penalty is not None)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"The fit failed, since {error}. The verdict holds nevertheless. Check the offset, scale the "
            "columns, or drop some that are nearly combinations of others."
        ) from None
    n, df = int(np.unique(fitting.whole.group).size), int(fitting.kept.size)
    value += _constant(model, fitting)
    table = [Estimate(*line[:2], *map(float, line[2:])) for line in lines]
    notes, prediction = _notes(s, penalty, level, table), Prediction(s, beta, penalty is not None)
    return Fit(tuple(table), s.family, penalty, level, value, n, df, s.classes, tuple(notes), prediction)


def _model(s: Separability, penalty: str | None, level: float | None) -> ModelRows:
    """Return the rows of a verdict whose model can be fitted, or raise ``ValueError``."""
    near, link = s.nearly_aliased, "logit" if s.model is None else s.model.link
    is_open = s.verdict == "undecided" or Behaviour.UNDECIDED in s.coefficients.values()
    refusals = {
        f"penalty must be None or 'firth'; got {penalty!r}.": penalty not in (None, "firth"),
        f"level must be a number between 0 and 1, or None; got {level!r}.": not (
            level is None or (isinstance(level, float | np.floating) and 0.0 < level < 1.0)
        ),
        "fit needs the data, which a result that was copied to another process does not hold. Call "
        "separability again.": s.model is None,
        "fit needs columns that differ from combinations of others by more than rounding. Drop "
        f"{listed(near) if near else ''} and ask again.": bool(near),
        "fit needs a verdict on every coefficient, and some are undecided. Ask again with fewer columns, or "
        "without an interruption.": is_open,
        f"fit is for the links logit and log; the model has {link}, for which the verdict holds. Make a "
        "logit model (of OrderedModel: distr='logit'), and ask again.": link != "logit",
        "penalty='firth' is for binomial, multinomial and Poisson models; got an ordinal one. Leave the "
        "penalty out, or merge classes until two are left.": penalty is not None and s.family == "ordinal",
    }
    for why, is_so in refusals.items():
        if is_so:
            raise ValueError(why)
    return cast("ModelRows", s.model)


def _read_offset(offset: Any, n: int, family: str, what: str) -> Array:
    """Return an offset as float64, one number for each row."""
    if offset is not None and family == "multinomial":
        raise ValueError("An offset is for binomial, ordinal and Poisson models; got a multinomial one.")
    found = np.zeros(n) if offset is None else np.asarray(as_float(offset, "offset"), np.float64)
    if found.shape != (n,) or not np.isfinite(found).all():
        got = f"shape {found.shape}" if found.shape != (n,) else "some that are not finite"
        raise ValueError(f"offset must hold a finite number for each of the {n} {what}; got {got}.")
    return found


def _constant(model: ModelRows, fitting: Fitting) -> float:
    """Return the part of the log-likelihood that holds no coefficient, as R and statsmodels add it."""
    from scipy.special import gammaln

    whole = fitting.whole
    if model.family == "poisson":
        return -float(whole.weight @ gammaln(whole.amounts + 1.0))
    first, place, _ = whole.observations
    # Counts are numbers of trials; but of labels and of shares, as in R, the weights are.
    has_trials = np.bincount(place, whole.amounts).max(initial=0.0) > 1.0
    trials = whole.amounts if has_trials else whole.weight
    factor, totals = whole.weight / trials, np.bincount(place, trials)
    coefficients = factor[first] @ gammaln(totals + 1.0) - factor @ gammaln(trials + 1.0)
    return float(coefficients) if model.family == "binomial" else 0.0


def _notes(s: Separability, penalty: str | None, level: float | None, table: list[Estimate]) -> list[str]:
    """Return what a reader of the table should know about the model."""
    found = []
    if penalty is None and not s.limiting_rows.size:
        found.append("Separation is complete: every row is fitted perfectly, and no estimate is finite.")
    elif penalty is None and s.separated_rows.size:
        others = "others are fitted perfectly" if s.fitted_rows.size else "some of them lose classes"
        found.append(f"The limiting model has {s.limiting_rows.size:,} rows; {others}.")
        if Behaviour.FINITE not in s.coefficients.values():
            found.append("No coefficient has a finite estimate, but the fitted values of these rows do.")
    if level is not None:
        kind = "penalised profile" if penalty else "profile"
        found.append(f"Intervals and p are those of the {kind} likelihood ratio.")
        lost = [line.name for line in table if math.isnan(line.p) and line.verdict is not Behaviour.ALIASED]
        found += [f"Of {listed(lost)} it did not converge, so that cells are empty."] if lost else []
    return found


def _fields(line: Estimate) -> dict[str, Any]:
    numbers = dict(zip(line._fields[2:], line[2:], strict=True))
    return {**summary.name_fields(line.name), "verdict": str(line.verdict), **numbers}


def _word(value: float) -> float | str | None:
    """Return a number as JSON can hold it: infinite ones as words, and NaN as None."""
    return value if math.isfinite(value) else None if math.isnan(value) else f"{value:+}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(_word(value) or "")
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 or value == 0.0 else f"{value:.3e}"
