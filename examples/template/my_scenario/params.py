"""Hyper-parameters of the model.

Model and graph are named by strings and imported when they are built: `--help` must not wait for Keras.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaip.imports import ModelBaseParams
from tfaip.params import pai_dataclass, pai_meta


@pai_dataclass
@dataclass
class MyModelParams(ModelBaseParams, cls=".model:MyModel", graph_cls=".graph:MyGraph"):
    """Options of the model; each field is a flag, here `--model.units`."""

    units: list[int] = field(default_factory=lambda: [32, 32], metadata=pai_meta(help="Units of each hidden layer"))
