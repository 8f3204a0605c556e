"""The model that `fit` runs: built, frozen in parts, with its first weights, and compiled."""

from collections.abc import Collection
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import keras

from tfaip.backend.active import backend
from tfaip.backend.keras_private import layers_without_xla
from tfaip.backend.kerastools import Execution
from tfaip.device import Precision
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.layers.weightnoise import UpdateNoise
from tfaip.model.graphbase import GenericGraphBase
from tfaip.model.keras_objects import RefusedObject
from tfaip.model.losses import InputGradientPenalty, WeightPenalty
from tfaip.model.structure.axis import Structure
from tfaip.model.structure.graph import graph_structure
from tfaip.model.summary import summary_lines
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import all_layers_by_path, layers_by_path, variables_by_path
from tfaip.model.weightrules import matching_paths
from tfaip.params.codec import encode
from tfaip.params.fields import FieldAdvice, below
from tfaip.params.tree import Place, items_of, walk_places
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer
from tfaip.trainer.optimizer.update import AverageRate
from tfaip.trainer.params import Params
from tfaip.trainer.scheduledvalues import OPTIMIZER, StepSchedules, given_loss_weights, schedules_of, with_value
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.logging import CONSOLE_TEXT, logger
from tfaip.util.text import number_text, shorten, shorten_text

# Flags of the layers of graphs that are frozen in parts; layers come before those below them.
_own_flags: WeakKeyDictionary[keras.layers.Layer, list[tuple[keras.layers.Layer, bool]]] = WeakKeyDictionary()

_FROZEN = "no_train_scope"
_LAYERS_NAMED = 100  # characters
# Params that a model is built and compiled with, as they are.
_BUILT_IN = """
    optimizer no_train_scope train_accum_steps weight_noise weight_penalties
    force_eager debug_nonfinite jit_compile steps_per_execution
"""

log = logger(__name__)


def build_training_model(
    params: Params,
    scenario: Scenario,
    epoch_steps: int,
    devices: Devices,
    warmstarter: WarmStarter | None = None,
    weighted_losses: Collection[str] = (),
) -> TrainingModel:
    """Build the model with all variables, and compile it with its optimizer."""
    schedules = StepSchedules(params)
    try:
        graph = scenario.graph
        model = _new_model(params, scenario, schedules, weighted_losses)
    except RefusedObject as error:  # an object of Keras that cannot be made from its params
        for place, value in walk_places(params, Place.of_root("trainer")):
            for index, item in (items_of(value) or {"": value}).items():
                if item is error.named:
                    flag = ".".join(filter(None, [place.label, index]))
                    raise UsageError(f"{flag}: {error}") from error
        raise
    # Before the optimizer: its slots are for trained weights, its averages start at the weights.
    for layer, is_trainable in _own_flags.pop(graph, []):  # frozen by an earlier training of the same scenario
        layer.trainable = is_trainable  # sets those below it too, which come later
    lost = [metric.name for metric in graph.metrics if all(metric is not known for known in model.metrics)]
    if lost:
        log.warning("metrics of layers are not logged: %s; call them in _metric of the model", ", ".join(lost))
    if params.no_train_scope is not None:
        freeze_layers(graph, params.no_train_scope)
    if not model.trainable_variables:
        text = f"no weight is trained (the model has {len(graph.weights)}): no layer has trainable = True"
        raise FieldAdvice(f"{text}, or {{{_FROZEN}}} matches all that have it", _FROZEN)
    if warmstarter is not None:
        with below("warmstart"):
            warmstarter.apply(graph, partial(weight_structure, model, scenario))
    _apply_weight_rules(params, model, schedules)
    _compile(model, params, scenario, epoch_steps, devices, schedules)
    schedules.bind(model)
    summary = summary_lines(graph)
    log.info("model:\n%s", "\n".join(summary), extra={CONSOLE_TEXT: f"model: {summary[-1]}"})
    return model


def _new_model(
    params: Params, scenario: Scenario, schedules: StepSchedules, weighted_losses: Collection[str]
) -> TrainingModel:
    """Return the model with all variables of both graphs, which the optimizer must find, and with its loss weights."""
    data, own, penalty = scenario.data, scenario.params, None
    if own.use_input_gradient_regularization:
        path = "scenario.input_gradient_regularization_lambda"
        weight = schedules.number(path, own.input_gradient_regularization_lambda)
        penalty = InputGradientPenalty(own.input_gradient_regularization_h, weight)
    stddev = schedules.number("weight_noise.stddev", params.weight_noise.stddev)
    has_noise = isinstance(stddev, keras.Variable) or stddev > 0
    noise = UpdateNoise(stddev, params.random_seed or 0) if has_noise else None
    loss_weights = {**dict.fromkeys(weighted_losses, 1.0), **given_loss_weights(params)}
    scheduled = [variable for path, variable in schedules.variables.items() if not path.startswith(OPTIMIZER)]
    model = TrainingModel(scenario.model, scenario.graph, penalty, loss_weights, noise, scheduled)
    model.build_symbolically(data.create_input_layers(), data.create_target_layers())
    unknown = sorted(set(params.loss_weights) - set(model.loss_names))
    if unknown:
        raise FieldAdvice(
            f"{{loss_weights}} names {', '.join(unknown)}; the losses are {', '.join(model.loss_names)}", "loss_weights"
        )
    model.set_loss_weights(given_loss_weights(params))
    outside = backend.outside_strategy([*model.variables, *model.metrics_variables])
    if outside:
        raise FieldAdvice(
            f"made before the training, so that devices cannot share it: {', '.join(outside[:3])}; use the scenario's "
            "model and graph only in the training, or one device without {device.dist_strategy}",
            "device.dist_strategy",
        )
    return model


def freeze_layers(graph: GenericGraphBase[Any], pattern: str) -> None:
    """Exclude layers from the training (`no_train_scope`); call it before the model is compiled.

    A frozen layer gets neither gradients nor optimizer slots nor weight decay, its regularisers add nothing to the
    loss, and a `BatchNormalization` in it runs in inference mode, so that its statistics stay too.
    """
    layers = layers_by_path(graph)
    frozen = matching_paths(pattern, _FROZEN, "layer", layers)
    _own_flags[graph] = [(layer, layer.trainable) for layer in all_layers_by_path(graph).values()]
    for path in frozen:
        layers[path].trainable = False
    trained, total = len(graph.trainable_weights), len(graph.weights)
    log.info("%s %r freezes %s: %d of %d weights are trained", _FROZEN, pattern, ", ".join(frozen), trained, total)


def _compile(
    model: TrainingModel, params: Params, scenario: Scenario, epoch_steps: int, devices: Devices, steps: StepSchedules
) -> None:
    built = params
    for schedule in schedules_of(params):
        if schedule.is_of_epoch and schedule.path.startswith(OPTIMIZER):
            # With one of 0 the optimizer would have no moments.
            built = with_value(built, schedule.path, max(schedule.params.points.values()))
    with below("optimizer"):
        optimizer = TrainingOptimizer(
            built.optimizer,
            variables_by_path(scenario.graph),
            model.trainable_variables,
            accum_steps=params.train_accum_steps,
            average_rate=AverageRate.of(params.calc_ema, epoch_steps / params.train_accum_steps),
            rate=params.learning_rate,
            network=scenario.graph,
            seed=params.random_seed or 0,
            scales_loss=devices.precision is Precision.MIXED_FLOAT16,
            number=lambda path, value: steps.number(f"{OPTIMIZER}{path}", value),
        )
    optimizer.leaves_out_losses = model.leaves_out_losses
    if params.optimizer.skip_nonfinite or devices.precision is Precision.MIXED_FLOAT16:
        model.forget_batches_that_are_not_finite(in_values=params.optimizer.skip_nonfinite > 0)
    is_eager = params.force_eager or params.debug_nonfinite  # the backends name operations of compiled steps badly
    model.execution.is_automatic = params.steps_per_execution is None
    model.compile(
        optimizer=optimizer,
        run_eagerly=is_eager,
        steps_per_execution=_steps_per_execution(params, devices),
        auto_scale_loss=False,  # the optimizer does
        # Never "auto": that picks XLA on TensorFlow, which fails on graphs with CTC, sparse or text operations.
        jit_compile=_compiles_with_xla(model, is_eager, params.jit_compile),
    )


def _compiles_with_xla(model: TrainingModel, force_eager: bool, jit_compile: bool) -> bool:
    """Return the `jit_compile` argument of `compile`; log a warning if layers keep the step from being compiled.

    Keras compiles a step only if all layers say so (`supports_jit`). On JAX a step that is not compiled runs operation
    by operation; on TensorFlow it is a graph without XLA, as it is by default.
    """
    if force_eager or not (backend.ALWAYS_COMPILES or jit_compile):
        return False
    paths = {id(layer): path for path, layer in all_layers_by_path(model.graph).items()}
    uncompiled = layers_without_xla(model)
    layers = sorted(f"{paths.get(id(layer), layer.name)} ({type(layer).__name__})" for layer in uncompiled)
    if layers:
        log.warning(backend.ADVICE_WITHOUT_COMPILATION, shorten_text(", ".join(layers), _LAYERS_NAMED))
    return not layers


# Each return to Python costs time: a step of a tiny model takes 84 us alone, and 48 us if 10 are executed together.
_STEPS_PER_EXECUTION = 16


def _steps_per_execution(params: Params, devices: Devices) -> int:
    is_shared = devices.strategy is not None
    given, most = params.steps_per_execution, backend.MOST_SHARED_STEPS if is_shared else None
    if params.debug_nonfinite:
        return 1  # the batch is known then
    if given is None:
        return 1 if params.force_eager or is_shared else _STEPS_PER_EXECUTION
    if most is not None and given > most:
        text = f"steps_per_execution {given} does not work on several devices of {keras.backend.backend()}"
        raise FieldAdvice(f"{text}: leave out {{steps_per_execution}}", "steps_per_execution")
    return given


def most_steps_per_execution(params: Params, devices: Devices, execution: Execution) -> int:
    """Return how many steps an execution may have that ends with a window of updates."""
    steps = _steps_per_execution(params, devices)
    if not execution.is_automatic:
        return steps
    # Twice as many as by default, since the number of steps in a window may have no divisor close to that.
    return 1 if execution.loops is False or steps == 1 else 2 * steps


def built_from(
    params: Params, scenario: Scenario, epoch_steps: int, devices: Devices, weighted_losses: Collection[str] = ()
) -> dict[str, Any]:
    """Return all that `build_training_model` makes a model of, except the graph and values that variables hold.

    A model that was built from equal facts can train with other params too.
    """
    rate, own = params.learning_rate, scenario.params
    return {
        **{name: encode(getattr(params, name)) for name in _BUILT_IN.split()},
        "losses": sorted({*weighted_losses, *params.loss_weights}),
        "averages": AverageRate.of(params.calc_ema, epoch_steps / params.train_accum_steps),
        # All other rates are values of a variable.
        "learning_rate": encode(rate) if rate.is_continuous() or rate.modulation is not None else None,
        "precision": devices.precision,
        "input_gradients": [own.use_input_gradient_regularization, own.input_gradient_regularization_h],
        "input_gradients_lambda": own.input_gradient_regularization_lambda,
        "schedules": encode([schedule.params for schedule in schedules_of(params) if not schedule.is_of_data]),
    }


def weight_structure(model: TrainingModel, scenario: Scenario) -> Structure:
    """Return the dimensions that the weights of a model consist of, by path."""
    inputs, targets = scenario.data.create_input_layers(), scenario.data.create_target_layers()
    calls = [(model.graph.call, [inputs]), (lambda *batch: model.call(batch, training=False), [inputs, targets])]
    return graph_structure(model.graph, calls)


def _apply_weight_rules(params: Params, model: TrainingModel, schedules: StepSchedules) -> None:
    """Apply noise and penalties to the weights that their rules match."""
    trained = {id(weight) for weight in model.graph.trainable_variables}
    weights = {path: w for path, w in variables_by_path(model.graph).items() if id(w) in trained}
    if model.noise is not None:
        match = params.weight_noise.match
        noisy = list(weights) if match is None else matching_paths(match, "weight_noise.match", "weight", weights)
        model.noise.bind([weights[path] for path in noisy])
        log.info("weight_noise: noise on %d of %d weights", len(noisy), len(weights))
    penalties = []
    for index, rule in enumerate(params.weight_penalties):
        place = f"weight_penalties.{index}"
        found = matching_paths(rule.match, f"{place}.match", "weight", weights)
        strengths = f"l1 {number_text(rule.l1)}, l2 {number_text(rule.l2)}"
        log.info("%s %s: %s on %s", place, shorten(rule.match), strengths, ", ".join(found))
        l1, l2 = schedules.number(f"{place}.l1", rule.l1), schedules.number(f"{place}.l2", rule.l2)
        penalties.append(WeightPenalty([weights[path] for path in found], l1, l2))
    model.penalize(penalties)
