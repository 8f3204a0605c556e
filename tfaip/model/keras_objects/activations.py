"""Activations of Keras as params; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from tfaip.model.keras_objects.base import CustomObject, KerasFunction
from tfaip.params.options import option


class Activation(KerasFunction, kind="keras.layers:Layer", functions=True):
    """An activation function of Keras, or one of the user."""


class CustomActivation(CustomObject, Activation):
    """An activation function that is not one of Keras."""


class Celu(Activation, cls="keras.activations:celu", names=("celu",)):
    """Continuously Differentiable Exponential Linear Unit."""

    alpha: float = option(1.0, "Factor of negative values")


class Elu(Activation, cls="keras.activations:elu", names=("elu",)):
    """Exponential Linear Unit."""

    alpha: float = option(1.0, "Factor of negative values")


class Exponential(Activation, cls="keras.activations:exponential", names=("exponential",)):
    """Exponential activation function."""


class Gelu(Activation, cls="keras.activations:gelu", names=("gelu",)):
    """Gaussian error linear unit (GELU) activation function."""

    approximate: bool = option(False, "Use the approximation with tanh")


class Glu(Activation, cls="keras.activations:glu", names=("glu",)):
    """Gated Linear Unit (GLU) activation function."""

    axis: int = option(-1, "Axis of the features")


class HardShrink(Activation, cls="keras.activations:hard_shrink", names=("hard_shrink",)):
    """Hard Shrink activation function."""

    threshold: float = option(0.5, "Threshold")


class HardSigmoid(Activation, cls="keras.activations:hard_sigmoid", names=("hard_sigmoid",)):
    """Hard sigmoid activation function."""


class HardSilu(Activation, cls="keras.activations:hard_silu", names=("hard_silu", "hard_swish")):
    """Hard SiLU activation function, also known as Hard Swish."""


class HardTanh(Activation, cls="keras.activations:hard_tanh", names=("hard_tanh",)):
    """HardTanh activation function."""


class LeakyRelu(Activation, cls="keras.activations:leaky_relu", names=("leaky_relu",)):
    """Leaky relu activation function."""

    negative_slope: float = option(0.2, "Factor of negative values")


class Linear(Activation, cls="keras.activations:linear", names=("linear",)):
    """Linear activation function (pass-through)."""


class LogSigmoid(Activation, cls="keras.activations:log_sigmoid", names=("log_sigmoid",)):
    """Logarithm of the sigmoid activation function."""


class LogSoftmax(Activation, cls="keras.activations:log_softmax", names=("log_softmax",)):
    """Log-Softmax activation function."""

    axis: int = option(-1, "Axis of the features")


class Mish(Activation, cls="keras.activations:mish", names=("mish",)):
    """Mish activation function."""


class Relu(Activation, cls="keras.activations:relu", names=("relu",)):
    """Applies the rectified linear unit activation function."""

    negative_slope: float = option(0.0, "Factor of negative values")
    max_value: float | None = option(None, "Largest result (None: no limit)", low=0)
    threshold: float = option(0.0, "Values up to here become 0")


class Relu6(Activation, cls="keras.activations:relu6", names=("relu6",)):
    """Relu6 activation function."""


class Selu(Activation, cls="keras.activations:selu", names=("selu",)):
    """Scaled Exponential Linear Unit (SELU)."""


class Sigmoid(Activation, cls="keras.activations:sigmoid", names=("sigmoid",)):
    """Sigmoid activation function."""


class Silu(Activation, cls="keras.activations:silu", names=("silu", "swish")):
    """Swish (or Silu) activation function."""


class SoftShrink(Activation, cls="keras.activations:soft_shrink", names=("soft_shrink",)):
    """Soft Shrink activation function."""

    threshold: float = option(0.5, "Threshold")


class Softmax(Activation, cls="keras.activations:softmax", names=("softmax",)):
    """Softmax converts a vector of values to a probability distribution."""

    axis: int = option(-1, "Axis of the features")


class Softplus(Activation, cls="keras.activations:softplus", names=("softplus",)):
    """Softplus activation function."""


class Softsign(Activation, cls="keras.activations:softsign", names=("softsign",)):
    """Softsign activation function."""


class SparsePlus(Activation, cls="keras.activations:sparse_plus", names=("sparse_plus",)):
    """SparsePlus activation function."""


class SparseSigmoid(Activation, cls="keras.activations:sparse_sigmoid", names=("sparse_sigmoid",)):
    """Sparse sigmoid activation function."""


class Sparsemax(Activation, cls="keras.activations:sparsemax", names=("sparsemax",)):
    """Sparsemax activation function."""

    axis: int = option(-1, "Axis of the features")


class Squareplus(Activation, cls="keras.activations:squareplus", names=("squareplus",)):
    """Squareplus activation function."""

    b: float = option(4.0, "Smoothness")


class Tanh(Activation, cls="keras.activations:tanh", names=("tanh",)):
    """Hyperbolic tangent activation function."""


class TanhShrink(Activation, cls="keras.activations:tanh_shrink", names=("tanh_shrink",)):
    """Tanh shrink activation function."""


class Threshold(Activation, cls="keras.activations:threshold", names=("threshold",)):
    """Threshold activation function."""

    threshold: float = option(help="Threshold")
    default_value: float = option(help="Value below the threshold")
