"""A scenario in the style of tfaip 1.2, which that version and this one run unchanged: two kinds of short waves.

tfaip 1.2 trained it by `git show c6765723:test/data/former/write.py`. Nothing here may be written in a newer way.
"""

from dataclasses import dataclass, field
from typing import List, Tuple

import numpy as np
from paiargparse import pai_dataclass, pai_meta

from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.imports import (
    DataBase,
    DataBaseParams,
    DataGeneratorParams,
    EvaluatorBase,
    ModelBaseParams,
    Sample,
    ScenarioBase,
    ScenarioBaseParams,
    TrainerPipelineParams,
)


@pai_dataclass
@dataclass
class ScaleParams(DataProcessorParams):
    factor: float = field(default=0.5, metadata=pai_meta(help="Factor on the waves"))

    @staticmethod
    def cls():
        return Scale


class Scale(MappingDataProcessor[ScaleParams]):
    def apply(self, sample: Sample) -> Sample:
        return sample.new_inputs({**sample.inputs, "wave": sample.inputs["wave"] * np.float32(self.params.factor)})


@pai_dataclass
@dataclass
class NameClassParams(DataProcessorParams):
    names: List[str] = field(default_factory=lambda: ["sine", "square"])

    @staticmethod
    def cls():
        return NameClass


class NameClass(MappingDataProcessor[NameClassParams]):
    def apply(self, sample: Sample) -> Sample:
        best = int(np.argmax(sample.outputs["prob"]))
        return sample.new_outputs({**sample.outputs, "name": self.params.names[best]})


@pai_dataclass
@dataclass
class WaveDataParams(DataBaseParams):
    length: int = field(default=6, metadata=pai_meta(help="Points of a wave"))

    @staticmethod
    def cls():
        return WaveData


class WaveData(DataBase[WaveDataParams]):
    @classmethod
    def default_params(cls):
        params = super().default_params()
        params.pre_proc = SequentialProcessorPipelineParams(run_parallel=False, processors=[ScaleParams()])
        params.post_proc = SequentialProcessorPipelineParams(run_parallel=False, processors=[NameClassParams()])
        return params

    def _input_layer_specs(self):
        import tensorflow as tf

        return {"wave": tf.TensorSpec([self.params.length, 1], "float32")}

    def _target_layer_specs(self):
        import tensorflow as tf

        return {"form": tf.TensorSpec([1], "int32")}


@pai_dataclass
@dataclass
class WaveGeneratorParams(DataGeneratorParams):
    size: int = field(default=24, metadata=pai_meta(help="Number of waves"))
    seed: int = 1

    @staticmethod
    def cls():
        return WaveGenerator


class WaveGenerator(DataGenerator[WaveGeneratorParams]):
    def __len__(self):
        return self.params.size

    def generate(self):
        rng = np.random.default_rng(self.params.seed)
        for index in range(self.params.size):
            time = (rng.random() + np.linspace(0, 1, 6)) % 1
            wave = [np.sin(2 * np.pi * time), np.sign(time - 0.5)][index % 2]
            inputs = {"wave": wave[:, None].astype("float32")}
            yield Sample(inputs=inputs, targets={"form": np.array([index % 2], "int32")}, meta={"index": index})


@pai_dataclass
@dataclass
class WaveModelParams(ModelBaseParams):
    units: List[int] = field(default_factory=lambda: [5, 4], metadata=pai_meta(help="Units of each layer"))
    steps: int = 3
    # Nothing reads these: 1.2 stored values that do not fit the annotations, too.
    window: Tuple[int, int, int] = (1, 1, 1)
    limit: int = 0

    @staticmethod
    def cls():
        from test.support.former.model import WaveModel

        return WaveModel

    def graph_cls(self):
        from test.support.former.model import WaveGraph

        return WaveGraph


@pai_dataclass
@dataclass
class WaveScenarioParams(ScenarioBaseParams[WaveDataParams, WaveModelParams]):
    pass


@pai_dataclass
@dataclass
class WavePipelineParams(TrainerPipelineParams[WaveGeneratorParams, WaveGeneratorParams]):
    pass


class WaveEvaluator(EvaluatorBase):
    def __enter__(self):
        self.hits = []
        return super().__enter__()

    def update_state(self, sample: Sample):
        self.hits.append(sample.outputs["name"] == ["sine", "square"][int(sample.targets["form"][0])])

    def result(self):
        return {"named": float(np.mean(self.hits))}


class WaveScenario(ScenarioBase[WaveScenarioParams, WavePipelineParams]):
    @classmethod
    def evaluator_cls(cls):
        return WaveEvaluator

    @classmethod
    def default_trainer_params(cls):
        params = super().default_trainer_params()
        params.epochs = 3
        params.learning_rate.lr = 0.02
        params.gen.setup.train.batch_size = 4
        params.gen.setup.val.batch_size = 4
        params.gen.setup.train.num_processes = 1
        params.gen.setup.val.num_processes = 1
        params.gen.val.size = 8
        params.gen.val.seed = 2
        return params
