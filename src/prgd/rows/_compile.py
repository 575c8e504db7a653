"""How Numba compiles the kernels. Imported on first use, never with prgd.

``fastmath`` names only flags that keep infinities and NaN alive (no ``nnan``, no ``ninf``). Functions that
only kernels call are not cached on disk: the kernel's cache holds their code.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import config

from prgd.rows import _plain_tiles, _tiles

tiles: Any = _plain_tiles if getattr(config, "DISABLE_JIT", False) else _tiles

SAFE = {"reassoc", "contract", "nsz", "arcp"}
# Divisions are as in NumPy: Python's checks for zero would be compiled into every one of them.
jit = nb.njit(nogil=True, cache=True, fastmath=SAFE, error_model="numpy")
exact_jit = nb.njit(nogil=True, cache=True, error_model="numpy")
inner_jit = nb.njit(nogil=True, fastmath=SAFE, error_model="numpy")
inline_jit = nb.njit(nogil=True, fastmath=SAFE, error_model="numpy", inline="always")
inner_vector_jit = nb.njit(nogil=True, fastmath={"contract"}, error_model="numpy")
inner_exact_jit = nb.njit(nogil=True, error_model="numpy")
