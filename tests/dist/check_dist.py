"""Build the wheel and the sdist, and use the wheel in a bare environment, without the checkout.

    python tests/dist/check_dist.py [--extras NAME ...] [--keep FOLDER]

The steps, each timed: build both (the wheel is built from the sdist), compare it with the wheel of the
checkout, ``twine check``, the three commands up to a first result, then extra by extra the script
``smoke_<extra>.py`` from an empty folder, the Python snippets of the README, and last prgd_paper. Extras are installed
one after the other into one environment, in an order in which none brings the packages that a later one alone
should bring. Only the standard library is used here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MAX_BYTES = 627_000  # 0.6 of the wheel that had the experiments too
EXTRAS = ("cones", "formula", "cluster", "report", "jax", "deep", "gpu")


class Steps:
    """Run commands from one folder, print what is run, and keep the seconds of each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds = folder, {}
        dropped = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}  # they would lead to the checkout
        self.environment = {name: value for name, value in os.environ.items() if name not in dropped}
        self.environment["NUMBA_CACHE_DIR"] = str(folder / "kernels")

    def run(self, name: str, *command: str | Path, cwd: Path | None = None) -> str:
        print(f"{name}: {' '.join(map(str, command))}", flush=True)
        started = time.perf_counter()
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd or self.empty(),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.seconds[name] = time.perf_counter() - started
        if done.returncode != 0:
            raise SystemExit(f"{done.stdout}\n{name} failed with code {done.returncode}.")
        print(f"    {self.seconds[name]:.1f} s", flush=True)
        return done.stdout

    def empty(self) -> Path:
        """Return a new folder with nothing in it."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def environment_in(self, name: str) -> Path:
        """Make a bare environment, and return its Python."""
        started = time.perf_counter()
        venv.create(self.folder / name, with_pip=True)
        self.seconds[f"python -m venv {name}"] = time.perf_counter() - started
        return self.folder / name / ("Scripts" if os.name == "nt" else "bin") / "python"


def members(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel; dates of the archive do not count."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def built(steps: Steps) -> Path:
    """Build into ``dist``, compare the wheels of sdist and checkout, check both files, return the wheel."""
    tools = steps.environment_in("tools")
    steps.run("tools", tools, "-m", "pip", "install", "--quiet", "build", "twine", *constraints())
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    steps.run("build", tools, "-m", "build", "--outdir", target, ROOT)
    direct = steps.empty()
    steps.run("build from the checkout", tools, "-m", "build", "--wheel", "--outdir", direct, ROOT)
    (wheel,), (other,), (sdist,) = target.glob("*.whl"), direct.glob("*.whl"), target.glob("*.tar.gz")
    if members(wheel) != members(other):
        odd = sorted(set(members(wheel).items()) ^ set(members(other).items()))
        raise SystemExit(f"The sdist builds another wheel than the checkout: {[name for name, _ in odd]}.")
    steps.run("twine", tools, "-m", "twine", "check", "--strict", wheel, sdist)
    for file in (wheel, sdist):
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
    if strange := {name.split("/")[0] for name in members(wheel)} - {"prgd", "-".join(wheel.name.split("-")[:2]) + ".dist-info"}:
        raise SystemExit(f"The wheel holds more than prgd: {sorted(strange)}.")
    if wheel.stat().st_size > MAX_BYTES:
        raise SystemExit(f"The wheel has {wheel.stat().st_size:,} bytes, more than {MAX_BYTES:,}.")
    return wheel


def paper(steps: Steps, wheel: Path) -> None:
    """Install prgd_paper beside the wheel, and use a command and an algorithm that it registers."""
    python = steps.environment_in("paper")
    pip = [python, "-m", "pip", "install", "--quiet", *constraints()]
    steps.run("pip install ./paper", *pip, wheel, ROOT / "paper")
    steps.run("prgd claims", python.with_name("prgd"), "claims", "lemma-d.2")
    steps.run("prgd run mdm", python.with_name("prgd"), "run", "toy:0.3", "--algorithm", "mdm")


def constraints() -> list[str]:
    """Return the options of pip that fix all versions."""
    return ["--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt")]


def used(steps: Steps, wheel: Path, extras: list[str]) -> None:
    """Install the wheel as a user does, up to the first result, and then extra by extra."""
    python = steps.environment_in("user")
    pip = [python, "-m", "pip", "install", "--quiet", *constraints()]
    steps.run("pip install prgd", *pip, wheel)
    said = steps.run("first result", python.with_name("prgd"), "fit", "digits:0,1")
    if "Certified" not in said and "certified" not in said:
        raise SystemExit(f"prgd fit did not certify its result:\n{said}")
    steps.run("smoke core", python, HERE / "smoke_core.py", ROOT)
    snippets(steps, python, "--first")
    for extra in extras:
        steps.run(f"pip install prgd[{extra}]", *pip, f"{wheel}[{extra}]")
        steps.run(f"smoke {extra}", python, HERE / f"smoke_{extra}.py", ROOT)
    if set(extras) == set(EXTRAS):
        snippets(steps, python)
    else:
        print("The README's snippets need every extra: run without --extras for all of them.")


def snippets(steps: Steps, python: Path, *options: str) -> None:
    steps.run(" ".join(["README", *options]), python, HERE / "run_snippets.py", ROOT / "README.md", *options)


def main() -> None:
    """Build, check and use the distributions, and print the seconds of each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", nargs="*", default=list(EXTRAS), choices=EXTRAS, help="which to try")
    parser.add_argument("--keep", type=Path, help="keep the environments in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = options.keep.resolve() if options.keep else Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        steps = Steps(folder)
        try:
            wheel = built(steps)
            used(steps, wheel, options.extras)
            paper(steps, wheel)
        finally:
            for step, seconds in steps.seconds.items():
                print(f"{seconds:8.1f} s  {step}")
            print(f"{sum(steps.seconds.values()):8.1f} s  in all")
    print("The wheel and the sdist are fit for use.")


if __name__ == "__main__":
    sys.exit(main())
