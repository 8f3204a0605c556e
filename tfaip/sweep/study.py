"""A sweep: trials of an Optuna study, each of which is a training in a directory of its own."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import TfaipError, UsageError
from tfaip.sweep.identity import ABOUT, BEST, STUDY_FILE, STUDY_NAME, about_sweep, address, require_same
from tfaip.sweep.process import TrialProcess
from tfaip.sweep.space import Space, Value, grid_of, write_config
from tfaip.util.files import locked_directory
from tfaip.util.logging import logger
from tfaip.util.text import number_text, shorten_text

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

log = logger(__name__)

SAMPLERS = ["tpe", "random", "grid"]
PRUNERS = ["median", "hyperband", "none"]
# Trials in a row that fail before the sweep gives up.
MAX_FAILURES = 3
_POLL_S = 0.2
_MODES = {"min": "minimize", "max": "maximize"}
# Attribute of a trial.
_DIRECTORY = "directory"


@dataclass(frozen=True)
class SweepSettings:
    """Settings of a sweep.

    Args:
        scenario: as it is given to `tfaip-train`.
        flags: of `tfaip-train`, the same in all trials.
        space: the flags that vary.
        directory: of the runs and of the study.
        mode: "min" or "max".
        monitor: logged value that is compared; None: the one that tells the best model.
        trials: number of trials, those of earlier calls and of other machines included.
        jobs: trainings at the same time.
        sampler: one of `SAMPLERS`.
        pruner: one of `PRUNERS`.
        seed: of the search.
        storage: URL of the database of the study; None: `study.db` in the directory.
        time_limit: seconds after which the trainings are stopped; None: there is none.
    """

    scenario: str
    flags: Sequence[str]
    space: Space
    directory: Path
    mode: str
    monitor: str | None = None
    trials: int = 20
    jobs: int = 1
    sampler: str = "tpe"
    pruner: str = "median"
    seed: int = 0
    storage: str | None = None
    time_limit: float | None = None

    def about(self) -> dict[str, Any]:
        """Return what must be the same when the sweep is continued."""
        return about_sweep(
            self.scenario, self.flags, self.space, f"{self.mode} {self.monitor or BEST}", self.sampler, self.seed
        )


@dataclass(frozen=True)
class TrialResult:
    """A trial as the study has it.

    Args:
        number: of the trial, from 0.
        state: "complete", "pruned", "fail", "running" or "waiting".
        value: of a complete trial its best value, else the last one that the search was told; None: there is none.
        epochs: number of epochs that the search was told of.
        params: flag -> value.
        directory: of the run.
    """

    number: int
    state: str
    value: float | None
    epochs: int
    params: Mapping[str, Value]
    directory: str


@dataclass
class _Job:
    trial: Trial
    process: TrialProcess
    values: dict[int, float] = field(default_factory=dict)
    is_started: bool = False
    is_pruned: bool = False


class Sweep:
    """Runs the trials of a study."""

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._jobs: list[_Job] = []
        self._failures = 0
        self._end = math.inf if settings.time_limit is None else time.monotonic() + settings.time_limit
        self._study = self._open()

    def run(self) -> None:
        """Run the trials until there are as many as wanted; they can be continued if an exception ends it.

        Raises:
            TfaipError: if several trials in a row fail.
            UsageError: if another sweep works in the directory.
        """
        try:
            with locked_directory(self._settings.directory):
                self._jobs = [self._job(trial) for trial in self._interrupted()]
                try:
                    while self._advance():
                        time.sleep(_POLL_S)
                finally:
                    self._stop()
        except BlockingIOError as error:
            raise UsageError(f"another sweep works in {self._settings.directory}: wait for it, or end it") from error

    def results(self) -> list[TrialResult]:
        """Return all trials of the study, the best one first."""
        found = [_result(trial) for trial in self._study.get_trials(deepcopy=False)]
        sign = 1 if self._settings.mode == "min" else -1

        def order(result: TrialResult) -> tuple[bool, float, int]:
            is_complete = result.state == "complete" and result.value is not None
            return not is_complete, sign * (result.value or 0.0) if is_complete else 0.0, result.number

        return sorted(found, key=order)

    def _open(self) -> Study:
        import optuna

        settings = self._settings
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(
                storage=settings.storage or address(settings.directory),
                study_name=STUDY_NAME,
                direction=_MODES[settings.mode],
                pruner=self._pruner(),
                load_if_exists=True,
            )
        except Exception as error:  # of the database and its driver, or of Optuna
            shown = re.sub(r"//[^/]*@", "//***@", settings.storage or str(settings.directory / STUDY_FILE))
            reason = shorten_text(f"{type(error).__name__}: {error}".split("\n")[0])
            raise UsageError(f"the study {shorten_text(shown)} cannot be opened: {reason}") from error
        stored = study.user_attrs.get(ABOUT)
        if stored is None:
            study.set_user_attr(ABOUT, settings.about())
            if settings.sampler == "grid":
                for point in grid_of(settings.space):
                    study.enqueue_trial(point)
        else:
            require_same(stored, settings.about(), settings.directory)
        return study

    def _pruner(self) -> BasePruner:
        from optuna import pruners

        if self._settings.pruner == "median":
            return pruners.MedianPruner()
        return pruners.HyperbandPruner() if self._settings.pruner == "hyperband" else pruners.NopPruner()

    def _sampler(self, number: int) -> BaseSampler:
        """Return the sampler of a trial: one of its own, so that a sweep that was killed continues as if it was not."""
        from optuna import samplers

        seed = (self._settings.seed * 1_000_003 + number) % 2**32
        if self._settings.sampler == "tpe":
            return samplers.TPESampler(seed=seed, constant_liar=self._settings.jobs > 1)
        return samplers.RandomSampler(seed=seed)

    def _interrupted(self) -> Iterator[Trial]:
        """Yield the trials of this directory that an earlier sweep has not finished."""
        import optuna

        for frozen in self._study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            if frozen.user_attrs.get(_DIRECTORY) == str(self._directory(frozen.number)):
                log.info("trial %d is continued", frozen.number)
                # Optuna has no public way to the object of a trial that another process has begun.
                yield optuna.trial.Trial(self._study, frozen._trial_id)

    def _directory(self, number: int) -> Path:
        return self._settings.directory.absolute() / f"trial_{number:04}"

    def _job(self, trial: Trial) -> _Job:
        directory = self._directory(trial.number)
        config = directory.with_suffix(".json")
        # By a file, which may name less than a command line: the space is a file, too.
        write_config(config, self._settings.space, trial.params)
        flags = [*self._settings.flags, "--config", str(config), "--trainer.output_dir", str(directory)]
        words = [self._settings.scenario, *flags]
        return _Job(trial, TrialProcess(directory, words, self._settings.monitor))

    def _advance(self) -> bool:
        """Do what can be done now; return False when all trials have ended."""
        for job in list(self._jobs):
            if not job.is_started:
                job.is_started = job.process.start()
                continue
            exit_code = job.process.exit_code  # before the values, so that none is missed
            self._report(job)
            if exit_code is not None:
                self._jobs.remove(job)
                self._finish(job, exit_code)
        if time.monotonic() > self._end:
            log.warning("the time limit is reached; the same command continues the sweep")
            return False
        while len(self._jobs) < self._settings.jobs and self._has_next():
            self._jobs.append(self._job(self._ask()))
        return bool(self._jobs)

    def _has_next(self) -> bool:
        from optuna.trial import TrialState

        trials = self._study.get_trials(deepcopy=False)
        begun = sum(trial.state is not TrialState.WAITING for trial in trials)
        is_left = self._settings.sampler != "grid" or begun < len(trials)
        return begun < self._settings.trials and is_left

    def _ask(self) -> Trial:
        self._study.sampler = self._sampler(len(self._study.get_trials(deepcopy=False)))
        trial = self._study.ask({flag: entry.distribution() for flag, entry in self._settings.space.items()})
        directory = self._directory(trial.number)
        trial.set_user_attr(_DIRECTORY, str(directory))
        shown = ", ".join(f"{flag} {value}" for flag, value in trial.params.items())
        log.info("trial %d: %s", trial.number, shorten_text(shown, 200))
        return trial

    def _report(self, job: _Job) -> None:
        """Tell the search the values of new epochs; stop a training that it gives up."""
        for epoch, value in job.process.new_values():
            if job.is_pruned:
                return
            job.values[epoch] = value
            if math.isfinite(value):
                known = self._study.get_trials(deepcopy=False)[job.trial.number].intermediate_values
                if epoch not in known:
                    job.trial.report(value, epoch)
            if job.trial.should_prune():
                job.is_pruned = True
                job.process.stop()

    def _finish(self, job: _Job, exit_code: int) -> None:
        from optuna.trial import TrialState

        number = job.trial.number
        values = [value for value in job.values.values() if math.isfinite(value)]
        if job.is_pruned:
            self._study.tell(job.trial, state=TrialState.PRUNED)
            self._failures = 0
            log.info("trial %d: pruned after epoch %d", number, max(job.values))
        elif exit_code == 0 and values:
            value = min(values) if self._settings.mode == "min" else max(values)
            self._study.tell(job.trial, value)
            self._failures = 0
            log.info("trial %d: %s after %d epochs", number, number_text(value), max(job.values))
        else:
            self._fail(job, job.process.message() if exit_code else f"no finite value {self._settings.monitor or ''}")

    def _fail(self, job: _Job, message: str) -> None:
        from optuna.trial import TrialState

        self._study.tell(job.trial, state=TrialState.FAIL)
        self._failures += 1
        log.warning("trial %d failed: %s", job.trial.number, message)
        if self._failures == MAX_FAILURES:
            raise TfaipError(f"{MAX_FAILURES} trials in a row failed, the last one with: {message}")

    def _stop(self) -> None:
        """Stop the trainings that run; each writes a checkpoint, and is continued by the next sweep."""
        for job in self._jobs:
            job.process.stop()
        for job in self._jobs:
            job.process.wait()
            if job.is_pruned:
                with contextlib.suppress(TfaipError):
                    self._finish(job, 0)


def _result(trial: FrozenTrial) -> TrialResult:
    told = [value for value in trial.intermediate_values.values() if math.isfinite(value)]
    value = trial.value if trial.state.name == "COMPLETE" else (told[-1] if told else None)
    epochs = max(trial.intermediate_values, default=0)
    directory = str(trial.user_attrs.get(_DIRECTORY, ""))
    return TrialResult(trial.number, trial.state.name.lower(), value, epochs, trial.params, directory)
