"""Checks of a scenario: each raises an `AssertionError` that says what differs, and where it usually comes from."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isclose, isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import SkipTest

import numpy as np

from tfaip.components.userlogs import console_unless_configured
from tfaip.params.settings import set_flags
from tfaip.params.stored import from_json
from tfaip.params.tree import diff
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.run.names import CHECKPOINT_NAME
from tfaip.util.logging import only_warnings

_SHOWN = 3


def check_params(params: Any, scenario: Any) -> None:
    """Raise unless trainer params are the same after they were written as JSON and read again."""
    cls = scenario.trainer_params_cls()
    read = from_json(cls, params.to_json(), trusted=scenario.declared_packages())
    # A default that a class declares may be read as another type: `flag: bool = 0` as False.
    changes = [change.text(change.path) for change in diff(params, read) if change.old != change.new]
    _require(not changes, f"params differ after they were stored and read: {_some(changes)}")


def check_training(training: SmallTraining) -> None:
    """Raise unless a training has changed weights, and its values are finite."""
    _require(bool(training.changed), "the training has changed no weight: no loss depends on the trained weights")
    values = training.history(training.run)
    trained, epochs = max((epoch for epoch, _ in values), default=0), training.params.epochs
    _require(trained == epochs, f"{trained} epochs were trained, expected {epochs}")
    wrong = [f"{name} of epoch {epoch} is {value}" for (epoch, name), value in values.items() if not isfinite(value)]
    _require(not wrong, f"the training has values that are no finite numbers: {_some(wrong)}")


def check_resume(training: SmallTraining) -> None:
    """Raise unless a training that is resumed from its first checkpoint ends in the same state, bit for bit."""
    resumed, message = training.resumed(), f"after a stop at {training.checkpoints()[0]} and a resume"
    reason = (
        "keep what changes in the course of a training in Keras variables, and draw random numbers from self.rng of "
        "processors and keras.random.SeedGenerator of layers"
    )
    expected, found = training.state(training.run), training.state(resumed)
    wrong = _different(expected, found)
    _require(not wrong, f"{message} {len(wrong)} of {len(expected)} arrays differ: {_some(wrong)}; {reason}")
    values, others = training.history(training.run), training.history(resumed)
    wrong = []
    for epoch, name in _different(values, others):
        wrong.append(f"{name} of epoch {epoch} is {others.get((epoch, name))} instead of {values[epoch, name]}")
    _require(not wrong, f"{message} values differ: {_some(wrong)}; {reason}")


def check_lav(training: SmallTraining, tolerance: float = 1e-4) -> None:
    """Raise unless LAV of the exported model gives the same values with batches of one sample."""
    generators = list(training.params.gen.lav_gen())
    if not generators:
        raise SkipTest("the training has no data for LAV")
    setup = training.params.gen.setup.val
    whole = replace(setup, batch_drop_remainder=False)
    alone = replace(whole, batch_size=1, bucket_boundaries=[], bucket_batch_sizes=None)
    for expected, found in zip(_lav(training, whole, generators), _lav(training, alone, generators), strict=True):
        wrong = []
        for name, value in expected.items():
            if not isclose(value, found[name], rel_tol=tolerance, abs_tol=tolerance):
                wrong.append(f"{name} is {found[name]:.6g} instead of {value:.6g}")
        _require(
            not wrong,
            f"LAV with batches of 1 instead of {setup.batch_size} differs: {_some(wrong)}; a sample must not depend "
            "on the other samples of its batch, nor on padding: mask it",
        )


def check_warm_start(training: SmallTraining) -> None:
    """Raise unless a warm start from the exported model gives a new model all of its weights."""
    from tfaip.model.trainingmodel import TrainingModel
    from tfaip.model.variables import variables_by_path
    from tfaip.model.weights import load_weights_of, variable_arrays
    from tfaip.trainer.warmstart import WarmStartParams

    params = training.params_for(training.run.with_name("warm"))
    params.warmstart = WarmStartParams(model=[str(training.model())])
    trainer = training.scenario.create_trainer(params)
    scenario = trainer.scenario
    graph, data = scenario.graph, scenario.data
    TrainingModel(scenario.model, graph).build_symbolically(data.create_input_layers(), data.create_target_layers())
    trainer.create_warmstarter().apply(graph)
    weights = {id(weight) for weight in graph.weights}
    variables = {path: variable for path, variable in variables_by_path(graph).items() if id(variable) in weights}
    expected, found = load_weights_of(training.model()), variable_arrays(variables)
    wrong = _different(found, expected)
    _require(not wrong, f"a warm start leaves {len(wrong)} of {len(found)} weights as they were: {_some(wrong)}")


def check_export(training: SmallTraining, tolerance: float = 1e-4) -> None:
    """Raise unless all exported formats give the outputs of the graph, on validation data if there are some."""
    from tfaip.errors import TfaipError
    from tfaip.export.formats import check_formats
    from tfaip.export.modelloading import load_exported
    from tfaip.export.trainingdata import load_training_data, sample_inputs

    model, packages = training.model(), training.scenario.declared_packages()
    scenario = load_exported(model, packages)
    data = load_training_data(model, training.scenario, packages)
    inputs, _ = sample_inputs(scenario, data, training.params.gen.setup.val.batch_size)
    try:
        formats = check_formats(scenario, model, inputs, tolerance)
    except TfaipError as error:
        raise AssertionError(f"the exported model differs from its graph: {error}") from error
    if not formats:
        raise SkipTest("the training exports no format for other programs: export_serve, export_keras, export_onnx")


def _lav(training: SmallTraining, setup: Any, generators: Iterable[Any]) -> list[dict[str, float]]:
    """Return the numbers among the results of each generator."""
    from tfaip.evaluator.evaluator import scalar_results
    from tfaip.predict.params import LAVParams

    path = training.model()
    seed = training.params.random_seed or 0
    params = LAVParams(model_path=str(path), pipeline=setup, silent=True, random_seed=seed)
    scenario_params = training.scenario.params_from_path(path, training.scenario.declared_packages())
    lav = training.scenario.create_lav(params, scenario_params)
    return [scalar_results(results) for results in lav.run(generators)]


def _different(expected: Mapping[Any, Any], found: Mapping[Any, Any]) -> list[Any]:
    """Return the names of arrays or numbers that are missing, or have another shape or other bytes."""
    wrong = []
    for name, values in expected.items():
        ours, theirs = np.asarray(values), np.asarray(found.get(name))
        if ours.shape != theirs.shape or ours.tobytes() != theirs.tobytes():
            wrong.append(name)
    return wrong


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


NO_FLAGS: Mapping[str, Any] = MappingProxyType({})
_UPDATES_PER_EPOCH = 2


def small_trainer_params(scenario: Any, flags: Mapping[str, Any] = NO_FLAGS) -> Any:
    """Return trainer params of a training of seconds: two epochs of two updates, with a checkpoint after each update.

    It has no stages and no pretraining, validates a batch and one sample more, reads the data in its own process, and
    has a seed.

    Args:
        scenario: class of the scenario, whose default params these are otherwise.
        flags: values by flag; they count more than what is said above.
    """
    params = scenario.default_trainer_params()
    params.set_flags(dict(flags))
    train, val = params.gen.setup.train, params.gen.setup.val
    small = {
        "trainer.epochs": 2,
        "pretraining.max_epochs": 0,
        "trainer.samples_per_epoch": _UPDATES_PER_EPOCH * params.train_accum_steps * train.batch_size,
        "trainer.random_seed": 1,
        "trainer.steps_per_execution": 1,
        "trainer.checkpoint_save_freq": "1",
        "trainer.keep_checkpoints": 8,
        "trainer.skip_model_load_test": True,  # another test compares the export
        "trainer.progress_bar_mode": ProgressBarMode.PLAIN,
        "train.num_processes": 0,
        "val.num_processes": 0,
        "val.limit": val.batch_size + 1,
    }
    if not any(flag.split(".")[0] == "stages" for flag in flags):
        params.stages = {}
    set_flags(params, {flag: value for flag, value in small.items() if flag not in flags})
    return params


class SmallTraining:
    """Training of a scenario that has ended, and its directory; `close` removes it.

    Args:
        params: the trainer params; their `output_dir` is not used.
        scenario: class of the scenario.

    Raises:
        Exception: whatever ends the training.
    """

    def __init__(self, params: Any, scenario: Any) -> None:
        self.params = params
        self.scenario = scenario
        self._directory = tempfile.TemporaryDirectory(prefix="tfaip-test-")
        self.run = Path(self._directory.name) / "run"
        """Directory of the run."""
        self.changed: set[str] = set()
        """Paths of the trained weights that the training has changed."""
        try:
            self._train()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the directory."""
        self._directory.cleanup()

    def params_for(self, run: Path) -> Any:
        """Return a copy of the params for another directory."""
        params = copy.deepcopy(self.params)
        params.output_dir = str(run)
        return params

    def model(self) -> Path:
        """Return the directory of the exported model: the best one, or the final one.

        Raises:
            AssertionError: if there is none.
        """
        from tfaip.trainer.run.directory import model_of_run

        model = model_of_run(self.run)
        if model is None:
            raise AssertionError("the training exported no model: set export_best or export_final of its params")
        return model

    def resumed(self) -> Path:
        """Copy the run, resume it from its first checkpoint, and return the directory of the copy."""
        resumed = self.run.with_name("resumed")
        shutil.copytree(self.run, resumed)
        with _quiet():
            params = self.params_for(resumed)
            self.scenario.create_trainer(params, restore=True, checkpoint=self.checkpoints()[0]).train()
        return resumed

    def checkpoints(self) -> list[str]:
        """Return the names of the checkpoints, the oldest first."""
        directory = self.params_for(self.run).run_directory().checkpoints
        return sorted(path.name for path in directory.iterdir() if CHECKPOINT_NAME.fullmatch(path.name))

    def state(self, run: Path) -> dict[str, Any]:
        """Return the arrays of the newest checkpoint of a run by name."""
        from tfaip.model.weights import load_arrays
        from tfaip.trainer.run.output import ARRAYS_FILE

        directory = self.params_for(run).run_directory().checkpoints
        return load_arrays(directory / self.checkpoints()[-1] / ARRAYS_FILE)

    def history(self, run: Path) -> dict[tuple[int, str], float]:
        """Return the values of a run by epoch and name."""
        records = json.loads((run / "history.json").read_text(encoding="utf-8"))
        found: dict[tuple[int, str], float] = {}
        for epoch, record in records.items():
            found |= {(int(epoch), name): value for name, value in record["values"].items()}
        return found

    def _train(self) -> None:
        import keras

        from tfaip.model.variables import variables_by_path
        from tfaip.model.weights import variable_arrays

        def weights() -> dict[str, np.ndarray]:
            variables = variables_by_path(trainer.scenario.graph)
            return variable_arrays({path: variable for path, variable in variables.items() if variable.trainable})

        def compare(logs: Any) -> None:
            self.changed = {path for path, after in weights().items() if not np.array_equal(before[path], after)}

        before: dict[str, np.ndarray] = {}
        with _quiet():
            trainer = self.scenario.create_trainer(self.params_for(self.run))
            watch = keras.callbacks.LambdaCallback(
                on_train_begin=lambda logs: before.update(weights()), on_train_end=compare
            )
            trainer.train([watch])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with console_unless_configured(), only_warnings():
        yield
