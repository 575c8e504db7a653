"""Which columns of a table are the features and which is the label: by name, by position, by default."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from prgd.rows.exact import column_names

Column = str | int  # the name of a column, or its position from 0, from the last one if negative

LABEL_NAMES = ("y", "label", "target", "class")
_ROW_INDEX = re.compile(r"__index_level_\d+__")  # pandas stores a row index in columns of these names
_LISTED = 10  # columns that an error lists


class Choice(NamedTuple):
    """The columns of one table.

    Attributes
    ----------
    label : int or None
        Position of the label column; None if the table has features only.
    features : list of int
        Positions of the features, in the order of the rows to be made.
    names : tuple of str or None
        Names of the features; None if the table has no names.
    ignored : tuple of str
        Names of further columns, which a model does not use.
    """

    label: int | None
    features: list[int]
    names: tuple[str, ...] | None
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """What is asked of the columns of a table.

    Attributes
    ----------
    label : str, int or None
        By default the column called y, label, target or class, in any case; without names the last one.
    features : tuple of str or int, or None for all but the label
    drop : tuple of str or int
        Columns that are left out.
    is_labelled : bool
        False if the labels lie in another file, so that no column is the label.
    n_features : int or None
        Number of features of a model. A table of so many columns, none named as a label, has no labels.
    feature_names : tuple of str or None
        Names of the features of a model: columns are matched by name, in any order.
    """

    label: Column | None = None
    features: tuple[Column, ...] | None = None
    drop: tuple[Column, ...] = ()
    is_labelled: bool = True
    n_features: int | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.features is not None and self.drop:
            raise ValueError("Give the features to use or those to drop, not both (--features, --drop).")
        for column in (*(self.features or ()), *self.drop):
            if isinstance(column, bool) or not isinstance(column, str | int):
                raise TypeError(f"A column is given by its name or its position; got {column!r}.")
        if isinstance(self.label, bool) or not isinstance(self.label, str | int | None):
            raise TypeError(f"label must be a column's name or index, or None; got {self.label!r}.")

    @property
    def has_names(self) -> bool:
        """Whether a column is asked for by its name, so that the table must have names."""
        return any(isinstance(c, str) for c in (self.label, *(self.features or ()), *self.drop))

    @property
    def is_default(self) -> bool:
        """Whether no feature is chosen or dropped."""
        return self.features is None and not self.drop

    def choose(self, file: Path | str, names: Sequence[str], *, is_named: bool = True) -> Choice:
        """Return the label and the features of a table with these columns.

        ``is_named`` is False if a table has no header; its ``names`` are positions then.
        """
        shown = [j for j, name in enumerate(names) if not _ROW_INDEX.fullmatch(name)]
        if len(shown) < len(names):
            found = self.choose(file, [names[j] for j in shown], is_named=is_named)
            label = None if found.label is None else shown[found.label]
            return found._replace(label=label, features=[shown[j] for j in found.features])
        dropped = {_position(file, names, column) for column in self.drop}
        kept = [j for j in range(len(names)) if j not in dropped]
        label = self._label(file, names, kept, is_named)
        features = [j for j in kept if j != label]
        if self.features is not None:
            features = [_position(file, names, column) for column in self.features]
        if label is not None and label in (*dropped, *features):
            raise ValueError(
                f"{file}: column {names[label]!r} is the label, and --features or --drop names it too. "
                "Choose the label with --label."
            )
        if len(set(features)) < len(features):
            raise ValueError(f"{file}: a column is named twice in the features. Name each one once.")
        if not features:
            raise ValueError(f"{file}: no column is left as a feature. {_listed(names)}")
        own, wanted = tuple(names[j] for j in features), self.feature_names
        if not is_named:
            return Choice(label, features, None)
        if wanted is None or own == wanted:
            return Choice(label, features, own)
        # A model takes the columns that it was fitted on, in its order.
        chosen = [features[k] for k in match_names(wanted, own, str(file))]
        used = set(chosen)
        return Choice(label, chosen, wanted, tuple(names[j] for j in features if j not in used))

    def _label(self, file: Path | str, names: Sequence[str], kept: list[int], is_named: bool) -> int | None:
        if self.is_labelled and self.label is not None:
            return _position(file, names, self.label, "label column")
        known = self.feature_names or () if is_named else ()
        usual = [j for j in kept if is_named and names[j].lower() in LABEL_NAMES and names[j] not in known]
        if not self.is_labelled:
            if usual and self.features is None:
                raise ValueError(
                    f"{file}: has a column {names[usual[0]]!r} beside the labels of another file. Leave one "
                    "of them out: --labels, or the column by --drop."
                )
            return None
        may_lack = self.n_features is not None and (bool(known) or len(kept) == self.n_features)
        if not usual and may_lack:
            return None
        if not is_named and kept:
            return kept[-1]
        if len(usual) != 1:
            raise ValueError(
                f"{file}: expected one label column called {' or '.join(LABEL_NAMES)}, found "
                f"{len(usual) or 'none'}. "
                f"{_listed(names)} Name the label column, or give its position, with --label (label=)."
            )
        return usual[0]


def match_names(wanted: Sequence[str], names: Sequence[str], what: str) -> list[int]:
    """Return the places of the ``wanted`` names among ``names``; an error lists those that are missing.

    Examples
    --------
    >>> match_names(["a", "b"], ["b", "c", "a"], "rows.csv")
    [2, 0]
    """
    places = {name: k for k, name in enumerate(names)}
    if missing := [name for name in wanted if name not in places]:
        raise ValueError(
            f"{what} lacks {len(missing)} of the {len(wanted)} columns that the model was fitted on: "
            f"{some(missing)}. {_listed(names)} Add these, or rename the columns that are theirs."
        )
    counts = Counter(names)
    if len(set(wanted)) < len(wanted) or any(counts[name] > 1 for name in wanted):
        raise ValueError(
            f"{what} or the model has two columns of one name, so that columns cannot be matched by name. "
            "Rename them, or give the columns of the fit in the same order."
        )
    return [places[name] for name in wanted]


def in_order(X: Any, names: tuple[str, ...] | None) -> Any:
    """Return a data frame with the columns of a model in their order; data without names as they are.

    A frame that has the order is returned itself, without a copy.
    """
    own = column_names(X)
    if names is None or own is None or own == names:
        return X
    places = match_names(names, own, "The data frame")
    return X.iloc[:, places] if hasattr(X, "iloc") else X[:, places]


def check_same_names(first: tuple[str, ...], other: tuple[str, ...] | None, what: str, first_of: str) -> None:
    """Raise ``ValueError`` unless two parts of one table have the same columns, in any order."""
    if other is None or sorted(first) != sorted(other):
        only = [name for name in first if name not in (other or ())]
        more = [name for name in other or () if name not in first]
        raise ValueError(
            f"All parts must have the same columns; of those of {first_of}, {what} lacks "
            f"{some(only) or 'none'}, and it has beside them {some(more) or 'none'}."
        )


def _position(file: Path | str, names: Sequence[str], column: Column, what: str = "column") -> int:
    """Return the position of a column that is given by its name or its position."""
    if isinstance(column, str):
        found = [j for j, name in enumerate(names) if name == column]
        if len(found) != 1:
            instead = _instead(column, found, names)
            raise ValueError(f"{file}: expected one {what} called {column}, {instead} {_listed(names)}")
        return found[0]
    if not -len(names) <= column < len(names):
        raise ValueError(
            f"{file}: expected a {what} from 0 to {len(names) - 1}, got {column}. {_listed(names)}"
        )
    at = column % len(names)
    if str(column) in names and names[at] != str(column):
        raise ValueError(
            f"{file}: {column} is the name of one column and the position of another, {names[at]!r}. "
            "Give that column's name, or another position, counted from 0 or from the end (-1)."
        )
    return at


def _instead(column: str, found: list[int], names: Sequence[str]) -> str:
    """Return what there is instead of one column of a name: several, or others of nearly that name."""
    if found:
        return f"found {len(found)}. Give a position: {' or '.join(map(str, found))}."
    folded = {name.lower(): name for name in names}
    near = [folded[name] for name in difflib.get_close_matches(column.lower(), folded, cutoff=0.75)]
    return f"found none. Did you mean {' or '.join(near)}?" if near else "found none."


def _listed(names: Sequence[str]) -> str:
    return f"Columns: {some(names)}."


def some(names: Sequence[str]) -> str:
    """Return the first names, and the number of all if there are more."""
    rest = f", ... ({len(names)} in all)" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + rest
