"""The paper's claims: their types and their registry; `theory.claims`, `figures` and `studies` fill it."""

from prgd_paper.claims.finding import Finding as Finding
from prgd_paper.claims.finding import Judgement as Judgement
from prgd_paper.claims.registry import Claim as Claim
from prgd_paper.claims.registry import claim as claim
from prgd_paper.claims.registry import registered as registered
