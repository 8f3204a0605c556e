"""Params classes of a user, in a module that nothing imports but the command line."""

from __future__ import annotations

from dataclasses import dataclass

from test.params.cli_params import LayerParams, OptimizerParams
from tfaip.params import pai_dataclass


@pai_dataclass
@dataclass
class OwnOptimizer(OptimizerParams):
    power: float = 2.0


@pai_dataclass
@dataclass
class OwnLayerParams(LayerParams):
    size: int = 5
