"""`tfaip-sweep SCENARIO --space FILE --output_dir DIR [flags]`: search for the best params of a training.

Optuna proposes and prunes; each trial is a process of `tfaip-train` with a run of its own.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from tfaip.backend.environment import import_backend
from tfaip.errors import TfaipError, UsageError
from tfaip.scripts.common import command
from tfaip.scripts.runs import main as list_runs
from tfaip.scripts.train import open_scenario
from tfaip.util.classes import construct
from tfaip.util.files import is_locked, locked_directory, require_directory, write_json
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

PROG = "tfaip-sweep"
# Flag -> type, default, word for its value, help.
_OPTIONS: dict[str, tuple[Any, Any, str, str]] = {
    "space": (str, "", "FILE", "flags that vary (YAML or JSON): {low: 0.001, high: 0.1, log: true} or [32, 64]"),
    "output_dir": (str, "", "DIR", "directory of the runs and of the study"),
    "trials": (int, 20, "N", "number of trials (default: 20)"),
    "jobs": (int, 1, "N", "trainings at the same time, each with its own GPU if there are several (default: 1)"),
    "monitor": (str, "", '"MODE NAME"', 'value to compare, e.g. "max val_acc" (default: that of the best model)'),
    "sampler": (Literal["tpe", "random", "grid"], "tpe", "NAME", "tpe (default), random or grid"),
    "pruner": (Literal["median", "none"], "median", "NAME", "end bad trials: median (default) or none"),
    "seed": (int, 0, "N", "seed of the search (default: 0)"),
    "storage": (str, "", "URL", "database that several machines share (default: DIR/study.db)"),
}
_FLAGS = "\n".join(f"  {f'--{flag} {word}':<22} {text}" for flag, (_, _, word, text) in _OPTIONS.items())
USAGE = f"""usage: {PROG} SCENARIO --space FILE --output_dir DIR [flags]

Train a scenario many times with params that a search chooses (Optuna: pip install optuna).
Each training is a run DIR/trial_0000, DIR/trial_0001 ... The same command continues a sweep that was
stopped or killed. Takes the flags of tfaip-train, and:

{_FLAGS}
  --dry_run              check everything, print what would be done, write nothing
  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one)."""

STUDY = "sweep"
MAX_POINTS = 10_000  # of a grid
MAX_FAILURES = 3  # in a row, before the sweep ends
_POLL_S = 0.2

log = logger(__name__)

# Returns the value of each flag that a config file with this content gives.
Values = Callable[[Mapping[str, Any]], Mapping[str, Any]]
# Flag -> value as Optuna has it: a choice is a text.
Point = Mapping[str, Any]


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Search for the best params of a training."""
    from tfaip.device.devices import installed_gpus, visible_gpus
    from tfaip.params.commandline import split_arguments
    from tfaip.params.settings import flag_values
    from tfaip.params.sources import Source

    scenario = open_scenario(name)
    args = _parse(name, scenario, flags)
    require_directory(Path(args.output_dir))
    given = split_arguments(flags, ["config", "trust"])
    given = {flag: words for flag, words in given.items() if flag not in _OPTIONS}
    fixed = {*given, "trainer.output_dir", "overwrite"}
    dicts = {flag for flag, words in given.items() if any("=" in word for word in words)}

    def values(content: Mapping[str, Any]) -> Mapping[str, Any]:
        for flag in fixed & content.keys() or dicts & {flag.rpartition(".")[0] for flag in content}:
            raise UsageError(f"{args.space}: {flag} is the same in all trials: leave it out there, or as a flag")
        return flag_values(_parse(name, scenario, flags, Source(args.space, content)).trainer)

    space = read_space(args.space, values)
    if args.sampler == "grid":
        grid_of(space)
    if args.dry_run:
        varied = f"{', '.join(variable.flag for variable in space)} in {args.trials} trials of {scenario.__name__}"
        command.print_plan(f"search {varied} by {args.sampler}", f"{args.output_dir}/trial_0000 ...")
        return
    if not args.monitor:
        import_backend()
        args.monitor = construct(scenario, args.trainer.scenario).best_logging_settings()[0]
    command_line = [name]
    for flag, words in given.items():
        command_line += [f"--{flag}={words[0]}", *words[1:]] if words else [f"--{flag}"]
    gpus = visible_gpus(installed_gpus()) if args.jobs > 1 and args.trainer.device.gpus is None else []
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    sweep = Sweep(command_line, space, gpus, args)
    sweep.run()
    for trial in sweep.trials():
        if trial.state.name == "FAIL":
            print(f"trial_{trial.number:04} failed: {trial.user_attrs.get('error')}")
    list_runs([args.output_dir, "--sort", "best"])


def _parse(name: str, scenario: Any, flags: Sequence[str], *configs: Any) -> Any:
    from tfaip.params.help import described
    from tfaip.scripts.common.parser import TrainingParser

    parser = TrainingParser(f"{PROG} {name}", f"Search for the best params of {described(scenario)}", scenario)
    for flag, (kind, default, _, text) in _OPTIONS.items():
        parser.add_option(f"--{flag}", type=kind, default=default, help=text)
    parser.add_dry_run()
    args = parser.parse(flags, configs)
    for flag in ("space", "output_dir"):
        if not getattr(args, flag):
            raise UsageError(f"missing required flag: --{flag}")
    for flag in ("trials", "jobs"):
        if getattr(args, flag) < 1:
            raise UsageError(f"--{flag} is {getattr(args, flag)}, expected at least 1")
    if args.monitor and not re.fullmatch(r"(min|max) \S+", args.monitor):
        raise UsageError(f'--monitor is {args.monitor!r}, expected a mode and a name: --monitor "max val_acc"')
    if args.trainer.output_dir:
        raise UsageError("--trainer.output_dir is chosen for each trial: give --output_dir for all of them")
    if find_spec("optuna") is None:
        raise UsageError(f"{PROG} needs Optuna, which is not installed: pip install optuna")
    return args


class Variable(NamedTuple):
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
    contexts: Sequence[Point] = ()

    def exists(self, point: Point) -> bool:
        """Return True if the flag exists with what was drawn before."""
        return any(context.items() <= point.items() for context in self.contexts)

    def draw(self, trial: Any) -> Any:
        """Return the value of a trial; what was drawn before a sweep was killed stays."""
        drawn = self.distribution
        if self.choices:
            return trial.suggest_categorical(self.flag, drawn.choices)
        suggest: Any = trial.suggest_int if isinstance(drawn.low, int) else trial.suggest_float
        return suggest(self.flag, drawn.low, drawn.high, step=drawn.step, log=drawn.log)

    def grid(self) -> Iterator[Any]:
        """Yield all values."""
        drawn = self.distribution
        yield from self.choices
        if not self.choices and drawn.step is None:
            raise UsageError(f"a grid needs choices, integers, or a range with a step, for {self.flag}")
        if not self.choices:
            for index in range(round((drawn.high - drawn.low) / drawn.step) + 1):
                yield min(drawn.low + index * drawn.step, drawn.high)


def grid_of(space: Sequence[Variable]) -> list[Point]:
    """Return all points of a grid."""
    points = list(islice(combinations(space, {}), MAX_POINTS + 1))
    if len(points) > MAX_POINTS:
        raise UsageError(f"the grid has more than {MAX_POINTS} points: use --sampler tpe or random")
    return points


def combinations(space: Sequence[Variable], point: Point) -> Iterator[Point]:
    """Yield all points of a grid that begin with one, each without the flags that do not exist there."""
    if not space:
        yield point
    elif not space[0].exists(point):
        yield from combinations(space[1:], point)
    else:
        for value in space[0].grid():
            yield from combinations(space[1:], {**point, space[0].flag: value})


def config_of(space: Sequence[Variable], point: Point) -> dict[str, Any]:
    """Return the content of a config file with drawn values."""
    drawn = [variable for variable in space if variable.flag in point]
    return {one.flag: one.choices.get(point[one.flag], point[one.flag]) for one in drawn}


def read_space(file: str, values: Values) -> list[Variable]:
    """Read the flags that vary, and try the limits and all choices of each.

    Raises:
        UsageError: if the file cannot be read, or a flag has neither a range nor choices that it takes.
    """
    from tfaip.params.codec import plain_of
    from tfaip.params.commandline import load_config

    entries = _entries(plain_of(load_config(file).tree))
    space: list[Variable] = []
    for flag in sorted(entries, key=lambda flag: flag.count(".")):  # classes before their flags
        try:
            with warnings.catch_warnings(action="ignore"):  # the last step may end below the limit
                space.append(_variable(flag, entries[flag], space, values))
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


def _variable(flag: str, entry: Any, before: Sequence[Variable], values: Values) -> Variable:
    """Return a flag with its values, and with the choices of other flags with which it exists."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    from tfaip.params.settings import UnknownFlag

    choices: dict[str, Any] = {}
    if isinstance(entry, list):
        choices = {value if isinstance(value, str) else json.dumps(value): value for value in entry}
        distribution, samples = CategoricalDistribution(list(choices)), list(choices)
    elif all(map(math.isfinite, entry.values())):
        distribution = FloatDistribution(**entry)
        samples = [entry["low"], entry["high"], min(entry["low"] + entry.get("step", 0), entry["high"])]
    else:
        raise ValueError("a limit is not finite")
    parent, _, item = flag.rpartition(".")
    contexts, unknown, taken = [], UnknownFlag(), []
    for context in combinations([one for one in before if one.choices and flag.startswith(f"{one.flag}.")], {}):
        space = [*before, Variable(flag, distribution, choices)]
        try:
            for sample in samples:
                found = values(config_of(space, {**context, flag: sample}))
                group = found.get(parent)
                taken.append(group.get(item) if isinstance(group, dict) else found.get(flag))
            contexts.append(context)
        except UnknownFlag as error:
            unknown = error
    if not contexts:
        raise unknown
    if not choices and not any(isinstance(value, float) for value in taken):
        distribution = IntDistribution(**{key: int(number) for key, number in entry.items()})
    return Variable(flag, distribution, choices, contexts)


class Sweep:
    """Runs the trials of a study.

    Args:
        words: command line of the trainings, without what varies.
        space: the flags that vary.
        gpus: as CUDA names them, to be shared out among the jobs; empty: a job sees all that the sweep sees.
        options: flags of the command; the mode alone in `monitor` is for the value that tells the best model.

    Raises:
        UsageError: if the study cannot be opened, or was begun with other settings.
    """

    def __init__(self, words: Sequence[str], space: Sequence[Variable], gpus: Sequence[str], options: Any) -> None:
        import optuna

        self._words, self._space, self._gpus, self._options = words, space, gpus, options
        self._directory = Path(options.output_dir).absolute()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._failures = 0
        # A path may contain what ends one in an address.
        file = re.sub("[%?#]", lambda sign: quote(sign[0]), str(self._directory / "study.db"))
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruner = optuna.pruners.MedianPruner() if options.pruner == "median" else optuna.pruners.NopPruner()
        study: Any = {"study_name": STUDY, "direction": f"{options.monitor[:3]}imize", "load_if_exists": True}
        try:
            self._storage = optuna.storages.RDBStorage(options.storage or f"sqlite:///{file}")
            self._study = optuna.create_study(storage=self._storage, pruner=pruner, **study)
        except Exception as error:  # of the database, its driver, or Optuna; the text may contain a password
            where = "the database of --storage" if options.storage else shorten_text(file, 160)
            raise UsageError(f"{where} cannot be opened: {type(error).__name__}") from error
        given = {"--monitor": options.monitor, "--sampler": options.sampler, "--seed": options.seed}
        given |= {"command": " ".join(words), "flags": " ".join(variable.flag for variable in space)}
        for name, value in (given | {variable.flag: str(variable.distribution) for variable in space}).items():
            stored = self._study.user_attrs.get(name, value)
            if stored != value:
                change = f"{name}: {shorten(stored)}, now {shorten(value)}"
                raise UsageError(f"{options.output_dir} has another sweep ({change}): choose another --output_dir")
            self._study.set_user_attr(name, value)
        points = grid_of(space) if options.sampler == "grid" else []
        self._wanted = min(options.trials, len(points) or options.trials)
        for point in points[len(self.trials()) :]:
            self._study.enqueue_trial(dict(point), skip_if_exists=True)

    def trials(self) -> list[Any]:
        """Return all trials of the study."""
        return self._study.get_trials(deepcopy=False)

    def run(self) -> None:
        """Run the trials until there are as many as wanted; they can be continued if an exception ends it.

        Raises:
            TfaipError: if several trials in a row fail.
            UsageError: if another sweep works in the directory.
        """
        try:
            with locked_directory(self._directory):
                trials, gpus = self._next_trials(), cycle(self._gpus or [None])
                jobs = [self._train(trials, next(gpus)) for _ in range(self._options.jobs)]
                while jobs:
                    jobs = [job for job in jobs if next(job, "ended") is None]
                    time.sleep(_POLL_S)
        except BlockingIOError as error:
            raise UsageError(f"another sweep works in {self._directory}: wait for it, or end it") from error
        finally:  # each training writes a checkpoint, and is continued by the next sweep
            for process in self._running:
                process.send_signal(signal.SIGTERM)
            for process in self._running:
                process.wait()

    def _run_of(self, trial: Any) -> Path:
        return self._directory / f"trial_{trial.number:04}"

    def _next_trials(self) -> Iterator[Any]:
        """Yield the interrupted trials, then new ones until there are enough."""
        from optuna.trial import Trial, TrialState

        storage = self._storage
        study_id = storage.get_study_id_from_name(STUDY)
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            # With --storage other machines may have trials in the same study.
            if not self._options.storage or self._run_of(trial).with_suffix(".json").is_file():
                yield Trial(self._study, storage.get_trial_id_from_study_id_trial_number(study_id, trial.number))
        while sum(trial.state is not TrialState.WAITING for trial in self.trials()) < self._wanted:
            yield self._study.ask()

    def _train(self, trials: Iterator[Any], gpu: str | None) -> Iterator[None]:
        """Start or continue the training of one trial after the other, and follow it; yield while its process runs."""
        from tfaip.trainer.run.names import HISTORY_FILE, PARAMS_FILE

        env = os.environ if gpu is None else {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
        # Ctrl-C reaches the sweep alone, which stops its trainings: a second signal would end them at once.
        options: Any = {"env": env, "stdout": subprocess.DEVNULL, "start_new_session": True}
        for trial in trials:
            run = self._run_of(trial)
            config = run.with_suffix(".json")  # a file may name less than a command line, and the space is a file, too
            while is_locked(config):  # by the training of a sweep that was killed
                yield
            write_json(config, config_of(self._space, self._draw(trial)))
            words = ["train", *self._words, "--config", str(config), "--trainer.output_dir", str(run)]
            if (run / PARAMS_FILE).is_file():
                words = ["resume_training", str(run)]
            command = [sys.executable, "-P", "-m", f"tfaip.scripts.{words[0]}", *words[1:]]
            values: dict[int, float] = {}
            exit_code, is_pruned = None, False
            with open(config) as file, tempfile.TemporaryFile() as stderr:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the training ends, which keeps the file open
                process = subprocess.Popen(command, stdin=file, stderr=stderr, **options)  # noqa: S603 (of the user)
                self._running.add(process)
                while exit_code is None:
                    yield
                    exit_code = process.poll()  # before the values, so that none is missed
                    if not is_pruned and self._report(trial, run / HISTORY_FILE, values):
                        is_pruned = True
                        process.send_signal(signal.SIGTERM)
                        self._running.discard(process)
                self._running.discard(process)
                stderr.seek(0)
                lines = stderr.read().decode(errors="replace").strip().splitlines() or [f"exit code {exit_code}"]
            error = shorten_text(lines[-1].removeprefix("error: "), 300) if exit_code and not is_pruned else ""
            self._tell(trial, values, is_pruned, error)

    def _draw(self, trial: Any) -> Point:
        """Return the values of a trial."""
        from optuna.samplers import RandomSampler, TPESampler

        # A sampler for each trial, so that a sweep that was killed continues as if it was not.
        seed = (self._options.seed * 1_000_003 + trial.number) % 2**32
        self._study.sampler = RandomSampler(seed)
        if self._options.sampler == "tpe":
            self._study.sampler = TPESampler(seed=seed, constant_liar=self._options.jobs > 1)
        point: dict[str, Any] = {}
        for variable in filter(lambda one: one.exists(point), self._space):
            point[variable.flag] = variable.draw(trial)
        log.info("trial %d: %s", trial.number, ", ".join(f"{flag} {value}" for flag, value in point.items()))
        return point

    def _report(self, trial: Any, file: Path, values: dict[int, float]) -> bool:
        """Give the values of new epochs to the search; return True if the trial is to be pruned."""
        from tfaip.trainer.history import read_history

        if not file.is_file():
            return False
        history = read_history(file)
        monitor = self._options.monitor.partition(" ")[2]
        for epoch in history.epochs:
            monitor = monitor or history[epoch].meta.get("best", {}).get("monitor")
        for epoch, value in history.scores(monitor or "").items():
            if epoch not in values:
                values[epoch] = value
                if epoch not in self.trials()[trial.number].intermediate_values:
                    trial.report(value, epoch)
                if trial.should_prune():
                    return True
        return False

    def _tell(self, trial: Any, values: Mapping[int, float], is_pruned: bool, error: str) -> None:
        """Store the result of a trial that has ended."""
        from optuna.trial import TrialState

        finite = [value for value in values.values() if math.isfinite(value)]
        if is_pruned or finite and not error:
            self._failures = 0
            best = min if self._options.monitor.startswith("min") else max
            state, value = (TrialState.PRUNED, None) if is_pruned else (TrialState.COMPLETE, best(finite))
            self._study.tell(trial, value, state)
            log.info("trial %d: %s after %d epochs", trial.number, state.name.lower(), max(values))
            return
        error = error or "no finite value to compare"
        trial.set_user_attr("error", error)
        self._study.tell(trial, state=TrialState.FAIL)
        log.warning("trial %d failed: %s", trial.number, error)
        self._failures += 1
        if self._failures == MAX_FAILURES:
            raise TfaipError(f"{MAX_FAILURES} trials in a row failed, the last one with: {error}")


if __name__ == "__main__":
    sys.exit(main())
