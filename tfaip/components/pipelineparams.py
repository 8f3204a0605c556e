"""Params of the training and validation data of a scenario; needs no backend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.params import ParamsBase, option, pai_meta
from tfaip.params.types import bound_field

if TYPE_CHECKING:
    from tfaip.data.data import DataBase
    from tfaip.data.pipeline.datapipeline import DataPipeline

TTrain = TypeVar("TTrain", bound=DataGeneratorParams)
TVal = TypeVar("TVal", bound=DataGeneratorParams)


class TrainerPipelines(ParamsBase):
    """Pipelines of the training and of the validation data."""

    train: DataPipelineParams = option(help="Training pipeline", factory=DataPipelineParams, fix_dc=True, mode="flat")
    val: DataPipelineParams = option(help="Validation pipeline", factory=DataPipelineParams, fix_dc=True, mode="flat")


class TrainerPipelineParamsBase(ParamsBase, Generic[TTrain, TVal]):
    """Source of the data of a training; subclass this to build the generators in code."""

    setup: TrainerPipelines = option(factory=TrainerPipelines, fix_dc=True, mode="ssnake")

    @abstractmethod
    def train_gen(self) -> TTrain:
        """Return the generator of the training data."""
        raise NotImplementedError

    @abstractmethod
    def val_gen(self) -> TVal | None:
        """Return the generator of the validation data; None: no validation."""
        raise NotImplementedError

    def lav_gen(self) -> Iterable[DataGeneratorParams]:
        """Return the generators to load and validate on; default: that of the validation data."""
        generator = self.val_gen()
        return [] if generator is None else [generator]

    def train_data(self, data: DataBase[Any]) -> DataPipeline:
        """Return the pipeline of the training data, which the data keep; the trainer gives it its seed."""
        return data.get_or_create_pipeline(self.setup.train, self.train_gen())

    def val_data(self, data: DataBase[Any]) -> DataPipeline | None:
        """Return the pipeline of the validation data; None: no validation."""
        generator = self.val_gen()
        setup = replace(self.setup.val, mode=PipelineMode.EVALUATION)
        return None if generator is None else data.get_or_create_pipeline(setup, generator)

    def lav_data(self, data: DataBase[Any]) -> Iterable[DataPipeline]:
        """Return the pipelines to load and validate on, one for each generator of `lav_gen`."""
        return [data.create_pipeline(self.setup.val, generator) for generator in self.lav_gen()]


class TrainerPipelineParams(TrainerPipelineParamsBase[TTrain, TVal], Generic[TTrain, TVal]):
    """One generator for training, one for validation."""

    train: TTrain = bound_field(pai_meta(mode="ssnake", help="Generator of the training data"))
    val: TVal = bound_field(pai_meta(mode="ssnake", help="Generator of the validation data"))

    def train_gen(self) -> TTrain:
        return self.train

    def val_gen(self) -> TVal | None:
        return self.val


TrainingPipelineGeneratorParams = TrainerPipelineParams
