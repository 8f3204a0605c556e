"""Params of the model of both declarations."""

from __future__ import annotations

from tfaip import ModelBaseParams, option


class WavesModelParams(ModelBaseParams, cls=".model:WavesModel", graph_cls=".model:WavesGraph"):
    """Hyper-parameters of the model."""

    units: int = option(8, "Units of the hidden layer", low=1)
