"""A line on a terminal when kernels are compiled, which a first call waits for."""

import sys
from typing import Any

from numba.core.event import Listener, register


class Compiling(Listener):
    """Say once, on a terminal, that kernels are compiled: the quickest of them takes most of a second."""

    is_said = False

    def on_start(self, event: Any) -> None:
        """Say so when the first one is."""
        if not self.is_said and sys.stderr.isatty():
            print(
                "Compiling kernels of this kind of problem (kept for later runs) ...",
                file=sys.stderr,
                flush=True,
            )
            self.is_said = True

    def on_end(self, event: Any) -> None:
        """Do nothing, which numba asks for."""


register("numba:compile", Compiling())  # type: ignore[no-untyped-call]
