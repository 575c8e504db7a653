"""One adversarial case: solve it with prgd, solve it exactly, and list every statement that is false."""

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from adversarial import oracle
from adversarial.problems import Case
from sklearn.exceptions import ConvergenceWarning

import prgd

TOLERANCE = 1e-6
SMALLEST = 5e-324
_DOCUMENTED_WARNINGS = (prgd.ZeroRowWarning, prgd.NotSeparableWarning, ConvergenceWarning)
_TRUTH = {oracle.SEPARABLE: True, oracle.QUASI_SEPARABLE: False, oracle.NOT_SEPARABLE: False}


@dataclass
class Outcome:
    """What one case showed.

    Attributes
    ----------
    verdict : str
        The exact one.
    status : str
        The status of `max_margin`, or "refused" or "exception".
    separability : str
        The verdict of `prgd.separability`, or "refused" or "exception".
    failures : list of (kind, message)
    """

    verdict: str
    status: str = "exception"
    separability: str = "exception"
    failures: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, kind: str, message: str) -> None:
        self.failures.append((kind, message))


def judge(case: Case, extra: str = "") -> Outcome:
    """Compare all that prgd says about a case with the exact answer.

    Parameters
    ----------
    extra : {"", "run", "estimator"}
        Also judge a short `prgd.run`, or the scikit-learn estimator.
    """
    exact = oracle.solve(case.X, case.y, fit_intercept=case.fit_intercept)
    outcome = Outcome(exact.verdict)
    solved = _guarded(case, outcome, "max_margin", _solve)
    found = _guarded(case, outcome, "separability", _decide)
    outcome.status = solved if isinstance(solved, str) else solved.status.name
    outcome.separability = found if isinstance(found, str) else str(found.verdict)
    if not isinstance(solved, str):
        _judge_result(case, exact, outcome, solved)
    if not isinstance(found, str):
        _judge_verdict(case, exact, outcome, found)
    if not (isinstance(solved, str) or isinstance(found, str)):
        _compare(exact, outcome, solved, found)
    if extra == "run":
        ran = _guarded(case, outcome, "run", _run)
        if not isinstance(ran, str):
            _judge_bounds(exact, outcome, "run", ran.margin, ran.upper_bound, ran.certificate.w)
            _judge_witnesses(exact, outcome, "run", ran.certificate)
            _judge_cosine(exact, outcome, "run", ran.cosine, ran.coef, ran.margin)
    if extra == "estimator":
        fitted = _guarded(case, outcome, "estimator", _fit)
        if not isinstance(fitted, str):
            lower, upper = float(fitted.margin_[0]), float(fitted.margin_upper_bound_[0])
            _judge_bounds(exact, outcome, "estimator", lower, upper, None)
            if lower > 0.0:
                _judge_cosine(exact, outcome, "estimator", float(fitted.cosine_[0]), fitted.coef_[0], lower)
    return outcome


def given(case: Case) -> tuple[Any, Any]:
    """Return X and y as prgd gets them."""
    if case.engine == "array":
        return case.X, case.y
    if case.engine == "chunks":
        middle = len(case.y) // 2
        blocks = [(case.X[part], case.y[part]) for part in (slice(middle), slice(middle, None))]
        return prgd.rows.ChunkedRows.from_blocks(blocks), None
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    X = torch.tensor(case.X, dtype=None if case.engine == "tensor" else getattr(torch, case.engine))
    return X.to(device).tile(case.copies, 1), np.tile(case.y, case.copies)


def as_tensor(case: Case, dtype: str, copies: int) -> Case:
    """Return a case whose numbers are rounded to a type of torch's, in so many copies."""
    import torch

    X = case.X.toarray() if hasattr(case.X, "toarray") else np.array(case.X)
    X = torch.from_numpy(X.astype(np.float64)).to(getattr(torch, dtype)).double().numpy()
    return replace(case, X=X, engine=dtype, copies=copies, name=f"{case.name}, {dtype}")


def _solve(case: Case):
    return prgd.max_margin(*given(case), fit_intercept=case.fit_intercept, tol=TOLERANCE)


def _decide(case: Case):
    # Tensors are for the solvers: separability reads arrays, sparse matrices, data frames and engines.
    data = given(case) if case.engine == "chunks" else (case.X, case.y)
    return prgd.separability(*data, fit_intercept=case.fit_intercept)


def _run(case: Case):
    problem = prgd.Problem(*given(case), fit_intercept=case.fit_intercept)
    return prgd.run(problem, prgd.NGD(), stop=prgd.any_of(prgd.Gap(1e-3), 200))


def _fit(case: Case):
    return prgd.MaxMarginClassifier(fit_intercept=case.fit_intercept).fit(case.X, case.y)


def _guarded(case: Case, outcome: Outcome, what: str, call):
    """Return what a call returns, or "refused" or "exception"; what is not documented is a failure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = call(case)
        except Exception as error:
            # A refusal is one sentence or more about the data, from prgd itself; other errors are findings.
            # The C of a soft margin is divided by squares, so an estimator may refuse rows of 1e142 too.
            is_beyond = case.may_refuse or out_of_range(case.X) or "leaves the floating range" in str(error)
            may_refuse = isinstance(error, ValueError) and is_beyond
            answer = "refused" if may_refuse and str(error).rstrip().endswith(".") else "exception"
            if answer == "exception":
                outcome.fail("exception", f"{what}: {type(error).__name__}: {error}")
    for warning in caught:
        if not issubclass(warning.category, _DOCUMENTED_WARNINGS):
            outcome.fail("warning", f"{what}: {warning.category.__name__}: {warning.message}")
    return answer


def out_of_range(X) -> bool:
    """Whether the square of the largest row norm leaves the floating range: prgd refuses such data."""
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    largest = float(np.max(np.abs(dense.astype(np.float64)), initial=0.0))
    return largest > 0.0 and not 1e-149 < largest < 1e149


def _judge_bounds(exact: oracle.Exact, outcome: Outcome, what: str, lower: float, upper: float, w) -> None:
    for end, bound, holds in (
        ("lower", lower, exact.is_at_most(lower, w)),
        ("upper", upper, exact.is_at_least(upper)),
    ):
        if not holds:
            gamma = exact.gamma_star
            size = abs(bound - gamma) / abs(gamma) if gamma else math.inf
            text = f"{what}: {end} {bound!r}, gamma_star {gamma!r}, relative error {size:.1e}"
            outcome.fail(f"false {end} bound", text)
    if lower > upper:
        outcome.fail("crossing", f"{what}: lower {lower!r} > upper {upper!r}")


def _judge_witnesses(exact: oracle.Exact, outcome: Outcome, what: str, certificate: prgd.Certificate) -> None:
    """Each end must follow from its own witness, not only hold by luck or because it is loose."""
    w = certificate.exact_w or certificate.w
    if w is not None and np.any(w) and math.isfinite(certificate.lower):
        square = exact.margin_square(w[: len(exact.points[0])])
        if not oracle.is_at_most(certificate.lower, square):
            outcome.fail(
                "unproven lower bound", f"{what}: {certificate}, but its w has {oracle.signed_root(square)!r}"
            )
    p = certificate.dual_weights
    # An upper bound of 0 is Gordan's: weights near p balance exactly, so p itself need not.
    if p is not None and len(p.indices) and 0.0 < certificate.upper < math.inf:
        weights = p.integers or p.values.tolist()
        square = exact.weights_square((p.indices % len(exact.points)).tolist(), weights)
        if not oracle.is_at_least(certificate.upper, square):
            outcome.fail(
                "unproven upper bound", f"{what}: {certificate}, but its p has {oracle.signed_root(square)!r}"
            )


def _judge_cosine(exact: oracle.Exact, outcome: Outcome, what: str, cosine: float, w, lower: float) -> None:
    """The cosine between w and w_star is at least the stated one; -1 says nothing."""
    if not (cosine == -1.0 or (0.0 < cosine <= 1.0 and lower > 0.0)):
        outcome.fail("false cosine", f"{what}: {cosine!r} is out of range, with the margin {lower!r}")
    if exact.verdict == oracle.SEPARABLE and not exact.is_cosine(cosine, w):
        outcome.fail("false cosine", f"{what}: {cosine!r} is above the cosine between {w} and w_star")


def _judge_result(case: Case, exact: oracle.Exact, outcome: Outcome, result: prgd.Result) -> None:
    truth, name = _TRUTH[exact.verdict], result.status.name
    _judge_bounds(exact, outcome, "max_margin", result.margin, result.upper_bound, result.certificate.w)
    _judge_witnesses(exact, outcome, "max_margin", result.certificate)
    _judge_cosine(exact, outcome, "max_margin", result.cosine, result.coef, result.margin)
    if result.is_separable not in (truth, None):
        outcome.fail("wrong verdict", f"max_margin: is_separable {result.is_separable}, {exact.verdict}")
    stated = {"QUASI_SEPARABLE": oracle.QUASI_SEPARABLE, "NOT_SEPARABLE": oracle.NOT_SEPARABLE}
    if stated.get(name, exact.verdict) != exact.verdict:
        outcome.fail("wrong verdict", f"max_margin: {name}, but the data are {exact.verdict}")
    width, allowed = result.upper_bound - result.margin, TOLERANCE * result.upper_bound
    if name == "CERTIFIED" and not width <= allowed * (1.0 + 1e-12):
        outcome.fail("not certified as stated", f"CERTIFIED, {result.margin!r} .. {result.upper_bound!r}")
    checked = _guarded(case, outcome, "Result.check", lambda c: result.check(*given(c)))
    if not isinstance(checked, str):
        if not checked.is_valid:
            outcome.fail("check denies", f"Result.check of {name}, {result.certificate}")
        again = checked.certificate
        _judge_bounds(exact, outcome, "Result.check", again.lower, again.upper, again.w)


def _judge_verdict(case: Case, exact: oracle.Exact, outcome: Outcome, found: prgd.Separability) -> None:
    truth = _TRUTH[exact.verdict]
    if str(found.verdict) not in (exact.verdict, "undecided") or found.is_separable not in (truth, None):
        outcome.fail("wrong verdict", f"separability: {found!r}, but the data are {exact.verdict}")
    _judge_bounds(exact, outcome, "separability", found.lower, found.upper, found.coef)
    if found.coef is not None and np.any(found.coef):
        # The stated margin is that of the hyperplane that was found, rounded down.
        direction = list(found.proof.direction or [*found.coef.tolist(), found.intercept])
        w, intercept = direction[: len(found.coef)], direction[len(found.coef) :] or [0.0]
        square = exact.margin_square(w, intercept[0] if case.fit_intercept else 0.0)
        if not oracle.is_at_most(found.margin, square):
            has = f"its hyperplane has {oracle.signed_root(square)!r}"
            outcome.fail("unproven lower bound", f"separability: margin {found.margin!r}, but {has}")
    if _guarded(case, outcome, "Separability.check", lambda c: found.check(c.X, c.y)) is False:
        outcome.fail("check denies", f"Separability.check of {found!r}")


def _compare(exact: oracle.Exact, outcome: Outcome, solved: prgd.Result, found: prgd.Separability) -> None:
    # Below the smallest positive number no float64 interval can say that the margin is positive.
    if solved.is_separable is None and found.is_separable and not exact.is_at_most(SMALLEST):
        return
    if solved.is_separable is not found.is_separable:
        outcome.fail(
            "disagreement",
            f"max_margin says {solved.is_separable} ({solved.status.name}, {solved.certificate}), "
            f"separability {found.is_separable} ({found.verdict})",
        )
    elif (solved.status.name == "QUASI_SEPARABLE") != (found.verdict == oracle.QUASI_SEPARABLE):
        outcome.fail("disagreement", f"max_margin: {solved.status.name}, separability: {found.verdict}")


def described(case: Case) -> str:
    """Return the data of a case as text from which it can be made again; Python prints floats in full."""
    dense = case.X.toarray() if hasattr(case.X, "toarray") else np.asarray(case.X)
    kind = f"{type(case.X).__name__} {dense.dtype}, given as {case.engine}"
    y = np.asarray(case.y).tolist()
    return f"  X = {dense.tolist()}  # {kind}\n  y = {y}; fit_intercept = {case.fit_intercept}"
