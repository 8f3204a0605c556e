"""Initializers of Keras as params; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from typing import Literal

from tfaip.model.keras_objects.base import CustomObject, KerasObject
from tfaip.params.options import option


class Initializer(KerasObject, kind="keras.initializers:Initializer", functions=False):
    """An initializer of Keras, or one of the user."""


class CustomInitializer(CustomObject, Initializer):
    """An initializer that is not one of Keras."""


class Constant(Initializer, cls="keras.initializers:Constant", names=("constant",)):
    """Initializer that generates tensors with constant values."""

    value: float = option(0.0, "The value", finite=True)


class GlorotNormal(Initializer, cls="keras.initializers:GlorotNormal", names=("glorot_normal",)):
    """The Glorot normal initializer, also called Xavier normal initializer."""

    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")
    input_axes: list[int] | None = option(None, "Axes of the kernel that count as inputs (None: all but the last)")
    output_axes: list[int] | None = option(None, "Axes of the kernel that count as outputs (None: the last one)")


class GlorotUniform(Initializer, cls="keras.initializers:GlorotUniform", names=("glorot_uniform",)):
    """The Glorot uniform initializer, also called Xavier uniform initializer."""

    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")
    input_axes: list[int] | None = option(None, "Axes of the kernel that count as inputs (None: all but the last)")
    output_axes: list[int] | None = option(None, "Axes of the kernel that count as outputs (None: the last one)")


class HeNormal(Initializer, cls="keras.initializers:HeNormal", names=("he_normal",)):
    """He normal initializer."""

    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")
    input_axes: list[int] | None = option(None, "Axes of the kernel that count as inputs (None: all but the last)")
    output_axes: list[int] | None = option(None, "Axes of the kernel that count as outputs (None: the last one)")


class HeUniform(Initializer, cls="keras.initializers:HeUniform", names=("he_uniform",)):
    """He uniform variance scaling initializer."""

    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")
    input_axes: list[int] | None = option(None, "Axes of the kernel that count as inputs (None: all but the last)")
    output_axes: list[int] | None = option(None, "Axes of the kernel that count as outputs (None: the last one)")


class Identity(Initializer, cls="keras.initializers:Identity", names=("IdentityInitializer", "identity")):
    """Initializer that generates the identity matrix."""

    gain: float = option(1.0, "Factor of the matrix")


class LecunNormal(Initializer, cls="keras.initializers:LecunNormal", names=("lecun_normal",)):
    """Lecun normal initializer."""

    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")
    input_axes: list[int] | None = option(None, "Axes of the kernel that count as inputs (None: all but the last)")
    output_axes: list[int] | None = option(None, "Axes of the kernel that count as outputs (None: the last one)")


class LecunUniform(Initializer, cls="keras.initializers:LecunUniform", names=("lecun_uniform",)):
    """Lecun uniform initializer."""

    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")
    input_axes: list[int] | None = option(None, "Axes of the kernel that count as inputs (None: all but the last)")
    output_axes: list[int] | None = option(None, "Axes of the kernel that count as outputs (None: the last one)")


class Ones(Initializer, cls="keras.initializers:Ones", names=("one", "ones")):
    """Initializer that generates tensors initialized to 1."""


class Orthogonal(Initializer, cls="keras.initializers:Orthogonal", names=("OrthogonalInitializer", "orthogonal")):
    """Initializer that generates an orthogonal matrix."""

    gain: float = option(1.0, "Factor of the matrix")
    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")


class RandomNormal(Initializer, cls="keras.initializers:RandomNormal", names=("normal", "random_normal")):
    """Random normal initializer."""

    mean: float = option(0.0, "Mean", finite=True)
    stddev: float = option(0.05, "Standard deviation", low=0)
    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")


class RandomUniform(Initializer, cls="keras.initializers:RandomUniform", names=("random_uniform", "uniform")):
    """Random uniform initializer."""

    minval: float = option(-0.05, "Lower end", finite=True)
    maxval: float = option(0.05, "Upper end", finite=True)
    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")


class STFT(Initializer, cls="keras.initializers:STFT", names=("STFTInitializer", "stft")):
    """Initializer of Conv kernels for Short-term Fourier Transformation (STFT)."""

    side: Literal["real", "imag"] = option("real", "Part of the transform")
    window: str | None = option("hann", "Name of the window, as hann or hamming")
    scaling: Literal["density", "spectrum"] | None = option("density", "Scaling of the transform")
    periodic: bool = option(False, "The window is periodic")


class TruncatedNormal(Initializer, cls="keras.initializers:TruncatedNormal", names=("truncated_normal",)):
    """Initializer that generates a truncated normal distribution."""

    mean: float = option(0.0, "Mean", finite=True)
    stddev: float = option(0.05, "Standard deviation", low=0)
    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")


class VarianceScaling(Initializer, cls="keras.initializers:VarianceScaling", names=("variance_scaling",)):
    """Initializer that adapts its scale to the shape of its input tensors."""

    scale: float = option(1.0, "Factor of the variance", above=0)
    mode: Literal["fan_in", "fan_out", "fan_avg"] = option("fan_in", "Number of units that the scale is divided by")
    distribution: Literal["truncated_normal", "untruncated_normal", "uniform"] = option(
        "truncated_normal", "Distribution of the values"
    )
    seed: int | None = option(None, "Seed (None: drawn, so that equal layers differ)")
    input_axes: list[int] | None = option(None, "Axes of the kernel that count as inputs (None: all but the last)")
    output_axes: list[int] | None = option(None, "Axes of the kernel that count as outputs (None: the last one)")


class Zeros(Initializer, cls="keras.initializers:Zeros", names=("zero", "zeros")):
    """Initializer that generates tensors initialized to 0."""
