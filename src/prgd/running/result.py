"""Result: what a run or a solver gives back, saved and loaded without pickle."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.arithmetic import LARGEST
from prgd.core.errors import ZeroRowWarning
from prgd.core.files import OtherFileError, read_saved, whole_file, write_saved
from prgd.core.threads import lazy
from prgd.core.types import Array, Indices, Intercept
from prgd.norms import as_norm
from prgd.problem import Problem
from prgd.problem.certificate import SOFT, Certificate, Check, DualWeights, quantity_of
from prgd.proofs.hyperplanes import prove_again
from prgd.proofs.slacks import prove_soft_again, soft_cosine
from prgd.rows.labels import check_labels
from prgd.rows.readers.columns import in_order
from prgd.running.history import History, Record, Status
from prgd.running.scores import classify, scores_of

FORMAT = "prgd-result-2"
MODEL_FORMAT = "prgd-model-2"  # several results, see prgd.estimators.model
_OPTION_FIELDS = ("fit_intercept", "loss", "norm", "multi_class")  # what is asked of the rows
_JSON_FIELDS = ("t", "n", "algorithm", "problem", "scale", "C", *_OPTION_FIELDS)  # saved as text
_SOFT_IN_WORDS = (
    "1 / sqrt(2 F) for the smallest F = ||w||^2 / 2 + C (weighted sum of squared slacks); not a distance"
)


@dataclass(frozen=True, eq=False)
class Result:
    r"""The outcome of `prgd.run` and of `prgd.max_margin`: a hyperplane and a certificate of its margin.

    .. math:: \gamma(w) = \min_i y_i (\langle w, x_i\rangle + b) / \|w\| \le \gamma^\star \le \|Z^\top p\|_*

    Attributes
    ----------
    w : ndarray of shape (d,), or (K, d) of a joint problem of K classes
        The last iterate. The hyperplane of largest margin is ``coef``, ``intercept``.
    status : Status
    t : int
        Steps taken, over all resumed parts; rounds of the working set for `max_margin`.
    certificate : Certificate
        Best lower and upper bound on gamma_star seen, and the witnesses of both.
    history : History
    passes : float
        Passes over the rows, fractions for parts of them.
    state : dict
        What the algorithm needs to go on, beside w: ``run(problem, algorithm, resume=result, ...)``.
    algorithm, problem : str
        Their descriptions.
    n : int
        Number of rows.
    fit_intercept : bool
    loss, norm, scale : str
        The options of the `Problem`: ``norm`` measures the margin, ``scale`` the step sizes of `prgd.run`.
    multi_class : str or None
        ``"joint"`` if ``coef`` has a row, and ``intercept`` a number, for each class.
    classes : ndarray of labels, or None if the rows were z_i
    feature_names : tuple of str or None
        The names of the columns, in the order of ``coef``; None if the data had none.
    origin : str or callable
        The fingerprint of the data and options, or a function that returns it.
    C : float
        Price of the squared slacks of `prgd.soft_margin`; infinite for a hard margin. With a finite C all
        bounds are about the margin of the rows extended by ``e_i / sqrt(2 C)``.
    """

    w: Array
    status: Status
    t: int
    certificate: Certificate
    history: History = field(repr=False)
    passes: float = math.nan
    state: dict[str, Any] = field(repr=False, default_factory=dict)
    algorithm: str = ""
    problem: str = ""
    n: int = 0
    fit_intercept: bool = False
    loss: str = "exponential"
    norm: str = "l2"
    scale: str = "none"
    multi_class: str | None = None
    classes: npt.NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = field(repr=False, default=None)
    origin: str | Callable[[], str] = field(repr=False, default="")
    C: float = math.inf

    @property
    def problem_in_words(self) -> str:
        """What was solved: the norm of the margin, the intercept, and the scaling, which no solver does."""
        kind = "with an unpenalised intercept" if self.fit_intercept else "without an intercept"
        if self.multi_class == "joint":
            kind = f"{len(self.w)} classes jointly, {kind}{' for each' if self.fit_intercept else ''}"
        margin = "largest margin" if math.isinf(self.C) else f"soft margin (squared hinge, C = {self.C:.6g})"
        return f"{margin} in the {self.norm} norm, {kind}, columns as given (not scaled)"

    def __str__(self) -> str:
        lines: dict[str, Any] = {"problem": self.problem_in_words, "status": self.status}
        lines["margin"] = self.certificate
        lines |= {SOFT: _SOFT_IN_WORDS} if math.isfinite(self.C) else {}
        lines |= {"cosine to the exact w": self.cosine_in_words} if self.cosine > 0.0 else {}
        return "\n".join(f"{name}: {value}" for name, value in lines.items())

    def __repr__(self) -> str:
        return f"Result({self.status.name}, {self.certificate}, {self.problem}, {self.algorithm}, t={self.t})"

    @property
    def margin(self) -> float:
        """The certified lower bound on gamma_star: the margin of ``coef``, ``intercept``."""
        return self.certificate.lower

    @property
    def upper_bound(self) -> float:
        """The certified upper bound on gamma_star."""
        return self.certificate.upper

    @property
    def gap(self) -> float:
        """The certified relative gap."""
        return self.certificate.gap

    @property
    def cosine(self) -> float:
        """A certified lower bound on the cosine between ``coef`` and that of the exact solution (l2).

        It is -1, which says nothing, if no hyperplane was found that separates, and in norms other than l2.
        """
        if self.norm != "l2":
            return -1.0
        return soft_cosine(self.certificate) if math.isfinite(self.C) else self.certificate.cosine

    @property
    def cosine_in_words(self) -> str:
        """The cosine, by its distance from 1 where all its first digits are nines."""
        cosine = self.cosine
        if cosine < 0.0:
            return "not known"
        return f"at least {cosine:.4f}" if cosine < 0.999 else f"at least 1 - {1.0 - cosine:.1e}"

    @lazy
    def _scale(self) -> float:
        # Functional margin 1, as a support vector machine has it; length 1 if nothing is separated.
        c = self.certificate
        if math.isfinite(self.C):
            return 1.0
        length = as_norm(self.norm)(self.w if c.w is None else c.w)
        has_room = c.lower > 1.0 / LARGEST and c.lower * length > 1.0 / LARGEST
        return 1.0 / (c.lower * length) if has_room else 1.0 / (length or 1.0)

    @lazy
    def coef(self) -> Array:
        """Normal of the hyperplane, scaled so that the smallest ``y_i f(x_i)`` is 1; w if C is finite."""
        c = self.certificate
        return (self.w if c.w is None else c.w) * self._scale

    @property
    def intercept(self) -> Any:
        """Intercept that goes with ``coef``, one for each class of a joint problem; 0 if none is fitted."""
        return self.certificate.intercept * self._scale

    @property
    def dual_weights(self) -> Array:
        """The positive weights p of the upper bound, for the rows in ``support``; empty if not known."""
        p = self.certificate.dual_weights
        return np.empty(0) if p is None else p.values

    @property
    def support(self) -> Indices:
        """The rows that carry the weights p of the upper bound, ascending; of K classes the pairs i K + j."""
        p = self.certificate.dual_weights
        return np.empty(0, np.int64) if p is None else p.indices

    @property
    def terms_per_row(self) -> int:
        """Dual weights of a row: one, or one for each of K classes of a joint problem, number i K + j."""
        return len(self.w) if self.multi_class == "joint" else 1

    @lazy
    def dual_coef(self) -> Any:
        """The weights p of all rows, or of all pairs of a joint problem, as a sparse row."""
        from scipy.sparse import csr_array

        rows = np.zeros(self.support.size, np.int64)
        shape = (1, self.n * self.terms_per_row)
        return csr_array((self.dual_weights, (rows, self.support)), shape=shape)

    @property
    def is_separable(self) -> bool | None:
        """True if the margin is positive, False if no hyperplane separates, None if neither is proven."""
        if math.isfinite(self.C):  # a soft margin proves neither
            return None
        # A positive margin below the floating range is stated as 0, and its witness is exact.
        if self.margin > 0.0 or self.certificate.exact_w is not None:
            return True
        return False if self.status in (Status.NOT_SEPARABLE, Status.QUASI_SEPARABLE) else None

    def decision_function(self, X: Any) -> Array:
        """Return ``<coef, x> + intercept`` of every row of X, in any form that `prgd.max_margin` takes.

        They are of shape (n,), positive for ``classes[1]``; of K classes jointly (n, K).
        """
        scores = scores_of(X, np.atleast_2d(self.coef), self.intercept, self.feature_names)
        return scores if self.multi_class == "joint" else scores.ravel()

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of every row of X; -1 and 1 if the result is of rows z_i, which have none."""
        classes = np.array([-1, 1]) if self.classes is None else self.classes
        return classify(self.decision_function(X), classes)

    def score(self, X: Any, y: Any) -> float:
        """Return the fraction of the rows of X whose class is predicted right."""
        return float(np.mean((found := self.predict(X)) == check_labels(y, found.size)))

    def check(self, X: Any, y: Any = None, sample_weight: Any = None) -> Check:
        """Prove both bounds again from the data and the witnesses; nothing of the solver is used.

        ``is_valid`` says that they prove the stated bounds, up to 1e-12 of the proven ones (1e-9 if the dual
        weights are computed again from a w, as for `prgd.run`, and 1e-11 for a soft margin), and that all
        else that is read, ``classes`` and ``w`` included, agrees. It is False if a bound has no witness, as
        the mean of dual vectors of `GameDynamics`. The columns of a data frame are matched by name.
        """
        X = in_order(X, self.feature_names)
        options: Any = {name: getattr(self, name) for name in _OPTION_FIELDS}
        is_soft, c = math.isfinite(self.C), self.certificate
        with warnings.catch_warnings():
            if is_soft:  # a row of zeros has a slack like others
                warnings.simplefilter("ignore", ZeroRowWarning)
            problem = Problem(X, y, sample_weight=sample_weight, scale="none", **options)
        with np.errstate(all="ignore"):  # a w of another origin may be of any size
            if is_soft:
                found = prove_soft_again(problem, self.C, c)
                is_valid = found.lower >= c.lower * (1.0 - 1e-11) and found.upper <= c.upper * (1.0 + 1e-11)
            else:
                found, is_valid = prove_again(problem, c)
            return Check(found, is_valid and self._agrees(problem, found))

    def _agrees(self, problem: Problem, found: Certificate) -> bool:
        """Say whether all that is read beside the certificate agrees with the data and what was found."""
        c, w, labels, given = self.certificate, self.w, self.classes, problem.classes
        is_run = self.history.columns == Record._fields  # a solver returns the witness instead
        return (
            (w.shape == problem.shape and bool(np.isfinite(w).all()) and self.n == problem.n)
            and (labels is None or given is None or np.array_equal(labels, given))
            and (found.lower >= 0.0 or not self.is_separable)
            and (self.upper_bound <= 0.0 or self.status not in (Status.NOT_SEPARABLE, Status.QUASI_SEPARABLE))
            and (self.gap < math.inf or self.status is not Status.CERTIFIED)
            and (self._has_last_margin(problem) if is_run else c.w is None or np.array_equal(w, c.w))
        )

    def _has_last_margin(self, problem: Problem) -> bool:
        """Say whether w has the margin of the last record, up to the roughest sums of any engine."""
        at, last = problem.at(self.w), self.history["margin"][-1:]
        error = abs(at.smallest_margin - float(np.nan_to_num(last).sum()) * at.length)
        agrees = (np.isfinite(last) == (at.length > 0.0)).all()  # w = 0 has no margin
        return bool(error <= 1e-3 * problem.max_norm * problem.coding.reach(self.w) and agrees)

    @lazy
    def fingerprint(self) -> str:
        """Hashes of rows, labels, weights and options, for `prgd.run` to be resumed; empty for a solver.

        After `prgd.run` without ``save``, one pass over the rows finds them when they are first asked for.
        """
        return self.origin() if callable(self.origin) else self.origin

    def __getstate__(self) -> dict[str, Any]:
        return to_arrays(self)  # arrays alone: pickle and skops read them, and they do not hold the data

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(from_arrays(state)))

    def check_fingerprint(self, other: str) -> None:
        """Raise ``ValueError`` unless ``other`` is the fingerprint of the same data and options."""
        if not self.fingerprint:
            raise ValueError(
                "This result has no record of its data, so no run can go on from it. Pass its w as w0."
            )
        parts = ("rows", "labels", "sample weights", "options of the algorithm")
        pairs = zip(parts, self.fingerprint.split("-"), other.split("-"), strict=True)
        if changed := [name for name, then, now in pairs if then != now]:
            raise ValueError(
                f"This result belongs to other {' and '.join(changed)} than those given, so its bounds "
                "would be false here. Give those of the run, or start anew."
            )

    def save(self, path: str | Path) -> None:
        """Write everything to an ``.npz`` file, whole or not at all; no pickle inside."""
        write_saved(path, to_arrays(self))

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a file that `save` wrote."""
        with whole_file(path, "prgd result file", "Run again"):
            return from_arrays(read_saved(path)[1])


def to_arrays(result: Result) -> dict[str, Any]:
    """Return the arrays that a file of the result holds."""
    c, history = result.certificate, result.history
    scalars = {k: v for k, v in result.state.items() if not isinstance(v, np.ndarray)}
    exact_w = None if c.exact_w is None else [f"{x.numerator:x}/{x.denominator:x}" for x in c.exact_w]
    meta = {
        "format": FORMAT,
        "exact_w": exact_w,
        "status": result.status.name,
        **{name: getattr(result, name) for name in _JSON_FIELDS},
        "feature_names": result.feature_names,
        "fingerprint": result.fingerprint,
        "columns": history.columns,
        # Hexadecimal keeps every bit of a float, infinities included.
        "state": {k: v if isinstance(v, int) else float(v).hex() for k, v in scalars.items()},
    }
    arrays: dict[str, Any] = {
        "meta": np.array(json.dumps(meta)),
        "w": result.w,
        "bounds": np.array([c.lower, c.upper, 0.0 if np.ndim(c.intercept) else c.intercept, result.passes]),
        "history": np.array(history.rows, dtype=np.float64).reshape(-1, len(history.columns)),
        "recent_gaps": np.array(history.recent_gaps),
    }
    arrays |= {f"state_{k}": v for k, v in result.state.items() if k not in scalars}
    # Strings of a data frame are objects, which only pickle could save: a list makes plain strings of them.
    classes = None if result.classes is None else np.array(result.classes.tolist())
    optional = {"w_lower": c.w, "w_upper": c.w_upper, "classes": classes}
    optional |= {"intercept": c.intercept} if isinstance(c.intercept, np.ndarray) else {}
    arrays |= {k: v for k, v in optional.items() if v is not None}
    if c.dual_weights is not None:
        arrays |= {"support": c.dual_weights.indices, "dual_weights": c.dual_weights.values}
        if c.dual_weights.integers is not None:
            arrays["dual_integers"] = np.array([hex(k) for k in c.dual_weights.integers])
    return arrays


def from_arrays(arrays: dict[str, Any]) -> Result:
    """Return the result whose arrays a file holds."""
    meta = json.loads(str(arrays["meta"][()]))
    if meta["format"] == MODEL_FORMAT:
        raise OtherFileError("expected a result, got a model. Load it with prgd.estimators.model.Model.load.")
    if meta["format"] != FORMAT:
        raise ValueError(f"format {meta['format']!r}, which this version of prgd does not know")
    _check_parts(meta, arrays)
    lower, upper, intercept, passes = arrays["bounds"].tolist()
    intercepts: Intercept = arrays.get("intercept", intercept)
    p = None
    if "support" in arrays:
        integers = tuple(int(k, 16) for k in arrays.get("dual_integers", np.empty(0)).tolist()) or None
        p = DualWeights(arrays["support"], arrays["dual_weights"], integers)
    rows: list[Any] = [tuple(row) for row in arrays["history"].tolist()]
    if tuple(meta["columns"]) == Record._fields:
        rows = [Record(int(row[0]), int(row[1]), *row[2:]) for row in rows]
    state = {k: v if isinstance(v, int) else float.fromhex(v) for k, v in meta["state"].items()}
    state |= {k.removeprefix("state_"): v for k, v in arrays.items() if k.startswith("state_")}
    gaps = arrays["recent_gaps"].tolist()
    parts = [x.split("/") for x in meta["exact_w"] or ()]
    exact_w = tuple(Fraction(int(a, 16), int(b, 16)) for a, b in parts) or None
    witnesses = arrays.get("w_lower"), intercepts, p, arrays.get("w_upper"), exact_w
    return Result(
        w=arrays["w"],
        status=Status[meta["status"]],
        certificate=Certificate(lower, upper, *witnesses, quantity_of(meta["C"])),
        history=History(rows, meta["columns"], gaps, window=max(len(gaps) - 1, 0)),
        passes=passes,
        state=state,
        classes=arrays.get("classes"),
        feature_names=None if meta["feature_names"] is None else tuple(meta["feature_names"]),
        origin=meta["fingerprint"],
        **{name: meta[name] for name in _JSON_FIELDS},
    )


def _check_parts(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Raise ``ValueError`` unless what a file holds has the types, shapes and ranges of one result."""
    shape, is_joint = arrays["w"].shape, meta["multi_class"] == "joint"
    support, names = arrays.get("support", np.empty(0, np.int64)), meta["feature_names"]
    shapes = dict.fromkeys(("w", "w_lower", "w_upper"), shape) | {"intercept": shape[:1], "bounds": (4,)}
    shapes |= dict.fromkeys(("support", "dual_weights", "dual_integers"), (len(support),))
    shapes |= {"history": (len(arrays["history"]), len(meta["columns"]))}
    for name in shapes.keys() & arrays.keys():
        found, kind = arrays[name], {"support": "i8", "dual_integers": "U"}.get(name, "f8")
        # Bounds may be infinite, the intercept beside them not; weights are at most 1.
        finite = {"bounds": found[2:3], "history": found[:0], "dual_integers": np.empty(0)}.get(name, found)
        largest, is_typed = 1.1 if name == "dual_weights" else math.inf, found.dtype.str[1:].startswith(kind)
        if not (is_typed and found.shape == shapes[name] and np.abs(finite).max(initial=0.0) < largest):
            raise ValueError(f"{name} is {found.dtype} of shape {found.shape}, or has too large numbers")
    terms, texts = meta["n"] * (shape[0] if is_joint else 1), _JSON_FIELDS[:-1]
    is_whole = meta["multi_class"] in (None, "joint") and (names is None or len(names) == shape[-1])
    is_whole &= math.isinf(meta["C"]) or meta["norm"] == "l2"
    is_whole &= len(shape) == 1 + is_joint and bool((np.diff(support, prepend=-1, append=terms) > 0).all())
    if not (is_whole and all(isinstance(meta[name], type(getattr(Result, name, 0))) for name in texts)):
        raise ValueError("some of its parts do not fit the others")
