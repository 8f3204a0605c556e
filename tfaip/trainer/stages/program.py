"""Stages of a run in order: of a list, of the hooks of a scenario, or of its program. Needs no backend."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import UsageError
from tfaip.params.codec import Text, value_text
from tfaip.params.fields import FieldError, copied
from tfaip.params.names import did_you_mean
from tfaip.params.settings import RootParams, apply, flags_of, prepare
from tfaip.params.stored import flat_params
from tfaip.params.tree import ABSENT, Place, children, diff, fill_shared, flag_of, place_at, walk_places
from tfaip.trainer.run.names import STAGES_DIR
from tfaip.trainer.scheduledvalues import SCHEDULES_FIELD, path_of, schedules_without
from tfaip.trainer.stages.params import (
    EPOCH,
    MAIN,
    PRETRAINING,
    RESERVED,
    OverridingStage,
    PretrainingParams,
    StageParams,
    TrainStage,
)
from tfaip.util.classes import overrides
from tfaip.util.files import name_problem
from tfaip.util.logging import logger
from tfaip.util.terminal import table_lines
from tfaip.util.text import shorten, shorten_text
from tfaip.util.typing import Logs

log = logger(__name__)

P = TypeVar("P", bound=RootParams)

MAX_STAGES = 1000
_MAX_TEXT = 200
_LEFT_OUT = "--pretraining.max_epochs 0"
# What a run has once; paths from the trainer params.
_OF_THE_RUN = """
    epochs callbacks output_dir overwrite write_checkpoints checkpoint_sub_dir keep_checkpoints history_file random_seed
    profile profile_steps progress_bar_mode device warmstart early_stopping.best_model_name
    early_stopping.best_model_output_dir stages pretraining transfer keras_backend
"""
# The graph may be built again with another one.
_OF_A_STAGE = "device.precision"
# Other braces belong to the text: `a{2}` of a regular expression, `{epoch:04d}` of a name.
_REFERENCE = re.compile(r"\{([^{}]*)\.file\}")


@dataclass(frozen=True)
class PlannedStage:
    """Stage of a run with its place in it.

    Args:
        settings: its own params, whose overrides have flags as names; those of the plain params are named `main`.
        number: of the stage, from 0.
        first_epoch: its first epoch in the numbers of the whole run; without training the epoch that follows it.
        last_epoch: its last planned epoch; without training `first_epoch - 1`.
        params: the whole tree of its training.
        epoch_offset: number of the epoch before the first one of the rate control: of a later call of `Trainer.fit`.
    """

    settings: Any
    number: int
    first_epoch: int
    last_epoch: int
    params: Any
    epoch_offset: int = 0

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.settings.name)

    @property
    def trains(self) -> bool:
        """True if it has epochs."""
        return bool(self.settings.trains)

    @property
    def reads_stages(self) -> bool:
        """True if its overrides name a file that a stage before will have written."""
        return any(map(_REFERENCE.search, getattr(self.settings, "overrides", {}).values()))

    def describe(self) -> str:
        """Return in words what the stage does that the main one does not."""
        if self.name == MAIN:
            return ""
        given = [f"{flag}={text}" for flag, text in getattr(self.settings, "overrides", {}).items()]
        return shorten_text(", ".join([*self.settings.describe(), *given]), _MAX_TEXT)


def main_stage(params: Any, number: int = 0, first_epoch: int = 1) -> PlannedStage:
    """Return the stage of the plain params, which trains the epochs that are left."""
    settings = TrainStage(MAIN, epochs=params.epochs - first_epoch + 1, transfer=params.transfer)
    return PlannedStage(settings, number, first_epoch, params.epochs, params)


@dataclass(frozen=True)
class StageResult:
    """Result of a finished stage, which a program gets for the stage that it has yielded.

    Args:
        name: of the stage.
        first_epoch: its first epoch in the numbers of the run; without training the next one.
        last_epoch: its last trained epoch, which is not the planned one if it stopped early.
        values: all values of its last epoch.
        best: `epoch` and `value` of its best epoch; None: there is none.
        directory: of the stage; None: the run writes nothing.
        file: that a `PredictStage` has written.
        value: that the function of a `CallStage` has returned.
        stop_reason: of a training, see `Trainer.stop_reason`.
    """

    name: str
    first_epoch: int
    last_epoch: int
    values: Logs = field(default_factory=dict)
    best: dict[str, Any] | None = None
    directory: str | None = None
    file: str | None = None
    value: Any = None
    stop_reason: str | None = None


StageProgram = Generator[PlannedStage, Any, None]
"""Yields the stages of a run, and gets the result of each."""


def planned_stages(params: Any, scenario: Any, history: Any) -> StageProgram:
    """Yield the stages of a run in order; the last one is `main`, whose params are `params` itself."""
    planner, runs_hooks = _Planner(params), params.pretraining.max_epochs != 0
    has_program = runs_hooks and _has(scenario, "stages")
    with flags_of(params, params.flag_root):
        if params.stages and has_program:
            raise UsageError(f"{_name_of(scenario)} has a program of stages: leave out --stages, or set {_LEFT_OUT}")
        for stage, own in _hook_stages(planner, params.pretraining, scenario) if runs_hooks else ():
            yield planner.plan(stage, own)
        for name, stage in params.stages.items():
            if stage.name not in ("", name):
                raise UsageError(f"stage {name} has another name, {shorten(stage.name)}: give it one of them")
            yield planner.plan(dataclasses.replace(stage, name=name))
        if has_program:
            program, result = scenario.stages(copy_for_stage(planner.plain), history), None
            if not isinstance(program, Generator):
                raise UsageError(f"stages of {_name_of(scenario)} returned {shorten(program)}, expected a generator")
            with suppress(StopIteration):  # its end
                while True:
                    result = yield planner.plan(program.send(result))
        used = planner.next_epoch - 1
        if used < params.epochs:
            yield planner.main()
        elif not has_program:
            expected = f"more than the {used} epochs of the stages, as it counts all of them"
            raise FieldError("epochs", params.epochs, expected)


class _Planner:
    """Planner of one stage after the other."""

    def __init__(self, params: Any) -> None:
        self._params = params
        self.next_epoch = 1
        self._names: list[str] = []
        self._files: dict[str, str] = {}  # that stages write, by their names
        self._latest: Any = None  # params of the latest training

    @cached_property
    def plain(self) -> Any:
        """A copy of the params of the run without stages; a run that has none needs no copy."""
        plain = copy_for_stage(self._params)
        plain.stages, plain.pretraining = {}, PretrainingParams()
        return plain

    def plan(self, stage: Any, params: Any = None) -> PlannedStage:
        """Return the plan of the next stage; `params` are those that a hook gives it."""
        if not isinstance(stage, StageParams):
            raise UsageError(f"the program yielded {shorten(stage)}, expected TrainStage, PredictStage or CallStage")
        settings: Any = copied(stage)  # the program may change its own
        if params is None:
            self._check(settings)
        number, first = len(self._names), self.next_epoch
        last = first + settings.num_epochs() - 1
        if settings.trains and last > self._params.epochs:
            least = "more than" if self._params.stages else "at least"  # after a list there is `main`
            raise FieldError("epochs", self._params.epochs, f"{least} {last}, the last epoch of stage {settings.name}")
        if params is None:
            params = self._params_of(settings)
        if settings.trains:
            self._latest = copy_for_stage(params)  # a training completes its own
        if file := settings.result_file():
            root = Path(self._params.output_dir or "").absolute()
            self._files[settings.name] = str(root / STAGES_DIR / settings.name / file)
        self._names.append(settings.name)
        self.next_epoch = last + 1
        return PlannedStage(settings, number, first, last, params)

    def main(self) -> PlannedStage:
        """Return the stage of the plain params."""
        stage = main_stage(self._params, len(self._names), self.next_epoch)
        if self._names and (references := _references(self.plain)):
            return dataclasses.replace(stage, params=self._resolved(MAIN, self.plain, references))
        return stage

    def _check(self, settings: Any) -> None:
        """Raise unless a stage has what it needs, and a name that no stage before it has."""
        name = str(settings.name)
        # Some file systems do not distinguish Small from small.
        is_taken = name.casefold() in (*RESERVED, *map(str.casefold, self._names))
        if is_taken or name_problem(name) is not None or any(character in name for character in ".{}= \\"):
            expected = f"a name of its own, without dots, braces, spaces or =; not {', '.join(RESERVED)}"
            raise FieldError("stages" if name in self._params.stages else "name", name, expected)
        prepare(settings, f"stages.{name}")
        settings.check()

    def _params_of(self, settings: Any) -> Any:
        """Return the params of a stage; its overrides get flags as names."""
        base = self.plain if settings.trains or self._latest is None else self._latest
        if not isinstance(settings, OverridingStage):
            return copy_for_stage(base)
        settings.overrides = given = flags_of_overrides(self.plain, settings.given(), settings.name)
        return self._resolved(settings.name, base, {**_references(base), **given})

    def _resolved(self, name: str, base: Any, texts: Mapping[str, str]) -> Any:
        """Return params with overrides, and files of stages in the place of `{NAME.file}`."""
        for flag, text in texts.items():
            for key in set(_REFERENCE.findall(text)) - self._files.keys():
                problem = f"no PredictStage before it is called {shorten_text(key)}{did_you_mean(key, self._files)}"
                raise UsageError(f"stage {name}: --{flag} is {shorten(text)}, but {problem}")
        return overridden(base, texts, name, self._files)


def stored_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the values that differ between stored params, before and after, by dotted path."""
    before, after = flat_params(old), flat_params(new)
    paths = [path for path in dict.fromkeys([*before, *after]) if before.get(path, ABSENT) != after.get(path, ABSENT)]
    return {path: (before.get(path, ABSENT), after.get(path, ABSENT)) for path in paths}


def copy_for_stage(params: P) -> P:
    """Return a copy of a tree whose shared params are those of the copy."""
    copy = copied(params)
    scenario = getattr(copy, "scenario", None)
    if scenario is not None:
        fill_shared(copy, scenario, strict=False)
    return copy


def flags_of_overrides(params: RootParams, overrides: Iterable[tuple[str, str]], stage: str) -> dict[str, str]:
    """Return overrides by flags without dashes."""
    root = type(params).flag_root
    found: dict[str, str] = {}
    with _naming(stage):
        for name, text in overrides:
            flag = place_at(params, root, path_of(params, name.lstrip("-"))).flag
            if flag in found:
                raise UsageError(f"--{shorten_text(flag)} is given twice: give it once")
            found[flag] = text
        _check_of_a_stage(params, found)
    return found


def overridden(params: P, given: Mapping[str, str], stage: str, files: Mapping[str, str]) -> P:
    """Return a copy of the params with overrides."""

    def with_files(word: str) -> str:
        return _REFERENCE.sub(lambda match: files[match[1]], word)

    # After the texts were split: a path may hold blanks.
    texts = {flag: Text(text).replaced(with_files) for flag, text in given.items()}
    with _naming(stage):
        changed = apply(params, texts)
        if getattr(changed, SCHEDULES_FIELD, None):
            _drop_schedules(changed, given)
    return changed


@contextmanager
def _naming(stage: str) -> Iterator[None]:
    """Context that names the stage in an error about its overrides."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"stage {shorten_text(stage)}, overrides: {error}") from error


def _check_of_a_stage(params: RootParams, flags: Iterable[str]) -> None:
    """Raise if one of some flags without dashes sets what a run has once."""
    root = type(params).flag_root
    of_the_run = [flag_of(params, root, path).lstrip("-") for path in _OF_THE_RUN.split()]
    for flag in flags:
        if begins(flag, of_the_run) and not begins(flag, [_OF_A_STAGE]):
            raise UsageError(f"--{shorten_text(flag)} is one of the whole run: set it outside of the stages")


def begins(path: str, beginnings: Iterable[str]) -> bool:
    """Return True if a dotted path is one of some others, or below one of them."""
    return any(f"{path}.".startswith(f"{beginning}.") for beginning in beginnings)


def _drop_schedules(params: Any, flags: Collection[str]) -> None:
    """Remove the schedules of the run whose values a stage gives itself; a stage that gives both is an error."""
    root = f"{type(params).flag_root}."
    given = [flag for flag in flags if flag.removeprefix(root).partition(".")[0] != SCHEDULES_FIELD]
    remaining = schedules_without(params, given)
    if len(given) == len(flags):
        params.schedules = remaining
    elif len(remaining) < len(params.schedules):
        both = next(schedule for schedule in params.schedules if schedule not in remaining)
        raise UsageError(f"{shorten_text(both.target)} has a value and a schedule: leave out one of them")


def _references(params: Any) -> dict[str, str]:
    """Return the params that refer to files of stages, as overrides."""
    found: dict[str, str] = {}
    for place, value in walk_places(params, Place.of_root(type(params).flag_root)):
        if not place.is_hidden and children(value) is None and _REFERENCE.search(str(value)):
            try:
                found[place.flag] = value_text(value)
            except TypeError as error:  # lists within it
                raise UsageError(f"--{place.flag} names the file of a stage: {error}") from error
    return found


def _hook_stages(planner: _Planner, pretraining: PretrainingParams, scenario: Any) -> Iterator[tuple[TrainStage, Any]]:
    """Yield the stages of the hook `pretraining` or `params_for_epoch`, each with its params."""
    hooks = [hook for hook in ("pretraining", "params_for_epoch") if _has(scenario, hook)]
    if not hooks:
        return
    name, plain = _name_of(scenario), planner.plain
    if len(hooks) > 1:
        raise UsageError(f"{name} has both hooks, pretraining and params_for_epoch: leave out one of them")
    limit = plain.epochs if pretraining.max_epochs is None else pretraining.max_epochs
    is_per_epoch = hooks == ["params_for_epoch"]
    stage, own, call, used = None, None, "", 0
    for number in range(1, plain.epochs + 1) if is_per_epoch else count():
        kind, epochs = (EPOCH, 1) if is_per_epoch else (PRETRAINING, pretraining.epochs_of(number))
        call = f"{hooks[0]}({number}, params) of {name}"
        result = getattr(scenario, hooks[0])(number, copy_for_stage(plain))
        if result is None:
            break
        is_pair = isinstance(result, tuple) and len(result) == 2 and not is_per_epoch
        params, epochs = result if is_pair else (result, epochs)
        if type(params) is not type(plain) or type(epochs) is not int or epochs < 1:
            others = "" if is_per_epoch else ", a tuple of it and a number of epochs of at least 1,"
            expected = f"expected {type(plain).__name__}{others} or None at the end"
            raise UsageError(f"{call} returned {shorten(result)}, {expected}")
        if (used := used + epochs) > limit:
            raise _without_end(call, limit)
        if is_per_epoch and stage is not None and not diff(own, params):
            stage.epochs = (stage.epochs or 0) + epochs
            continue
        if stage is not None:
            yield stage, own
        own, texts = _checked(params, plain, call)
        stage = TrainStage(f"{kind}.{number}", texts, epochs, pretraining.rate_control, transfer=plain.transfer)
    if stage is not None and (used < plain.epochs or diff(plain, own)):
        if is_per_epoch and used >= plain.epochs:
            raise _without_end(call, used)
        yield stage, own  # else the last epochs are those of the plain params


def _without_end(call: str, epochs: int) -> UsageError:
    return UsageError(
        f"{call} has not returned None after {epochs} epochs: return it where the pretraining ends, or change "
        "--pretraining.max_epochs or --trainer.epochs"
    )


def _checked(params: Any, plain: Any, call: str) -> tuple[Any, dict[str, str]]:
    """Return a copy of the params that a hook has returned, which may change its own, and their differences as text."""
    params = copy_for_stage(params)
    texts: dict[str, str] = {}
    for change in diff(plain, params):
        old, new, flag = change.old, change.new, flag_of(params, plain.flag_root, change.path).lstrip("-")
        if isinstance(old, dict) and isinstance(new, dict):
            items = {key: new.get(key) for key in [*old, *new] if old.get(key) != new.get(key)}
            texts.update({f"{flag}.{key}": str(value) for key, value in items.items()})
        else:
            texts[flag] = new.__name__ if isinstance(new, type) else str(new)
    try:
        prepare(params, plain.flag_root)
        _check_of_a_stage(plain, texts)
        if params.schedules:
            _drop_schedules(params, texts)
    except (UsageError, ValueError) as error:
        raise UsageError(f"{call}: {error}") from error
    return params, texts


def _has(scenario: Any, hook: str) -> bool:
    """Return True if a scenario, or its class, overrides a hook."""
    return overrides(scenario, ScenarioComponents, hook)


def _name_of(scenario: Any) -> str:
    cls: type = scenario if isinstance(scenario, type) else type(scenario)
    return cls.__name__


class StagePending(BaseException):
    """Raised where a program reads a result that is not known yet; no `except Exception` of a program catches it."""


def _pending(*args: Any) -> NoReturn:
    raise StagePending


class _Pending:
    """Result or history of stages that have not run: whatever is read of it raises `StagePending`."""

    __getattr__ = __getitem__ = __contains__ = __iter__ = __len__ = __bool__ = _pending
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __setattr__ = _pending
    __eq__ = __str__ = __repr__ = __format__ = __fspath__ = __hash__ = _pending


PENDING = _Pending()


@dataclass(frozen=True)
class Preview:
    """Stages of a run as far as they are known before it begins.

    Args:
        stages: in order.
        is_complete: False: a program decides what follows when it is reached.
        is_fixed: True: the run has these stages as they are, to try them out.
    """

    stages: Sequence[PlannedStage]
    is_complete: bool = True
    is_fixed: bool = False

    @property
    def has_stages(self) -> bool:
        """True if the run has, or may have, more than its main stage."""
        return not self.is_complete or len(self.stages) > 1

    def trial(self, params: Any) -> Preview:
        """Return these stages of the run with params, with an epoch of one batch in each; their params are changed."""
        stages = list(self.stages)
        if not any(stage.trains for stage in stages):
            stages.append(main_stage(params, len(stages)))
        last = 0
        for i, stage in enumerate(stages):
            setup, every = stage.params.gen.setup, min(stage.params.val_every_n, 1)
            stage.params.val_every_n, stage.params.samples_per_epoch = every, setup.train.batch_size
            setup.val.limit = setup.val.batch_size
            if not stage.trains:
                setup.train.limit = setup.train.batch_size
            first, last = last + 1, last + int(stage.trains)
            stages[i] = dataclasses.replace(stage, first_epoch=first, last_epoch=last)
        return Preview(stages, self.is_complete, is_fixed=True)

    def table(self) -> list[str]:
        """Return a line per stage, below a header: name, first and last epoch, and what it has of its own."""
        rows = [("stage", "epochs", "what differs from the plain params")]
        for stage in self.stages:
            first, last = stage.first_epoch, stage.last_epoch
            epochs = "-" if last < first else f"{first}-{last}" if last > first else str(first)
            rows.append((stage.name, epochs, stage.describe()))
        if not self.is_complete:
            rows.append(("...", "", "known when it is reached"))
        return table_lines(rows, left=3)

    def log(self) -> None:
        """Log the table of the stages."""
        log.info("stages:\n%s", "\n".join(self.table()))


def preview_stages(params: Any, scenario: Any) -> Preview:
    """Return the stages of a run up to the first result that its program reads.

    Args:
        scenario: the scenario or its class.

    Raises:
        UsageError: if a stage cannot work; one line that names it.
    """
    stages: list[PlannedStage] = []
    program, is_open = planned_stages(params, scenario, PENDING), _has(scenario, "stages")
    try:
        while len(stages) < MAX_STAGES:
            stages.append(program.send(PENDING if stages else None))
            if is_open and stages[-1].last_epoch >= params.epochs and stages[-1].name != MAIN:
                break
    except StopIteration:
        return Preview(stages)
    except StagePending:
        pass
    return Preview(stages, is_complete=False)
