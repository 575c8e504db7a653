"""What runs on a GPU, without one: block kernels in Triton's interpreter, and recordings that are counted."""

import copy

import pytest
import torch
from triton_interpreter import errors_in_interpreter

from prgd.core.replay import PLAIN_CALLS, Replay

# The interpreter cuts float32 to bfloat16, where a device rounds.
TOLERANCES = {"exact": 0.0, "float64": 1e-14, "float32": 5e-7, "float16": 5e-4, "bfloat16": 2.0**-7}


@pytest.mark.slow
def test_kernel_in_the_interpreter():
    cases = errors_in_interpreter("deep/blocks_in_interpreter.py")
    assert len(cases) == 17
    for name, error in cases.items():
        assert error <= TOLERANCES[name.split(":")[0]], name


def test_a_copy_has_its_own_addresses():
    pytest.importorskip("triton", reason="Triton is for Linux")
    from prgd.deep.optim._triton_blocks import BlockKernels

    w = torch.ones(3, 2)
    kernels, its = copy.deepcopy((BlockKernels([w], [torch.ones(3, 2)]), w))
    assert kernels.addresses[0] == its.data_ptr() != w.data_ptr()


# Recordings of work on tensors that stay in place


class Recorder:
    def __init__(self):
        self.recordings, self.replays = 0, 0

    def __call__(self, work):
        self.recordings += 1

        def replay():
            self.replays += 1

        return replay


def test_work_is_recorded_once_its_addresses_have_settled_and_again_if_a_tensor_moves():
    recorder, done = Recorder(), []
    replay = Replay(recorder)
    for _ in range(PLAIN_CALLS + 5):
        replay.call(lambda: done.append(1), [10, 20])
    assert (len(done), recorder.recordings, recorder.replays) == (PLAIN_CALLS, 1, 5)
    for _ in range(PLAIN_CALLS + 1):
        replay.call(lambda: done.append(1), [10, 30])
    assert (len(done), recorder.recordings, recorder.replays) == (2 * PLAIN_CALLS, 2, 6)


def test_tensors_that_move_at_every_call_are_never_recorded():
    recorder, done = Recorder(), []
    replay = Replay(recorder)
    for address in range(20):
        replay.call(lambda: done.append(1), [address])
    assert (len(done), recorder.recordings) == (20, 0)


def test_a_recording_that_fails_is_told_once_and_the_work_goes_on():
    def fails(work):
        raise RuntimeError("no capture here")

    done, replay = [], Replay(fails)
    for _ in range(PLAIN_CALLS):
        replay.call(lambda: done.append(1), [10])
    with pytest.warns(UserWarning, match="no capture here"):
        replay.call(lambda: done.append(1), [10])
    replay.call(lambda: done.append(1), [10])
    assert len(done) == PLAIN_CALLS + 2


def test_a_copy_begins_without_a_recording():
    recorder, done = Recorder(), []
    replay = Replay(recorder)
    for _ in range(PLAIN_CALLS + 1):
        replay.call(lambda: None, [10])
    copy.deepcopy(replay).call(lambda: done.append(1), [10])
    assert done == [1]


def test_on_a_cpu_the_work_is_called():
    recorder, done = Recorder(), []
    replay, w = Replay(recorder), torch.ones(2)
    for _ in range(PLAIN_CALLS + 2):
        replay(lambda: done.append(1), [w])
    assert (len(done), recorder.recordings) == (PLAIN_CALLS + 2, 0)
