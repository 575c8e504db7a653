"""The command ``prgd doctor``: what is installed, devices, threads and the kernel cache. Quick to import."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import prgd
from prgd.cli import outcome
from prgd.cli.common import Debug, one_line_errors, output_option, print_table, with_options
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
THREAD_VARIABLES = ("PRGD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# A library that looks for devices may hang or crash, and JAX reserves memory: each has a process of its own.
PROBES = {
    "torch": "[torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]",
    "jax": "[f'{d.platform}:{d.id} {d.device_kind}' for d in jax.devices()]",
}
MAX_PROBE_SECONDS = 60.0


@dataclass(frozen=True)
class DoctorOptions:
    """Options of ``prgd doctor``."""

    devices: bool = output_option(
        True, "Import PyTorch and JAX, which takes seconds, and ask for their devices."
    )
    json: str | None = outcome.json_option()


@with_options(options_of(DoctorOptions))
def doctor_command(debug: Debug = False, **given: Any) -> None:
    """Say what is installed, which devices and threads there are, and where compiled kernels are kept.

    What is missing or wrong comes last, with the command that repairs it.

    Example: prgd doctor --json -
    """
    with one_line_errors(debug, given["json"]):
        o = from_options(DoctorOptions, given)
        outcome.check_json(o.json)
        facts = diagnose(o.devices)
        if outcome.is_printed(False, o.json):
            print_table(lines(facts))
        outcome.write_json(o.json, facts)


def diagnose(with_devices: bool) -> Facts:
    """Return all facts, under the keys of ``--json``."""
    core, extras = packages()
    threads, caches = thread_facts(), [kernel_cache(module) for module in KERNELS]
    devices = device_facts() if with_devices else {}
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
        "devices": devices,
        "threads": threads,
        "kernel_cache": caches,
        "problems": problems(core, extras, [*devices.values(), threads, *caches]),
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


# Devices, threads and the cache


def device_facts() -> dict[str, Facts]:
    """Return the devices that PyTorch (CUDA alone) and JAX find, each asked in a process of its own."""
    found: dict[str, Facts] = {}
    for name, asked in PROBES.items():
        if package_facts(name)["version"] is None:
            continue
        code = f"import json, {name}; print(json.dumps({asked}))"
        devices: list[str] = []
        why = f"it did not answer within {MAX_PROBE_SECONDS:g} s"
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, timeout=MAX_PROBE_SECONDS
            )
            ended = f"its process ended with code {done.returncode}"
            why = (done.stderr.strip().splitlines() or [ended])[-1] if done.returncode else ""
            devices = [] if why else json.loads(done.stdout.splitlines()[-1])
        error = f"{name} cannot be asked for its devices: {why}." if why else None
        found[name] = {"devices": devices, "error": error}
    return found


def thread_facts() -> Facts:
    """Return the cores, the threads that prgd and BLAS use, and the variables that set them."""
    import scipy.linalg  # noqa: F401 - SciPy has a BLAS of its own, which is found once it is loaded
    from threadpoolctl import threadpool_info

    try:
        threads, error = default_threads(), None
    except ValueError as wrong:
        threads, error = None, str(wrong)
    pools = [
        {"library": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "cores": cores(),
        "prgd": threads,
        "blas": pools,
        "variables": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        "memory_bytes": physical_memory(),
        "error": error,
    }


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


def problems(core: list[Facts], extras: dict[str, list[Facts]], asked: list[Facts]) -> list[str]:
    """Return a sentence for each thing that is missing or wrong, with the command that repairs it."""
    said = [
        f"prgd needs {p['name']} {p['needed']} or newer; {p['version'] or 'none'} is installed: "
        f"pip install '{p['name']}>={p['needed']}'."
        for p in core
        if not p["is_sufficient"]
    ]
    said += [facts["error"] for facts in asked if facts["error"]]
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
    titles = {"torch": "PyTorch's CUDA devices", "jax": "JAX's devices"}
    named = {f"extra {name}": brought for name, brought in facts["extras"].items()}
    rows = [
        ("prgd", f"{facts['prgd']['version']} in {facts['prgd']['folder']}"),
        ("Python", f"{python['version']} ({python['implementation']}, {python['system']})"),
    ]
    for title, found in {"packages": facts["packages"], **named}.items():
        rows.append((title, ", ".join(f"{p['name']} {p['version'] or 'is missing'}" for p in found)))
    for name, asked in facts["devices"].items():
        rows.append((titles[name], ", ".join(asked["devices"]) or ("unknown" if asked["error"] else "none")))
    rows += [
        ("cores", str(threads["cores"])),
        ("memory", f"{memory / 2**30:.1f} GiB" if memory < float("inf") else "unknown"),
        ("threads of prgd", str(threads["prgd"] or "unknown")),
    ]
    for pool in threads["blas"]:
        rows.append(("threads of BLAS", f"{pool['threads']} ({pool['library']} {pool['version']})"))
    rows += threads["variables"].items()
    for cache in facts["kernel_cache"]:
        size = f"{cache['files']} files, {cache['bytes'] / 2**20:.1f} MiB"
        where = f"{cache['folder']}, {'' if cache['is_writable'] else 'not '}writable, {size}"
        rows.append((f"kernels of {cache['package']}", where if cache["folder"] else "not cached"))
    return [*rows, *(("missing or wrong", text) for text in facts["problems"] or ["nothing"])]
