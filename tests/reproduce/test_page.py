"""The page and the README block as text: complete, escaped, without a network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import write_verdicts
from reproduce.tiny import tiny

from prgd.claims import Claim, Finding, registry
from prgd.reproduce import choose, reproduce
from prgd.reproduce.figures import (
    Arrows,
    Figure,
    Heat,
    Line,
    Panel,
    Points,
    Style,
    Table,
    plain,
    style_of,
    thinned,
)
from prgd.reproduce.report.interactive import plots
from prgd.reproduce.report.page import Section, judged
from prgd.reproduce.report.terminal import print_list

NASTY = "<script>alert('x')</script> & \"quotes\""


@pytest.fixture(scope="module")
def nasty_page(tmp_path_factory) -> str:
    """Return a page all of whose titles, labels and sentences try to break out."""
    out = tmp_path_factory.mktemp("nasty")
    line = Line(NASTY, [1.0, 2.0], [1.0, 2.0], style=Style("#000000"))
    heat = Heat([NASTY], [NASTY], [[1.0]], [[NASTY]], NASTY)
    panels = (
        Panel(NASTY, (line, Points(NASTY, [1.0], [1.0], style=Style("#000000"))), NASTY, NASTY),
        Panel(NASTY, (heat,), NASTY, NASTY),
    )
    e = replace(
        tiny()["figure-1"],
        name="nasty",
        title=NASTY,
        where=NASTY,
        draw=lambda rows, settings: [Figure("figure-1", NASTY, NASTY, panels)],
        tables=lambda rows, settings: [Table(NASTY, (NASTY,), ((NASTY,),))],
        reading=lambda rows, settings: NASTY,
    )
    claim = Claim("claim", NASTY, NASTY, lambda: Finding((1.0, "<", 2.0), NASTY), "nasty")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_CLAIMS", {"claim": claim})
        page = reproduce([e], quick=True, seeds=None, jobs=1, out=out, force=False)
    return page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_titles_and_labels_are_escaped(nasty_page):
    assert "<script>alert" not in nasty_page
    assert "alert('x')</script>" not in nasty_page.lower()
    assert nasty_page.count("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;") > 10


def test_specifications_are_json_with_escaped_text(nasty_page):
    (spec,) = re.findall(r'<script type="application/json" class="spec">(.*?)</script>', nasty_page)
    first, second = json.loads(spec)
    assert first["data"][0]["name"].startswith("&lt;script&gt;")
    assert first["data"][0]["legendgroup"] == NASTY  # never shown: it pairs traces with buttons
    assert first["layout"]["xaxis"]["title"]["text"].startswith("&lt;script&gt;")
    assert second["data"][0]["text"][0][0].startswith("&lt;script&gt;")


def test_the_page_asks_nothing_of_a_network(nasty_page):
    own = re.sub(r"<script>.*?</script>", "", nasty_page, flags=re.S)  # plotly.js names its sites in comments
    assert not re.search(r'(?:src|href)="(?:https?:)?//', own)
    assert "@import" not in own


def test_the_order_of_claims_is_the_papers():
    e = tiny()
    sections = []
    for name, where in (
        ("table-2", "Table 2, Appendix E.1"),
        ("figure-1", "Section 4"),
        ("figure-2", "ours"),
    ):
        claim = Claim(name, where, "s", lambda: Finding((1.0, "<", 2.0), "s."))()
        sections.append(Section(e[name], None, "", "", (), (), (claim,), (), ()))
    assert [claim.name for claim, _ in judged(sections)] == ["figure-1", "table-2", "figure-2"]


def test_plain_numbers_only():
    assert plain({"a": (1, float("inf"), 1e-20), "b": "x"}) == {"a": [1, None, 1e-20], "b": "x"}


def test_thinned_keeps_both_ends():
    line = thinned(Line("x", list(range(1000)), list(range(1000)), style_of("NGD")), 50)
    assert (line.x[0], line.x[-1], len(line.x)) == (0, 999, 50)


def test_unknown_methods_have_a_style():
    assert style_of("something new").colour.startswith("#")


def test_an_arrow_field_of_one_point_can_be_drawn():
    arrows = Arrows("field", [0.0], [0.0], [1.0], [0.0], style=Style("#808080"))
    (plot,) = plots(Figure("f", "t", "a", (Panel("p", (arrows,), "x", "y"),)))
    assert len(plot["data"][0]["x"]) == 6


# The command's checks


def test_unknown_experiment_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match=r"Unknown experiment 'figur-4'. Did you mean figure-4"):
        reproduce(choose(["figur-4"]), out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_no_permission_is_said_before_work(tmp_path, monkeypatch):
    monkeypatch.setattr("prgd.reproduce.pool.run_jobs", lambda *_, **__: pytest.fail("worked"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="Cannot write to the output folder"):
        reproduce(choose(), out=tmp_path / "file" / "report")
    (tmp_path / "report" / "figures").mkdir(parents=True)
    (tmp_path / "report" / "rows").write_text("in the way")
    with pytest.raises(ValueError, match="Cannot write to the output folder"):
        reproduce(choose(), out=tmp_path / "report")


@pytest.mark.parametrize("options", [{"jobs": 0}, {"seeds": 0}])
def test_bad_numbers_are_refused(tmp_path, options):
    with pytest.raises(ValueError, match="at least 1"):
        reproduce(choose(), out=tmp_path, **options)


def test_reproduce_makes_the_named_experiment(tmp_path, capsys):
    page = reproduce(choose(["figure-2"]), quick=True, out=tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "prgd reproduce --only figure-2 --quick" in text
    assert "experiments are left out here" in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} >= {
        "figure-2.png",
        "figure-2.svg",
        "figure-2.pdf",
    }
    out = capsys.readouterr().out
    assert "1 claim: 1 hold" in out
    assert f"Report: {page}" in out
    assert "(--quick takes fewer draws and steps, which decide less: leave it out for verdicts.)" in out


def test_list_names_every_experiment(capsys):
    print_list(choose())
    out = capsys.readouterr().out
    for name in tiny():
        assert name in out


# the verdicts in the documentation


def test_verdicts_are_written(tmp_path):
    report = tmp_path / "report"
    (report / "figures").mkdir(parents=True)
    for name in write_verdicts.FIGURES:
        (report / "figures" / f"{name}.png").write_bytes(name.encode())
    found = Claim(
        "a", "Section 7", "gamma_star grows", lambda: Finding((1.0, ">", 2.0), "s.", what="growth")
    )()
    ours = replace(found, name="b", where="beyond the paper", statement="We say so.")
    quoted = replace(found, name="c", quote=r"$\gamma^\star$ is |large|")
    claims = tmp_path / "claims.json"
    claims.write_text(json.dumps([c.to_dict() for c in (found, ours, quoted)]))
    file = tmp_path / "README.md"
    file.write_text(f"# Title\n\n{write_verdicts.BEGIN}\nearlier\n{write_verdicts.END}\n\n## More\n")
    write_verdicts.main(report, claims, tmp_path)
    once = file.read_text()
    assert once.startswith("# Title\n")
    assert once.endswith("\n## More\n")
    assert "Of 2 statements of the paper that were measured, 2 do not hold." in once
    assert "earlier" not in once
    assert (tmp_path / "docs" / "images" / "figure-3.png").read_bytes() == b"figure-3"
    write_verdicts.main(report, claims, tmp_path)
    assert file.read_text() == once
    text = (tmp_path / "docs" / "verdicts.md").read_text()
    crosses, papers, own = re.split(r"## Statements of the paper|## Statements of ours", text)
    assert "| γ\\* grows | Section 7 | growth: 1; holds if more than 2 |" in crosses
    assert "| “γ\\* is \\|large\\|”<br>γ\\* grows | Section 7 | `c` | ✗ does not hold |" in papers
    assert "We say so." not in papers + crosses
    assert "| We say so. | beyond the paper | `b` | ✗ does not hold |" in own


def test_verdicts_that_are_missing_are_named(tmp_path):
    (tmp_path / "README.md").write_text(f"{write_verdicts.BEGIN}\n{write_verdicts.END}\n")
    missing = Claim("a", "Section 7", "s", lambda: Finding((1.0, ">", 2.0), "s."))
    (tmp_path / "claims.json").write_text(json.dumps([missing.to_dict()]))
    with pytest.raises(ValueError, match=r"lacks verdicts \(a\)"):
        write_verdicts.main(tmp_path, tmp_path / "claims.json", tmp_path)


def test_readme_without_marks_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("# Title\n")
    with pytest.raises(ValueError, match="each once"):
        write_verdicts.main(tmp_path, tmp_path / "claims.json", tmp_path)


def test_the_readme_has_its_block():
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert text.index(write_verdicts.BEGIN) < text.index(write_verdicts.END)
