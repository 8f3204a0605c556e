"""Losses and metrics that a model declares as `keras.Model.compile` takes them."""

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import keras
from keras import ops

from tfaip.backend.kerastools import FunctionLoss, mask_of, snake_case
from tfaip.errors import UsageError
from tfaip.model.keras_objects import KerasObject, Loss, Metric
from tfaip.model.losses import shapes_named, weights_like
from tfaip.params.names import did_you_mean, top_package
from tfaip.params.trust import OwnPackage, Trust, UntrustedName
from tfaip.params.types import checked_name
from tfaip.util.text import shorten
from tfaip.util.typing import Tensor, TensorDict

LOSS = "loss"
CLASS_WEIGHT, SAMPLE_WEIGHT = "class_weight", "sample_weight"
_CROSSENTROPY = ("crossentropy", "ce")
_ACCURACY = ("accuracy", "acc")
_MEANS = ("sum_over_batch_size", "mean")


def declared(model: Any, name: str) -> Any:
    """Return what a model declares as `loss`, `metrics` and so on: an attribute or a method; None: nothing.

    What the class does not declare is taken from a field of its params.
    """
    value = getattr(model, name, None)
    in_class = inspect.getattr_static(type(model), name, None)
    if isinstance(in_class, FunctionType) and name not in vars(model):
        arguments = len(inspect.signature(in_class).parameters)
        if arguments == 1:
            return in_class(model)
        # A loss function of (y_true, y_pred) is no method, though Python binds it.
        return in_class if arguments == 2 else value
    return getattr(model.params, name, None) if value is None else value


class DeclaredLosses:
    """The losses of a model by name, computed from targets and outputs.

    Args:
        model: declares `loss`, `loss_weights`, `class_weight` and `sample_weight`.
        targets: of a batch, may be symbolic; only their names and shapes are read.

    Raises:
        ValueError: if outputs and losses do not fit, or a target is missing.
        UsageError: if there is no loss of a name.
    """

    def __init__(self, model: Any, targets: TensorDict, outputs: TensorDict) -> None:
        owner, package = type(model).__name__, top_package(type(model).__module__)
        self._owner = owner
        losses = _by_output(declared(model, LOSS), outputs, f"{owner}.loss")
        missing = [name for name in outputs if name not in losses]
        if missing:
            raise ValueError(
                f"{owner}.loss: no loss for the output {shorten(missing[0])}: add one, or None if it is only predicted"
            )
        self._sample_weight = declared(model, SAMPLE_WEIGHT) or None
        targets = without_weights(model, targets)
        self._losses: dict[str, tuple[str, str, Any]] = {}
        is_only = sum(identifier is not None for identifier in losses.values()) == 1
        for output, identifier in losses.items():
            if identifier is None:
                continue
            target = target_of(output, targets, is_only, owner)
            name = LOSS if len(outputs) == 1 else f"{output}_{LOSS}"
            place = _place(owner, "loss", output, outputs)
            if isinstance(identifier, str) and identifier.lower() in _CROSSENTROPY:
                kind = _kind_of_classes(targets[target], outputs[output])
                loss = getattr(keras.losses, f"{kind}Crossentropy")()
            else:  # a `keras.losses.Loss`, or a function of target and output
                loss = _made(Loss, identifier, place, package)
            self._losses[name] = (target, output, loss)
        self._class_weights = self._weights_by_class(declared(model, CLASS_WEIGHT), targets, outputs)
        self.weights = self._weights_by_loss(declared(model, "loss_weights"), outputs, owner)

    def compute(self, targets: TensorDict, outputs: TensorDict, sample_weights: TensorDict) -> dict[str, Tensor]:
        """Return the losses of a batch: per sample, or a scalar where the loss reduces them in its own way."""
        values = {}
        for name, (target, output, loss) in self._losses.items():
            place = _place(self._owner, "loss", output, outputs)
            with shapes_named(place, {target: targets[target]}, {output: outputs[output]}):
                weights = [] if sample_weights.get(name) is None else [sample_weights[name]]
                if target in self._class_weights:
                    weights.append(ops.take(self._class_weights[target], ops.cast(targets[target], "int32")))
                if self._sample_weight is not None:
                    weights.append(targets[self._sample_weight])
                values[name] = _loss_values(loss, targets[target], outputs[output], weights, name)
        return values

    def _weights_by_class(self, given: Any, targets: TensorDict, outputs: TensorDict) -> dict[str, list[float]]:
        """Return the weights of the classes of each target, for classes that are whole numbers from 0."""
        if not given:
            return {}
        compared = {target: output for target, output, _ in self._losses.values()}
        place = f"{self._owner}.{CLASS_WEIGHT}"
        is_by_target = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
        by_target = given if is_by_target else dict.fromkeys(compared, given)
        tables = {}
        for target, weights in by_target.items():
            if target not in compared:
                raise ValueError(f"{place}: no loss is compared with a target {target}{did_you_mean(target, compared)}")
            if not keras.backend.is_int_dtype(targets[target].dtype):
                raise ValueError(f"{place}: the target {target} has no whole numbers, expected those of classes")
            count = max(outputs[compared[target]].shape[-1], 2)  # a probability tells two classes apart
            table = [weights.get(i, 1.0) for i in range(count)] if isinstance(weights, Mapping) else list(weights)
            if len(table) != count or (isinstance(weights, Mapping) and set(weights) - set(range(count))):
                raise ValueError(f"{place}: the target {target} has {count} classes, got {shorten(weights)}")
            tables[target] = table
        return tables

    def _weights_by_loss(self, given: Any, outputs: TensorDict, owner: str) -> dict[str, float] | None:
        if given is None:
            return None
        names = {output: name for name, (_, output, _) in self._losses.items()}
        weights = _by_output(given, outputs, f"{owner}.loss_weights")
        unused = sorted(set(weights) - set(names))
        if unused and isinstance(given, Mapping):
            raise ValueError(f"{owner}.loss_weights: the output {shorten(unused[0])} has no loss")
        return {names[output]: float(weight) for output, weight in weights.items() if output in names}


class DeclaredMetrics:
    """The metrics of a model, which it calls with targets and outputs.

    Args:
        model: declares `metrics`.
        targets: of a batch, may be symbolic; only their names and shapes are read.

    Raises:
        ValueError: if outputs and metrics do not fit, or a target is missing.
        UsageError: if there is no metric of a name.
    """

    def __init__(self, model: Any, targets: TensorDict, outputs: TensorDict) -> None:
        owner, package = type(model).__name__, top_package(type(model).__module__)
        self._owner = owner
        self._called: list[tuple[str, str, keras.metrics.Metric]] = []
        if declared(model, "weighted_metrics") is not None:
            raise ValueError(f"{owner}.weighted_metrics is not used: call metrics with sample_weight in _metric")
        targets = without_weights(model, targets)
        given = _metrics_by_output(declared(model, "metrics"), targets, outputs, f"{owner}.metrics")
        for output, identifiers in given.items():
            for identifier in identifiers if isinstance(identifiers, list | tuple) else [identifiers]:
                if identifier is None:
                    continue
                target = target_of(output, targets, True, owner)
                place = _place(owner, "metrics", output, outputs)
                metric = _made_metric(identifier, targets[target], outputs[output], place, package)
                if len(outputs) > 1:
                    metric.name = f"{output}_{metric.name}"
                self._called.append((target, output, metric))
        self.objects = [metric for _, _, metric in self._called]

    def call(self, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        """Update the metrics with a batch; return their results so far."""
        results = []
        for target, output, metric in self._called:
            place = f"{self._owner}.metrics {metric.name}"
            with shapes_named(place, {target: targets[target]}, {output: outputs[output]}):
                results.append(metric(targets[target], outputs[output]))
        return results


def without_weights(model: Any, targets: TensorDict) -> TensorDict:
    """Return the targets without the weights of the samples, which no output is compared with."""
    key = declared(model, SAMPLE_WEIGHT)
    if key and key not in targets:
        known = did_you_mean(key, targets)
        raise ValueError(f"{type(model).__name__}.{SAMPLE_WEIGHT}: no target is called {shorten(key)}{known}")
    return {name: target for name, target in targets.items() if name != key}


def target_of(output: str, targets: TensorDict, is_only: bool, owner: str) -> str:
    """Return the name of the target of an output: its own, or that of the only target."""
    if output in targets:
        return output
    if len(targets) == 1 and is_only:
        return next(iter(targets))
    raise ValueError(
        f"{owner}: no target is called {shorten(output)}, as this output{did_you_mean(output, targets)}; name the "
        "layer, or the key of the outputs, as its target, or give this output the loss None"
    )


def _place(owner: str, attribute: str, output: str, outputs: TensorDict) -> str:
    """Return where a model declares something for an output, for messages."""
    return f"{owner}.{attribute}" if len(outputs) == 1 else f"{owner}.{attribute}[{output!r}]"


def _by_output(given: Any, outputs: TensorDict, place: str) -> dict[str, Any]:
    """Return what is given for each output: a dict by name, a list in their order, or one value for all."""
    if given is None:
        raise ValueError(f"{place} is not declared: expected a loss for {', '.join(outputs)}")
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in outputs]
        if unknown:
            raise ValueError(f"{place}: there is no output {shorten(unknown[0])}{did_you_mean(unknown[0], outputs)}")
        return dict(given)
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != len(outputs):
            raise ValueError(
                f"{place} has {len(given)} values for the {len(outputs)} outputs {', '.join(outputs)}: give a dict "
                "by name"
            )
        return dict(zip(outputs, given, strict=True))
    return dict.fromkeys(outputs, given)


def _metrics_by_output(given: Any, targets: TensorDict, outputs: TensorDict, place: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping | list | tuple):
        given = [given]
    if isinstance(given, list | tuple):
        is_nested = bool(given) and all(item is None or isinstance(item, list | tuple) for item in given)
        if not is_nested:
            # Outputs without a target are only predicted.
            with_target = [name for name in outputs if name in targets or len(outputs) == 1]
            given = {name: given for name in with_target} or given
    return _by_output(given, outputs, place)


def _made(kind: type[KerasObject], identifier: Any, place: str, package: str) -> Any:
    """Return the object of Keras or of the user, or the function, that is declared by itself, its class or its name."""
    made = named = identifier
    if isinstance(identifier, str):
        try:  # a file may have put the name into a field: it imports no other package
            named = kind(checked_name(identifier, Trust.of([OwnPackage(package)]), place))
        except UntrustedName as error:
            raise UsageError(
                f"{error.refusal}: give the object instead of its name, or declare a field of the type {kind.__name__}"
            ) from error
    if isinstance(named, KerasObject):
        made = named.create()
    elif isinstance(identifier, type):
        made = identifier()
    return made


def _made_metric(identifier: Any, target: Tensor, output: Tensor, place: str, package: str) -> keras.metrics.Metric:
    spelled, name = "", None
    if isinstance(identifier, str):
        spelled = name = identifier
    elif isinstance(identifier, KerasObject):
        spelled, name = identifier.name, identifier.arguments.get("name")
    if spelled in _ACCURACY:
        made = getattr(keras.metrics, f"{_kind_of_classes(target, output)}Accuracy")()
        made.name = name or "accuracy"
        return made
    is_object = isinstance(identifier, keras.metrics.Metric)
    metric = _own_copy(identifier, place) if is_object else _made(Metric, identifier, place, package)
    if ":" in spelled:
        name = None
    elif spelled and name is None and inspect.signature(type(metric)).parameters["name"].default is None:
        # Without a name Keras counts the objects of the process.
        name = snake_case(type(metric).__name__)
    if not isinstance(metric, keras.metrics.Metric):
        name = getattr(getattr(metric, "func", metric), "__name__", "")
        name = name if name.isidentifier() else "metric"  # of a lambda
        metric = keras.metrics.MeanMetricWrapper(metric, name=name)
    if name is not None:
        metric.name = name
    if "sample_weight" in list(inspect.signature(metric.update_state).parameters)[:2]:
        kind = type(metric).__name__
        raise ValueError(f"{place}: {kind} takes values, expected a metric of targets and outputs: call it in _metric")
    return metric


def _own_copy(metric: keras.metrics.Metric, place: str) -> keras.metrics.Metric:
    """Return a metric without the state of the given one, which models of one class would share."""
    config, given = metric.get_config(), inspect.signature(type(metric)).parameters.values()
    lacking = [p.name for p in given if p.name not in config and p.kind is p.POSITIONAL_OR_KEYWORD]
    if lacking and not type(metric).__module__.startswith("keras."):
        raise ValueError(f"{place}: get_config() of {type(metric).__name__} lacks {', '.join(lacking)}")
    copy = type(metric).from_config(config)
    copy.name = metric.name
    return copy


def _kind_of_classes(target: Tensor, output: Tensor) -> str:
    """Return how Keras names losses and metrics of yes and no, classes, or categories, by the rule of `compile`."""
    if output.shape[-1] == 1:
        return "Binary"
    is_sparse = len(target.shape) < len(output.shape) or (target.shape[-1] == 1 and output.shape[-1] > 1)
    return "SparseCategorical" if is_sparse else "Categorical"


def _loss_values(loss: Any, target: Tensor, output: Tensor, given: Sequence[Tensor], name: str) -> Tensor:
    """Return the weighted values of the samples, or what the loss makes of them if it has a mask, or sums them."""
    if not isinstance(loss, keras.losses.Loss):
        loss = FunctionLoss(loss)
    y_true = keras.tree.map_structure(lambda x: ops.convert_to_tensor(x, dtype=loss.dtype), target)
    values = loss.call(y_true, ops.convert_to_tensor(output, dtype=loss.dtype))
    is_masked = mask_of(output) is not None or mask_of(values) is not None
    weights = None
    for factor in given:
        like = weights_like(factor, values, name)
        weights = like if weights is None else weights * like
    if loss.reduction in _MEANS and not is_masked:
        return values if weights is None else values * weights
    return loss(target, output, sample_weight=weights)
