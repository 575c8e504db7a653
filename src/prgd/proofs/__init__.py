r"""Exact and interval proofs, on which the solver and the verdict on separability rest.

The rows are ``z_i = y_i (x_i, 1)``, or ``y_i x_i`` without an intercept (`lifted_rows`), and v is ``(w, b)``.
By Goldman and Tucker every row is either *separated* (positive for some v with ``Z v >= 0``) or on the
*boundary* (zero for all such v). Two objects prove which:

- a **direction** v with ``Z v >= 0`` that is positive on the separated rows and exactly zero on the others
  (`directions`);
- **dual weights** p, positive on boundary rows and zero elsewhere, with ``Z^T p = 0``: then
  ``0 = <p, Z v> >= 0`` makes every row of positive weight zero for each such v (`weights`; Gordan, Stiemke).

Exact arithmetic on the data is in `elimination`, `modular`, `column_relations`, `pivots` and `exact_simplex`.
"""
