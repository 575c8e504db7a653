"""The paper's claims: their types and their registry; `prgd.theory.claims` and `prgd.reproduce` fill it."""

from prgd.claims.registry import Claim, Finding, apart, choose, claim, crosses, discover, registered, summary
from prgd.claims.verdict import Verdict

__all__ = [
    "Claim",
    "Finding",
    "Verdict",
    "apart",
    "choose",
    "claim",
    "crosses",
    "discover",
    "registered",
    "summary",
]
