"""Model: the classifier that ``prgd fit`` saves, of two or more classes, with the results that certify it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.files import OtherFileError, atomic_write, read_npz, whole_file
from prgd.core.types import Array
from prgd.norms import as_norm
from prgd.running.result import MODEL_FORMAT, Result, from_arrays, to_arrays


@dataclass(frozen=True, eq=False)
class Model:
    """A linear classifier: a hyperplane of two classes, one for each class against the rest, or a joint one.

    Attributes
    ----------
    classes : ndarray of shape (c,)
    results : tuple of Result
        One for two classes, whose scores are positive for ``classes[1]``, and one for all classes jointly,
        which has a score for each of them; else one for each class, whose scores are positive for the class
        and negative for the rest.
    proofs : tuple of (Result or None)
        For each of them the result of `prgd.max_margin`, if soft margins were fitted instead since it found
        no separating hyperplane for one of the classes; else None. That of all classes jointly is the first
        one, and stands for all.
    feature_means : ndarray of shape (d,), or None
        The means of the features, which stand for missing values if the fit was asked for them.

    Examples
    --------
    >>> import prgd
    >>> result = prgd.max_margin([[0.0], [1.0], [3.0]], ["a", "a", "b"])
    >>> Model(result.classes, (result,), (None,)).predict(np.array([[1.5], [9.0]])).tolist()
    ['a', 'b']
    """

    classes: npt.NDArray[Any]
    results: tuple[Result, ...]
    proofs: tuple[Result | None, ...]
    feature_means: Array | None = None

    @property
    def is_joint(self) -> bool:
        """Whether one result has the weights of all classes."""
        return self.results[0].multi_class == "joint"

    @property
    def targets(self) -> list[Any]:
        """The class of positive scores of each result; None for that of all classes jointly."""
        classes: list[Any] = self.classes.tolist()
        if self.is_joint:
            return [None]
        return classes[1:] if len(self.results) == 1 else classes

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, in the order of the coefficients; None if the data had none."""
        return self.results[0].feature_names

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.results[0].coef.shape[-1])

    def decision_function(self, X: Any) -> Array:
        """Return scores as `prgd.MaxMarginClassifier` does: of shape (n,), or (n, c) for c > 2 classes."""
        if self.is_joint:
            joint: Array = X @ self.results[0].coef.T + self.results[0].intercept
            return joint
        scores = np.stack([X @ result.coef + result.intercept for result in self.results], axis=1)
        if len(self.results) == 1:
            return scores[:, 0]
        # Scores of hard margins are compared as distances; those of soft margins have one scale, that of C.
        return scores / [as_norm(r.norm)(r.coef) if math.isinf(r.C) else 1.0 for r in self.results]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of each row."""
        return self.classify(self.decision_function(X))

    def classify(self, scores: Array) -> npt.NDArray[Any]:
        """Return the class of each row from its scores."""
        codes = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        found: npt.NDArray[Any] = self.classes[codes]
        return found

    def save(self, path: str | Path) -> None:
        """Write everything to an ``.npz`` file without pickle; `Result.load` reads it for two classes."""
        results = self.results
        if len(results) == 1 and _classes(results[0]).tolist() != self.classes.tolist():
            results = (
                replace(results[0], classes=self.classes),
            )  # a file of two classes has their names there
        parts = [_nested(pair) for pair in zip(results, self.proofs, strict=True)]
        if len(parts) == 1:
            arrays = parts[0]
        else:
            meta = {"format": MODEL_FORMAT, "results": len(parts)}
            arrays = {"meta": np.array(json.dumps(meta)), "classes": np.array(self.classes.tolist())}
            arrays |= {f"{k}/{name}": array for k, part in enumerate(parts) for name, array in part.items()}
        arrays |= {} if self.feature_means is None else {"feature_means": self.feature_means}
        with atomic_write(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Read a file that `save`, or `Result.save`, wrote."""
        with whole_file(path, "model file of prgd", "Fit again"):
            arrays = read_npz(path)
            if not {"meta", "format"} & set(arrays):
                raise OtherFileError(f"{path}: expected a model of prgd, got an archive of other arrays.")
            means = arrays.pop("feature_means", None)
            meta = json.loads(str(arrays["meta"][()])) if "meta" in arrays else {}
            if meta.get("format") != MODEL_FORMAT:
                result, proof = _pair(arrays)
                return _checked(cls(_classes(result), (result,), (proof,), means))
            pairs = [_pair(_under(f"{k}/", arrays)) for k in range(meta["results"])]
            results, proofs = zip(*pairs, strict=True)
            return _checked(cls(arrays["classes"], results, proofs, means))


def _classes(result: Result) -> npt.NDArray[Any]:
    """Return the two classes of a result; -1 and 1 are those of rows y_i x_i."""
    return np.array([-1, 1]) if result.classes is None else result.classes


def _checked(model: Model) -> Model:
    """Return the model; raise ``ValueError`` unless its classes, results and coefficients go together."""
    count = len(model.results)
    expected = len(model.results[0].w) if model.is_joint else 2 if count == 1 else count
    if model.classes.shape != (expected,) or count == 2 or len(set(model.classes.tolist())) != expected:
        raise ValueError(
            f"{count} hyperplanes for the classes {model.classes.tolist()}, where one is expected for two "
            "classes, else one for each"
        )
    sizes = sorted({result.coef.shape[-1] for result in model.results})
    if len(sizes) > 1:
        raise ValueError(f"hyperplanes of different numbers of features, {sizes}")
    means = model.feature_means
    if means is not None and (means.shape != (sizes[0],) or not np.isfinite(means).all()):
        raise ValueError("means of other features")
    return model


def _nested(pair: tuple[Result, Result | None]) -> dict[str, Any]:
    """Return the arrays of a result, and those of its proof under ``proof/``."""
    result, proof = pair
    more = {} if proof is None else to_arrays(proof)
    return to_arrays(result) | {f"proof/{name}": array for name, array in more.items()}


def _pair(arrays: dict[str, Any]) -> tuple[Result, Result | None]:
    proof = _under("proof/", arrays)
    own = {name: array for name, array in arrays.items() if not name.startswith("proof/")}
    return from_arrays(own), from_arrays(proof) if proof else None


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): v for name, v in arrays.items() if name.startswith(prefix)}
