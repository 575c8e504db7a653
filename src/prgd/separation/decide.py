"""`separability`: whether the classes separate and which coefficients are infinite, with the proof.

Simple checks, an iterative method, an interior point and exact arithmetic make proposals (`search`), and
`prgd.proofs` decides whether a proposal is a proof.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prgd.core.arithmetic import literal_fractions
from prgd.core.threads import single_blas
from prgd.problem.certificate import DualWeights
from prgd.proofs.lifted_rows import LiftedRows
from prgd.running.progress import tell_stage
from prgd.separation.cone_search import find_coefficients, undecided_coefficients
from prgd.separation.families import ModelRows, model_rows
from prgd.separation.near_relations import with_near_relations
from prgd.separation.row_labels import labels_of, with_labels
from prgd.separation.search import Search
from prgd.separation.verdict import INTERRUPTED, Separability, Verdict, with_evidence

_PANELS = 64  # parts in which a decomposition multiplies the columns


def separability(
    X: Any, y: Any = None, *, family: str = "binomial", fit_intercept: bool = True, sample_weight: Any = None
) -> Separability:
    r"""Say whether the classes separate and which coefficients of a regression are infinite, and prove it.

    With ``z_i = y_i (x_i, 1)`` and ``v = (w, b)``, exactly one is true:

    - ``separable``: some v has :math:`Z v > 0`;
    - ``quasi-separable``: none has, but some has :math:`Z v \ge 0` and :math:`Z v \ne 0`;
    - ``not separable``: some :math:`p > 0` has :math:`Z^\top p = 0` (Stiemke).

    Parameters
    ----------
    X : array, sparse matrix, data frame or Rows
        Dense or sparse, in memory, mapped or chunked. A data frame's column names are used in the
        explanation. The verdict is about these float64 numbers, taken literally. Large data are read in
        passes; only some of their rows are copied.
    y : array of shape (n,), or (n, 2) of counts: successes, failures
        The response. Of two labels the second in order (1, True) is the event; the order is that of a
        categorical if y is one. None if X is an engine that holds the labels.
    family : {"binomial", "multinomial", "poisson", "ordinal"}
        The model whose coefficients are asked about. The rows z_i of the other families stand in
        ``prgd.separation.families.model_rows``.
    fit_intercept : bool
        False asks for a hyperplane through the origin.
    sample_weight : array of shape (n,), optional
        Counts or other weights. Observations of weight 0 do not count; the size of the others changes
        nothing. Nor does an offset, so none is taken.

    Returns
    -------
    Separability
        ``print`` explains the verdict, ``coefficients`` has a word for each coefficient, and ``check`` proves
        all of them again.

    Raises
    ------
    ValueError
        If y does not suit the family (one class, three classes without multinomial, negative counts), a
        value is missing or not finite, or X holds numbers that float64 cannot; column and row are named.

    Notes
    -----
    Duplicate rows with opposite labels, or one feature that separates alone, are found in one pass, and an
    exact simplex method decides small problems. Then some steps of dual acceleration look for a separating
    direction, and a self-dual interior point for the partition into separated and boundary rows; of more than
    3,000 columns, or if its partition is not proven, HiGHS looks for it. Every proposal is proven with bounds
    on all rounding, or in integers. Ctrl-C returns ``undecided`` with the interval so far, or the
    verdict with the coefficients that are decided by then.

    See Also
    --------
    separability.from_formula : The same for a formula over a data frame: ``"HG ~ NV + PI + EH"``.
    separability.from_statsmodels : The same for a model or the results of statsmodels.

    References
    ----------
    Gordan (1873); Stiemke (1915); Goldman and Tucker (1956); Albert and Anderson (1984), On the existence
    of maximum likelihood estimates in logistic regression models; Konis (2007), the R package
    detectseparation.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [1.0, 2.0]]
    >>> found = separability(X, ["no", "yes", "no", "yes", "yes"])
    >>> print(found)
    quasi-separable: x0 is infinite; (Intercept) and x1 are finite.
      the event is yes, against no: a coefficient of +inf is for it.
      quasi-complete separation: a hyperplane has no row on its wrong side, but each such one passes
        through rows.
      rows strictly on their correct side: 1 (number 4); on the hyperplane: 4 (numbers 0, 1, 2, 3).
      the hyperplane uses x0 (+1).
      Found by an exact simplex method; proven in exact integer arithmetic.
    -----------------------------------
    coefficient  verdict  rows involved
    -----------------------------------
    (Intercept)  finite
    x0           +inf     1 (number 4)
    x1           finite
    -----------------------------------
    x0 is infinite: drop x0, or use Firth's penalty or a prior; (Intercept) and x1 can be estimated from
    the 4 limiting_rows alone.
    >>> found.check(X, ["no", "yes", "no", "yes", "yes"])
    True
    """
    _check_entrance(X)
    model = model_rows(X, y, family=family, fit_intercept=fit_intercept, sample_weight=sample_weight)
    return with_labels(decide_model(model), labels_of(X))


def _check_entrance(X: Any) -> None:
    """Raise ``TypeError`` for a formula or a model, which have entrances of their own."""
    is_model = type(X).__module__.startswith("statsmodels.")
    if is_model or isinstance(X, str):
        entrance = "from_statsmodels(results)" if is_model else "from_formula(formula, data)"
        raise TypeError(
            "separability takes arrays or a data frame of numbers, X and y; got "
            f"{type(X).__name__ if is_model else repr(X)}. Call separability.{entrance}."
        )


def decide_model(model: ModelRows) -> Separability:
    """Return the verdict on the rows of a model with those on its coefficients."""
    # Decompositions multiply a panel of columns at a time, and most products are as small.
    with single_blas(model.rows.n * model.rows.width**2 / _PANELS):
        return _with_coefficients(decide(model.rows), model)


def _with_coefficients(found: Separability, model: ModelRows) -> Separability:
    """Add the verdicts on the coefficients of a model to the verdict on its rows."""
    if found.verdict is Verdict.UNDECIDED:
        return with_evidence(found, model, undecided_coefficients(model.columns))
    v = found.proof.direction
    if v is None and found.coef is not None:
        v = literal_fractions(model.rows.lift(found.coef, found.intercept))
    tell_stage(f"{found.verdict}; the coefficients")
    partition = found.boundary_rows, v, found.dual_weights, found.proof
    try:
        evidence = find_coefficients(model.rows, model.columns, *partition)
    except KeyboardInterrupt:
        evidence = replace(undecided_coefficients(model.columns), is_interrupted=True)
    return with_near_relations(with_evidence(found, model, evidence), model, evidence)


def decide_by_weights(rows: LiftedRows, weights: DualWeights | None) -> Separability | None:
    """Return the verdict if dual weights that nearly balance the rows are enough to prove it."""
    search = Search(rows)
    found = None if weights is None else search.by_weights(weights)
    return None if found is None else search.result(found)


def decide(rows: LiftedRows) -> Separability:
    """Return the verdict on some rows."""
    tell_stage(f"{rows.n:,} rows of {rows.width:,} columns")
    search = Search(rows)
    try:
        found = search.find_proof() or search.best_bounds("No method found a proof.")
    except KeyboardInterrupt:
        found = search.best_bounds(INTERRUPTED)
        if found.how != INTERRUPTED:  # That no hyperplane separates strictly is proven already.
            found = found._replace(how=f"{found.how} {INTERRUPTED}")
    return search.result(found)
