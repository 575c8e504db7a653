"""A temporary copy of the package, for tests that extend it by one file."""

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from shared import python

TESTS = Path(__file__).parent


class Copy:
    """The package in a folder of its own; commands run in that copy.

    ``like`` is the folder of another copy, whose files beside the package are copied too.
    """

    def __init__(self, folder: Path, like: Path | None = None) -> None:
        self.folder = folder
        if like is None:
            for package in ("prgd", "prgd_paper"):  # with the compiled kernels in __pycache__
                found = find_spec(package)
                if found is not None and found.origin is not None:
                    shutil.copytree(Path(found.origin).parent, folder / package)
        else:
            shutil.copytree(like, folder, dirs_exist_ok=True)

    def add(self, path: str, text: str) -> None:
        """Write one new file of prgd, or of the package that the path begins with."""
        file = self.folder / (path if path.startswith("prgd_paper/") else f"prgd/{path}")
        assert not file.exists()
        file.write_text(text)

    def prgd(self, *args: object, code: int = 0) -> tuple[str, str]:
        """Run the command line of the copy, and return its standard output and standard error."""
        return self.python("-m", "prgd", *args, code=code)

    def calls(self, *commands: str) -> list[dict]:
        """Run several commands in one process, and return the exit code and the output of each."""
        code = (
            "import json, sys; from command_line import RUNNER, app\n"
            "found = [RUNNER.invoke(app, c.split(), prog_name='prgd') for c in sys.argv[1:]]\n"
            "facts = [{'code': f.exit_code, 'stdout': f.stdout, 'stderr': f.stderr} for f in found]\n"
            "print(json.dumps(facts))"
        )
        return json.loads(self.python("-c", code, *commands)[0])

    def python(self, *args: object, code: int = 0) -> tuple[str, str]:
        """Run Python with the copy, and return its standard output and standard error."""
        variables = {"PYTHONPATH": f"{self.folder}{os.pathsep}{TESTS}", "COLUMNS": "100"}
        found = python(*args, code=code, cwd=self.folder, env=variables)
        return found.stdout, found.stderr
