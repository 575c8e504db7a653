"""The command ``prgd doctor``: what is installed, devices, threads and the kernel cache. Quick to import."""

import os
import platform
import re
import sys
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import prgd
from prgd.cli import outcome
from prgd.cli.common import Debug, one_line_errors, print_table, with_options
from prgd.cli.options import from_options, options_of
from prgd.core.errors import missing_package
from prgd.core.threads import cores, default_threads, physical_memory

Facts = dict[str, Any]
# Extras that a user may want, and what each of them brings; the README's list of extras has the same names.
EXTRAS = {
    "report": "Reading Parquet and drawing plots",
    "formula": "prgd.separability.from_formula",
    "deep": "prgd.deep",
    "jax": "prgd.jax",
    "gpu": "Computing with rows on a GPU",
    "cluster": "Computing with rows on Dask workers",
    "cones": "Maximising margins in l_p and group norms",
}
# One module of kernels in each package that has some: Numba chooses a cache folder for each package.
KERNELS = ("prgd.rows._kernels", "prgd.solvers._kernels")


@dataclass(frozen=True)
class DoctorOptions:
    """Options of ``prgd doctor``."""

    json: str | None = outcome.json_option()


@with_options(options_of(DoctorOptions))
def doctor_command(debug: Debug = False, **given: Any) -> None:
    """Say what is installed, which threads there are, and where compiled kernels are kept.

    Extras that are not installed are optional. What is missing or wrong comes last, with the command that
    repairs it.

    Example: prgd doctor --json -
    """
    with one_line_errors(debug, given["json"]):
        o = from_options(DoctorOptions, given)
        outcome.check_json(o.json)
        facts = diagnose()
        if outcome.is_printed(False, o.json):
            print_table(lines(facts))
        outcome.write_json(o.json, facts)


def diagnose() -> Facts:
    """Return all facts, under the keys of ``--json``."""
    core, extras = packages()
    threads, caches = thread_facts(), [kernel_cache(module) for module in KERNELS]
    return {
        "prgd": {"version": prgd.__version__, "folder": str(Path(prgd.__file__).parent)},
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "system": f"{platform.system()} {platform.machine()}",
        },
        "packages": core,
        "extras": extras,
        "threads": threads,
        "kernel_cache": caches,
        "problems": problems(core, [threads, *caches]),
        "optional": not_installed(extras),
    }


# What is installed


def packages() -> tuple[list[Facts], dict[str, list[Facts]]]:
    """Return the packages that prgd needs, and those that each extra brings, as the metadata names them."""
    try:
        lines = metadata.requires("prgd") or ()
    except metadata.PackageNotFoundError:
        raise ValueError(
            f"prgd doctor reads the record of an installation, and prgd is imported from "
            f"{Path(prgd.__file__).parent} without one. Run pip install . in its checkout."
        ) from None
    found: dict[str, list[Facts]] = {name: [] for name in ("", *EXTRAS)}
    for line in lines:
        requirement, _, marker = line.partition(";")
        system = re.search(r"sys_platform == ['\"](\w+)", marker)
        extra = re.search(r"extra == ['\"](\w+)", marker)
        name = "" if extra is None else extra[1]
        if name in found and (system is None or system[1] == sys.platform):
            found[name].append(package_facts(requirement))
    return found.pop(""), found


def package_facts(requirement: str) -> Facts:
    """Return the name, the version that is installed, and the oldest one that will do.

    Examples
    --------
    >>> package_facts("no-such-package[array]>=2.1")
    {'name': 'no-such-package', 'version': None, 'needed': '2.1', 'is_sufficient': False}
    """
    name, _, needed = requirement.partition(">=")
    name = re.sub(r"\[.*", "", name).strip()
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        found = None
    is_sufficient = found is not None and _numbers(found) >= _numbers(needed)
    return {"name": name, "version": found, "needed": needed.strip(), "is_sufficient": is_sufficient}


def _numbers(version: str) -> list[int]:
    """Return the release numbers of a version without trailing zeros, so that 6 and 6.0 are equal."""
    release = re.sub(r"(\.0+)+$", "", re.sub(r"[^\d.].*", "", version.strip()))
    return [int(part) for part in release.split(".") if part]


# Threads and the cache


def thread_facts() -> Facts:
    """Return the cores, the threads that prgd uses, and the memory."""
    try:
        threads, error = default_threads(), None
    except ValueError as wrong:
        threads, error = None, str(wrong)
    return {"cores": cores(), "prgd": threads, "memory_bytes": physical_memory(), "error": error}


def kernel_cache(module: str) -> Facts:
    """Return the folder in which Numba keeps the compiled kernels of a module, with its size."""
    facts: Facts = {"package": module.rpartition(".")[0], "folder": None, "is_writable": False}
    facts |= {"files": 0, "bytes": 0, "error": None}
    try:
        kernels = [f.stats for f in vars(import_module(module)).values() if hasattr(f, "stats")]
    except RuntimeError as error:  # Numba refuses to cache where no folder can be written.
        why = str(error).rstrip(".")
        return {**facts, "error": f"{why}. Set NUMBA_CACHE_DIR to a folder that can be written."}
    folders = [Path(stats.cache_path) for stats in kernels if stats.cache_path]
    if not folders:
        return {**facts, "error": "Kernels are not compiled: unset NUMBA_DISABLE_JIT for speed."}
    sizes = [path.stat().st_size for path in folders[0].glob("*.nb[ci]") if path.is_file()]
    facts |= {"folder": str(folders[0]), "is_writable": os.access(folders[0], os.W_OK)}
    if not facts["is_writable"]:
        facts["error"] = f"{folders[0]} cannot be written. Set NUMBA_CACHE_DIR to a folder that can be."
    return {**facts, "files": len(sizes), "bytes": sum(sizes)}


# What is wrong, and how it is said


def problems(core: list[Facts], asked: list[Facts]) -> list[str]:
    """Return a sentence for each thing that is missing or wrong, with the command that repairs it."""
    said = [
        f"prgd needs {p['name']} {p['needed']} or newer; {p['version'] or 'none'} is installed: "
        f"pip install '{p['name']}>={p['needed']}'."
        for p in core
        if not p["is_sufficient"]
    ]
    return said + [facts["error"] for facts in asked if facts["error"]]


def not_installed(extras: dict[str, list[Facts]]) -> list[str]:
    """Return a sentence for each extra that is not there, with the command that brings it."""
    said = []
    for extra, brought in extras.items():
        lacking = [
            p["name"]
            if p["version"] is None
            else f"{p['name']} {p['needed']} or newer (there is {p['version']})"
            for p in brought
            if not p["is_sufficient"]
        ]
        if lacking:
            said.append(str(missing_package(EXTRAS[extra], " and ".join(lacking), extra)))
    return said


def lines(facts: Facts) -> list[tuple[str, str]]:
    """Return the facts in words, a name and a value for each line."""
    python, threads = facts["python"], facts["threads"]
    memory = threads["memory_bytes"]
    named = {f"extra {name}": brought for name, brought in facts["extras"].items()}
    rows = [
        ("prgd", f"{facts['prgd']['version']} in {facts['prgd']['folder']}"),
        ("Python", f"{python['version']} ({python['implementation']}, {python['system']})"),
    ]
    for title, found in {"packages": facts["packages"], **named}.items():
        rows.append((title, ", ".join(f"{p['name']} {p['version'] or 'is missing'}" for p in found)))
    rows += [
        ("cores", str(threads["cores"])),
        ("memory", f"{memory / 2**30:.1f} GiB" if memory < float("inf") else "unknown"),
        ("threads of prgd", str(threads["prgd"] or "unknown")),
    ]
    for cache in facts["kernel_cache"]:
        size = f"{cache['files']} files, {cache['bytes'] / 2**20:.1f} MiB"
        where = f"{cache['folder']}, {'' if cache['is_writable'] else 'not '}writable, {size}"
        rows.append((f"kernels of {cache['package']}", where if cache["folder"] else "not cached"))
    rows += [("optional, not installed", text) for text in facts["optional"]]
    return [*rows, *(("missing or wrong", text) for text in facts["problems"] or ["nothing"])]
