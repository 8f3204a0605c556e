"""`trainer.loss_weights`: weights of losses that a training gives."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.initializers import Constant

from test.model.support import X_AND_Y, FunctionModel, ScaleGraph, column, keras_inputs
from test.trainer.line import LineGraph, LineScenario, line_params, train, weight
from tfaip.errors import UsageError
from tfaip.model.trainingmodel import TrainingModel
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.scheduledvalues import ScheduleParams


def fitted(chosen, losses=None, **model_arguments):
    """A model after one batch with x = 1, and what it logged; the losses `a` and `b` are y = 2 and 3 y."""

    def default(inputs, targets, outputs):
        return {"a": outputs["y"], "b": 3.0 * outputs["y"]}

    model = TrainingModel(FunctionModel(losses or default, **model_arguments), ScaleGraph(), loss_weights=chosen)
    model.build_symbolically(keras_inputs(X_AND_Y[0]), keras_inputs(X_AND_Y[1]))
    model.compile(keras.optimizers.SGD(1.0))
    batch = ({"x": column([1.0])}, {"y": column([0.0])})
    model.fit(batch, shuffle=False, verbose=0)
    return model, {name: float(value) for name, value in model.get_metrics_result().items()}


def moved(model):
    return 2.0 - float(ops.convert_to_numpy(model.graph.dense.kernel.value)[0, 0])


@pytest.mark.backend
@pytest.mark.parametrize(
    ("chosen", "given", "expected", "move"),
    [
        ({"b": 0.0}, {}, {"loss": 2.0, "a": 2.0, "b": 6.0}, 1.0),
        (
            {"b": 0.0},
            {"losses": lambda inputs, targets, outputs: {"a": outputs["y"], "b": outputs["y"] + float("inf")}},
            *({"loss": 2.0, "a": 2.0, "b": float("inf")}, 1.0),
        ),
        # In the place of that of the model: 4 * 2 + 0.5 * 6; the gradient is 4 * 1 + 0.5 * 3.
        ({"b": 0.5}, {"loss_weights": {"a": 4.0, "b": 2.0}}, {"loss": 11.0, "a": 2.0, "b": 6.0}, 5.5),
    ],
    ids=["only logged", "not finite", "of the model"],
)
def test_weights_of_losses(chosen, given, expected, move):
    model, logs = fitted(chosen, **given)
    assert (logs, moved(model)) == (expected, move)


@pytest.mark.backend
def test_the_gradient_of_a_loss_of_weight_0_need_not_be_finite():
    @ops.custom_gradient
    def without_gradient(y):
        return y, lambda *args, upstream=None: (args[0] if upstream is None else upstream) * float("nan")

    def losses(inputs, targets, outputs):
        return {"a": outputs["y"], "b": 3.0 * without_gradient(outputs["y"])}

    for of_training, of_model in (({"b": 0.0}, None), ({}, {"b": 0})):
        model, logs = fitted(of_training, losses, loss_weights=of_model)
        assert (logs, moved(model)) == ({"loss": 2.0, "a": 2.0, "b": 6.0}, 1.0)
    assert np.isnan(moved(fitted({"b": 0.5}, losses)[0]))


class SideGraph(LineGraph):
    """With a weight that no loss depends on."""

    def __init__(self, params, **kwargs):
        super().__init__(params, **kwargs)
        self.side = self.add_weight(shape=(), initializer=Constant(2.0), name="side")


# Without the loss nobody asks for a gradient. On JAX a gradient that does not exist is one of 0.
@pytest.mark.backend
@pytest.mark.parametrize(
    ("loss_weights", "main", "lines"),
    [({}, 1.5 - 1, int(keras.backend.backend() == "tensorflow")), ({"loss": 0.0}, 1.5, 0)],
)
def test_a_weight_without_a_gradient_decays(loss_weights, main, lines, caplog):
    params = line_params([1.0], loss_weights=loss_weights, optimizer=SGDOptimizer(weight_decay=0.25))
    params.scenario.model.start = 2.0
    scenario = LineScenario(params.scenario)
    scenario.model.root_graph_cls = lambda: SideGraph
    trainer = LineScenario.trainer_cls()(params, scenario)
    trainer.train()
    assert (weight(trainer), float(scenario.graph.side.value)) == (main, 1.5)
    found = [message for message in caplog.messages if "gradients" in message]
    assert found == ["gradients do not exist for side: no loss depends on these weights"] * lines


def test_what_is_no_weight_is_refused():
    wrong = "expected .*at least 0: change --trainer.loss_weights$"
    for weights, message in [
        ({"ctc": 0.5}, "--trainer.loss_weights names ctc; the losses are loss$"),
        ({"a": -1.0}, rf"loss_weights\['a'\] is -1.0, {wrong}"),
        ({"a": float("nan")}, rf"loss_weights\['a'\] is nan, {wrong}"),
    ]:
        with pytest.raises((ValueError, UsageError), match=f"^{message}"):
            train(line_params([1], loss_weights=weights))


@pytest.mark.parametrize(("loss_weight", "is_scheduled"), [(0.5, False), (0.0, True)])
def test_validation_and_lav_have_the_loss_of_the_training(loss_weight, is_scheduled):
    params = line_params([1.0, 3.0], [2.0], lr=1.0, epochs=1, lav_every_n=1, loss_weights={"loss": loss_weight})
    if is_scheduled:
        params.loss_weights, params.schedules = {}, [ScheduleParams("loss_weights.loss", {0: loss_weight})]
    trainer = train(params)
    # The gradient is the weight of the loss times x: w is 0, then that, then 4 times that; the output for 2 is 2 w.
    assert weight(trainer) == -4.0 * loss_weight
    values = trainer.history.values(1)
    assert values["loss"] == pytest.approx(loss_weight * -loss_weight * 3 / 2)
    assert values["val_loss"] == values["lav_l0_loss"] == -8 * loss_weight**2
