"""The rooms of the house: imports point one way, names do not clash, and modules stay readable."""

from __future__ import annotations

import ast
import importlib.util
import io
import tokenize
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

import prgd

SOURCE = Path(prgd.__file__).parent

pytestmark = pytest.mark.no_cover  # The source is read, not run.

# From the ground floor up. A room imports rooms of earlier lines only, lazy imports included. Rooms of one
# line do not import each other.
FLOORS = [
    ["_types", "checks", "errors", "files", "replay", "threads"],
    ["arithmetic", "lazy", "namespace", "options", "values"],
    ["losses", "norms"],
    ["schedules"],  # radii that read the iterate name Evaluation, for the type checker alone
    ["tally"],
    ["rows"],
    ["joint"],
    ["evaluation"],
    ["coding"],
    ["problem"],
    ["certificate"],
    ["dual_bounds"],
    ["pass_bounds"],
    ["proofs"],
    ["solvers"],
    ["algorithms"],
    ["plots"],  # draws a History, which draws itself by it
    ["history"],
    ["result"],
    ["model"],
    ["stopping", "progress"],
    ["loop"],
    ["separation"],
    ["maxmargin"],
    ["datasets"],
    ["estimators"],
    ["claims"],
    ["theory"],
    ["deep", "jax"],
    ["reproduce"],
    ["race"],
    ["cli"],
    ["__main__"],
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = ("prgd", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(module: str) -> set[str]:
    """Return the modules of prgd that a module imports anywhere, unless for the type checker alone."""
    tree = ast.parse(modules()[module].read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If)
        and "TYPE_CHECKING" in ast.unparse(block.test)
        and "not" not in ast.unparse(block.test)
        for part in block.body
        for node in ast.walk(part)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules() else node.module)
        elif isinstance(node, ast.ImportFrom):
            raise AssertionError(f"{module} has a relative import")
    return {name for name in found if name.split(".")[0] == "prgd"}


def test_every_room_has_a_floor():
    rooms = {room_of(module) for module in modules()} - {""}
    assert rooms <= set(FLOOR), f"rooms without a floor: {sorted(rooms - set(FLOOR))}"


@pytest.mark.parametrize("room", sorted({room_of(module) for module in modules()} - {""}))
def test_imports_point_down(room):
    upward = []
    for module in modules():
        if room_of(module) != room:
            continue
        for other in imports(module):
            target = room_of(other)
            if target == room:
                continue
            if target == "":  # `import prgd` gives the whole package: only shells and examples may
                if FLOOR[room] < FLOOR["estimators"]:
                    upward.append(f"{module} -> prgd")
            elif FLOOR[target] >= FLOOR[room]:
                upward.append(f"{module} -> {other}")
    assert not upward, "imports that point up or sideways: " + ", ".join(sorted(upward))


def test_no_two_packages_import_each_other():
    edges = set()
    for module in modules():
        for other in imports(module):
            a, b = module.rpartition(".")[0], other
            package = b if modules().get(b, Path()).name == "__init__.py" else b.rpartition(".")[0]
            edges.add((a, package))
    pairs = [
        (a, b)
        for a, b in combinations(sorted({x for edge in edges for x in edge}), 2)
        if (a, b) in edges and (b, a) in edges and not (a.startswith(b) or b.startswith(a))
    ]
    assert not pairs


def test_no_module_shares_its_dotted_name_with_a_function():
    """``prgd.x.y`` is a module or a name that ``prgd.x`` defines or imports, never both."""
    clashes = []
    for package, path in modules().items():
        if path.name != "__init__.py":
            continue
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names |= {
                    alias.asname or alias.name
                    for alias in node.names
                    if f"{node.module}.{alias.name}" not in modules()
                }
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
        clashes += [f"{package}.{name}" for name in names if f"{package}.{name}" in modules()]
    assert not clashes


def _without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        lines -= first.end_lineno - first.lineno + 1
    return lines


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
SILENT = {*LAYOUT, tokenize.COMMENT}


def test_modules_and_functions_stay_short():
    long = []
    for module, path in modules().items():
        text = path.read_text()
        if len(text.splitlines()) > 400:
            long.append(f"{module}: {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _without_docstring(node) > 60:
                long.append(f"{module}.{node.name}: {_without_docstring(node)} lines")
    assert not long


def lines_of_code(text: str) -> int:
    """Count lines that hold code: not blank, no comment alone, no docstring."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        ) and ast.get_docstring(node):
            docstrings |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    silent = {
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.COMMENT,
    }
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def test_the_house_stays_small():
    assert sum(lines_of_code(path.read_text()) for path in modules().values()) <= 38_500


def test_public_names():
    assert len(prgd.__all__) <= 34
    assert all(hasattr(prgd, name) for name in prgd.__all__)


def test_tricks_that_are_gone_stay_gone():
    text = {module: path.read_text() for module, path in modules().items()}
    for trick in ("record=2**62", "record=2 ** 62", "SimpleNamespace"):
        assert not [module for module, code in text.items() if trick in code], trick
    # w is frozen where it is evaluated, other arrays where the state that holds them is made
    frozen = {module for module, code in text.items() if "flags.writeable" in code}
    assert frozen <= {"prgd.problem", "prgd.algorithms.base", "prgd.rows.labels"}


@pytest.fixture(scope="module")
def trace_calls():
    path = Path(__file__).parents[1] / "docs/trace_calls.py"
    spec = importlib.util.spec_from_file_location("trace_calls", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["prgd.run", "prgd.max_margin", "prgd.deep.PRGD.step"])
def test_calls_are_followed_without_going_back_and_forth(trace_calls, name):
    """No file calls one that called it, and the page shows the files in the order of their first entry."""
    call = trace_calls.CALLS[name]
    call()()  # imports and compiles
    trace = trace_calls.Trace(call())
    assert trace.returns_to() == []
    page = trace_calls.PAGE.read_text()
    shown = page.split(f"<!-- trace {name}: begin -->")[1].split(f"<!-- trace {name}: end -->")[0]
    assert [line.split()[0] for line in shown.splitlines()[2:-1]] == list(trace.visits)
