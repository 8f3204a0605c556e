"""The `keras.Model` that `fit` and `evaluate` run, and what is traced and searched before it runs."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
from keras import ops
from keras.initializers import Constant

from tfaip.backend.active import backend
from tfaip.backend.keras_private import BuiltModel
from tfaip.backend.kerastools import Execution, value_of, watched_methods
from tfaip.layers.weightnoise import UpdateNoise
from tfaip.model.graphbase import GenericGraphBase, full_precision, require_outputs, with_masks, with_masks_attached
from tfaip.model.losses import (
    INPUT_GRADIENT,
    OWN_LOSS,
    REGULARIZATION,
    TOTAL_LOSS,
    InputGradientPenalty,
    WeightPenalty,
    batch_samples,
    batch_size_of,
    failures_named,
    is_zero,
    shapes_named,
    shapes_text,
    weights_like,
    with_weight,
)
from tfaip.model.modelbase import ModelBase
from tfaip.util.classes import overrides
from tfaip.util.typing import Logs, Tensor, TensorDict


class SymbolicStep(keras.layers.Layer):
    """Function of a batch; called with Keras tensors it is only traced, which creates all variables."""

    def __init__(self, step: Callable[[tuple[TensorDict, TensorDict]], Tensor]) -> None:
        super().__init__(name="symbolic_step", autocast=False)
        self._step = step

    def call(self, inputs: tuple[TensorDict, TensorDict]) -> Tensor:
        return self._step(inputs)


class _Hidden:
    """State that Keras must not track: it would own what is in it, and forbids to add metrics later."""

    def __init__(self, model: ModelBase[Any]) -> None:
        self.model = model
        self.called: list[keras.metrics.Metric] | None = None
        self.without_loss = False
        self.leaves_out = False
        self.loss_means: dict[str, keras.metrics.Mean] = {}
        self.loss_names: list[str] = []
        self.penalties: Sequence[WeightPenalty] = ()
        self.noise: UpdateNoise | None = None
        self.changes: Any = None
        self.shapes = ""
        self.assigned: Sequence[keras.Variable] = ()
        self.kept_finite: list[tuple[keras.Variable, list[keras.Variable]]] = []
        self.forgets = False

    def mean_of(self, name: str) -> keras.metrics.Mean:
        """Return the accumulator of a loss, made at the first call."""
        if name not in self.loss_means:
            self.loss_means[name] = keras.metrics.Mean(name=name)
        return self.loss_means[name]


class TrainingModel(BuiltModel):
    """Model that runs the training graph of `(inputs, targets)`, with the losses and metrics of a `ModelBase`.

    Logged: the total as `loss`, each loss under its name (one that is called `loss`, among several, as `loss_loss`),
    losses of layers (`add_loss`, regularisers) as `regularization`, and each called metric under its name. All are
    means over the epoch, weighted by batch size.

    Args:
        model: losses and metrics.
        graph: the outermost graph.
        penalty: added to the loss in training, logged without its weight as `input_gradient_regularization`.
        loss_weights: weights of losses by name, instead of those of `ModelBase._loss_weights`, as numbers (0: only
            logged) or variables.
        noise: noise on the weights in the training.
        variables: further ones that the step reads, and that may change while it stays compiled.
    """

    history: keras.callbacks.History | None = None  # `fit` returns it; the trainer keeps its own

    def __init__(
        self,
        model: ModelBase[Any],
        graph: GenericGraphBase[Any],
        penalty: InputGradientPenalty | None = None,
        loss_weights: Mapping[str, float | keras.Variable] | None = None,
        noise: UpdateNoise | None = None,
        variables: Iterable[keras.Variable] = (),
    ) -> None:
        super().__init__(name="training_model", autocast=False)
        self.graph = graph
        self.execution = Execution()
        self._penalty = penalty
        self._hidden = _Hidden(model)
        self._hidden.noise = noise
        # Owned, since JAX compiles a variable without an owner into the step as a constant.
        self._owned = [*variables, *model.scheduled_values.values()]
        self._noise_generator = None if noise is None else noise.generator
        loss_weights = loss_weights or {}
        # Variables, so that they can change while the compiled step stays.
        variables_of_losses = {}
        for name, weight in loss_weights.items():
            if not isinstance(weight, keras.Variable):
                weight = self.add_weight((), Constant(weight), "float32", trainable=False, name="loss_weight")
            variables_of_losses[name] = weight
        self._loss_weights = variables_of_losses
        self._only_logged = frozenset(name for name, weight in loss_weights.items() if is_zero(weight))

    @property
    def model_base(self) -> ModelBase[Any]:
        """The model that defines losses and metrics."""
        return self._hidden.model

    @property
    def noise(self) -> UpdateNoise | None:
        """Noise on the weights in the training; None: there is none."""
        return self._hidden.noise

    @property
    def loss_names(self) -> list[str]:
        """Names of the losses of the model, once it is built."""
        return self._hidden.loss_names

    @property
    def only_loss(self) -> str | None:
        """Name of the loss that the total consists of by definition, without weight or further terms; None: none."""
        names = self.loss_names
        has_more = self._loss_weights or self._penalty is not None or REGULARIZATION in self._hidden.loss_means
        if len(names) != 1 or names[0] == TOTAL_LOSS or has_more:
            return None
        weight = (self.model_base._loss_weights() or {}).get(names[0], 1)
        return names[0] if isinstance(weight, int | float) and weight == 1 else None

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Accumulators of all values that are logged; Keras resets them and keeps their state."""
        total = [] if self.loss_mean is None else [self.loss_mean]
        return [*total, *self._hidden.loss_means.values(), *(self._hidden.called or [])]

    @property
    def metrics_variables(self) -> list[keras.Variable]:
        """Variables of all accumulators, each once: a metric may compute from another one that is called too."""
        # Keras would list them twice, which a step on JAX refuses ("donate the same buffer twice").
        variables = [variable for metric in self.metrics for variable in metric.variables]
        return list({id(variable): variable for variable in variables}.values())

    @property
    def loss_weights(self) -> dict[str, float | keras.Variable]:
        """The weights that the losses have instead of those of the model, by name: variables; 0: only logged."""
        return {name: 0.0 if name in self._only_logged else weight for name, weight in self._loss_weights.items()}

    def leaves_out_losses(self) -> bool:
        """Return True if a loss had the weight 0 in the step that was traced last."""
        return self._hidden.leaves_out

    def set_loss_weights(self, weights: Mapping[str, float]) -> None:
        """Change the weights of all losses that the constructor was given one for, from the next call of `fit` on.

        The compiled step stays, unless a loss begins or ceases to be only logged: then it is compiled once more, so
        that a loss of weight 0 costs no gradient.
        """
        wanted = {**(self.model_base._loss_weights() or {}), **weights}
        new = {name: float(wanted.get(name, 1.0)) for name in self._loss_weights}
        for name, weight in new.items():
            self._loss_weights[name].assign(weight)
        only_logged = frozenset(name for name, weight in new.items() if weight == 0)
        if only_logged != self._only_logged:
            self._only_logged = only_logged
            self.forget_compiled_steps()

    def penalize(self, penalties: Sequence[WeightPenalty]) -> None:
        """Add penalties to the losses of layers; call it before `compile`."""
        self._hidden.penalties = penalties
        if penalties:
            self._hidden.mean_of(REGULARIZATION)

    def follow(self, changes: Any) -> None:
        """Let schedules (`begin_step`, `end_epoch`) assign variables, also in the step; call it after `compile`."""
        self._hidden.changes = changes

    def forget_batches_that_are_not_finite(self, in_values: bool) -> None:
        """Let batches that are not finite leave the state of layers as it is; call it before `fit`.

        The state of a layer is what the forward pass of a training assigns, such as the statistics of a
        `BatchNormalization`: a skipped update would not undo that, and all later validations would be NaN.
        """
        self._hidden.kept_finite = [(state, [state]) for state in self.states() if "float" in state.dtype]
        self._hidden.forgets = in_values

    def states(self) -> list[keras.Variable]:
        """Return the variables of layers that a step assigns."""
        return list(self._hidden.assigned)

    def was_every_batch_forgotten(self) -> bool:
        """Return True if no batch counts in the logged values so far."""
        return self._hidden.forgets and value_of(self.loss_mean.count) == 0

    def end_epoch(self) -> Logs:
        """Set what changes in the course of the training to its last state; return what is logged of it by name."""
        changes = self._hidden.changes
        return {} if changes is None else changes.end_epoch()

    def build_symbolically(self, inputs: TensorDict, targets: TensorDict) -> None:
        """Create every variable of both graphs, of the losses and of the metrics, without data."""
        with warnings.catch_warnings():
            # Keras warns twice, at length, of a call that fails, and then raises its error. The warning has no class
            # of its own: only the text tells it from others.
            warnings.filterwarnings("ignore", message=".*looks like it has unbuilt state", category=UserWarning)
            outputs = require_outputs(self.graph, self.graph.predict(inputs))
        self.model_base.prepare_declared(targets, outputs)
        self._hidden.shapes = shapes_text(targets, outputs)
        # In training mode too: a layer may add a loss there alone, whose mean must exist before `fit`.
        self._trace(inputs, targets, with_training=True)

    def _trace(self, inputs: TensorDict, targets: TensorDict, with_training: bool) -> None:
        """Create the variables of what `call`, the losses and the metrics use, and note those that it assigns."""

        scopes: list[keras.StatelessScope] = []

        def step(batch: tuple[TensorDict, TensorDict]) -> Tensor:
            # While tracing, what layers pass to `add_loss` is kept only on request.
            if with_training:
                with keras.StatelessScope(collect_losses=True) as scope:
                    self.compute_loss(batch, None, self(batch, training=True), training=True)
                scopes.append(scope)
            with keras.StatelessScope(collect_losses=True) as scope:
                outputs = self(batch, training=False)
                loss = self.compute_loss(batch, None, outputs, training=False)
                self.compute_metrics(batch, None, outputs)
            scopes.append(scope)
            return loss

        SymbolicStep(step)((inputs, targets))
        own = self.non_trainable_variables
        self._hidden.assigned = [variable for variable in own if scopes[0].get_current_value(variable) is not None]

    def call(self, inputs: tuple[TensorDict, TensorDict], training: bool | None = None) -> TensorDict:
        features, targets = inputs
        noise = self._hidden.noise
        with nullcontext() if noise is None or not training else noise.applied(self):
            outputs = self.graph.train(features, self._pre_processed(features, targets), training=bool(training))
        return with_masks(full_precision(require_outputs(self.graph, outputs)))

    def train_step(self, *args: Any) -> Any:
        """Train one batch, within `fit`. TensorFlow passes `(data,)`, JAX `(state, data)`."""
        if self._hidden.changes is not None:
            args = backend.before_step(self, args, self._hidden.changes.begin_step)
        values = [(self.loss_mean.total, self.metrics_variables)] if self._hidden.forgets else []
        step = backend.keeping_finite(self, self._counted_step, [*self._hidden.kept_finite, *values])
        return backend.run_step(self, step, args)

    def _counted_step(self, *args: Any) -> Any:
        """Train one batch as Keras does; the optimizer finds the number of its samples."""
        token = batch_samples.set(ops.cast(backend.samples_of_batch(batch_size_of(args[-1])), "float32"))
        try:
            return super().train_step(*args)
        finally:
            batch_samples.reset(token)

    def choose_execution(self, data: Any) -> Any:
        """Decide, unless it is decided, how `fit` executes the steps; return what it reads. Call it before `fit`."""
        self.train_function, data = backend.train_function(self, self.execution, data)
        return data

    def choose_evaluation(self, data: Any) -> Any:
        """Do the same for `evaluate`."""
        self.test_function, data = backend.evaluation_function(self, self.test_function, self.test_step, data)
        return data

    def execute_together(self, steps: int) -> None:
        """Let `fit` run this number of steps per execution; what is compiled for another one is compiled again."""
        if steps != self.steps_per_execution:
            self.steps_per_execution, self.test_function = steps, None
            if not isinstance(self.train_function, backend.LoopedSteps):  # else it is no part of what is compiled
                self.train_function = None

    def test_step(self, *args: Any) -> Any:
        """Evaluate one batch, within `evaluate`. TensorFlow passes `(data,)`, JAX `(state, data)`."""
        with backend.after_the_data(args[-1]):
            return backend.run_step(self, super().test_step, args)

    def executing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return backend.with_whole_batches(function)

    def failures_named(self) -> AbstractContextManager[None]:
        """Return a context in which compiled steps run: their errors name the loss or metric that failed."""
        return failures_named(self._hidden.shapes)

    def score_batch(self, inputs: TensorDict, targets: TensorDict) -> Any:
        """Evaluate one batch as `test_step` does, but with the same arguments on both backends."""
        x = (inputs, targets)
        outputs = self(x, training=False)
        loss = self.compute_loss(x, None, outputs, training=False)
        self.loss_mean.update_state(loss, sample_weight=batch_size_of(x))
        return self.compute_metrics(x, None, outputs)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        """Return the total loss of a batch, a scalar, and update the mean of each loss.

        Several replicas of TensorFlow return their shares of it, which Keras adds up.
        """
        batch_size = batch_size_of(x)
        losses = self.weighted_losses(x, y_pred)
        total = ops.zeros((), dtype="float32")
        self._hidden.leaves_out = any(is_zero(weight) for weight, _ in losses.values())
        for name, (weight, value) in losses.items():
            mean = ops.mean(value)
            if name != TOTAL_LOSS or len(losses) > 1:
                logged = OWN_LOSS if name == TOTAL_LOSS else name
                self._hidden.mean_of(logged).update_state(mean, sample_weight=batch_size)
            total = total + with_weight(mean, weight)
        added = [*self.losses, *(penalty.value() for penalty in self._hidden.penalties if training)]
        if added:
            layer_losses = ops.sum(ops.stack([ops.sum(ops.cast(loss, "float32")) for loss in added]))
            self._hidden.mean_of(REGULARIZATION).update_state(layer_losses, sample_weight=batch_size)
            total = total + layer_losses
        if self._penalty is not None and training:
            penalty = self._penalty.estimate(self._sample_losses_with(x[1]), x[0])
            self._hidden.mean_of(INPUT_GRADIENT).update_state(penalty, sample_weight=batch_size)
            total = total + self._penalty.weight * penalty
        replicas = backend.num_replicas()
        return total if replicas == 1 else total / replicas

    def weighted_losses(self, x: Any, y_pred: TensorDict) -> dict[str, tuple[Any, Tensor]]:
        """Return weight and values (with the weights of the samples) of each loss by name."""
        y_pred = with_masks_attached(y_pred)
        model = self.model_base
        inputs, targets = self._loss_arguments(x, y_pred)
        given = model._sample_weights(inputs, targets)
        sample_weights = {} if given is None else given
        if not isinstance(sample_weights, Mapping):
            raise TypeError(
                f"{type(model).__name__}._sample_weights returned {type(sample_weights).__name__}, expected a dict by "
                "the names of losses"
            )
        weighs = bool(sample_weights) and not overrides(type(model), ModelBase, "_loss")
        # The total is divided by the replicas.
        with shapes_named(f"{type(model).__name__}._loss", targets, y_pred), backend.kept_means():
            if weighs:
                losses = model.declared_losses(targets, y_pred).compute(targets, y_pred, sample_weights)
            else:
                losses = model._loss(inputs, targets, y_pred)
        _check_losses(model, losses, sample_weights, bool(self.losses))
        self._hidden.loss_names = list(losses)
        weights = {**(model._loss_weights() or {}), **self._loss_weights, **dict.fromkeys(self._only_logged, 0)}
        weighted = {}
        for name, value in losses.items():
            value = ops.cast(value, "float32")
            if name in sample_weights and not weighs:
                value = value * weights_like(sample_weights[name], value, name)
            weighted[name] = weights.get(name, 1.0), value
        return weighted

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Tensor]:
        """Update the metrics of the model with a batch; return all values so far."""
        y_pred = with_masks_attached(y_pred)
        inputs, targets = self._loss_arguments(x, y_pred)
        if self._hidden.called is None:
            self._find_called_metrics(inputs, targets, y_pred)
        else:
            update_metrics(self.model_base, inputs, targets, y_pred)
        return self.get_metrics_result()

    def get_metrics_result(self) -> dict[str, Tensor]:
        """Return the values so far of the total loss, the losses and the called metrics, by name."""
        return {metric.name: metric.result() for metric in self.metrics}

    def _sample_losses_with(self, targets: TensorDict) -> Callable[[TensorDict], Tensor]:
        """Return a function from inputs to the loss of each sample; a scalar loss counts for every sample.

        It changes no variable and draws the same random numbers (dropout) every time.
        """
        state = [(variable, ops.convert_to_tensor(variable)) for variable in self.variables]

        def sample_losses(inputs: TensorDict) -> Tensor:
            with keras.StatelessScope(state):
                losses = self.weighted_losses((inputs, targets), self((inputs, targets), training=True))
            total = ops.zeros(ops.shape(keras.tree.flatten(inputs)[0])[:1], dtype="float32")
            for weight, value in losses.values():
                per_sample = ops.mean(value, axis=range(1, len(value.shape))) if len(value.shape) > 1 else value
                total = total + with_weight(per_sample, weight)
            return total

        return sample_losses

    def _pre_processed(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        return self.graph.pre_proc_targets(inputs, self.model_base.pre_proc_targets(inputs, targets))

    def _loss_arguments(self, x: tuple[TensorDict, TensorDict], outputs: TensorDict) -> tuple[TensorDict, TensorDict]:
        inputs, targets = x
        targets = self._pre_processed(inputs, targets)
        return inputs, self.model_base.post_proc_targets(inputs, targets, outputs)

    def _find_called_metrics(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> None:
        """Keep the metrics that `_metric` calls, in this order; no variable changes."""
        model, owner = self.model_base, type(self.model_base).__name__
        model.make_metrics(targets, outputs)
        held = model.metric_objects()
        called: list[keras.metrics.Metric] = []
        running: list[keras.metrics.Metric] = []

        def watch(metric: keras.metrics.Metric, update: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            # A metric that computes from others updates them itself.
            if not running and not any(metric is known for known in called):
                called.append(metric)
            running.append(metric)
            try:
                return update(*args, **kwargs)
            finally:
                running.pop()

        with keras.StatelessScope(), watched_methods(held, "update_state", watch):
            results = update_metrics(model, inputs, targets, outputs)
        names = [metric.name for metric in called]
        if len(results) != len(called):
            raise ValueError(
                f"{owner}._metric returned {len(results)} values, of the metrics of the model it called {names}: "
                f"return what calls of Keras metrics give that are attributes of {owner} (or in a list, tuple or dict)"
            )
        names = [TOTAL_LOSS, *self._hidden.loss_means, *names]
        if len(set(names)) != len(names):
            raise ValueError(f"{owner}: two losses or metrics share a name in {names}: give each its own")
        self._hidden.called = called


def update_metrics(
    model: ModelBase[Any], inputs: TensorDict, targets: TensorDict, outputs: TensorDict
) -> Sequence[Tensor]:
    """Call `_metric`; an error of a library names the model, targets and outputs."""
    with shapes_named(f"{type(model).__name__}._metric", targets, outputs):
        return model._metric(inputs, targets, outputs)


def _check_losses(model: ModelBase[Any], losses: TensorDict, sample_weights: TensorDict, adds_some: bool) -> None:
    """Raise unless the losses of a model can be logged by their names, and there is one."""
    owner = type(model).__name__
    if not isinstance(losses, dict):
        raise TypeError(f"{owner}._loss returned {type(losses).__name__}, expected a dict name -> tensor")
    if not losses and not adds_some:
        raise ValueError(f"{owner}._loss returned no loss and no layer adds one: there is nothing to minimise")
    if taken := losses.keys() & {OWN_LOSS, REGULARIZATION, INPUT_GRADIENT}:
        raise ValueError(f"{owner}._loss returned {sorted(taken)}, the name of another value: choose another")
    for hook, weights, more in (
        ("_loss_weights", model._loss_weights() or {}, ""),
        ("_sample_weights", sample_weights, ", or give a metric its sample_weight where _metric calls it"),
    ):
        if unknown := set(weights) - set(losses):
            raise ValueError(
                f"{owner}.{hook} names {sorted(unknown)}, but the losses are {sorted(losses)}: correct the name{more}"
            )
