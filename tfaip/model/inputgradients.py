"""Input gradient regularization: a penalty on losses that change much when the inputs change a little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras
from keras import ops

from tfaip.backend.active import backend
from tfaip.errors import UsageError
from tfaip.util.typing import Tensor, TensorDict

SampleLosses = Callable[[TensorDict], Tensor]


@dataclass(frozen=True)
class InputGradientPenalty:
    """Penalty on the squared norm of the gradient of the loss with respect to the inputs.

    The norm is estimated by finite differences, as in algorithm 1 of C. Finlay and A. M. Oberman, "Scaleable input
    gradient regularization for adversarial robustness" (2019, arXiv:1905.11468): with d = g / |g| and g the gradient
    of the loss l of a sample with respect to its inputs x, taken as a constant,

        penalty = mean over the batch of ((l(x + h d) - l(x)) / h)^2

    This needs no second derivatives, at the price of two more forward passes and one more backward pass per batch.

    Args:
        h: length of the step, in units of the inputs.
        weight: factor of the penalty in the total loss (lambda), a number or a variable.
    """

    h: float
    weight: float | keras.Variable

    def estimate(self, sample_losses: SampleLosses, inputs: TensorDict) -> Tensor:
        """Return the penalty of a batch, a scalar, without its weight.

        Args:
            sample_losses: inputs -> loss of each sample, shape `[batch]`; equal inputs must give equal losses.
            inputs: of the batch. The step is taken in all floating point inputs together, the others stay.

        Raises:
            UsageError: if no input is a floating point number.
        """
        floats = {name: x for name, x in inputs.items() if "float" in keras.backend.standardize_dtype(x.dtype)}
        if not floats:
            raise UsageError(
                f"the inputs {', '.join(sorted(inputs))} hold no floating point numbers, so that the loss has no "
                "gradient with respect to them: set use_input_gradient_regularization False"
            )
        losses, gradients = backend.losses_and_gradients(lambda moved: sample_losses({**inputs, **moved}), floats)
        direction = _unit(gradients)
        moved = {name: x + ops.cast(self.h * direction[name], x.dtype) for name, x in floats.items()}
        return ops.mean(ops.square((sample_losses({**inputs, **moved}) - losses) / self.h))


def _unit(gradients: TensorDict) -> TensorDict:
    """Return the gradients of each sample, scaled to norm 1 all together, as constants; zeros stay zero."""
    gradients = {name: ops.stop_gradient(ops.cast(g, "float32")) for name, g in gradients.items()}
    squares = [ops.sum(ops.reshape(ops.square(g), (ops.shape(g)[0], -1)), axis=1) for g in gradients.values()]
    norm = ops.sqrt(sum(squares[1:], squares[0]))
    factor = ops.where(norm > 0, 1 / ops.where(norm > 0, norm, 1.0), 0.0)
    return {name: g * ops.reshape(factor, (-1, *([1] * (len(g.shape) - 1)))) for name, g in gradients.items()}
