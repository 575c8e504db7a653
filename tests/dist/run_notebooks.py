"""Make a notebook of every example, and run each in an empty folder; fail if one has an error.

    python tests/dist/run_notebooks.py --out build/notebooks [--only NAME ...] [--seconds N]

sphinx-gallery turns the comments of an example into text cells, as for the gallery of the site, and nbclient
runs the cells. The notebooks with their output stay in the folder.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from sphinx_gallery.notebook import python_to_jupyter_cli

EXAMPLES = Path(__file__).parents[2] / "examples"


def notebook_of(example: Path, folder: Path) -> Path:
    """Write the notebook of an example into the folder, and return its path."""
    copy = Path(shutil.copy(example, folder))
    python_to_jupyter_cli([str(copy)])
    copy.unlink()
    return copy.with_suffix(".ipynb")


def run(path: Path, seconds: int) -> str | None:
    """Run all cells in an empty folder, keep their output, and return the error, if there is one."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:
        client = NotebookClient(notebook, timeout=seconds, resources={"metadata": {"path": empty}})
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError) as error:
            return str(error)
        finally:
            nbformat.write(notebook, path)
    return None


def main() -> int:
    """Convert and run, print the seconds of each, and return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the notebooks")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="examples by name, without .py")
    parser.add_argument("--seconds", type=int, default=300, help="limit for each cell")
    options = parser.parse_args()
    examples = {path.stem: path for path in sorted(EXAMPLES.glob("*.py"))}
    unknown = [name for name in options.only or () if name not in examples]
    if unknown:
        parser.error(f"no example is called {', '.join(unknown)}; there are {', '.join(examples)}")
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    failed = []
    for name in options.only or examples:
        started = time.perf_counter()
        error = run(notebook_of(examples[name], options.out), options.seconds)
        print(f"{'FAILED' if error else 'ran':8}{time.perf_counter() - started:7.1f} s  {name}", flush=True)
        if error:
            failed.append(name)
            print(error, file=sys.stderr)
    print(f"{options.out}: {len(options.only or examples)} notebooks, {len(failed)} failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
