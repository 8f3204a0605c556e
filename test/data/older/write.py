"""Write the files of this directory: what a version of tfaip stored, for the tests of later versions to load.

    KERAS_BACKEND=tensorflow python -m test.data.older.write
    KERAS_BACKEND=jax python -m test.data.older.write

The stored files were written by tfaip 2.0.0.dev0, commit 9082773, with Keras 3.15.1, TensorFlow 2.21 and JAX 0.10. The
tests read them and never run this script. Writing them again with a newer version would make the tests pointless: files
of another version belong into another directory.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import shutil
import signal
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import keras

import tfaip
from tfaip.errors import UsageError
from tfaip.export.trainingdata import load_training_data
from tfaip.lav.params import LAVParams
from tfaip.params import ParamsBase
from tfaip.params.values.serialization import from_dict, to_dict
from tfaip.scenario.tutorial.full.modelparams import MLPGraphParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario, TutorialTrainerParams
from tfaip.trainer.optimizer import AdamWOptimizer, GradientNoiseParams, OptimizerGroupParams, SGDOptimizer
from tfaip.trainer.scheduler import CyclicModulationParams, NewbobAbsParams
from tfaip.trainer.signals import TrainingInterrupted

HERE = Path(__file__).resolve().parent
STOP_EPOCH, STOP_BATCH = 3, 4


class Stop(keras.callbacks.Callback):
    """Stops the training within an epoch, as Ctrl-C does."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch + 1) == (STOP_EPOCH, STOP_BATCH):
            signal.raise_signal(signal.SIGINT)


def run_params(directory: str) -> TutorialTrainerParams:
    """Return params that use many classes and keep much state: feedback, groups, averages, accumulated gradients."""
    params = TutorialScenario.default_trainer_params()
    params.scenario.model.graph = MLPGraphParams(units=[4])
    params.scenario.export_serve = False
    params.skip_model_load_test = True
    params.output_dir, params.random_seed = directory, 3
    params.epochs, params.lav_every_n, params.lav_silent = 4, 1, True
    params.steps_per_execution, params.train_accum_steps, params.calc_ema = 2, 3, 0.5
    params.early_stopping.n_to_go = 9
    for pipeline, size, limit in ((params.gen.setup.train, 8, 96), (params.gen.setup.val, 25, 60)):
        pipeline.batch_size, pipeline.limit, pipeline.num_processes = size, limit, 0
    params.samples_per_epoch = 80
    slow = OptimizerGroupParams(match=".*bias", lr_factor=0.5, optimizer=SGDOptimizer(momentum=0.5))
    noise = GradientNoiseParams(stddev=0.01, gamma=0.55)
    params.optimizer = AdamWOptimizer(clip_norm=1.0, gradient_noise=noise, weight_decay=0.01, groups=[slow])
    modulation = CyclicModulationParams(interval_steps=3, decay=0.5)
    # The score must improve by far more than it does, so the rate depends on the stored history.
    params.learning_rate = NewbobAbsParams(lr=0.1, threshold=-5.0, modulation=modulation)
    return params


def lav_values(model: Path) -> dict[str, float]:
    """Return the values of LAV of a stored model, on its own data."""
    data = load_training_data(model, TutorialScenario)
    assert data is not None
    params = LAVParams(model_path=str(model), pipeline=data.gen.setup.val, random_seed=data.random_seed, silent=True)
    lav = TutorialScenario.create_lav(params, TutorialScenario.params_from_path(model))
    (values,) = lav.run(data.gen.lav_gen())
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}


def write_run(directory: Path) -> None:
    """Write a stopped training, and the values of the same training without interruption."""
    name = f"run_{keras.backend.backend()}"
    TutorialScenario.create_trainer(run_params("uninterrupted")).train()
    try:
        TutorialScenario.create_trainer(run_params(name)).train([Stop()])
    except TrainingInterrupted:
        pack(Path(name), directory / f"{name}.tar.xz")
    history = json.loads(Path("uninterrupted", "history.json").read_text())
    values = {epoch: {"lr": record["lr"], **record["values"]} for epoch, record in history.items()}
    expected = {"history": values, "lav_of_best": lav_values(Path("uninterrupted", "best"))}
    (directory / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")


def pack(run: Path, archive: Path) -> None:
    """Pack a run whose newest checkpoint is within an epoch; the one before it is left out."""
    (newest,) = (run / "checkpoint").glob("*_step_*")
    for checkpoint in newest.parent.glob("epoch_*"):
        if checkpoint != newest:
            shutil.rmtree(checkpoint)
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(run, filter=anonymous)


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry of an archive without its owner."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def write_export(directory: Path) -> None:
    """Write the model that a finished training exported, and its values."""
    shutil.copytree(Path("uninterrupted", "export"), directory / "export")
    values = lav_values(Path("uninterrupted", "export"))
    (directory / "export.json").write_text(json.dumps(values, indent=1) + "\n")


def write_classes(directory: Path) -> None:
    """Write the default of every params class of tfaip that has one and can be read back."""
    found = {}
    for module in pkgutil.walk_packages(tfaip.__path__, "tfaip."):
        for cls in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(cls) and issubclass(cls, ParamsBase) and cls.__module__ == module.name:
                try:
                    found[f"{cls.__module__}:{cls.__name__}"] = from_default(cls)
                except (TypeError, ValueError, UsageError) as error:
                    print(f"left out: {cls.__module__}:{cls.__name__}: {error}")
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    (directory / "classes.json").write_text(f"{{\n{text}\n}}\n")


def from_default(cls: type[ParamsBase]) -> dict[str, Any]:
    """Return the stored form of the default of a class.

    Raises:
        TypeError, ValueError, UsageError: if there is no default, or it cannot be read back.
    """
    values = to_dict(cls())
    from_dict(cls, values)
    return values


def main() -> None:
    """Write all files of this backend; on TensorFlow also those that belong to no backend."""
    # The run is trained elsewhere, and under a relative name, so that its files do not name a place.
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        write_run(HERE)
        if keras.backend.backend() == "tensorflow":
            write_export(HERE)
            write_classes(HERE)
        os.chdir(HERE)


if __name__ == "__main__":
    main()
