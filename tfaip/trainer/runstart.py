"""Start of a run: the check of its params, its devices, and its seed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import keras

from tfaip.backend.active import backend
from tfaip.components.scenario import ScenarioComponents
from tfaip.device.collectives import broadcast, check_equal, explain_lost_process
from tfaip.device.devices import Devices, open_devices
from tfaip.params.settings import flags_of, prepare, require_readable
from tfaip.params.stored import flat_params
from tfaip.params.tree import flag_of
from tfaip.trainer.run.checkpoint import Checkpoint
from tfaip.trainer.runparams import Params, stored_params
from tfaip.trainer.signals import StopRequest
from tfaip.util.logging import logger, only_warnings

log = logger(__name__)


def check_params(params: Params, scenario: ScenarioComponents[Any, Any]) -> None:
    """Raise unless what a run with these params stores can be read again.

    Args:
        params: the params of the run.
        scenario: the scenario to train.

    Raises:
        UsageError: if a value is not possible.
    """
    prepare(params, "trainer")
    if params.output_dir is None:
        return
    require_readable(params, type(scenario).trainer_params_cls(), "trainer")
    if scenario.params is not params.scenario:
        require_readable(scenario.params, type(scenario).params_cls(), "scenario")


@contextmanager
def opened_devices(params: Params, stop: StopRequest) -> Iterator[Devices]:
    """Open the devices of a run for the block, in which a signal asks it to stop and the chief alone logs."""
    with flags_of(params, "trainer", "device"):
        devices = open_devices(params.device)
    with ExitStack() as stack:
        stack.enter_context(devices.scope())
        stack.enter_context(explain_lost_process(devices))
        if not devices.is_chief:
            stack.enter_context(only_warnings())
        stack.enter_context(stop.for_devices(devices, params.device.preemption_signal))
        yield devices


def check_equal_params(params: Params, devices: Devices) -> None:
    """Raise unless all processes of a run were started with the same params."""
    if devices.num_processes > 1:
        values = flat_params(stored_params(params))
        check_equal(devices, {flag_of(params, params.flag_root, path): value for path, value in values.items()})


def seed_run(params: Params, scenario_id: str, devices: Devices, restored: Checkpoint | None) -> None:
    """Seed the random generators; a seed that is not given is that of the checkpoint, or drawn.

    Args:
        params: the params of the run, which get the seed: every run can be repeated and resumed.
        scenario_id: name of the scenario, for the log.
        devices: the processes, which all get the same seed.
        restored: the checkpoint that the run continues from; None: it is fresh.
    """
    if params.random_seed is None and restored is not None:
        params.random_seed = restored.state["params"].get("random_seed")
    if params.random_seed is None:
        params.random_seed = broadcast(devices, secrets.randbelow(2**31))
    backend.seed(params.random_seed)
    log.info(
        "training %s on keras/%s, %s, random seed %d",
        scenario_id,
        keras.backend.backend(),
        devices.describe(),
        params.random_seed,
    )
