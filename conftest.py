"""Shared settings of all tests."""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import count
from pathlib import Path

import hypothesis
import pytest
from browser import CHROMIUM, FLAGS

# compiled kernels make the first example slow: no deadline
hypothesis.settings.register_profile("prgd", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("prgd")


def pytest_addoption(parser) -> None:
    parser.addoption("--one-in", type=int, default=1, help="run each N-th case of every parametrised test")


def pytest_collection_modifyitems(config, items) -> None:
    if (step := config.getoption("--one-in")) > 1:
        cases = defaultdict(count)
        items[:] = [item for item in items if next(cases[item.nodeid.split("[")[0]]) % step == 0]


def pytest_unconfigure() -> None:
    if "grid" in sys.modules and (client := sys.modules["grid"].local_client).cache_info().currsize:
        client().close()


@pytest.fixture(scope="module")
def browser():
    """Return headless Chromium, or skip the test that asks for it."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.skip("no Chromium found: install Debian's chromium, or name one in PRGD_CHROMIUM")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Return a function that opens a page from disk, and fails on errors and requests afterwards."""
    contexts, problems = [], []

    def open_(file: Path, width: int, scheme: str = "light", fragment: str = ""):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            offline=True,
            accept_downloads=True,
            has_touch=width < 600,
            color_scheme=scheme,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type == "error" and problems.append(m.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: r.url.startswith("http") and problems.append(r.url))
        page.goto(f"{file.as_uri()}{fragment}")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []
