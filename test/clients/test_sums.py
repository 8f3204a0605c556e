"""A scenario as it was written for tfaip 1.2, with a trainer of its own that trains twice, runs unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.support.runs import history
from tfaip.errors import UsageError
from tfaip.imports import LAVParams, PredictorParams, Sample

pytestmark = [
    # Old names, which a program of that time uses.
    pytest.mark.filterwarnings("ignore:.* is (deprecated since tfaip|now called):DeprecationWarning")
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The trainer after both trainings."""
    from test.clients.sums.scenario import train

    path = tmp_path_factory.mktemp("sums") / "run"
    flags = ["--trainer.output_dir", str(path), "--trainer.lav_every_n", "1", "--trainer.clean_epochs", "3"]
    return train([*flags, "--train.seed", "3"])


@pytest.fixture(scope="module")
def run(trained: Any) -> Path:
    return Path(trained.params.output_dir)


@pytest.mark.guard
def test_trains_twice_with_its_callbacks_and_the_arguments_of_the_hooks(trained: Any, run: Path) -> None:
    values = [epoch["values"] for epoch in history(run).values()]
    # The second training begins where the first one ended: its first epoch has a tenth of the loss of new weights.
    assert values[2]["mse"] < values[0]["mse"] / 10
    assert (trained.epoch, trained.params.current_epoch, trained.set_up) == (5, 3, 2)
    assert trained.params.gen.train.noise == 0
    assert trained.kinds == ["LoggerCallback"]
    logged = trained.epochs_logger.epochs
    assert {epoch: logs["mse"] for epoch, logs in logged.items()} == {i: v["mse"] for i, v in enumerate(values)}
    assert {"val_mae", "lav_l0_mae"} <= logged[4].keys()
    assert trained.scenario.data.unit == trained.scenario.model.unit == "apples"


def test_a_stop_in_the_second_training_cannot_be_resumed(run: Path) -> None:
    from test.clients.sums.scenario import resume

    before = history(run)
    with pytest.raises(UsageError, match="the stage 'main' is running, but differs .first_epoch: 3 -> 1"):
        resume(str(run), clean_epochs=4)
    assert history(run) == before


@pytest.mark.backend
def test_predicts_and_evaluates(run: Path) -> None:
    from test.clients.sums.scenario import SumsGeneratorParams, SumsScenario

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
    np.testing.assert_allclose(results["mae"], np.mean(errors), rtol=1e-5)
