"""A run, its models and their params as tfaip 1.2 wrote them: predicted, evaluated, started from, converted."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.support.commands import Run
from test.support.former.scenario import WaveGeneratorParams, WaveScenario
from test.support.former12 import expected_of, unpack_former
from tfaip.errors import TfaipError, UsageError
from tfaip.imports import WarmStarter, WarmStartParams
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.params.stored import load_params
from tfaip.predict.params import PredictorParams
from tfaip.predict.samplefile import read_samples

VALIDATION = WaveGeneratorParams(size=8, seed=2)
# Values that fit the fields: 1.2 stored others.
BEST_ONLY = ("--trainer.export_final", "False", "--trainer.skip_model_load_test", "True")
FITTING = ("--model.window", "4", "1", "1", "--model.limit", "0")


@pytest.fixture
def former(tmp_path: Path) -> Path:
    return unpack_former(tmp_path)


def assert_predicted(samples: list[Any], expected: list[dict[str, Any]]) -> None:
    """The samples have the outputs that 1.2 computed, up to the rounding of float32."""
    assert [sample.meta["index"] for sample in samples] == [one["index"] for one in expected]
    assert [sample.outputs["name"] for sample in samples] == [one["name"] for one in expected]
    for name in ("prob", "logits"):
        values = np.array([sample.outputs[name] for sample in samples])
        np.testing.assert_allclose(values, [one[name] for one in expected], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "model", [pytest.param("best", marks=pytest.mark.backend), "export", "best/serve", "best/trainer_params.json"]
)
def test_models_predict_what_1_2_computed(model: str, former: Path) -> None:
    predictor = WaveScenario.create_predictor(former / model, PredictorParams(silent=True))
    assert_predicted(list(predictor.predict(VALIDATION)), expected_of(former)[model.partition("/")[0]])


@pytest.mark.slow
def test_the_saved_model_itself_has_the_names_of_the_author(former: Path) -> None:
    predictor = WaveScenario.create_predictor(former / "export", PredictorParams(silent=True))
    predictor.set_model(former / "export" / "serve")
    assert_predicted(list(predictor.predict(VALIDATION)), expected_of(former)["export"])


@pytest.mark.guard
def test_the_commands_take_runs_and_models(run: Run, former: Path) -> None:
    expected = expected_of(former)
    # The data are those that the training validated on.
    for model, name in (("run", "best"), ("run/export", "export")):
        code, out, err = run("predict", "--export_dir", model, "--dump", f"{name}.jsonl")
        assert (code, err) == (0, "")
        assert_predicted(list(read_samples(Path(f"{name}.jsonl"))), expected[name])
        assert out.count("was written by tfaip 1.2") == 1
    assert run("lav", "--export_dir", "run", "--out", "lav.json")[0] == 0
    results = json.loads(Path("lav.json").read_text())["results"]["lav_l0"]
    # 1.2 stored the loss of its best epoch on the same data; its own LAV computes no losses.
    best = json.loads((former / "best" / "trainer_params.json").read_text())["early_stopping"]["current"]
    assert results["crossentropy"] == pytest.approx(best, abs=1e-5)
    assert {name: results[name] for name in ("acc", "named")} == pytest.approx(
        {name: expected["lav"][name] for name in ("acc", "named")}, abs=1e-5
    )


@pytest.mark.slow
def test_a_new_training_starts_with_the_weights_and_writes_the_new_format(run: Run, former: Path) -> None:
    flags = ("--trainer.epochs", "1", "--trainer.output_dir", "new", "--warmstart.model", "run")
    code, out, err = run("train_from_params", "run/trainer_params.json", *flags)
    assert (code, err) == (2, "error: --model.window.2: expected int, got 0.5\n")
    assert not Path("new").exists()
    code, out, err = run(
        "train_from_params", "run/trainer_params.json", *flags, *FITTING, "--learning_rate.lr", "0", *BEST_ONLY
    )
    assert (code, err) == (0, "")
    assert "13 copied, 0 resized, 0 fresh" in out
    content = json.loads(Path("new/trainer_params.json").read_text())
    assert (content["__version__"], content["learning_rate"]["decay"]) == (1, 0.99)
    assert not {"lr_decay_rate", "tfaip_version"} & {*content["learning_rate"], *content["scenario"]}
    trusted = WaveScenario.declared_packages()
    params = load_params(Path("new/trainer_params.json"), WaveScenario.trainer_params_cls(), trusted=trusted)
    assert (params.gen.val, params.random_seed, params.gen.setup.train.batch_size) == (VALIDATION, 1, 4)
    # The rate was 0: what was exported is the model of 1.2, but for the statistics of the training.
    code, _, err = run("predict", "--export_dir", "new", "--dump", "new.jsonl")
    assert (code, err) == (0, "")


def test_resuming_is_answered_with_what_works(run: Run, former: Path) -> None:
    code, out, err = run("resume_training", "run", *FITTING)
    assert code == 2
    assert "tfaip 1.2" in err
    assert "--warmstart.model" in err
    assert err.count("\n") == 1


def test_weights_of_a_checkpoint(former: Path) -> None:
    """A run that was stopped before it exported a model has nothing else."""

    def started(source: Path) -> dict[str, np.ndarray]:
        scenario = WaveScenario(params)
        warmstarter = WarmStarter(WarmStartParams(model=[str(source)]))
        graph = scenario.create_model_and_graph()[1]
        graph(scenario.data.create_input_layers())
        warmstarter.apply(graph)
        arrays = variable_arrays(variables_by_path(graph))
        return {path: array for path, array in arrays.items() if not path.endswith("seed_generator/state")}

    params = WaveScenario.params_from_path(former / "export")
    last = started(former / "export")
    for name in ("best", "export"):
        shutil.rmtree(former / name)
    for source in (former, former / "variables"):
        weights = started(source)
        assert (len(weights), weights.keys()) == (13, last.keys())
        for path, array in weights.items():
            np.testing.assert_array_equal(array, last[path], err_msg=path)


def edit(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def test_names_that_the_options_of_1_2_chose(former: Path) -> None:
    """A SavedModel, and its params in a file of the same name beside it."""
    shutil.move(former / "best" / "serve", former / "best.ckpt")
    shutil.move(former / "best" / "trainer_params.json", former / "best.ckpt.json")
    edit(former / "best.ckpt.json", lambda p: p["scenario"].update(default_serve_dir="best.ckpt"))
    for path in ("best.ckpt", "best.ckpt.json"):
        predictor = WaveScenario.create_predictor(former / path, PredictorParams(silent=True))
        assert_predicted(list(predictor.predict(VALIDATION)), expected_of(former)["best"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["model"].update(__cls__="os:system"), "__cls__ 'os:system' is refused: os is not among"),
        (lambda p: p["data"]["pre_proc"]["processors"][0].update(__cls__="evil:Evil"), "'evil:Evil' is refused"),
        (lambda p: p.update(default_serve_dir="../export/serve"), "weights.safetensors cannot be read"),
    ],
)
def test_a_file_of_1_2_names_no_code_and_no_place_outside(change: Any, message: str, former: Path) -> None:
    edit(former / "export" / "scenario_params.json", change)
    (former / "trainer_params.json").unlink()
    with pytest.raises((UsageError, TfaipError), match=message.replace("(", r"\(")):
        WaveScenario.create_predictor(former / "export", PredictorParams(silent=True))


def test_a_graph_that_differs_is_refused_with_its_weights(former: Path) -> None:
    edit(former / "export" / "scenario_params.json", lambda p: p["model"].update(units=[5, 4, 3]))
    with pytest.raises(TfaipError, match=r"missing .'encoder/dense/2/.*2 and 0 in all(?s:.*)give the layers"):
        WaveScenario.create_predictor(former / "export", PredictorParams(silent=True))
