"""The types of arrays and vectors that every room shares."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]  # positions of rows or columns, counted from 0
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]  # the place of each label among the classes, counted from 0
Signs = npt.NDArray[np.int8]  # labels of two classes as +1 and -1
Intercept = float | Array  # one number for two classes, one for each class of a joint problem
RationalVector = tuple[Fraction, ...]
