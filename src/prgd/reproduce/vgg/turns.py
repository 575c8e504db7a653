"""A lock for threads that share a device: either many threads work, or one thread records a CUDA graph.

While a stream records, an allocation or a free anywhere else in the process may spoil the recording.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """A lock for threads that work together on a device and step aside while one of them records.

    Examples
    --------
    >>> turns = Turns()
    >>> with turns.working():
    ...     turns.pause()  # between two steps
    ...     with turns.alone():
    ...         print("no other thread works")
    no other thread works
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_work: set[int] = set()
        self._waiting = 0
        self._is_taken = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work beside other threads; the block must call `pause` often."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def pause(self) -> None:
        """Step aside if a thread waits to be alone; otherwise return at once, without taking the lock."""
        if self._waiting and threading.get_ident() in self._at_work:
            self._leave()
            self._enter()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other thread is at work, and keep the others away while the block runs."""
        was_at_work = threading.get_ident() in self._at_work
        with self._changed:
            self._leave()
            self._waiting += 1
            self._changed.wait_for(lambda: not self._at_work and not self._is_taken)
            self._waiting -= 1
            self._is_taken = True
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()
            if was_at_work:
                self._enter()

    def _enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_taken and not self._waiting)
            self._at_work.add(threading.get_ident())

    def _leave(self) -> None:
        with self._changed:
            self._at_work.discard(threading.get_ident())
            self._changed.notify_all()
