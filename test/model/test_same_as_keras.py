"""Small models train as `keras.Model.fit` trains them: the same losses, metrics and weights after 5 updates.

A description makes a network, its data and the arguments of `compile`. Both trainings begin with the same weights and
see the same batches.
"""

import ast
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, losses, ops

from test.trainer.line import CallbackOf, by_hand
from tfaip.data.specs import TensorSpec
from tfaip.imports import ArrayDataGenerator, Data, Generator, ModelBase, ModelBaseParams, Sample, Scenario
from tfaip.params.fields import shared
from tfaip.trainer.optimizer.optimizers import OPTIMIZERS
from tfaip.util.typing import Tensor, TensorDict

Columns = dict[str, np.ndarray]
Values = list[dict[str, float]]

BATCH, STEPS, IDS, UNITS, CLASSES = 4, 5, 6, 4, 3
OF_KERAS = {cls.__name__.removesuffix("Optimizer"): cls for cls in OPTIMIZERS if "Belief" not in cls.__name__}
RATES = {"SGD": 0.1, "Adadelta": 1.0, "Lion": 0.004}
CLIPS = {"clip_norm": "clipnorm", "clip_value": "clipvalue", "clip_global_norm": "global_clipnorm"}
# Kind of an output: units, activation, loss and its arguments, metrics.
KINDS: dict[str, tuple[int, str | None, type[losses.Loss], dict[str, Any], list[str]]] = {
    "number": (1, None, losses.MeanSquaredError, {}, ["mae", "mse"]),
    "robust": (1, None, losses.Huber, {"delta": 0.5}, ["mae"]),
    "class": (CLASSES, "softmax", losses.SparseCategoricalCrossentropy, {}, ["accuracy"]),
    "logits": (CLASSES, None, losses.SparseCategoricalCrossentropy, {"from_logits": True}, ["accuracy"]),
    "yes": (1, "sigmoid", losses.BinaryCrossentropy, {"label_smoothing": 0.1}, ["accuracy", "mse"]),
}


PLAIN: dict[str, Any] = {
    **dict.fromkeys(("masked", "per_step", "recurrent", "shared"), False),
    **dict.fromkeys(("norm", "regularizer", "frozen", "sample_weights", "clip"), ""),
    **{"inputs": "points", "dropout": 0.0, "reduction": "sum_over_batch_size", "metrics": True, "loss_weights": ()},
    **{"weight_decay": 0.0, "precision": "float32", "epochs": 1},
}
# Seed of the data, outputs, optimizer, and what differs from `PLAIN`. Each kind of each is among them.
CASES = """
1 number+number AdamW inputs=words masked=True recurrent=True norm=layer loss_weights=0.5,2.0 precision=mixed_float16
4 yes SGD inputs=steps regularizer=l2 frozen=hidden clip=clip_value weight_decay=0.05 precision=mixed_float16
11 logits Adafactor norm=batch regularizer=l1 reduction=sum sample_weights=per-sample precision=mixed_bfloat16
14 logits+robust AdamW regularizer=l2 reduction=mean loss_weights=1.5,0.0 weight_decay=0.05 epochs=5
22 yes Lion inputs=steps masked=True per_step=True shared=True sample_weights=per-value clip=clip_global_norm
24 logits Adafactor inputs=words masked=True norm=batch frozen=table sample_weights=per-sample weight_decay=0.05
26 robust Adam inputs=points+words masked=True norm=batch dropout=0.3 reduction=mean_with_sample_weight
27 robust+robust AdamW norm=layer regularizer=activity sample_weights=per-sample clip=clip_norm
30 logits SGD norm=batch frozen=norm metrics=False weight_decay=0.05 loss_weights=0.5,
36 class Adam inputs=words masked=True per_step=True dropout=0.3 sample_weights=per-sample precision=mixed_float16
"""


def described(text: str) -> SimpleNamespace:
    """Return a model, its data and its training."""
    seed, outputs, optimizer, *changes = text.split()
    of = SimpleNamespace(**PLAIN, seed=int(seed), outputs=outputs.split("+"), optimizer=optimizer)
    for name, value in (change.split("=") for change in changes):
        setattr(of, name, value if isinstance(PLAIN[name], str) else ast.literal_eval(value))
    return of


OF_CASES = {of.seed: of for of in map(described, CASES.strip().splitlines())}
# Each optimizer alone.
OF_OPTIMIZERS = {100 + place: described(f"{100 + place} number {name}") for place, name in enumerate(OF_KERAS)}
ALL = OF_CASES | OF_OPTIMIZERS


def optimizer_arguments(of: SimpleNamespace) -> dict[str, float]:
    """Return what the optimizer is given beside the rate, in the names of the toolkit."""
    clip = {of.clip: 0.1} if of.clip else {}
    return {**clip, **({"weight_decay": of.weight_decay} if of.weight_decay else {})}


def arrays(of: SimpleNamespace, is_validation: bool = False) -> tuple[Columns, Columns]:
    """Return inputs and targets of all samples; `weight` belongs to the first output."""
    rng = np.random.default_rng([of.seed, is_validation])
    # Batches of one size for several outputs: Keras on TensorFlow logs their losses as means of the batches.
    size = BATCH if of.epochs == 5 else 5 * BATCH - 2 * (len(of.outputs) == 1)
    is_padding = np.arange(STEPS) >= rng.integers(1, STEPS + 1, (size, 1))
    columns = {
        "points": rng.normal(size=(size, 3)).astype("float32"),
        "words": np.where(is_padding, 0, rng.integers(1, IDS, (size, STEPS))).astype("int32"),
        "steps": np.where(is_padding[..., None], 0, rng.normal(size=(size, STEPS, 3))).astype("float32"),
    }
    shape = (size, STEPS) if of.per_step else (size, 1)
    targets: Columns = {}
    for name, kind in zip("ab", of.outputs, strict=False):
        whole = rng.integers(0, max(KINDS[kind][0], 2), (*shape, 1) if of.per_step else shape).astype("int32")
        targets[name] = whole if kind in ("class", "logits", "yes") else rng.normal(size=whole.shape).astype("float32")
    if of.sample_weights:
        shape = shape if of.sample_weights == "per-value" else (size, 1)
        targets["weight"] = rng.choice([0.0, 0.5, 1.0, 2.0], shape).astype("float32")
    return {name: columns[name] for name in of.inputs.split("+")}, targets


def specs(columns: Columns) -> dict[str, TensorSpec]:
    return {name: TensorSpec(array.shape[1:], array.dtype.name) for name, array in columns.items()}


class DenseGradient(layers.Embedding):
    """An embedding for Keras alone: on TensorFlow it squares and clips the slices of a row before it adds them."""

    def call(self, inputs: Tensor) -> Tensor:
        return ops.take(ops.multiply(self.embeddings, 1.0), inputs, axis=0)


def network(of: SimpleNamespace, embedding: type[layers.Embedding] = layers.Embedding) -> keras.Model:
    inputs = {name: keras.Input(spec.shape, dtype=spec.dtype, name=name) for name, spec in specs(arrays(of)[0]).items()}
    x = inputs.get("steps")
    if x is not None and of.masked:
        x = layers.Masking(name="mask")(x)
    if "words" in inputs:
        x = embedding(IDS, UNITS, mask_zero=of.masked, name="table")(inputs["words"])
    if x is not None and not of.per_step:
        x = layers.GRU(UNITS, name="reader")(x) if of.recurrent else layers.GlobalAveragePooling1D(name="mean")(x)
    if "points" in inputs:
        x = inputs["points"] if x is None else layers.Concatenate(name="both")([x, inputs["points"]])
    penalties: dict[str, Any] = {"activity_regularizer": "l2"} if of.regularizer == "activity" else {}
    if of.regularizer in ("l1", "l2"):
        penalties["kernel_regularizer"] = of.regularizer
    # The gradient of a bias before a batch normalization is rounding alone, which Adam would follow.
    x = layers.Dense(UNITS, "tanh", use_bias=of.norm != "batch", name="hidden", **penalties)(x)
    if of.shared:
        shared_layer = layers.Dense(UNITS, "tanh", name="shared")
        x = shared_layer(shared_layer(x))
    if of.norm:
        x = (layers.BatchNormalization if of.norm == "batch" else layers.LayerNormalization)(name="norm")(x)
    if of.dropout:
        x = layers.Dropout(of.dropout, seed=3, name="dropout")(x)
    outputs = [layers.Dense(*KINDS[kind][:2], name=name)(x) for name, kind in zip("ab", of.outputs, strict=False)]
    return keras.Model(list(inputs.values()), outputs if len(outputs) > 1 else outputs[0])


def declared(of: SimpleNamespace) -> tuple[Any, Any]:
    """Return the losses and metrics as `compile` takes them."""
    kinds = [KINDS[kind] for kind in of.outputs]
    made = [loss(reduction=of.reduction, **arguments) for _, _, loss, arguments, _ in kinds]
    metrics = [list(metrics) if of.metrics else [] for *_, metrics in kinds]
    return (made, metrics) if len(kinds) > 1 else (made[0], metrics[0])


def as_keras_takes_it(of: SimpleNamespace, weight: Any) -> Any:
    return weight if of.per_step else weight[:, 0]


class SeededData(Data):
    seed: int = 0

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return specs(arrays(ALL[self.seed])[0])

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return specs(arrays(ALL[self.seed])[1])


class Samples(Generator, ArrayDataGenerator[Any]):
    data: SeededData = shared()
    is_validation: bool = False

    def load(self) -> Sample:
        inputs, targets = arrays(ALL[self.data.seed], self.is_validation)
        return Sample(inputs=inputs, targets=targets)


class SeededParams(ModelBaseParams, cls=":SeededModel"):
    pass


class SeededModel(ModelBase[SeededParams]):
    def build_model(self) -> keras.Model:
        return network(ALL[self.data.seed])

    def loss(self) -> Any:
        return declared(ALL[self.data.seed])[0]

    def metrics(self) -> Any:
        return declared(ALL[self.data.seed])[1]

    def loss_weights(self) -> Any:
        return list(ALL[self.data.seed].loss_weights) or None

    def _sample_weights(self, inputs: TensorDict, targets: TensorDict) -> dict[str, Tensor]:
        of = ALL[self.data.seed]
        if not of.sample_weights:
            return {}
        return {"loss" if len(of.outputs) == 1 else "a_loss": as_keras_takes_it(of, targets["weight"])}


class SeededScenario(Scenario):
    data, model, train, val = SeededData, SeededParams, Samples(), Samples(is_validation=True)


def arrays_of(model: keras.Model) -> dict[str, np.ndarray]:
    return {variable.path: np.array(ops.convert_to_numpy(variable)) for variable in model.variables}


def trained(of: SimpleNamespace) -> tuple[Values, Columns, Columns]:
    """Train with the toolkit; return the values of each epoch, and the weights before and after."""
    params = by_hand(SeededScenario.default_trainer_params(), None, RATES.get(of.optimizer, 0.02), epochs=of.epochs)
    params.scenario.data.seed = of.seed
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = BATCH
    params.optimizer = OF_KERAS[of.optimizer](**optimizer_arguments(of))
    params.no_train_scope, params.device.precision = of.frozen or None, of.precision
    before: Columns = {}
    keep = CallbackOf(on_train_begin=lambda logs=None: before.update(arrays_of(keep.model.graph.network)))
    trainer = SeededScenario.create_trainer(params)
    trainer.train([keep])
    values = [trainer.history.values(epoch) for epoch in trainer.history.epochs]
    return values, before, arrays_of(trainer.scenario.graph.network)


def fitted(of: SimpleNamespace, before: Columns) -> tuple[Values, Columns]:
    """Train with Keras alone."""
    model = network(of, DenseGradient)
    for variable, array in zip(model.variables, before.values(), strict=True):
        variable.assign(array)
    if of.frozen:
        model.get_layer(of.frozen).trainable = False
    arguments = {CLIPS.get(name, name): value for name, value in optimizer_arguments(of).items()}
    if of.optimizer == "Muon" and of.weight_decay:
        arguments["adam_weight_decay"] = of.weight_decay  # of the weights that Muon leaves to Adam
    optimizer = getattr(keras.optimizers, of.optimizer)(RATES.get(of.optimizer, 0.02), **arguments)
    loss, metrics = declared(of)
    on_jax = keras.backend.backend() == "jax"
    model.compile(optimizer, loss, list(of.loss_weights) or None, metrics, jit_compile=on_jax)
    x, y, weight = for_fit(of)
    options: dict[str, Any] = {"batch_size": BATCH, "epochs": of.epochs, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, sample_weight=weight, validation_data=for_fit(of, is_validation=True), **options).history
    return [{name: values[i] for name, values in history.items()} for i in range(of.epochs)], arrays_of(model)


def for_fit(of: SimpleNamespace, is_validation: bool = False) -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights, which are 1 for the second output."""
    inputs, targets = arrays(of, is_validation)
    weight = as_keras_takes_it(of, targets.pop("weight")) if of.sample_weights else None
    if len(of.outputs) == 1:
        return list(inputs.values()), targets["a"], weight
    return list(inputs.values()), list(targets.values()), None if weight is None else [weight, np.ones_like(weight)]


@pytest.mark.backend
@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.guard) for seed in OF_CASES),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in OF_OPTIMIZERS),
    ],
)
def test_same_as_keras(seed: int) -> None:
    of = ALL[seed]
    values, before, weights = trained(of)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(of.precision)
    try:
        expected_values, expected = fitted(of, before)
    finally:
        keras.config.set_dtype_policy(policy)
    # The fused Adam of TensorFlow differs by 1e-5. In half precision XLA rounds where it likes, and Keras computes
    # metrics in the precision of the outputs, the toolkit in float32.
    tolerance = 2e-5 if of.precision == "float32" else 1e-2
    # Keras on JAX loses the mask of the outputs between the gradient and the metrics of the training.
    is_lost = keras.backend.backend() == "jax" and of.masked and of.per_step
    for own, of_keras in zip(values, expected_values, strict=True):
        defined = {n: value for n, value in of_keras.items() if not is_lost or "loss" in n or n.startswith("val_")}
        assert {n: own.get(n) for n in defined} == pytest.approx(defined, rel=tolerance, abs=tolerance / 10)
    assert values[0].keys() - expected_values[0].keys() <= {
        *("loss/mean_epoch", "val_loss/mean_epoch", "regularization", "val_regularization")
    }
    # Of the way that a weight has moved, and of the digits that it has.
    for path, start, own, of_keras in zip(before, before.values(), weights.values(), expected.values(), strict=True):
        moved, size = np.linalg.norm(of_keras - start), np.linalg.norm(of_keras)
        assert np.linalg.norm(own - of_keras) <= tolerance * moved + 1e-7 * size, path
