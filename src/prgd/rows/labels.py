"""Labels and sample weights of rows: signs y_i of two classes, or the number of the class of each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from prgd.core.threads import lazy
from prgd.core.types import Array, Codes, Indices, Signs
from prgd.rows.exact import as_array, as_float, check_exact

JOINTLY = "prgd.max_margin(X, y, multi_class='joint') separates all classes jointly."
NO_CODES: Codes = np.empty(0, np.int32)


class Labels:
    """Labels of rows, and sample weights.

    Parameters
    ----------
    signs : int8 array of shape (n,)
        +1 and -1 for two classes; all +1 if ``codes`` tell the classes apart.
    sample_weight : array of shape (n,), or empty if all weights are 1
    classes : array of the labels in order, or None if the rows are z_i already
        Of two classes, the first one has the sign -1.
    codes : int32 array of shape (n,), or empty
        The place of each label in ``classes``, for a problem of all classes jointly.

    Notes
    -----
    An engine whose labels lie elsewhere (on a device, on a cluster) overrides `signs`, `codes`,
    `sample_weight`, `class_weights`, `at` and `codes_at`, so that n numbers are gathered only if they are
    asked for.
    """

    def __init__(
        self,
        signs: Signs,
        sample_weight: Array,
        classes: npt.NDArray[Any] | None = None,
        codes: Codes = NO_CODES,
    ) -> None:
        self.classes = classes
        self.signs, self.sample_weight = cast(Signs, frozen(signs)), cast(Array, frozen(sample_weight))
        self.codes = cast(Codes, frozen(codes))

    @classmethod
    def read(cls, y: Any, sample_weight: Any, n: int, classes: npt.NDArray[Any] | None = None) -> Labels:
        """Check labels and weights of n rows; give all ``classes`` if these rows may lack one of them."""
        return cls.coded(*read_codes(y, n, classes), read_weights(sample_weight, n))

    @classmethod
    def coded(cls, codes: Codes, classes: npt.NDArray[Any] | None, sample_weight: Array) -> Labels:
        """Take the place of each label in ``classes``; two classes become signs."""
        signs = np.ones(codes.size, np.int8)
        if classes is not None and classes.size == 2:
            return cls(np.where(codes == 1, signs, -signs), sample_weight, classes)
        return cls(signs, sample_weight, classes, NO_CODES if classes is None else codes)

    @property
    def is_joint(self) -> bool:
        """Whether the rows belong to classes by their codes, and not by their signs."""
        return self.classes is not None and (self.classes.size > 2 or self.codes.size > 0)

    def check_two(self) -> None:
        """Raise ``ValueError`` if there are more than two classes."""
        if self.classes is not None:
            check_two_classes(self.classes.tolist())

    def jointly(self) -> Labels:
        """Return labels that tell their classes apart by codes, also if there are two."""
        if self.is_joint:
            return self
        if self.classes is None:
            raise ValueError("A joint problem needs the labels y; got rows z_i without labels.")
        return Labels(
            np.ones_like(self.signs), self.sample_weight, self.classes, (self.signs > 0).astype(np.int32)
        )

    @lazy
    def class_weights(self) -> tuple[float, ...]:
        """Total weight of the rows labelled +1 and -1, or that of each class if the problem is joint."""
        mass = self.sample_weight if self.sample_weight.size else np.ones(self.signs.size)
        if self.is_joint and self.classes is not None:
            return tuple(np.bincount(self.codes, mass, self.classes.size).tolist())
        return float(mass[self.signs > 0].sum()), float(mass[self.signs < 0].sum())

    @lazy
    def smallest_weight(self) -> float:
        """The smallest positive sample weight."""
        weight = self.sample_weight
        return float(weight[weight > 0.0].min()) if weight.size else 1.0

    def at(self, indices: Indices) -> Signs:
        """Return the labels of these ascending indices."""
        return self.signs[indices]

    def codes_at(self, indices: Indices) -> Codes:
        """Return the codes of these ascending indices."""
        return self.codes[indices]

    def pair_classes(self, pairs: Indices) -> tuple[Indices, Indices]:
        """Return the class of the row of each pair ``i K + j``, in any order, and the other class j."""
        K = cast(npt.NDArray[Any], self.classes).size
        rows, at = np.unique(pairs // K, return_inverse=True)
        return self.codes_at(rows)[at].astype(np.int64), pairs % K

    def part(self, at: slice) -> Labels:
        """Return the labels of a run of rows."""
        weight = self.sample_weight
        return Labels(self.signs[at], weight[at] if weight.size else weight, self.classes, self.codes[at])

    def of_block(self, at: slice) -> tuple[Any, Any]:
        """Return the codes and the sample weights of consecutive rows; None if all weights are 1."""
        return self.codes[at], self.sample_weight[at] if self.sample_weight.size else None

    def groups(self, by_class: bool) -> list[Any]:
        """Return which rows share a softmax: those of one class with an intercept, else all."""
        return [self.signs > 0, self.signs < 0] if by_class else [slice(None)]


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view: one compiled kernel then serves writable and read-only data."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def read_codes(
    y: Any, n: int, classes: npt.NDArray[Any] | None = None
) -> tuple[Codes, npt.NDArray[Any] | None]:
    """Return the place of each label among the classes, and the classes in order.

    ``None`` means that the rows are ``z_i`` already. ``classes`` are given if these labels are known to
    be some of many: they may lack some of them then.
    """
    if y is None:
        return np.zeros(n, np.int32), None
    labels = check_labels(y, n)
    if classes is None:
        try:
            classes = np.unique(labels)
        except TypeError as error:
            raise ValueError(f"y must hold numbers or text that can be sorted: {error}.") from error
        check_classes(classes)
    return np.searchsorted(classes, labels).astype(np.int32), classes


def check_classes(classes: npt.NDArray[Any]) -> None:
    """Raise ``ValueError`` unless there are at least two classes, which are no measurements."""
    if classes.size < 2:
        check_two_classes(classes.tolist())
    if classes.size > 2 and classes.dtype.kind == "f" and (classes != np.rint(classes)).any():
        odd = classes[classes != np.rint(classes)][0]
        raise ValueError(
            f"y must hold the labels of classes; got {classes.size} different numbers such as "
            f"{float(odd)!r}, which looks like a measurement. Name the label column."
        )


def check_labels(y: Any, n: int, name: str = "y") -> npt.NDArray[Any]:
    """Return the labels as an array, after checking that there is one finite label for each of n rows."""
    labels = label_array(y, name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ValueError(
            f"{name} must hold one label for each of the {n} rows of X; got shape {labels.shape}."
        )
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError(f"{name} has a label that is not finite, at row {np.argmin(np.isfinite(labels))}.")
    return labels


def label_array(y: Any, name: str = "y") -> npt.NDArray[Any]:
    """Return labels as an array; a masked or missing label, and text among numbers, is an error."""
    labels = as_array(y, name)
    if labels.dtype == object or (labels.dtype.kind in "US" and isinstance(y, (list, tuple))):
        _check_kinds(y if isinstance(y, (list, tuple)) else labels.ravel(), name)
    return labels


def join_labels(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the labels of several parts as one array, unless NumPy would change labels to join them."""
    joined = np.concatenate(parts)
    for part in parts:
        if joined.dtype.kind == "f":
            check_exact(part, "y")
        elif joined.dtype.kind in "US" and part.dtype.kind not in "US":
            raise ValueError(f"y mixes text and {part.dtype} in its parts. Give all labels one type.")
    return joined


def _check_kinds(labels: Iterable[Any], what: str) -> None:
    """Raise ``ValueError`` unless labels are all text or all numbers; NumPy cannot sort others."""
    kinds: dict[str, tuple[int, Any]] = {}
    for row, label in enumerate(labels):
        is_nan = isinstance(label, (float, np.floating)) and not np.isfinite(label)
        if label is None or is_nan or type(label).__name__ in ("NAType", "NaTType"):
            raise ValueError(f"{what} has no label at row {row}: got {label!r}. Fill it in, or drop the row.")
        name = "text" if isinstance(label, str) else "bytes" if isinstance(label, bytes) else "numbers"
        kinds.setdefault(name, (row, label))
    if len(kinds) > 1:
        shown = " and ".join(f"{label!r} at row {row}" for row, label in kinds.values())
        raise ValueError(f"{what} mixes {' and '.join(kinds)}: {shown}. Give all labels one type.")


def check_two_classes(classes: list[Any]) -> None:
    """Raise ``ValueError`` unless there are two classes."""
    if len(classes) != 2:
        shown = ", ".join(repr(c) for c in classes[:5]) + (", ..." if len(classes) > 5 else "")
        advice = "Keep the rows of two classes, or separate one class from the rest; " + JOINTLY
        if len(classes) < 2:
            advice = "Is this the label column, and are all rows there?"
        raise ValueError(f"y must hold two classes; got {len(classes)} ({shown}). {advice}")


def read_weights(sample_weight: Any, n: int) -> Array:
    """Return sample weights as float64, empty if none are given."""
    weights = check_weights(sample_weight, n)
    if weights.size and not weights.any():
        raise ValueError("sample_weight is zero everywhere: no row is left.")
    return weights


def check_weights(sample_weight: Any, n: int) -> Array:
    """Return the weights of some of the rows, which may all be zero."""
    if sample_weight is None:
        return np.empty(0)
    weights = np.ascontiguousarray(as_float(sample_weight, "sample_weight"), dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must hold one number for each of the {n} rows; got shape {weights.shape}."
        )
    allowed = np.isfinite(weights) & (weights >= 0.0)
    if not allowed.all():
        bad = np.argmin(allowed)
        raise ValueError(f"sample_weight must be finite and not negative; row {bad} has {weights[bad]:g}.")
    return weights
