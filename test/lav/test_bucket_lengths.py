"""LAV and prediction of data in buckets: on JAX one compilation for each, with the results that TensorFlow has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from test.trainer.test_data_options import LENGTHS, SHAPES, RowsParams, SumsScenario
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.lav.evaluation import PredictionEvaluation
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Predictor

pytestmark = pytest.mark.backend

JAX = keras.backend.backend() == "jax"
GENERATOR = RowsParams(lengths=LENGTHS)  # from 1 to 20


@pytest.fixture(scope="module")
def scenario() -> SumsScenario:
    """Its model gives the length of a row."""
    made = SumsScenario(SumsScenario.default_params())
    made.graph.predict(made.data.create_input_layers())
    made.graph.set_weights([np.ones([1, 1])])
    return made


@pytest.fixture(params=[[], [5, 9]], ids=["no buckets", "buckets"])
def pipeline(request: pytest.FixtureRequest) -> Iterator[DataPipelineParams]:
    SHAPES.clear()
    yield DataPipelineParams(batch_size=1, bucket_boundaries=request.param, num_processes=0)
    SHAPES.clear()


def compiled_lengths() -> set[int | None]:
    return {shape[1] for shape in SHAPES}


def expected_lengths(pipeline: DataPipelineParams) -> set[int | None]:
    """Buckets end with 4 and 8; what is longer stays as it is. TensorFlow compiles the first one and all others."""
    if not JAX:
        return {LENGTHS[0], None}
    return {4, 8, 9, 10, 11, 12, 20} if pipeline.bucket_boundaries else set(LENGTHS)


def by_number(samples: list[Sample]) -> list[float]:
    return [sample.outputs["y"].item() for sample in sorted(samples, key=lambda sample: sample.meta)]


def test_prediction(scenario: SumsScenario, pipeline: DataPipelineParams) -> None:
    params = PredictorParams(silent=True, pipeline=pipeline)
    predictor = Predictor(params, scenario.data)
    predictor.set_model(scenario.graph)
    samples = list(predictor.predict(GENERATOR))
    assert by_number(samples) == LENGTHS
    assert compiled_lengths() == expected_lengths(pipeline)
    assert len(SHAPES) == len(compiled_lengths())


def test_lav(scenario: SumsScenario, pipeline: DataPipelineParams) -> None:
    evaluation = PredictionEvaluation(scenario, pipeline, silent=True)
    SHAPES.clear()  # of the symbolic build
    samples: list[Any] = []
    evaluation.run(GENERATOR, samples.append)
    assert by_number(samples) == LENGTHS
    assert compiled_lengths() == expected_lengths(pipeline)
