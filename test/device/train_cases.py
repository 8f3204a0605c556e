"""Trains the tiny scenario in several ways, in a process of its own: `python -m test.device.train_cases CASES RESULTS`.

`CASES` is a JSON file: a list of `{"set": {dotted path of the trainer params: value}, "restore": bool, "stop": n}`; a
group of the optimizer is a dict with the name of an optimizer class, a stage one with the name of its class, schedules
are points by target, a model is the name of its params. A training that is to stop after n batches is resumed at once.
`RESULTS` gets the values of each epoch and a checksum of the weights, for each. `TEST_LOGICAL_DEVICES` splits the CPU.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

SHARED: dict[str, Any] = {
    "random_seed": 1,
    "epochs": 2,
    # A last batch of 11 that neither two nor three devices can share equally.
    "samples_per_epoch": 47,
    "steps_per_execution": None,
    "write_checkpoints": False,
    "export_best": False,
    "export_final": False,
    "optimizer.epsilon": 1e-3,
    "gen.setup.train.batch_size": 12,
    "gen.setup.val.batch_size": 6,
    # A last batch that two or three devices cannot share equally.
    "gen.val.samples": 11,
    "scenario.model.dropout": 0.0,
}


def split_cpu() -> None:
    """Logical devices, before the backend looks for them."""
    number = int(os.environ.get("TEST_LOGICAL_DEVICES", "1"))
    if number == 1:
        return
    if os.environ["KERAS_BACKEND"] == "jax":
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={number}"
        return
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * number)


def groups(fields: list[dict[str, Any]]) -> list[Any]:
    """Groups of the optimizer."""
    from tfaip.trainer import optimizer

    return [
        optimizer.OptimizerGroupParams(**{**group, "optimizer": getattr(optimizer, group["optimizer"])()})
        for group in fields
    ]


def stages(fields: dict[str, Any]) -> dict[str, Any]:
    """Stages by name."""
    from tfaip.trainer.stages import params

    return {name: getattr(params, stage["class"])(**stage["fields"]) for name, stage in fields.items()}


def note(directory: Path, params: Any, should_stop: Any) -> None:
    """A function of a stage: notes which process calls it."""
    with open(directory / "note", "a") as file:
        file.write(f"{params.device.process_id} {should_stop()}\n")


def schedules(points: dict[str, dict[str, float]]) -> list[Any]:
    """Schedules by target."""
    from tfaip.trainer.scheduledvalues import ScheduleParams

    return [ScheduleParams(target, {float(x): value for x, value in found.items()}) for target, found in points.items()]


def model(name: str) -> Any:
    """Params of a model without dropout."""
    from test.device import scored

    return getattr(scored, name)(dropout=0.0)


def generator(name: str) -> Any:
    """A generator of training data."""
    from test.device import scored

    return getattr(scored, name)()


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "optimizer.groups": groups,
    "stages": stages,
    "schedules": schedules,
    "scenario.model": model,
    "gen.train": generator,
}


def train(case: dict[str, Any]) -> dict[str, Any]:
    """Train one case; values of each epoch, and a checksum of the final weights."""
    from test.device import scored
    from tfaip.device.devices import prepare_devices
    from tfaip.params.tree import get_path
    from tfaip.trainer.signals import TrainingInterrupted

    params = scored.ScoredScenario.default_trainer_params()
    for path, value in {**SHARED, **case["set"]}.items():
        before = get_path(params, path)
        if isinstance(before, StrEnum):
            value = type(before)(value)
        make = _MAKERS.get(path)
        parent, _, name = path.rpartition(".")
        setattr(get_path(params, parent), name, value if make is None else make(value))
    prepare_devices(params.device)
    trainer = scored.ScoredScenario.create_trainer(params, restore=case.get("restore", False))
    import keras

    epochs: list[dict[str, float]] = []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(dict(logs or {})))
    if "stop" in case:

        class Stop(keras.callbacks.Callback):
            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if batch + 1 == case["stop"]:
                    signal.raise_signal(signal.SIGTERM)

        with contextlib.suppress(TrainingInterrupted):
            trainer.train([keep, Stop()])
            raise RuntimeError("the training did not stop")
        trainer = scored.ScoredScenario.create_trainer(params, restore=True)
    trainer.train([keep])
    weights = [keras.ops.convert_to_numpy(variable) for variable in trainer.scenario.graph.variables]
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()
    return {"epochs": epochs, "weights": digest}


def main() -> None:
    """Train all cases."""
    split_cpu()
    cases = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps([train(case) for case in cases]))


if __name__ == "__main__":
    main()
