"""The paper's claims: their types and their registry; `prgd.theory.claims` and `prgd.reproduce` fill it."""

from prgd.claims.registry import Claim, Finding, choose, claim, discover, registered, summary
from prgd.claims.verdict import Verdict

__all__ = ["Claim", "Finding", "Verdict", "choose", "claim", "discover", "registered", "summary"]
