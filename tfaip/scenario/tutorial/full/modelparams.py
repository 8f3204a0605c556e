"""Hyper-parameters of the tutorial's model and of its two graphs.

The classes that they describe are named by `cls` and `graph_cls` and imported when a model is
built, so this module loads no numeric backend.
"""

from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import option


class GraphParams(LayerBaseParams):
    """Options that both graphs have."""

    dropout: float = option(0.2, "Dropout rate of the features")


class MLPGraphParams(GraphParams, cls=".graph:MLPGraph"):
    """Fully connected layers."""

    units: list[int] = option([256, 128], "Units of each layer, e.g. 256 128", low=1)


class CNNGraphParams(GraphParams, cls=".graph:CNNGraph"):
    """Convolutions with pooling, then one fully connected layer."""

    filters: list[int] = option([32, 64], "Filters of each convolution; after each one the image is half as large")
    kernel_size: int = option(3, "Height and width of a filter in pixels")
    units: int = option(128, "Units of the fully connected layer")


class TutorialModelParams(ModelBaseParams, cls=".model:TutorialModel", graph_cls=".graph:TutorialGraph"):
    """Hyper-parameters of the tutorial's model."""

    graph: GraphParams = option(
        CNNGraphParams(), "Layers that turn an image into features", choices=[MLPGraphParams, CNNGraphParams]
    )
