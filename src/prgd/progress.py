"""A live line with both bounds, on a terminal; nothing where output is piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Show = Callable[[Any, Any], None]


def _quiet(now: Any, certificate: Any) -> None:
    return None


@contextmanager
def progress_line(progress: bool | Show, label: str = "prgd") -> Iterator[Show]:
    """Yield what to call after each step; True draws a line, at most ten times a second."""
    if callable(progress):
        yield progress
    elif not progress or not sys.stderr.isatty():
        yield _quiet
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            last = 0.0

            def show(now: Any, certificate: Any) -> None:
                nonlocal last
                if time.monotonic() - last > 0.1:
                    last = time.monotonic()
                    # short enough for 80 columns
                    bounds = f"{certificate.lower:.6g} <= gamma_star <= {certificate.upper:.6g}"
                    line = f"{label}  step {now.t:,}  {bounds}  gap {certificate.gap:.1e}"
                    live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

            yield show
