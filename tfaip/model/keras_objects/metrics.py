"""Metrics of Keras as params; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from typing import Any, Literal

from tfaip.model.keras_objects.base import CustomObject, KerasObject
from tfaip.params.options import option


class Metric(KerasObject, kind="keras.metrics:Metric", functions=True):
    """A metric of Keras, or one of the user."""


class CustomMetric(CustomObject, Metric):
    """A metric that is not one of Keras."""


class AccuracyByShape(Metric, names=("accuracy", "acc")):
    """Accuracy of classes, categories or yes and no, as the shapes of target and output tell."""

    name: str = option("accuracy", "Name in the log")

    @staticmethod
    def cls() -> Any:
        """Raise: only the model knows the shapes."""
        raise TypeError("only a model makes it, which knows the shapes")


class AUC(Metric, cls="keras.metrics:AUC", names=("auc",)):
    """Approximates the AUC (Area under the curve) of the ROC or PR curves."""

    num_thresholds: int = option(200, "Number of thresholds of the curve", low=1)
    curve: Literal["ROC", "PR"] = option("ROC", "Curve below which the area is taken")
    summation_method: Literal["interpolation", "minoring", "majoring"] = option(
        "interpolation", "Method of the integration"
    )
    name: str | None = option(None, "Name in the log (None: that of Keras)")
    thresholds: list[float] | None = option(None, "Thresholds of the curve (None: num_thresholds of equal distance)")
    multi_label: bool = option(False, "Evaluate each label alone, and average")
    num_labels: int | None = option(None, "Number of labels, if multi_label")
    label_weights: list[float] | None = option(None, "Weight of each label, if multi_label")
    from_logits: bool = option(False, "The outputs are logits, not probabilities")


class Accuracy(Metric, cls="keras.metrics:Accuracy"):
    """Calculates how often predictions equal labels."""

    name: str | None = option("accuracy", "Name in the log (None: that of Keras)")


class BinaryAccuracy(Metric, cls="keras.metrics:BinaryAccuracy", names=("binary_accuracy",)):
    """Calculates how often predictions match binary labels."""

    name: str | None = option("binary_accuracy", "Name in the log (None: that of Keras)")
    threshold: float = option(0.5, "Threshold")


class BinaryCrossentropy(Metric, cls="keras.metrics:BinaryCrossentropy", names=("BCE", "bce", "binary_crossentropy")):
    """Computes the crossentropy metric between the labels and predictions."""

    name: str | None = option("binary_crossentropy", "Name in the log (None: that of Keras)")
    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    label_smoothing: float = option(0.0, "Share of a target that is spread over all classes", low=0, high=1)


class BinaryIoU(Metric, cls="keras.metrics:BinaryIoU", names=("binary_io_u",)):
    """Computes the Intersection-Over-Union metric for class 0 and/or 1."""

    target_class_ids: list[int] = option([0, 1], "Classes that are evaluated")
    threshold: float = option(0.5, "Threshold")
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class CategoricalAccuracy(Metric, cls="keras.metrics:CategoricalAccuracy", names=("categorical_accuracy",)):
    """Calculates how often predictions match one-hot labels."""

    name: str | None = option("categorical_accuracy", "Name in the log (None: that of Keras)")


class CategoricalCrossentropy(Metric, cls="keras.metrics:CategoricalCrossentropy", names=("categorical_crossentropy",)):
    """Computes the crossentropy metric between the labels and predictions."""

    name: str | None = option("categorical_crossentropy", "Name in the log (None: that of Keras)")
    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    label_smoothing: float = option(0.0, "Share of a target that is spread over all classes", low=0, high=1)
    axis: int = option(-1, "Axis of the features")


class CategoricalHinge(Metric, cls="keras.metrics:CategoricalHinge", names=("categorical_hinge",)):
    """Computes the categorical hinge metric between y_true and y_pred."""

    name: str | None = option("categorical_hinge", "Name in the log (None: that of Keras)")


class ConcordanceCorrelation(Metric, cls="keras.metrics:ConcordanceCorrelation", names=("concordance_correlation",)):
    """Calculates the Concordance Correlation Coefficient (CCC)."""

    name: str | None = option("concordance_correlation", "Name in the log (None: that of Keras)")
    axis: int = option(-1, "Axis of the features")


class CosineSimilarity(Metric, cls="keras.metrics:CosineSimilarity", names=("cosine_similarity",)):
    """Computes the cosine similarity between the labels and predictions."""

    name: str | None = option("cosine_similarity", "Name in the log (None: that of Keras)")
    axis: int = option(-1, "Axis of the features")


class F1Score(Metric, cls="keras.metrics:F1Score", names=("f1_score",)):
    """Computes F-1 Score."""

    average: Literal["micro", "macro", "weighted"] | None = option(
        None, "Average over the classes (None: one value per class)"
    )
    threshold: float | None = option(None, "Threshold of a positive output (None: the largest one)")
    name: str | None = option("f1_score", "Name in the log (None: that of Keras)")


class FBetaScore(Metric, cls="keras.metrics:FBetaScore", names=("f_beta_score",)):
    """Computes F-Beta score."""

    average: Literal["micro", "macro", "weighted"] | None = option(
        None, "Average over the classes (None: one value per class)"
    )
    beta: float = option(1.0, "Weight of the recall against the precision", above=0)
    threshold: float | None = option(None, "Threshold of a positive output (None: the largest one)")
    name: str | None = option("fbeta_score", "Name in the log (None: that of Keras)")


class FalseNegatives(Metric, cls="keras.metrics:FalseNegatives", names=("false_negatives",)):
    """Calculates the number of false negatives."""

    thresholds: float | None = option(None, "Threshold of a positive output (None: that of Keras)", low=0, high=1)
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class FalsePositives(Metric, cls="keras.metrics:FalsePositives", names=("false_positives",)):
    """Calculates the number of false positives."""

    thresholds: float | None = option(None, "Threshold of a positive output (None: that of Keras)", low=0, high=1)
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class Hinge(Metric, cls="keras.metrics:Hinge", names=("hinge",)):
    """Computes the hinge metric between y_true and y_pred."""

    name: str | None = option("hinge", "Name in the log (None: that of Keras)")


class IoU(Metric, cls="keras.metrics:IoU", names=("io_u",)):
    """Computes the Intersection-Over-Union metric for specific target classes."""

    num_classes: int = option(help="Number of classes", low=1)
    target_class_ids: list[int] = option(help="Classes that are evaluated")
    name: str | None = option(None, "Name in the log (None: that of Keras)")
    ignore_class: int | None = option(None, "Class of targets that do not count, e.g. of padding")
    sparse_y_true: bool = option(True, "The targets are classes, not one-hot vectors")
    sparse_y_pred: bool = option(True, "The outputs are classes, not scores")
    axis: int = option(-1, "Axis of the features")


class KLDivergence(Metric, cls="keras.metrics:KLDivergence", names=("kl_divergence",)):
    """Computes Kullback-Leibler divergence metric between y_true and y_pred."""

    name: str | None = option("kl_divergence", "Name in the log (None: that of Keras)")


class LogCoshError(Metric, cls="keras.metrics:LogCoshError", names=("log_cosh_error",)):
    """Computes the logarithm of the hyperbolic cosine of the prediction error."""

    name: str | None = option("logcosh", "Name in the log (None: that of Keras)")


class MeanAbsoluteError(Metric, cls="keras.metrics:MeanAbsoluteError", names=("MAE", "mae", "mean_absolute_error")):
    """Computes the mean absolute error between the labels and predictions."""

    name: str | None = option("mean_absolute_error", "Name in the log (None: that of Keras)")


class MeanAbsolutePercentageError(
    Metric, cls="keras.metrics:MeanAbsolutePercentageError", names=("MAPE", "mape", "mean_absolute_percentage_error")
):
    """Computes mean absolute percentage error between y_true and y_pred."""

    name: str | None = option("mean_absolute_percentage_error", "Name in the log (None: that of Keras)")


class MeanIoU(Metric, cls="keras.metrics:MeanIoU", names=("mean_io_u",)):
    """Computes the mean Intersection-Over-Union metric."""

    num_classes: int = option(help="Number of classes", low=1)
    name: str | None = option(None, "Name in the log (None: that of Keras)")
    ignore_class: int | None = option(None, "Class of targets that do not count, e.g. of padding")
    sparse_y_true: bool = option(True, "The targets are classes, not one-hot vectors")
    sparse_y_pred: bool = option(True, "The outputs are classes, not scores")
    axis: int = option(-1, "Axis of the features")


class MeanSquaredError(Metric, cls="keras.metrics:MeanSquaredError", names=("MSE", "mean_squared_error", "mse")):
    """Computes the mean squared error between y_true and y_pred."""

    name: str | None = option("mean_squared_error", "Name in the log (None: that of Keras)")


class MeanSquaredLogarithmicError(
    Metric, cls="keras.metrics:MeanSquaredLogarithmicError", names=("MSLE", "mean_squared_logarithmic_error", "msle")
):
    """Computes mean squared logarithmic error between y_true and y_pred."""

    name: str | None = option("mean_squared_logarithmic_error", "Name in the log (None: that of Keras)")


class OneHotIoU(Metric, cls="keras.metrics:OneHotIoU", names=("one_hot_io_u",)):
    """Computes the Intersection-Over-Union metric for one-hot encoded labels."""

    num_classes: int = option(help="Number of classes", low=1)
    target_class_ids: list[int] = option(help="Classes that are evaluated")
    name: str | None = option(None, "Name in the log (None: that of Keras)")
    ignore_class: int | None = option(None, "Class of targets that do not count, e.g. of padding")
    sparse_y_pred: bool = option(False, "The outputs are classes, not scores")
    axis: int = option(-1, "Axis of the features")


class OneHotMeanIoU(Metric, cls="keras.metrics:OneHotMeanIoU", names=("one_hot_mean_io_u",)):
    """Computes mean Intersection-Over-Union metric for one-hot encoded labels."""

    num_classes: int = option(help="Number of classes", low=1)
    name: str | None = option(None, "Name in the log (None: that of Keras)")
    ignore_class: int | None = option(None, "Class of targets that do not count, e.g. of padding")
    sparse_y_pred: bool = option(False, "The outputs are classes, not scores")
    axis: int = option(-1, "Axis of the features")


class PearsonCorrelation(Metric, cls="keras.metrics:PearsonCorrelation", names=("pearson_correlation",)):
    """Calculates the Pearson Correlation Coefficient (PCC)."""

    name: str | None = option("pearson_correlation", "Name in the log (None: that of Keras)")
    axis: int = option(-1, "Axis of the features")


class Poisson(Metric, cls="keras.metrics:Poisson", names=("poisson",)):
    """Computes the Poisson metric between y_true and y_pred."""

    name: str | None = option("poisson", "Name in the log (None: that of Keras)")


class Precision(Metric, cls="keras.metrics:Precision", names=("precision",)):
    """Computes the precision of the predictions with respect to the labels."""

    thresholds: float | None = option(None, "Threshold of a positive output (None: that of Keras)", low=0, high=1)
    top_k: int | None = option(None, "Number of best outputs that count as positive (None: use the threshold)", low=1)
    class_id: int | None = option(None, "Class that is evaluated (None: all)")
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class PrecisionAtRecall(Metric, cls="keras.metrics:PrecisionAtRecall", names=("precision_at_recall",)):
    """Computes best precision where recall is >= specified value."""

    recall: float = option(help="Recall at which the precision is taken", low=0, high=1)
    num_thresholds: int = option(200, "Number of thresholds of the curve", low=1)
    class_id: int | None = option(None, "Class that is evaluated (None: all)")
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class R2Score(Metric, cls="keras.metrics:R2Score", names=("r2_score",)):
    """Computes R2 score."""

    class_aggregation: Literal["uniform_average", "variance_weighted_average"] | None = option(
        "uniform_average", "Average over the outputs"
    )
    num_regressors: int = option(0, "Number of explanatory variables (0: the score is not adjusted)", low=0)
    name: str | None = option("r2_score", "Name in the log (None: that of Keras)")


class Recall(Metric, cls="keras.metrics:Recall", names=("recall",)):
    """Computes the recall of the predictions with respect to the labels."""

    thresholds: float | None = option(None, "Threshold of a positive output (None: that of Keras)", low=0, high=1)
    top_k: int | None = option(None, "Number of best outputs that count as positive (None: use the threshold)", low=1)
    class_id: int | None = option(None, "Class that is evaluated (None: all)")
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class RecallAtPrecision(Metric, cls="keras.metrics:RecallAtPrecision", names=("recall_at_precision",)):
    """Computes best recall where precision is >= specified value."""

    precision: float = option(help="Precision at which the recall is taken", low=0, high=1)
    num_thresholds: int = option(200, "Number of thresholds of the curve", low=1)
    class_id: int | None = option(None, "Class that is evaluated (None: all)")
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class RootMeanSquaredError(Metric, cls="keras.metrics:RootMeanSquaredError", names=("root_mean_squared_error",)):
    """Computes root mean squared error metric between y_true and y_pred."""

    name: str | None = option("root_mean_squared_error", "Name in the log (None: that of Keras)")


class SensitivityAtSpecificity(
    Metric, cls="keras.metrics:SensitivityAtSpecificity", names=("sensitivity_at_specificity",)
):
    """Computes best sensitivity where specificity is >= specified value."""

    specificity: float = option(help="Specificity at which the sensitivity is taken", low=0, high=1)
    num_thresholds: int = option(200, "Number of thresholds of the curve", low=1)
    class_id: int | None = option(None, "Class that is evaluated (None: all)")
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class SparseCategoricalAccuracy(
    Metric, cls="keras.metrics:SparseCategoricalAccuracy", names=("sparse_categorical_accuracy",)
):
    """Calculates how often predictions match integer labels."""

    name: str | None = option("sparse_categorical_accuracy", "Name in the log (None: that of Keras)")


class SparseCategoricalCrossentropy(
    Metric, cls="keras.metrics:SparseCategoricalCrossentropy", names=("sparse_categorical_crossentropy",)
):
    """Computes the crossentropy metric between the labels and predictions."""

    name: str | None = option("sparse_categorical_crossentropy", "Name in the log (None: that of Keras)")
    from_logits: bool = option(False, "The outputs are logits, not probabilities")
    ignore_class: int | None = option(None, "Class of targets that do not count, e.g. of padding")
    axis: int = option(-1, "Axis of the features")


class SparseTopKCategoricalAccuracy(
    Metric, cls="keras.metrics:SparseTopKCategoricalAccuracy", names=("sparse_top_k_categorical_accuracy",)
):
    """Computes how often integer targets are in the top K predictions."""

    k: int = option(5, "Number of best classes among which the target must be", low=1)
    name: str | None = option("sparse_top_k_categorical_accuracy", "Name in the log (None: that of Keras)")
    from_sorted_ids: bool = option(False, "The outputs are sorted classes, not scores")


class SpecificityAtSensitivity(
    Metric, cls="keras.metrics:SpecificityAtSensitivity", names=("specificity_at_sensitivity",)
):
    """Computes best specificity where sensitivity is >= specified value."""

    sensitivity: float = option(help="Sensitivity at which the specificity is taken", low=0, high=1)
    num_thresholds: int = option(200, "Number of thresholds of the curve", low=1)
    class_id: int | None = option(None, "Class that is evaluated (None: all)")
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class SquaredHinge(Metric, cls="keras.metrics:SquaredHinge", names=("squared_hinge",)):
    """Computes the hinge metric between y_true and y_pred."""

    name: str | None = option("squared_hinge", "Name in the log (None: that of Keras)")


class TopKCategoricalAccuracy(
    Metric, cls="keras.metrics:TopKCategoricalAccuracy", names=("top_k_categorical_accuracy",)
):
    """Computes how often targets are in the top K predictions."""

    k: int = option(5, "Number of best classes among which the target must be", low=1)
    name: str | None = option("top_k_categorical_accuracy", "Name in the log (None: that of Keras)")


class TrueNegatives(Metric, cls="keras.metrics:TrueNegatives", names=("true_negatives",)):
    """Calculates the number of true negatives."""

    thresholds: float | None = option(None, "Threshold of a positive output (None: that of Keras)", low=0, high=1)
    name: str | None = option(None, "Name in the log (None: that of Keras)")


class TruePositives(Metric, cls="keras.metrics:TruePositives", names=("true_positives",)):
    """Calculates the number of true positives."""

    thresholds: float | None = option(None, "Threshold of a positive output (None: that of Keras)", low=0, high=1)
    name: str | None = option(None, "Name in the log (None: that of Keras)")
