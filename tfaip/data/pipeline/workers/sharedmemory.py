"""Shared memory of two processes, through which arrays are copied, not pickled."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

ALIGNMENT = 64  # bytes of a cache line
SMALLEST_SIZE = 2**20

Spans = list[tuple[int, int]]


def create_file() -> int:
    """Return a descriptor of anonymous memory, freed however the processes end."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tfaip-data")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Slot:
    """One piece of shared memory, which grows when more is written.

    Args:
        descriptor: of its file, open in each of the processes; closed with the slot.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory = np.empty(0, np.uint8)

    def write(self, buffers: Sequence[memoryview]) -> Spans:
        """Copy buffers into the memory; return their places as (begin, size)."""
        spans: Spans = []
        end = 0
        for buffer in buffers:
            spans.append((end, buffer.nbytes))
            end += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
        # A quarter more than needed: the next block may be a little larger.
        if end > os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, max(end + end // 4, SMALLEST_SIZE))
        memory = self._mapped(end)
        for (begin, size), buffer in zip(spans, buffers, strict=True):
            memory[begin : begin + size] = np.frombuffer(buffer, np.uint8)
        return spans

    def read(self, spans: Spans) -> list[np.ndarray[Any, Any]]:
        """Return copies of these places."""
        memory = self._mapped(max((begin + size for begin, size in spans), default=0))
        return [memory[begin : begin + size].copy() for begin, size in spans]

    def close(self) -> None:
        """Free the memory."""
        self._memory = np.empty(0, np.uint8)
        os.close(self._descriptor)

    def _mapped(self, size: int) -> np.ndarray[Any, Any]:
        # A warm slot copies 13 GB/s in and out; the first use of its memory is ten times slower.
        if size > len(self._memory):
            # The old map is freed with the last array that refers to it.
            self._memory = np.frombuffer(mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size), np.uint8)
        return self._memory


def pack(value: Any, slot: Slot | None) -> bytes:
    """Return a message of any value that can be pickled.

    Args:
        value: its arrays are written into the slot if they are contiguous.
        slot: where to write; None: everything is in the message.
    """
    if slot is None:
        return pickle.dumps((pickle.dumps(value, protocol=5), None))
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.dumps((content, slot.write([buffer.raw() for buffer in buffers])))


def unpack(message: bytes, slot: Slot | None) -> tuple[Any, int]:
    """Return the value of a message of `pack`, and its size in bytes.

    The value is independent of the slot, which may be used again.
    """
    content, spans = pickle.loads(message)  # noqa: S301 (from our own processes)
    buffers: list[Any] = []
    if slot is not None and spans:
        buffers = slot.read(spans)
    value = pickle.loads(content, buffers=buffers)  # noqa: S301
    return value, len(content) + sum(buffer.nbytes for buffer in buffers)
