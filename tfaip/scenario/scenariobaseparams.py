"""Params of a scenario, at the path that scenarios import them from."""

from tfaip.components.params import ScenarioBaseParams

__all__ = ["ScenarioBaseParams"]
