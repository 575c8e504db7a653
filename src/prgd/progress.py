"""A live line with both bounds, on a terminal only: nothing is shown if output is piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prgd.certificate import Certificate


@contextmanager
def progress_line(progress: bool | str) -> Iterator[Callable[[int, Certificate], None]]:
    """Yield a function of the step and the certificate that draws the line, at most ten times a second.

    ``progress`` is the label of the line; True stands for "prgd", and False for no line.
    """
    if not progress or not sys.stderr.isatty():
        yield lambda t, certificate: None
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        label = progress if isinstance(progress, str) else "prgd"
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            last = 0.0

            def show(t: int, certificate: Certificate) -> None:
                nonlocal last
                if time.monotonic() - last > 0.1:
                    last = time.monotonic()
                    # The line is short enough for 80 columns.
                    bounds = f"{certificate.lower:.6g} <= gamma_star <= {certificate.upper:.6g}"
                    line = f"{label}  step {t:,}  {bounds}  gap {certificate.gap:.1e}"
                    live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

            yield show
