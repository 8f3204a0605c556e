"""The predictor: order, laziness, what a sample holds, and the kinds of models."""

import itertools
import re
import shutil
import weakref

import keras
import numpy as np
import pytest

from test.lav.test_lav_in_training import Halve, HalveParams
from test.support.tiny.scenario import TinyData, TinyGenerator, TinyScenario
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import GeneratingDataProcessor, MappingDataProcessor
from tfaip.data.pipeline.processor.params import DataProcessorParams, SequentialProcessorPipelineParams
from tfaip.device import DeviceConfigParams, Precision
from tfaip.errors import TfaipError, UsageError
from tfaip.export.modelloading import load_exported
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Predictor
from tfaip.scenario.tutorial.full.data import Part, TutorialGenerator
from tfaip.scenario.tutorial.full.scenario import TutorialScenario


class DoubleParams(DataProcessorParams, cls=":Double"):
    """Pre-processing."""


class Double(MappingDataProcessor[DoubleParams]):
    def apply(self, sample):
        return sample.new_inputs({"x": sample.inputs["x"] * 2})


class TwiceParams(DataProcessorParams, cls=":Twice"):
    """Makes two samples of one."""


class Twice(GeneratingDataProcessor[TwiceParams]):
    def generate(self, samples):
        for sample in samples:
            yield sample
            yield sample


def data_with(pre=(), post=()):
    params = TinyData()
    params.pre_proc = SequentialProcessorPipelineParams(processors=list(pre))
    params.post_proc = SequentialProcessorPipelineParams(processors=list(post))
    return params.create()


@pytest.fixture(scope="module")
def graph():
    """Random weights."""
    scenario = TinyScenario(TinyScenario.default_params())
    scenario.graph.predict(scenario.data.create_input_layers())
    return scenario.graph


def expected_outputs(graph, x):
    hidden = np.maximum(x @ np.array(graph.hidden.kernel) + np.array(graph.hidden.bias), 0)
    return hidden @ np.array(graph.out.kernel) + np.array(graph.out.bias)


def points(samples):
    return np.random.default_rng(1).normal(size=(samples, 4)).astype("float32")


def predictor_of(graph, data=None, batch_size=4, **kwargs):
    params = PredictorParams(silent=True, **kwargs)
    params.pipeline.batch_size = batch_size
    predictor = Predictor(params, data or data_with())
    predictor.set_model(graph)
    return predictor


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_samples_come_one_by_one_in_order_processed_before_and_after(graph, run_eagerly):
    data = data_with([DoubleParams()], [HalveParams()])
    predictor = predictor_of(graph, data, run_eagerly=run_eagerly)
    samples = list(predictor.predict(TinyGenerator(samples=10)))
    x = 2 * points(10)
    np.testing.assert_array_equal([sample.inputs["x"] for sample in samples], x)
    same_outputs(samples, expected_outputs(graph, x) / 2)
    assert [(sample.targets, sample.meta) for sample in samples] == [(None, None)] * 10
    benchmark = predictor.benchmark_results
    assert (benchmark.samples, benchmark.batches) == (10, 3)
    assert 0 < benchmark.model_s <= benchmark.wall_s
    # Other data, and a pipeline in its own mode, whose targets were not asked for.
    doubled, generator = data_with([DoubleParams()]), TinyGenerator(samples=6)
    pipeline = doubled.create_pipeline(predictor.params.pipeline, generator).to_mode(PipelineMode.EVALUATION)
    for others in (predictor.predict_database(doubled, generator), predictor.predict_pipeline(pipeline)):
        others = list(others)
        same_outputs(others, expected_outputs(graph, 2 * points(6)))
        assert {sample.targets for sample in others} == {None}


def same_outputs(samples, expected):
    """float32 sums in another order."""
    np.testing.assert_allclose([s.outputs["y"] for s in samples], expected, rtol=1e-5, atol=1e-6)


def test_targets_and_meta_are_kept_as_asked(graph, monkeypatch):
    samples = [Sample(inputs={"x": x}, targets={"y": x[:1]}, meta={"id": i}) for i, x in enumerate(points(5))]
    seen = []
    monkeypatch.setattr(Halve, "apply", lambda self, sample: seen.append(sample.meta["id"]) or sample)

    def kept(**kwargs):
        predictor = predictor_of(graph, data_with(post=[HalveParams()]), **kwargs)
        return [(s.targets, s.meta) for s in predictor.predict_raw(samples)]

    assert kept() == [(None, {"id": i}) for i in range(5)]
    assert kept(include_meta=False) == [(None, None)] * 5
    both = kept(include_targets=True)
    assert [meta["id"] for _, meta in both] == list(range(5))
    np.testing.assert_array_equal([targets["y"] for targets, _ in both], points(5)[:, :1])
    assert seen == [*range(5)] * 3  # the post-processing has the meta, whatever is kept
    without = [Sample(inputs={"x": x}) for x in points(3)]
    assert len(list(predictor_of(graph).predict_raw(without))) == 3
    with pytest.raises(TfaipError, match="no valid sample"):
        list(predictor_of(graph, include_targets=True).predict_raw(without))


def test_bare_inputs_and_arrays_are_samples_without_targets(graph):
    x, predictor = points(3), predictor_of(graph)
    expected = expected_outputs(graph, x)
    for given in (x, list(x), iter(x), [{"x": row} for row in x], ({"x": row} for row in x)):
        samples = list(predictor.predict_raw(given))
        same_outputs(samples, expected)
        assert [(s.targets, s.meta) for s in samples] == [(None, None)] * 3
    with predictor.raw() as raw:
        same_outputs([raw({"x": x[1]}), raw(x[1])], expected[[1, 1]])


def test_endless_data_are_read_as_samples_are_taken_and_not_kept(graph):
    alive = weakref.WeakSet()
    given = itertools.count()

    class Row(np.ndarray):
        """Can be referred to weakly by identity."""

        __hash__ = object.__hash__
        __eq__ = object.__eq__

    def endless():
        for number in given:
            row = np.full(4, number, np.float32).view(Row)
            alive.add(row)
            yield Sample(inputs={"x": row}, meta=number)

    samples = predictor_of(graph, batch_size=8).predict_raw(endless())
    assert next(given) == 0  # nothing was read before the first sample is asked for
    numbers, most = [], 0
    for sample in itertools.islice(samples, 800):
        numbers.append(sample.meta)
        most = max(most, len(alive))
    assert numbers == list(range(1, 801))
    # Batches are made whole, and some are read ahead.
    assert most <= 8 * 16
    assert next(given) <= 801 + 8 * 16
    samples.close()


def test_single_samples(graph, monkeypatch):
    monkeypatch.setattr(TinyData, "element_length_fn", lambda self, sample: 4)
    predictor = predictor_of(graph, data_with([DoubleParams()], [HalveParams()]))
    pipeline = predictor.params.pipeline
    # A single sample is no remainder.
    pipeline.bucket_boundaries, pipeline.bucket_batch_sizes, pipeline.batch_drop_remainder = [9], [2, 2], True
    raw = predictor.raw()
    for i, x in enumerate(points(3)):
        sample = raw(Sample(inputs={"x": x}, meta=i))
        same_outputs([sample], expected_outputs(graph, 2 * x[None]) / 2)
        assert sample.meta == i
    with pytest.raises(TfaipError, match="made 2 samples of one"):
        predictor_of(graph, data_with([TwiceParams()])).raw()(Sample(inputs={"x": points(1)[0]}))


@pytest.mark.backend
def test_changed_weights_count_from_the_next_model_on(graph):
    predictor = predictor_of(graph)
    bias = np.array(graph.out.bias)
    try:
        (before,) = predictor.predict(TinyGenerator(samples=1))
        graph.out.bias.assign(bias + 1)
        predictor.set_model(graph)
        (after,) = predictor.predict(TinyGenerator(samples=1))
    finally:
        graph.out.bias.assign(bias)
    assert after.outputs["y"] - before.outputs["y"] == pytest.approx(1, abs=1e-6)


def test_a_keras_model_and_a_function():
    inputs = {"x": keras.Input((4,), name="x")}
    model = keras.Model(inputs, {"sum": keras.ops.sum(inputs["x"], axis=-1)})
    for function in (model, lambda batch: {"sum": batch["x"].sum(axis=-1)}):
        got = [float(s.outputs["sum"]) for s in predictor_of(function).predict(TinyGenerator(samples=5))]
        assert got == pytest.approx(points(5).sum(axis=1), rel=1e-5)
    for function, shape in [(lambda batch: {"y": batch["x"].sum()}, "[]"), (lambda b: {"y": b["x"][1:]}, "[3, 4]")]:
        message = f"output 'y' of the model has the shape {re.escape(shape)} for 4 samples"
        with pytest.raises(TfaipError, match=message):
            list(predictor_of(function).predict(TinyGenerator(samples=4)))


@pytest.mark.backend
def test_a_model_directory_and_its_saved_model(tutorial):
    generator = TutorialGenerator(part=Part.VAL)
    predictor = TutorialScenario.create_predictor(tutorial / "best", PredictorParams(silent=True, progress_bar=False))
    expected = list(predictor.predict(generator))
    assert [sample.meta for sample in expected] == list(range(360))
    for model in (tutorial / "best", str(tutorial / "best" / "serve")):
        predictor.set_model(model)
        got = list(predictor.predict(generator))
        for name in ("logits", "prob"):
            both = ([s.outputs[name] for s in samples] for samples in (got, expected))
            np.testing.assert_allclose(*both, rtol=1e-5, atol=1e-6)
        assert [int(s.outputs["class"]) for s in got] == [int(s.outputs["class"]) for s in expected]


def test_what_is_no_model(tutorial, tmp_path):
    predictor = Predictor(PredictorParams(), data_with())
    for use in (lambda: predictor.predict(TinyGenerator()), predictor.raw):
        with pytest.raises(UsageError, match="call set_model"):
            use()
    with pytest.raises(UsageError, match="does not fit the data"):
        predictor.set_model(tutorial / "best" / "serve")
    shutil.copy(tutorial / "best" / "scenario_params.json", tmp_path)
    with pytest.raises(TfaipError, match="weights.safetensors cannot be read"):
        load_exported(tmp_path)


@pytest.mark.backend
def test_half_precision_gives_outputs_in_float32(tutorial):
    probabilities = []
    for precision in (Precision.FLOAT32, Precision.MIXED_BFLOAT16):
        params = PredictorParams(silent=True, progress_bar=False, device=DeviceConfigParams(precision=precision))
        samples = TutorialScenario.create_predictor(tutorial / "best", params).predict(TutorialGenerator(part=Part.VAL))
        probabilities.append(np.stack([sample.outputs["prob"] for sample in itertools.islice(samples, 100)]))
    full, half = probabilities
    assert full.dtype == half.dtype == np.float32
    # bfloat16 has 8 bits: 0.4 % per operation, and a softmax has a slope of at most 1/4 per logit.
    assert 0 < np.max(np.abs(full - half)) < 0.1


@pytest.mark.parametrize("value", [{"x": np.ones((3, 4))}, "x", 3, Sample(inputs={})])
def test_what_is_no_data_is_said_at_the_call(graph, value):
    predictor = predictor_of(graph)
    with pytest.raises(TypeError, match=r"predict takes the params of a data generator, got \w+: .*predict_raw\("):
        predictor.predict(value)
    with pytest.raises(TypeError, match=r"predict_raw takes several samples or inputs, as in predict_raw\(\[") as error:
        predictor.predict_raw(value)
    assert len(str(error.value)) <= 300
