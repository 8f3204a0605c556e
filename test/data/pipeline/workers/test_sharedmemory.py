"""Shared memory: what comes out is what went in, independent of the memory, which grows and is used again."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from tfaip.data.pipeline.workers.worker import Slot, create_file, pack, unpack


@pytest.fixture
def ends() -> Iterator[tuple[Slot, Slot]]:
    """The two ends of one slot, as two processes have them."""
    descriptor = create_file()
    writer, reader = Slot(os.dup(descriptor)), Slot(descriptor)
    yield writer, reader
    writer.close()
    reader.close()


def test_systems_without_anonymous_memory_take_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    slot = Slot(create_file())
    assert unpack(pack(np.arange(5), slot), slot)[0].tolist() == [0, 1, 2, 3, 4]
    slot.close()


def test_arrays_go_through_the_memory_and_the_rest_through_the_message(ends: tuple[Slot, Slot]) -> None:
    writer, reader = ends
    image = np.arange(30_000, dtype="float32").reshape(100, 300)
    value = {
        "image": image,
        "columns": np.asfortranarray(image),
        "text": np.array(["a", None], object),
        "meta": {"id": 3},
    }
    message = pack(value, writer)
    assert len(message) < 1000
    made, nbytes = unpack(message, reader)
    assert (made["meta"], made["text"].tolist()) == ({"id": 3}, ["a", None])
    np.testing.assert_array_equal(made["image"], image)
    assert made["columns"].flags.f_contiguous
    assert 2 * image.nbytes < nbytes < 2 * image.nbytes + 1000


def test_what_was_read_does_not_change_when_the_memory_is_used_again(ends: tuple[Slot, Slot]) -> None:
    writer, reader = ends
    first, _ = unpack(pack(np.zeros(1000), writer), reader)
    second, _ = unpack(pack(np.ones(1000), writer), reader)
    assert (first.sum(), second.sum()) == (0, 1000)
    first += 1  # it can be written to
    assert unpack(pack(np.full(10, 2.0), writer), reader)[0].sum() == 20


def test_the_memory_grows(ends: tuple[Slot, Slot]) -> None:
    writer, reader = ends
    for size in (10, 3_000_000, 20, 9_000_000):
        value = [np.arange(size, dtype="uint8"), np.arange(7.0)]
        made, _ = unpack(pack(value, writer), reader)
        np.testing.assert_array_equal(made[0], value[0])
        np.testing.assert_array_equal(made[1], value[1])
