"""Frames a second of docs/explorer/explorer.html on 100 points in headless Chromium.

All seven optimizers and all layers are shown, and the window is high enough for all panels. In one part a
point is dragged by mouse events from outside the page, so that every trajectory is computed again in every
frame; in the other the page plays. A frame counts if the page has drawn. Beside the rate stand the
milliseconds that the page's own code takes for a frame, those that the busiest thread of the browser computes
for it, and the load of the machine. Chromium without a GPU paints on the processor, so that a rate on a busy
machine says little; if the busiest thread needs less than 16.7 ms, a machine with two idle cores has time for
60 frames a second, which is the aim.

    python benchmarks/explorer_frames.py [--seconds S] [--width W] [--set NAME] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

PAGE = Path(__file__).parents[1] / "docs" / "explorer" / "explorer.html"
METHODS = "gd,ngd,prgd,gated,dual,sign,coordinate"
AIM = 60.0

# The page's own frame is wrapped: when it began, how long it took, and whether it drew.
WATCH = """() => {
  window.watched = [];
  const inner = frame, paint = draw;
  let drawn = false;
  draw = () => { drawn = true; paint(); };
  frame = () => {
    const begin = performance.now();
    drawn = false;
    inner();
    if (drawn) watched.push([begin, performance.now() - begin]);
  };
}"""
PLACE = """() => { const box = document.getElementById("data").getBoundingClientRect(), v = data_view();
  const i = state.points.findIndex(p => Math.abs(p.x1) > 0.5 && Math.abs(p.x2) < 0.5), p = state.points[i];
  return [box.left + v.x + p.x1 * v.scale, box.top + v.y - p.x2 * v.scale]; }"""


def thread_times() -> dict[tuple[str, str], float]:
    """Return the milliseconds that each thread of the processes below this one has computed (Linux only)."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # processes end while they are listed
            parents[stat.parent.name] = stat.read_text().rpartition(")")[2].split()[1]
    times, below = {}, {str(os.getpid())}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    for pid in below - {str(os.getpid())}:
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                times[pid, file.parent.name] = int(file.read_text().split()[0]) / 1e6
    return times


def drag(page: Page, seconds: float) -> None:
    """Move a point in circles, by 125 mouse events a second, as many as a common mouse sends."""
    x, y = page.evaluate(PLACE)
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate("watched.length = 0")
    begin = time.perf_counter()
    while (now := time.perf_counter() - begin) < seconds:
        page.mouse.move(x + 25.0 * math.sin(5.0 * now), y + 25.0 * math.cos(5.0 * now) - 25.0)
        time.sleep(0.008)
    page.mouse.up()


def play(page: Page, seconds: float) -> None:
    """Let the page play from the first step."""
    page.evaluate("() => { go_to(0); set_playing(true); watched.length = 0; }")
    page.wait_for_timeout(1000.0 * seconds)
    page.evaluate("set_playing(false)")


def measured(page: Page) -> dict[str, float]:
    """Return the rate and the times of the frames since the last part began."""
    frames = np.array(page.evaluate("watched"))
    apart, work = np.diff(frames[:, 0]), frames[:, 1]
    return {
        "frames": len(frames),
        "frames a second": float(1000.0 / apart.mean()),
        "interval, median ms": float(np.median(apart)),
        "interval, 95% ms": float(np.quantile(apart, 0.95)),
        "own code, median ms": float(np.median(work)),
        "own code, 95% ms": float(np.quantile(work, 0.95)),
    }


def main() -> None:
    """Measure both parts, and print them beside the aim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--set", default="two", choices=("one", "two"))
    parser.add_argument("--t", type=int, default=300, help="the step up to which trajectories are shown")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with sync_playwright() as playwright:
        chromium = os.environ.get("PRGD_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": options.width, "height": 1400})
        page.goto(f"{PAGE.as_uri()}#set={options.set}&show={METHODS}&t={options.t}")
        page.wait_for_timeout(1000)
        page.evaluate(WATCH)
        for name, part in (("dragging", drag), ("playing", play)):
            before = thread_times()
            part(page, options.seconds)
            spent = [after - before.get(thread, 0.0) for thread, after in thread_times().items()]
            found[name] = measured(page)
            found[name]["busiest thread, ms a frame"] = max(spent) / found[name]["frames"]
        facts = {"browser": browser.version, "machine": platform.machine(), "cores": os.cpu_count()}
        browser.close()
    facts["load"] = os.getloadavg()[0]
    table = Table("", *found["playing"], "aim", title=f"100 points, {facts}")
    for name, row in found.items():
        verdict = "met" if row["frames a second"] >= AIM - 1.0 else "missed"
        table.add_row(name, *(f"{value:.1f}" for value in row.values()), f"{AIM:.0f}: {verdict}")
    Console().print(table)
    if options.json:
        options.json.write_text(
            json.dumps({"facts": facts, "options": vars(options) | {"json": None}} | found)
        )


if __name__ == "__main__":
    main()
