from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from tfaip.data.pipeline.processor.dataprocessor import RandomStream


def draws(stream: RandomStream) -> list[float]:
    # Of different width, so that leftovers of the previous place would show.
    rng = stream.generator()
    return [*rng.random(3), rng.integers(2**32, dtype=np.uint32), rng.standard_normal()]


@given(
    seed=st.integers(0, 2**64 - 1),
    number=st.integers(0, 50),
    pass_index=st.integers(0, 2**40),
    index=st.integers(0, 2**60),
)
def test_a_place_equals_a_fresh_generator(seed: int, number: int, pass_index: int, index: int) -> None:
    stream = RandomStream(number)
    stream.move(1, 2, 3)
    draws(stream)
    stream.move(seed, pass_index, index)
    bits = np.random.Philox(
        counter=np.array([0, 0, index, pass_index], np.uint64), key=np.array([seed, number], np.uint64)
    )
    fresh = np.random.Generator(bits)
    expected = [*fresh.random(3), fresh.integers(2**32, dtype=np.uint32), fresh.standard_normal()]
    assert draws(stream) == expected


def test_draws_go_on_until_the_next_move() -> None:
    stream = RandomStream(0)
    first, second = draws(stream), draws(stream)
    assert first != second
    stream.move(0, 0, 0)
    assert draws(stream) == first


def test_every_part_of_the_place_counts() -> None:
    seen = set()
    for number in range(2):
        stream = RandomStream(number)
        for seed in range(2):
            for pass_index in range(2):
                for index in range(2):
                    stream.move(seed, pass_index, index)
                    seen.add(stream.generator().random())
    assert len(seen) == 16
