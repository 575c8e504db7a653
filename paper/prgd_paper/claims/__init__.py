"""The paper's claims: their types and their registry; `theory.claims`, `figures` and `studies` fill it."""

from prgd_paper.claims.groups import apart, crosses, summary
from prgd_paper.claims.registry import Claim, Finding, choose, claim, discover, registered
from prgd_paper.claims.verdict import Verdict

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
