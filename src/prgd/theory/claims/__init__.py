"""One registry of the paper's claims: each is measured, and gets a verdict and a sentence."""

from prgd.theory.claims.registry import Claim, Finding, Verdict, claim, registry, run_claims

__all__ = ["Claim", "Finding", "Verdict", "claim", "registry", "run_claims"]
