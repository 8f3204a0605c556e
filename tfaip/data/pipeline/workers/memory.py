"""Memory that two processes share, and objects that travel through it: arrays are copied, never pickled."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

ALIGNMENT = 64
SMALLEST_SIZE = 2**20

Spans = list[tuple[int, int]]


def create_file() -> int:
    """A file descriptor of memory without a name: nothing can be left behind, however the processes end."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tfaip-data")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Slot:
    """One piece of shared memory, which grows when more is written.

    Args:
        descriptor: of the file behind it, open in each of the processes; closed with the slot.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory = np.empty(0, np.uint8)

    def write(self, buffers: Sequence[memoryview]) -> Spans:
        """Copy buffers into the memory; returns their places."""
        spans: Spans = []
        end = 0
        for buffer in buffers:
            spans.append((end, buffer.nbytes))
            end += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
        if end > os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, max(end + end // 4, SMALLEST_SIZE))
        memory = self._mapped(end)
        for (begin, size), buffer in zip(spans, buffers, strict=True):
            memory[begin : begin + size] = np.frombuffer(buffer, np.uint8)
        return spans

    def read(self, spans: Spans) -> list[np.ndarray[Any, Any]]:
        """Copies of what stands in these places."""
        memory = self._mapped(max((begin + size for begin, size in spans), default=0))
        return [memory[begin : begin + size].copy() for begin, size in spans]

    def close(self) -> None:
        """Give the memory back."""
        self._memory = np.empty(0, np.uint8)
        os.close(self._descriptor)

    def _mapped(self, size: int) -> np.ndarray[Any, Any]:
        if size > len(self._memory):
            # The old map goes with the last array that refers to it.
            self._memory = np.frombuffer(mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size), np.uint8)
        return self._memory


def pack(value: Any, slot: Slot | None) -> bytes:
    """A message of any value that can be pickled.

    Args:
        value: its arrays are written into the slot if they lie in one piece of memory.
        slot: where to write; None: everything goes into the message.
    """
    if slot is None:
        return pickle.dumps((pickle.dumps(value, protocol=5), None))
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.dumps((content, slot.write([buffer.raw() for buffer in buffers])))


def unpack(message: bytes, slot: Slot | None) -> tuple[Any, int]:
    """The value of a message of `pack`, independent of the slot, which may be used again; and its size in bytes."""
    content, spans = pickle.loads(message)  # noqa: S301 (from our own processes)
    buffers = slot.read(spans) if slot is not None and spans else ()
    value = pickle.loads(content, buffers=buffers)  # noqa: S301
    return value, len(content) + sum(buffer.nbytes for buffer in buffers)
