"""Kernels that treat every tensor as a block, in Triton's interpreter, against float64 loops over tensors."""

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
def test_kernels_in_the_interpreter():
    cases = errors_in_interpreter(HERE / "blocks_in_interpreter.py")
    assert len(cases) == 28
    for name, error in cases.items():
        assert error <= TOLERANCES[name.split(":")[0]], name


@pytest.mark.parametrize(
    ("tensors", "starts", "problem"),
    [
        ([], None, "at least one tensor"),
        ([torch.ones(3, dtype=torch.int32)], None, "int32"),
        ([torch.ones(3), torch.ones(3, dtype=torch.float64)], None, "one dtype and device"),
        ([torch.ones(4, 6)[:, :3]], None, "dense"),
        ([torch.ones(1).expand(3)], None, "dense"),
        ([torch.ones(2, 3)], [torch.ones(3, 2).T], "shapes and strides"),
        ([torch.ones(2), torch.ones(3)], [torch.ones(2)], "shapes and strides"),
    ],
)
def test_tensors_that_kernels_refuse(tensors, starts, problem):
    pytest.importorskip("triton", reason="Triton is for Linux")
    from prgd.deep.optim._triton_blocks import BlockKernels

    with pytest.raises(ValueError, match=problem):
        BlockKernels(tensors, starts)


def test_chunks():
    pytest.importorskip("triton", reason="Triton is for Linux")
    from prgd.deep.optim._triton_blocks import BLOCK, MAX_PARTS, _chunks

    sizes = [3, 0, BLOCK, BLOCK + 1, BLOCK * MAX_PARTS + 1]
    owners, offsets, counts, firsts = (table.tolist() for table in _chunks(sizes))
    assert firsts == [0, 1, 1, 2, 4, 4 + MAX_PARTS // 2 + 1]
    for owner, size in enumerate(sizes):
        own = range(firsts[owner], firsts[owner + 1])
        assert [owners[i] for i in own] == [owner] * len(own)
        ends = [offsets[i] + counts[i] for i in own]
        assert ends[-1:] == ([size] if size else [])
        assert [offsets[i] for i in own] == [0, *ends[:-1]][: len(own)]


def test_empty_tensors():
    pytest.importorskip("triton", reason="Triton is for Linux")
    from prgd.deep.optim._triton_blocks import BlockKernels

    empty = [torch.empty(0, 3), torch.empty(0)]
    kernels = BlockKernels(empty, [t.clone() for t in empty])
    kernels.scale_(torch.ones(2))
    kernels.project_(torch.ones(2), torch.zeros(()))
    kernels.move_on_spheres_(torch.ones(2), torch.ones(2), torch.zeros(()))
    assert kernels.addresses == [0] * 4


def test_a_copy_has_its_own_addresses():
    pytest.importorskip("triton", reason="Triton is for Linux")
    from prgd.deep.optim._triton_blocks import BlockKernels

    w = torch.ones(3, 2)
    kernels, its = copy.deepcopy((BlockKernels([w], [torch.ones(3, 2)]), w))
    assert kernels.addresses[0] == its.data_ptr() != w.data_ptr()


def test_ways_to_move_keep_recordings_and_tables_of_their_own(monkeypatch):
    """A run changes from stand-ins to starts, and back, if a state is loaded or a hook is added."""
    pytest.importorskip("triton", reason="Triton is for Linux")
    from prgd.deep.optim.blocks import Blocks

    blocks = Blocks([[torch.ones(3, 2)], [torch.ones(2, 2)]], torch.float32)
    steps, starts = ([torch.zeros_like(t) for t in blocks.tensors] for _ in range(2))
    kernels = blocks._kernels(steps, blocks.tensors)
    assert blocks._kernels(blocks.tensors, starts) is not kernels
    assert blocks._kernels(steps, blocks.tensors) is kernels
    used = []
    monkeypatch.setattr(blocks, "_replayed", lambda replay, work: used.append(replay))
    along = dict(zip(blocks.tensors, steps, strict=True))
    for given in (None, along):
        blocks.move_on_spheres_(torch.ones(2), torch.ones(2), torch.zeros(()), along=given)
    assert used[0] is not used[1]
