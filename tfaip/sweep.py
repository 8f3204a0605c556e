"""Sweeps: trainings with params that Optuna proposes, each of them a process with a run of its own."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

from tfaip.errors import TfaipError, UsageError
from tfaip.params.codec import plain_of
from tfaip.params.commandline.config_files import load_config
from tfaip.params.settings import flag_values
from tfaip.params.unknown import UnknownFlag
from tfaip.trainer.history import History
from tfaip.trainer.historyreading import read_history
from tfaip.trainer.run.names import HISTORY_FILE, PARAMS_FILE
from tfaip.util.files import is_locked, locked_directory, write_json
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

log = logger(__name__)

STUDY = "sweep"
MAX_POINTS = 10_000  # of a grid
MAX_FAILURES = 3  # in a row, before the sweep ends
_POLL_S = 0.2

# Returns the trainer params that a config file with this content gives.
Parse = Callable[[Mapping[str, Any]], Any]
# Flag -> value as Optuna has it: a choice is a text.
Point = Mapping[str, Any]


@dataclass
class Variable:
    """A flag that varies.

    Args:
        flag: without dashes.
        distribution: of what Optuna draws.
        choices: choice as Optuna has it -> value of the flag; empty for a range.
        contexts: choices of other flags; the flag exists if all choices of one context were drawn.
    """

    flag: str
    distribution: Any
    choices: Mapping[str, Any]
    contexts: list[Point] = field(default_factory=list)

    def exists(self, point: Point) -> bool:
        """Return True if the flag exists with what was drawn before."""
        return any(context.items() <= point.items() for context in self.contexts)

    def draw(self, trial: Trial) -> Any:
        """Return the value of a trial; what was drawn before a sweep was killed stays."""
        drawn = self.distribution
        if self.choices:
            return trial.suggest_categorical(self.flag, drawn.choices)
        suggest: Any = trial.suggest_int if isinstance(drawn, IntDistribution) else trial.suggest_float
        return suggest(self.flag, drawn.low, drawn.high, step=drawn.step, log=drawn.log)

    def grid(self) -> list[Any]:
        """Return all values, at most one more than a grid may have points."""
        drawn = self.distribution
        if self.choices:
            return list(self.choices)
        if drawn.step is None:
            raise UsageError(f"a grid needs choices, integers, or a range with a step, for {self.flag}")
        count = min(round((drawn.high - drawn.low) / drawn.step), MAX_POINTS)
        return [min(drawn.low + index * drawn.step, drawn.high) for index in range(count + 1)]


def combinations(space: Sequence[Variable]) -> list[Point]:
    """Return all points of a grid, without the flags that do not exist there.

    Raises:
        UsageError: if the values are not countable, or there are more than `MAX_POINTS` points.
    """
    points: list[Point] = [{}]
    for variable in space:
        longer: list[Point] = []
        for point in points:
            values = variable.grid() if variable.exists(point) else []
            longer += [{**point, variable.flag: value} for value in values] or [point]
            if len(longer) > MAX_POINTS:
                raise UsageError(f"the grid has more than {MAX_POINTS} points: use --sampler tpe or random")
        points = longer
    return points


def config_of(space: Sequence[Variable], point: Point) -> dict[str, Any]:
    """Return the content of a config file with drawn values."""
    config: dict[str, Any] = {}
    for variable in [variable for variable in space if variable.flag in point]:
        drawn = point[variable.flag]
        config[variable.flag] = variable.choices.get(drawn, drawn)
    return config


def read_space(file: str, parse: Parse) -> list[Variable]:
    """Read the flags that vary, and try the limits and all choices of each.

    Args:
        file: YAML or JSON; keys are flags without dashes, dotted or nested.
        parse: returns the trainer params that a config file with this content gives.

    Raises:
        UsageError: if the file cannot be read, or a flag has neither a range nor choices that it takes.
    """
    entries = _entries(plain_of(load_config(file).tree))
    space: list[Variable] = []
    for flag in sorted(entries, key=lambda flag: flag.count(".")):  # classes before their flags
        try:
            with warnings.catch_warnings(action="ignore"):  # the last step may end below the limit
                space.append(_variable(flag, entries[flag], space, parse))
        except (AttributeError, LookupError, ValueError, TypeError, ArithmeticError) as error:
            shown = f"{shorten_text(flag)} is {shorten(entries[flag])} ({shorten_text(str(error))})"
            expected = "expected e.g. {low: 1, high: 8} or [1, 2, 4]"
            raise UsageError(f"{shorten_text(file)}: {shown}; {expected}") from error
    if not space:
        raise UsageError(f"{shorten_text(file)}: expected flags with a range or choices, got none")
    return space


def _entries(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the flags of a document whose keys may be nested."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        is_group = isinstance(value, Mapping) and not value.keys() & {"low", "high"}
        found |= _entries(value, f"{prefix}{key}.") if is_group else {f"{prefix}{key}": value}
    return found


def _variable(flag: str, entry: Any, before: Sequence[Variable], parse: Parse) -> Variable:
    """Return a flag with its values, and with the choices of other flags with which it exists."""
    numbers: dict[str, Any] = {}
    if isinstance(entry, list):
        choices = {value if isinstance(value, str) else json.dumps(value): value for value in entry}
        variable, samples = Variable(flag, CategoricalDistribution(list(choices)), choices), list(choices)
    else:
        numbers = dict(entry)
        if not all(map(math.isfinite, numbers.values())):
            raise ValueError("a limit is not finite")
        variable = Variable(flag, FloatDistribution(**numbers), {})
        samples = [numbers["low"], numbers["high"], min(numbers["low"] + numbers.get("step", 0), numbers["high"])]
    parent, _, item = flag.rpartition(".")
    unknown, has_fractions = UnknownFlag(), False
    for context in combinations([one for one in before if one.choices and flag.startswith(f"{one.flag}.")]):
        try:
            for sample in samples:
                values = flag_values(parse(config_of([*before, variable], {**context, flag: sample})))
                is_item = isinstance(values.get(parent), dict)
                taken = values[parent].get(item) if is_item else values.get(flag)
                has_fractions = has_fractions or isinstance(taken, float)
            variable.contexts.append(context)
        except UnknownFlag as error:
            unknown = error
    if not variable.contexts:
        raise unknown
    if numbers and not has_fractions:
        variable.distribution = IntDistribution(**{key: int(number) for key, number in numbers.items()})
    return variable


@dataclass
class _Job:
    """A trial, and the process that trains it."""

    trial: Trial
    run: Path
    process: subprocess.Popen[bytes]
    stderr: IO[bytes]
    values: dict[int, float] = field(default_factory=dict)
    is_pruned: bool = False


class Sweep:
    """Runs the trials of a study.

    Args:
        words: command line of the trainings, without what varies.
        space: the flags that vary.
        gpus: as CUDA names them, to be shared out among the jobs; empty: a job sees all that the sweep sees.
        options: flags of the command: `output_dir`, `trials`, `jobs`, `monitor` ("max val_acc"; the mode alone is for
            the value that tells the best model), `sampler`, `pruner`, `seed`, `storage`.

    Raises:
        UsageError: if the study cannot be opened, or was begun with other settings.
    """

    def __init__(self, words: Sequence[str], space: Sequence[Variable], gpus: Sequence[str], options: Any) -> None:
        self._words, self._space, self._gpus, self._options = words, space, gpus, options
        self._mode, _, self._monitor = options.monitor.partition(" ")
        self._directory = Path(options.output_dir).absolute()
        self._jobs: dict[int, _Job] = {}
        self._interrupted: list[int] = []
        self._failures = 0
        # A path may contain what ends one in an address.
        file = re.sub("[%?#]", lambda sign: quote(sign[0]), str(self._directory / "study.db"))
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruners = {"median": optuna.pruners.MedianPruner, "hyperband": optuna.pruners.HyperbandPruner}
        pruner = pruners.get(options.pruner, optuna.pruners.NopPruner)()
        study: Any = {"study_name": STUDY, "direction": f"{self._mode}imize", "load_if_exists": True}
        try:
            self._storage = optuna.storages.RDBStorage(options.storage or f"sqlite:///{file}")
            self._study = optuna.create_study(storage=self._storage, pruner=pruner, **study)
        except Exception as error:  # of the database, its driver, or Optuna; the text may contain a password
            where = "the database of --storage" if options.storage else shorten_text(file, 160)
            raise UsageError(f"{where} cannot be opened: {type(error).__name__}") from error
        given = {"--monitor": options.monitor, "--sampler": options.sampler, "--seed": options.seed}
        given |= {variable.flag: str(variable.distribution) for variable in space} | {"command": shlex.join(words)}
        stored = self._study.user_attrs.get("settings", given)
        for name in {**stored, **given}:
            if stored.get(name) != given.get(name):
                change = f"{name}: {shorten(stored.get(name))}, now {shorten(given.get(name))}"
                raise UsageError(f"{options.output_dir} has another sweep ({change}): choose another --output_dir")
        if "settings" not in self._study.user_attrs:
            for point in combinations(space) if options.sampler == "grid" else []:
                self._study.enqueue_trial(dict(point))
            self._study.set_user_attr("settings", given)

    def trials(self) -> list[FrozenTrial]:
        """Return all trials of the study."""
        return self._study.get_trials(deepcopy=False)

    def run_of(self, number: int) -> Path:
        """Return the directory of the run of a trial."""
        return self._directory / f"trial_{number:04}"

    def run(self) -> None:
        """Run the trials until there are as many as wanted; they can be continued if an exception ends it.

        Raises:
            TfaipError: if several trials in a row fail.
            UsageError: if another sweep works in the directory.
        """
        try:
            with locked_directory(self._directory):
                # With --storage other machines may have trials in the same study.
                for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                    if not self._options.storage or self.run_of(trial.number).with_suffix(".json").is_file():
                        self._interrupted.append(trial.number)
                try:
                    while self._advance():
                        time.sleep(_POLL_S)
                finally:
                    self._stop()
        except BlockingIOError as error:
            raise UsageError(f"another sweep works in {self._directory}: wait for it, or end it") from error

    def _advance(self) -> bool:
        """Do what can be done now; return False when all trials have ended."""
        for slot, job in list(self._jobs.items()):
            exit_code = job.process.poll()  # before the values, so that none is missed
            self._report(job)
            if exit_code is not None:
                del self._jobs[slot]
                self._finish(job, exit_code)
        for slot in range(self._options.jobs):
            trial = self._next_trial() if slot not in self._jobs else None
            if trial is not None:
                self._jobs[slot] = self._start(trial, slot)
        return bool(self._jobs)

    def _next_trial(self) -> Trial | None:
        """Return an interrupted trial, else a new one, if there are not enough."""
        if self._interrupted:
            study_id, number = self._storage.get_study_id_from_name(STUDY), self._interrupted.pop(0)
            return Trial(self._study, self._storage.get_trial_id_from_study_id_trial_number(study_id, number))
        waiting = sum(trial.state is TrialState.WAITING for trial in self.trials())
        is_grid_done = self._options.sampler == "grid" and not waiting
        has_enough = len(self.trials()) - waiting >= self._options.trials
        return None if is_grid_done or has_enough else self._study.ask()

    def _start(self, trial: Trial, slot: int) -> _Job:
        """Draw the values of a trial, and start or continue its training."""
        # A sampler for each trial, so that a sweep that was killed continues as if it was not.
        seed = (self._options.seed * 1_000_003 + trial.number) % 2**32
        self._study.sampler = optuna.samplers.RandomSampler(seed)
        if self._options.sampler == "tpe":
            self._study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=self._options.jobs > 1)
        point: dict[str, Any] = {}
        for variable in self._space:
            if variable.exists(point):
                point[variable.flag] = variable.draw(trial)
        run = self.run_of(trial.number)
        log.info("trial %d: %s", trial.number, ", ".join(f"{flag} {value}" for flag, value in point.items()))
        config = run.with_suffix(".json")  # a file may name less than a command line, and the space is a file, too
        while is_locked(config):  # by the training of a sweep that was killed
            time.sleep(_POLL_S)
        write_json(config, config_of(self._space, point))
        words = ["train", *self._words, "--config", str(config), "--trainer.output_dir", str(run)]
        if (run / PARAMS_FILE).is_file():
            words = ["resume_training", str(run)]
        command = [sys.executable, "-P", "-m", f"tfaip.scripts.{words[0]}", *words[1:]]
        gpu = {"CUDA_VISIBLE_DEVICES": self._gpus[slot % len(self._gpus)]} if self._gpus else {}
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the job)
        # Ctrl-C reaches the sweep alone, which stops its trainings: a second signal would end them at once.
        options: Any = {"env": {**os.environ, **gpu}, "stdout": subprocess.DEVNULL, "start_new_session": True}
        with open(config) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the training ends, which keeps the file open
            process = subprocess.Popen(command, stdin=file, stderr=stderr, **options)  # noqa: S603 (words of the user)
        return _Job(trial, run, process, stderr)

    def _report(self, job: _Job) -> None:
        """Give the values of new epochs to the search; stop a training that is pruned."""
        file = job.run / HISTORY_FILE
        history = read_history(file) if file.is_file() else History()
        monitor = self._monitor
        for epoch in history.epochs:
            monitor = monitor or history[epoch].meta.get("best", {}).get("monitor")
        for epoch, value in history.scores(monitor or "").items():
            if epoch in job.values or job.is_pruned:
                continue
            job.values[epoch] = value
            if epoch not in self.trials()[job.trial.number].intermediate_values:
                job.trial.report(value, epoch)
            if job.trial.should_prune():
                job.is_pruned = True
                job.process.send_signal(signal.SIGTERM)

    def _finish(self, job: _Job, exit_code: int) -> None:
        """Store the result of a trial whose process has ended."""
        values = [value for value in job.values.values() if math.isfinite(value)]
        with job.stderr:
            job.stderr.seek(0)
            lines = job.stderr.read().decode(errors="replace").strip().splitlines()
        self._failures += 1
        if not job.is_pruned and (exit_code or not values):
            last = lines[-1].removeprefix("error: ") if lines else f"exit code {exit_code}"
            error = shorten_text(last, 300) if exit_code else "no finite value to compare"
            job.trial.set_user_attr("error", error)
            self._study.tell(job.trial, state=TrialState.FAIL)
            log.warning("trial %d failed: %s", job.trial.number, error)
            if self._failures == MAX_FAILURES:
                raise TfaipError(f"{MAX_FAILURES} trials in a row failed, the last one with: {error}")
            return
        self._failures = 0
        best = min(values, default=None) if self._mode == "min" else max(values, default=None)
        state = TrialState.PRUNED if job.is_pruned else TrialState.COMPLETE
        self._study.tell(job.trial, None if job.is_pruned else best, state)
        log.info("trial %d: %s after %d epochs: %s", job.trial.number, state.name.lower(), max(job.values), best)

    def _stop(self) -> None:
        """Stop the trainings that run; each writes a checkpoint, and is continued by the next sweep."""
        for job in self._jobs.values():
            if not job.is_pruned:
                job.process.send_signal(signal.SIGTERM)
        for job in self._jobs.values():
            job.process.wait()
            job.stderr.close()
