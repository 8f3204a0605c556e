"""Two devices give the numbers of one, for everything that acts on gradients or weights."""

from pathlib import Path

import keras
import numpy as np
import pytest

from test.device.support import EVERYTHING, STAGES, Case, Result, assert_same_curve, finish_cases, start_cases
from test.device.train_cases import train
from tfaip.export.savedmodelformat import ServedModel

pytestmark = [pytest.mark.backend, pytest.mark.slow]

CASES: dict[str, Case] = {
    "plain": {"set": {}},
    "averages": {"set": {"calc_ema": 0.9, "lav_every_n": 1, "lav_silent": True}},
    "stages": {"set": {"stages": STAGES, "epochs": 3, "train_accum_steps": 3, "calc_ema": 0.9}},
    "schedules and noise on weights": {
        "set": {
            "weight_noise.stddev": 0.05,
            "schedules": {
                "optimizer.clip_global_norm": {"0": 1.0, "2": 0.05},
                "optimizer.weight_decay": {"0": 0.0, "2": 0.1},
                "loss_weights.mse": {"0": 1.0, "1": 0.5},
            },
        }
    },
    "random layers": {"set": {"scenario.model": "RandomLayersParams", "train_accum_steps": 2}},
    "all": {"set": EVERYTHING},
}

# 90 batches, the last one of 13; of buckets, a batch of 3 at the end of each pass.
MANY = {"gen.train.samples": 1437, "samples_per_epoch": 1437, "gen.setup.train.batch_size": 16}
OF_BUCKETS = {"gen.train.samples": 31, "gen.setup.train.batch_size": 14, "gen.setup.train.bucket_boundaries": [2]}
CASES["1437 samples"] = {
    "set": {**EVERYTHING, **MANY, "gen.setup.val.batch_size": 16, "optimizer.gradient_noise.stddev": 0.01}
}
CASES["normalization"] = {"set": {"scenario.model": "NormalizedParams"}}
CASES["loss objects"] = {"set": {"scenario.model": "LossObjectParams", "optimizer.clip_global_norm": 0.2}}
CASES["skipped batches"] = {
    "set": {"scenario.model": "NormalizedParams", "gen.train": "Holed", "optimizer.skip_nonfinite": 3}
}
CASES["buckets"] = {"set": {**EVERYTHING, **OF_BUCKETS}}

HALF: dict[str, Case] = {
    name: {"set": {"device.precision": name, "lav_every_n": 1, "lav_silent": True}}
    for name in ("mixed_float16", "mixed_bfloat16")
}


def with_checkpoints(directory: Path, epochs: int, restore: bool = False) -> Case:
    """A training that writes to, or goes on from, a directory."""
    fields = {"output_dir": str(directory / "run"), "write_checkpoints": True, "epochs": epochs}
    fields |= {"scenario.export_serve": True, "export_best": True, "export_final": True}
    return {"set": {**EVERYTHING, **fields}, "restore": restore}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("devices")


@pytest.fixture(scope="module")
def curves(directory: Path) -> dict[int, dict[str, Result]]:
    """Results by number of devices and name of the case; of one device in this process."""
    cases = {
        **CASES,
        **HALF,
        "first epoch": with_checkpoints(directory, 1),
        # Stopped right before the last batch of the first epoch, and at its end.
        "stopped after 3": {**with_checkpoints(directory / "3", 2), "stop": 3},
        "stopped after 4": {**with_checkpoints(directory / "4", 2), "stop": 4},
    }
    on_two = start_cases(directory, list(cases.values()), keras.backend.backend(), 2)
    one = {name: train(case) for name, case in {**CASES, **HALF}.items()}
    two = dict(zip(cases, finish_cases(*on_two), strict=True))
    one["second epoch"] = train(with_checkpoints(directory, 2, restore=True))
    return {1: one, 2: two}


@pytest.mark.parametrize("name", CASES)
def test_two_devices_give_the_curve_of_one(curves: dict[int, dict[str, Result]], name: str) -> None:
    one, two = curves[1][name], curves[2][name]
    assert {"loss", "mae", "val_loss", "val_mae"} <= one["epochs"][-1].keys()
    assert_same_curve(two, one)


@pytest.mark.parametrize("name", HALF)
def test_half_precision_is_the_same_up_to_its_rounding(curves: dict[int, dict[str, Result]], name: str) -> None:
    one, two = curves[1][name], curves[2][name]
    assert one["weights"] != curves[1]["plain"]["weights"]
    # bfloat16 has 8 bits: 0.4 % per operation.
    assert two["epochs"][-1] == pytest.approx(one["epochs"][-1], rel=0.02)


def test_what_two_devices_began_one_goes_on_with(curves: dict[int, dict[str, Result]]) -> None:
    epochs = [*curves[2]["first epoch"]["epochs"], *curves[1]["second epoch"]["epochs"]]
    assert_same_curve({"epochs": epochs}, curves[1]["all"])


@pytest.mark.parametrize("batches", [3, 4])
def test_what_two_devices_stopped_they_go_on_with_bit_for_bit(
    curves: dict[int, dict[str, Result]], batches: int
) -> None:
    assert curves[2][f"stopped after {batches}"] == curves[2]["all"]


def test_what_two_devices_export_is_what_one_has(curves: dict[int, dict[str, Result]], directory: Path) -> None:
    x = np.ones((3, 4), np.float32)
    two, one = (ServedModel(directory / name / "run" / "export" / "serve")({"x": x})["y"] for name in ("4", "."))
    assert two == pytest.approx(one, rel=1e-4)
