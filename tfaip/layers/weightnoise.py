"""Noise on the weights of a layer, in training."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from tfaip.backend import keras_private
from tfaip.layers.inlining import InlinedLayer
from tfaip.layers.rates import Rate, rate_number, read_rate, require_rate
from tfaip.util.typing import Tensor


@keras.saving.register_keras_serializable("tfaip")
class WeightNoise(InlinedLayer, keras.layers.Wrapper):
    """Layer that computes with noisy weights in training (Graves, 2011, with a fixed variance).

    Each training step draws normal noise with mean 0 for the weights of the wrapped layer. The
    gradients are taken at the noisy weights; the update changes the weights themselves.
    Regularizers of weights, validation, prediction and exports use the weights without noise.

    Args:
        layer: the layer, also one of several layers (`keras.Sequential`).
        stddev: standard deviation of the noise, or a scalar variable.
        match: regular expression for the paths of the weights that get noise, below the layer, as
            in `.*kernel`; it must match the whole path. Default: all trainable weights.
        seed: of the random numbers; None: drawn from Python's generator.

    Raises:
        ValueError: when the layer is built, if `match` matches no trainable weight.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        stddev: Rate = 0.05,
        match: str = ".*",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(layer, **kwargs)
        self.stddev = require_rate("stddev", stddev)
        self.match = match
        self._pattern = _compile(match)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        if not self.noisy_weights() and self.layer.trainable_weights:
            known = ", ".join(self.path_below(weight) for weight in self.layer.trainable_weights)
            raise ValueError(f"match={self.match!r} matches no trainable weight of {self.layer.name}: {known}")

    def noisy_weights(self) -> list[keras.Variable]:
        """Return the weights that get noise."""
        return [weight for weight in self.layer.trainable_weights if self._pattern.fullmatch(self.path_below(weight))]

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Return what the layer returns."""
        if not training:
            return self.layer(inputs)
        with keras_private.without_autocast():  # noise below the resolution of 16 bits counts, too
            values = {id(v): ops.convert_to_tensor(v) for v in self.layer.variables}
            for weight, noise in self._draw():
                values[id(weight)] = values[id(weight)] + noise
        variables = list(self.layer.variables)
        outputs, losses, updates = keras_private.call_with_values(self.layer, variables, values, inputs)
        for loss in losses:
            self.add_loss(loss)
        for variable, value in updates:
            variable.assign(value)
        return outputs

    def _draw(self) -> Iterator[tuple[keras.Variable, Tensor]]:
        """Yield each noisy weight and its noise, of one draw for all, which costs less than many."""
        weights = self.noisy_weights()
        sizes = [math.prod(weight.shape) for weight in weights]
        drawn = keras.random.normal((sum(sizes),), dtype="float32", seed=self.seed_generator) * read_rate(self.stddev)
        start = 0
        for weight, size in zip(weights, sizes, strict=True):
            noise = ops.reshape(drawn[start : start + size], weight.shape)
            yield weight, ops.cast(noise, weight.dtype)
            start += size

    def path_below(self, weight: keras.Variable) -> str:
        """Return the path of a weight below the wrapped layer."""
        path: str = weight.path
        return path.rpartition(f"{self.layer.name}/")[2] if f"{self.layer.name}/" in path else path

    def compute_output_shape(self, input_shape: Any) -> Any:
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        config = {"stddev": rate_number(self.stddev), "match": self.match, "seed": self.seed}
        return {**super().get_config(), **config}


def _compile(match: str) -> re.Pattern[str]:
    try:
        return re.compile(match)
    except re.error as error:
        raise ValueError(f"match={match!r} is no regular expression: {error}") from error
