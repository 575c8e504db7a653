"""The kernel that treats every tensor as a block, in Triton's interpreter, against float64 loops."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from triton_interpreter import errors_in_interpreter

HERE = Path(__file__).parent
# The interpreter cuts float32 to bfloat16, where a device rounds.
TOLERANCES = {"exact": 0.0, "float64": 1e-14, "float32": 5e-7, "float16": 5e-4, "bfloat16": 2.0**-7}


@pytest.mark.slow
def test_kernel_in_the_interpreter():
    cases = errors_in_interpreter(HERE / "blocks_in_interpreter.py")
    assert len(cases) == 17
    for name, error in cases.items():
        assert error <= TOLERANCES[name.split(":")[0]], name


def test_a_copy_has_its_own_addresses():
    pytest.importorskip("triton", reason="Triton is for Linux")
    from prgd.deep.optim._triton_blocks import BlockKernels

    w = torch.ones(3, 2)
    kernels, its = copy.deepcopy((BlockKernels([w], [torch.ones(3, 2)]), w))
    assert kernels.addresses[0] == its.data_ptr() != w.data_ptr()
