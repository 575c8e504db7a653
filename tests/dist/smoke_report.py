"""Extra report: a Parquet file is read, a history becomes a data frame, and a run draws its plot."""

import subprocess
import sys
from pathlib import Path

import installed
import pandas as pd

import prgd

installed.check("matplotlib", "pandas", "pyarrow")
X, y = prgd.datasets.digits(0, 1)
pd.DataFrame(X, columns=[f"pixel {k}" for k in range(X.shape[1])]).assign(y=y).to_parquet("digits.parquet")
command = [sys.executable, "-m", "prgd", "run", "digits.parquet", "--steps", "50", "--out", "results"]
done = subprocess.run([*command, "--quiet"], check=False)
assert done.returncode in (0, 1), done  # 1: the gap is not certified after so few steps.
assert {"history.csv", "result.npz"} <= {path.name for path in Path("results").iterdir()}
assert any(path.suffix in (".png", ".svg", ".html") for path in Path("results").iterdir())
assert len(prgd.Result.load("results/result.npz").history.to_dataframe())
