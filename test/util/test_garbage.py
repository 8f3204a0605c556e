"""Collections of garbage in a staged run search only what is new."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tfaip.util.process import collecting_new_objects


class Node:
    """Refers to itself, so only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def thawed() -> Iterator[None]:
    """Nothing is frozen; the tests have frozen what they have imported."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.slow
def test_only_new_garbage_is_freed_in_it_and_all_before_and_after(thawed: None) -> None:
    before, old = Node(), Node()
    references = [weakref.ref(before), weakref.ref(old)]
    del before
    with collecting_new_objects():
        assert [reference() is None for reference in references] == [True, False]
        assert gc.get_freeze_count() > 0
        new = Node()
        references.append(weakref.ref(new))
        del old, new
        gc.collect()
        assert [reference() is None for reference in references] == [True, False, True]
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert references[1]() is None
