"""Masks of Keras and weights of samples: what counts in losses, metrics, LAV and votes."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from test.model.support import keras_inputs, logged, training_model
from test.trainer.line import by_hand
from tfaip import Data, Generator, Sample, Scenario, Spec
from tfaip.device import Precision
from tfaip.device.devices import precision_scope
from tfaip.lav.lav import VOTED
from tfaip.layers.stochasticdepth import StochasticDepth
from tfaip.model.graphbase import MASKS
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.predictionstep import OUTPUTS, EvaluationModel, EvaluationStep, ScoringModel
from tfaip.model.trainingmodel import TrainingModel
from tfaip.predict.params import LAVParams
from tfaip.util.typing import TensorDict

SHAPES = ({"x": (None, 1)}, {"y": (None, 1)})
# The network returns its input, so a target of 0 makes |error| = x: 1 2 3 6 and 4; three steps are padding.
PADDED = np.array([[1, 2, 3, 6], [4, 0, 0, 0]], np.float32)[..., None]
INPUTS, TARGETS = {"x": PADDED}, {"y": np.zeros_like(PADDED)}
# (1 + 2 + 3 + 6 + 4) / 5 and (1 + 4 + 9 + 36 + 16) / 5.
RIGHT = pytest.approx({"loss": 3.2, "mse": 13.2})


class Counting(layers.Layer):
    """Adds the number of calls so far, which a call changes also where nothing is trained."""

    def build(self, input_shape: Any) -> None:
        self.calls = self.add_weight(name="calls", shape=(), initializer="zeros", trainable=False)

    def call(self, inputs: Any) -> Any:
        self.calls.assign_add(1.0)
        return inputs + self.calls


class PaddedParams(ModelBaseParams, cls=":PaddedModel"):
    kind: str = "masking"
    factor: float = 1.0


class PaddedModel(ModelBase[PaddedParams]):
    """One output, `factor` times the input, with a mask, which a layer may cast, wrap or drop."""

    def __init__(self, params: Any, loss: Any = "mae", metrics: Any = ("mse",)) -> None:
        super().__init__(PaddedParams(kind=params) if isinstance(params, str) else params)
        self.kind, self.loss, self.metrics = self.params.kind, loss, list(metrics)

    def build_model(self) -> keras.Model:
        if self.kind == "counting":
            return keras.Sequential([Counting(name="y")])
        x, factor = keras.Input((None, 1), name="x"), keras.initializers.Constant(self.params.factor)
        dense = layers.Dense(1, use_bias=False, kernel_initializer=factor, name="y")
        if self.kind == "embedding":
            table = keras.initializers.Constant(np.arange(7.0)[:, None])
            return keras.Model(
                x, layers.Embedding(7, 1, mask_zero=True, embeddings_initializer=table, name="y")(x[..., 0])
            )
        y = x if self.kind == "plain" else layers.Masking(0.0)(x)
        if self.kind == "wrapped":
            y = StochasticDepth(layers.Dense(1, use_bias=False, kernel_initializer="zeros"), 1.0)(y)
        if self.kind == "cast":
            y = layers.Activation("linear", dtype="float32")(y)
        return keras.Model(x, dense(y))

    def _sample_weights(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        return {"loss": targets["weight"]} if "weight" in targets else {}


def built(model: ModelBase[Any], **further: tuple[int, ...]) -> TrainingModel:
    """The model that `fit` runs, with the shapes of further targets."""
    return training_model(model, model.create_graph(), (SHAPES[0], {**SHAPES[1], **further}))


def scored(model: ModelBase[Any], cls: type[EvaluationModel], inputs: TensorDict) -> tuple[EvaluationStep, Any, Any]:
    """The step that has scored a batch, its outputs and its values."""
    scores = cls(model, model.create_graph())
    scores.build_symbolically(keras_inputs(SHAPES[0]), keras_inputs(SHAPES[1]))
    step = EvaluationStep(scores)
    step.reset()
    outputs = step(inputs, TARGETS)
    return step, outputs, step.result()


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("kind", ["masking", "embedding", "wrapped", "cast"])
@pytest.mark.parametrize("precision", list(Precision))
def test_a_mask_reaches_losses_and_metrics_in_all_precisions(precision: Precision, kind: str) -> None:
    with precision_scope(precision):
        model = built(PaddedModel(kind))
        assert model.evaluate((INPUTS, TARGETS), batch_size=2, verbose=0, return_dict=True) == RIGHT
        model.fit((INPUTS, TARGETS), batch_size=2, shuffle=False, verbose=0)
        assert logged(model) == RIGHT
        step, outputs, values = scored(PaddedModel(kind), EvaluationModel, INPUTS)
        assert values == RIGHT
    assert list(outputs) == ["y"]
    # What models have voted for is an array without a mask, which comes from the first one.
    voted = {"inputs": INPUTS, OUTPUTS: {"y": PADDED, MASKS: step.masks}}
    assert scored(PaddedModel(kind), ScoringModel, voted)[2] == RIGHT


@pytest.mark.parametrize(
    ("loss", "weight", "message"),
    [
        (lambda y_true, y_pred: ops.mean(y_pred), (1,), r"shape \(None, 1\) for the loss 'loss'.* shape \(\)"),
        ("mae", (3,), r"shape \(None, 3\) for the loss 'loss'.* shape \(None, 4\)"),
    ],
)
def test_weights_that_fit_no_value_are_refused(loss: Any, weight: Any, message: str) -> None:
    model, shapes = PaddedModel("plain", loss, []), ({"x": (4, 1)}, {"y": (4, 1), "weight": weight})
    with pytest.raises(ValueError, match=message):
        training_model(model, model.create_graph(), shapes)


def error(y_true: Any, y_pred: Any) -> Any:
    return ops.mean(ops.abs(y_true - y_pred), axis=-1)


class TwoOutputs(ModelBase[ModelBaseParams]):
    """One output with a mask and one without; each loss has its own weights."""

    loss = {"steps": "mae", "sums": "mae"}
    metrics = {"steps": [error, keras.metrics.MeanSquaredError(name="mse"), "mae"]}

    def build_model(self) -> keras.Model:
        x = keras.Input((None, 1), name="x")
        steps = layers.Dense(1, use_bias=False, kernel_initializer="ones", name="steps")(layers.Masking(0.0)(x))
        return keras.Model(x, [steps, layers.Lambda(lambda value: ops.sum(value, axis=1), name="sums")(x)])

    def _sample_weights(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        return {"sums_loss": ops.where(inputs["x"][:, 0] > 3, 2.0, 1.0)}


@pytest.mark.backend
def test_each_of_several_losses_has_its_own_mask_and_weights() -> None:
    model = TwoOutputs(ModelBaseParams())
    targets = {"steps": np.zeros_like(PADDED), "sums": np.zeros((2, 1), np.float32)}
    built = training_model(model, model.create_graph(), (SHAPES[0], {"steps": (None, 1), "sums": (1,)}))
    built.fit((INPUTS, targets), batch_size=2, shuffle=False, verbose=0)
    # The sums are 12 and 4: (1 * 12 + 2 * 4) / 2 = 10.
    metrics = {"steps_error": 3.2, "steps_mse": 13.2, "steps_mae": 3.2}
    assert logged(built) == pytest.approx({"loss": 13.2, "steps_loss": 3.2, "sums_loss": 10.0, **metrics})


@pytest.mark.backend
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_lav_leaves_the_state_of_layers_as_it_was(run_eagerly: bool) -> None:
    model = PaddedModel("counting", metrics=())
    scores = EvaluationModel(model, model.create_graph())
    scores.build_symbolically(keras_inputs(SHAPES[0]), keras_inputs(SHAPES[1]))
    (calls,) = scores.states()
    calls.assign(5.0)
    step = EvaluationStep(scores, run_eagerly)
    for _ in range(2):
        step.reset()
        step({"x": PADDED * 0}, TARGETS)
        step({"x": PADDED * 0}, TARGETS)
        assert step.result() == {"loss": 6.5}  # 6 and 7
        assert float(calls) == 5.0


class PaddedRows(Generator):
    """One row of four steps, one of a single step."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Sample:
        x = PADDED[index][: 4 - 3 * index]
        return Sample(inputs={"x": x}, targets={"y": np.zeros_like(x)})


class PaddedData(Data):
    inputs, targets = {"x": Spec(None, 1)}, {"y": Spec(None, 1)}


class PaddedScenario(Scenario):
    data, model, train, val = PaddedData, PaddedParams, PaddedRows(), PaddedRows()


@pytest.mark.guard
@pytest.mark.backend
def test_a_vote_is_scored_with_the_mask_of_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for factor in (1.0, 3.0):
        params = by_hand(PaddedScenario.default_trainer_params(), tmp_path / f"{factor}", 0.0, export_final=True)
        params.scenario.model.factor = factor
        PaddedScenario.create_trainer(params).train()
    paths = [tmp_path / "1.0" / "export", tmp_path / "3.0" / "export"]
    score, scored_batches = EvaluationStep.__call__, []
    monkeypatch.setattr(EvaluationStep, "__call__", lambda *args: scored_batches.append(1) or score(*args))
    (results,) = PaddedScenario.create_multi_lav(LAVParams(silent=True), paths).run([PaddedRows()])
    assert len(scored_batches) == 3  # each model and the vote once
    # The vote is the mean, twice the input.
    for name, factor in ((str(paths[0]), 1), (str(paths[1]), 3), (VOTED, 2)):
        assert results[name] == pytest.approx({"loss": 3.2 * factor, "mse": 13.2 * factor**2})
