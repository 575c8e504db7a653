"""The algorithms that ``prgd race`` names, with options as ``prgd run`` takes them."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import prgd
from prgd.cli.methods import (
    Given,
    build_algorithm,
    default_warm_up,
    find_form,
    options_by_field,
    parse_warm_up,
)
from prgd.cli.options import Option

if TYPE_CHECKING:
    from prgd_paper.race import Entrant

LABEL = re.compile(r"([^\s=:-][^=:]*?)\s*=\s*(?=[^\s=])")


def read_entrants(texts: Iterable[str], margin_norm: str = "l2") -> list[Entrant]:
    """Return the algorithm that each text names, e.g. ``poly=prgd --radius polynomial:0.6``."""
    found = [read_entrant(text, margin_norm) for text in texts]
    if not found:
        raise ValueError(
            "prgd race expects at least one algorithm, e.g. prgd race ngd prgd --data digits:0,1."
        )
    if twice := [name for name, count in Counter(e.name for e in found).items() if count > 1]:
        raise ValueError(f"Two algorithms are called {twice[0]!r}. Give one a label: other={twice[0]}.")
    return found


def read_entrant(text: str, margin_norm: str = "l2") -> Entrant:
    """Return the algorithm of a text ``[LABEL=]NAME [OPTIONS]`` or ``[LABEL=]FILE.py:NAME [OPTIONS]``."""
    from prgd_paper.race import Entrant

    label = LABEL.match(text)
    words = shlex.split(text[label.end() :] if label else text)
    if not words:
        raise ValueError(f"Expected the name of an algorithm; got {text!r}.")
    name, *rest = words
    form = find_form(name)
    given, warm_up = _read_options(name, options_by_field(form), rest)
    method = build_algorithm(name, given, form)
    shown = label[1] if label else " ".join([name.rpartition(":")[2] if ".py:" in name else name, *rest])
    warm_up = warm_up or (default_warm_up(margin_norm, given) if isinstance(method, prgd.PRGD) else "0")
    first, steps = (None, 0) if warm_up == "0" else parse_warm_up(warm_up, given)
    return Entrant(shown, method, first, steps)


class _Parser(ArgumentParser):
    """Raise ``ValueError`` where argparse would print and exit."""

    def error(self, message: str) -> NoReturn:
        """Raise the message as an error about the algorithm that was typed, with its options."""
        flags = ", ".join(
            flag for flag in self._option_string_actions if flag not in ("--warmup", "-R", "-T")
        )
        raise ValueError(f"{self.prog}: {message}. In a race it takes {flags}.")


def _read_options(name: str, known: dict[str, Option], words: list[str]) -> tuple[dict[str, Given], Any]:
    """Return the options that were given, by field, and the text of the warm-up."""
    parser = _Parser(prog=name, add_help=False, allow_abbrev=False)
    parser.add_argument("--warm-up", "--warmup")
    for field, o in known.items():
        if o.kind is bool:
            parser.add_argument(*o.flags, dest=field, action="store_true", default=None)
            parser.add_argument(f"--no-{o.flags[0][2:]}", dest=field, action="store_false", default=None)
        else:
            parser.add_argument(*o.flags, dest=field, type=o.kind if o.kind in (int, float) else str)
    if "T" in known:
        parser.add_argument("--every", dest="T", type=int)
    found = vars(parser.parse_args(words))
    warm_up = found.pop("warm_up")
    return {f: (known[f].flags[0], v) for f, v in found.items() if v is not None}, warm_up
