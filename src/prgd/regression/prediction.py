"""Fitted probabilities and rates of new rows, in the limit in which some coefficients are infinite.

Along every sequence of coefficients whose likelihood approaches its supremum, a linear function of them
converges if it is zero on the recession cone K, and goes to plus infinity if it is not zero and nowhere
negative on K. If it has both signs on K, some sequences go up and some down, so that it has no limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prgd.core.arithmetic import nearest_floats
from prgd.core.threads import lazy
from prgd.core.types import Array
from prgd.proofs.lifted_rows import KeptColumns
from prgd.regression.coefficients import Behaviour
from prgd.regression.cone import Cone
from prgd.regression.responses import Design
from prgd.rows.readers.columns import in_order

if TYPE_CHECKING:
    from prgd.regression.result import Separability

_ZERO = 1e-11  # a function whose value on K is below this fraction of its terms is zero but for rounding
_NOISE = 1e-15  # a value below this fraction of each of its terms may have the wrong sign
_RESIDUAL = 1e-8  # distance from the dual cone, as a fraction of a function, that counts as rounding


@dataclass(frozen=True, eq=False)
class Prediction:
    """What the probabilities, or rates, of new rows follow from.

    Attributes
    ----------
    found : Separability
    beta : ndarray of float
        The coefficients that are not aliased; of infinite ones numbers by which functions that are zero on K
        have their limit.
    is_penalised : bool
        Whether all of them are finite.
    """

    found: Separability
    beta: Array
    is_penalised: bool

    def design(self, X: Any) -> tuple[Array, Array | None]:
        """Return the features of new rows, the intercept's 1 before them, and the offset of a formula."""
        s, offset = self.found, None
        if s.model is None:
            raise ValueError(
                "predict needs the data of the verdict, which a copy in another process does not hold. Call "
                "separability and fit again."
            )
        if getattr(s._regression, "design", None) is not None and not isinstance(X, np.ndarray):
            X, offset = s._regression.design(X)
        design = Design.read(in_order(X, s.feature_names), s.fit_intercept, None, s.feature_names)
        design.check_finite()
        X = design.X if isinstance(design.X, np.ndarray) else design.X.toarray()
        has_intercept, classes = s.fit_intercept and s.family != "ordinal", max(len(s.classes) - 1, 1)
        d = len(s.coefficients) // classes if s.family == "multinomial" else len(s.coefficients)
        d -= classes if s.family == "ordinal" else int(has_intercept)
        # Design matrices of statsmodels have a column for the intercept.
        is_whole = has_intercept and X.shape[1] == d + 1 and (X[:, 0] == 1.0).all()
        X = X[:, 1:] if is_whole else X
        if X.shape[1] != d:
            raise ValueError(f"predict needs the {d} columns of the model; got {X.shape[1]}.")
        return np.hstack([np.ones((len(X), 1)), X]) if has_intercept else X, offset

    def of(self, X: Array, offset: Array) -> Array:
        """Return the limits for rows of the design."""
        from scipy.special import expit

        family, n, count = self.found.family, len(X), len(self.found.classes)
        with np.errstate(over="ignore", invalid="ignore"):
            if family == "poisson":
                return np.exp(self.limits(X) + offset)
            if family == "binomial":
                return np.asarray(expit(self.limits(X) + offset))
            if family == "ordinal":
                rows = [np.hstack([np.tile(unit, (n, 1)), -X]) for unit in np.eye(count - 1)]
                below = expit(np.stack([self.limits(row) - offset for row in rows], axis=1))
                return np.diff(below, prepend=0.0, append=1.0)
            units = np.vstack([np.zeros(count - 1), np.eye(count - 1)])
            total = np.ones((n, count))  # 1 / p_k, the sum of the odds of all classes against k
            for k, j in np.ndindex(count, count):
                if j != k:
                    odds = np.exp(self.limits(np.asarray(np.kron(units[j] - units[k], X))))
                    total[:, k] = np.where(np.isinf(total[:, k]), np.inf, total[:, k] + odds)
                    total[np.isinf(odds), k] = np.inf
            return np.asarray(1.0 / total)

    def limits(self, functions: Array) -> Array:
        """Return the limits of linear functions of all coefficients, a row each: finite, infinite or NaN."""
        s, names = self.found, list(self.found.coefficients)
        is_kept = np.array([word is not Behaviour.ALIASED for word in s.coefficients.values()])
        kept = functions[:, is_kept]
        found = np.asarray(kept @ self.beta)
        for name in [name for name, is_in in zip(names, is_kept, strict=True) if not is_in]:
            error, size = functions[:, names.index(name)].copy(), np.abs(functions).sum(axis=1)
            for other, factor in s.relations.get(name, {}).items():
                error -= float(factor) * functions[:, names.index(other)]
            found[np.abs(error) > _ZERO * size] = np.nan  # The row breaks a relation of the data.
        if self.is_penalised or not s.separated_rows.size:
            return found
        functions = self._cone.functions
        values = kept @ functions
        values[np.abs(values) <= _ZERO * (np.abs(kept) @ abs(functions))] = 0.0
        lengths = np.linalg.norm(values, axis=1)
        if (some := np.flatnonzero(lengths)).size:
            different, place = np.unique(values[some] / lengths[some, None], axis=0, return_inverse=True)
            found[some] += np.array([self._infinity(c) for c in different])[place.ravel()]
        return found

    @lazy
    def _cone(self) -> Cone:
        known: Any = self.found
        cone = Cone.of(KeptColumns(known.model.rows, known._evidence.kept), known)
        if cone is None:
            raise ValueError("predict did not find the relations of the limiting rows. Use penalty='firth'.")
        return cone

    @lazy
    def _vectors(self) -> tuple[Array, Array]:
        """Some vectors of K, and the separated rows, scaled, as functions on the coordinates of K."""
        known: Any = self.found._evidence
        vectors = [known.base, *known.above.values(), *known.below.values()]
        rows = np.unique(self._cone.reduced(self._cone.separated), axis=0)
        rows = rows[rows.any(axis=1)]
        floats = [t if isinstance(t, np.ndarray) else nearest_floats(t) for t in vectors]
        return np.array(floats), rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def _infinity(self, c: Array) -> float:
        """Return the limit of a function that is not zero on K, given on its coordinates: NaN if none."""
        from scipy.optimize import nnls

        vectors, rows = self._vectors
        values = vectors @ c
        sign, noise = float(np.sign(values[0])), _NOISE * c.size * float(np.abs(vectors[0]) @ np.abs(c))
        if sign * values[0] <= noise or (sign * values < -_ZERO * np.abs(vectors).max(axis=1)).any():
            return np.nan
        try:
            distance = nnls(rows.T, sign * c, maxiter=10 * sum(rows.shape))[1]
        except RuntimeError:  # too many steps
            return np.nan
        return sign * np.inf if distance < _RESIDUAL else np.nan
