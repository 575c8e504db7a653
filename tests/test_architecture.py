"""The rooms of the house: imports point one way, names do not clash, and everything stays small."""

import ast
import importlib.util
import io
import tokenize
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

import prgd

ROOT = Path(__file__).parents[1]
PACKAGES = {"prgd": ROOT / "src/prgd", "prgd_paper": ROOT / "paper/prgd_paper"}

pytestmark = pytest.mark.no_cover  # The source is read, not run.

# From the ground floor up. A room imports rooms of earlier lines, and those to its left in its own line, lazy
# imports included. Rooms are subpackages, or single modules such as losses.
FLOORS = [
    ["core"],
    ["losses", "norms", "schedules"],
    ["rows"],
    ["problem", "datasets"],
    ["proofs"],
    ["solvers"],
    ["algorithms"],
    ["running"],
    ["separation"],
    ["maxmargin", "regression"],
    ["estimators", "deep", "jax", "plots"],
    ["cli", "__main__"],
]
FLOOR = {room: (floor, place) for floor, rooms in enumerate(FLOORS) for place, room in enumerate(rooms)}

# At most so many lines of code: what is added is paid for by what goes.
MAX_LINES = {
    ("src/prgd",): 22_900,
    ("paper/prgd_paper",): 12_000,
    ("tests", "paper/tests"): 24_000,
    ("benchmarks",): 4_000,
}


@cache
def modules(*packages: str) -> dict[str, Path]:
    found = {}
    for package in packages:
        for path in PACKAGES[package].rglob("*.py"):
            parts = (package, *path.relative_to(PACKAGES[package]).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> set[str]:
    """Return the modules of both packages that a module imports, unless for the type checker alone."""
    known = modules(*PACKAGES)
    tree = ast.parse(known[module].read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for part in block.body
        for node in ast.walk(part)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in typing_only:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and id(node) not in typing_only:
            assert node.level == 0, f"{module} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in known else node.module)
    return {name for name in found if name.split(".")[0] in PACKAGES}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


ROOMS = sorted({room_of(module) for module in modules("prgd")} - {""})


def test_every_room_has_a_floor():
    assert set(ROOMS) <= set(FLOOR), f"rooms without a floor: {sorted(set(ROOMS) - set(FLOOR))}"
    assert len(FLOORS) <= 12
    assert len([path for path in PACKAGES["prgd"].glob("*.py") if path.stem != "__init__"]) <= 14


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down(room):
    upward = []
    for module in modules("prgd"):
        if room_of(module) != room:
            continue
        for other in imports(module):
            # `import prgd` gives the whole package: only the command line, examples in docstrings aside, may.
            floor = FLOOR["plots"] if other == "prgd" else FLOOR.get(room_of(other), (99, 0))
            if other.startswith("prgd_paper") or (room_of(other) != room and floor >= FLOOR[room]):
                upward.append(f"{module} -> {other}")
    assert not upward, "imports that point up: " + ", ".join(sorted(upward))


def test_no_two_packages_import_each_other():
    edges = set()
    for module in modules("prgd"):
        for other in imports(module):
            path = modules("prgd").get(other, Path())
            edges.add(
                (module.rpartition(".")[0], other if path.stem == "__init__" else other.rpartition(".")[0])
            )
    pairs = [
        (a, b)
        for a, b in combinations(sorted({x for edge in edges for x in edge}), 2)
        if (a, b) in edges and (b, a) in edges and not (a.startswith(b) or b.startswith(a))
    ]
    assert not pairs


def test_no_module_shares_its_dotted_name_with_a_function():
    """``prgd.x.y`` is a module or a name that ``prgd.x`` defines or imports, never both."""
    known, clashes = modules(*PACKAGES), []
    for package, path in known.items():
        if path.name != "__init__.py":
            continue
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names |= {a.asname or a.name for a in node.names if f"{node.module}.{a.name}" not in known}
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
        clashes += [f"{package}.{name}" for name in names if f"{package}.{name}" in known]
    assert not clashes


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
SILENT = {*LAYOUT, tokenize.COMMENT}


def docstring_lines(tree: ast.AST) -> set[int]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            found |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return found


def lines_of_code(text: str) -> int:
    """Count lines that hold code: not blank, no comment alone, no docstring."""
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstring_lines(ast.parse(text)))


def test_modules_and_functions_stay_short():
    long = []
    for module, path in modules(*PACKAGES).items():
        text = path.read_text()
        if (lines := len(text.splitlines())) > 400:
            long.append(f"{module}: {lines} lines")
        tree = ast.parse(text)
        documented = docstring_lines(tree)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = sum(line not in documented for line in range(node.lineno, node.end_lineno + 1))
                long += [f"{module}.{node.name}: {lines} lines"] * (lines > 60)
    assert not long


@pytest.mark.parametrize("folders", MAX_LINES, ids="+".join)
def test_the_house_stays_small(folders):
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert sum(lines_of_code(path.read_text()) for path in files) <= MAX_LINES[folders]


def test_public_names():
    assert len(prgd.__all__) <= 34
    assert all(hasattr(prgd, name) for name in prgd.__all__)
    assert len(script("public_names").public_names()) <= 120


def test_arrays_are_frozen_in_few_places():
    """A direction is frozen where it is evaluated, other arrays where the state that holds them is made."""
    frozen = {module for module, path in modules("prgd").items() if "flags.writeable" in path.read_text()}
    assert frozen <= {"prgd.problem.problem", "prgd.algorithms.base", "prgd.rows.labels"}


@cache
def script(name: str):
    """Return a script of docs as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", script("trace_calls").CALLS)
def test_calls_are_followed_without_going_back_and_forth(name):
    """No room calls one that called it, and the page shows the files in the order of their first entry."""
    trace_calls = script("trace_calls")
    call = trace_calls.CALLS[name]
    call()()  # imports and compiles
    trace = trace_calls.Trace(call())
    assert [(a, b) for a, b in trace.returns_to() if a.split("/")[0] != b.split("/")[0]] == []
    page = trace_calls.PAGE.read_text()
    shown = page.split(f"<!-- trace {name}: begin -->")[1].split(f"<!-- trace {name}: end -->")[0]
    assert [line.split()[0] for line in shown.splitlines()[2:-1]] == list(trace.visits)


@pytest.mark.slow
@pytest.mark.parametrize("name", script("trace_calls").COUNTED)
def test_a_call_enters_few_files(name):
    found = script("trace_calls").files_of(name)
    assert len(found) <= script("trace_calls").COUNTED[name][1], found
