"""Solvers on some of the rows: what `prgd.max_margin` and `ProgressiveNewton` are built from.

`working_set` gathers rows, keeps their Gram matrix and descends on it. `interior_point` and `active_set` find
the shortest vector of the hull of these rows, `coordinate_descent` that of sparse rows. `joint_interior`
solves the program of all classes at once, over pairs (row, class), and `programs` those of other norms.
`primal_newton` is for soft margins, and `active_rows` solves the Newton systems of `ProgressiveNewton`.
"""
