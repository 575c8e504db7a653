"""Every data file in the folder that the environment variable PRGD_DATA names."""

# ruff: noqa: RUF012 - class attributes in benchopt's manner

import os
from pathlib import Path
from typing import Any

from benchmark_utils.shapes import BaseDataset

ENDINGS = (".npz", ".csv", ".svm", ".libsvm", ".svmlight", ".parquet")


def found() -> dict[str, Path]:
    """Return the files by name, in the order of their size."""
    folder = os.environ.get("PRGD_DATA")
    if not folder:
        return {}
    if not Path(folder).is_dir():
        raise SystemExit(f"PRGD_DATA must name a folder of data files; there is none at {folder!r}.")
    files = [f for f in Path(folder).iterdir() if any(e in ENDINGS for e in f.suffixes) and f.name[0] != "."]
    if not files:
        raise SystemExit(f"PRGD_DATA names {folder!r}, which holds no data file ({', '.join(ENDINGS)}).")
    return {f.name.split(".")[0]: f for f in sorted(files, key=lambda f: (f.stat().st_size, f.name))}


class Dataset(BaseDataset):
    name = "files"
    parameters = {"which": list(found())}

    @classmethod
    def is_installed(cls, **_: Any) -> bool:
        """Tell benchopt to leave this data set out where no folder is named."""
        return bool(found())

    def get_data(self) -> dict[str, Any]:
        import prgd

        X, y = prgd.datasets.load(found()[self.which])
        return {"X": X, "y": y}

    def fingerprint(self) -> str:
        about = found()[self.which].stat()
        return f"{about.st_size}-{about.st_mtime_ns}"
