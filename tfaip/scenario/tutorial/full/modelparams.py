"""Hyper-parameters of the tutorial's model and of its two graphs; imports no backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import pai_dataclass, pai_meta

if TYPE_CHECKING:
    from tfaip.scenario.tutorial.full.graph import CNNGraph, MLPGraph, TutorialGraph
    from tfaip.scenario.tutorial.full.model import TutorialModel


@pai_dataclass
@dataclass
class GraphParams(LayerBaseParams):
    """What the graphs have in common."""

    dropout: float = field(default=0.2, metadata=pai_meta(help="Share of the features dropped before classification"))


@pai_dataclass
@dataclass
class MLPGraphParams(GraphParams):
    """Fully connected layers."""

    units: list[int] = field(
        default_factory=lambda: [256, 128], metadata=pai_meta(help="Units of each layer, e.g. 256 128")
    )

    @staticmethod
    def cls() -> type[MLPGraph]:
        from tfaip.scenario.tutorial.full.graph import MLPGraph

        return MLPGraph


@pai_dataclass
@dataclass
class CNNGraphParams(GraphParams):
    """Convolutions with pooling, then one fully connected layer."""

    filters: list[int] = field(
        default_factory=lambda: [32, 64],
        metadata=pai_meta(help="Filters of each convolution; after each one the image is half as large"),
    )
    kernel_size: int = field(default=3, metadata=pai_meta(help="Height and width of a filter in pixels"))
    units: int = field(default=128, metadata=pai_meta(help="Units of the fully connected layer"))

    @staticmethod
    def cls() -> type[CNNGraph]:
        from tfaip.scenario.tutorial.full.graph import CNNGraph

        return CNNGraph


@pai_dataclass
@dataclass
class TutorialModelParams(ModelBaseParams):
    """Hyper-parameters of the tutorial's model."""

    graph: GraphParams = field(
        default_factory=CNNGraphParams,
        metadata=pai_meta(choices=[MLPGraphParams, CNNGraphParams], help="Layers that turn an image into features"),
    )

    @staticmethod
    def cls() -> type[TutorialModel]:
        from tfaip.scenario.tutorial.full.model import TutorialModel

        return TutorialModel

    def graph_cls(self) -> type[TutorialGraph]:
        from tfaip.scenario.tutorial.full.graph import TutorialGraph

        return TutorialGraph
