"""Exact and interval proofs, on which the solver and the separability verdict rest."""
