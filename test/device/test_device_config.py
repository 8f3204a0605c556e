"""Params of the devices: what is refused before anything is imported."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tfaip.device import DeviceConfigParams, DistStrategy, Precision
from tfaip.device.devices import open_devices
from tfaip.errors import UsageError


def test_defaults_ask_for_one_device_in_float32() -> None:
    params = DeviceConfigParams()
    assert (params.gpus, params.dist_strategy, params.precision) == (None, DistStrategy.DEFAULT, Precision.FLOAT32)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpus": [-1]}, r"gpus\[0\] is -1, expected at least 0"),
        ({"gpus": [0, 1, 0]}, r"gpus is \[0, 1, 0\], expected different numbers"),
        ({"gpu_memory": 0}, "gpu_memory is 0, expected at least 1, or None"),
        (
            {"num_processes": 2},
            "process_id is None, expected a value, since a cluster needs num_processes",
        ),
        ({"process_id": 0, "coordinator": "a:1"}, "num_processes is None, expected a value"),
        (
            {"num_processes": 2, "process_id": 2, "coordinator": "a:1"},
            r"process_id is 2, expected 0 to num_processes - 1 \(1\)",
        ),
        ({"num_processes": 2, "process_id": 0, "coordinator": "node1"}, "coordinator is 'node1', expected host:port"),
        ({"num_processes": 2, "process_id": 0, "coordinator": "node1:99999"}, "expected host:port"),
    ],
)
def test_what_cannot_work_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeviceConfigParams(**fields)


def test_no_gpu_may_be_asked_for() -> None:
    assert DeviceConfigParams(gpus=[]).gpus == []


@pytest.mark.backend
@pytest.mark.parametrize("strategy", DistStrategy)
def test_strategies_of_the_other_backend_are_refused(strategy: DistStrategy) -> None:
    own = {"tensorflow": DistStrategy.MIRROR, "jax": DistStrategy.DATA_PARALLEL}[keras.backend.backend()]
    params = DeviceConfigParams(dist_strategy=strategy)
    if strategy in (DistStrategy.DEFAULT, own):
        assert open_devices(params).num_shares == 1
    else:
        with pytest.raises(UsageError, match=f"set dist_strategy {own.value}"):
            open_devices(params)
