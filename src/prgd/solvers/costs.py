"""What steps of the solvers cost, in nanoseconds on one core: these estimates choose the cheaper way.

Only their ratios matter. They were measured on one core of a server of 2023, with OpenBLAS.
"""

NS_CALL = 1e5  # the calls of a pivot or of a step of the interior point cost so much
NS_CUBE = 0.012  # for the cube of the dimension in a factorisation of LAPACK
NS_SQUARE = 3.0  # for an entry of a matrix that a pivot copies and multiplies
NS_STEP, NS_WEIGHT = 1.5, 5.0  # for each row of a step of descent, and for each one that carries weight
NS_ENTRY = 1.0  # for an entry that a pass reads
NS_PASS = 2e4  # for a pass, however few rows it reads
NS_FLOP = 0.05  # for a multiplication and an addition in a dense product
