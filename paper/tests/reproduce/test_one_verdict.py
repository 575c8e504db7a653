"""One statement has one verdict: on the page, in its lists, in claims.json and in ``prgd claims``."""

import json
import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import draw_report
import pytest
import write_verdicts
from prgd_paper.claims import Claim, Finding, Judgement, registered, registry
from prgd_paper.cli.claims import all_claims, measured, print_claims
from prgd_paper.report import static
from prgd_paper.reproduce.experiment import choose
from prgd_paper.reproduce.make import reproduce
from reproduce.tiny import blank, report_of_all, tiny
from theory.test_claims import VERDICTS

CLAIMS = all_claims()  # registered before a test puts others in their place
BADGE = r'class="verdict [a-z-]+"><span aria-hidden="true">.</span> ([a-z ]+)<'
ROW = re.compile(rf'<tr id="([^"]+)">.*?{BADGE}', re.S)
ITEM = re.compile(rf'<li><a href="#([^"]+)">.*?</a> <span {BADGE}')
LINE = re.compile(rf"^({'|'.join(map(str, Judgement))}) +([a-z][^ ]+)(?: \(|:)", re.M)


def written(experiments, out: Path, monkeypatch, *, settings_are_full: bool = True) -> str:
    """Return the page of a report, whose pictures are left blank since drawing them takes the most time."""

    monkeypatch.setattr(static, "is_current", blank)
    return reproduce(experiments, quick=not settings_are_full, out=out).read_text(encoding="utf-8")


def pairs(pattern: re.Pattern, text: str) -> set[tuple[str, str]]:
    return {(name, verdict) for name, verdict in pattern.findall(text)}


@pytest.fixture
def e(monkeypatch):
    """Return the tiny experiments, which are loaded in place of the full ones."""
    for module in ("experiment", "make"):
        monkeypatch.setattr(f"prgd_paper.reproduce.{module}.load", tiny().get)
    return tiny()


@pytest.mark.slow
def test_the_report_and_prgd_claims_agree_on_every_claim_with_rows(
    e, tmp_path, tmp_path_factory, monkeypatch, capsys
):
    shutil.copytree(report_of_all(tmp_path_factory), tmp_path, dirs_exist_ok=True)  # its rows are read
    page = written(list(e.values()), tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    on_the_page = pairs(ROW, page)
    assert {name for name, _ in on_the_page} == set(registered(e))
    assert pairs(ITEM, page) == on_the_page
    stored = json.loads((tmp_path / "claims.json").read_text())
    assert {(c["name"], c["verdict"]) for c in stored} == on_the_page
    assert {(name, verdict) for verdict, name in LINE.findall(printed)} == on_the_page
    found = print_claims(measured(claim, tmp_path) for claim in registered(e).values())
    assert {(c.name, str(c.verdict)) for c in found} == on_the_page
    assert {(name, verdict) for verdict, name in LINE.findall(capsys.readouterr().out)} == on_the_page


@pytest.mark.slow
def test_sections_that_share_rows_show_one_verdict(e, tmp_path, monkeypatch, capsys):
    """Figure 3 has the rows of set I only, Figure 6 those of both, which a claim about both needs."""

    def count(rows, settings) -> Finding:
        return Finding((rows["set"].nunique(), ">=", 2), "s.")

    both = Claim("both", "Section 7.1", "s", count, "figure-6")
    monkeypatch.setattr(registry, "_CLAIMS", {"both": replace(both, needs_rows=True)})
    page = written([e["figure-3"], e["figure-6"]], tmp_path / "two", monkeypatch)
    assert pairs(ROW, page) | pairs(ITEM, page) == {("both", "holds")}
    capsys.readouterr()
    again = written([e["figure-3"]], tmp_path / "two", monkeypatch)  # the page keeps the section of Figure 6
    assert pairs(ROW, again) | pairs(ITEM, again) == {("both", "holds")}
    assert LINE.findall(capsys.readouterr().out) == [("holds", "both")]


@pytest.mark.slow
def test_a_part_of_the_rows_has_the_verdict_of_prgd_claims(e, tmp_path, monkeypatch, capsys):
    """A claim about both sets is not yet run while Figure 3 alone has rows, even if these would agree."""
    agrees = Claim("both", "Section 7.1", "s", lambda rows, _: Finding((1.0, ">=", 0.0), "s."), "figure-6")
    agrees = replace(agrees, needs_rows=True)
    monkeypatch.setattr(registry, "_CLAIMS", {"both": agrees})
    page = written([e["figure-3"]], tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert pairs(ROW, page) | pairs(ITEM, page) == {("both", "not yet run")}
    assert LINE.findall(printed) == [("not yet run", "both")]
    assert "figure-3 has a part of the rows that decide: prgd reproduce --only figure-6" in printed
    assert measured(agrees, tmp_path).verdict is Judgement.NOT_RUN


@pytest.mark.slow
def test_a_quick_run_refutes_nothing(tmp_path, monkeypatch):
    wrong = Claim("wrong", "Section 4", "s", lambda rows, _: Finding((0.0, ">", 1.0), "s."), "figure-2")
    monkeypatch.setattr(registry, "_CLAIMS", {"wrong": replace(wrong, needs_rows=True)})
    e = tiny()["figure-2"]
    quick = replace(e, settings=replace(e.settings, angles=13))
    page = written([quick], tmp_path / "quick", monkeypatch, settings_are_full=False)
    assert pairs(ROW, page) == {("wrong", "not decided")}
    assert "Too few draws or steps to refute anything" in page
    assert "This is a preview" in page
    full = written([e], tmp_path / "full", monkeypatch)
    assert pairs(ROW, full) == {("wrong", "does not hold")}
    assert "This is a preview" not in full


def test_fewer_seeds_are_a_smaller_run():
    e = tiny()["table-2"]
    assert e.is_partial(replace(e.settings, seeds=1))
    assert not e.is_partial(replace(e.settings, seeds=3))


@pytest.fixture(scope="module")
def four(tmp_path_factory) -> str:
    """Return a page with a claim for each of the four outcomes, one of them ours."""
    given = {"setting": "Seeds 0 to 19.", "would_change": "More seeds.", "what": "difference"}
    findings = {
        "agrees": Finding(((1.0, 2.0), ">", 0.0), "It is above.", **given),
        "but": Finding(((1.0, 2.0), ">", 0.0), "It is above.", "Not everywhere.", **given),
        "disagrees": Finding(((-2.0, -1.0), ">", 0.0), "It is below.", given_in="Appendix E.1", **given),
        "both": Finding(((-1.0, 1.0), ">", 0.0), "Who knows.", **given),
        "unclear": Finding((-1.0, ">", 0.0), "It is below.", not_given="the horizon", **given),
        "own": Finding((-1.0, ">", 0.0), "It is below."),
    }
    claims = {
        name: Claim(name, "Section 4", f"Statement {name}.", lambda f=f: f, "figure-2", method="Subtract.")
        for name, f in findings.items()
    }
    claims["disagrees"] = replace(claims["disagrees"], quote=r"$\gamma^\star$ is {\bf large} & $<1$")
    claims["own"] = replace(claims["own"], where="beyond the paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_CLAIMS", claims)
        return written([tiny()["figure-2"]], tmp_path_factory.mktemp("four"), patch)


def section(page: str, name: str) -> str:
    (found,) = re.findall(rf'<section id="{name}".*?</section>', page, re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


def test_the_page_says_all_of_each_claim(four):
    claims = section(four, "claims")
    assert "5 claims: 1 holds, 1 holds with a caveat, 1 does not hold, 2 not decided." in claims
    assert "“γ* is large &amp; &lt;1” Section 4 In our words: Statement disagrees." in claims
    assert "Statement agrees. Section 4, in our words" in claims
    assert (
        "✗ does not hold Ran Seeds 0 to 19. Asked Subtract. Found It is below. Decides difference: -2 to -1; "
        "holds if more than 0 Setting from Appendix E.1 Would change it More seeds." in claims
    )
    assert "Why The interval contains both answers." in claims
    assert "Why The paper does not give the horizon." in claims
    assert "Caveat Not everywhere." in claims
    assert all(verdict.meaning in claims for verdict in Judgement if verdict is not Judgement.NOT_RUN)


def test_the_page_opens_with_what_does_not_hold(four):
    glance = section(four, "claims").split("Each statement is decided")[0]
    names = [glance.index(f"Statement {name}.") for name in ("disagrees", "both", "unclear", "but")]
    assert names == sorted(names)
    assert "Statement agrees." not in glance
    assert "Statement disagrees. Section 4; measured It is below." in glance


def test_statements_of_ours_stand_apart(four):
    assert "Statement own." not in section(four, "claims")
    ours = section(four, "ours")
    assert "Statement own. beyond the paper ✗ does not hold" in ours
    assert "1 statement of ours: 0 hold, 0 hold with a caveat, 1 does not hold." in ours


DOCS = Path(__file__).parents[3] / "docs"
SIGNED = re.compile(r"(?:([✓◐✗?]) )?`([a-z][a-z0-9.-]+)`")


def signs_on(page: str) -> set[tuple[str, str]]:
    """Return the claims that a page names, each with the sign before it; empty if there is none."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return {(name, sign) for sign, name in SIGNED.findall(text) if name in CLAIMS}


@pytest.mark.slow
def test_the_verdicts_and_the_report_are_those_of_the_registry(tmp_path, monkeypatch):
    """From the rows of the full run; lemmas and theorems are measured by test_claim, on fewer sets."""
    with tarfile.open(draw_report.ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    found = {n: VERDICTS.get(n) or measured(c, tmp_path).verdict for n, c in CLAIMS.items()}
    assert signs_on("verdicts") == {(name, verdict.sign) for name, verdict in found.items()}
    monkeypatch.setattr(static, "is_current", blank)
    page = reproduce(choose(), out=tmp_path, keep_rows=True).read_text(encoding="utf-8")
    assert pairs(ROW, page) == {(name, str(found[name])) for name, c in CLAIMS.items() if c.experiment}
    assert "Does it matter? yes: generalization is what Figure 5 is about" in page


def test_no_page_contradicts_the_verdicts():
    """README, theory, errata, every method, deep: each claim that they name has its verdict beside it."""
    signs = dict(signs_on("verdicts"))
    assert len(signs) == len(signs_on("verdicts"))  # the page says each verdict once, or twice alike
    results = {name for name in signs if re.match(r"(lemma|theorem|proposition|table-1)-", name)}
    assert results <= dict(signs_on("theory")).keys()
    for page in ("theory", "errata"):
        assert signs_on(page) <= signs.items(), signs_on(page) - signs.items()
    claims = [
        {"name": n, "verdict": v, "is_ours": CLAIMS[n].is_ours, "is_line": CLAIMS[n].is_line}
        for v in Judgement
        for n, sign in signs.items()
        if sign == v.sign
    ]
    assert write_verdicts.summary(claims) in (DOCS.parent / "README.md").read_text(encoding="utf-8")
    words = {c["name"] for c in claims if not c["is_ours"] and c["verdict"] != Judgement.HOLDS}
    assert words == {name for name, said in write_verdicts.WORDS.items() if said["matters"]}
    race, deep = ((DOCS / f"{page}.md").read_text(encoding="utf-8") for page in ("every_method", "deep"))
    for name, claim in CLAIMS.items():
        verdict = next(v for v in Judgement if v.sign == signs[name])
        if name.startswith("rate-"):
            assert re.search(
                rf"^\| {re.escape(claim.statement.split(': ')[0])} \|.*\| {verdict} \|$", race, re.M
            )
        if claim.experiment == "figure-5b":
            assert f"*{claim.statement}* **{verdict.capitalize()}.**" in deep
