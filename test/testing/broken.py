"""A scenario with the mistakes that the ready tests find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from keras import ops

from test.support.tiny.model import TinyGraph, TinyModel
from test.support.tiny.scenario import TinyGenerator, TinyScenario, TinyTrainerParams
from tfaip.imports import (
    DataProcessorParams,
    MappingDataProcessor,
    Sample,
    SequentialProcessorPipelineParams,
    Trainer,
    WarmStarter,
)
from tfaip.util.typing import TensorDict


class UnseededParams(DataProcessorParams):
    """Noise that no checkpoint knows of."""

    @staticmethod
    def cls() -> type[Unseeded]:
        return Unseeded


class Unseeded(MappingDataProcessor[UnseededParams]):
    def apply(self, sample: Sample, *args: Any, **kwargs: Any) -> Sample:
        if self.mode.value != "training":
            return sample
        return sample.new_inputs({"x": sample.inputs["x"] + np.random.default_rng().normal(size=4).astype("float32")})


class MixingGraph(TinyGraph):
    """Reads the other samples of the batch."""

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = inputs["x"]
        return super().build_graph({"x": x - ops.mean(x, axis=0)}, training)


class MixingModel(TinyModel):
    def root_graph_cls(self) -> type[MixingGraph]:
        return MixingGraph


class ForgetfulTrainer(Trainer[Any]):
    """Leaves out a layer of a warm start."""

    def create_warmstarter(self) -> WarmStarter:
        return WarmStarter(replace(self.params.warmstart, exclude="out/.*"))


class CountedParams(TinyGenerator):
    """Have one more sample whenever they are made."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples += 1


class BrokenScenario(TinyScenario):
    """All of it."""

    @classmethod
    def model_cls(cls) -> type[MixingModel]:
        return MixingModel

    @classmethod
    def trainer_cls(cls) -> type[ForgetfulTrainer]:
        return ForgetfulTrainer

    @classmethod
    def default_trainer_params(cls) -> TinyTrainerParams:
        params = super().default_trainer_params()
        params.scenario.data.pre_proc = SequentialProcessorPipelineParams(processors=[UnseededParams()])
        params.scenario.export_serve = True
        return params
