"""SpecAugment: masks and a time warp on spectrograms or lines, in training."""

from typing import Any

import keras
from keras import ops

from tfaip.layers.baselayer import InlinedLayer, Rate, rate_number, read_rate, require_rate, uniform_rows
from tfaip.util.typing import Tensor

_RATES = ("freq_width", "time_width", "time_share", "time_warp")


@keras.saving.register_keras_serializable("tfaip")
class SpecAugment(InlinedLayer):
    """SpecAugment (Park et al., 2019) on batches `[batch, time, frequency, ...]`; acts in training only.

    For a sample with `n` frames and `v` channels, in this order:

    1. Time warp: a point, uniform between the frames W and n-1-W, is moved by a distance that is
       uniform between -W and W; the first and last frame stay, and between these three points the
       frames are stretched linearly (the paper: sparse image warp, with the same points). A sample
       with no such point is not warped.
    2. `freq_masks` masks of f channels, f uniform in 0..F, from channel f0, uniform in 0..v-f-1.
    3. `time_masks` masks of t frames, t uniform in 0..min(T, p n), from frame t0, uniform in
       0..n-t-1.

    Masks of a sample may overlap. Frames beyond the length of a sample are left as they are. As in the paper `f0 < v -
    f`, so the last channel and the last frame are masked only by a mask of the whole axis.

    The defaults are the policy LD of the paper, for speech with 100 frames per second. The widths
    may be scalar variables; the numbers of masks are fixed.

    Args:
        freq_masks: m_F, number of frequency masks.
        freq_width: F, largest width of a frequency mask in channels.
        time_masks: m_T, number of time masks.
        time_width: T, largest width of a time mask in frames.
        time_share: p, largest width of a time mask as a share of the frames of the sample.
        time_warp: W, largest distance of the time warp in frames; 0: none.
        value: of masked elements; the paper masks with 0, the mean of normalized features.
        seed: of the random numbers; None: drawn from Python's generator.
    """

    def __init__(
        self,
        freq_masks: int = 2,
        freq_width: Rate = 27,
        time_masks: int = 2,
        time_width: Rate = 100,
        time_share: Rate = 1.0,
        time_warp: Rate = 80,
        value: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.freq_masks = freq_masks
        self.freq_width = require_rate("freq_width", freq_width)
        self.time_masks = time_masks
        self.time_width = require_rate("time_width", time_width)
        self.time_share = require_rate("time_share", time_share, high=1.0)
        self.time_warp = require_rate("time_warp", time_warp)
        self.value = value
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def call(
        self, inputs: Tensor, lengths: Tensor | None = None, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the augmented batch.

        Args:
            inputs: `[batch, time, frequency, ...]`.
            lengths: frames of each sample, `[batch]` or `[batch, 1]`; None: those that the mask of
                Keras counts, or all.
            mask: of Keras, `[batch, time]`, true at the beginning of each sample.
        """
        if not training:
            return inputs
        batch, frames = ops.shape(inputs)[:2]
        if lengths is not None:
            sizes = ops.cast(ops.reshape(lengths, (-1, 1)), "float32")
        elif mask is not None:
            sizes = ops.sum(ops.cast(mask, "float32"), axis=1, keepdims=True)
        else:
            sizes = ops.ones((batch, 1)) * ops.cast(frames, "float32")
        inputs = self._warp(inputs, sizes)
        return ops.where(self._masked(inputs, sizes), ops.cast(self.value, inputs.dtype), inputs)

    def _warp(self, inputs: Tensor, sizes: Tensor) -> Tensor:
        """Return the frames at the positions that the warp maps to those of the batch."""
        if not isinstance(self.time_warp, keras.Variable) and self.time_warp == 0:
            return inputs
        batch, frames = ops.shape(inputs)[:2]
        distance, last = read_rate(self.time_warp), sizes - 1.0
        drawn = uniform_rows((batch, 2, 1), self.seed_generator)
        source = distance + drawn[:, 0] * (last - 2.0 * distance)
        moved = ops.where(last > 2.0 * distance, (2.0 * drawn[:, 1] - 1.0) * distance, 0.0)
        target = source + moved
        position = ops.cast(ops.arange(frames)[None], "float32")
        before = position / _not_zero(target)
        after = (last - position) / _not_zero(last - target)
        # A frame beyond the length is after the last one, where the distance would grow again.
        origin = position - moved * ops.clip(ops.minimum(before, after), 0.0, 1.0)
        return _interpolate(inputs, ops.where(position < sizes, origin, position))

    def _masked(self, inputs: Tensor, sizes: Tensor) -> Tensor:
        """Return true where an element is masked, `[batch, time, frequency, 1 ...]`."""
        batch, frames, channels = ops.shape(inputs)[:3]
        all_channels = ops.ones((batch, 1)) * ops.cast(channels, "float32")
        widest = ops.minimum(
            ops.floor(read_rate(self.time_width)), ops.floor(read_rate(self.time_share, high=1.0) * sizes)
        )
        in_time = self._draw_masks(self.time_masks, widest, sizes, frames)
        widest = ops.minimum(ops.floor(read_rate(self.freq_width)), all_channels)
        in_frequency = self._draw_masks(self.freq_masks, widest, all_channels, channels)
        inside = ops.cast(ops.arange(frames)[None], "float32") < sizes
        masked = ops.logical_or(in_time[:, :, None], ops.logical_and(in_frequency[:, None, :], inside[:, :, None]))
        return ops.reshape(masked, (batch, frames, channels, *(1 for _ in inputs.shape[3:])))

    def _draw_masks(self, count: int, widest: Tensor, sizes: Tensor, positions: Any) -> Tensor:
        """Return true at the positions that one of the masks covers, `[batch, positions]`."""
        batch = ops.shape(sizes)[0]
        drawn = uniform_rows((batch, 2, count), self.seed_generator)
        width = ops.minimum(ops.floor(drawn[:, 0] * (widest + 1.0)), widest)
        start = ops.floor(drawn[:, 1] * (sizes - width))
        position = ops.cast(ops.arange(positions)[None, :, None], "float32")
        start, width = start[:, None], width[:, None]
        return ops.any(ops.logical_and(position >= start, position < start + width), axis=2)

    def compute_output_shape(self, inputs_shape: Any, lengths_shape: Any = None) -> Any:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        rates = {name: rate_number(getattr(self, name)) for name in _RATES}
        counts = {"freq_masks": self.freq_masks, "time_masks": self.time_masks}
        return {**super().get_config(), **counts, **rates, "value": self.value, "seed": self.seed}


def _not_zero(x: Tensor) -> Tensor:
    return ops.where(x > 0, x, 1.0)


def _interpolate(inputs: Tensor, positions: Tensor) -> Tensor:
    """Return frames at fractional positions, `[batch, time]`, linearly between the two next to each."""
    rank = len(inputs.shape)
    lower = ops.floor(positions)
    share = ops.cast(positions - lower, inputs.dtype)
    share = ops.reshape(share, (*ops.shape(share), *(1 for _ in range(rank - 2))))
    last = ops.shape(inputs)[1] - 1
    first = ops.cast(lower, "int32")
    second = ops.minimum(first + 1, last)
    return (1 - share) * _frames(inputs, first) + share * _frames(inputs, second)


def _frames(inputs: Tensor, index: Tensor) -> Tensor:
    """Return the frames with these indices, `[batch, time]`."""
    index = ops.reshape(index, (*ops.shape(index), *(1 for _ in inputs.shape[2:])))
    return ops.take_along_axis(inputs, index, axis=1)
