"""Objects of Keras as params: flags, JSON, names of Keras, objects of users, and what a file may name."""

from __future__ import annotations

import importlib
import sys
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import finish_command, start_python
from tfaip.errors import UsageError
from tfaip.model.keras_objects.activations import Activation, Gelu, LeakyRelu, Relu, Silu
from tfaip.model.keras_objects.base import CustomObject, KerasObject, RefusedObject, find_params
from tfaip.model.keras_objects.constraints import Constraint, NonNeg
from tfaip.model.keras_objects.initializers import (
    CustomInitializer,
    GlorotUniform,
    HeNormal,
    Initializer,
    Ones,
    RandomNormal,
    Zeros,
)
from tfaip.model.keras_objects.losses import Huber, Loss, MeanSquaredError
from tfaip.model.keras_objects.metrics import AccuracyByShape, MeanIoU, Metric
from tfaip.model.keras_objects.regularizers import L2, Regularizer
from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.params.commandline.config_files import load_config
from tfaip.params.commandline.parser import ParamsParser
from tfaip.params.names.trust import OwnPackage
from tfaip.params.types.objects import ObjectName
from tfaip.params.values.serialization import from_dict, from_json, to_dict, to_json
from tfaip.params.values.storable import prepare, require_readable

KINDS = [Initializer, Regularizer, Constraint, Activation, Loss, Metric]
ROOT = Path(__file__).resolve().parent.parent.parent
OWN = "test.model.own_objects"


class Layers(LayerBaseParams):
    """A layer of a user."""

    activation: Activation = field(default_factory=Relu)
    loss: Loss | None = None
    scores: list[Metric] = field(default_factory=list)


class Own(Initializer, cls="test.model.own_objects:Scaled"):
    """An object of a user with params of its own."""

    factor: float = 3.0


def parse(*words: str) -> Layers:
    parser = ParamsParser("command")
    parser.add_params("model", Layers, metadata={"fix_dc": True})
    params: Layers = parser.parse(words).model
    assert from_json(Layers, to_json(params), trusted=["test"]) == params
    return params


def message(*words: str) -> str:
    with pytest.raises(UsageError) as error:
        parse(*words)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_name_and_arguments_are_flags() -> None:
    params = parse(
        *("--model.kernel_regularizer", "l2", "--model.kernel_regularizer.l2", "0.001"),
        *("--model.kernel_initializer", "HeNormal", "--model.kernel_initializer.seed", "3"),
        *("--model.activation", "gelu", "--model.loss", "Huber", "--model.loss.delta", "2"),
        *("--model.scores", "accuracy", "MeanIoU", "--model.scores.1.num_classes", "4"),
    )
    assert params.kernel_regularizer == L2(l2=0.001)
    assert params.kernel_initializer == HeNormal(seed=3)
    assert params.bias_initializer == Zeros()
    assert (params.activation, params.loss) == (Gelu(), Huber(delta=2.0))
    assert params.scores == [AccuracyByShape(), MeanIoU(num_classes=4)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--model.kernel_initializer", "he_normel"],
            "--model.kernel_initializer: no class 'he_normel'; did you mean HeNormal",
        ),
        (
            ["--model.kernel_regularizer", "l2", "--model.kernel_regularizer.l3", "1"],
            "unknown flag --model.kernel_regularizer.l3; did you mean --model.kernel_regularizer.l2",
        ),
        (
            ["--model.kernel_regularizer", "l2", "--model.kernel_regularizer.l2", "-1"],
            "l2 is -1.0, expected at least 0: change --model.kernel_regularizer.l2",
        ),
        (
            ["--model.activation.negative_slope", "much"],
            "--model.activation.negative_slope: expected float, got 'much'",
        ),
        (["--model.scores", "MeanIoU"], "missing required flag: --model.scores.0.num_classes"),
        (
            ["--model.loss", "Huber", "--model.loss.reduction", "median"],
            "--model.loss.reduction: expected 'sum_over_batch_size'",
        ),
    ],
)
def test_mistakes_name_the_flag(words: list[str], expected: str) -> None:
    assert message(*words).startswith(expected)


def test_help_shows_the_arguments_of_the_chosen_object(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--model.kernel_initializer", "RandomNormal", "--help", "all")
    text = " ".join(capsys.readouterr().out.split())
    assert "--model.kernel_initializer CLASS = RandomNormal Initializer of the kernel." in text
    assert "--model.kernel_initializer.stddev float = 0.05 (at least 0) Standard deviation." in text
    assert "--model.activation.negative_slope float = 0.0" in text
    assert "relu6, selu, sigmoid" in text


def test_a_printed_config_gives_the_same_params(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model.kernel_initializer", f"{OWN}:Scaled", "--model.kernel_initializer.arguments", "factor=2"]
    words += ["--model.activation", "leaky_relu", "--model.activation.negative_slope", "0.3"]
    with pytest.raises(SystemExit):
        parse(*words, "--print_config")
    config = tmp_path / "config.yaml"
    config.write_text(capsys.readouterr().out)
    assert load_config(str(config)).tree["model.activation"] == "leaky_relu"
    assert parse("--config", str(config)) == parse(*words)
    config.write_text("model.kernel_initializer: other.package:Scaled\n")
    assert "'other.package:Scaled' is refused: other is not among the trusted" in message("--config", str(config))


# Names that Keras and scenarios of tfaip 1.2 use.
OLD_NAMES: list[tuple[type[KerasObject], str, KerasObject]] = [
    (Initializer, "glorot_uniform", GlorotUniform()),
    (Initializer, "GlorotUniform", GlorotUniform()),
    (Initializer, "random_normal", RandomNormal()),
    (Initializer, "zeros", Zeros()),
    (Regularizer, "l2", L2()),
    (Regularizer, "L2", L2()),
    (Activation, "swish", Silu()),
    (Loss, "mse", MeanSquaredError()),
]


@pytest.mark.parametrize(("kind", "name", "expected"), OLD_NAMES)
def test_names_are_read_from_files(kind: type[KerasObject], name: str, expected: KerasObject) -> None:
    assert kind.from_name(name, "place") == expected


def test_a_tree_of_names_is_read_and_written_as_names() -> None:
    stored = {"kernel_initializer": "he_normal", "kernel_regularizer": "l2", "activation": "gelu", "scores": ["mse"]}
    params = from_dict(Layers, stored)
    assert params.kernel_initializer == HeNormal()
    assert params.kernel_regularizer == L2()
    assert {name: to_dict(params)[name] for name in stored} == {**stored, "scores": ["mean_squared_error"]}
    params.kernel_regularizer = L2(l2=0.5)
    assert to_dict(params)["kernel_regularizer"] == {
        "__cls__": "tfaip.model.keras_objects.regularizers:L2",
        "l2": 0.5,
    }
    with pytest.raises(UsageError, match=r"params.loss: no class 'hubert'; did you mean Huber\?"):
        from_dict(Layers, {"loss": "hubert"})
    with pytest.raises(UsageError, match=r"params.scores.0: MeanIoU needs a value for num_classes"):
        from_dict(Layers, {"scores": ["MeanIoU"]})


def test_names_may_be_set_in_python() -> None:
    params: Any = Layers()
    params.kernel_initializer, params.scores = "he_normal", ["mse"]
    prepare(params, "model")
    require_readable(params, Layers, "model")
    assert params.kernel_initializer == HeNormal()
    params.kernel_initializer = "he_normel"
    with pytest.raises(UsageError, match=r"--model.kernel_initializer: no class 'he_normel'"):
        prepare(params, "model")


def test_params_of_a_user_are_chosen_by_name() -> None:
    assert parse("--model.kernel_initializer", "Own", "--model.kernel_initializer.factor", "4") == Layers(
        kernel_initializer=Own(factor=4.0)
    )
    # They are not named by their short name in a file, which may be read before they are imported.
    assert to_dict(Layers(kernel_initializer=Own()))["kernel_initializer"] == {
        "__cls__": f"{__name__}:Own",
        "factor": 3.0,
    }


def test_an_object_without_params_is_named() -> None:
    params = parse("--model.activation", f"{OWN}:double", "--model.kernel_initializer", "own_objects>Scaled")
    assert isinstance(params.activation, CustomObject)
    assert params.activation.name == f"{OWN}:double"
    assert params.kernel_initializer == CustomInitializer(name=ObjectName("own_objects>Scaled"))


CUSTOM_LOSS = "tfaip.model.keras_objects.losses:CustomLoss"
HOSTILE = [
    {"kernel_initializer": "os:system"},
    {"kernel_initializer": {"__cls__": "os:system"}},
    {"kernel_initializer": {"__cls__": "tfaip.model.keras_objects.initializers:CustomInitializer", "name": "os:kill"}},
    {"activation": "subprocess:run"},
    {"activation": "keras.utils:get_file"},
    {"activation": "tfaip.util.files:remove_tree"},
    {"scores": ["shutil:rmtree"]},
    {"loss": {"__cls__": "tfaip.model.keras_objects.losses:CustomLoss", "name": "pickle:loads"}},
    {"loss": {"__cls__": "tfaip.model.keras_objects.losses:CustomLoss", "name": "eval(x)"}},
    {
        "loss": {
            "__cls__": "tfaip.model.keras_objects.losses:CustomLoss",
            "arguments": {"x": {"__cls__": "os:PathLike"}},
        }
    },
]


@pytest.mark.parametrize("stored", HOSTILE)
def test_a_file_names_only_objects_of_keras_and_of_trusted_packages(stored: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"is refused|expected module:Class"):
        from_dict(Layers, stored)


@pytest.mark.parametrize(
    "name", ["foreign:X:Y", "foreign:X\n", "foreign:", "foreign:X Y", "foreign:ä", f"foreign:{'x' * 300}"]
)
def test_a_file_imports_nothing_whatever_the_form_of_a_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "foreign", raising=False)  # of another test
    with pytest.raises(UsageError, match=r"^params\.kernel_initializer: .{,200}$"):
        from_dict(Layers, {"kernel_initializer": name})
    assert "foreign" not in sys.modules


def test_the_short_name_of_all_other_objects_is_no_object() -> None:
    with pytest.raises(UsageError, match="expected module:Class or package>Name, got 'Custom'"):
        from_dict(Layers, {"activation": "Custom"})


def test_a_file_may_name_objects_of_the_trusted_package() -> None:
    params = from_dict(Layers, {"kernel_initializer": f"{OWN}:Scaled"}, trusted=["test"])
    assert params.kernel_initializer == CustomInitializer(name=ObjectName(f"{OWN}:Scaled"))


def test_of_a_package_whose_code_runs_a_file_names_classes_and_what_is_marked() -> None:
    own = [OwnPackage("test")]
    scaled = from_dict(Layers, {"kernel_initializer": f"{OWN}:Scaled"}, trusted=own).kernel_initializer
    assert type(scaled.create()).__name__ == "Scaled"
    stored = {"activation": f"{OWN}:double"}
    with pytest.raises(UsageError, match="a file may name it only if it is marked .* --trust test"):
        from_dict(Layers, stored, trusted=own).activation.create()
    assert float(from_dict(Layers, stored, trusted=["test"]).activation.create()(2.0)) == 4.0


def test_no_backend_is_loaded() -> None:
    modules = ", ".join(f"{kind.__module__} as _{index}" for index, kind in enumerate(KINDS))
    code = f"import sys, {modules}; print([m for m in ('keras', 'tensorflow', 'jax') if m in sys.modules])"
    result = finish_command(start_python("-c", code))
    assert (result.rc, result.stdout.strip()) == (0, "[]"), result


def test_an_object_is_found_in_the_tree_by_identity() -> None:
    params = Layers(kernel_initializer=Zeros(), scores=[MeanIoU(num_classes=2), MeanIoU(num_classes=2)])
    assert find_params(params, params.bias_initializer) == "bias_initializer"
    assert find_params({"x": params}, params.scores[1]) == "x.scores.1"
    assert find_params(params, Zeros()) is None


def concrete(kind: type[KerasObject]) -> list[type[KerasObject]]:
    found = [cls for cls in kind.__subclasses__() if cls.__module__ == kind.__module__]
    return [cls for cls in found if not issubclass(cls, CustomObject)]


@pytest.mark.slow
def test_the_table_is_that_of_the_installed_keras() -> None:
    result = finish_command(start_python(str(ROOT / "tools" / "keras_objects.py"), "--check"))
    assert (result.rc, result.stdout) == (0, ""), result


REQUIRED = {"num_classes": 3, "target_class_ids": [0]}
REQUIRED |= dict.fromkeys(["recall", "precision", "specificity", "sensitivity"], 0.5)


@pytest.mark.parametrize("kind", [Initializer, Regularizer, Constraint, Loss, Metric])
def test_objects_have_the_defaults_of_keras(kind: type[KerasObject]) -> None:
    classes = [cls for cls in concrete(kind) if cls is not AccuracyByShape]
    for cls in classes:
        values = {f.name: REQUIRED[f.name] for f in fields(cls) if f.default is MISSING is f.default_factory}
        created, expected = cls(**values).create(), cls.cls()(**values)
        assert without_name(created.get_config()) == without_name(expected.get_config()), cls
    assert (
        len(classes) >= {"Initializer": 15, "Regularizer": 4, "Constraint": 4, "Loss": 20, "Metric": 35}[kind.__name__]
    )


def without_name(config: dict[str, Any]) -> dict[str, Any]:
    # Keras counts objects without a name, and draws seeds.
    return {key: value for key, value in config.items() if key not in ("name", "seed")}


def test_activations_are_functions_or_layers() -> None:
    import keras
    import numpy as np

    x = np.array([-2.0, -0.5, 0.0, 3.0], "float32")
    assert Gelu().create() is keras.activations.gelu
    assert isinstance(LeakyRelu(negative_slope=0.5).create(), keras.layers.LeakyReLU)
    assert keras.ops.convert_to_numpy(LeakyRelu(negative_slope=0.5).create()(x)).tolist() == [-1, -0.25, 0, 3]
    exact, approximate = Gelu().create()(x), Gelu(approximate=True).create()(x)
    assert 0 < np.abs(np.array(exact) - np.array(approximate)).max() < 0.01
    for cls in concrete(Activation):
        if cls.__name__ != "Threshold":
            assert keras.ops.convert_to_numpy(cls().create()(x[None])).shape in ((1, 4), (1, 2)), cls


def test_layers_take_the_params_themselves() -> None:
    import keras
    import numpy as np

    layer = keras.layers.Dense(1, kernel_initializer=Ones(), activation=LeakyRelu(negative_slope=0.5))
    assert keras.ops.convert_to_numpy(layer(np.array([[1.0, -3.0], [2.0, 3.0]], "float32"))).tolist() == [[-1], [5]]


@pytest.mark.parametrize("name", ["initializer", "regularizer", "constraint"])
def test_a_model_of_keras_needs_the_object_itself(name: str) -> None:
    import keras

    params: dict[str, KerasObject] = {"initializer": HeNormal(seed=3), "regularizer": L2(), "constraint": NonNeg()}

    def model(value: Any) -> Any:
        layers = [keras.Input((2, 2)), keras.layers.GRU(1, **{f"kernel_{name}": value})]
        return keras.Sequential(layers).get_config()

    with pytest.raises(TypeError, match=r"is a params object, which Keras cannot store: .*create\(\)") as error:
        model(params[name])
    assert str(error.value).startswith(params[name].described())
    stored = model(params[name].create())["layers"][1]["config"][f"kernel_{name}"]
    assert stored["class_name"] == type(params[name]).__name__


@pytest.mark.parametrize("name", [f"{OWN}:Scaled", "own_objects>Scaled"])
def test_an_object_of_a_user_is_made(name: str) -> None:
    importlib.import_module(OWN)
    made = CustomInitializer(name=ObjectName(name), arguments={"factor": 2.5}).create()
    assert type(made).__name__ == "Scaled"
    assert made.factor == 2.5


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        (Own(factor=1.0), None),
        (CustomInitializer(name=ObjectName(f"{OWN}:Scaled"), arguments={"factr": 1}), "unexpected keyword argument"),
        (CustomInitializer(name=ObjectName(f"{OWN}:NoObject")), "does not derive from keras.initializers.Initializer"),
        (CustomInitializer(name=ObjectName(f"{OWN}:double")), "expected a class derived from keras.initializers"),
        (CustomInitializer(name=ObjectName(f"{OWN}:getcwd")), "it is defined in posix: name it there"),
        (CustomInitializer(name=ObjectName(f"{OWN}:OnlyParams")), "it is a class of params"),
        (CustomInitializer(name=ObjectName(f"{OWN}:Scalled")), "did you mean"),
        (CustomInitializer(name=ObjectName("own>Missing")), "no class is registered by this name"),
        (CustomInitializer(name=ObjectName("not_there:Mine")), "No module named"),
    ],
)
def test_why_an_object_cannot_be_made(params: KerasObject, reason: str | None) -> None:
    if reason is None:
        assert params.create().factor == 1.0
        return
    with pytest.raises(RefusedObject, match=reason) as error:
        params.create()
    assert error.value.params is params
    assert "\n" not in str(error.value)
