"""Hyper-parameters of the model. Nothing here imports keras: the command line must not wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfaip.imports import ModelBaseParams
from tfaip.params import pai_dataclass, pai_meta

if TYPE_CHECKING:
    from my_scenario.graph import MyGraph
    from my_scenario.model import MyModel


@pai_dataclass
@dataclass
class MyModelParams(ModelBaseParams):
    """Each field is a flag, here `--model.units`."""

    units: list[int] = field(default_factory=lambda: [32, 32], metadata=pai_meta(help="Units of each hidden layer"))

    @staticmethod
    def cls() -> type[MyModel]:
        from my_scenario.model import MyModel

        return MyModel

    def graph_cls(self) -> type[MyGraph]:
        from my_scenario.graph import MyGraph

        return MyGraph
