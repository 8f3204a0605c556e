"""Base class of models: losses, metrics and further definitions around a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import keras

from tfaip.backend.kerastools import metrics_named_by
from tfaip.errors import UsageError
from tfaip.model.declared import DeclaredLosses, DeclaredMetrics
from tfaip.model.kerasgraph import KerasGraph
from tfaip.model.layerbase import WithScheduledValues
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params.names import top_package
from tfaip.params.types import type_argument
from tfaip.util.classes import check_hook_names, construct, overrides, refuse_uncalled
from tfaip.util.oldnames import old_names
from tfaip.util.typing import Tensor, TensorDict

if TYPE_CHECKING:
    from tfaip.data.data import DataBase
    from tfaip.data.pipeline.definitions import Sample
    from tfaip.model.graphbase import ExportGraph, GenericGraphBase

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

P = TypeVar("P", bound=ModelBaseParams)
_HOOKS = (
    *("build_model", "loss", "metrics", "loss_weights", "params_cls", "root_graph_cls", "create_graph"),
    *("_loss", "_loss_weights", "_metric", "_sample_weights", "_best_logging_settings", "_print_evaluate"),
    *("_tensorboard", "_export_graphs", "pre_proc_targets", "post_proc_targets", "all_custom_objects"),
)


class ModelBase(WithScheduledValues, Generic[P]):
    """Definition of losses and metrics on the outputs of a graph.

    Override the methods with a leading underscore. Metrics are Keras metric objects that are attributes of the model
    (or in lists, tuples or dicts that are, on any level); `_metric` calls them.

    Or bring a Keras model: override `build_model`, and declare `loss`, `metrics` and `loss_weights` as
    `keras.Model.compile` takes them, as attributes or as methods of `self` alone. `class_weight` are the weights of the
    classes (a list, or a dict by class or target; only a field of the params is stored with a run),
    `sample_weight` is the key of the target that holds the weight of each sample; both apply to the losses in training,
    validation and LAV. What is not declared is taken from fields of the params with these names.

    Args:
        params: the model params.
    """

    loss: Any = None
    metrics: Any = None
    loss_weights: Any = None
    class_weight: Any = None
    sample_weight: str | None = None
    data_of: Callable[[], DataBase[Any]] | None = None
    """Function that returns the data of the scenario; None: the model was not made by a scenario."""
    _losses_declared: DeclaredLosses | None = None
    _metrics_declared: DeclaredMetrics | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, ModelBase, _HOOKS, needed={"build_model": ["_loss"]})
        refuse_uncalled(cls, ModelBase, dict.fromkeys(("_target_output_metric", "_multi_metric"), "_metric"))
        has_weights = bool(cls.class_weight or cls.sample_weight)
        if has_weights and all(overrides(cls, ModelBase, hook) for hook in ("build_model", "_loss")):
            raise UsageError(
                f"{cls.__name__} has class_weight or sample_weight, which weight declared losses, but computes "
                "its own in _loss: override _sample_weights, or declare loss"
            )

    def __init__(self, params: P, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._params = params
        self.metric_counts: dict[str, int] = {}  # see `metrics_named_by`

    @classmethod
    def params_cls(cls) -> type[P]:
        """Return the params class that the model was declared with."""
        return type_argument(cls, ModelBase, 0)

    @classmethod
    def all_custom_objects(cls) -> dict[str, type]:
        """Return the layers, losses, metrics and the like that are not part of Keras, by name.

        They are what `keras.saving.load_model` and `keras.saving.custom_object_scope` take: all that are imported, so
        import the module of the graph first.
        """
        found: dict[str, type] = {}
        classes: list[type] = list(_KINDS)
        for kind in classes:  # it grows: classes below the kinds are searched too
            subclasses: list[type] = type.__subclasses__(kind)
            classes += subclasses
            found |= {cls.__name__: cls for cls in subclasses if top_package(cls.__module__) != "keras"}
        return found

    @property
    def params(self) -> P:
        """The params that the model was built from."""
        return self._params

    @property
    def data(self) -> DataBase[Any]:
        """The data of the scenario, also while the graph is built.

        Raises:
            AttributeError: if the model belongs to no scenario.
        """
        if self.data_of is None:
            raise AttributeError(f"{type(self).__name__}.data: the model was not made by a scenario")
        return self.data_of()

    @data.setter
    def data(self, data: DataBase[Any]) -> None:
        self.data_of = lambda: data

    def build_model(self) -> keras.layers.Layer:
        """Return the layers of the model as a `keras.Model` (Sequential, functional, a subclass), or any layer.

        `self.params` and `self.data` are known. Inputs and targets are matched with the data by name, see
        `tfaip.model.kerasgraph.KerasGraph`.
        """
        raise NotImplementedError(f"override build_model in {type(self).__name__}, or name a graph class")

    def root_graph_cls(self) -> type[GenericGraphBase[Any]]:
        """Return the class of the outermost graph, which gets the model params; default: `params.graph_cls()`."""
        return self._params.graph_cls()

    def create_graph(self, **kwargs: Any) -> GenericGraphBase[Any]:
        """Build the outermost graph; `kwargs` are further constructor arguments.

        The params build it (`ModelBaseParams.create_graph`) unless the model names another class.
        """
        if self.brings_network():
            specs = None if self.data_of is None else self.data.input_layer_specs()
            owner = type(self).__name__
            with metrics_named_by(self.metric_counts):
                network = self.build_model()
            return KerasGraph(self._params, network, specs, owner, name="graph", **kwargs)
        params, graph_cls = self._params, self.root_graph_cls()
        if overrides(type(params), ModelBaseParams, "graph_cls") and params.graph_cls() is graph_cls:
            return params.create_graph(name="graph", **kwargs)
        graph: GenericGraphBase[Any] = construct(graph_cls, params, name="graph", **kwargs)
        return graph

    def brings_network(self) -> bool:
        """Return True if `build_model` makes the graph."""
        return overrides(type(self), ModelBase, "build_model")

    def prepare_declared(self, targets: TensorDict, outputs: TensorDict) -> None:
        """Create the declared losses and metrics before Keras traces them, which wraps their errors in long texts.

        Args:
            targets: of the data, symbolic.
            outputs: of the graph, symbolic.
        """
        hooks = ("pre_proc_targets", "post_proc_targets")
        if self.brings_network() and not any(overrides(type(self), ModelBase, hook) for hook in hooks):
            if not overrides(type(self), ModelBase, "_loss"):
                self.declared_losses(targets, outputs)
            self.make_metrics(targets, outputs)

    def declared_losses(self, targets: TensorDict, outputs: TensorDict) -> DeclaredLosses:
        """Return the declared losses, made at the first call."""
        if not self.brings_network():
            raise NotImplementedError(f"override _loss in {type(self).__name__} and return {{name: tensor}}")
        if self._losses_declared is None:
            self._losses_declared = DeclaredLosses(self, targets, outputs)
        return self._losses_declared

    def make_metrics(self, targets: TensorDict, outputs: TensorDict) -> None:
        """Create the declared metrics; done once, before the first call of `_metric`."""
        if self.brings_network() and self._metrics_declared is None:
            with metrics_named_by(self.metric_counts):
                self._metrics_declared = DeclaredMetrics(self, targets, outputs)

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        """Return losses by name, each of any shape: averaged, weighted by `_loss_weights`, summed."""
        return self.declared_losses(targets, outputs).compute(targets, outputs, {})

    def _loss_weights(self) -> dict[str, float] | None:
        """Return the weights of the losses by name; a loss that is not named has weight 1."""
        return None if self._losses_declared is None else self._losses_declared.weights

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        """Return the results of called Keras metrics, e.g. `[self.accuracy(targets["gt"], outputs["class"])]`."""
        return [] if self._metrics_declared is None else self._metrics_declared.call(targets, outputs)

    def _sample_weights(self, inputs: TensorDict, targets: TensorDict) -> dict[str, Tensor]:
        """Return weights by the name of the loss: per sample (`[batch]`, `[batch, 1]`) or step (`[batch, time]`).

        Declared losses get them as their `sample_weight`. What `_loss` returns is multiplied by them and must not be
        a scalar.
        """
        return {}

    def _best_logging_settings(self) -> tuple[str, str]:
        """Return mode ("min" or "max") and name (without `val_`) of the logged value that tells the best model."""
        return "min", "loss/mean_epoch"

    def _print_evaluate(self, sample: Sample, data: DataBase[Any], print_fn: Callable[[str], None]) -> None:
        """Print one predicted sample with its targets; default: nothing."""

    def _tensorboard(self) -> dict[str, Any]:
        """Return further values for TensorBoard: tag -> image, `PrecisionRecallCurve`, number, or a dict of these.

        Called when the metrics hold all of an epoch, of a validation, or of the data of a LAV generator, for instance
        with `return {"pr": PrecisionRecallCurve.of_metric(self.auc)}`; kinds as in `TensorboardWriter`.
        """
        return {}

    def _export_graphs(
        self, graph: GenericGraphBase[Any]
    ) -> Mapping[str, Callable[[TensorDict], TensorDict] | ExportGraph]:
        """Return the functions to export, `inputs -> outputs`, by name; the first is the default of the SavedModel.

        Default: the prediction graph as `serve`. A function that reads some of the inputs only is given as
        `ExportGraph(function, inputs=["x"])`; others cannot be fed to it then.
        """
        return {"serve": graph.predict}

    def pre_proc_targets(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        """Return the targets as the graph, the losses and the metrics see them; default: unchanged."""
        return targets

    def post_proc_targets(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> TensorDict:
        """Return the targets as the losses and the metrics see them, after the graph ran; default: unchanged."""
        return targets

    def metric_objects(self) -> list[keras.metrics.Metric]:
        """Return all metric objects found on the attributes of the model, in the order of the attributes."""
        declared = [] if self._metrics_declared is None else self._metrics_declared.objects
        values = keras.tree.flatten([*vars(self).values(), declared])
        return list({id(value): value for value in values if isinstance(value, keras.metrics.Metric)}.values())


_KINDS = (
    keras.layers.Layer,
    keras.losses.Loss,
    keras.metrics.Metric,
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
)
