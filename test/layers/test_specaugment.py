"""The layer SpecAugment: number, widths and positions of its masks, its time warp, and padding."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.layers.draws import mask_patterns, patterns, require_distribution
from tfaip.layers.specaugment import SpecAugment

DRAWS = 10_000


def augmented(inputs: np.ndarray, lengths: Any = None, seed: int = 1, **sizes: Any) -> np.ndarray:
    """The batch in training; what is not named is off."""
    off = {"freq_masks": 0, "time_masks": 0, "time_warp": 0}
    layer = SpecAugment(**{**off, **sizes}, seed=seed)
    if keras.backend.backend() != "jax":
        return np.asarray(layer(inputs, lengths=lengths, training=True))
    import jax  # compiles each operation alone otherwise, which takes seconds

    layer.built = True
    call = jax.jit(lambda x, values: layer.stateless_call([], values, x, lengths=lengths, training=True)[0])
    return np.asarray(call(inputs, [variable.value for variable in layer.non_trainable_variables]))


@pytest.mark.parametrize(("count", "widest"), [(1, 4), pytest.param(2, 3, marks=pytest.mark.backend), (1, 7), (3, 1)])
def test_frequency_masks_are_those_of_the_paper(count: int, widest: int) -> None:
    batch = np.ones((DRAWS, 2, 7), "float32")
    masked = augmented(batch, freq_masks=count, freq_width=widest) == 0
    assert (masked[:, 0] == masked[:, 1]).all()
    require_distribution(patterns(masked[:, 0]), mask_patterns(7, widest, count))


@pytest.mark.parametrize(
    ("count", "widest", "share"), [(1, 4, 1.0), (2, 3, 1.0), pytest.param(1, 6, 0.5, marks=pytest.mark.backend)]
)
def test_time_masks_are_those_of_the_paper_for_each_length(count: int, widest: int, share: float) -> None:
    lengths = np.tile([8, 6], DRAWS)
    batch = np.ones((2 * DRAWS, 10, 1), "float32")
    masked = augmented(batch, lengths, time_masks=count, time_width=widest, time_share=share)[:, :, 0] == 0
    for length in (8, 6):
        rows = masked[lengths == length]
        assert not rows[:, length:].any(), "padding was masked"
        limit = min(widest, int(share * length))
        require_distribution(patterns(rows[:, :length]), mask_patterns(length, limit, count))


@pytest.mark.backend
def test_padding_is_left_as_it_is() -> None:
    batch = np.random.default_rng(1).normal(size=(64, 20, 6)).astype("float32")
    lengths = np.arange(64) % 21
    result = augmented(batch, lengths, freq_masks=3, freq_width=6, time_masks=3, time_width=20, time_warp=2, value=5.0)
    for row, original, length in zip(result, batch, lengths, strict=True):
        np.testing.assert_array_equal(row[length:], original[length:])
    assert (result == 5).any(axis=(1, 2)).mean() > 0.8
    # Short samples are not warped: one of 4 needs ten frames.
    np.testing.assert_array_equal(augmented(batch, lengths % 10, time_warp=4), batch)
    assert (augmented(batch, np.full(64, 10), time_warp=4) != batch).any()
    # Further axes are masked as a whole.
    sizes = {"freq_masks": 1, "freq_width": 3, "time_masks": 1, "time_width": 3, "time_warp": 1}
    masked = augmented(np.ones((40, 6, 5, 3), "float32"), **sizes) == 0
    assert (masked.any(), (masked.any(axis=-1) == masked.all(axis=-1)).all()) == (True, True)


@pytest.mark.backend
def test_lengths_come_as_a_column_or_as_a_mask_of_keras() -> None:
    batch = np.ones((500, 9, 3), "float32")
    lengths = np.arange(500) % 10
    sizes = {"freq_masks": 1, "freq_width": 2, "time_masks": 1, "time_width": 9}
    expected = augmented(batch, lengths, **sizes)
    np.testing.assert_array_equal(augmented(batch, lengths[:, None], **sizes), expected)
    layer = SpecAugment(**sizes, time_warp=0, seed=1)
    mask = np.arange(9)[None] < lengths[:, None]
    np.testing.assert_array_equal(np.asarray(layer(batch, mask=mask, training=True)), expected)


@pytest.mark.backend
def test_the_warp_moves_a_point_and_stretches_the_rest() -> None:
    """Of a ramp, whose values are positions: the mapping itself can be read."""
    width, length, frames = 4, 21, 25
    ramp = np.tile(np.arange(frames, dtype="float32")[:, None], (DRAWS, 1, 1))
    warped = augmented(ramp, np.full(DRAWS, length), time_warp=width)[:, :, 0]
    np.testing.assert_array_equal(warped[:, length:], ramp[:, length:, 0])
    np.testing.assert_allclose(warped[:, [0, length - 1]], [[0, length - 1]] * DRAWS, atol=1e-5)
    steps = np.diff(warped[:, :length])
    first, last = steps[:, 0].astype(float), steps[:, -1].astype(float)
    assert (steps > 0).all()
    # source = first * target, and (20 - source) = last * (20 - target)
    different = np.abs(first - last) > 1e-2
    target = 20 * (1 - last[different]) / (first - last)[different]
    source = target * first[different]
    assert different.mean() > 0.9
    assert (np.abs(source - target) < width + 0.02).all()
    assert (source > width - 0.02).all()
    assert (source < 20 - width + 0.02).all()


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.backend)])
def test_extreme_sizes_and_types(dtype: str) -> None:
    """Masks wider than the input cover all of a sample in time; no masks, widths of 0 and no frames change nothing."""
    batch = np.random.default_rng(4).normal(size=(3, 4, 2)).astype(dtype) + 10
    wide = {"freq_masks": 60, "freq_width": 1000, "time_masks": 60, "time_width": 1e30, "time_warp": 1e6}
    for size in (3, 1):  # samples of a batch
        rows, lengths = batch[:size], np.array([4, 2, 0])[:size]
        inside = np.arange(4)[None, :, None] < lengths[:, None, None]
        np.testing.assert_array_equal(augmented(rows, lengths, **wide), np.where(inside, 0, rows))
        no_width = {"freq_masks": 3, "freq_width": 0, "time_masks": 3, "time_width": 0}
        for none in (no_width, {"time_masks": 3, "time_width": 9, "time_share": 0.0}, {}):
            np.testing.assert_array_equal(augmented(rows, lengths, **none), rows)
    # 16 bits keep positions exact, which could count to 256 or 2048 only.
    result = SpecAugment(0, 0, 2, 600, 1.0, 0, seed=1, dtype=dtype)(ops.ones((200, 5000, 1), dtype), training=True)
    widths = np.sum(ops.convert_to_numpy(ops.cast(result, "float32")) == 0, axis=(1, 2))
    assert (keras.backend.standardize_dtype(result.dtype), len(set(widths.tolist())) > 100) == (dtype, True)
    assert widths.max() <= 1200
    assert augmented(np.zeros((2, 0, 3), dtype), np.zeros(2), **{**wide, "time_warp": 1}).shape == (2, 0, 3)


def test_sizes_are_checked_and_a_variable_beyond_the_limits_counts_as_the_limit() -> None:
    with pytest.raises(ValueError, match="freq_width is -2, expected a number at least 0"):
        SpecAugment(freq_width=-2)
    batch, lengths = np.ones((50, 6, 2), "float32"), np.arange(50) % 7
    share = {"time_masks": 2, "time_width": 9}
    for value, limit in ((3.0, 1.0), (-1.0, 0.0)):
        variable = keras.Variable(value, trainable=False)
        expected = augmented(batch, lengths, time_share=limit, **share)
        np.testing.assert_array_equal(augmented(batch, lengths, time_share=variable, **share), expected)


@pytest.mark.backend
def test_validation_changes_nothing_and_the_seed_decides() -> None:
    batch = np.random.default_rng(3).normal(size=(8, 200, 40)).astype("float32")
    layer, same, other = SpecAugment(seed=5), SpecAugment(seed=5), SpecAugment(seed=6)
    np.testing.assert_array_equal(np.asarray(layer(batch)), batch)
    first, second = (np.asarray(layer(batch, training=True)) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(np.asarray(same(batch, training=True)), first)
    assert (np.asarray(other(batch, training=True)) != first).any()
    # The state is a variable of the layer, which checkpoints hold.
    state = ops.convert_to_numpy(layer.seed_generator.state)
    third = np.asarray(layer(batch, training=True))
    other.seed_generator.state.assign(state)
    np.testing.assert_array_equal(np.asarray(other(batch, training=True)), third)
