"""Graphs: the layers of a model, in one version for training and one for prediction."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

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

    @abstractmethod
    def build_train_graph(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        """Outputs (name -> tensor) for training and validation; `training` is a Python bool."""

    @abstractmethod
    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        """Outputs (name -> tensor) for prediction and export."""

    def pre_proc_targets(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        """Targets as the graph, the losses and the metrics see them; default: unchanged."""
        return targets

    def train(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        """Call the training graph; `training=None` inherits the value of the calling graph (outermost: False)."""
        return self(inputs, targets=targets, training=training)

    def predict(self, inputs: TensorDict) -> TensorDict:
        """Call the prediction graph."""
        return self(inputs, training=False)

    def call(self, inputs: TensorDict, targets: TensorDict | None = None, training: bool | None = None) -> Tensor:
        """Dispatch for Keras: without `targets` this is the prediction graph."""
        if targets is None:
            return self.build_prediction_graph(inputs)
        return self.build_train_graph(inputs, targets, training=bool(training))


class GraphBase(GenericGraphBase[P], Generic[P]):
    """A graph that is the same for training and prediction: override `build_graph`."""

    @abstractmethod
    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        """Outputs (name -> tensor); `training` is a Python bool."""

    def build_train_graph(self, inputs: TensorDict, targets: TensorDict, training: bool | None = None) -> TensorDict:
        return self.build_graph(inputs, training=training)

    def build_prediction_graph(self, inputs: TensorDict) -> TensorDict:
        return self.build_graph(inputs, training=False)
