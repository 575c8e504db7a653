"""Shared settings of all tests."""

from __future__ import annotations

import sys

import hypothesis

# compiled kernels make the first example slow: no deadline
hypothesis.settings.register_profile("prgd", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("prgd")


def pytest_unconfigure() -> None:
    if "grid" in sys.modules and (client := sys.modules["grid"].local_client).cache_info().currsize:
        client().close()
