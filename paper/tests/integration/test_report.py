"""The page in a real browser: headless Chromium, opened from disk, with the network blocked."""

import csv
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from contrast import CONTRAST
from prgd_paper.report.elements import Figure, Line, Note, Panel, Table
from prgd_paper.report.page import ROOM, Section, render
from prgd_paper.reproduce.experiment import choose
from reproduce.tiny import report_of_all, tiny

import prgd

pytestmark = pytest.mark.slow


@pytest.fixture
def open_page(open_page):
    """Return a function that opens a page, and all that its script has folded."""

    def open_(*args, **more):
        page = open_page(*args, **more)
        page.evaluate("document.querySelectorAll('details.fold').forEach(each => { each.open = true; })")
        return page

    return open_


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    return report_of_all(tmp_path_factory) / "index.html"


@pytest.fixture(scope="module")
def alone(report, tmp_path_factory) -> Path:
    """Return the page without the files beside it, as somebody gets it by mail."""
    return Path(shutil.copy(report, tmp_path_factory.mktemp("alone")))


@pytest.mark.parametrize("width", [1280, 375])
def test_every_figure_is_visible(open_page, report, width):
    page = open_page(report, width)
    plots = page.locator(".plot")
    assert plots.count() >= 25
    for k in range(plots.count()):
        plot = plots.nth(k)
        box = plot.bounding_box()
        assert box["width"] >= 280
        assert box["height"] >= 250
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert plot.locator(".marks > g").count() >= 1
    # Wide tables scroll inside themselves: the page does not scroll sideways.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll(".plot .x, .plot .y, .plot .name")]
          .map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)
          .filter(size => size > 0))"""
    )
    assert smallest >= 8.5


@pytest.mark.parametrize("width", [1280, 390, 375])
def test_a_wide_table_scrolls_inside_itself_and_says_so(open_page, report, width):
    page = open_page(report, width)
    tables = page.locator(".wide")
    assert tables.count() >= 5
    wide = 0
    for k in range(tables.count()):
        region = tables.nth(k).locator(".scroll")
        is_wide = region.evaluate("r => r.scrollWidth > r.clientWidth + 1")
        assert tables.nth(k).locator(".cue").is_visible() == is_wide
        wide += is_wide
        assert region.get_attribute("role") == "region"
        name = page.locator(f"[id='{region.get_attribute('aria-labelledby')}']")
        assert len(name.inner_text()) > 10
        if is_wide:
            region.focus()
            page.keyboard.press("ArrowRight")
            page.wait_for_function("r => r.scrollLeft > 0", arg=region.element_handle())
    assert wide >= (3 if width < 600 else 0)


def test_the_shadow_of_a_wide_table_is_at_the_edge_with_more_columns(open_page, report):
    """Compare the pixels of both edges before and after the table is scrolled to its end."""
    from PIL import Image

    page = open_page(report, 390)
    region = page.locator(".overflows .scroll").first

    def edges() -> tuple[float, float]:
        """Return how much darker each edge is than the paper, in a row of pixels without a text."""
        picture = np.asarray(Image.open(io.BytesIO(region.screenshot())).convert("L"), dtype=float)
        inner = picture[2:-2]  # A screenshot may have a line of the page around the region.
        return float(255.0 - inner[:, 1].max()), float(255.0 - inner[:, -2].max())

    left, right = edges()
    assert right > left + 20.0
    region.evaluate("r => { r.scrollLeft = r.scrollWidth; }")
    left, right = edges()
    assert left > right + 20.0


def test_the_page_is_small(report):
    """The figures of the page take most of its size; files inside it have a room of their own."""
    text = report.read_text(encoding="utf-8")
    files = sum(map(len, re.findall(r'<script type="text/plain"[^>]*>(.*?)</script>', text)))
    assert files <= ROOM
    assert len(text.encode()) - files < 1_000_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_verdicts_can_be_read_on_a_light_and_on_a_dark_screen(open_page, report, width, scheme):
    page = open_page(report, width, scheme)
    texts, _ = page.evaluate(CONTRAST, "header *, #idea *, #claims *, #ours *")
    assert texts >= 4.5
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def second_panel(page):
    """Return the second panel of Figure 3 and its plot, brought into view."""
    panel = page.locator("#figure-3-plot .panel").nth(1)
    panel.locator(".plot").scroll_into_view_if_needed()
    return panel, panel.locator(".plot")


def tick_labels(plot) -> list[str]:
    return plot.locator(".frame .x, .frame .y").all_text_contents()


def test_zooming_changes_the_ticks_and_show_all_brings_them_back(open_page, report):
    page = open_page(report, 1280)
    panel, plot = second_panel(page)
    before, drawn = tick_labels(plot), plot.locator(".line").first.get_attribute("d")
    panel.get_by_role("button", name="Zoom in").click()
    zoomed = tick_labels(plot)
    assert len(zoomed) >= 4
    assert zoomed != before
    assert plot.locator(".line").first.get_attribute("d") != drawn
    panel.get_by_role("button", name="Show all").click()
    assert tick_labels(plot) == before
    assert plot.locator(".line").first.get_attribute("d") == drawn
    box = plot.locator(".marks").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 140, steps=3)
    page.mouse.up()
    assert plot.evaluate("p => p.classList.contains('zoomed')")
    plot.focus()
    page.keyboard.press("0")
    assert not plot.evaluate("p => p.classList.contains('zoomed')")


def test_the_point_under_the_pointer_is_named_and_so_is_the_one_of_the_arrow_keys(open_page, report):
    page = open_page(report, 1280)
    panel, plot = second_panel(page)
    marker = plot.locator("[data-group='NGD'] use").nth(4).bounding_box()
    page.mouse.move(marker["x"] + marker["width"] / 2, marker["y"] + marker["height"] / 2)
    tip = panel.locator(".tip")
    assert re.fullmatch(r"NGD: [\d.,e-]+, [\d.,e-]+", tip.inner_text())
    page.mouse.move(0, 0)
    assert not tip.is_visible()
    plot.focus()
    page.keyboard.press("ArrowRight")
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() != first
    page.keyboard.press("ArrowDown")
    assert tip.inner_text().split(":")[0] != first.split(":")[0]


def test_a_finger_names_a_point(open_page, report):
    page = open_page(report, 390)
    panel, _ = second_panel(page)
    marker = panel.locator("[data-group='NGD'] use").nth(4).bounding_box()
    page.touchscreen.tap(marker["x"] + marker["width"] / 2, marker["y"] + marker["height"] / 2)
    assert panel.locator(".tip").inner_text().startswith("NGD: ")


def test_the_idea_comes_first_then_the_claims_with_links_to_their_sections(open_page, report):
    page = open_page(report, 1280)
    sections = page.locator("main > section")
    assert [sections.nth(k).get_attribute("id") for k in range(2)] == ["idea", "claims"]
    assert page.locator("#idea .plot").count() == 2
    height = "e => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight)"
    assert sum(page.locator("#idea > p").evaluate_all(f"all => all.map({height})")) <= 10.5
    assert page.locator(".claims tbody tr").count() >= 20
    for link in page.locator("nav a, .claims a").all():
        target = link.get_attribute("href")
        assert page.locator(f"[id='{target[1:]}']").count() == 1
    assert page.get_by_text("does not hold").count() >= 1


@pytest.mark.parametrize("width", [1280, 375])
def test_toggling_a_trace_changes_every_panel(open_page, report, width):
    page = open_page(report, width)
    figure = page.locator("#figure-3-plot")
    drawn = figure.locator(".marks > [data-group='NGD']:visible")
    others = figure.locator(".marks > g:visible")
    before, all_before = drawn.count(), others.count()
    assert before >= 2
    button = figure.get_by_role("button", name="NGD", exact=True)
    button.focus()
    page.keyboard.press("Enter")  # reachable without a mouse
    assert button.get_attribute("aria-pressed") == "false"
    assert drawn.count() == 0
    assert others.count() == all_before - before
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert drawn.count() == before


def test_every_file_downloads_from_the_page_alone(open_page, alone, report):
    page = open_page(alone, 1280)
    links = page.locator("a[download]")
    names = set()
    for k in range(links.count()):
        if k and k % 8 == 0:  # Chromium stops a page after ten downloads to ask its user
            page.close()
            page = open_page(alone, 1280)
            links = page.locator("a[download]")
        with page.expect_download() as found:
            links.nth(k).press("Enter")
        name = found.value.suggested_filename
        names.add(name)
        where = "rows" if name.endswith(("csv", "json")) else "figures"
        assert Path(found.value.path()).read_bytes() == (report.parent / where / name).read_bytes()
    for name in tiny():
        assert f"{name}.csv" in names
    with (report.parent / "rows" / "table-2.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 24


def test_every_figure_is_described_in_words(open_page, report):
    page = open_page(report, 1280)
    for figure in page.locator("figure.plots").all():
        words = page.locator(f"[id='{figure.get_attribute('aria-describedby')}']")
        assert len(words.text_content()) > 50
        assert all(plot.get_attribute("aria-label") for plot in figure.locator(".plot").all())
    figure = page.locator("#figure-4-plot")
    figure.get_by_text("The figure in words").click()
    assert figure.locator("#figure-4-alt").is_visible()


def test_printed_and_without_scripts_the_figures_are_there(browser, open_page, report):
    page = open_page(report, 1280, "dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for name in (".plot", ".keys"):
        assert page.locator(name).count() == page.locator(f"{name}:visible").count()
    for name in (".zoom", ".cue", ".tools", "nav"):
        assert page.locator(f"{name}:visible").count() == 0
    context = browser.new_context(java_script_enabled=False, offline=True)
    plain = context.new_page()
    plain.goto(report.as_uri())
    assert plain.locator(".plot").count() == plain.locator(".plot:visible").count()
    assert plain.locator(".zoom").count() == 0
    context.close()


def test_the_page_works_inside_another_one(open_page, report, tmp_path):
    outer = tmp_path / "outer.html"
    outer.write_text(f'<iframe src="{report.as_uri()}#figure-2" width="800" height="600"></iframe>')
    page = open_page(outer, 1280)
    inner = page.frame_locator("iframe")
    inner.locator("#figure-2-plot .plot").first.wait_for()
    # The link to a section works.
    top = "() => Math.abs(document.getElementById('figure-2').getBoundingClientRect().top) < 50"
    page.frames[1].wait_for_function(top)
    inner.get_by_role("link", name="The idea").click()
    assert page.url == outer.as_uri()


HOSTILE = (
    "<script>window.owned = 1</script>", '"><img src=x onerror="window.owned = 1">', "'-alert(1)-'",
    "</script></title><svg onload=window.owned=1>", "\u202eevil\u2066\x1b[2J", "${window.owned = 1}{{7*7}}",
    "a\nb", "long" * 1000,
)  # fmt: skip


def hostile_pages(folder):
    """Return pages whose titles, names, notes, cells and addresses are those of an attacker."""
    script, image = HOSTILE[:2]
    frame = pd.DataFrame(np.sin(np.arange(320.0).reshape(40, 8) ** 2), columns=HOSTILE)
    verdict = prgd.separability(frame, np.where(np.arange(40) % 2, script, image))._repr_html_()
    (folder / "verdict.html").write_text(f"<meta charset=utf-8>{verdict}")
    curve, files = Line(image, [1.0, 2.0], [1.0, 2.0]), [folder / name for name in ('"><b>.csv', "'<b>.json")]
    for file in files:
        file.write_text("1")
    panels = [
        Panel(bad, (curve, replace(curve, name=bad)), bad, bad, notes=(Note(1.0, 1.0, bad),))
        for bad in HOSTILE
    ]
    figures = tuple(
        Figure(f"f{k}", bad, bad, (panel,))
        for k, (bad, panel) in enumerate(zip(HOSTILE, panels, strict=True))
    )
    tables = tuple(Table(bad, (bad, "n"), ((bad, bad),), ("n",)) for bad in HOSTILE)
    experiment = replace(choose()[0], title=script)
    words = (image, HOSTILE[3], figures, tables, (), tuple(files), (script, image), script)
    machine = dict.fromkeys(("system", "processor", "cores"), HOSTILE[3])
    facts = {"versions": {script: image}, "machine": machine}
    head = {"command": image, "facts": facts, "quick": [], "left_out": 0}
    page = render([Section(experiment, experiment.settings, *words)], folder=folder, **head)
    (folder / "index.html").write_text(page)
    yield from ((folder / name, "") for name in ("verdict.html", "index.html"))
    for bad in (*HOSTILE, "__proto__", "constructor"):
        address = f"#set={bad}&show={bad}&schedule={bad}&t={bad}&eta=1e999&edit=1:{bad},1,1;2:1e-320,0,1"
        yield Path(__file__).parents[3] / "docs" / "explorer" / "explorer.html", address


def test_names_of_an_attacker_are_text(open_page, tmp_path):
    for file, fragment in hostile_pages(tmp_path):
        page = open_page(file, 1280, fragment=fragment)
        for key in page.locator(".key").all():
            key.click(force=True)
        page.wait_for_timeout(200)
        assert page.evaluate("window.owned") is None, fragment
        assert page.locator("img[src=x], svg[onload], b b").count() == 0
    assert open_page(tmp_path / "verdict.html", 1280).evaluate("document.documentElement.scrollWidth") <= 1280
