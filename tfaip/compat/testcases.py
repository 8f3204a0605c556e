"""Ready tests of tfaip 1.2, as functions of a `unittest.TestCase`; `tfaip.testing` has the checks."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import TestCase

import numpy as np

from tfaip.testing import checks
from tfaip.testing.checks import SmallTraining, small_trainer_params


class AdditionalTrainerArgs(NamedTuple):
    """Further settings of the training of a test."""

    input_gradient_regularization: bool = False
    preload_data: bool = False

    def apply(self, params: Any) -> None:
        """Set them in trainer params."""
        params.preload_data = self.preload_data
        if self.input_gradient_regularization:
            params.scenario.use_input_gradient_regularization = True


_NO_ARGUMENTS = AdditionalTrainerArgs()


def _training(test: TestCase, scenario: Any, args: AdditionalTrainerArgs, debug: bool, **flags: Any) -> SmallTraining:
    """Train a little; the end of the test removes what was written."""
    params = small_trainer_params(scenario, flags)
    args.apply(params)
    params.force_eager = bool(debug)
    training = SmallTraining(params, scenario)
    test.addCleanup(training.close)
    return training


def single_train_iter(
    test: TestCase,
    scenario: Any,
    debug: bool = False,
    lav_every_n: int = 2,
    args: AdditionalTrainerArgs = _NO_ARGUMENTS,
) -> None:
    """Train a little: weights change, values are finite, params can be stored and read."""
    training = _training(test, scenario, args, debug, **{"trainer.lav_every_n": lav_every_n})
    checks.check_params(training.params, scenario)
    checks.check_training(training)


def resume_training(
    test: TestCase,
    scenario: Any,
    delta: float = 1e-5,
    debug: bool = False,
    ignore_binary_metric: bool = False,
    ignore_array_metric: bool = False,
    args: AdditionalTrainerArgs = _NO_ARGUMENTS,
) -> None:
    """Resume a training: it ends in the same state, bit for bit (so that nothing need be ignored)."""
    checks.check_resume(_training(test, scenario, args, debug))


def lav_test_case(
    test: TestCase,
    scenario: Any,
    debug: bool = False,
    delta: float = 1e-5,
    batch_size_test: bool = True,
    ignore_binary_metric: bool = False,
    ignore_array_metric: bool = False,
    instantiate_graph: bool = False,
    args: AdditionalTrainerArgs = _NO_ARGUMENTS,
) -> None:
    """LAV of the exported model runs, and does not depend on the batch size if `batch_size_test`.

    Values are compared up to `delta`; a metric that turns at a threshold is left out by `ignore_binary_metric`, and
    those that are arrays are never compared.
    """
    tolerance = delta if batch_size_test and not ignore_binary_metric else np.inf
    checks.check_lav(_training(test, scenario, args, debug), tolerance)


def warmstart_training_test_case(
    test: TestCase,
    scenario: Any,
    debug: bool = False,
    delta: float = 1e-5,
    ignore_binary_metric: bool = False,
    ignore_array_metric: bool = False,
    args: AdditionalTrainerArgs = _NO_ARGUMENTS,
) -> None:
    """Start warm from the exported model: a new model gets all of its weights."""
    checks.check_warm_start(_training(test, scenario, args, debug))


def setup_test_init() -> None:
    """Do nothing: a test needs no preparation."""


def workdir_path(name: str, *args: str) -> str:
    """Return a path in the nearest directory `workdir` of the parents of a file, which a test gives as `__file__`."""
    for parent in Path(name).absolute().parents:
        if (parent / "workdir").is_dir():
            return str(parent.joinpath("workdir", *args))
    raise FileNotFoundError(f"no directory 'workdir' beside or above {name}")


def call_in_root(args: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Run a command that imports the modules which this process can import; raise if it fails."""
    environment = dict(os.environ if env is None else env)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.check_call(list(args), env=environment)  # noqa: S603
