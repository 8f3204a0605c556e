"""The data of a training, which travels with its models: what LAV evaluates on by default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.serialization import load_params
from tfaip.scenario.loading import Scenario
from tfaip.trainer.params import TrainerPipelineParamsBase

TRAINING_DATA_FILE = "training_data.json"


@pai_dataclass
@dataclass
class TrainingDataParams(ParamsBase):
    """Where the data of a training came from."""

    gen: TrainerPipelineParamsBase = field(metadata=pai_meta(help="As in the trainer params"))
    random_seed: int = field(default=0, metadata=pai_meta(help="Seed of the data"))


def load_training_data(path: Path, scenario: Scenario, trusted: Iterable[str] = ()) -> TrainingDataParams | None:
    """The data that the model in a directory was trained with; None: no training wrote it.

    Args:
        path: directory of the model.
        scenario: its class.
        trusted: packages that the file may name classes of, besides tfaip and the scenario's own.

    Raises:
        UsageError: the file is damaged, or names what it must not.
    """
    file = path / TRAINING_DATA_FILE
    if not file.is_file():
        return None
    return load_params(file, TrainingDataParams, trusted=[scenario.__module__.split(".")[0], *trusted])
