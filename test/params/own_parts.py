"""Params classes of a user, in a module that nothing imports but the command line."""

from __future__ import annotations

from test.params.cli_params import LayerParams, OptimizerParams


class OwnOptimizer(OptimizerParams):
    power: float = 2.0


class OwnLayerParams(LayerParams):
    size: int = 5
