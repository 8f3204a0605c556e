"""A scenario as it was written for tfaip 1.2, with a trainer of its own that trains twice, runs unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.support.runs import history
from tfaip.imports import LAVParams, PredictorParams, Sample

pytestmark = [
    # Old names, which a program of that time uses.
    pytest.mark.filterwarnings("ignore:.* is (deprecated since tfaip|now called):DeprecationWarning")
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The trainer after both trainings."""
    from test.clients.sums.main import train

    path = tmp_path_factory.mktemp("sums") / "run"
    flags = ["--trainer.output_dir", str(path), "--trainer.lav_every_n", "1", "--trainer.clean_epochs", "3"]
    return train([*flags, "--train.seed", "3"])


@pytest.fixture(scope="module")
def run(trained: Any) -> Path:
    return Path(trained.params.output_dir)


@pytest.mark.guard
def test_second_training_goes_on_with_the_same_weights(trained: Any, run: Path) -> None:
    values = [epoch["values"] for epoch in history(run).values()]
    losses = [value["mse"] for value in values]
    assert len(losses) == 5
    # The second training begins where the first one ended: its first epoch has a tenth of the loss at most.
    assert losses[2] < losses[1] / 10
    assert trained.epoch == 5
    assert trained.params.current_epoch == 3
    assert trained.set_up == 2
    assert trained.params.gen.train.noise == 0


def test_callbacks_derive_from_and_are_recognised_by_their_classes(trained: Any, run: Path) -> None:
    logger = trained.epochs_logger
    assert trained.kinds == ["LoggerCallback"]
    assert logger.epochs == [0, 1, 2, 3, 4]
    assert [logs["mse"] for logs in logger.logs] == [epoch["values"]["mse"] for epoch in history(run).values()]
    assert {"val_mae", "lav_l0_right"} <= logger.logs[-1].keys()


def test_hooks_give_data_and_model_their_arguments(trained: Any) -> None:
    assert trained.scenario.data.unit == "apples"
    assert trained.scenario.model.unit == "apples"


@pytest.mark.guard
@pytest.mark.backend
def test_resumes_the_second_training(run: Path) -> None:
    from test.clients.sums.main import resume

    before = history(run)
    trainer = resume(str(run), clean_epochs=4)
    assert trainer.epoch == 6
    after = history(run)
    assert {epoch: after[epoch] for epoch in before} == before
    assert list(after) == [*before, "6"]


@pytest.mark.backend
def test_predicts_and_evaluates(run: Path) -> None:
    from test.clients.sums.params import SumsGeneratorParams
    from test.clients.sums.scenario import SumsScenario

    predictor = SumsScenario.create_predictor(str(run / "best"), PredictorParams(silent=True, include_targets=True))
    generator = SumsGeneratorParams(size=5, seed=9)
    samples = list(predictor.predict(generator))
    errors = [abs(sample.outputs["sum"][0] - sample.targets["sum"][0]) for sample in samples]
    assert len(errors) == 5
    (raw,) = predictor.predict_raw([Sample(inputs=samples[0].inputs, targets=samples[0].targets)])
    np.testing.assert_allclose(raw.outputs["sum"], samples[0].outputs["sum"], rtol=1e-6)

    params = SumsScenario.params_from_path(str(run / "best"))
    lav = SumsScenario.create_lav(LAVParams(model_path=str(run / "best"), silent=True), params)
    (results,) = lav.run([generator])
    assert results["right"] == np.mean([error <= 0.5 for error in errors])
    np.testing.assert_allclose(results["mae"], np.mean(errors), rtol=1e-5)


@pytest.mark.slow
def test_classes_that_methods_return(tmp_path: Path) -> None:
    from test.clients.sums.params import SumsPipelineParams, SumsScenarioParams
    from test.clients.sums.scenario import SumsByHook

    params = SumsByHook.default_trainer_params()
    assert isinstance(params.gen, SumsPipelineParams)
    assert isinstance(params.scenario, SumsScenarioParams)
    params.epochs, params.output_dir = 1, str(tmp_path / "run")
    logs = SumsByHook.create_trainer(params).train()
    assert logs["val_mse"] > 0
    stored = json.loads((tmp_path / "run" / "trainer_params.json").read_text())
    assert stored["gen"]["train"]["size"] == 24
