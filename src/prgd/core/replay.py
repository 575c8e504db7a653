"""Work on tensors that stay in place, launched as one CUDA graph instead of kernel by kernel."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Work = Callable[[], None]
PLAIN_CALLS = 3  # calls at the same addresses before a recording: allocations are stable, kernels are loaded


def record(work: Work, *, stream: Any = None, generator: Any = None) -> Work:  # pragma: cuda only
    """Return a function that replays the kernels of ``work``, with new draws of ``generator`` each time."""
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    # Other threads (NCCL's watchdog, loaders) may go on while this thread captures.
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        work()
    replay: Work = graph.replay
    return replay


class Replay:
    """Calls a function, or replays its recording while the tensors that it works on keep their addresses.

    A copy, also one by pickle, begins without a recording.

    Parameters
    ----------
    record : callable that returns a function which replays the given work.

    Examples
    --------
    >>> w = torch.tensor([3.0])
    >>> Replay()(lambda: w.mul_(2.0), [w])  # on a CPU the work is called
    >>> w
    tensor([6.])
    """

    def __init__(self, record: Callable[[Work], Work] = record) -> None:
        self.record = record
        self._addresses: list[int] = []
        self._calls = 0
        self._replay: Work | None = None

    def __call__(self, work: Work, tensors: list[Tensor]) -> None:
        """Do ``work``; whatever ``work`` reads beside ``tensors`` must be the same tensors at every call."""
        if not tensors[0].is_cuda:
            work()
            return
        self.call(work, [tensor.data_ptr() for tensor in tensors])

    def call(self, work: Work, addresses: list[int]) -> None:
        """Do ``work`` on the tensors at ``addresses`` of a CUDA device."""
        if addresses != self._addresses:
            self._addresses, self._calls, self._replay = addresses, 0, None
        self._calls += 1
        if self._calls == PLAIN_CALLS + 1:
            try:
                self._replay = self.record(work)
            except RuntimeError as error:
                warnings.warn(f"A step stays slower, since it cannot be recorded: {error}", stacklevel=2)
        (self._replay or work)()

    def __reduce__(self) -> tuple[Any, ...]:
        return Replay, (self.record,)
