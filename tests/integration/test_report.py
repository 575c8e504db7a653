"""The page in a real browser: headless Chromium, opened from disk, with the network blocked."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from browser import needs_chromium
from reproduce.tiny import tiny
from shared import made_once

from prgd.reproduce import reproduce

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    def make(out: Path) -> None:
        reproduce(list(tiny().values()), quick=True, seeds=None, jobs=2, out=out, force=False)

    return made_once(tmp_path_factory, "report", make) / "index.html"


@pytest.fixture(scope="module")
def alone(report, tmp_path_factory) -> Path:
    """Return the page without the files beside it, as somebody gets it by mail."""
    return Path(shutil.copy(report, tmp_path_factory.mktemp("alone")))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 375])
def test_every_figure_is_visible(open_page, report, width):
    page = open_page(report, width)
    plots = page.locator(".plot")
    assert plots.count() >= 25
    for k in range(plots.count()):
        plot = plots.nth(k)
        plot.scroll_into_view_if_needed()
        plot.locator(".main-svg, canvas").first.wait_for(state="visible")
        box = plot.bounding_box()
        assert box["width"] >= 280
        assert box["height"] >= 250
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    # wide tables scroll inside themselves: the page does not scroll sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# The smallest contrast (WCAG 2.1) of a text of the claims to the first background behind it.
CONTRAST = """() => {
  const numbers = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => numbers(c).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = e => {
    const c = getComputedStyle(e).backgroundColor, parts = numbers(c);
    return parts.length === 4 && parts[3] === 0 ? behind(e.parentElement) : c;
  };
  return Math.min(...[...document.querySelectorAll("header *, #claims *, #crosses *, #ours *")]
    .filter(e => e.innerText && !e.matches("script, style")).map(e => {
      const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    }));
}"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_verdicts_can_be_read_on_a_light_and_on_a_dark_screen(open_page, report, width, scheme):
    page = open_page(report, width, scheme)
    assert page.evaluate(CONTRAST) >= 4.5
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_no_button_sends_the_plot_to_a_server(open_page, report):
    page = open_page(report, 1280)
    page.locator("#figure-3-plot .plot").first.scroll_into_view_if_needed()
    page.locator("#figure-3-plot .modebar-btn").first.wait_for(state="attached")
    titles = page.locator("#figure-3-plot .modebar-btn").evaluate_all("all => all.map(b => b.dataset.title)")
    assert any("Zoom" in title for title in titles)
    assert not any("hare" in title or "loud" in title for title in titles)


@pytest.mark.slow
def test_claims_come_first_and_link_to_their_sections(open_page, report):
    page = open_page(report, 1280)
    assert page.locator("main > section").first.get_attribute("id") == "claims"
    assert page.locator(".claims tbody tr").count() >= 20
    for link in page.locator("nav a, .claims a").all():
        target = link.get_attribute("href")
        assert page.locator(f"[id='{target[1:]}']").count() == 1
    assert page.get_by_text("does not hold").count() >= 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 375])
def test_toggling_a_trace_changes_every_panel(open_page, report, width):
    page = open_page(report, width)
    figure = page.locator("#figure-3-plot")
    figure.locator(".plot").nth(2).scroll_into_view_if_needed()
    figure.locator(".plot").nth(2).locator(".main-svg").first.wait_for()
    drawn = ".scatterlayer .trace"
    before = figure.locator(drawn).count()
    button = figure.get_by_role("button", name="NGD", exact=True)
    button.focus()
    page.keyboard.press("Enter")  # reachable without a mouse
    page.wait_for_function(
        "n => document.querySelectorAll('#figure-3-plot .scatterlayer .trace').length === n", arg=before - 2
    )
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    page.wait_for_function(
        "n => document.querySelectorAll('#figure-3-plot .scatterlayer .trace').length === n", arg=before
    )


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_static_picture_can_be_shown_and_is_described(open_page, report):
    page = open_page(report, 1280)
    figure = page.locator("#figure-4-plot")
    image = figure.locator(".static-picture img")
    assert not image.is_visible()
    figure.get_by_role("button", name="Show the static picture").click()
    image.wait_for(state="visible")
    assert image.evaluate("image => image.naturalWidth") > 500
    for image in page.locator("img").all():
        assert len(image.get_attribute("alt")) > 50


@pytest.mark.slow
def test_printed_and_without_scripts_the_pictures_are_there(browser, open_page, report):
    page = open_page(report, 1280)
    page.emulate_media(media="print")
    assert page.locator(".static-picture").first.is_visible()
    assert not page.locator(".interactive").first.is_visible()
    context = browser.new_context(java_script_enabled=False, offline=True)
    plain = context.new_page()
    plain.goto(report.as_uri())
    assert plain.locator(".static-picture img").first.is_visible()
    assert not plain.locator(".interactive").first.is_visible()
    context.close()
