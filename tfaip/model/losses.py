"""Terms of the total loss, weighted, and errors of their computation with the shapes of targets and outputs."""

import contextlib
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from tfaip.backend.active import backend
from tfaip.errors import TfaipError, UsageError
from tfaip.util.logging import find_place
from tfaip.util.typing import Tensor, TensorDict

TOTAL_LOSS = "loss"
OWN_LOSS = "loss_loss"
"""Logged name of a loss that is called as the total, among several."""
REGULARIZATION = "regularization"
INPUT_GRADIENT = "input_gradient_regularization"
# Samples of the batch that is trained, over all devices, as float32. Replicas of TensorFlow are threads.
batch_samples: ContextVar[Any] = ContextVar("batch_samples", default=1.0)


def with_weight(loss: Tensor, weight: Any) -> Tensor:
    """Return a loss times its weight, a number or a variable.

    If that is the number 0 nothing is left of the loss, which need not be finite: after a variable of 0 the gradient
    would be computed all the same, and NaN times 0 is NaN.
    """
    if is_zero(weight):
        return ops.zeros((), dtype="float32")
    if isinstance(weight, keras.Variable):
        # It may become 0: then the loss counts nothing, whatever it is.
        return ops.where(ops.not_equal(weight.value, 0.0), weight.value * loss, 0.0)
    return weight * loss


def is_zero(weight: Any) -> bool:
    return isinstance(weight, int | float) and weight == 0


def weights_like(weights: Tensor, values: Tensor, name: str) -> Tensor:
    """Return the weights of samples, or of their steps, in the shape of the values of a loss."""
    weights = ops.cast(weights, "float32")
    given = tuple(weights.shape)
    while len(weights.shape) > len(values.shape) and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    while len(weights.shape) < len(values.shape):
        weights = ops.expand_dims(weights, axis=-1)
    sizes = zip(weights.shape, values.shape, strict=False)
    fits = all(size in (1, None, of_values) or of_values is None for size, of_values in sizes)
    if not given or not 0 < len(values.shape) == len(weights.shape) or not fits:
        raise ValueError(
            f"_sample_weights returned weights of the shape {given} for the loss {name!r}, whose values have the shape "
            f"{tuple(values.shape)}: return a value per sample from the loss, and a weight for each"
        )
    return ops.broadcast_to(weights, ops.shape(values))


def batch_size_of(x: Any) -> Tensor:
    return ops.shape(keras.tree.flatten(x)[0])[0]


# Name of the operations of a loss or metric in the compiled step: this, and the place in letters that are allowed.
_PART = "part."
_PARTS = re.compile(r"part\.([\w.]+?)(?:_\d+)?/")


class ShapeError(ValueError):
    """Error of a loss or metric whose message names targets and outputs; most often their shapes do not fit."""


@contextlib.contextmanager
def shapes_named(place: str, targets: TensorDict, outputs: TensorDict) -> Iterator[None]:
    """Context in which a loss or metric is computed: its error names targets and outputs with their shapes.

    The libraries name operations and dimensions only.
    """
    try:
        with backend.named_part(_PART + re.sub(r"[^\w.]+", "_", place).strip("_")):
            yield
    except (TfaipError, ShapeError):
        raise
    except (TypeError, ValueError) as error:
        if _is_raised_by_user(error):
            raise
        text = f"{error} (in {place}; {shapes_text(targets, outputs)})"
        # A layer of Keras that this passes drops the cause, in which the line of the user's code would be searched.
        raise ShapeError(text).with_traceback(error.__traceback__) from error


@contextlib.contextmanager
def failures_named(shapes: str) -> Iterator[None]:
    """Context in which a compiled step runs: an error of an operation names the loss or metric that it belongs to.

    Args:
        shapes: of targets and outputs as far as they are known before, see `shapes_text`. Those of the batch are in
            the error of the operation.

    Raises:
        ShapeError: instead of the error of an operation within `shapes_named`.
    """
    try:
        yield
    except Exception as error:
        text = backend.failed_operation(error) or ""
        parts = _PARTS.findall(text)
        if not parts:
            raise
        reason = text.partition("[[{{node")[0].strip().splitlines()[-1]
        raise ShapeError(f"{reason} (in {parts[-1]}; {shapes})") from error


def shapes_text(targets: TensorDict, outputs: TensorDict) -> str:
    """Return the shapes of targets and outputs by name, in words; None is a size that is not known."""
    return f"targets: {_shapes(targets)}; outputs: {_shapes(outputs)}"


def _is_raised_by_user(error: Exception) -> bool:
    """Return True if the line that raised an error is the user's own, who knows best what it means."""
    raised = traceback.extract_tb(error.__traceback__)[-1]
    place = find_place(error)
    return place is not None and (place.file, place.line) == (raised.filename, raised.lineno)


def _shapes(tensors: TensorDict) -> str:
    texts = []
    for name, tensor in sorted(tensors.items()):
        # JAX has objects of its own for unknown sizes.
        sizes = [size if isinstance(size, int) else None for size in getattr(tensor, "shape", ())]
        texts.append(f"{name} {tuple(sizes)}")
    return ", ".join(texts) or "none"


@dataclass(frozen=True)
class WeightPenalty:
    """Sum of l1 |w| + l2 w^2 over all elements of some weights, as the regularisers of Keras have it.

    Args:
        weights: the weights.
        l1: factor of the absolute values, a number or a variable; 0: none.
        l2: factor of the squares, likewise.
    """

    weights: Sequence[keras.Variable]
    l1: float | keras.Variable
    l2: float | keras.Variable

    def value(self) -> Tensor:
        """Return the penalty, a float32 scalar."""
        total = ops.zeros((), dtype="float32")
        for weight in self.weights:
            w = ops.cast(weight, "float32")
            if not is_zero(self.l1):
                total = total + self.l1 * ops.sum(ops.abs(w))
            if not is_zero(self.l2):
                total = total + self.l2 * ops.sum(ops.square(w))
        return total


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
        """Return the penalty of a batch, a scalar, without its weight."""
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
