"""Objects of Keras as params: flags, JSON, names of Keras, objects of users, and what a file may name."""

import inspect
import sys
from dataclasses import field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.model.keras_objects import (
    Activation,
    Constraint,
    Initializer,
    KerasObject,
    Loss,
    Metric,
    RefusedObject,
    Regularizer,
)
from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.params.commandline import ParamsParser
from tfaip.params.settings import flag_values, get_flag, prepare, require_readable, set_flags
from tfaip.params.stored import flat_params, from_dict, from_json
from tfaip.params.trust import OwnPackage

OWN = "test.model.own_objects"


class Layers(LayerBaseParams):
    """A layer of a user."""

    activation: Activation = Activation("relu")
    loss: Loss | None = None
    scores: list[Metric] = field(default_factory=list)


def parse(*words: str) -> Layers:
    parser = ParamsParser("command")
    parser.add_params("model", Layers, metadata={"fix_dc": True})
    params: Layers = parser.parse(words).model
    assert from_json(Layers, params.to_json(), trusted=["test"]) == params
    return params


def message(*words: str) -> str:
    with pytest.raises(UsageError) as error:
        parse(*words)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_name_and_arguments_are_flags() -> None:
    params = parse(
        *("--model.kernel_regularizer", "L2", "--model.kernel_regularizer.l2", "0.01"),
        *("--model.kernel_initializer.seed", "3", "--model.activation", "gelu"),
        *("--model.loss", "Huber", "--model.loss.delta", "2", "--model.loss.reduction", "sum"),
        *("--model.scores", "accuracy", "MeanIoU", "--model.scores.1.num_classes", "4"),
        *("--model.scores.1.sparse_y_pred", "false"),
    )
    assert params.kernel_regularizer == Regularizer("L2", l2=0.01)
    assert params.kernel_initializer == Initializer("glorot_uniform", seed=3)
    assert params.bias_initializer == Initializer("zeros")
    assert (params.activation, params.loss) == (Activation("gelu"), Loss("Huber", delta=2, reduction="sum"))
    assert params.scores == [Metric("accuracy"), Metric("MeanIoU", num_classes=4, sparse_y_pred=False)]
    assert params.kernel_regularizer != Regularizer("L2") != Initializer("L2")
    assert Layers().kernel_initializer == Initializer("glorot_uniform")  # the default is not changed
    for words, expected in [(["0", "1"], [0, 1]), (["[0, 2.5, null]"], [0, 2.5, None]), (["1e-3"], 0.001), ([], True)]:
        (axis,) = parse("--model.loss", "Dice", "--model.loss.axis", *words).loss.arguments.values()
        assert (axis, type(axis)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--model.kernel_initializer", "he normal"], "--model.kernel_initializer: expected the name of a class or"),
        (["--model.loss.delta", "1"], "--model.loss.delta: no class is chosen: choose it with --model.loss"),
        (["--model.loss", "Dice", "--model.loss.axis", '[{"a": 1}]'], "--model.loss.axis: expected a number, a text"),
    ],
)
def test_mistakes_name_the_flag(words: list[str], expected: str) -> None:
    assert message(*words).startswith(expected)


def test_a_file_and_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model.kernel_initializer", f"{OWN}:Scaled", "--model.kernel_initializer.factor", "2"]
    words += ["--model.activation", "leaky_relu", "--model.activation.negative_slope", "0.3", "--trust", "test"]
    with pytest.raises(SystemExit):
        parse(*words, "--print_config")
    config = tmp_path / "config.yaml"
    printed = capsys.readouterr().out
    assert "model.activation: {class: leaky_relu, arguments: {negative_slope: 0.3}}  # command line" in printed
    config.write_text(printed)
    assert parse("--config", str(config), "--trust", "test") == parse(*words)
    config.write_text("model:\n  loss: Huber\n  loss.delta: 1e-3\n  scores: [acc, {class: MeanIoU}]\n  scores.1.n: 4\n")
    in_file = ["--config", str(config)]
    params = parse(*in_file)
    assert (params.loss, params.scores) == (Loss("Huber", delta=0.001), [Metric("acc"), Metric("MeanIoU", n=4)])
    # Arguments of another class say nothing about this one.
    assert parse(*in_file, "--model.loss", "mse").loss == Loss("mse")
    config.write_text("model.kernel_initializer: other.package:Scaled\n")
    assert "'other.package:Scaled' is refused: other is not among the trusted" in message(*in_file)
    config.write_text("model.loss: {delta: 1}\n")
    assert "model.loss: expected a class, or {class: ..., arguments: {...}}, got" in message(*in_file)


def test_in_python_and_as_stored() -> None:
    params: Any = Layers(kernel_regularizer=Regularizer("L2", l2=0.5))
    set_flags(params, {"kernel_regularizer.l2": 0.25, "activation": "gelu", "loss": Loss("Huber", delta=2.0)})
    assert params.kernel_regularizer == Regularizer("L2", l2=0.25) == get_flag(params, "kernel_regularizer")
    assert (flag_values(params)["kernel_regularizer.l2"], get_flag(params, "loss.delta")) == (0.25, 2.0)
    # Names may be set, too.
    params.kernel_initializer, params.scores = "he_normal", ["mse"]
    prepare(params, "model")
    require_readable(params, Layers, "model")
    assert (params.kernel_initializer, params.scores) == (Initializer("he_normal"), [Metric("mse")])
    stored = params.to_dict()
    assert (stored["kernel_initializer"], stored["scores"]) == ("he_normal", ["mse"])
    assert stored["kernel_regularizer"] == {"class": "L2", "arguments": {"l2": 0.25}}
    assert from_dict(Layers, stored) == params
    assert flat_params(stored)["kernel_regularizer.l2"] == 0.25


FORMS = ["foreign:X:Y", "foreign:X\n", "foreign:", "foreign:X Y", "foreign:ä", f"foreign:{'x' * 300}", "os:system"]
HOSTILE: list[dict[str, Any]] = [
    *({"kernel_initializer": name} for name in FORMS),
    *({"kernel_initializer": {"__cls__": "os:system"}}, {"kernel_initializer": {"class": "os:kill", "arguments": {}}}),
    {"kernel_initializer": {"class": "HeNormal", "arguments": {}, "module": "os"}},
    *({"activation": name} for name in ("subprocess:run", "keras.utils:get_file", "tfaip.util.files:remove_tree")),
    {"scores": ["shutil:rmtree"]},
    {"scores": [{"class": "MeanIoU", "arguments": {"dtype": {"module": "os", "class_name": "x", "config": {}}}}]},
    *({"loss": {"class": name}} for name in ("pickle:loads", "eval(x)", ["Huber"])),
    {"loss": {"class": "Huber", "arguments": {"x": [[{"__cls__": "os:PathLike"}]]}}},
]


def test_a_file_names_only_objects_of_keras_and_of_trusted_packages(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "foreign.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for stored in HOSTILE:
        with pytest.raises(UsageError, match=r"^params\.\w+\S*: .{,400}$") as error:
            from_dict(Layers, stored)
        assert "is refused" in str(error.value) or "expected" in str(error.value)
        assert "foreign" not in sys.modules


def test_of_a_package_whose_code_runs_a_file_names_classes_and_what_is_marked() -> None:
    own = [OwnPackage("test")]
    scaled = from_dict(Layers, {"kernel_initializer": f"{OWN}:Scaled"}, trusted=own).kernel_initializer
    assert type(scaled.create()).__name__ == "Scaled"
    stored = {"activation": f"{OWN}:double"}
    with pytest.raises(UsageError, match="a file may name it only if it is marked .* --trust test"):
        from_dict(Layers, stored, trusted=own).activation.create()
    assert float(from_dict(Layers, stored, trusted=["test"]).activation.create()(2.0)) == 4.0


def test_objects_of_keras_are_made() -> None:
    for named, expected in [
        (Initializer("glorot_uniform", seed=1), {"seed": 1}),
        (Initializer("normal", stddev=2.0, seed=1), {"mean": 0.0, "stddev": 2.0, "seed": 1}),
        (Regularizer("l1_l2", l1=1), {"l1": 1.0, "l2": 0.0}),
        (Constraint("max_norm", max_value=3), {"max_value": 3, "axis": 0}),
        (Loss("mse"), {"name": "mean_squared_error", "reduction": "sum_over_batch_size"}),
        (Metric("TopKCategoricalAccuracy", k=2, name="top"), {"name": "top", "dtype": "float32", "k": 2}),
        (Initializer(f"{OWN}:Scaled", factor=2.5), {"factor": 2.5}),
    ]:
        made = named.create().get_config()
        assert {name: made[name] for name in expected} == expected
    for kind in (Initializer, Regularizer, Constraint, Loss, Metric):
        module = getattr(keras, kind.module)
        base = getattr(module, kind.base)
        classes = {v for v in vars(module).values() if inspect.isclass(v) and issubclass(v, base) and v is not base}
        assert len(classes) >= 4
        for cls in classes - {keras.metrics.MeanMetricWrapper}:  # of a function in Python, which takes any arguments
            with pytest.raises(RefusedObject, match="unexpected keyword argument 'nothing'"):
                kind(cls.__name__, nothing=1).create()


def test_activations_are_functions_or_layers_and_layers_take_the_params() -> None:
    x = np.array([-2.0, -0.5, 0.0, 3.0], "float32")
    assert Activation("swish").create() is keras.activations.silu
    leaky = Activation("LeakyRelu", negative_slope=0.5).create()
    assert isinstance(leaky, keras.layers.LeakyReLU)
    assert keras.ops.convert_to_numpy(leaky(x)).tolist() == [-1, -0.25, 0, 3]
    exact, approximate = (Activation("gelu", approximate=value).create()(x) for value in (False, True))
    assert 0 < np.abs(np.array(exact) - np.array(approximate)).max() < 0.01
    start, slope = Initializer("ones"), Activation("leaky_relu", negative_slope=0.5)
    layer = keras.layers.Dense(1, kernel_initializer=start, activation=slope)
    assert keras.ops.convert_to_numpy(layer(np.array([[1.0, -3.0], [2.0, 3.0]], "float32"))).tolist() == [[-1], [5]]


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        *((kind(n), r"has no '") for kind in (Loss, Activation) for n in ("Loss", "get", "os", "own_objects>Scaled")),
        (Initializer("he_normel"), r"keras.initializers has no 'he_normel'; did you mean HeNormal"),
        (Regularizer("L2", l2="much\n" * 10000), "ValueError"),
        (Activation("relu", slope=1), r"^Activation\('relu', slope=1\) cannot be made: .*keyword argument 'slope'$"),
        (Initializer(f"{OWN}:NoObject"), "expected a class derived from keras.initializers.Initializer"),
        (Initializer(f"{OWN}:getcwd"), "it is defined in posix: name it there"),
        (Initializer("not_there:Mine"), "No module named"),
    ],
)
def test_why_an_object_cannot_be_made(named: KerasObject, reason: str) -> None:
    with pytest.raises(RefusedObject, match=reason) as error:
        named.create()
    assert error.value.named is named
    assert (str(error.value).isprintable(), len(str(error.value)) <= 300) == (True, True)
