"""Extra formula: a regression that is written as a formula has an infinite coefficient."""

import installed
import pandas as pd

import prgd

installed.check("formulaic", "pandas")
frame = pd.DataFrame({"dose": [1.0, 2.0, 3.0, 4.0], "sick": [0, 0, 1, 1]})
found = prgd.separability.from_formula("sick ~ dose", frame)
assert found.is_separable, found
