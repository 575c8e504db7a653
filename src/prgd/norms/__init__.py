"""Norms as values: the margin of w is measured in a norm, the upper bound of a certificate in its dual norm.

``min_i <w, z_i> / ||w|| <= gamma_star <= ||Z^T p||_*``. A new norm is a subclass of `Norm` and its line in
`NORMS`. What solves each norm: docs/norms.md.

========== ==================================== ====================================================
text       norm                                 margin maximised by, what its w is like
========== ==================================== ====================================================
l2         root of the sum of squares           gradient descent
l1         sum of absolute values               coordinate descent, boosting; few weights
linf       largest absolute value               sign descent, Adam; weights of one size
lp:3, l3   l_p, here p = 3; also the number 3   steepest and mirror descent in l_p
spectral   largest singular value               spectral descent (Muon)
nuclear    sum of singular values               steepest descent of rank-one steps; low rank
rows       sum of the l2 norms of rows          steepest descent, a class at a time
columns    sum of the l2 norms of columns       steepest descent, a feature at a time; few features
========== ==================================== ====================================================

The last four are norms of weight matrices, which have a row for each class.
"""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Any

from prgd.core.checks import parse
from prgd.norms.base import L2, Norm
from prgd.norms.base import moderate as moderate
from prgd.norms.base import norm as norm
from prgd.norms.base import raised_norm as raised_norm
from prgd.norms.entrywise import L1, Linf, Lp
from prgd.norms.matrix import GroupNorm, Nuclear, Spectral

__all__ = ["L1", "L2", "Frobenius", "GroupNorm", "Linf", "Lp", "Norm", "Nuclear", "Spectral", "as_norm"]

Frobenius = L2

NORMS: dict[str, Norm | type[Norm]] = {
    "l2": L2(),
    "l1": L1(),
    "linf": Linf(),
    "lp": Lp,
    "frobenius": Frobenius(),
    "spectral": Spectral(),
    "nuclear": Nuclear(),
    "rows": GroupNorm("rows"),
    "columns": GroupNorm("columns"),
}
_PREFIX = re.compile(r"^l(p:)?", re.IGNORECASE)  # what may stand before p in a text
_ACCEPTED = (
    f"A norm is one of the texts {', '.join(repr(name) for name in NORMS if name != 'lp')}, 'lp:1.5' and "
    "'l1.5', a number p of at least 1 or math.inf, or a value of prgd.norms, such as Lp(1.5)."
)


def as_norm(value: Norm | str | float) -> Norm:
    """Return the norm that a value, its text or a number p stands for.

    Parameters
    ----------
    value : Norm, str or float
        A norm; one of the names in `NORMS`, in any case; ``"lp:1.5"`` or ``"l1.5"`` for ``Lp(1.5)``; or p,
        also as text, where 1 stands for `L1`, 2 for `L2` and infinity for `Linf`.

    Raises
    ------
    ValueError, TypeError
        If the text or the number is no norm, or if value is neither.

    Examples
    --------
    >>> as_norm("l2"), as_norm("lp:1.5"), as_norm(math.inf), as_norm("rows")
    (L2(), Lp(p=1.5), Linf(), GroupNorm(axis='rows'))
    >>> as_norm("L1"), as_norm("l3")
    (L1(), Lp(p=3.0))
    """
    if isinstance(value, Norm) and not isinstance(value, Lp):
        return value
    p = value.p if isinstance(value, Lp) else _exponent(value)
    if p is not None and not p >= 1.0:
        raise ValueError(f"The p of a norm must be a number of at least 1; got {p!r}. {_ACCEPTED}")
    if p is not None:
        return {1.0: L1(), 2.0: L2(), math.inf: Linf()}.get(p) or Lp(p)
    text = str(value).strip()
    try:
        found: Norm = parse(text if text in NORMS else text.lower(), NORMS, "norm")
    except ValueError as error:
        raise ValueError(f"{error} {_ACCEPTED}") from None
    return found


def _exponent(value: Any) -> float | None:
    """Return the p that a number or its text gives, None for other text."""
    if isinstance(value, bool) or not isinstance(value, (str, Real)):
        raise TypeError(f"A norm cannot be made of {value!r:.60}. {_ACCEPTED}")
    try:
        return float(_PREFIX.sub("", value.strip()) if isinstance(value, str) else value)
    except OverflowError:
        return math.nan
    except ValueError:
        return None
