"""Open every page of the built site in headless Chromium, and fail on what a reader would frown at.

Each page is opened once, at 1280 pixels, then made 390 pixels wide. What fails:

- a message on the console, or an error of a script;
- at 1280 pixels, a block that is wider than its column, or a printed table that is; at 390 pixels a page that
  scrolls sideways;
- a picture, drawing or canvas without a text, and a link or control without a name;
- text whose contrast to its ground (WCAG 2.1) is below 4.5, in the light and in the dark theme.

The explorer is also driven by hand and by keyboard: after a drag its sentences are about the points that are
there, no control is out of reach of the Tab key, and in its frame the plot stands above the fold.

Usage: python docs/check_pages.py docs/_build/html [PAGE ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from browser import CHROMIUM, FLAGS  # noqa: E402

CHECKS = (Path(__file__).parent / "check_pages.js").read_text(encoding="utf-8")
WIDE, NARROW, HEIGHT = 1280, 390, 800
MIN_CONTRAST = 4.5
MAX_REPORT = 24_000  # pixels of the report as it opens
THEMES = ("light", "dark")
# The theme of the site tells the console which colours it shows.
OWN_MESSAGE = "[PST]"
STILL = "*, *::before, *::after { transition: none !important; animation: none !important; }"


def problems(page: Any, file: Path, site: Path) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong with a page, which is open at the large width."""
    for width in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        for said in page.evaluate("isWide => checks.overflows(isWide)", width == WIDE):
            yield f"at {width} pixels {said}"
        height = page.evaluate("document.documentElement.scrollHeight")
        if width == WIDE and file == site / "report/index.html" and height > MAX_REPORT:
            yield f"it is {height} pixels high, and more than {MAX_REPORT} are too many to look through"
        if width == WIDE:
            for picture in page.evaluate("checks.without_text()"):
                yield f"a picture has no text: {picture}"
            for element in page.evaluate("checks.without_name()"):
                yield f"a link or control has no name: {element}"
            for theme in THEMES:
                page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
                yield from (
                    f"{theme}: {said}"
                    for said in page.evaluate("least => checks.low_contrast(least)", MIN_CONTRAST)
                )


def drive(page: Any, site: Path) -> Iterator[str]:
    """Yield what is wrong with the explorer: by hand, by the Tab key, by the site's switch, in its frame."""
    page.set_viewport_size({"width": WIDE, "height": HEIGHT})
    page.goto((site / "explorer/explorer.html").as_uri())
    page.add_script_tag(content=CHECKS)
    page.wait_for_function("checks.settled()")
    x, y = page.evaluate("checks.place(0)")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 40, y + 20, steps=5)
    page.mouse.up()
    page.wait_for_timeout(300)
    page.wait_for_function("checks.settled()")
    margin = page.evaluate("number(references.get(L2).gamma_star, 3)")
    if f"largest margin is {margin}." not in page.locator("#about").inner_text():
        yield f"after a drag it does not say that the largest margin is {margin}"
    wanted = set(page.evaluate("checks.controls()"))
    reached = set()
    for _ in range(len(wanted) + 10):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    if missing := wanted - reached:
        yield f"the Tab key does not reach {', '.join(sorted(missing))}"
    page.goto((site / "explorer.html").as_uri())
    page.locator("iframe.explorer").scroll_into_view_if_needed()
    frame = page.frame(url="**/explorer/explorer.html*")
    frame.add_script_tag(content=CHECKS)
    frame.wait_for_function("checks.settled()")
    bottom, fold = frame.evaluate("checks.plot_ends()")
    if bottom > fold:
        yield f"in its frame the plot ends at {bottom:.0f} pixels, below the fold at {fold}"
    for theme in THEMES:
        page.evaluate("mode => { localStorage.setItem('mode', mode); }", theme)
        frame.wait_for_timeout(200)
        if frame.evaluate("document.documentElement.dataset.theme") != theme:
            yield f"it does not follow the site's switch to {theme}"
    page.evaluate("localStorage.removeItem('mode')")


def open_all(site: Path, files: list[Path], say: Callable[[str], None]) -> None:
    """Open the pages in turn, in one browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context, messages = browser.new_context(), []
        page = context.new_page()
        page.on("console", lambda m: None if m.text.startswith(OWN_MESSAGE) else messages.append(m.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        for file in files:
            where = file.relative_to(site)
            page.set_viewport_size({"width": WIDE, "height": HEIGHT})
            page.goto(file.as_uri())
            page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise")
            page.add_style_tag(content=STILL)
            page.add_script_tag(content=CHECKS)
            for said in problems(page, file, site):
                say(f"{where}: {said}.")
            if where.as_posix() == "explorer/explorer.html":
                for said in drive(page, site):
                    say(f"{where}: {said}.")
            for text in messages:
                say(f"{where}: the console says: {text[:200]}")
            messages.clear()
        browser.close()


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    site = Path(sys.argv[1]).resolve()
    files = [site / name for name in sys.argv[2:]] or sorted(
        file for file in site.rglob("*.html") if "_static" not in file.parts
    )
    if CHROMIUM is None:
        print(
            f"No Chromium was found (PRGD_CHROMIUM names one): none of {len(files)} pages was opened.",
            file=sys.stderr,
        )
        return
    found: list[str] = []
    began = time.monotonic()
    open_all(site, files, found.append)
    print("\n".join(found), file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} problems on {len(files)} pages.")
    took = time.monotonic() - began
    how = f"at {WIDE} and {NARROW} pixels, light and dark, in {took:.0f} s"
    print(f"{len(files)} pages were opened {how}: nothing is wrong.")


if __name__ == "__main__":
    main()
