"""Random numbers of a processor as a pure function of (seed, processor, pass, sample)."""

from __future__ import annotations

from typing import Any

import numpy as np

_WORD = 2**64


class RandomStream:
    """The random stream of one processor; going to a place costs nothing until numbers are drawn.

    Philox is a counter-based generator: the key is (seed, processor), the two upper words of the counter are
    (sample, pass), the two lower words count the draws, so no two places share a number. Setting the
    counter costs a microsecond, seeding a new generator more than ten.

    Args:
        number: position of the processor among all processors of the pipeline.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._place = (0, 0, 0)
        self._moved = True
        self._bits = np.random.Philox(0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = {
            "bit_generator": "Philox",
            "state": {"counter": np.zeros(4, np.uint64), "key": np.zeros(2, np.uint64)},
            "buffer": np.zeros(4, np.uint64),
            "buffer_pos": 4,  # behind the buffer's end: nothing buffered
            "has_uint32": 0,
            "uinteger": 0,
        }

    def move(self, seed: int, pass_index: int, index: int) -> None:
        """Go to the start of a place."""
        self._place = (seed, pass_index, index)
        self._moved = True

    def generator(self) -> np.random.Generator:
        """The generator, at the start of the place or where the draws since the last `move` left it."""
        if self._moved:
            seed, pass_index, index = self._place
            words = self._state["state"]
            words["counter"][:] = (0, 0, index, pass_index)
            words["key"][:] = (seed % _WORD, self._number)
            self._bits.state = self._state
            self._moved = False
        return self._generator
