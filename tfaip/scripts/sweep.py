"""`tfaip-sweep SCENARIO --space FILE --output_dir DIR [flags]`: search for the best params of a training.

Optuna proposes and prunes; each trial is a process of `tfaip-train` with a run of its own.
"""

import fcntl
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, product
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
# Flag -> type, default, help.
_OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "space": (str, "space.yaml", "File of the flags that vary: {low: 0.001, high: 0.1, log: true} or [32, 64]"),
    "output_dir": (str, "runs/sweep", "Directory of the runs and of the study"),
    "trials": (int, 20, "Number of trials"),
    "jobs": (int, 1, "Trainings at the same time, each with its own GPU if there are several"),
    "sampler": (Literal["tpe", "random", "grid"], "tpe", "Learn from the trials before, draw at random, or try all"),
    "pruner": (Literal["median", "none"], "median", "End trials that are worse than half of the others, or none"),
    "seed": (int, 0, "Seed of the search"),
    "storage": (str, "", "URL of a database that several machines share; empty: study.db in output_dir"),
}
USAGE = f"""usage: {PROG} SCENARIO --space FILE --output_dir DIR [flags]

Train a scenario many times with params that a search chooses (Optuna: pip install optuna).
Each training is a run DIR/trial_0000 ... The same command continues a sweep that ended early.
Takes the flags of tfaip-train, and {", ".join(f"--{flag}" for flag in _OPTIONS)}.

{PROG} SCENARIO --help shows the flags (--help all: every one)."""

STUDY = "sweep"
SETTINGS = "settings"  # attribute of a study: what must be the same when it continues
POINTS = "points"  # attribute of a study: number of its trials when all points of the grid were tried

log = logger(__name__)


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Search for the best params of a training."""
    from tfaip.device.devices import installed_gpus, visible_gpus
    from tfaip.params.commandline import split_arguments
    from tfaip.params.settings import flag_values
    from tfaip.params.sources import Source

    scenario = open_scenario(name)
    warnings.filterwarnings("ignore", module="optuna")  # steps that end below a limit, epochs that are reported again
    warnings.filterwarnings("ignore", "BruteForceSampler is experimental")
    args = _parse(name, scenario, flags)
    require_directory(Path(args.output_dir))
    words = flags
    for flag in _OPTIONS:
        _, words = command.take_words(f"--{flag}", "a value", words)
    given = split_arguments(words, ["config", "trust"])
    dicts = {flag for flag, items in given.items() if any("=" in item for item in items)}

    def values(content: Mapping[str, Any]) -> Mapping[str, Any]:
        for flag in content:
            if flag in {*given, "trainer.output_dir", "overwrite"} or flag.rpartition(".")[0] in dicts:
                raise UsageError(f"{args.space}: {flag} is the same in all trials: leave it out there, or as a flag")
        return flag_values(_parse(name, scenario, flags, Source(content, args.space)).trainer)

    space = read_space(args.space, values)
    for variable in space if args.sampler == "grid" else ():
        if not variable.choices and variable.distribution.step is None:
            raise UsageError(f"a grid needs choices, integers, or a range with a step, for {variable.flag}")
    if args.dry_run:
        varied = f"{', '.join(variable.flag for variable in space)} in {args.trials} trials of {scenario.__name__}"
        command.print_plan(f"search {varied} by {args.sampler}", f"{args.output_dir}/trial_0000 ...")
        return
    import_backend()
    args.mode = construct(scenario, args.trainer.scenario).best_logging_settings()[0]
    gpus = visible_gpus(installed_gpus()) if args.jobs > 1 and args.trainer.device.gpus is None else []
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    Sweep([name, *words], space, gpus, args).run()
    list_runs([args.output_dir, "--sort", "best"])


def _parse(name: str, scenario: Any, flags: Sequence[str], *configs: Any) -> Any:
    from tfaip.params.help import described
    from tfaip.scripts.common.parser import TrainingParser

    parser = TrainingParser(f"{PROG} {name}", f"Search for the best params of {described(scenario)}", scenario)
    for flag, (kind, default, text) in _OPTIONS.items():
        parser.add_option(f"--{flag}", type=kind, default=default, help=text)
    parser.add_dry_run()
    args = parser.parse(flags, configs)
    if min(args.trials, args.jobs) < 1:
        raise UsageError(f"--trials is {args.trials} and --jobs is {args.jobs}, expected at least 1")
    if args.trainer.output_dir:
        raise UsageError("--trainer.output_dir is chosen for each trial: give --output_dir for all of them")
    return args


class Variable(NamedTuple):
    """A flag that varies.

    Args:
        flag: without dashes.
        distribution: of what Optuna draws.
        choices: choice as Optuna has it -> value of the flag; empty for a range.
        contexts: choices of other flags, as Optuna has them; the flag exists if all of one context were drawn.
    """

    flag: str
    distribution: Any
    choices: Mapping[str, Any]
    contexts: Sequence[Mapping[str, Any]] = ()


def config_of(space: Sequence[Variable], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a config file with drawn values."""
    drawn = [variable for variable in space if variable.flag in point]
    return {one.flag: one.choices.get(point[one.flag], point[one.flag]) for one in drawn}


def read_space(file: str, values: Callable[..., Any]) -> list[Variable]:
    """Read the flags that vary, and try the limits and all choices of each.

    `values` returns the value of each flag that a config file with its argument gives.
    """
    from tfaip.params.codec import plain_of
    from tfaip.params.commandline import load_config

    entries = _entries(plain_of(load_config(file).tree))
    space: list[Variable] = []
    for flag in sorted(entries, key=lambda flag: flag.count(".")):  # classes before their flags
        try:
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


def _variable(flag: str, entry: Any, before: Sequence[Variable], values: Callable[..., Any]) -> Variable:
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
    space = [*before, Variable(flag, distribution, choices)]
    parents = {one.flag: one.choices for one in before if one.choices and flag.startswith(f"{one.flag}.")}
    for drawn in product(*parents.values()):
        context = dict(zip(parents, drawn, strict=True))
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
        options: flags of the command, and `mode` of the value that tells the best model, "min" or "max".

    Raises:
        UsageError: if the study cannot be opened, or was begun with other settings.
    """

    def __init__(self, words: Sequence[str], space: Sequence[Variable], gpus: Sequence[str], options: Any) -> None:
        import optuna

        self._words, self._space, self._gpus, self._options = words, space, gpus, options
        self._directory = Path(options.output_dir).absolute()
        self._running: set[subprocess.Popen[bytes]] = set()
        file = quote(str(self._directory / "study.db"))  # a path may contain what ends one in an address
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruner = optuna.pruners.MedianPruner() if options.pruner == "median" else optuna.pruners.NopPruner()
        study: Any = {"study_name": STUDY, "direction": f"{options.mode}imize", "load_if_exists": True}
        try:
            self._storage = optuna.storages.RDBStorage(options.storage or f"sqlite:///{file}")
            self.study = optuna.create_study(storage=self._storage, pruner=pruner, **study)
        except Exception as error:  # of the database, its driver, or Optuna; the text may contain a password
            where = "the database of --storage" if options.storage else shorten_text(file, 160)
            raise UsageError(f"{where} cannot be opened: {type(error).__name__}") from error
        given = {"mode": options.mode, "--sampler": options.sampler, "--seed": options.seed, "command": " ".join(words)}
        given["space"] = ", ".join(f"{variable.flag} {variable.distribution}" for variable in space)
        for name, stored in self.study.user_attrs.get(SETTINGS, given).items():
            if stored != given[name]:
                change = f"{name}: {shorten(stored)}, now {shorten(given[name])}"
                raise UsageError(f"{options.output_dir} has another sweep ({change}): choose another --output_dir")
        self.study.set_user_attr(SETTINGS, given)

    def run(self) -> None:
        """Run the trials until there are as many as wanted; they can be continued if an exception ends it."""
        try:
            with locked_directory(self._directory, UsageError(f"a sweep works in {self._directory}: end it, or wait")):
                trials, gpus = self._next_trials(), cycle(self._gpus or [None])
                jobs = [self._train(trials, next(gpus)) for _ in range(self._options.jobs)]
                while jobs:
                    jobs = [job for job in jobs if next(job, "ended") is None]
                    time.sleep(0.2)
        finally:  # each training writes a checkpoint, and is continued by the next sweep
            for process in self._running:
                process.terminate()
            for process in self._running:
                process.wait()

    def _next_trials(self) -> Iterator[Any]:
        """Yield the interrupted trials, then new ones until there are enough."""
        from optuna.trial import Trial, TrialState

        storage, study_id = self._storage, self._storage.get_study_id_from_name(STUDY)
        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):
            # With --storage other machines may have trials in the same study.
            if not self._options.storage or self._config(trial).is_file():
                yield Trial(self.study, storage.get_trial_id_from_study_id_trial_number(study_id, trial.number))
        while len(self.study.trials) < self.study.user_attrs.get(POINTS, self._options.trials):
            yield self.study.ask()

    def _config(self, trial: Any) -> Path:
        return self._directory / f"trial_{trial.number:04}.json"

    def _train(self, trials: Iterator[Any], gpu: str | None) -> Iterator[None]:
        """Start or continue the training of one trial after the other, and follow it; yield while its process runs."""
        from tfaip.trainer.run.names import HISTORY_FILE, PARAMS_FILE

        env = os.environ if gpu is None else {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
        # Ctrl-C reaches the sweep alone, which stops its trainings: a second signal would end them at once.
        options: Any = {"env": env, "stdout": subprocess.DEVNULL, "start_new_session": True}
        for trial in trials:
            config = self._config(trial)  # a file may name less than a command line, and the space is a file, too
            run = config.with_suffix("")
            while is_locked(config):  # by the training of a sweep that was killed
                yield
            write_json(config, config_of(self._space, self._draw(trial)))
            words = ["train", *self._words, "--config", str(config), "--trainer.output_dir", str(run)]
            if (run / PARAMS_FILE).is_file():
                words = ["resume_training", str(run)]
            command = [sys.executable, "-P", "-m", f"tfaip.scripts.{words[0]}", *words[1:]]
            exit_code, is_pruned, judged = None, False, set[int]()
            with open(config) as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the training ends, which keeps the file open
                process = subprocess.Popen(command, stdin=file, **options)  # noqa: S603 (of the user)
            self._running.add(process)
            while exit_code is None:
                yield
                exit_code = process.poll()  # before the values, so that none is missed
                if not is_pruned and self._report(trial, run / HISTORY_FILE, judged):
                    is_pruned = True
                    process.terminate()
                    self._running.discard(process)  # a second signal would end it at once
            self._tell(trial, run, exit_code, is_pruned)

    def _draw(self, trial: Any) -> Mapping[str, Any]:
        """Return the values of a trial; what was drawn before a sweep was killed stays."""
        from optuna.samplers import BruteForceSampler, RandomSampler, TPESampler

        # A sampler for each trial, so that a sweep that was killed continues as if it was not.
        seed = (self._options.seed * 1_000_003 + trial.number) % 2**32
        samplers = {"grid": BruteForceSampler(seed), "random": RandomSampler(seed)}
        samplers["tpe"] = TPESampler(seed=seed, constant_liar=self._options.jobs > 1)
        self.study.sampler = samplers[self._options.sampler]
        point: dict[str, Any] = {}
        for flag, drawn, choices, contexts in self._space:
            if not any(context.items() <= point.items() for context in contexts):
                continue
            if choices:
                point[flag] = trial.suggest_categorical(flag, drawn.choices)
            else:
                suggest: Any = trial.suggest_int if isinstance(drawn.low, int) else trial.suggest_float
                point[flag] = suggest(flag, drawn.low, drawn.high, step=drawn.step, log=drawn.log)
        log.info("trial %d: %s", trial.number, ", ".join(f"{flag} {value}" for flag, value in point.items()))
        return point

    def _report(self, trial: Any, file: Path, judged: set[int]) -> bool:
        """Give the values of new epochs to the search; return True if the trial is to be pruned."""
        from tfaip.trainer.history import History, read_history

        history = read_history(file) if file.is_file() else History()
        for epoch in history.epochs:
            record = history[epoch]
            value = record.values.get(record.meta.get("best", {}).get("monitor"))
            if value is None or epoch in judged:
                continue
            judged.add(epoch)
            trial.report(value, epoch)  # ignored if it was reported before the sweep was killed
            if trial.should_prune():
                return True
        return False

    def _tell(self, trial: Any, run: Path, exit_code: int, is_pruned: bool) -> None:
        """Store the result of a trial that has ended."""
        from optuna.trial import TrialState

        from tfaip.trainer.tools.runs import read_run

        state, value = TrialState.PRUNED, None
        if not is_pruned:
            value = None if exit_code else read_run(run)["best"]
            state = TrialState.FAIL if value is None else TrialState.COMPLETE
        try:
            self.study.tell(trial, value, state)
        except RuntimeError:  # as the grid ends `study.optimize` when it has no more points
            if self._options.sampler != "grid":
                raise
            self.study.set_user_attr(POINTS, len(self.study.trials))
        log.info("trial %d: %s, exit code %d", trial.number, state.name.lower(), exit_code)
        ended = self.study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
        if [one.state for one in ended[-3:]] == [TrialState.FAIL] * 3:
            raise TfaipError("three trials in a row failed")


if __name__ == "__main__":
    sys.exit(main())
