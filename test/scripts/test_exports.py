"""tfaip-export and its --check on the models of a run."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.support.commands import CommandResult, exit_code
from test.support.runs import files_below
from test.support.tiny.scenario import TinyScenario
from tfaip.components.loading import load_scenario
from tfaip.device import Precision
from tfaip.errors import TfaipError
from tfaip.export.formats import FORMATS, KerasExporter
from tfaip.export.modelloading import load_exported
from tfaip.export.savedmodelformat import ServedModel
from tfaip.model.weights import load_arrays, save_arrays
from tfaip.scripts import export
from tfaip.scripts.common.models import open_models
from tfaip.trainer.params import ProgressBarMode
from tfaip.util.manifest import read_manifest, verify_files, write_manifest

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
OTHER = "jax" if ON_TENSORFLOW else "tensorflow"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best model of an epoch, in every format that this backend writes."""
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.epochs, params.random_seed = str(tmp_path_factory.mktemp("run")), 1, 3
    params.progress_bar_mode, params.export_final = ProgressBarMode.PLAIN, False
    params.scenario.export_serve = params.scenario.export_keras = True
    params.scenario.export_onnx = ON_TENSORFLOW
    TinyScenario.create_trainer(params).train()
    return Path(params.output_dir) / "best"


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    """A copy at another place."""
    return Path(shutil.copytree(made, tmp_path / "moved"))


def sign(model: Path) -> None:
    """Make the manifest fit what the files have become, as an attacker or a careless program would."""
    write_manifest(model, {k: v for k, v in read_manifest(model).items() if k != "files"})


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`check(path, *flags)`: exit code of the command and its one line of error."""

    def run(*arguments: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        rc = exit_code(export.main, [*map(str, arguments), "--check"])
        out, err = capsys.readouterr()
        assert err.count("\n") == (rc != 0), err
        return rc, err or out

    return run


@pytest.mark.guard
@pytest.mark.backend
def test_a_good_model(check: Callable[..., tuple[int, str]], model: Path, tmp_path: Path) -> None:
    rc, text = check(model, "--out", tmp_path / "check.json", "--batch_size", "5")
    assert rc == 0, text
    assert f"{model} is as it was written, on {keras.backend.backend()} (tfaip" in text
    assert "compared on a batch of 5 (validation data of the training)" in text
    result = json.loads((tmp_path / "check.json").read_text())
    formats = ["serve", "keras", "onnx"] if ON_TENSORFLOW else ["serve", "keras"]
    assert [graph["format"] for graph in result["graphs"]] == formats
    for graph in result["graphs"]:
        assert graph["graph"] == "serve"
        assert (graph["inputs"], graph["outputs"]) == ({"x": "float32[None, 4]"}, {"y": "float32[None, 1]"})
        assert graph["difference"] < 1e-6


@pytest.mark.slow
def test_half_precision(check: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    # Convolutions and classes: what other programs compile differs by more than a float32 may.
    scenario = load_scenario("tfaip.scenario.tutorial.full")
    params = scenario.default_trainer_params()
    params.output_dir, params.epochs, params.random_seed = str(tmp_path / "run"), 1, 3
    params.device.precision, params.export_final = Precision("mixed_float16"), False
    params.progress_bar_mode = ProgressBarMode.PLAIN
    scenario.create_trainer(params).train()
    model = tmp_path / "run" / "best"
    assert read_manifest(model)["precision"] == "mixed_float16"
    rc, text = check(model, "--out", tmp_path / "check.json")
    assert rc == 0, text
    difference = json.loads((tmp_path / "check.json").read_text())["graphs"][0]["difference"]
    assert difference < 0.01
    # Rebuilt in another precision than it was trained in, it differs.
    write_manifest(model, {**read_manifest(model), "precision": ["unknown"]})
    rc, text = check(model)
    assert rc == 1
    assert "the exported model gives other values" in text


@pytest.mark.slow
@pytest.mark.backend
def test_on_the_other_backend(model: Path, run_command: Callable[..., CommandResult], tmp_path: Path) -> None:
    result = run_command("export", model, "--check", "--out", tmp_path / "check.json", env={"KERAS_BACKEND": OTHER})
    assert (result.rc, result.stderr) == (0, ""), result
    content = json.loads((tmp_path / "check.json").read_text())
    assert content["backend"] == keras.backend.backend()
    assert max(graph["difference"] for graph in content["graphs"]) < 1e-5


def test_commands_prefer_the_backend_that_wrote_the_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in ("tensorflow", "jax"):
        write_manifest(model, {"backend": backend})
        monkeypatch.delenv("KERAS_BACKEND")
        open_models([model], [])
        assert os.environ["KERAS_BACKEND"] == backend
        # What the user says wins, and a model that does not say leaves the choice as it was.
        monkeypatch.setenv("KERAS_BACKEND", OTHER)
        open_models([model], [])
        assert os.environ["KERAS_BACKEND"] == OTHER
    (model / "manifest.json").unlink()
    monkeypatch.delenv("KERAS_BACKEND")
    open_models([model], [])
    assert os.environ["KERAS_BACKEND"] == "tensorflow"


def test_damage_is_named(check: Callable[..., tuple[int, str]], model: Path) -> None:
    weights, served = model / "weights.safetensors", model / "serve" / "saved_model.pb"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert check(model) == (1, f"error: {weights} differs from its manifest\n")
    # Nothing is built on damaged weights.
    with pytest.raises(Exception, match="differs from its manifest"):
        load_exported(model)
    sign(model)
    served.unlink()
    assert check(model) == (1, f"error: {served} is missing\n")
    sign(model)
    (model / "more.txt").touch()
    assert check(model) == (1, f"error: {model}/more.txt is not in the manifest of {model}\n")
    held = "it has no scenario_params.json (expected best/ or export/ of a run)"
    assert check(model.parent) == (2, f"error: no exported model at {model.parent}: {held}\n")


def test_weights_of_another_training_are_seen(check: Callable[..., tuple[int, str]], model: Path) -> None:
    weights = load_arrays(model / "weights.safetensors")
    weights["out/bias"] = weights["out/bias"] + np.float32(0.01)
    save_arrays(model / "weights.safetensors", weights)
    sign(model)
    rc, text = check(model)
    assert rc == 1
    assert "other values for output 'y' than the graph" in text
    assert "graph 'serve' in serve/" in text
    assert check(model, "--tolerance", "0.5")[0] == 0


@pytest.mark.slow
def test_formats_are_added_to_a_finished_model(
    model: Path,
    capsys: pytest.CaptureFixture[str],
    check: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("serve", "keras", "onnx"):
        shutil.rmtree(model / name, ignore_errors=True)
    sign(model)
    before = files_below(model)
    assert check(model)[1].endswith("no exported formats (serve/, keras/, onnx/) to compare\n")
    names = ["serve", "keras", "onnx"] if ON_TENSORFLOW else ["serve", "keras"]
    assert export.main([str(model), "--format", *names]) == 0
    assert capsys.readouterr().out.endswith("".join(f"written: {model / name}/\n" for name in names))
    verify_files(model)
    after = files_below(model)
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: content for name, content in before.items() if name != "manifest.json"
    }
    assert read_manifest(model)["backend"] == keras.backend.backend()

    class NoCounterpart(KerasExporter):
        def write(self, directory: Path) -> None:
            raise TfaipError("no counterpart")

    class Other(KerasExporter):
        @staticmethod
        def load(directory: Path, name: str) -> Any:
            return lambda inputs: {"y": np.full((len(inputs["x"]), 1), 9.0)}

    # Written anew, not beside the old one, whatever becomes of the other formats.
    with monkeypatch.context() as patched:
        patched.setitem(FORMATS, "serve", NoCounterpart)
        patched.setitem(FORMATS, "onnx", Other)
        assert exit_code(export.main, [str(model), "--format", "serve", "onnx", "keras"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == f"written: {model}/keras/"
    assert re.match(
        r"error: no counterpart; the exported model gives other values .*; graph 'serve' in onnx/; the", err
    )
    assert sorted(files_below(model)) == sorted(after)
    assert ServedModel(model / "serve")({"x": np.ones((2, 4), np.float32)})["y"].shape == (2, 1)
    rc, text = check(model)
    assert (rc, [name for name in names if f"\n{name}" in text]) == (0, names)
