"""Hyper-parameters of the tutorial's model and of its two graphs.

The classes that they describe are named by `cls` and `graph_cls` and imported when a model is built, so this module
loads no numeric backend.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import pai_dataclass, pai_meta


@pai_dataclass
@dataclass
class GraphParams(LayerBaseParams):
    """Options that both graphs have."""

    dropout: float = field(default=0.2, metadata=pai_meta(help="Dropout rate of the features"))


@pai_dataclass
@dataclass
class MLPGraphParams(GraphParams, cls=".graph:MLPGraph"):
    """Fully connected layers."""

    units: list[int] = field(
        default_factory=lambda: [256, 128], metadata=pai_meta(help="Units of each layer, e.g. 256 128")
    )


@pai_dataclass
@dataclass
class CNNGraphParams(GraphParams, cls=".graph:CNNGraph"):
    """Convolutions with pooling, then one fully connected layer."""

    filters: list[int] = field(
        default_factory=lambda: [32, 64],
        metadata=pai_meta(help="Filters of each convolution; after each one the image is half as large"),
    )
    kernel_size: int = field(default=3, metadata=pai_meta(help="Height and width of a filter in pixels"))
    units: int = field(default=128, metadata=pai_meta(help="Units of the fully connected layer"))


@pai_dataclass
@dataclass
class TutorialModelParams(ModelBaseParams, cls=".model:TutorialModel", graph_cls=".graph:TutorialGraph"):
    """Hyper-parameters of the tutorial's model."""

    graph: GraphParams = field(
        default_factory=CNNGraphParams,
        metadata=pai_meta(choices=[MLPGraphParams, CNNGraphParams], help="Layers that turn an image into features"),
    )
