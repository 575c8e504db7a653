"""Extra cones: a margin in an l_p norm is certified by Clarabel."""

import installed

import prgd

installed.check("clarabel")
result = prgd.max_margin(*prgd.datasets.toy(0.3), norm=3.0)
assert result.status is prgd.Status.CERTIFIED, result
