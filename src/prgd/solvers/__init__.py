"""Solvers on some of the rows: what `prgd.max_margin` and `ProgressiveNewton` are built from.

`working_set` gathers rows and keeps their Gram matrix (`gram_matrix`). `pairwise_descent`, `interior_point`
and `polish` find the shortest vector of the hull of these rows, `exact_active_set` without rounding.
`joint_interior` solves the program of all classes at once, over pairs (row, class), and `joint_polish`
sharpens its answers. `active_rows` solves the Newton systems of `ProgressiveNewton`. `minimal` replaces Numba
and SciPy if they are missing.
"""
