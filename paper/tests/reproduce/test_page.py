"""The page and the README block as text: complete, escaped, without a network."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import write_verdicts
from prgd_paper.claims import Claim, Finding, registry
from prgd_paper.report import elements as fig
from prgd_paper.report.introduction import introduction
from prgd_paper.report.page import Section, judged
from prgd_paper.report.vector import Axis, drawing
from prgd_paper.reproduce.experiment import choose
from prgd_paper.reproduce.make import reproduce
from reproduce.tiny import tiny

NASTY = "<script>alert('x')</script> & \"quotes\""


@pytest.fixture(scope="module")
def nasty_page(tmp_path_factory) -> str:
    """Return a page all of whose titles, labels and sentences try to break out."""
    out = tmp_path_factory.mktemp("nasty")
    line = fig.Line(NASTY, [1.0, 2.0], [1.0, 2.0], style=fig.Style("#000000"))
    note = fig.Note(1.0, 1.0, NASTY)
    panels = (
        fig.Panel(NASTY, (line, fig.Points(NASTY, [1.0], [1.0], style=fig.Style("#000000"))), NASTY, NASTY),
        fig.Panel(NASTY, (line,), NASTY, NASTY, notes=(note,)),
    )
    e = replace(
        tiny()["figure-1"],
        name="nasty",
        title=NASTY,
        where=NASTY,
        draw=lambda rows, settings: [fig.Figure("figure-1", NASTY, NASTY, panels)],
        tables=lambda rows, settings: [fig.Table(NASTY, (NASTY,), ((NASTY,),))],
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


def test_drawings_are_well_formed_and_keep_the_names_of_marks(nasty_page):
    figure = nasty_page.split('id="figure-1-plot"')[1].split("</figure>")[0]
    drawn = re.findall(r'<svg class="plot".*?</svg>(?=</div>)', figure, flags=re.S)
    first, second = map(ElementTree.fromstring, drawn)
    assert {group.get("data-group") for group in first.iter("g")} == {None, NASTY}
    buttons = re.findall(r'<button[^>]* data-group="(.*?)"', figure)
    assert [html.unescape(name) for name in buttons] == [NASTY]
    for svg in (first, second):
        assert NASTY in {text.text for text in svg.iter("text")}


def test_the_page_asks_nothing_of_a_network(nasty_page):
    assert not re.search(r'(?:src|href)="(?:https?:)?//', nasty_page)
    assert "@import" not in nasty_page
    assert "url(" not in nasty_page


def test_the_order_of_claims_is_the_papers():
    e = tiny()
    sections = []
    places = {"table-2": "Table 2, Appendix E.1", "figure-1": "Section 4", "figure-2": "ours"}
    for name, where in places.items():
        claim = Claim(name, where, "s", lambda: Finding((1.0, "<", 2.0), "s."))()
        sections.append(Section(e[name], None, "", "", (), (), (claim,), (), ()))
    assert [claim.name for claim, _ in judged(sections)] == ["figure-1", "table-2", "figure-2"]


def test_plain_numbers_only():
    assert fig.plain({"a": (1, float("inf"), 1e-20), "b": "x"}) == {"a": [1, None, 1e-20], "b": "x"}


def test_unknown_methods_have_a_style():
    assert fig.style_of("something new").colour.startswith("#")


def test_an_arrow_field_of_one_point_can_be_drawn():
    arrows = fig.Arrows("field", [0.0], [0.0], [1.0], [0.0], style=fig.Style("#808080"))
    svg = drawing(fig.Panel("p", (arrows,), "x", "y"))
    assert len(re.findall(r'class="arrow" d="M[^"]+"', svg)) == 1


def points_of(svg: str) -> np.ndarray:
    """Return the vertices of the line of a drawing whose axes go from 0 to 1."""
    (d,) = re.findall(r'class="line solid" d="M([^"]+)"', svg)
    steps = np.array([float(n) for n in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", d)]).reshape(-1, 2)
    return np.cumsum(steps, axis=0)


def test_a_simplified_line_stays_where_the_line_is():
    x = np.linspace(0.0, 1.0, 2_001)
    line = fig.Line("f", x, 0.5 + 0.4 * np.sin(20.0 * x), has_markers=False, style=fig.Style("#000000"))
    svg = drawing(fig.Panel("p", (line,), "x", "y", x_range=(0.0, 1.0), y_range=(0.0, 1.0)))
    found = points_of(svg)
    (width, height) = (float(n) for n in re.findall(r'class="marks" width="(.*?)" height="(.*?)"', svg)[0])
    assert len(found) < 200
    drawn = np.interp(x, found[:, 0] / width, 1.0 - found[:, 1] / height)
    # 0.3 units of the drawing, seen along a slope of at most 8 times height / width
    assert np.abs(drawn - line.y).max() * height < 0.3 * 8.0


def test_what_a_logarithmic_axis_cannot_show_is_a_gap():
    line = fig.Line(
        "f", [1.0, 10.0, 100.0, 1000.0], [1.0, 0.0, 0.1, 0.2], has_markers=False, style=fig.Style("#000000")
    )
    svg = drawing(fig.Panel("p", (line,), "x", "y", x_log=True, y_log=True, y_range=(1e-3, 1.0)))
    (d,) = re.findall(r'class="line solid" d="([^"]+)"', svg)
    assert d.count("M") == 2
    assert "nan" not in svg


def test_equal_axes_have_one_unit():
    points = fig.Points("p", [0.0, 1.0], [0.0, 1.0], style=fig.Style("#000000"))
    svg = drawing(fig.Panel("p", (points,), "x", "y", x_range=(-1, 1), y_range=(-1, 1), is_equal=True))
    (a, b), (c, d) = re.findall(r"translate\((\S+) (\S+)\)", svg)[1:]
    assert float(c) - float(a) == pytest.approx(float(b) - float(d), abs=0.02)


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis(-16.0, 0.0, 100.0, is_log=True), ["10⁻¹⁵", "10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "10⁰"]),
        (Axis(0.0, 1.0, 100.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (Axis(0.0, 20_000.0, 100.0), ["0", "5,000", "10,000", "15,000", "20,000"]),
        (Axis(0.1, 0.9, 100.0, is_log=True), ["2", "5"]),
        (Axis(-0.1, 0.1, 100.0), ["-0.10", "-0.05", "0.00", "0.05", "0.10"]),
    ],
)
def test_ticks_are_round_numbers(axis, labels):
    assert [label for _, label in axis.ticks()] == labels
    assert all(0.0 <= at <= 100.0 for at, _ in axis.ticks())


def test_the_introduction_measures_what_it_says():
    found = introduction()
    left, right = found.figure.panels
    errors = {mark.name: float(mark.y[-1]) for mark in right.marks}
    assert list(errors) == ["GD", "NGD", "PRGD"]
    assert errors["PRGD"] < 1e-6 * errors["NGD"]
    for name, error in errors.items():
        assert f"{name} {error:.1e}" in found.errors
    (zone,) = (mark for mark in left.marks if isinstance(mark, fig.Band))
    (path,) = (mark for mark in left.marks if mark.name == "NGD")
    assert all((zone.low[0] <= y <= zone.high[0]) for y in path.y)
    # PRGD falls exponentially: of its logarithm a line explains nearly everything.
    (fall,) = (mark for mark in right.marks if mark.name == "PRGD")
    assert np.corrcoef(fall.x, np.log(fall.y))[0, 1] < -0.99


def test_reproduce_makes_what_is_named_and_large_files_lie_beside_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("prgd_paper.report.page.ROOM", 6_000)
    page = reproduce(choose(["figure-2"]), quick=True, out=tmp_path)
    text, out = page.read_text(encoding="utf-8"), capsys.readouterr().out
    assert "prgd reproduce --only figure-2 --quick" in text
    assert "experiments are not on this page, or not yet" in text
    assert "1 claim: 1 hold" in out
    assert f"Report: {page}" in out
    assert "(--quick takes fewer draws and steps, which decide less: leave it out for verdicts.)" in out
    inside = re.findall(r'<script type="text/plain" id="file-(.*?)"', text)
    assert inside == ["figure-2.json"]
    beside = re.findall(r'<a href="(.*?)" target="_blank"', text)
    assert beside == [*(f"figures/figure-2.{end}" for end in ("svg", "pdf", "png")), "rows/figure-2.csv"]
    assert all((tmp_path / file).is_file() for file in beside)


# The command's checks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jobs": 0}, "at least 1"),
        ({"seeds": 0}, "at least 1"),
        ({"out": Path("file/report")}, "Cannot write to the output folder"),
        ({"out": Path("report")}, "Cannot write to the output folder"),
        ({}, r"The report needs jinja2: pip install \./paper"),
    ],
)
def test_what_cannot_be_done_is_said_before_work(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("prgd_paper.reproduce.pool.run_jobs", lambda *_, **__: pytest.fail("worked"))
    if not options:
        monkeypatch.setattr("prgd_paper.report.page.find_spec", lambda name: None)
    Path("file").write_text("")
    Path("report/figures").mkdir(parents=True)
    Path("report/rows").write_text("in the way")
    with pytest.raises((ValueError, ModuleNotFoundError), match=words):
        reproduce(choose(["figure-2"]), **{"out": tmp_path / "out", **options})


# the verdicts in the documentation


def test_verdicts_are_written(tmp_path):
    report = tmp_path / "report"
    (report / "figures").mkdir(parents=True)
    for name in write_verdicts.FIGURES:
        (report / "figures" / f"{name}.png").write_bytes(name.encode())
    found = Claim("a", "Section 7", "gamma_star grows", lambda: Finding((1, ">", 2), "s.", what="growth"))()
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
    assert "Of 2 statements of the paper that were made into claims, 2 do not hold." in once
    assert "earlier" not in once
    assert (tmp_path / "docs" / "images" / "figure-3.png").read_bytes() == b"figure-3"
    write_verdicts.main(report, claims, tmp_path)
    assert file.read_text() == once
    text = (tmp_path / "docs" / "verdicts.md").read_text()
    papers, own = text.split("## Statements of ours")
    assert "| γ\\* grows" not in papers  # a symbol of the paper is a formula
    assert "| ✗ `a`<br>$\\gamma^\\star$ grows<br>*Section 7* | s. |  | measured |" in papers
    assert "- ✗ `c` · Section 7 · measured: “$\\gamma^\\star$ is |large|”" in papers
    assert "We say so." not in papers
    assert "| ✗ `b`<br>We say so.<br>*beyond the paper* | s. | measured |" in own


@pytest.mark.parametrize(
    ("readme", "words"),
    [
        (f"{write_verdicts.BEGIN}\n{write_verdicts.END}\n", r"lacks verdicts \(a\)"),
        ("# Title\n", "each once"),
    ],
)
def test_missing_verdicts_and_missing_marks_are_named(tmp_path, readme, words):
    (tmp_path / "README.md").write_text(readme)
    missing = Claim("a", "Section 7", "s", lambda: Finding((1.0, ">", 2.0), "s."))
    (tmp_path / "claims.json").write_text(json.dumps([missing.to_dict()]))
    with pytest.raises(ValueError, match=words):
        write_verdicts.main(tmp_path, tmp_path / "claims.json", tmp_path)


def test_the_readme_has_its_block():
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert text.index(write_verdicts.BEGIN) < text.index(write_verdicts.END)
