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
