"""The form in which a peer gets the rows; conversions are off the clock."""

from typing import Any

import numpy as np
import scipy.sparse as sp

# between these shares of filled entries neither form is clearly better, and both are tried
THIN, THICK = 0.05, 0.5


def density(X: Any) -> float:
    return X.nnz / (X.shape[0] * X.shape[1]) if sp.issparse(X) else 1.0


def form_is_pointless(X: Any, form: str) -> tuple[bool, str | None]:
    """Return whether this form of X need not be tried, and why."""
    share = np.count_nonzero(X) / X.size if not sp.issparse(X) else density(X)
    if form == "dense" and share < THIN:
        return True, f"dense rows: only {share:.1%} of the entries are filled"
    if form == "sparse" and share > THICK:
        return True, f"sparse rows: {share:.0%} of the entries are filled"
    return False, None


def as_form(X: Any, form: str) -> Any:
    return as_csr(X) if form == "sparse" else as_dense(X)


def as_csr(X: Any) -> Any:
    """Return a CSR matrix with the 32-bit indices that scikit-learn asks for."""
    X = sp.csr_matrix(X, dtype=np.float64)
    X.sort_indices()
    return sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def as_dense(X: Any) -> np.ndarray:
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def signed(X: Any, y: np.ndarray) -> Any:
    """Return the rows ``z_i = y_i x_i``."""
    return as_csr(sp.diags_array(y) @ X) if sp.issparse(X) else X * y[:, None]


def mirrored(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the rows z_i and -z_i, in two classes.

    By symmetry their separator with an intercept goes through the origin, and is that of X and y.
    """
    Z = signed(X, y)
    both = as_csr(sp.vstack([Z, -Z])) if sp.issparse(Z) else np.vstack([Z, -Z])
    return both, np.repeat([1.0, -1.0], len(y))


def gram(Z: Any) -> np.ndarray:
    """Return ``Z Z^T`` as a dense array."""
    if sp.issparse(Z) and density(Z) < THIN:
        return np.asarray((Z @ Z.T).toarray())
    Z = as_dense(Z)
    return Z @ Z.T
