"""Graphs: the layers of a model, in one version for training and one for prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from tfaip.model.layerbase import ParamsLayer
from tfaip.util.typing import Tensor, TensorDict

P = TypeVar("P")


class GenericGraphBase(ParamsLayer[P], Generic[P]):
    """A graph whose training and prediction paths differ (for example an encoder with a decoder).

    Create the layers in `__init__` and call them in the two build functions. Use `train` and `predict` to call a
    graph, also from inside another graph, and eagerly with NumPy arrays.

    Args:
        params: the model params, or those of the graph alone.
    """

    def build_train_graph(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        """Outputs (name -> tensor) for training and validation; `training` is a Python bool."""
        raise NotImplementedError(f"override build_train_graph in {type(self).__name__} and return {{name: tensor}}")

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        """Outputs (name -> tensor) for prediction and export."""
        raise NotImplementedError(
            f"override build_prediction_graph in {type(self).__name__} and return {{name: tensor}}"
        )

    def pre_proc_targets(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        """Targets as the graph, the losses and the metrics see them; default: unchanged."""
        return targets

    def train(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        """Call the training graph; `training=None` inherits the value of the calling graph (outermost: False)."""
        # Keras takes an explicit None for a value, and would inherit nothing.
        given = {} if training is None else {"training": training}
        return self(inputs, targets=targets, **given)

    def predict(self, inputs: TensorDict) -> TensorDict:
        """Call the prediction graph.

        Args:
            inputs: a batch by name.

        Raises:
            TypeError: if `inputs` is no dict.
        """
        if not isinstance(inputs, Mapping):
            raise TypeError(
                f"predict of {type(self).__name__} takes a dict of a batch by name, as in {{'x': array}}, got "
                f"{type(inputs).__name__}"
            )
        return self(inputs, training=False)

    def __call__(self, *args: Any, **kwargs: Any) -> TensorDict:
        """As in Keras, but a graph that calls another one keeps its own `training`.

        Keras hands `training` on through a context, in which a nested call leaves its value: behind a
        `self.decoder.predict(...)` no dropout of the calling graph would act any more.
        """
        context = self._get_call_context()
        training = context.get_value("training")
        try:
            return super().__call__(*args, **kwargs)
        finally:
            context.set_value("training", training)
            self._maybe_reset_call_context()

    def call(self, inputs: TensorDict, targets: TensorDict | None = None, training: bool | None = None) -> Tensor:
        """Dispatch for Keras: without `targets` this is the prediction graph."""
        if targets is None:
            return self.build_prediction_graph(inputs)
        return self.build_train_graph(inputs, targets, training=bool(training))


def require_outputs(graph: GenericGraphBase[Any], outputs: Any) -> TensorDict:
    """Return the outputs of the root graph of a model.

    Raises:
        TypeError: if they are no dict.
    """
    if not isinstance(outputs, Mapping):
        raise TypeError(
            f"{type(graph).__name__} returns {type(outputs).__name__}, expected a dict of tensors by name, as in "
            "{'y': tensor}"
        )
    return dict(outputs)


class GraphBase(GenericGraphBase[P], Generic[P]):
    """A graph that is the same for training and prediction: override `build_graph`."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        """Outputs (name -> tensor); `training` is a Python bool."""
        raise NotImplementedError(f"override build_graph in {type(self).__name__} and return {{name: tensor}}")

    def build_train_graph(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        return self.build_graph(inputs, training=training)

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        return self.build_graph(inputs, training=False)
