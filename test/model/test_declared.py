"""Losses and metrics as `compile` takes them, and what is said of a model that does not fit."""

import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from test.model import own_objects
from test.model.brought import NETWORKS, BroughtData, BroughtDataParams, BroughtScenario, brought_params
from test.model.support import Shapes, logged, training_model
from tfaip.errors import UsageError
from tfaip.model.declared import declared
from tfaip.model.keras_objects import Initializer, Loss, Metric
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams

X = np.array([[1.0, 2.0], [3.0, -1.0]], "float32")
A, B = np.array([[1.0], [0.0]], "float32"), np.array([[2.0], [1.0]], "float32")
SHAPES: tuple[Shapes, Shapes] = ({"x": (2,)}, {"a": (1,), "b": (1,)})


class ScoreParams(ModelBaseParams):
    """Loss and metrics are options."""

    loss: Loss | None = None
    metrics: list[Metric] = []


class TextParams(ModelBaseParams):
    """Loss and metrics are texts, which a file may have set."""

    loss: str = "mse"
    metrics: list[str] = []


class Brought(ModelBase[ModelBaseParams]):
    """Gets its network and what it declares as arguments."""

    def __init__(self, network: Any, params: ModelBaseParams | None = None, **declared: Any) -> None:
        super().__init__(params or ModelBaseParams())
        self._network = network
        for name, value in declared.items():
            setattr(self, name, value)

    def build_model(self) -> Any:
        return self._network


def ones(name: str, width: int = 1) -> layers.Dense:
    return layers.Dense(width, use_bias=False, kernel_initializer="ones", name=name)


def two_outputs(width: int = 1) -> keras.Model:
    """Both outputs are the sum of the two numbers, `width` times: 3 and 2."""
    x = keras.Input((2,), name="x")
    total = ones("total", width)(x)
    return keras.Model(x, [layers.Identity(name="a")(total), layers.Identity(name="b")(total)])


def one_output(name: str = "a") -> keras.Model:
    return keras.Sequential([keras.Input((2,)), ones(name)])


def values(model: Brought, shapes: tuple[Shapes, Shapes] = SHAPES) -> dict[str, float]:
    """What one step on both rows logs, before the update."""
    built = training_model(model, model.create_graph(), shapes)
    targets = {name: {"a": A, "b": B}[name] for name in shapes[1]}
    built.fit(({"x": X}, targets), batch_size=2, shuffle=False, verbose=0)
    return logged(built)


# Errors of the outputs 3 and 2: 2 and 2 from a, 1 and 1 from b.
BOTH = {"loss": 5.0, "a_loss": 4.0, "b_loss": 1.0}


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda y_true, y_pred: (y_true - y_pred) ** 2, BOTH),
        pytest.param(["mse", "mae"], BOTH, marks=pytest.mark.backend),
        ({"a": "mse", "b": "mae"}, BOTH),
        ({"b": "mse", "a": None}, {"loss": 1.0, "b_loss": 1.0}),
        ({"a": Loss("Huber", delta=1.0), "b": None}, {"loss": 1.5, "a_loss": 1.5}),
        ({"a": keras.losses.MeanSquaredError(reduction="sum"), "b": None}, {"loss": 8.0, "a_loss": 8.0}),
    ],
)
def test_losses(loss: Any, expected: dict[str, float]) -> None:
    assert values(Brought(two_outputs(), loss=loss)) == pytest.approx(expected)


def test_a_text_of_a_file_imports_nothing_but_what_is_marked_in_the_package_of_the_model(tmp_path, monkeypatch) -> None:
    (tmp_path / "foreign.py").write_text("def f(y_true, y_pred):\n    return y_pred\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = own_objects.__name__
    for stored, message in [
        ({"loss": "foreign:f"}, r"^Brought\.loss\S*: "),
        ({"metrics": ["foreign:f"]}, r"^Brought\.metrics\S*: "),
        ({"loss": f"{own}:absolute"}, "a file may name it only if it is marked with tfaip.params.nameable"),
    ]:
        with pytest.raises(UsageError, match=message):
            values(Brought(two_outputs(), TextParams.from_dict(stored)))
        assert "foreign" not in sys.modules
    assert values(Brought(two_outputs(), TextParams.from_dict({"loss": f"{own}:squared"}))) == pytest.approx(BOTH)


@pytest.mark.parametrize(
    ("weights", "total"),
    [([0.5, 3.0], 5.0), ({"b": 3.0}, 7.0), ({"a": 0.0, "b": 1.0}, 1.0), (2.0, 10.0)],
)
def test_weights_of_losses(weights: Any, total: float) -> None:
    assert values(Brought(two_outputs(), loss="mse", loss_weights=weights))["loss"] == pytest.approx(total)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (["mae"], {"a_mae": 2, "b_mae": 1}),
        ({"a": "mae"}, {"a_mae": 2}),
        ([["mae"], None], {"a_mae": 2}),
        ({"a": [own_objects.double]}, {"a_double": 1.5}),
    ],
)
def test_metrics(metrics: Any, expected: dict[str, float]) -> None:
    got = values(Brought(two_outputs(), loss="mse", metrics=metrics))
    assert {name: value for name, value in got.items() if "loss" not in name} == pytest.approx(expected)


def class_losses(width: int = 2, **declared: Any) -> Any:
    """The losses of two samples, of the classes 1 and 0, for equal probabilities; the second target is a weight."""
    targets = {"c": keras.ops.array([[1], [0]], "int32"), "w": keras.ops.array([[2.0], [5.0]])}
    if "sample_weight" not in declared:
        del targets["w"]
    outputs = {"prob": keras.ops.full((2, width), 0.5)}
    loss = "binary_crossentropy" if width == 1 else "sparse_categorical_crossentropy"
    model = Brought(None, loss=loss, **declared)
    return model.declared_losses(targets, outputs).compute(targets, outputs, {})["loss"]


@pytest.mark.backend
@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"class_weight": [1, 3]}, [3, 1]),
        ({"class_weight": {1: 4}}, [4, 1]),
        ({"class_weight": {"c": [2, 0]}, "width": 1}, [0, 2]),
        ({"sample_weight": "w"}, [2, 5]),
        ({"class_weight": {"c": {0: 3}}, "sample_weight": "w"}, [2, 15]),
    ],
)
def test_weights_of_classes_and_samples(declared: dict[str, Any], expected: list[float]) -> None:
    found = keras.ops.convert_to_numpy(class_losses(**declared))
    assert found == pytest.approx(np.array(expected) * np.log(2), rel=1e-6)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"class_weight": [1, 2, 3]}, r"Brought.class_weight: the target c has 2 classes, got \[1, 2, 3\]"),
        ({"sample_weight": "v"}, "Brought.sample_weight: no target is called 'v'"),
    ],
)
def test_weights_that_do_not_fit(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        class_losses(**declared)


def test_weights_without_an_effect_are_refused() -> None:
    nothing = {"_loss": lambda self, inputs, targets, outputs: {}}
    with pytest.raises(UsageError, match="OwnLoss has class_weight or sample_weight, .* override _sample_weights"):
        type("OwnLoss", (Brought,), {"sample_weight": "w", **nothing})
    computed: Any = type("Computed", (Brought,), {"class_weight": lambda self: [1, 4], "loss": "mse"})
    assert declared(computed(None), "class_weight") == [1, 4]


def test_one_output_takes_the_only_target_and_the_shapes_choose_the_accuracy() -> None:
    model = Brought(one_output("anything"), loss="mse", metrics=["mae"])
    assert values(model, (SHAPES[0], {"b": (1,)})) == pytest.approx({"loss": 1, "mae": 1})
    for layer, kind in ((layers.Dense(1, "sigmoid"), "Binary"), (layers.Dense(3, "softmax"), "SparseCategorical")):
        model = Brought(keras.Sequential([layer]), loss="crossentropy", metrics=["acc"])
        assert set(values(model, (SHAPES[0], {"a": (1,)}))) == {"loss", "acc"}
        (metric,) = model.metric_objects()
        assert type(metric).__name__ == f"{kind}Accuracy"


@pytest.mark.slow
def test_methods_and_params_declare_too() -> None:
    other = {"loss": 3, "a_loss": 2, "b_loss": 1}
    far = {"metrics": lambda self: {"a": [keras.metrics.MeanAbsoluteError(name="far")]}}
    for members, expected in [
        ({"loss": lambda self: {"a": "mse", "b": None}, **far}, {"loss": 4, "a_loss": 4, "a_far": 2}),
        ({"loss": staticmethod(lambda y_true, y_pred: abs(y_true - y_pred))}, other),
        ({"loss": lambda self, y_true, y_pred: abs(y_true - y_pred)}, other),
        ({"loss": keras.losses.mean_absolute_error}, other),
    ]:
        assert values(type("Declared", (Brought,), members)(two_outputs())) == pytest.approx(expected)
    metrics = [Metric("SparseTopKCategoricalAccuracy", k=2), Metric("MeanIoU", num_classes=3, sparse_y_pred=False)]
    params = ScoreParams(loss=Loss("SparseCategoricalCrossentropy"), metrics=[*metrics, Metric("accuracy")])
    model = Brought(keras.Sequential([layers.Dense(3, "softmax")]), params)
    names = {"loss", "sparse_top_k_categorical_accuracy", "mean_io_u", "accuracy"}
    assert set(values(model, (SHAPES[0], {"a": (1,)}))) == names


def test_models_of_one_class_share_no_state() -> None:
    class Counted(Brought):
        loss = "mse"
        metrics = (keras.metrics.MeanAbsoluteError(name="far"),)

    first, second = Counted(one_output()), Counted(one_output())
    shapes = (SHAPES[0], {"a": (1,)})
    assert values(first, shapes) == values(second, shapes)
    (mine,), (other,) = first.metric_objects(), second.metric_objects()
    assert mine is not other
    assert mine is not Counted.metrics[0]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, "Brought.loss is not declared: expected a loss for a, b"),
        ({"loss": {"a": "mse"}}, "Brought.loss: no loss for the output 'b': add one, or None if it is only predicted"),
        ({"loss": {"a": "mse", "bb": "mse"}}, "Brought.loss: there is no output 'bb'; did you mean b?"),
        ({"loss": "mean_square_error"}, r"losses has no 'mean_square_error'; did you mean MeanSquaredError"),
        ({"loss": "mse", "weighted_metrics": ["mae"]}, "Brought.weighted_metrics is not used: call metrics with"),
    ],
)
def test_declarations_that_do_not_fit(declared: dict[str, Any], expected: str) -> None:
    with pytest.raises((ValueError, UsageError), match=expected):
        values(Brought(two_outputs(), **declared))


def test_shapes_and_names_that_do_not_fit_are_named_with_target_and_output() -> None:
    shapes = (SHAPES[0], {"a": (4,), "b": (3,)})
    fit = r"; targets: b \(None, 3\); outputs: b \(None, 4\)"
    with pytest.raises(ValueError, match=rf"in Brought.loss\['b'\]{fit}"):
        values(Brought(two_outputs(4), loss="mse"), shapes)
    with pytest.raises(ValueError, match=f"in Brought.metrics b_mae{fit}"):
        values(Brought(two_outputs(4), loss={"a": "mse", "b": None}, metrics={"b": "mae"}), shapes)
    x = keras.Input((2,), name="x")
    with pytest.raises(ValueError, match="Brought: no target is called 'bee', as this output"):
        values(Brought(keras.Model(x, [ones("a")(x), ones("bee")(x)]), loss="mse"))


def brought() -> keras.Model:
    """A model whose class has a method that is never called."""
    return type("Own", (keras.Sequential,), {"train_step": print})([keras.Input((6,)), ones("a")])


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (lambda: {"a": 1}, "Brought.build_model returned {'a': 1}, expected a keras.Model, or a layer"),
        (
            lambda: keras.Model(*(2 * [{"poins": keras.Input((6,), name="poins")}])),
            "has the input 'poins', which the data do not have; did you mean points",
        ),
        (lambda: keras.Sequential([keras.Input((6,), dtype="int32"), ones("a")]), "the type int32, the data give f"),
        (brought, "Own.train_step would never be called: override _loss or _metric of Brought, or"),
    ],
)
def test_models_that_do_not_fit(network: Callable[[], Any], expected: str) -> None:
    model = Brought(network())
    with pytest.raises(AttributeError, match=r"Brought.data: the model was not made by a scenario"):
        _ = model.data
    model.data = BroughtData(BroughtDataParams())
    with pytest.raises((TypeError, ValueError), match=expected):
        model.create_graph()


def test_an_object_that_cannot_be_made_names_its_flag(monkeypatch):
    params: Any = brought_params("unnamed")
    params.scenario.model.start = start = Initializer("RandomNormal", stdev=0.1)
    monkeypatch.setitem(NETWORKS, "unnamed", lambda units: start.create())
    expected = "cannot be made: TypeError: got an unexpected keyword argument 'stdev'$"
    with pytest.raises(UsageError, match=r"^--model.start: Initializer\('RandomNormal', stdev=0.1\) " + expected):
        BroughtScenario.create_trainer(params).train()
