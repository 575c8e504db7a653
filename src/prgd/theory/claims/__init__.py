"""One registry of the paper's claims: each is measured, and gets a verdict and a sentence."""

from prgd.theory.claims.registry import Claim, Entry, Finding, Verdict, claim, registered, run_claims
from prgd.theory.claims.show import main, print_claims

__all__ = [
    "Claim",
    "Entry",
    "Finding",
    "Verdict",
    "claim",
    "main",
    "print_claims",
    "registered",
    "run_claims",
]
