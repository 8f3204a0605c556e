"""Epochs, buckets and validation data in real trainings."""

import logging
import os
import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer import line
from test.trainer.line import (
    LineModel,
    LineModelParams,
    LineScenario,
    LineTrainerParams,
    PointsParams,
    Weights,
    by_hand,
    line_params,
)
from test.trainer.rows import RowsDataParams, RowsParams
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator, Generator, RawDataGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.model.graphbase import GraphBase
from tfaip.scenario.scenario import Scenario
from tfaip.util.typing import TensorDict

SHAPES: list[tuple[int | None, ...]] = []


class Count(Generator):
    """Rows of 1, 2, 3, ... ones without end, one after the other; or in batches of this size."""

    batch_size: int = 0

    def generate(self) -> Iterator[Sample]:
        for number in count(1):
            if size := self.batch_size:
                yield Sample(inputs={"x": np.ones([size, number])}, targets={"y": np.zeros([size, 1])})
            else:
                yield Sample(inputs={"x": np.ones(number)}, targets={"y": [0.0]}, meta=number)

    def yields_batches(self) -> bool:
        return self.batch_size > 0


class SumsModelParams(LineModelParams, cls=LineModel):
    def graph_cls(self) -> type[GraphBase[Any]]:
        return SumsGraph


class SumsGraph(GraphBase[SumsModelParams]):
    def __init__(self, params: SumsModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.line = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        SHAPES.append(tuple(inputs["x"].shape))  # runs once for each compilation
        return {"y": self.line(ops.sum(inputs["x"], axis=1, keepdims=True))}


class SumsScenario(Scenario):
    data, model, train, val = RowsDataParams, SumsModelParams, DataGeneratorParams, DataGeneratorParams


def sums_params(lengths: list[int], output_dir: Path | None = None, **fields: Any) -> Any:
    """A training with rate 1; the loss is w * sum(x), so each batch takes its mean length from the weight."""
    params = SumsScenario.default_trainer_params()
    params.gen.train, params.gen.val = RowsParams(lengths=lengths), RowsParams()
    params.gen.setup.train.batch_size = 2
    return by_hand(params, output_dir, **fields)


train = partial(line.train, scenario=SumsScenario)


@pytest.mark.parametrize(
    ("lengths", "fields", "setup", "expected"),
    [
        # Batches (1, 2) (3, 4) (1, 2), then (3, 4) (1, 2) (3, 4).
        ([1, 2, 3, 4], {"scale_epoch_size": 1.5}, {}, [-6.5, -15.0]),
        ([1, 2, 3, 4], {}, {"limit": 2}, [-1.5, -3.0]),
        # Endless: (1, 2) (3, 4), then (5, 6) (7, 8); 3 batches of the generator with sums 1 2 3, then 4 5 6.
        (Count(), {"samples_per_epoch": 4}, {}, [-5.0, -18.0]),
        (Count(batch_size=5), {"samples_per_epoch": 3}, {}, [-6.0, -21.0]),
        # Buckets up to 3 and from 4: (5, 7), (1, 3) are full in the epoch of 3 batches, then the 2 is left over.
        # Epoch 1: (5, 7) 6, (1, 3) 2, (2) 2; epoch 2 begins with the next pass.
        ([1, 5, 7, 3, 2], {}, {"bucket_boundaries": [4]}, [-10.0, -20.0]),
        (
            [1, 5, 7, 3, 2, 3],
            {"epochs": 1, "samples_per_epoch": 6},
            {"bucket_boundaries": [4], "bucket_batch_sizes": [4, 1]},
            [-(5 + 7 + (1 + 3 + 2 + 3) / 4)],
        ),
    ],
)
def test_the_size_of_an_epoch(lengths, fields, setup, expected) -> None:
    params, weights = sums_params([], **{"epochs": 2, **fields}), Weights()
    params.gen.train = RowsParams(lengths=lengths) if isinstance(lengths, list) else lengths
    for name, value in setup.items():
        setattr(params.gen.setup.train, name, value)
    train(params, weights)
    assert weights.values == expected


LENGTHS = [3, 9, 1, 4, 12, 6, 2, 8, 5, 10, 7, 11, 3, 1, 9, 20]


def bucketed(output_dir: Path | None = None, **fields: Any) -> Any:
    params = sums_params(LENGTHS, output_dir, **fields)
    params.gen.setup.train.bucket_boundaries = [5, 9]
    params.gen.setup.train.max_element_length = 16
    params.gen.setup.train.shuffle_buffer_size = -1
    return params


@pytest.mark.guard
@pytest.mark.backend
def test_buckets_go_on_within_an_epoch(tmp_path: Path) -> None:
    def fail(number: int, logs: Any = None) -> None:
        if number == 5:
            raise ZeroDivisionError

    whole, resumed = Weights(), Weights()
    train(bucketed(epochs=3), whole)
    params = bucketed(tmp_path / "run", epochs=3, checkpoint_save_freq="1", steps_per_execution=1)
    with pytest.raises(ZeroDivisionError):
        train(params, line.CallbackOf(on_train_batch_end=fail))
    train(params, resumed, restore=True)
    assert resumed.values == whole.values


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="on TensorFlow shapes are not known")
@pytest.mark.backend
def test_jax_compiles_once_for_each_bucket() -> None:
    SHAPES.clear()
    params = bucketed(epochs=4)
    params.gen.setup.train.batch_drop_remainder = True
    train(params)
    # Those of the symbolic build are not known.
    compiled = [shape for shape in SHAPES if all(isinstance(size, int) for size in shape)]
    assert sorted(compiled) == [(2, 4), (2, 8), (2, 16)]


def with_validation(generator: Any, **fields: Any) -> LineTrainerParams:
    params = line_params([1, 2], **fields)
    params.gen.val = generator
    return params


@pytest.mark.parametrize("preload_data", [False, True])
def test_validation_data_without_a_sample_are_an_error(tmp_path: Path, preload_data: bool) -> None:
    (tmp_path / "header.csv").write_text("x,y\n")
    params = with_validation(CsvGeneratorParams(files=[str(tmp_path / "header.csv")]), preload_data=preload_data)
    with pytest.raises(UsageError, match=r"validation data \(CsvGeneratorParams\) have no sample"):
        LineScenario.create_trainer(params).train()


@pytest.mark.parametrize("preload_data", [False, True])
def test_a_missing_file_names_the_flag_of_its_generator(preload_data: bool) -> None:
    reason = f"No such file or directory in {re.escape(os.getcwd())}, where a relative path begins; change"
    for part in ("val", "train"):
        params = line_params([1], preload_data=preload_data)
        setattr(params.gen, part, CsvGeneratorParams(files=["missing.csv"], input_columns=["x"]))
        with pytest.raises(UsageError, match=f"^cannot read the CSV file missing.csv: {reason} --{part}.files$"):
            LineScenario.create_trainer(params).train()


class AbsentPointsParams(PointsParams):
    """Data that cannot be read."""

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        raise OSError("there are no validation data")


NO_VALIDATION: dict[str, tuple[Any, dict[str, Any]]] = {
    "no data": (PointsParams(), {}),
    "no files": (CsvGeneratorParams(), {"preload_data": True}),
    "no samples": (RawDataGeneratorParams(), {}),
    "val_every_n 0": (AbsentPointsParams(), {"val_every_n": 0}),
}


@pytest.mark.parametrize("name", NO_VALIDATION)
def test_training_without_validation(name: str, caplog: pytest.LogCaptureFixture) -> None:
    generator, fields = NO_VALIDATION[name]
    params = with_validation(generator, epochs=2, **fields)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        logs = LineScenario.create_trainer(params).train()
    assert set(logs) == {"loss", "loss/mean_epoch", "distance"}
    assert [m for m in caplog.messages if "validation" in m] == [
        "no validation: the best model follows loss/mean_epoch of the training"
    ]
    # The loss is -1 * 2 / 2 in epoch 1, (-3 * 1 - 4 * 2) / 2 in epoch 2.
    assert "Best epoch  loss/mean_epoch -5.5000 in epoch 2" in caplog.messages
