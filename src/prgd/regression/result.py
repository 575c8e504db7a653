"""The result of `separability`: its attributes, its check, and the witnesses of its coefficients."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from prgd.core.checks import printable
from prgd.core.threads import lazy
from prgd.core.types import Indices
from prgd.problem.problem import NO_ROWS
from prgd.regression import summary
from prgd.regression.advice import (
    KEPT,
    Involved,
    advice,
    infinite_names,
    listed,
    rows_involved,
    shown,
    single_outcome_references,
)
from prgd.regression.coefficients import Behaviour, Coefficients, Witness
from prgd.regression.families import ModelRows, Name, limiting_rows, model_rows
from prgd.regression.rules import Rule, find_rules
from prgd.rows.readers.columns import in_order
from prgd.separation.verdict import INTERRUPTED, Separation

if TYPE_CHECKING:
    from prgd.regression.fit import Fit

INTERRUPTED_LATE = "Interrupted before all coefficients were decided."
REPEATED_LABELS = "The labels of the data repeat: call data.reset_index(drop=True) before the model is made."


@dataclass(frozen=True, eq=False, repr=False)
class Separability(Separation):
    """A verdict on separability, and on each coefficient of a regression, with the objects that prove it.

    Attributes
    ----------
    verdict : Verdict
        - ``separable``: some (w, b) has ``y_i (<w, x_i> + b) > 0`` for all rows;
        - ``quasi-separable``: none has, but some has ``>= 0`` for all rows and ``> 0`` for some;
        - ``not separable``: neither, so the classes overlap;
        - ``undecided``: no proof was found; ``lower`` and ``upper`` are what is known.
    coef : ndarray of shape (d,) or None
        Normal w of the separating, or quasi-separating, hyperplane; None if there is none.
    intercept : float
    margin : float
        ``min_i y_i (<w, x_i> + b) / ||w||`` of this hyperplane, rounded down; 0 if quasi-separable and
        NaN if ``coef`` is None.
    dual_weights : ndarray of shape (n,) or None
        Gordan's weights p >= 0 of sum 1 with ``sum_i p_i y_i (x_i, 1) = 0`` (``y_i x_i`` without
        intercept): no hyperplane separates the rows of positive weight strictly. They are given whenever
        ``is_separable`` is False.
    residual : float
        Norm of that sum in float64; the proof shows that weights nearby make it exactly zero.
    lower, upper : float
        The interval that holds gamma_star, the largest margin (0 or less if not separable).
    separated_rows, boundary_rows : ndarray of int
        Rows strictly on their own side of some hyperplane that has no row on its wrong side; and all others.
        Rows of sample weight 0 do not count, and are in neither.
    features : ndarray of int
        Features of non-zero coefficient, those of largest coefficient times range first.
    feature_names : tuple of str or None
        Those of a data frame or a file.
    proof : Proof
        The exact objects behind the verdict.
    how : str
        The stage that found the verdict and the kind of its proof.
    family : str
        ``binomial``, ``multinomial``, ``poisson`` or ``ordinal``.
    coefficients : dict from name to Behaviour
        What becomes of each coefficient of the unpenalised regression: ``finite``, ``+inf``, ``-inf``,
        ``either`` (infinite, the data allow both signs), ``aliased`` (not identified: its column depends on
        columns before it) or ``undecided``. Empty if the verdict was asked for without them.
    max_margin_signs : dict from name to "+", "-" or "0"
        For each coefficient ``either``, its sign in the direction of maximum margin, which gradient descent
        and vanishing ridge follow (in the norm of all coefficients, the intercept included); "0" if it is
        zero or too small to tell. These signs are computed, not proven.
    limiting_rows : ndarray of int
        Observations that stay on the boundary: all finite coefficients are estimated from them (Geyer, 2009).
        Rows are counted from 0; ``limiting_labels`` has the labels of a data frame.
    row_labels : pandas Index, ndarray or None
        The labels of the rows of the model in the data; None if they are 0, 1, 2 and so on.
    nearly_aliased : tuple of str
        Columns that are combinations of earlier ones up to rounding. The verdicts take the numbers literally,
        so they may rest on that rounding; the notes have the combinations.
    notes : tuple of str
        What the user should know about the model, e.g. that its offset does not matter.
    classes : tuple of str
        The classes of the response in their order, if it has some: of two labels the second one is the event
        of the regression, and of more the first one is what the others are compared with.
    model : ModelRows or None
        The rows of the recession cone and the names of their columns; None in a copy that was pickled.
    """

    family: str = "binomial"
    coefficients: dict[Name, Behaviour] = field(default_factory=dict)
    max_margin_signs: dict[Name, str] = field(default_factory=dict)
    limiting_rows: Indices = field(default_factory=NO_ROWS.copy)
    nearly_aliased: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    row_labels: Any = None
    _evidence: Coefficients | None = None
    model: ModelRows | None = None
    _read: Callable[..., Any] | None = None
    _factors: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    _regression: Any = None  # the Regression that the verdict is on; none in a copy that was pickled

    def witness(self, name: Name) -> Witness:
        """Return the objects that prove the verdict on a coefficient, with exact numbers.

        The rows are those of the model (``model.rows``), and so are the columns: of a binomial model the
        observations, and the features followed by the intercept.
        """
        if self._evidence is None or self.model is None:
            raise ValueError(
                "A witness needs the data, which a result that was copied to another process does not hold. "
                "Call separability again."
            )
        if name not in self.coefficients:
            known = listed(list(self.coefficients))
            raise KeyError(f"No coefficient is called {name!r}; the names are {known}.")
        column = int(self.model.columns[self.model.names.index(name)])
        return self._evidence.witness(column, self.model, self)

    def __getstate__(self) -> dict[str, Any]:
        # The data stay where they are, so what is computed from them goes along.
        relations = summary.relations(self, list(self.coefficients), summary.MAX_LINES)
        computed = "fitted_rows", "involved", "references", "rules"
        known = {name: getattr(self, name) for name in computed}
        return {**vars(self), **known, "relations": relations, "model": None, "_regression": None}

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.how.endswith((INTERRUPTED, INTERRUPTED_LATE))

    def check(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> bool:
        """Prove the verdicts once more, from the stored objects and the data alone.

        Parameters
        ----------
        X, y, sample_weight
            What `separability` was given; the columns of a data frame are matched by name. Of a verdict by
            ``from_formula`` X is the data frame, and by ``from_statsmodels`` the model, both without y. Their
            design matrix without the intercept, and a response, will do as well.

        Returns
        -------
        bool
            False if the data differ, or if a stored number was changed so that nothing is proven.
            Of an undecided result the lower bound is checked, and the dual weights if it has some.
        """
        model = self._model_of(X, y, sample_weight)
        return self.check_rows(model.rows) and self._check_coefficients(model)

    def _model_of(self, X: Any, y: Any, sample_weight: Any) -> ModelRows:
        """Return the rows of data that are given as those of the verdict were."""
        if self._read is not None and y is None:
            given = self._read(X) if sample_weight is None else self._read(X, sample_weight=sample_weight)
            found: ModelRows = given.model()
            return found
        names = self.feature_names
        X = in_order(X, names)
        width = len(names or ()) if self._read is None else int(np.prod(np.shape(X)[1:]))
        if names is not None and width != len(names):
            raise ValueError(
                "check needs the data frame or the model that the verdict is on, or a matrix with the "
                f"columns {listed(names)}, without the intercept; got {width} in place of {len(names)}."
            )
        return model_rows(
            X, y, family=self.family, fit_intercept=self.fit_intercept, sample_weight=sample_weight
        )

    def _check_coefficients(self, model: ModelRows) -> bool:
        if self._evidence is None:
            return not self.coefficients
        stated = list(self.coefficients.values())  # Names of a formula are not those of X.
        columns = model.columns.tolist()
        if stated != [self._evidence.behaviours.get(j) for j in columns]:
            return False
        named = dict(zip(columns, self.coefficients, strict=True))
        either = {name for name, word in self.coefficients.items() if word is Behaviour.EITHER}
        signs = {named[j]: sign for j, sign in self._evidence.max_margin_signs.items() if j in named}
        if signs != self.max_margin_signs or not (signs.keys() <= either and {*signs.values()} <= {*"+-0"}):
            return False
        if not np.array_equal(self.limiting_rows, limiting_rows(model, self.boundary_rows)):
            return False
        return self._evidence.check(model, self)

    def name(self, feature: int) -> str:
        """Return the name of a column of the rows: that of its coefficient, or ``x0``, ``x1`` and so on."""
        if self.family in ("multinomial", "ordinal"):  # Their rows have a column for each coefficient.
            return shown(list(self.coefficients)[feature])
        return f"x{feature}" if self.feature_names is None else self.feature_names[feature]

    @lazy
    def fitted_rows(self) -> Indices:
        """Observations without a boundary row, which are fitted perfectly in the limit."""
        if self.model is None or self.model.observations is None:
            return self.separated_rows
        return np.setdiff1d(self.model.observations[self.separated_rows], self.limiting_rows)

    @property
    def limiting_labels(self) -> Any:
        """The labels of the limiting rows: ``data.loc[found.limiting_labels]`` selects them in a data frame.

        Arrays have no labels, so these are row numbers of them. Rows that statsmodels has left out (missing
        values, ``subset=``) are accounted for. Labels that repeat raise ``ValueError``.
        """
        if self.row_labels is None:
            return self.limiting_rows
        if not is_unique(self.row_labels):
            raise ValueError(REPEATED_LABELS)
        return self.row_labels[self.limiting_rows]

    @lazy
    def involved(self) -> dict[Name, Involved]:
        """For each infinite coefficient the rows that are separated and in which its column is not zero.

        If it is zero in all of them, those whose weights prove its sign, by way of other columns; if it may
        have either sign, all separated ones.
        """
        if self.model is None:
            return {}
        found = rows_involved(self.model, self.separated_rows, infinite_names(self))
        places = dict(zip(self.model.names, self.model.columns.tolist(), strict=True))
        proofs = {} if self._evidence is None else self._evidence.memberships
        for name in [name for name, involved in found.items() if not involved.total]:
            proof = proofs.get(places[name])
            rows = self.separated_rows if proof is None else proof.rows
            if self.model.observations is not None:
                rows = np.unique(self.model.observations[rows])
            found[name] = Involved(rows.size, tuple(rows[:KEPT].tolist()))
        return found

    @lazy
    def rules(self) -> tuple[Rule, ...]:
        """True sentences on the cells of factors, and the ranges of numbers, that are separated.

        Each says that all rows which meet some conditions have one outcome; ``rules[0].holds(data)`` tells
        which rows those are. If levels of factors alone separate rows, the rules cover all of these. Rules
        with thresholds of numbers are given only if few of them cover all others, and none for large data.
        """
        return find_rules(self)

    @lazy
    def references(self) -> dict[str, tuple[Any, Any]]:
        """Factors whose reference level has one outcome alone: that level, and another to take instead."""
        return single_outcome_references(self)

    @lazy
    def relations(self) -> dict[Name, dict[Name, Fraction]]:
        """For each aliased coefficient the other columns, by their names, whose combination its column is."""
        return summary.relations(self, list(self.coefficients))

    @property
    def advice(self) -> str:
        """What to do next about infinite and aliased coefficients, in one sentence that names them."""
        return advice(self)

    def fit(self, penalty: str | None = None, *, offset: Any = None, level: float | None = 0.95) -> Fit:
        """Fit the regression: the limiting model that a separated one has, or Firth's.

        Parameters
        ----------
        penalty : {None, "firth"}
            None maximises the likelihood in the extended sense: infinite coefficients are infinite, with the
            finite end of their profile interval, and all others are estimated from the limiting model.
            Without separation that is the ordinary fit. ``"firth"`` adds Jeffreys' prior, by which all are
            finite.
        offset : array of shape (n,), optional
            What is added to the linear predictor of each row; by default that of the model of statsmodels, or
            of the formula.
        level : float or None
            The confidence level of the profile intervals. None leaves out intervals and tests, which take a
            fit for each coefficient or more.

        Returns
        -------
        Fit
            Its ``print`` is a table for a paper; ``predict`` gives the limits of the fitted probabilities.

        Raises
        ------
        ValueError
            If the verdict is undecided, the link is not logit or log, the penalty is not for the family, or
            the information is singular up to rounding. The verdict holds nevertheless.

        References
        ----------
        Barndorff-Nielsen (1978) and Geyer (2009), the completion of exponential families; Albert and Anderson
        (1984); Firth (1993); Heinze and Schemper (2002), profile intervals with Firth's penalty; Kosmidis and
        Firth (2021), its estimates are finite.

        Examples
        --------
        >>> from prgd import separability
        >>> X = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [1.0, 2.0]]
        >>> fitted = separability(X, [0, 1, 0, 1, 1]).fit()
        >>> print(fitted)
        Maximum likelihood, binomial: n = 5, df = 3, log-likelihood -2.34749
        The limiting model has 4 rows; others are fitted perfectly.
        Intervals and p are those of the profile likelihood ratio.
        ------------------------------------------------------------
        coefficient  estimate  std. error  from 95 %      to       p
        ------------------------------------------------------------
        (Intercept)   -2.2705      2.9344   -10.7298  2.8766  0.3976
        x0               +inf                -1.8751    +inf  0.2214
        x1             0.9082      1.0852    -0.9598  4.0108  0.3565
        ------------------------------------------------------------
        >>> fitted.predict([[1.0, 2.5], [0.0, 2.5]])
        array([1. , 0.5])
        """
        from prgd.regression.fit import fit

        return fit(self, penalty, offset, level)

    def to_dataframe(self) -> Any:
        """Return the table of all coefficients as a pandas data frame."""
        return summary.as_frame(self)

    def to_json(self) -> str:
        """Return the verdict, all coefficients and the dual weights as JSON, as the command line does."""
        return json.dumps(summary.facts(self), indent=1, allow_nan=False)

    def __str__(self) -> str:
        return printable(summary.as_text(self))

    def _repr_html_(self) -> str:
        return printable(summary.as_html(self))


def is_unique(labels: Any) -> bool:
    """Say whether the labels of rows, a pandas Index or an array of numbers, are all different."""
    return isinstance(labels, np.ndarray) or bool(labels.is_unique)
