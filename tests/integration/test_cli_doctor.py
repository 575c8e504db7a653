"""``prgd doctor``: what it finds, and what it says of what is missing or wrong."""

import json
import re
from importlib import metadata
from pathlib import Path

import pytest
from command_line import call, pipe

import prgd
from prgd.cli import doctor

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def facts():
    return doctor.diagnose()


def lines(text: str) -> list[tuple[str, str]]:
    return [tuple(line.split(": ", 1)) for line in text.splitlines()]


def forget(monkeypatch, *packages):
    """Let the metadata of these packages be missing."""
    version = metadata.version

    def without(name):
        if name in packages:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor.metadata, "version", without)


def test_versions_are_those_that_are_installed(facts):
    assert facts["prgd"]["version"] == prgd.__version__
    assert {p["name"]: p["version"] for p in facts["packages"]} == {
        name: metadata.version(name)
        for name in ("numba", "numpy", "rich", "scikit-learn", "scipy", "threadpoolctl", "typer")
    }
    assert facts["problems"] == []
    assert all(facts["extras"].values())
    assert {p["name"] for p in facts["extras"]["jax"]} == {"jax", "optax"}


def test_json_goes_to_a_file_beside_the_table():
    printed, found = (
        dict(lines(call("doctor", "--json", "f.json").stdout)),
        json.loads(Path("f.json").read_text()),
    )
    assert printed["prgd"].startswith(f"{found['prgd']['version']} in ")
    assert (printed["cores"], printed["missing or wrong"]) == (str(found["threads"]["cores"]), "nothing")


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    forget(monkeypatch, "optax", "numba")
    *_, optional, wrong = lines(call("doctor").stdout)
    numba = "prgd needs numba 0.61 or newer; none is installed: pip install 'numba>=0.61'."
    assert wrong == ("missing or wrong", numba)
    assert optional[0] == "optional, not installed"
    assert optional[1].startswith("prgd.jax needs optax: pip install '.[jax]' in a checkout of prgd, or ")


def test_without_an_installation_the_error_says_what_to_do(monkeypatch):
    def requires(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "requires", requires)
    with pytest.raises(ValueError, match=r"without one\. Run pip install \. in its checkout"):
        doctor.packages()


def test_a_package_that_is_too_old_is_named_with_both_versions(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "0.1.0")
    said = doctor.not_installed(doctor.packages()[1])
    assert "prgd.deep needs torch 2.6 or newer (there is 0.1.0): pip install" in "\n".join(said)


@pytest.mark.parametrize(
    ("installed", "needed", "is_sufficient"),
    [
        ("6", "6.0", True),
        ("6.0.0", "6", True),
        ("1.26.4", "1.3", True),
        ("2.13.0+cpu", "2.6", True),
        ("1.9", "1.15", False),
        ("0.15.3", "0.15.4", False),
        ("2.0rc1", "2.1", False),
    ],
)
def test_versions_are_compared_number_by_number(installed, needed, is_sufficient, monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: installed)
    assert doctor.package_facts(f"some-package>={needed}")["is_sufficient"] is is_sufficient


def test_threads_that_are_no_number_are_a_problem_and_no_error():
    out = call("doctor", PRGD_NUM_THREADS="many").stdout
    assert "missing or wrong: PRGD_NUM_THREADS must be a positive integer; got 'many'." in out
    assert "threads of prgd: unknown" in out


@pytest.mark.slow
def test_the_kernel_cache_is_where_numba_was_told_to_keep_it_with_its_size(tmp_path):
    cache = tmp_path / "kernels"

    def packages():
        said, *_ = pipe("doctor", "--json", "-", NUMBA_CACHE_DIR=str(cache))
        return json.loads(said)["kernel_cache"]

    for package in packages():
        folder = Path(package["folder"])
        assert folder.is_relative_to(cache)
        assert package["is_writable"]
        assert (package["files"], package["bytes"]) == (0, 0)
        for name, size in {"a.nbi": 10, "b.nbc": 200, "c.txt": 3000}.items():
            folder.joinpath(name).write_bytes(bytes(size))
    assert {(package["files"], package["bytes"]) for package in packages()} == {(2, 210)}


def test_every_package_with_kernels_is_asked():
    source = ROOT / "src"
    cached = [f for f in source.rglob("*.py") if re.search(r"cache=True|_compile import", f.read_text())]
    packages = {".".join(f.relative_to(source).parent.parts) for f in cached}
    assert packages - {"prgd.cli"} == {module.rpartition(".")[0] for module in doctor.KERNELS}


def test_a_cache_that_cannot_be_written_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    found = [doctor.kernel_cache(module) for module in doctor.KERNELS]
    assert all("cannot be written. Set NUMBA_CACHE_DIR" in package["error"] for package in found)


def test_numba_without_any_folder_is_a_problem_and_no_error(monkeypatch):
    def refuse(name):
        raise RuntimeError("cannot cache function 'f': no locator available")

    monkeypatch.setattr(doctor, "import_module", refuse)
    facts = doctor.diagnose()
    assert "no locator available. Set NUMBA_CACHE_DIR to a folder that can" in facts["problems"][0]
    assert ("kernels of prgd.rows", "not cached") in doctor.lines(facts)


def test_kernels_that_are_not_compiled_are_said_to_be():
    out, _ = pipe("doctor", NUMBA_DISABLE_JIT="1")
    assert "Kernels are not compiled: unset NUMBA_DISABLE_JIT for speed." in out
