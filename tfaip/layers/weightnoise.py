"""Noise on the weights of a layer, in training.

The noise on weights of the whole model, which a flag asks for, is `tfaip.model.updatenoise`.
"""

from __future__ import annotations

import re
from typing import Any

import keras
from keras import ops

from tfaip.backend.active import backend
from tfaip.backend.kerastools import without_autocast
from tfaip.layers.inlining import InlinedLayer
from tfaip.layers.noisyvalues import add_noise
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
            in `.*kernel`; it must match the whole path, which consists of the names of layers in
            Keras. Default: all trainable weights.
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
        weights = self.noisy_weights()

        def noisy_values() -> list[Tensor]:
            values = [ops.convert_to_tensor(weight) for weight in weights]
            return add_noise(values, read_rate(self.stddev), self.seed_generator)

        noisy = without_autocast(noisy_values)  # noise below the resolution of 16 bits counts, too
        with backend.replaced_values(self, list(zip(weights, noisy, strict=True))):
            return self.layer(inputs)

    def path_below(self, weight: keras.Variable) -> str:
        """Return the path of a weight below the wrapped layer, of the names of Keras."""
        return str(weight.path).removeprefix(f"{self.layer.path}/")

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
