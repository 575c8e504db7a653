"""Solvers on some rows of one problem: working set, pairwise descent, interior point, polish, Newton."""
