"""Two devices give the numbers of one, on both backends, for everything that acts on gradients or weights."""

from __future__ import annotations

import pytest

from test.device.support import Case, Result, assert_same_curve, finish_cases, start_cases

CASES: dict[str, Case] = {
    "plain": {"set": {}},
    "accumulation": {"set": {"train_accum_steps": 2}},
    "averages": {"set": {"calc_ema": 0.9, "lav_every_n": 1, "lav_silent": True}},
    "clipping": {"set": {"optimizer.clip_global_norm": 0.1}},
    "frozen layers": {"set": {"no_train_scope": "hidden"}},
    "all": {
        "set": {
            "train_accum_steps": 2,
            "calc_ema": 0.9,
            "optimizer.clip_value": 0.2,
            "optimizer.clip_norm": 0.1,
            "optimizer.clip_global_norm": 0.05,
            "optimizer.weight_decay": 0.01,
            "optimizer.skip_nonfinite": 3,
            "no_train_scope": "out",
            "learning_rate.step_function": False,
        }
    },
}


@pytest.fixture(scope="module", params=["tensorflow", "jax"])
def curves(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Result]]:
    """Results by number of devices and name of the case."""
    directory = tmp_path_factory.mktemp(request.param)
    started = {
        devices: start_cases(directory, list(CASES.values()), request.param, devices, f"on_{devices}")
        for devices in (1, 2)
    }
    return {devices: dict(zip(CASES, finish_cases(*each), strict=True)) for devices, each in started.items()}


@pytest.mark.parametrize("name", CASES)
def test_two_devices_give_the_curve_of_one(curves: dict[int, dict[str, Result]], name: str) -> None:
    one, two = curves[1][name], curves[2][name]
    assert {"loss", "mae", "val_loss", "val_mae"} <= one["epochs"][-1].keys()
    assert_same_curve(two, one)


def test_each_case_is_another_training(curves: dict[int, dict[str, Result]]) -> None:
    # Averages change what is validated, not what is trained.
    ends = {(result["weights"], result["epochs"][-1]["val_loss"]) for result in curves[2].values()}
    assert len(ends) == len(CASES)
    assert curves[2]["averages"]["weights"] == curves[2]["plain"]["weights"]
