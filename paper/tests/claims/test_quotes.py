"""Statements of the paper have the paper's own words; those of ours have none."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from prgd_paper.claims.quotes import readable
from prgd_paper.cli.claims import all_claims

# The paper's TeX source is not part of the repository: PRGD_PAPER_TEX names the file.
PAPER = Path(os.environ.get("PRGD_PAPER_TEX", "no such file"))


def test_every_statement_of_the_paper_is_quoted_without_commands():
    for claim in all_claims().values():
        assert bool(claim.quote) != claim.is_ours, claim.name
        assert not set("\\$~\0") & {*readable(claim.quote), *claim.quotation}, claim.name


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's TeX source is not here; set PRGD_PAPER_TEX")
def test_quotations_are_the_paper_s_own_words():
    """Up to white space, and in the order of the paper; ... stands for what is left out."""
    paper = " ".join(PAPER.read_text(encoding="utf-8").split())
    for claim in all_claims().values():
        at = 0
        for part in re.split(r"(?:^| )\.\.\. ", claim.quote):
            words = " ".join(part.split())
            assert words in paper[at:], (claim.name, words)
            at = paper.index(words, at) + len(words)


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\frac{\frac{\sqrt{\lambda_{\min}}}{4|\cI|^2}}{2} \\\geq&\mu", "((sqrt(λ_min))/(4|I|^2))/(2) >= μ"),
        (r"\<\bw(1),\bw^\star\>\geq\frac{\nabla\cL(\bw)}{2}", "<w(1),w*> >= (grad L(w))/(2)"),
        (r"$\{R_k\}_k$ and ${\gamma^\star}^2\leq\log2$", "{R_k}_k and γ*^2 <= log 2"),
        (
            r"that \begin{align*} \lim\limits_{t\to+\infty}\brho(t)\to\tilde{\bw}",
            "that lim_(t -> +∞)ρ(t) -> w\u0303",
        ),
        (r"in ${\rm span}\{\bx_i:i\in[n]\}$", "in span{x_i:i in [n]}"),
        (r"$r(t)=\tilde{\cO}(1/t^2)$", "r(t)=O\u0303(1/t^2)"),
        (r"$e^{-\Omega(t)}$ and $\hat{\bw}$", "e^(-Ω(t)) and w\u0302"),
        (r"$\norm{\frac{\bw}{\norm{\bw}}-\bw^\star}$", "||(w)/(||w||)-w*||"),
        (r"see Theorem~\ref{thm: x}, {\bf as} \texttt{Cancer}", "see Theorem [...], as Cancer"),
        ("a plain sentence (super-)fast, 95 %", "a plain sentence (super-)fast, 95 %"),
    ],
)
def test_tex_becomes_text(tex, text):
    assert readable(tex) == text
