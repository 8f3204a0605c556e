"""Params of the model of a scenario with everything that `tfaip-check-scenario` finds."""

from __future__ import annotations

from typing import Any

from tfaip.model.modelbaseparams import ModelBaseParams


class DatedModelParams(ModelBaseParams):
    """Params of the model."""

    @staticmethod
    def cls() -> Any:
        from test.scenario.dated.model import DatedModel

        return DatedModel

    def graph_cls(self) -> Any:
        from test.scenario.dated.model import DatedGraph

        return DatedGraph


class RanklessModelParams(DatedModelParams):
    """Params of the model with a metric of unknown rank."""

    @staticmethod
    def cls() -> Any:
        from test.scenario.dated.model import RanklessModel

        return RanklessModel
