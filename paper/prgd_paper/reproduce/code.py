"""The code that computes the rows of an experiment, as hashes: rows are known to be of this code, or not.

Rows are worth minutes, so only definitions count that ``compute`` reaches by name: functions, classes and
constants, in any module of prgd. Docstrings, comments, type hints of functions, drawing and sentences do not
count. Names are followed in the source and nothing is run, so a name that is also a local variable counts
once too often, never once too seldom. Engines register themselves when they are imported, which no name
shows: the engine for rows in memory, which every experiment has, counts as a whole.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

AS_ROWS, ENGINE = ("prgd.rows.base", "as_rows"), "prgd.rows.dense"
DRAWING = "prgd.plots"  # reached from `History.plot`, which no experiment calls
ROOT = Path(__file__).parents[2]


class Source(NamedTuple):
    """A module: its statements by the name that they define, and what each imported name stands for."""

    definitions: dict[str, list[ast.stmt]]
    imported: dict[str, tuple[str, str]]  # (module, name in it); the name is empty for a whole module


def code_of(compute: Callable[..., Any]) -> dict[str, str]:
    """Return a hash of what ``compute`` reaches in each module, by the name of the module.

    Examples
    --------
    >>> from prgd_paper.reproduce import figure_4
    >>> found = code_of(figure_4.compute)
    >>> "prgd.running.loop" in found, "prgd.plots" in found
    (True, False)
    """
    compute = getattr(compute, "func", compute)  # the function inside a partial one
    return dict(_code(compute.__module__, compute.__name__))


@cache
def _code(module: str, function: str) -> Mapping[str, str]:
    return {
        home: hashlib.sha256("\n".join(_text(home, n) for n in sorted(names)).encode()).hexdigest()[:12]
        for home, names in sorted(reached_by(module, function).items())
    }


def reached_by(module: str, function: str) -> dict[str, set[str]]:
    """Return the names that a function reaches, directly or through others, in each module of prgd."""
    waiting, reached = [(module, function)], dict[str, set[str]]()
    while waiting:
        home, name = waiting.pop()
        if name not in reached.setdefault(home, set()):
            reached[home].add(name)
            waiting += _references(home, name)
            if (home, name) == AS_ROWS:
                waiting += [(ENGINE, each) for each in _source(ENGINE).definitions]
    return reached


def changed_modules(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the modules whose code differs, or that only one of both reaches."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


@cache
def _text(module: str, name: str) -> str:
    """Return the statements that define a name, without what does not count."""
    return "\n".join(_tree(_plain(node)) for node in _source(module).definitions[name])


def _tree(node: Any) -> str:
    """Return a syntax tree as text that every version of Python writes alike.

    `ast.unparse` chooses the quotes of f-strings by version, and `ast.dump` shows fields that older versions
    do not have. Fields that are empty are left out here.
    """
    if isinstance(node, list):
        return f"[{', '.join(map(_tree, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.JoinedStr):
        # Python 3.12.0 to 3.12.3 add an empty text to the end of some formats.
        return _tree([part for part in node.values if getattr(part, "value", None) != ""])
    fields = [f"{name}={_tree(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
    return f"{type(node).__name__}({', '.join(fields)})"


@cache
def _references(module: str, name: str) -> list[tuple[str, str]]:
    """Return the definitions, as (module, name), that the definition of a name mentions."""
    found: list[tuple[str, str]] = []
    for node in _source(module).definitions[name]:
        local = {key: value for part in ast.walk(node) for key, value in _imported(part).items()}
        for first, *more in set(_chains(node)):
            found += _resolved(module, first, more, local)
    return found


@cache
def _file(module: str) -> Path | None:
    """Return the file of a module of prgd, or of a module that is loaded; None if there is none."""
    base = ROOT.joinpath(*module.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if module.split(".")[0] == "prgd" and file.is_file():
            return file
    loaded = getattr(sys.modules.get(module), "__file__", None)
    return Path(loaded) if loaded and not module.startswith("prgd.") and module != "prgd" else None


@cache
def _source(module: str) -> Source:
    file = _file(module)
    source = Source({}, {})
    if file is not None:
        for node in _statements(ast.parse(file.read_text(encoding="utf-8")).body):
            for name in _defined(node):
                source.definitions.setdefault(name, []).append(node)
            source.imported.update(_imported(node))
    return source


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those under an ``if``, ``try`` or ``with`` too."""
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With):
            for part in ("body", "handlers", "orelse", "finalbody"):
                for inner in getattr(node, part, []):
                    yield from _statements(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])
        else:
            yield node


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    # Names inside an index of a target count too, e.g. both of table[key] = value.
    return list({part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)})


def _imported(node: ast.AST) -> dict[str, tuple[str, str]]:
    if isinstance(node, ast.ImportFrom) and node.module:
        return {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    if isinstance(node, ast.Import):
        whole = {alias.asname: (alias.name, "") for alias in node.names if alias.asname}
        return whole | {a.name.split(".")[0]: (a.name.split(".")[0], "") for a in node.names if not a.asname}
    return {}


def _chains(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Yield every name of a node with the attributes after it: ``shared.watch(x)`` gives two chains."""
    if isinstance(node, ast.Attribute | ast.Name):
        chain: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            chain.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield (inner.id, *chain)
            return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from _chains(part)


def _resolved(
    module: str, name: str, attributes: list[str], local: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the definitions, as (module, name), that a name with attributes stands for in a module.

    ``local`` are names that a function imports itself.
    """
    source = _source(module)
    if name in source.definitions and name not in local:
        yield module, name
        return
    home, inner = local.get(name) or source.imported.get(name) or (module, name)
    whole = f"{home}.{inner}" if inner else home
    if home == DRAWING or (home != module and home.split(".")[0] != "prgd"):
        return
    if inner and _file(whole) is None:
        if (home, inner) != (module, name):
            yield from _resolved(home, inner, attributes, {})
    elif attributes:
        yield from _resolved(whole, attributes[0], attributes[1:], {})
    elif whole != "prgd":  # A module that is handed on as a value counts as a whole.
        yield from ((whole, each) for each in _source(whole).definitions)


def _plain(node: ast.stmt) -> ast.stmt:
    """Return a copy without docstrings and without the type hints of functions."""
    plain = deepcopy(node)
    for part in ast.walk(plain):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = part.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                part.body = part.body[1:] or [ast.Pass()]
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            part.returns = None
        if isinstance(part, ast.arg):
            part.annotation = None
    return plain
