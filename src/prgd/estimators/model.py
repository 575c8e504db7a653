"""Model: a classifier of two or more classes with the results that certify it, and its file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prgd.core.files import read_saved, whole_file, write_saved
from prgd.core.threads import lazy
from prgd.core.types import Array
from prgd.norms import as_norm
from prgd.running.result import MODEL_FORMAT, Result, from_arrays, to_arrays
from prgd.running.scores import classify, decision


@dataclass(frozen=True, eq=False)
class Model:
    """A linear classifier: a hyperplane of two classes, one for each class against the rest, or a joint one.

    `prgd.MaxMarginClassifier` and ``prgd fit`` make one; the latter saves it.

    Attributes
    ----------
    classes : ndarray of shape (c,)
    results : tuple of Result
        One for two classes, whose scores are positive for ``classes[1]``, and one for all classes jointly,
        which has a score for each of them; else one for each class, whose scores are positive for the class
        and negative for the rest.
    proofs : tuple of Result
        The results of `prgd.max_margin`, if soft margins were fitted instead since it found no separating
        hyperplane for one of the classes: one for each of ``results``, or one for all classes jointly.
    feature_means : ndarray of shape (d,), or None
        The means of the features, which stand for missing values if the fit was asked for them.
    recipe : dict
        What ``prgd fit`` made of the columns of a table, which ``prgd predict`` does again; as JSON has it.

    Examples
    --------
    >>> import prgd
    >>> result = prgd.max_margin([[0.0], [1.0], [3.0]], ["a", "a", "b"])
    >>> Model(result.classes, (result,)).predict(np.array([[1.5], [9.0]])).tolist()
    ['a', 'b']
    """

    classes: npt.NDArray[Any]
    results: tuple[Result, ...]
    proofs: tuple[Result, ...] = ()
    feature_means: Array | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_joint(self) -> bool:
        """Whether one result has the weights of all classes."""
        return self.results[0].multi_class == "joint"

    @property
    def hard(self) -> tuple[Result, ...]:
        """The results that say whether the classes separate: the proofs, if there are any."""
        return self.proofs or self.results

    @property
    def is_separated(self) -> bool:
        """Whether each of the hyperplanes separates its classes, or is the soft margin that was asked for."""
        return all(result.margin > 0.0 for result in self.hard)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, in the order of the coefficients; None if the data had none."""
        return self.results[0].feature_names

    @lazy
    def coef(self) -> Array:
        """The normals of the hyperplanes, a row for each of ``intercept``.

        Of several classes, each against the rest, scores are compared: those of hard margins as distances,
        so that rows have length 1, and those of soft margins on their one scale, that of C.
        """
        return np.vstack([r.coef / self._length(r) for r in self.results])

    @lazy
    def intercept(self) -> Array:
        """The intercepts of the hyperplanes."""
        return np.hstack([r.intercept / self._length(r) for r in self.results])

    def _length(self, result: Result) -> float:
        is_hard = len(self.results) > 1 and math.isinf(result.C)
        return as_norm(result.norm)(result.coef) if is_hard else 1.0

    def decision_function(self, X: Any) -> Array:
        """Return scores as `prgd.MaxMarginClassifier` does: of shape (n,), or (n, c) for c > 2 classes."""
        return decision(X, self.coef, self.intercept)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of each row."""
        return classify(self.decision_function(X), self.classes)

    def each(self, change: Callable[[Result], Result]) -> Model:
        """Return the model with each of its results and proofs changed."""
        return replace(self, results=tuple(map(change, self.results)), proofs=tuple(map(change, self.proofs)))

    def save(self, path: str | Path) -> None:
        """Write everything to an ``.npz`` file without pickle; `Result.load` reads it for two classes."""
        arrays: dict[str, Any] = {} if self.feature_means is None else {"feature_means": self.feature_means}
        arrays |= {"recipe": np.array(json.dumps(self.recipe))} if self.recipe else {}
        if len(self.results) > 1:
            meta = {"format": MODEL_FORMAT, "results": len(self.results)}
            arrays |= {"meta": np.array(json.dumps(meta)), "classes": np.array(self.classes.tolist())}
        places = [f"{k}/" for k in range(len(self.results))] if len(self.results) > 1 else [""]
        pairs = [*zip(places, self.results, strict=True)]
        pairs += [(f"proof/{k}/", proof) for k, proof in enumerate(self.proofs)]
        arrays |= {f"{place}{name}": array for place, r in pairs for name, array in to_arrays(r).items()}
        write_saved(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Read a file that `save`, or `Result.save`, wrote."""
        with whole_file(path, "model file of prgd", "Fit again"):
            meta, arrays = read_saved(path)
            is_several = meta["format"] == MODEL_FORMAT
            places = [f"{k}/" for k in range(meta["results"])] if is_several else [""]
            results = [from_arrays(_under(place, arrays)) for place in places]
            proofs: list[Result] = []
            while part := _under(f"proof/{len(proofs)}/", arrays):
                proofs.append(from_arrays(part))
            own = results[0].classes
            classes = arrays["classes"] if is_several else np.array([-1, 1]) if own is None else own
            recipe = json.loads(str(arrays.get("recipe", "{}")))
            return _checked(cls(classes, tuple(results), tuple(proofs), arrays.get("feature_means"), recipe))


def _under(place: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(place): v for name, v in arrays.items() if name.startswith(place)}


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
