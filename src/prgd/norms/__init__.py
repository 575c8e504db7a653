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

from prgd.norms.base import L2, NORMS, Norm, as_norm
from prgd.norms.base import moderate as moderate
from prgd.norms.base import norm as norm
from prgd.norms.base import raised_norm as raised_norm
from prgd.norms.entrywise import L1, Linf, Lp
from prgd.norms.matrix import GroupNorm, Nuclear, Spectral

__all__ = ["L1", "L2", "Frobenius", "GroupNorm", "Linf", "Lp", "Norm", "Nuclear", "Spectral", "as_norm"]

Frobenius = L2
NORMS |= {
    "l1": L1(),
    "linf": Linf(),
    "lp": Lp,
    "frobenius": Frobenius(),
    "spectral": Spectral(),
    "nuclear": Nuclear(),
    "rows": GroupNorm("rows"),
    "columns": GroupNorm("columns"),
}
