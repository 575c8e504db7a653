"""The paper's claims: their types and their registry; `prgd.theory.claims` and `prgd.reproduce` fill it."""

from prgd.claims.groups import apart, crosses, summary
from prgd.claims.registry import Claim, Finding, choose, claim, discover, registered
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
