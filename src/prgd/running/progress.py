"""A live line on a terminal while long work goes on: nothing is shown if output is piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from prgd.problem.certificate import Certificate, interval


@contextmanager
def live_line(progress: bool | str) -> Iterator[Callable[[Callable[[str], str]], None]]:
    """Yield a function that draws the line, at most ten times a second.

    The function takes another one, from the label of the line to its text, called if the line is due.
    ``progress`` is the label; True stands for "prgd", and False for no line.
    """
    if not progress or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    label = progress if isinstance(progress, str) else "prgd"
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        last = 0.0

        def show(text: Callable[[str], str]) -> None:
            nonlocal last
            if time.monotonic() - last > 0.1:
                last = time.monotonic()
                live.update(Text(text(label), no_wrap=True, overflow="ellipsis"), refresh=True)

        yield show


@contextmanager
def progress_line(progress: bool | str) -> Iterator[Callable[[int, Certificate], None]]:
    """Yield a function of the step and the certificate that draws the line of `live_line`."""
    with live_line(progress) as show:

        def tell(t: int, certificate: Certificate) -> None:
            # The line is short enough for 80 columns.
            bounds = interval(certificate.lower, certificate.upper, certificate.quantity, digits=6)
            show(lambda label: f"{label}  step {t:,}  {bounds}  gap {certificate.gap:.1e}")

        yield tell


_tell: ContextVar[Callable[[str], None] | None] = ContextVar("_tell", default=None)


def tell_stage(stage: str) -> None:
    """Say what long work does now, to the `stage_line` around it if there is one."""
    if (tell := _tell.get()) is not None:
        tell(stage)


@contextmanager
def stage_line(progress: bool | str) -> Iterator[None]:
    """Show on a terminal which stage the work inside has told of last, and for how long it has run.

    ``progress`` is the label, as for `live_line`.
    """
    if not progress or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    label = progress if isinstance(progress, str) else "prgd"
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(label)
        token = _tell.set(lambda stage: shown.update(task, description=f"{label}  {stage}"))
        try:
            yield
        finally:
            _tell.reset(token)
