"""Losses of Keras as params; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tfaip.model.keras_objects.base import CustomObject, KerasObject
from tfaip.params.options import option


class Loss(KerasObject, kind="keras.losses:Loss", functions=True):
    """A loss of Keras, or one of the user."""


class CustomLoss(CustomObject, Loss):
    """A loss that is not one of Keras."""


Reduction: TypeAlias = Literal["sum_over_batch_size", "sum", "mean", "mean_with_sample_weight"]


class BinaryCrossentropy(Loss, cls="keras.losses:BinaryCrossentropy", names=("BCE", "bce", "binary_crossentropy")):
    """Computes the cross-entropy loss between true labels and predicted labels."""

    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    label_smoothing: float = option(0.0, "Share of a target that is spread over all classes", low=0, high=1)
    axis: int = option(-1, "Axis of the features")
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class BinaryFocalCrossentropy(Loss, cls="keras.losses:BinaryFocalCrossentropy", names=("binary_focal_crossentropy",)):
    """Computes focal cross-entropy loss between true labels and predictions."""

    apply_class_balancing: bool = option(False, "Weigh the classes by alpha and 1 - alpha")
    alpha: float = option(0.25, "Weight of class 1, if apply_class_balancing", low=0, high=1)
    gamma: float = option(2.0, "Exponent that focuses on difficult samples")
    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    label_smoothing: float = option(0.0, "Share of a target that is spread over all classes", low=0, high=1)
    axis: int = option(-1, "Axis of the features")
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class CTC(Loss, cls="keras.losses:CTC", names=("ctc",)):
    """CTC (Connectionist Temporal Classification) loss."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class CategoricalCrossentropy(Loss, cls="keras.losses:CategoricalCrossentropy", names=("categorical_crossentropy",)):
    """Computes the crossentropy loss between the labels and predictions."""

    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    label_smoothing: float = option(0.0, "Share of a target that is spread over all classes", low=0, high=1)
    axis: int = option(-1, "Axis of the features")
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class CategoricalFocalCrossentropy(
    Loss, cls="keras.losses:CategoricalFocalCrossentropy", names=("categorical_focal_crossentropy",)
):
    """Computes the alpha balanced focal crossentropy loss."""

    alpha: float = option(0.25, "Weight of all classes")
    gamma: float = option(2.0, "Exponent that focuses on difficult samples")
    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    label_smoothing: float = option(0.0, "Share of a target that is spread over all classes", low=0, high=1)
    axis: int = option(-1, "Axis of the features")
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class CategoricalGeneralizedCrossEntropy(Loss, cls="keras.losses:CategoricalGeneralizedCrossEntropy"):
    """Computes the Generalized Cross Entropy loss between y_true & y_pred."""

    q: float = option(0.5, "Exponent, from 0 (crossentropy) to 1 (absolute error)", above=0, below=1)
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class CategoricalHinge(Loss, cls="keras.losses:CategoricalHinge", names=("categorical_hinge",)):
    """Computes the categorical hinge loss between y_true & y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class Circle(Loss, cls="keras.losses:Circle", names=("circle",)):
    """Computes Circle Loss between integer labels and L2-normalized embeddings."""

    gamma: float = option(80.0, "Factor of the similarities", above=0)
    margin: float = option(0.4, "Margin between similar and dissimilar samples")
    remove_diagonal: bool = option(True, "Do not compare a sample with itself")
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class CosineSimilarity(Loss, cls="keras.losses:CosineSimilarity", names=("cosine_similarity",)):
    """Computes the cosine similarity between y_true & y_pred."""

    axis: int = option(-1, "Axis of the features")
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class Dice(Loss, cls="keras.losses:Dice", names=("dice",)):
    """Computes the Dice loss value between y_true and y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")
    axis: list[int] | None = option(None, "Axes that are summed (None: all)")


class Hinge(Loss, cls="keras.losses:Hinge", names=("hinge",)):
    """Computes the hinge loss between y_true & y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class Huber(Loss, cls="keras.losses:Huber", names=("huber",)):
    """Computes the Huber loss between y_true & y_pred."""

    delta: float = option(1.0, "Error at which the loss becomes linear", above=0)
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class KLDivergence(Loss, cls="keras.losses:KLDivergence", names=("KLD", "kl_divergence", "kld")):
    """Computes Kullback-Leibler divergence loss between y_true & y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class LogCosh(Loss, cls="keras.losses:LogCosh", names=("log_cosh",)):
    """Computes the logarithm of the hyperbolic cosine of the prediction error."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class MeanAbsoluteError(Loss, cls="keras.losses:MeanAbsoluteError", names=("MAE", "mae", "mean_absolute_error")):
    """Computes the mean of absolute difference between labels and predictions."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class MeanAbsolutePercentageError(
    Loss, cls="keras.losses:MeanAbsolutePercentageError", names=("MAPE", "mape", "mean_absolute_percentage_error")
):
    """Computes the mean absolute percentage error between y_true & y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class MeanSquaredError(Loss, cls="keras.losses:MeanSquaredError", names=("MSE", "mean_squared_error", "mse")):
    """Computes the mean of squares of errors between labels and predictions."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class MeanSquaredLogarithmicError(
    Loss, cls="keras.losses:MeanSquaredLogarithmicError", names=("MSLE", "mean_squared_logarithmic_error", "msle")
):
    """Computes the mean squared logarithmic error between y_true & y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class Poisson(Loss, cls="keras.losses:Poisson", names=("poisson",)):
    """Computes the Poisson loss between y_true & y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class SparseCategoricalCrossentropy(
    Loss, cls="keras.losses:SparseCategoricalCrossentropy", names=("sparse_categorical_crossentropy",)
):
    """Computes the crossentropy loss between the labels and predictions."""

    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    ignore_class: int | None = option(None, "Class of targets that do not count, e.g. of padding")
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")
    axis: int = option(-1, "Axis of the features")


class SquaredHinge(Loss, cls="keras.losses:SquaredHinge", names=("squared_hinge",)):
    """Computes the squared hinge loss between y_true & y_pred."""

    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")


class Tversky(Loss, cls="keras.losses:Tversky", names=("tversky",)):
    """Computes the Tversky loss value between y_true and y_pred."""

    alpha: float = option(0.5, "Weight of false positives", low=0)
    beta: float = option(0.5, "Weight of false negatives", low=0)
    reduction: Reduction = option("sum_over_batch_size", "How the values of a batch become one")
    axis: list[int] | None = option(None, "Axes that are summed (None: all)")
