"""Buckets and preloading in real trainings of a model with one weight: y = w * sum(x); padding changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer import line
from test.trainer.line import CallbackOf, LineModel, LineModelParams, Weights, by_hand
from test.trainer.rows import RowsDataParams, RowsParams
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.model.graphbase import GraphBase
from tfaip.params import pai_dataclass
from tfaip.params.settings import flags_of
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.build import Run, build_training
from tfaip.trainer.params import TrainerParams, TrainerPipelineParams
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stages.program import preview_stages
from tfaip.util.typing import TensorDict

JAX = keras.backend.backend() == "jax"
SHAPES: list[tuple[int | None, ...]] = []
READ: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SHAPES.clear()
    READ.clear()


@pai_dataclass
@dataclass
class CountParams(DataGeneratorParams):
    """Rows of 1, 2, 3, ... ones without end, one after the other; or in batches of this size."""

    batch_size: int = 0

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        return Count


class Count(DataGenerator[CountParams]):
    def generate(self) -> Iterator[Sample]:
        for number in count(1):
            if self.params.batch_size:
                size = self.params.batch_size
                yield Sample(inputs={"x": np.ones([size, number])}, targets={"y": np.zeros([size, 1])})
            else:
                yield Sample(inputs={"x": np.ones(number)}, targets={"y": [0.0]}, meta=number)

    def yields_batches(self) -> bool:
        return self.params.batch_size > 0


@pai_dataclass
@dataclass
class SeenParams(DataProcessorParams):
    @staticmethod
    def cls() -> type[MappingDataProcessor[Any]]:
        return Seen


class Seen(MappingDataProcessor[SeenParams]):
    """Notes which samples it gets."""

    def apply(self, sample: Sample) -> Sample:
        READ.append((self.mode.value, sample.meta))
        return sample


@pai_dataclass
@dataclass
class SumsModelParams(LineModelParams):
    @staticmethod
    def cls() -> type[LineModel]:
        return LineModel

    def graph_cls(self) -> type[GraphBase[Any]]:
        return SumsGraph


class SumsGraph(GraphBase[SumsModelParams]):
    def __init__(self, params: SumsModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.line = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        SHAPES.append(tuple(inputs["x"].shape))  # runs once for each compilation
        return {"y": self.line(ops.sum(inputs["x"], axis=1, keepdims=True))}


class SumsScenarioParams(ScenarioBaseParams[RowsDataParams, SumsModelParams]):
    pass


class SumsPipelineParams(TrainerPipelineParams[DataGeneratorParams, DataGeneratorParams]):
    pass


class SumsTrainerParams(TrainerParams[SumsScenarioParams, SumsPipelineParams]):
    pass


class SumsScenario(ScenarioBase[SumsScenarioParams, SumsTrainerParams]):
    pass


def sums_params(lengths: list[int], output_dir: Path | None = None, **fields: Any) -> SumsTrainerParams:
    """A training with rate 1; the loss is w * sum(x), so each batch takes its mean length from the weight."""
    params = SumsScenario.default_trainer_params()
    params.gen.train, params.gen.val = RowsParams(lengths=lengths), RowsParams()
    params.gen.setup.train.batch_size = 2
    return by_hand(params, output_dir, **fields)


train = partial(line.train, scenario=SumsScenario)


def weights_of(params: SumsTrainerParams, train_gen: DataGeneratorParams | None = None) -> list[float]:
    """The weight behind every epoch."""
    params.gen.train = params.gen.train if train_gen is None else train_gen
    weights = Weights()
    train(params, weights)
    return weights.values


def test_the_size_of_an_epoch() -> None:
    # Batches (1, 2) (3, 4) (1, 2), then (3, 4) (1, 2) (3, 4).
    assert weights_of(sums_params([1, 2, 3, 4], epochs=2, scale_epoch_size=1.5)) == [-6.5, -15.0]
    params = sums_params([1, 2, 3, 4], epochs=2)
    params.gen.setup.train.limit = 2
    assert weights_of(params) == [-1.5, -3.0]


def test_endless_data() -> None:
    # (1, 2) (3, 4), then (5, 6) (7, 8).
    assert weights_of(sums_params([], epochs=2, samples_per_epoch=4), CountParams()) == [-5.0, -18.0]


def test_batches_of_the_generator() -> None:
    # An epoch of 3 batches, with sums 1 2 3, then 4 5 6.
    assert weights_of(sums_params([], epochs=2, samples_per_epoch=3), CountParams(batch_size=5)) == [-6.0, -21.0]


@pytest.mark.slow
def test_endless_data_go_on_within_an_epoch(tmp_path: Path) -> None:
    def params(output_dir: Path | None) -> SumsTrainerParams:
        made = sums_params([], output_dir, epochs=3, samples_per_epoch=10, checkpoint_save_freq="1")
        made.gen.train, made.steps_per_execution = CountParams(), 1
        made.gen.setup.train.shuffle_buffer_size = 4
        return made

    with pytest.raises(ZeroDivisionError):
        train(params(tmp_path / "run"), StopAt(3))
    resumed = Weights()
    train(params(tmp_path / "run"), resumed, restore=True)
    assert resumed.values == weights_of(params(None))


def test_a_training_with_buckets() -> None:
    # Buckets up to 3 and from 4: batches (5, 7), (1, 3) are full in the epoch of 3 batches, then the 2 is left over.
    params = sums_params([1, 5, 7, 3, 2], epochs=2)
    params.gen.setup.train.bucket_boundaries = [4]
    weights = Weights()
    train(params, weights)
    # Epoch 1: (5, 7) 6, (1, 3) 2, (2) 2; epoch 2 begins with the next pass.
    assert weights.values == [-10.0, -20.0]


def test_each_bucket_has_its_size() -> None:
    params = sums_params([1, 5, 7, 3, 2, 3], samples_per_epoch=6)
    params.gen.setup.train.bucket_boundaries = [4]
    params.gen.setup.train.bucket_batch_sizes = [4, 1]
    weights = Weights()
    train(params, weights)
    assert weights.values == [-(5 + 7 + (1 + 3 + 2 + 3) / 4)]


def test_every_batch_can_be_split_on_the_devices() -> None:
    params = sums_params([1, 2, 3])
    params.gen.setup.train.bucket_boundaries, params.gen.setup.train.bucket_batch_sizes = [2], [4, 3]
    devices = Devices(names=("cpu:0", "cpu:1"), strategy="shares")
    message = "a batch of 3 samples .* on 2 devices: change --train.bucket_batch_sizes$"
    run = Run(params, preview_stages(params, SumsScenario), devices, StopRequest(), None, RunOutput(None))
    with pytest.raises(UsageError, match=message), flags_of(params, "trainer"):
        build_training(run, run.preview.stages[0], SumsScenario(params.scenario), {})


LENGTHS = [3, 9, 1, 4, 12, 6, 2, 8, 5, 10, 7, 11, 3, 1, 9, 20]


def bucketed(output_dir: Path | None = None, **fields: Any) -> SumsTrainerParams:
    params = sums_params(LENGTHS, output_dir, **fields)
    params.gen.setup.train.bucket_boundaries = [5, 9]
    params.gen.setup.train.max_element_length = 16
    params.gen.setup.train.shuffle_buffer_size = -1
    return params


class StopAt(keras.callbacks.Callback):
    """Interrupts a training behind a batch, as a debugger or an error of the user would."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.batch = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.batch:
            raise ZeroDivisionError


@pytest.mark.guard
@pytest.mark.backend
def test_a_bucketed_training_goes_on_within_an_epoch(tmp_path: Path) -> None:
    whole, resumed = Weights(), Weights()
    train(bucketed(epochs=3), whole)
    params = bucketed(tmp_path / "run", epochs=3, checkpoint_save_freq="1", steps_per_execution=1)
    with pytest.raises(ZeroDivisionError):
        train(params, StopAt(5))
    train(params, resumed, restore=True)
    assert resumed.values == whole.values


@pytest.mark.backend
def test_jax_compiles_once_for_each_bucket() -> None:
    params = bucketed(epochs=4)
    params.gen.setup.train.batch_drop_remainder = True
    train(params)
    # Those of the symbolic build, and of the graph on TensorFlow, are not known.
    compiled = sorted(shape for shape in SHAPES if all(isinstance(size, int) for size in shape))
    assert compiled == ([(2, 4), (2, 8), (2, 16)] if JAX else [])


@pytest.mark.guard
def test_preloaded_data_are_processed_once(caplog: pytest.LogCaptureFixture) -> None:
    def run(**fields: Any) -> tuple[list[float], list[tuple[str, int]]]:
        READ.clear()
        params = sums_params(LENGTHS, epochs=3, **fields)
        params.gen.setup.train.shuffle_buffer_size = -1
        params.gen.val = RowsParams(lengths=[2, 3])
        params.scenario.data.pre_proc.processors = [SeenParams()]
        values: list[float] = []
        ends = CallbackOf(on_epoch_end=lambda epoch, logs: values.extend([logs["loss"], logs["val_loss"]]))
        train(params, ends)
        return values, sorted(READ)

    plain, seen = run()
    assert len(seen) >= 3 * (16 + 2)
    with caplog.at_level("INFO"):
        preloaded, once = run(preload_data=True)
    assert preloaded == plain
    assert once == [("evaluation", 0), ("evaluation", 1), *(("training", index) for index in range(16))]
    assert [message for message in caplog.messages if "is in memory after" in message][0].startswith("training data")
