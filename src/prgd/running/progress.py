"""A live line on a terminal while long work goes on: nothing is shown if output is piped."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from prgd.core.checks import printable
from prgd.problem.certificate import Certificate, interval


@contextmanager
def live_line(progress: bool | str, has_clock: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that puts its text after the label of a line, which is drawn ten times a second.

    The first text is drawn at once, so that short work is seen too. ``progress`` is the label; True stands
    for "prgd", and False for no line. ``has_clock`` adds for how long the line has been there.
    """
    if not progress or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    label = progress if isinstance(progress, str) else "prgd"
    columns = [TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
    with Progress(*columns[: 1 + has_clock], console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(label)
        yield lambda text: shown.update(
            task, description=printable(f"{label}  {text}"), refresh=shown.tasks[task].description == label
        )


@contextmanager
def progress_line(progress: bool | str) -> Iterator[Callable[[int, Certificate], None]]:
    """Yield a function of the step and the certificate that draws the line of `live_line`."""
    with live_line(progress) as show:

        def tell(t: int, certificate: Certificate) -> None:
            # The line is short enough for 80 columns.
            bounds = interval(certificate.lower, certificate.upper, certificate.quantity, digits=6)
            show(f"step {t:,}  {bounds}  gap {certificate.gap:.1e}")

        yield tell


_tell: ContextVar[Callable[[str], None]] = ContextVar("_tell", default=lambda stage: None)


def tell_stage(stage: str) -> None:
    """Say what long work does now, to the `stage_line` around it if there is one."""
    _tell.get()(stage)


@contextmanager
def stage_line(progress: bool | str) -> Iterator[None]:
    """Show which stage the work inside has told of last, on a line of `live_line`."""
    with live_line(progress, has_clock=True) as show:
        token = _tell.set(show)
        try:
            yield
        finally:
            _tell.reset(token)
