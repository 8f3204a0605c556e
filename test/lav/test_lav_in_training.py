"""LAV during training: the prediction graph, the post-processing and the evaluator at the end of epochs."""

import signal
from dataclasses import field

import keras
import numpy as np
import pytest

from test.support.tiny.model import TinyGraph, TinyModel
from test.support.tiny.scenario import TinyData, TinyGenerator, TinyModelParams, TinyScenario
from tfaip.data.pipeline.processor.dataprocessor import MappingDataProcessor
from tfaip.data.pipeline.processor.params import DataProcessorParams, SequentialProcessorPipelineParams
from tfaip.device import Precision
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.imports import GenericGraphBase, ScenarioBase, ScenarioBaseParams, TrainerParams, TrainerPipelineParams
from tfaip.params import pai_meta
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.signals import TrainingInterrupted


class TwoGraphs(GenericGraphBase[TinyModelParams]):
    """Predicts ten more than it trains."""

    def __init__(self, params, **kwargs):
        super().__init__(params, **kwargs)
        self.inner = TinyGraph(params)

    def build_train_graph(self, inputs, targets, training=None):
        return self.inner.train(inputs, targets, training=training)

    def build_prediction_graph(self, inputs):
        return {"y": self.inner.predict(inputs)["y"] + 10.0}


class LavModel(TinyModel):
    """What tells the best model is a param."""

    def _best_logging_settings(self):
        return "min", self.params.monitor

    def _print_evaluate(self, sample, data, print_fn):
        print_fn(f"sample {float(sample.outputs['y'][0]):.1f}")


class LavModelParams(TinyModelParams, cls=":LavModel"):
    monitor: str = field(default="loss/mean_epoch", metadata=pai_meta(help="Tells the best model"))

    def graph_cls(self):
        return TwoGraphs


class HalveParams(DataProcessorParams, cls=":Halve"):
    """Post-processing."""


class Halve(MappingDataProcessor[HalveParams]):
    def apply(self, sample):
        return sample.new_outputs({"y": sample.outputs["y"] / 2})


class Means(EvaluatorBase[EvaluatorParams]):
    def __enter__(self):
        self.outputs, self.targets = [], []
        return self

    def update_state(self, sample):
        self.outputs.append(float(sample.outputs["y"][0]))
        self.targets.append(float(sample.targets["y"][0]))

    def result(self):
        return {
            "samples": len(self.outputs),
            "mean_output": np.mean(self.outputs),
            "mean_target": np.mean(self.targets),
            "list": self.outputs,
        }


class LavScenarioParams(ScenarioBaseParams[TinyData, LavModelParams]):
    """Data and model."""


class TwoLavGenerators(TrainerPipelineParams[TinyGenerator, TinyGenerator]):
    """Loads and validates on 5 and on 7 points."""

    def lav_gen(self):
        return [TinyGenerator(samples=5, seed=3), TinyGenerator(samples=7, seed=4)]


class LavTrainerParams(TrainerParams[LavScenarioParams, TwoLavGenerators]):
    """Options of the training."""


class LavScenario(ScenarioBase[LavScenarioParams, LavTrainerParams]):
    """A prediction graph of its own, post-processing, an evaluator, two LAV generators."""

    @classmethod
    def evaluator_cls(cls):
        return Means


class Epochs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.logs = []

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(dict(logs))


def lav_params(**kwargs):
    params = LavScenario.default_trainer_params()
    params.scenario.export_serve = False
    params.scenario.data.post_proc = SequentialProcessorPipelineParams(processors=[HalveParams()])
    params.epochs, params.random_seed, params.lav_every_n = 3, 7, 1
    params.learning_rate = ConstantParams(lr=0.01)
    params.export_best = params.export_final = False
    for name, value in kwargs.items():
        setattr(params, name, value)
    return params


def train(params, scenario=LavScenario, restore=False):
    epochs = Epochs()
    trainer = scenario.create_trainer(params, restore=restore)
    trainer.train([epochs])
    return epochs.logs, trainer


def points(samples, seed):
    x = np.random.default_rng(seed).normal(size=(samples, 4)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


@pytest.mark.backend
def test_values_are_those_of_the_prediction_graph_after_the_post_processing():
    logs, trainer = train(lav_params())
    inner = trainer.scenario.graph.inner
    for i, (samples, seed) in enumerate([(5, 3), (7, 4)]):
        x, y = points(samples, seed)
        hidden = np.maximum(x @ np.array(inner.hidden.kernel) + np.array(inner.hidden.bias), 0)
        raw = hidden @ np.array(inner.out.kernel) + np.array(inner.out.bias) + 10.0
        expected = {
            "samples": samples,
            "mean_output": np.mean(raw / 2),  # post-processed
            "mean_target": np.mean(y),
            "mse": np.mean((raw - y) ** 2),  # of the graph
            "mae": np.mean(np.abs(raw - y)),
        }
        for name, value in expected.items():
            # float32 sums in another order.
            assert logs[-1][f"lav_l{i}_{name}"] == pytest.approx(value, rel=1e-5)
        assert logs[-1][f"lav_l{i}_loss"] == logs[-1][f"lav_l{i}_loss/mean_epoch"] == logs[-1][f"lav_l{i}_mse"]
        assert f"lav_l{i}_list" not in logs[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every_n", "min_epoch", "stops", "expected"),
    [
        (0, 0, False, []),
        (1, 0, False, [1, 2, 3, 4, 5, 6, 7]),
        (3, 0, False, [1, 3, 6, 7]),
        (3, 4, False, [6, 7]),
        (100, 7, False, [7]),
        # The epoch after which a training stops early is the last one.
        (100, 0, True, [1, 4]),
        (100, 5, True, []),
    ],
)
def test_epochs_with_lav(every_n, min_epoch, stops, expected):
    params = lav_params(epochs=7, lav_every_n=every_n, lav_min_epoch=min_epoch, samples_per_epoch=8)
    if stops:
        params.early_stopping, params.learning_rate = EarlyStoppingParams(n_to_go=4), ConstantParams(lr=0.0)
    logs, _ = train(params)
    assert len(logs) == (4 if stops else 7)
    assert [epoch for epoch, values in enumerate(logs, start=1) if "lav_l0_mse" in values] == expected


@pytest.mark.slow
def test_lav_that_never_runs_is_said_with_its_flag(caplog):
    for min_epoch in (2, 3):
        train(lav_params(epochs=2, lav_min_epoch=min_epoch, samples_per_epoch=8))
    said = [record.getMessage() for record in caplog.records if "LAV never runs" in record.getMessage()]
    assert said == ["LAV never runs: --trainer.lav_min_epoch is 3, after the last epoch"]


def test_by_default_lav_uses_the_validation_data_and_its_batches_do_not_matter():
    params = TinyScenario.default_trainer_params()
    params.epochs, params.random_seed, params.lav_every_n = 2, 7, 1
    params.gen.setup.val.batch_size = 3
    (values, *_), _ = train(params, TinyScenario)
    # One graph for both here: the same numbers as the validation, up to the order of float32 sums.
    for name in ("loss", "mse", "mae"):
        assert values[f"lav_l0_{name}"] == pytest.approx(values[f"val_{name}"], rel=1e-6)
    assert not any(name.startswith("lav_l1") for name in values)


class AttentionGraph(GenericGraphBase[TinyModelParams]):
    """Each of the four inputs attends to all of them."""

    def __init__(self, params, **kwargs):
        super().__init__(params, **kwargs)
        self.wide, self.out = keras.layers.Dense(8), keras.layers.Dense(1)
        self.attention = keras.layers.MultiHeadAttention(2, 4)

    def build_train_graph(self, inputs, targets, training=None):
        x = self.wide(inputs["x"][..., None])
        return {"y": self.out(self.attention(x, x)[:, 0])}

    def build_prediction_graph(self, inputs):
        return self.build_train_graph(inputs, {})


class AttentionModelParams(TinyModelParams, cls="test.support.tiny.model:TinyModel"):
    def graph_cls(self):
        return AttentionGraph


@pytest.mark.guard
@pytest.mark.backend
def test_lav_is_the_validation_also_with_attention_in_half_precision():
    params = TinyScenario.default_trainer_params()
    params.scenario.model, params.scenario.export_serve = AttentionModelParams(), False
    params.epochs, params.random_seed, params.lav_every_n, params.skip_model_load_test = 1, 7, 1, True
    params.device.precision = Precision.MIXED_BFLOAT16
    ((values,), _) = train(params, TinyScenario)
    for name in ("loss", "mse", "mae"):
        assert values[f"lav_l0_{name}"] == pytest.approx(values[f"val_{name}"], rel=1e-6)


@pytest.mark.slow
@pytest.mark.backend
def test_lav_sees_the_averaged_weights_and_does_not_change_the_training():
    still, _ = train(lav_params(learning_rate=ConstantParams(lr=0.0)))
    averaged, _ = train(lav_params(calc_ema=0.999999))
    # With such a rate the average stays at the initial weights for these few updates.
    assert averaged[0]["lav_l0_mse"] == pytest.approx(still[0]["lav_l0_mse"], rel=1e-3)
    assert averaged[-1]["mse"] < 0.9 * still[-1]["mse"]
    without, _ = train(lav_params(calc_ema=0.999999, lav_every_n=0))
    assert [{n: v for n, v in epoch.items() if not n.startswith("lav_")} for epoch in averaged] == without


@pytest.mark.slow
@pytest.mark.parametrize("monitor", ["lav_l1_mean_output", "val_mean_output"])
def test_the_best_model_and_early_stopping_follow_a_lav_value(monitor, tmp_path):
    params = lav_params(
        epochs=20,
        learning_rate=ConstantParams(lr=0.0),
        early_stopping=EarlyStoppingParams(n_to_go=3),
        output_dir=str(tmp_path / "run"),
        export_best=True,
    )
    params.scenario.model.monitor = monitor
    logs, trainer = train(params)
    assert len(logs) == 3
    assert trainer.params.early_stopping.monitor == monitor.replace("val_", "lav_l0_")
    assert (tmp_path / "run" / "best" / "weights.safetensors").exists()
    assert (tmp_path / "run" / "lav_l1").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("generators", [[], [TinyGenerator(samples=5), TinyGenerator(samples=0)]])
def test_lav_without_data_is_refused_before_the_training(generators, monkeypatch, tmp_path):
    monkeypatch.setattr(TwoLavGenerators, "lav_gen", lambda self: generators)
    with pytest.raises(UsageError, match=r"--trainer.lav_every_n is 1, but there are no data .* or leave it out"):
        train(lav_params(output_dir=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()
    assert len(train(lav_params(lav_every_n=0, epochs=1))[0]) == 1


@pytest.mark.slow
def test_a_name_that_is_given_twice_is_refused(monkeypatch):
    monkeypatch.setattr(Means, "result", lambda self: {"mae": 1.0})
    with pytest.raises(UsageError, match="the evaluator returns mae"):
        train(lav_params())


@pytest.mark.slow
def test_samples_are_printed_up_to_the_limit(tmp_path):
    def printed(name, **kwargs):
        params = lav_params(epochs=1, output_dir=str(tmp_path / name), **kwargs)
        params.scenario.print_eval_limit = 2
        train(params)
        return (tmp_path / name / "train.log").read_text().count(": sample ")

    assert printed("loud", lav_silent=False) == 4  # two of each generator
    assert printed("silent") == 0  # the default
    assert printed("validated", val_silent=False, lav_every_n=0) == 2


@pytest.mark.guard
def test_a_signal_during_lav_is_obeyed_and_the_run_goes_on_exactly(tmp_path, monkeypatch):
    expected, _ = train(lav_params())

    class Interrupted(Means):
        def update_state(self, sample):
            super().update_state(sample)
            if len(self.outputs) == 4:
                signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(LavScenario, "evaluator_cls", classmethod(lambda cls: Interrupted))
    with pytest.raises(TrainingInterrupted):
        train(lav_params(output_dir=str(tmp_path / "run")))
    monkeypatch.setattr(LavScenario, "evaluator_cls", classmethod(lambda cls: Means))
    resumed, _ = train(lav_params(output_dir=str(tmp_path / "run")), restore=True)
    assert resumed == expected
