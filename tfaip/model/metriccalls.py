"""Search for the metrics that `_metric` calls: in Keras 3 the result of a call has no link to its metric."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from tfaip.backend.keras_private import RecordingScope
from tfaip.backend.kerastools import watched_methods
from tfaip.model.modelbase import ModelBase
from tfaip.model.shapeerrors import shapes_named
from tfaip.util.typing import Tensor, TensorDict


def called_metrics(
    model: ModelBase[Any], inputs: TensorDict, targets: TensorDict, outputs: TensorDict
) -> list[keras.metrics.Metric]:
    """Return the metrics that `_metric` calls, in this order; no variable changes.

    Args:
        model: its attributes hold the metrics.
        inputs: of a batch, may be symbolic.
        targets: likewise.
        outputs: likewise.

    Raises:
        ValueError: if a metric is called that is no attribute of the model, or a result is not that of a metric.
    """
    model.make_metrics(targets, outputs)
    held = model.metric_objects()
    with RecordingScope() as scope, _recorded(held) as called:
        results = update_metrics(model, inputs, targets, outputs)
    known = {id(variable) for metric in held for variable in metric.variables}
    # A variable is named after its metric: `mae/total`.
    lost = {variable.path.partition("/")[0]: None for variable in scope.assigned if id(variable) not in known}
    if lost or len(results) != len(called):
        owner = type(model).__name__
        names = [metric.name for metric in called]
        raise ValueError(
            f"{owner}._metric returned {len(results)} values; Keras metrics called in it: {[*names, *lost]}, of these "
            f"not found on the model: {[*lost]}. Expected: results of calling Keras metrics that are attributes of "
            f"{owner} (or in a list, tuple or dict that is): keep each in an attribute"
        )
    return called


def update_metrics(
    model: ModelBase[Any], inputs: TensorDict, targets: TensorDict, outputs: TensorDict
) -> Sequence[Tensor]:
    """Call `_metric`; an error of a library names the model, targets and outputs.

    Raises:
        ShapeError: see `shapes_named`.
    """
    with shapes_named(f"{type(model).__name__}._metric", targets, outputs):
        return model._metric(inputs, targets, outputs)


@contextlib.contextmanager
def _recorded(metrics: Sequence[keras.metrics.Metric]) -> Iterator[list[keras.metrics.Metric]]:
    """Context that collects which of the metrics are updated, but not by another of them."""
    called: list[keras.metrics.Metric] = []
    running: list[keras.metrics.Metric] = []

    def watch(metric: keras.metrics.Metric, update: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        # A metric that computes from others updates them itself.
        if not running and not any(metric is known for known in called):
            called.append(metric)
        running.append(metric)
        try:
            return update(*args, **kwargs)
        finally:
            running.pop()

    with watched_methods(metrics, "update_state", watch):
        yield called
