"""Params of a model; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfaip.params import ParamsBase, pai_dataclass

if TYPE_CHECKING:
    from tfaip.model.graphbase import GenericGraphBase
    from tfaip.model.modelbase import ModelBase


@pai_dataclass
@dataclass
class ModelBaseParams(ParamsBase):
    """Hyper-parameters of a model. A subclass names its model and its graph in `cls` and `graph_cls`.

    Both import the implementation inside the method, so that params stay free of any backend.
    """

    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        """The `ModelBase` subclass that these params describe."""
        raise NotImplementedError("override cls() of the model params and return your ModelBase subclass")

    def graph_cls(self) -> type[GenericGraphBase[Any]]:
        """The graph class; may depend on the params."""
        raise NotImplementedError("override graph_cls() of the model params and return your GraphBase subclass")

    def create(self, **kwargs: Any) -> ModelBase[Any]:
        """Build the model."""
        return self.cls()(self, **kwargs)

    def create_graph(self, **kwargs: Any) -> GenericGraphBase[Any]:
        """Build the graph (a `keras.layers.Layer`)."""
        return self.graph_cls()(self, **kwargs)
