"""The code behind stored rows: whatever runs in ``compute`` counts, and what only draws does not."""

from __future__ import annotations

import ast
import sys

import pytest
from prgd_paper.reproduce import code
from prgd_paper.reproduce.experiment import experiments
from reproduce.tiny import tiny

SOME = ["figure-1", "figure-2", "figure-4", "figure-5a", "figure-6", "table-1", "gated-schedule"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_every_function_that_runs_counts(name):
    e = tiny()[name]
    task = e.tasks(e.settings)[-1]
    ran: set[tuple[str, str]] = set()

    def seen(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("prgd."):
            ran.add((module, frame.f_code.co_qualname.split(".")[0]))

    reached = code.reached_by(e.compute.__module__, "compute")
    sys.setprofile(seen)
    try:
        e.compute(e.settings, task)
    finally:
        sys.setprofile(None)
    # Names such as <module> and __create_fn__ belong to imports, and to methods that dataclasses write.
    missed = {(m, f) for m, f in ran if f not in reached.get(m, ()) and not f.startswith(("<", "__create"))}
    assert missed == set()
    assert len(ran) > 30


@pytest.mark.no_cover  # The other tests of experiments run the same lines.
def test_drawing_commands_and_claims_do_not_count():
    for e in experiments().values():
        found = e.code()
        assert e.compute.__module__ in found
        for other in ("prgd.plots", "prgd.cli", "prgd_paper.claims", "prgd_paper.report", "prgd.estimators"):
            assert not any(module.startswith(other) for module in found), (e.name, other)
        own = code.reached_by(e.compute.__module__, "compute")[e.compute.__module__]
        assert not own & {"draw", "reading", "tables"}


def text_of(source: str) -> str:
    return code._tree(code._plain(ast.parse(source).body[0]))


def test_docstrings_comments_and_type_hints_do_not_count():
    first = 'def f(x: int) -> int:\n    """Add."""\n    return x + 1  # one\n'
    assert text_of(first) == text_of("def f(x):\n    return (x + 1)\n")
    assert text_of(first) != text_of("def f(x):\n    return x + 2\n")


def test_versions_of_python_agree_on_the_code():
    """Versions differ in the quotes of f-strings, in fields of nodes, and in empty texts of formats."""
    node = ast.parse("f'{x:{width}} m'").body[0]
    before = code._tree(node)
    assert before == text_of('f"{x:{width}} m"')
    node.value.values[0].format_spec.values.append(ast.Constant(""))
    node.value.later_field = []
    node.value._fields = (*node.value._fields, "later_field")
    assert code._tree(node) == before
    assert text_of("f('')") != text_of("f()")


def test_changed_modules():
    assert code.changed_modules({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ["b", "c"]
