"""The paper's assumptions, constants, lemmas and theorems as code that can be asked and checked."""

from prgd.theory.support import Reference, max_margin_reference

__all__ = ["Reference", "max_margin_reference"]
