"""What the smoke tests share: is this the installed prgd, and are the packages that it names there?"""

import sys
from importlib.metadata import version
from pathlib import Path

import prgd

ROOT = Path(sys.argv[1])


def check(*packages: str) -> None:
    """Stop if prgd is that of the checkout, or if a package is missing."""
    if Path(prgd.__file__).is_relative_to(ROOT):
        raise SystemExit(f"prgd was imported from the checkout: {prgd.__file__}.")
    print("prgd", version("prgd"), *(f"{name} {version(name)}" for name in packages))
