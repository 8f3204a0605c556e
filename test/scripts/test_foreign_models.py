"""Models of a stranger: whatever lies in the directory, nothing of it is imported or executed, and nothing expands."""

import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from test.support.commands import exit_code
from test.support.tiny.scenario import TinyData, TinyModelParams, TinyTrainerParams
from tfaip.errors import TfaipError, UsageError
from tfaip.export.formats import KerasExporter
from tfaip.export.modelloading import load_exported
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.export.savedmodelformat import ServedModel
from tfaip.export.trainingdata import load_training_data
from tfaip.imports import ScenarioBase, ScenarioBaseParams
from tfaip.params import pai_dataclass
from tfaip.params.resource import Resource
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Predictor
from tfaip.scripts import export, predict
from tfaip.trainer.warmstart.warmstarter import read_source
from tfaip.util.manifest import write_manifest

X = {"x": np.ones((1, 4), np.float32)}

EVIL = """
from dataclasses import dataclass
from pathlib import Path
from test.support.tiny.scenario import TinyModelParams
Path({marker!r}).touch()

@dataclass
class Evil(TinyModelParams):
    pass
"""
# A function under a name of a package that is trusted.
harmless = exec


@pai_dataclass
@dataclass
class WordsParams(ScenarioBaseParams[TinyData, TinyModelParams]):
    """A scenario with a file."""

    words: Resource | None = field(default=None)


class Words(ScenarioBase[WordsParams, TinyTrainerParams]):
    """The same."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory, as small as it gets."""
    (tmp_path / "words.txt").write_text("a")
    params = Words.default_params()
    params.export_serve, params.words = False, Resource(tmp_path / "words.txt")
    scenario = Words(params)
    scenario.graph.predict(X)
    ModelDirectoryWriter(scenario).write(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that appears when something is executed, e.g. when `evil_package` is imported."""
    path = tmp_path / "marker"
    (tmp_path / "evil_package.py").write_text(EVIL.format(marker=str(path)))
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("evil_package", None)
    assert not path.exists(), "something of the directory was executed"


def edit(model: Path, change: Callable[[dict[str, Any]], Any], file: str = "scenario_params.json") -> None:
    """Change the params, and the manifest with them."""
    content = json.loads((model / file).read_text())
    change(content)
    (model / file).write_text(json.dumps(content))
    write_manifest(model, {"backend": "tensorflow", "versions": {}})


COMMANDS: dict[str, Callable[[str], int]] = {
    "check": lambda path: exit_code(export.main, [path, "--check"]),
    "export": lambda path: exit_code(export.main, [path, "--format", "keras"]),
    "predict": lambda path: exit_code(predict.main, ["--export_dir", path]),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["model"].update(__cls__="os:system"), "__cls__ 'os:system' is refused: os is not among"),
        (lambda p: p["model"].update(__cls__="evil_package:Evil"), "'evil_package:Evil' is refused"),
        (lambda p: p.update(__cls__="evil_package:Evil"), "'evil_package:Evil' is refused"),
        (lambda p: p["model"].update(__cls__="test.scripts.test_foreign_models:harmless"), "is not a params class"),
        (lambda p: p["model"].update(__cls__="tfaip.util.files:os"), "is not a params class"),
        (lambda p: p.update(words="../words.txt"), "resource '../words.txt' lies outside of"),
        (lambda p: p.update(words="/etc/hostname"), "resource /etc/hostname is refused: it lies outside of the model"),
        (lambda p: p.update(scenario_id="os:system"), "names a module of the standard library"),
        (lambda p: p.update(scenario_id="test.scripts.test_foreign_models:harmless"), "has no scenario named"),
    ],
)
def test_params_that_name_what_they_must_not(
    change: Callable[[dict[str, Any]], Any], message: str, model: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(model, change)
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        load_exported(model)
    for name, command in COMMANDS.items():
        capsys.readouterr()
        assert command(str(model)) == 2, name
        err = capsys.readouterr().err
        assert (message in err, err.count("\n")) == (True, 1), (name, err)


def test_a_file_behind_a_link_is_refused(model: Path, tmp_path: Path) -> None:
    (model / "resources" / "words.txt").unlink()
    (model / "resources" / "words.txt").symlink_to(tmp_path / "words.txt")
    with pytest.raises(UsageError, match="resource 'resources/words.txt' lies outside of"):
        load_exported(model)
    assert exit_code(export.main, [str(model), "--check"]) == 1


def test_training_data_that_name_what_they_must_not(model: Path, marker: Path) -> None:
    for name in ("os:system", "evil_package:Evil", "tfaip.util.files:os"):
        (model / "training_data.json").write_text(json.dumps({"gen": {"__cls__": name}}))
        with pytest.raises(UsageError, match="training_data.json: params.gen: .*(is refused|is not a params class)"):
            load_training_data(model, Words)


def zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("weights.npy", "w") as member:
        for _ in range(80):
            member.write(bytes(1 << 20))


def test_a_lambda_layer_in_a_keras_file(model: Path, marker: Path) -> None:
    (model / "keras").mkdir()
    file, name = model / "keras" / "serve.keras", str(marker)
    inputs = keras.Input((4,), name="x")
    attack = keras.layers.Lambda(lambda x: (open(name, "w").close(), x)[1], output_shape=(4,))
    keras.Model({"x": inputs}, {"y": attack(inputs)}).save(file)
    marker.unlink(missing_ok=True)  # Keras called it to find out its shape
    with pytest.raises(TfaipError, match="serve.keras cannot be loaded: Requested the deserialization of a `Lambda`"):
        KerasExporter.load(file.parent, "serve")
    predictor = Predictor(PredictorParams(silent=True), Words(Words.default_params()).data)
    for load in (read_source, predictor.set_model, load_exported):
        with pytest.raises(UsageError, match=f"model at {file}: (not a directory|it has no)"):
            load(file)
        with pytest.raises(UsageError, match=f"model at {file.parent}: "):
            load(file.parent)
    zip_bomb(file)
    with pytest.raises(TfaipError, match="weights.npy is compressed and may expand to any size"):
        KerasExporter.load(file.parent, "serve")
    # Beside our own weights it is not looked at.
    write_manifest(model, {"backend": "tensorflow", "versions": {}})
    load_exported(model).graph.predict(X)
    assert "hidden/kernel" in read_source(model).arrays


def test_the_program_of_a_saved_model_is_run_only_when_it_is_named(model: Path, marker: Path) -> None:
    module = tf.Module()
    module.weight = tf.Variable([1.0], name="weight")

    def attack(x: Any) -> dict[str, Any]:
        with tf.control_dependencies([tf.io.write_file(str(marker), "executed")]):
            return {"y": x * module.weight}

    function = tf.function(attack, input_signature=[tf.TensorSpec((None, 4), name="x")])
    tf.saved_model.save(module, str(model / "serve"), signatures={"serve": function})
    (model / "weights.safetensors").rename(model.parent / "weights.safetensors")
    assert read_source(model).arrays["weight"].tolist() == [1.0]
    (model.parent / "weights.safetensors").rename(model / "weights.safetensors")
    load_exported(model).graph.predict(X)
    assert not marker.exists()
    ServedModel(model / "serve")(X)
    assert marker.exists()
    marker.unlink()
