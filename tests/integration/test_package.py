"""The package as it is imported, documented and read."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest
from public_names import names_of, public_modules, public_names, value_of
from shared import python

import prgd

ROOT = Path(__file__).parents[2]
HEAVY = ["torch", "dask", "numba", "sklearn", "scipy", "matplotlib", "pandas", "pyarrow", "rich", "typer"]
HEAVY += ["jax", "optax"]
HEAVY += ["asyncio"]  # of the standard library, and a tenth of the time of the import
MODULES = [m.name for m in pkgutil.walk_packages(prgd.__path__, "prgd.") if not m.name.endswith("__main__")]


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import prgd", HEAVY),
        ("import prgd.cli", ["numba", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "torch"]),
        ("import prgd; prgd.datasets.digits(0, 1)", ["sklearn"]),
        ("from prgd.cli.doctor import diagnose; diagnose()", ["torch", "jax", "pandas", "dask"]),
    ],
)
def test_what_is_not_used_is_not_imported(code, absent):
    code = f"{code}; import sys; print([name for name in {absent} if name in sys.modules])"
    assert python("-c", code).stdout.strip() == "[]"


def test_submodules_are_imported_when_they_are_asked_for():
    names = ["deep", "estimators", "jax", "plots"]
    code = (
        f"import sys, prgd; assert not [n for n in {names} if 'prgd.' + n in sys.modules]\n"
        f"assert all(getattr(prgd, n).__name__ == 'prgd.' + n and n in dir(prgd) for n in {names})"
    )
    python("-c", code)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("page", ["README.md", "docs/certificates.md", "docs/jax.md"])
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    blocks = [b.split("```", 1)[0] for b in text.split("```python\n")[1:]]
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})  # noqa: S102


def test_algorithm_1_fits_on_a_page():
    lines = (ROOT / "src/prgd/algorithms/prgd.py").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if "def moves" in line)
    assert lines[first:].index("") <= 20


@pytest.mark.parametrize("name", public_names())
def test_names_of_the_reference_exist(name):
    assert value_of(name) is not None


def test_what_prgd_exports_stands_in_the_reference():
    listed = {id(value_of(name)) for name in (*public_names(), *public_modules())}
    modules = ("prgd", "prgd.datasets", "prgd.deep", "prgd.estimators", "prgd.jax", "prgd.maxmargin")
    names = [name for module in modules for name in names_of(module)]
    assert [name for name in names if id(value_of(name)) not in listed] == []
