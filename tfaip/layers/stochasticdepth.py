"""Stochastic depth: residual branches that are dropped at random in training."""

from typing import Any

import keras
from keras import ops

from tfaip.layers.baselayer import InlinedLayer, Rate, is_inlined, rate_number, read_rate, require_rate, uniform_rows
from tfaip.util.typing import Tensor

_SMALLEST = 1e-30


@keras.saving.register_keras_serializable("tfaip")
class StochasticDepth(InlinedLayer, keras.layers.Wrapper):
    """Residual connection `x + layer(x)` whose branch is dropped at random in training (Huang et al., 2016).

    In training each sample keeps the branch with the probability `survival`, and a branch that is
    kept is divided by it. So the expectation is `x + layer(x)`, which is also what validation,
    prediction and exports compute. (The paper multiplies by the probability in inference instead;
    then an exported model would depend on a value that a schedule has changed.)

    Args:
        layer: the branch, for instance a `keras.Sequential`; its output has the shape of its input.
        survival: probability that a sample keeps the branch, 0 to 1, or a scalar variable. With 0
            the branch gets no gradient.
        seed: of the random numbers; None: drawn from Python's generator.
    """

    def __init__(self, layer: keras.layers.Layer, survival: Rate = 0.8, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.survival = require_rate("survival", survival, high=1.0)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Return the sum, `[batch, ...]` as the inputs."""
        branch = self.layer(inputs)
        if is_inlined():
            return keras.layers.add([inputs, branch])  # a layer, which passes masks on
        if not training:
            return inputs + branch
        survival = read_rate(self.survival, high=1.0)
        shape = (ops.shape(inputs)[0], *(1 for _ in inputs.shape[1:]))
        drawn = uniform_rows(shape, self.seed_generator)
        factors = ops.where(drawn < survival, 1.0 / ops.maximum(survival, _SMALLEST), 0.0)
        return inputs + branch * ops.cast(factors, branch.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "survival": rate_number(self.survival), "seed": self.seed}
