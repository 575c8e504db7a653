"""One registry that theory and experiments fill, verdicts in words, and quotations of the paper."""

import io
import math
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from prgd_paper.claims import Claim, Finding, Judgement, registered
from prgd_paper.claims.quotes import readable
from prgd_paper.claims.registry import crosses, place, summary
from prgd_paper.cli.claims import all_claims, claims_command, measured, print_claims
from prgd_paper.reproduce.experiment import choose


def test_every_claim_about_an_experiment_names_one_that_exists():
    names = {claim.experiment for claim in all_claims().values() if claim.experiment}
    assert names <= {e.name for e in choose()}
    assert all(claim.experiment for claim in all_claims().values() if claim.needs_rows)


def test_every_experiment_has_a_claim():
    all_claims()
    for e in choose():
        assert registered((e.name, e.rows_name))


def test_a_claim_without_rows_is_not_run(tmp_path, capsys):
    claim = measured(all_claims()["table-2-gd"], tmp_path)
    claims_command(["table-2-gd"], report=tmp_path)
    assert claim.verdict is Judgement.NOT_RUN
    assert "not yet run          table-2-gd" in capsys.readouterr().out
    assert "prgd reproduce --only table-2" in claim.sentence
    assert "decided" not in summary([claim])
    assert summary([claim]).endswith("1 not yet run")


def test_a_verdict_is_found_by_its_words():
    assert all(Judgement(str(verdict)) is verdict for verdict in Judgement)
    assert len({verdict.sign for verdict in Judgement}) == len(Judgement)


@pytest.mark.parametrize(
    ("measured", "relation", "not_given", "expected"),
    [
        (0.1, "<", "", Judgement.HOLDS),
        (0.3, "<", "", Judgement.FAILS),
        (0.3, "<", "the horizon", Judgement.NOT_DECIDED),
        (0.1, "<", "the horizon", Judgement.HOLDS),
        (0.2, "<=", "", Judgement.HOLDS),
        (0.2, "<", "", Judgement.FAILS),
        (0.1, ">=", "", Judgement.FAILS),
        (0.3, ">", "", Judgement.HOLDS),
        (0.2 + 1e-13, "==", "", Judgement.HOLDS),
        (0.22, "==", "", Judgement.FAILS),
        ((0.05, 0.1), "<", "", Judgement.HOLDS),
        ((0.25, 0.3), "<", "", Judgement.FAILS),
        ((0.25, 0.3), "<", "the preprocessing", Judgement.NOT_DECIDED),
        ((0.1, 0.3), "<", "", Judgement.NOT_DECIDED),
        ((0.1, 0.3), ">=", "", Judgement.NOT_DECIDED),
        ((0.1, 0.3), "==", "", Judgement.HOLDS),
        ((0.3, 0.4), "==", "", Judgement.FAILS),
        (math.nan, "<", "", Judgement.NOT_DECIDED),
        ((math.nan, 0.3), ">", "", Judgement.NOT_DECIDED),
    ],
)
def test_the_rule_of_verdicts(measured, relation, not_given, expected):
    finding = Finding((measured, relation, 0.2), "s.", not_given=not_given)
    assert finding.verdict is expected
    assert bool(finding.reason) == (expected is Judgement.NOT_DECIDED)
    caveat = Finding((measured, relation, 0.2), "s.", "But.", not_given=not_given)
    assert caveat.verdict is (Judgement.CAVEAT if expected is Judgement.HOLDS else expected)
    assert Finding((1e-12, "==", 0.0), "s.").verdict is Judgement.HOLDS  # relative to 1 where 0 is expected


def test_fewer_rows_than_the_full_run_refute_nothing():
    wrong = Finding((0.3, "<", 0.2), "s.", is_partial=True)
    assert wrong.verdict is Judgement.NOT_DECIDED
    assert "full run" in wrong.reason
    assert Finding((0.1, "<", 0.2), "s.", is_partial=True).verdict is Judgement.HOLDS


@pytest.mark.parametrize(
    ("measured", "relation", "what", "words"),
    [
        (8.0, "==", "cylinders that fail", "cylinders that fail: 8; holds if 0"),
        (0.97, ">=", "share of draws", "share of draws: 0.97; holds if at least 0"),
        ((-0.5, 1.25), "<", "", "-0.5 to 1.25; holds if less than 0"),
        ((-math.inf, math.inf), ">", "r", "r: too few draws for an interval; holds if more than 0"),
    ],
)
def test_the_deciding_figure_is_named(measured, relation, what, words):
    finding = Finding((measured, relation, 0.0), "s.", what=what)
    assert Claim("a", "Section 4", "s", lambda: finding)().comparison == words
    asked = Claim("a", "Section 4", "s", lambda: finding, method="Count the sets.")()
    assert asked.comparison == (words if what else f"Count the sets: {words}")
    assert bool(asked.question) == bool(what)


def test_every_claim_says_how_it_is_measured():
    for claim in all_claims().values():
        assert claim.method.endswith("."), claim.name
        assert claim.method != claim.statement


def test_the_guide_has_the_meaning_of_each_verdict():
    text = (Path(__file__).parents[3] / "docs" / "reproduce.md").read_text(encoding="utf-8")
    for verdict in Judgement:
        assert f"| {verdict.sign} {verdict} | {verdict.meaning} |" in text


def ours_and_papers() -> list[Claim]:
    wrong = Claim("wrong", "Lemma D.3", "It is so.", lambda: Finding((1.0, "==", 0.0), "Not so."))()
    own = replace(wrong, name="own", where="beyond the paper, Table 1", statement="We say so.")
    return [wrong, own]


def test_statements_of_ours_are_counted_apart():
    assert place(ours_and_papers()[1]) > place(ours_and_papers()[0])
    assert summary(ours_and_papers()) == (
        "1 claim: 0 hold, 0 hold with a caveat, 1 does not hold; "
        "1 statement of ours: 0 hold, 0 hold with a caveat, 1 does not hold"
    )
    assert [c.name for c in crosses(ours_and_papers())] == ["wrong"]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_prgd_claims_prints_ours_and_crosses_apart(is_terminal):
    out = io.StringIO()
    out.isatty = lambda: is_terminal
    print_claims(ours_and_papers(), out)
    papers, own, wrong = re.split("Statements of ours|What does not hold", out.getvalue())
    assert "It is so." in papers
    assert "We say so." not in papers
    assert "We say so." in own
    assert "Decided by: 1; holds if 0." in wrong
    assert "We say so." not in wrong
    assert "1 statement of ours" in wrong


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
        (r"\begin{align*} \lim\limits_{t\to+\infty}\brho(t)\to\tilde{\bw}", "lim_(t -> +∞)ρ(t) -> w\u0303"),
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
