"""What the pages of the site say agrees with the pages that are written by a command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
VERDICTS = dict(re.findall(r"\| `([a-z0-9.-]+)` \| (\S) ", (DOCS / "verdicts.md").read_text()))
IN_THEORY = re.findall(r"\| (\S) `([a-z0-9.-]+)` \|", (DOCS / "theory.md").read_text())


@pytest.mark.parametrize(("sign", "name"), IN_THEORY)
def test_the_table_of_the_theory_has_the_verdicts(sign, name):
    assert VERDICTS[name] == sign


def test_the_table_of_the_theory_has_every_lemma_and_theorem():
    results = {name for name in VERDICTS if re.match(r"(lemma|theorem|proposition|table-1)-", name)}
    # Parts of one proof share a row: its caveats, and the corrected or the freezing variants stand in words.
    page = (DOCS / "theory.md").read_text()
    in_words = {"theorem-5.5-constants", "theorem-6.1-warm-up", "theorem-6.1-radius", "theorem-6.1-s6"}
    in_words |= {"theorem-6.4-gd-direction", "theorem-6.4-ngd-direction"}
    assert {name for name in results if f"`{name}`" not in page} == in_words
