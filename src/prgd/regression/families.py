"""The rows whose cone decides which coefficients of a regression are infinite, for each family of models.

A step along v never lowers the likelihood of a model if ``z_i . v >= 0`` for some rows z_i that its family
tells: the recession cone. Each family is one function here, from the data to these rows; what follows is the
same for all of them. An offset is a constant within each observation, and drops out of every such condition.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from prgd.core.errors import NotFiniteError
from prgd.core.threads import physical_memory
from prgd.core.types import Array, Indices
from prgd.proofs.lifted_rows import LiftedRows
from prgd.regression.responses import Classes, Design, read_amounts, read_counts, response_name
from prgd.rows import Rows, as_rows
from prgd.rows.blocks import pair_rows, times_signs

Name = str | tuple[str, str]  # the name of a coefficient; ``(class, name)`` if each class has its own
FAMILIES = ("binomial", "multinomial", "poisson", "ordinal")
_ENTRY_BYTES = 12  # bytes of an entry of a CSR array: a float64 and a 32-bit column


@dataclass(frozen=True, eq=False)
class ModelRows:
    """The rows z_i of the recession cone ``{v : z_i . v >= 0}`` of a model, and what they stand for.

    Attributes
    ----------
    rows : LiftedRows
    family : str
    fit_intercept : bool
        Whether the model has an intercept, or thresholds. (``rows.fit_intercept`` says whether the rows are
        lifted, which is one way to have it.)
    names : tuple of names
        The names of the coefficients, in the order in which R decides which of them are aliased: the
        intercept first.
    columns : ndarray of int
        The column of z_i that belongs to each name.
    observations : ndarray of int or None
        The observation that each row comes from, in increasing order; None if row i is observation i.
    feature_names : tuple of str or None
        The names of the columns of X, by which another data frame is matched.
    classes : tuple of str
        The classes of a multinomial or ordinal response in their order, and of a binomial one of labels.
    rivals : ndarray of int or None
        Of a multinomial model the class, as its place in ``classes``, that each row compares with the class
        of its observation.
    codes : ndarray of int or None
        The class of each observation, as its place in ``classes``; None for numbers, counts and engines.
    n : int
        The number of observations, those of weight 0 included.
    weight : ndarray of shape (rows.n,)
        The weight of each row in the likelihood, times the number of successes or failures of counts.
    amounts : ndarray of shape (rows.n,) or None
        The response of a Poisson model; of binomial counts the number of each row.
    offset : ndarray of shape (n,) or None
        What the model adds to the linear predictor of each observation, on which no verdict depends.
    link : str
        The link of the model; the rows are the same for all.
    """

    rows: LiftedRows
    family: str
    fit_intercept: bool
    names: tuple[Name, ...]
    columns: Indices
    observations: Indices | None = None
    feature_names: tuple[str, ...] | None = None
    classes: tuple[str, ...] = ()
    rivals: Indices | None = None
    codes: Indices | None = None
    n: int = 0
    weight: Array = field(default_factory=lambda: np.empty(0))
    amounts: Array | None = None
    offset: Array | None = None
    link: str = "logit"


def model_rows(
    X: Any,
    y: Any = None,
    *,
    family: str = "binomial",
    fit_intercept: bool = True,
    sample_weight: Any = None,
    feature_names: tuple[str, ...] | None = None,
) -> ModelRows:
    r"""Return the rows of the recession cone of a regression.

    With ``x_i`` the features of an observation, the intercept's 1 included, the rows are

    - binomial: :math:`x_i` of a success and :math:`-x_i` of a failure; both if counts have both;
    - poisson: :math:`-x_i` of every observation, and :math:`x_i` too if :math:`y_i > 0`;
    - multinomial: :math:`x_i \otimes (e_{y_i} - e_j)` for each other class j, where the e of the first class
      is zero, since the first class is the reference;
    - ordinal (cumulative logit, :math:`P(y \le k) = F(\alpha_k - x \beta)`): :math:`\alpha_k - x_i \beta` of
      class k unless it is the last one, and :math:`x_i \beta - \alpha_{k-1}` unless it is the first one.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        For binomial labels also an engine (Rows) or a tensor.
    y : array of shape (n,), or (n, 2) for binomial counts: successes, failures
        Labels are sorted, or have the order of a categorical (pandas Categorical, polars Enum), of which
        categories without an observation are left out. The second of two labels is the success: 1, True.
        None if X is an engine that holds labels.
    family : {"binomial", "multinomial", "poisson", "ordinal"}
    fit_intercept : bool
    sample_weight : array of shape (n,), optional
        Observations of weight 0 do not count; how large the other weights are changes nothing.
    feature_names : tuple of str, optional
        The names of the columns of an array or a sparse matrix; those of a data frame by default.

    Returns
    -------
    ModelRows

    Raises
    ------
    ValueError
        If the response does not suit the family, or a value is missing; it names column and row.

    Notes
    -----
    There is no offset: it moves every linear predictor by a constant, and no condition above contains it.

    Memory: binomial labels need no copy of X. Counts and poisson copy one row of X for each z_i, dense or
    sparse as X is. Multinomial and ordinal rows are CSR arrays of 12 bytes an entry; of K classes there are
    fewer than ``2 (K - 1)`` entries for each one of X.

    References
    ----------
    Albert and Anderson (1984), for binomial and multinomial; Santos Silva and Tenreyro (2010) and Correia,
    Guimaraes and Zylkin (2019), for poisson; Geyer (2009), for the recession cone.

    Examples
    --------
    >>> X = [[1.0], [2.0], [3.0]]
    >>> model = model_rows(X, [0, 4, 0], family="poisson")
    >>> model.names, model.columns.tolist(), model.observations.tolist()
    (('(Intercept)', 'x0'), [1, 0], [0, 1, 1, 2])
    >>> model.rows.take(range(4))
    array([[-1., -1.],
           [ 2.,  1.],
           [-2., -1.],
           [-3., -1.]])
    >>> model_rows(X, ["a", "b", "c"], family="multinomial").names
    (('b', '(Intercept)'), ('b', 'x0'), ('c', '(Intercept)'), ('c', 'x0'))
    >>> model_rows(X, [1, 2, 3], family="ordinal").names
    ('1|2', '2|3', 'x0')
    """
    if family not in FAMILIES:
        raise ValueError(f"family must be binomial, multinomial, poisson or ordinal; got {family!r}.")
    is_binomial = family == "binomial"
    if isinstance(X, Rows) or hasattr(X, "cpu") or (is_binomial and (y is None or hasattr(y, "cpu"))):
        if not is_binomial:
            raise ValueError(
                f"family={family!r} needs X as an array, a sparse matrix or a data frame; got "
                f"{type(X).__name__}, which goes with labels of two classes."
            )
        rows = as_rows(X, y, sample_weight)
        weight = rows.labels.sample_weight
        design = Design(X, rows.feature_names, fit_intercept, np.empty(0))
        return _lifted(rows, design, family, n=rows.n, weight=weight if weight.size else np.ones(rows.n))
    if y is None:
        raise ValueError(f"family={family!r} needs y, the response; got None.")
    design = Design.read(X, fit_intercept, sample_weight, feature_names)
    if is_binomial and (len(shape := np.shape(y)) != 2 or shape[1] == 1):
        return _labelled(design, y)
    design.check_finite()  # LiftedRows would number other rows than the observations.
    build = {"binomial": _counts, "poisson": _poisson, "multinomial": _multinomial, "ordinal": _ordinal}
    return build[family](design, y)


def limiting_rows(model: ModelRows, boundary_rows: Indices) -> Indices:
    """Return the observations of the limiting model: those that keep at least one boundary row.

    All other observations are fitted perfectly in the limit, and say nothing about coefficients that stay
    finite.

    References
    ----------
    Geyer (2009), Likelihood inference in exponential families and directions of recession.

    Examples
    --------
    >>> model = model_rows([[1.0], [2.0], [3.0]], [0, 4, 0], family="poisson")
    >>> limiting_rows(model, np.array([1, 2, 3]))
    array([1, 2])
    """
    return boundary_rows if model.observations is None else np.unique(model.observations[boundary_rows])


def _lifted(rows: Rows, design: Design, family: str, **fields: Any) -> ModelRows:
    """Return the model whose rows are the labelled rows of an engine, the intercept in their last column."""
    fit_intercept, feature_names = design.fit_intercept, design.feature_names
    names = design.names(rows.d, has_intercept=fit_intercept)
    columns = np.roll(np.arange(len(names)), int(fit_intercept))
    try:
        lifted = LiftedRows(rows, None, fit_intercept=fit_intercept)
    except NotFiniteError as error:
        raise design.not_finite(error.row, error.column) from None
    return ModelRows(lifted, family, fit_intercept, names, columns, feature_names=feature_names, **fields)


def _labelled(design: Design, y: Any) -> ModelRows:
    """Return the rows of labels of two classes: X itself, and signs."""
    classes = design.classes(y, "binomial")
    signs = np.where(classes.codes == 1, 1, -1).astype(np.int8)
    # Which weights are 0 is all that matters; others would only slow the passes down.
    weight = None if design.weight.all() else design.weight > 0.0
    rows = as_rows(design.X, signs, weight, feature_names=design.feature_names)
    known = {"classes": classes.labels, "codes": classes.codes, "n": design.n, "weight": design.weight}
    return _lifted(rows, design, "binomial", **known)


def _counts(design: Design, y: Any) -> ModelRows:
    """Return the rows of counts: one of sign +1 for successes, one of sign -1 for failures."""
    one_value = (
        "y must hold successes and failures; in the rows that count, one of its columns is 0 throughout."
    )
    return _signed(design, read_counts(y, design.n), "binomial", one_value)


def _poisson(design: Design, y: Any) -> ModelRows:
    """Return the rows of a Poisson regression: those of counts with a failure in every observation."""
    amounts = read_amounts(y, design.n)
    has = np.column_stack([amounts > 0.0, np.ones(design.n)])
    model = _signed(design, has, "poisson", f"{response_name(y)} is 0 in every row that counts.")
    return replace(model, amounts=amounts if model.observations is None else amounts[model.observations])


def _signed(design: Design, counts: Array, family: str, one_value: str) -> ModelRows:
    """Return rows x_i of the observations with ``counts[i, 0] > 0``, and -x_i of those with ``counts[i, 1]``.

    ``one_value`` begins the error for data that lack one of the signs.
    """
    weight = design.weight[:, None] * counts
    has = weight > 0.0
    if not has.any(axis=0).all():
        raise ValueError(f"{one_value} Is this the response, and are all rows there?")
    observations, side = np.nonzero(has)
    is_whole = np.array_equal(observations, np.arange(design.n))
    X = design.X if is_whole else _take(design.X, observations)
    rows = as_rows(X, (1 - 2 * side).astype(np.int8), feature_names=design.feature_names)
    fields = {"observations": None if is_whole else observations, "n": design.n, "weight": weight[has]}
    return _lifted(rows, design, family, amounts=counts[has], **fields)


def _multinomial(design: Design, y: Any) -> ModelRows:
    """Return the rows ``x_i (x) (e_{y_i} - e_j)`` as CSR, without the block of the first class."""
    from scipy.sparse import csr_array, hstack

    classes, kept = design.classes(y, "multinomial"), design.counted
    own_names = design.names(design.X.shape[1], has_intercept=design.fit_intercept)
    X, codes, others = csr_array(_take(design.X, kept)), classes.codes[kept], len(classes.labels) - 1
    if design.fit_intercept:
        X = hstack([csr_array(np.ones((kept.size, 1))), X], format="csr")
    need, memory = 2.0 * others * X.nnz * _ENTRY_BYTES, physical_memory()
    if need > memory:
        raise ValueError(
            f"The rows of {others + 1} classes take {need / 1e9:.3g} GB; this machine has {memory / 1e9:.3g}."
            " Is y a class? Use family='ordinal' for ordered values, or merge classes that are rare."
        )
    rivals = np.tile(np.arange(others), kept.size)
    chosen, place = np.repeat(codes, others), np.repeat(np.arange(kept.size), others)
    rivals += rivals >= chosen  # each class but that of the observation, in order
    Z = pair_rows(_take(X, place), chosen, rivals, others + 1)[:, X.shape[1] :]
    names = tuple((label, name) for label in classes.labels[1:] for name in own_names)
    fields = {"names": names, "observations": kept[place], "rivals": rivals}
    return _explicit(design, Z, classes, family="multinomial", **fields)


def _ordinal(design: Design, y: Any) -> ModelRows:
    """Return the rows ``(e_k, -x_i)`` and ``(-e_{k-1}, x_i)`` of thresholds and coefficients as CSR."""
    from scipy.sparse import csr_array, hstack

    if not design.fit_intercept:
        raise ValueError(
            "family='ordinal' has a threshold between each two classes in place of an intercept; got "
            "fit_intercept=False. Leave it out."
        )
    classes, kept = design.classes(y, "ordinal"), design.counted
    codes, labels = classes.codes[kept], classes.labels
    place, side = np.nonzero(np.column_stack([codes < len(labels) - 1, codes > 0]))
    sign = (1 - 2 * side).astype(np.int8)
    pointers = np.arange(place.size + 1, dtype=_index_type(place.size))
    entries = sign.astype(np.float64), (codes[place] - side).astype(pointers.dtype), pointers
    thresholds = csr_array(entries, shape=(place.size, len(labels) - 1))
    features = times_signs(csr_array(_take(design.X, kept[place])), -sign)
    own_names = design.names(design.X.shape[1], has_intercept=False)
    names = *(f"{a}|{b}" for a, b in pairwise(labels)), *own_names
    Z = hstack([thresholds, features], format="csr")
    return _explicit(design, Z, classes, family="ordinal", names=names, observations=kept[place])


def _explicit(design: Design, Z: Any, classes: Classes, **fields: Any) -> ModelRows:
    """Return the model of rows that are z_i already, one column for each name in order."""
    return ModelRows(
        LiftedRows(Z, None, fit_intercept=False),
        n=design.n,
        weight=design.weight[fields["observations"]],
        fit_intercept=design.fit_intercept,
        columns=np.arange(Z.shape[1]),
        feature_names=design.feature_names,
        classes=classes.labels,
        codes=classes.codes,
        **fields,
    )


def _take(X: Any, index: Indices) -> Any:
    """Return a copy of some rows, which may repeat, of a dense or CSR design."""
    if isinstance(X, np.ndarray):
        return X[index]
    from scipy.sparse import csr_array

    entries = int(np.diff(X.indptr)[index].sum(dtype=np.int64))
    dtype = _index_type(max(entries, index.size))  # SciPy keeps that of X, and would count beyond its range
    pointers, columns = X.indptr.astype(dtype, copy=False), X.indices.astype(dtype, copy=False)
    return csr_array((X.data, columns, pointers), shape=X.shape)[index]


def _index_type(largest: int) -> type[np.signedinteger[Any]]:
    """Return the type of indices of a CSR array, 32 bits wide if it may be."""
    return np.int32 if largest < 2**31 else np.int64
