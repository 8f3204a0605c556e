"""Stages of a run in order: of a list, of the hooks of a scenario, or of its program. Needs no backend."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeVar

from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import UsageError
from tfaip.params.codec import Text
from tfaip.params.fields import FieldError, copied
from tfaip.params.names import did_you_mean
from tfaip.params.settings import RootParams, apply, check_flags, flags_of, prepare
from tfaip.params.sources import Setting
from tfaip.params.tree import Place, children, diff, fill_shared, flag_of, walk_places
from tfaip.params.types import load_function, value_text
from tfaip.trainer.schedules.targets import SCHEDULES, schedules_without, split_known
from tfaip.trainer.stages.params import (
    EPOCH,
    MAIN,
    PRETRAINING,
    CallStage,
    OverridingStage,
    PredictStage,
    PretrainingParams,
    StageParams,
    TrainStage,
    check_stage,
)
from tfaip.trainer.transfer.params import TransferParams
from tfaip.util.classes import construct, overrides
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text
from tfaip.util.typing import Logs

log = logger(__name__)

P = TypeVar("P", bound=RootParams)

MAX_STAGES = 1000
_MAX_ROWS = 60
_MAX_TEXT = 200
_LEFT_OUT = "--pretraining.max_epochs 0"
# What a run has once; paths from the trainer params.
_OF_THE_RUN = """
    epochs callbacks output_dir overwrite write_checkpoints checkpoint_sub_dir keep_checkpoints history_file random_seed
    profile profile_steps progress_bar_mode device warmstart early_stopping.best_model_name stages pretraining transfer
    keras_backend import_root
"""
# The graph may be built again with another one.
_OF_A_STAGE = "device.precision"
# Other braces belong to the text: `a{2}` of a regular expression, `{epoch:04d}` of a name.
_REFERENCE = re.compile(r"\{([^{}]*)\.file\}")


class StageKind(StrEnum):
    """Work of a stage."""

    TRAIN = "train"
    PREDICT = "predict"
    CALL = "call"


@dataclass(frozen=True)
class PlannedStage:
    """Stage of a run with its place in it.

    Args:
        name: its name; the plain params are `main`.
        kind: its work.
        number: of the stage, from 0.
        first_epoch: its first epoch in the numbers of the whole run; without training the epoch that follows it.
        last_epoch: its last planned epoch; without training `first_epoch - 1`.
        params: the whole tree of its training; None: it refers to the file of a stage, see `resolve`.
        overrides: flag without dashes -> value as text.
        rate_control: False: the rate is held, and the scores of the stage do not count for the control.
        transfer: the weights that it takes over from the stage before.
        settings: the params of the stage itself; None: it is `main`.
        epoch_offset: number of the epoch before the first one of the rate control: of a later call of `Trainer.fit`.
        pending: computes the params of the files of the finished stages.
    """

    name: str
    kind: StageKind
    number: int
    first_epoch: int
    last_epoch: int
    params: Any
    overrides: Mapping[str, str] = field(default_factory=dict)
    rate_control: bool = True
    transfer: TransferParams = field(default_factory=TransferParams)
    settings: StageParams | None = None
    epoch_offset: int = 0
    pending: Callable[[Mapping[str, str]], Any] | None = field(default=None, compare=False, repr=False)

    def resolve(self, files: Mapping[str, str]) -> PlannedStage:
        """Return the stage with its params, given the files of the finished stages by name."""
        if self.pending is None:
            return self
        return dataclasses.replace(self, params=self.pending(files), pending=None)

    def describe(self) -> str:
        """Return in words what the stage does that the main one does not."""
        parts = [] if self.settings is None else [self.settings.describe()]
        if not self.rate_control:
            parts.append("rate held")
        if self.transfer != TransferParams() and self.name != MAIN:
            parts.append(f"transfer {self.transfer.mode.value}")
        parts += [f"{flag}={text}" for flag, text in self.overrides.items()]
        if self.params is None:
            parts.append("known when it is reached")
        return shorten_text(", ".join(filter(None, parts)), _MAX_TEXT)


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
    """

    name: str
    first_epoch: int
    last_epoch: int
    values: Logs = field(default_factory=dict)
    best: dict[str, Any] | None = None
    directory: str | None = None
    file: str | None = None
    value: Any = None


StageProgram = Generator[PlannedStage, Any, None]
"""Yields the stages of a run, and gets the result of each."""


def planned_stages(params: Any, scenario: Any, history: Any) -> StageProgram:
    """Yield the stages of a run in order; the last one is `main`, whose params are `params` itself.

    Args:
        params: the trainer params; they stay as they are.
        scenario: the scenario or its class.
        history: rates and values of the finished stages, for programs.

    Raises:
        UsageError: if a stage cannot work; one line that names it.
    """
    with flags_of(params, params.flag_root):
        planner, result = _Planner(params), None
        found = _all_stages(params, planner, scenario, history)
        while True:
            try:
                stage = found.send(result)
            except StopIteration:
                break
            result = yield planner.plan(stage)
        used = planner.next_epoch - 1
        if used < params.epochs:
            yield planner.main()
        elif not _may_use_all_epochs(scenario):
            raise FieldError(
                "epochs", params.epochs, f"more than the {used} epochs of the stages, as it counts all of them"
            )


def _may_use_all_epochs(scenario: Any) -> bool:
    """Return True if the stages are known when they are reached, so that `main` may get no epochs."""
    return _has(scenario, "stages") or _asks_for_history(scenario)


def _all_stages(params: Any, planner: _Planner, scenario: Any, history: Any) -> Generator[Any, Any, None]:
    """Yield the stages of the hooks, then those of the list or of the program."""
    has_program = params.pretraining.max_epochs != 0 and _has(scenario, "stages")
    if params.stages and has_program:
        raise UsageError(f"{_name_of(scenario)} has a program of stages: leave out --stages, or set {_LEFT_OUT}")
    yield from _hook_stages(planner, params.pretraining, scenario, history)
    for name, stage in params.stages.items():
        yield dataclasses.replace(stage, name=name)
    if has_program:
        program = scenario.stages(copy_for_stage(planner.plain), history)
        if not isinstance(program, Generator):
            raise UsageError(f"stages of {_name_of(scenario)} returned {shorten(program)}, expected a generator")
        yield from program


class _OfHook(NamedTuple):
    """Stage whose params a hook has returned; its overrides are what differs in them."""

    settings: TrainStage
    params: Any


class _Planner:
    """Planner of one stage after the other."""

    def __init__(self, params: Any) -> None:
        self._params = params
        self.next_epoch = 1
        self._names: dict[str, type] = {}
        # Of the latest training: params of the run or of a hook, and the overrides of its stage.
        self._latest: tuple[Any, Mapping[str, str]] | None = None

    @cached_property
    def plain(self) -> Any:
        """A copy of the params of the run without stages; a run that has none needs no copy."""
        plain = copy_for_stage(self._params)
        plain.stages, plain.pretraining = {}, PretrainingParams()
        return plain

    def plan(self, stage: Any) -> PlannedStage:
        """Return the plan of the next stage."""
        if isinstance(stage, _OfHook):
            self._latest = stage.params, {}
            return self._append(stage.settings, stage.params, {}, stage.settings.overrides, self._params.transfer)
        if not isinstance(stage, StageParams):
            raise UsageError(f"the program yielded {shorten(stage)}, expected TrainStage, PredictStage or CallStage")
        settings: Any = copied(stage)  # the program may change its own
        place = f"stages.{settings.name}"
        check_stage(settings, settings.name, f"{place}.name", f"{place}.", self._names)
        prepare(settings, place)
        own: dict[str, str] = {}
        if isinstance(settings, OverridingStage):
            given = list(settings.overrides.items())
            if isinstance(settings, TrainStage) and settings.no_train_scope is not None:
                # An empty one lifts that of the run.
                given.append(("no_train_scope", settings.no_train_scope or "None"))
            own = flags_of_overrides(self.plain, given, settings.name)
        elif isinstance(settings, CallStage):
            load_function(settings.function, f"{place}.function")
        if isinstance(settings, TrainStage):
            self._latest = self.plain, own
        base, before = self._latest or (self.plain, {})
        return self._append(settings, base, {**before, **own}, own, getattr(settings, "transfer", TransferParams()))

    def main(self) -> PlannedStage:
        """Return the stage of the plain params."""
        return self._append(None, self.plain if self._names else None, {}, {}, self._params.transfer)

    def _append(
        self, settings: StageParams | None, base: Any, given: Mapping[str, str], own: Any, transfer: TransferParams
    ) -> PlannedStage:
        """Return the plan of a stage: params `base` with the overrides `given`, of which `own` are those of itself."""
        name = MAIN if settings is None else settings.name
        epochs = self._params.epochs - self.next_epoch + 1 if settings is None else getattr(settings, "epochs", 0)
        number, first, last = len(self._names), self.next_epoch, self.next_epoch + epochs - 1
        if epochs and last > self._params.epochs:
            raise FieldError("epochs", self._params.epochs, f"at least {last}, the last epoch of stage {name}")
        params, pending = self._params, None
        if settings is not None or (base is not None and _references(base)):
            params, pending = self._params_of(name, base, given, may_wait=not isinstance(settings, CallStage))
        self._names[name] = type(settings)
        self.next_epoch = last + 1
        kind = StageKind.TRAIN if epochs else StageKind.CALL if isinstance(settings, CallStage) else StageKind.PREDICT
        control = getattr(settings, "rate_control", True)
        return PlannedStage(name, kind, number, first, last, params, own, control, transfer, settings, pending=pending)

    def _params_of(self, name: str, base: Any, given: Mapping[str, str], may_wait: bool) -> tuple[Any, Any]:
        """Return params with overrides; or None, and what computes them when the stage is reached."""
        texts = {**_references(base), **given}
        referring = {flag: text for flag, text in texts.items() if _REFERENCE.search(text)}
        if not referring or not may_wait:
            return overridden(base, given, name), None
        for flag, text in referring.items():
            for key in _REFERENCE.findall(text):
                self._check_reference(key, f"stage {name}: --{flag} is {shorten(text)}, but")
        with _naming(name):
            check_flags(base, given)
        return None, lambda files: overridden(base, texts, name, files)

    def _check_reference(self, key: str, place: str) -> None:
        writing = [name for name, kind in self._names.items() if issubclass(kind, PredictStage)]
        if key not in [*self._names, *self._params.stages]:
            raise UsageError(f"{place} no stage has this name{did_you_mean(key, writing)}")
        if key not in self._names:
            raise UsageError(f"{place} {key} comes later: override it in this stage")
        if key not in writing:
            raise UsageError(f"{place} {key} writes no file, as only a PredictStage does")


def copy_for_stage(params: P) -> P:
    """Return a copy of a tree whose shared params are those of the copy."""
    copy = copied(params)
    scenario = getattr(copy, "scenario", None)
    if scenario is not None:
        fill_shared(copy, scenario, strict=False)
    return copy


def flags_of_overrides(params: RootParams, overrides: Iterable[tuple[str, str]], stage: str) -> dict[str, str]:
    """Return overrides by flags without dashes.

    Args:
        params: the root of the tree.
        overrides: flag or dotted path in the tree, and text as after the flag.
        stage: name of the stage, for messages.

    Raises:
        UsageError: if a param is given twice, or is one that the run has once.
    """
    root = type(params).flag_root
    flags: dict[str, str] = {}
    for place, _ in walk_places(params, Place.of_root(root)):
        if not place.is_hidden:
            flags[place.flag] = place.flag
            flags.setdefault(place.path.removeprefix(f"{root}."), place.flag)
    found: dict[str, str] = {}
    with _naming(stage):
        for name, text in overrides:
            known, rest = split_known(name.lstrip("-"), flags)
            flag = f"{flags[known]}{rest}" if known else rest
            if flag in found:
                raise UsageError(f"--{shorten_text(flag)} is given twice: give it once")
            found[flag] = text
        _check_of_a_stage(params, found)
    return found


def overridden(params: P, given: Mapping[str, str], stage: str, files: Mapping[str, str] | None = None) -> P:
    """Return a copy of the params with overrides.

    Args:
        params: the root of the tree; it stays as it is.
        given: see `flags_of_overrides`.
        stage: name of the stage, for messages.
        files: of the finished stages, by name, in the place of `{NAME.file}`; None: these stay.

    Raises:
        UsageError: an unknown path, or a value that does not fit; one line with the stage and the path.
    """
    # After the texts were split: a path may hold blanks.
    texts = {flag: Text(text).replaced(lambda word: with_files(word, files)) for flag, text in given.items()}
    with _naming(stage):
        changed = apply(params, [Setting(flag, text) for flag, text in texts.items()])
        if getattr(changed, SCHEDULES, None):
            _drop_schedules(changed, given)
    return changed


def with_files(text: str, files: Mapping[str, str] | None) -> str:
    """Return a text with the files of the stages that it refers to; None: they are not known yet."""
    return text if files is None else _REFERENCE.sub(lambda match: files[match[1]], text)


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
    given = [flag for flag in flags if flag.removeprefix(root).partition(".")[0] != SCHEDULES]
    remaining = schedules_without(params, given)
    if len(given) == len(flags):
        params.schedules = remaining
    elif len(remaining) < len(params.schedules):
        both = next(schedule for schedule in params.schedules if schedule not in remaining)
        raise UsageError(f"{shorten_text(both.target)} has a value and a schedule: leave out one of them")


def _references(params: Any) -> dict[str, str]:
    """Return the params that refer to files of stages, as overrides."""
    places = walk_places(params, Place.of_root(type(params).flag_root))
    values = {place.flag: value for place, value in places if not place.is_hidden and children(value) is None}
    return {flag: value_text(value) for flag, value in values.items() if _REFERENCE.search(str(value))}


def _hook_stages(planner: _Planner, pretraining: PretrainingParams, scenario: Any, history: Any) -> Iterator[_OfHook]:
    """Yield the stages of the hooks `pretraining` and `params_for_epoch`."""
    if pretraining.max_epochs == 0 or not (_has(scenario, "pretraining") or _has(scenario, "params_for_epoch")):
        return
    plain = planner.plain
    if isinstance(scenario, type):
        scenario = construct(scenario, copy_for_stage(plain).scenario)
    yield from _of_indices(plain, pretraining, scenario)
    for stage in _of_epochs(plain, pretraining, scenario, history):
        if planner.next_epoch > 1 and stage.settings.name == f"{EPOCH}.1":
            both = "has both hooks, pretraining and params_for_epoch: return None in one of them"
            raise UsageError(f"{_name_of(scenario)} {both}")
        yield stage


def _of_indices(plain: Any, pretraining: PretrainingParams, scenario: Any) -> Iterator[_OfHook]:
    """Yield a stage for each index that the hook `pretraining` knows."""
    index = used = 0
    limit = _limit(plain, pretraining)
    while (result := scenario.pretraining(index, copy_for_stage(plain))) is not None:
        params, epochs = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        call, is_number = f"pretraining({index}, params)", type(epochs) is int and epochs >= 1
        if type(params) is not type(plain) or not (epochs is None or is_number):
            raise _unexpected(call, scenario, result, plain, ", a tuple of it and a number of epochs of at least 1,")
        stage = _of_hook(f"{PRETRAINING}.{index}", call, params, plain, pretraining, scenario)
        stage.settings.epochs = epochs or pretraining.epochs_of(index)
        index, used = index + 1, used + stage.settings.epochs
        if used > limit:
            raise _endless(call, scenario, limit)
        yield stage


def _of_epochs(plain: Any, pretraining: PretrainingParams, scenario: Any, history: Any) -> Iterator[_OfHook]:
    """Yield a stage for each epoch of the hook `params_for_epoch`; epochs with equal params are one.

    A hook that asks for the history is asked when the epoch is reached: each epoch is a stage.
    """
    later = _asks_for_history(scenario)
    asked = {"history": history} if later else {}
    limit = _limit(plain, pretraining)
    stage: _OfHook | None = None
    for epoch in range(1, limit + 1):
        call = f"params_for_epoch({epoch}, params)"
        params = scenario.params_for_epoch(epoch, copy_for_stage(plain), **asked)
        if params is None:
            break
        if type(params) is not type(plain):
            raise _unexpected(call, scenario, params, plain, "")
        if stage is not None and not diff(stage.params, params):
            stage.settings.epochs = (stage.settings.epochs or 0) + 1
            continue
        if stage is not None:
            yield stage
        stage = _of_hook(f"{EPOCH}.{epoch}", call, params, plain, pretraining, scenario)
        if later:
            yield stage
            stage = None
    else:
        if limit == plain.epochs and stage is not None and not diff(plain, stage.params):
            return  # the last epochs are those of the plain params
        if not later and scenario.params_for_epoch(limit + 1, copy_for_stage(plain)) is not None:
            raise _endless(f"params_for_epoch({limit + 1}, params)", scenario, limit)
    if stage is not None:
        yield stage


def _limit(plain: Any, pretraining: PretrainingParams) -> int:
    return plain.epochs if pretraining.max_epochs is None else pretraining.max_epochs


def _of_hook(name: str, call: str, params: Any, plain: Any, pretraining: PretrainingParams, scenario: Any) -> _OfHook:
    """Return a stage of one epoch with params of a hook after all checks; those of the hook may change later."""
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
        raise UsageError(f"{call} of {_name_of(scenario)}: {error}") from error
    return _OfHook(TrainStage(name, texts, 1, pretraining.rate_control), params)


def _unexpected(call: str, scenario: Any, result: Any, plain: Any, others: str) -> UsageError:
    shown = type(result).__name__ if hasattr(result, "__dataclass_fields__") else shorten(result)
    expected = f"{type(plain).__name__}{others or ','} or None at the end"
    return UsageError(f"{call} of {_name_of(scenario)} returned {shown}, expected {expected}")


def _endless(call: str, scenario: Any, limit: int) -> UsageError:
    return UsageError(
        f"{call} of {_name_of(scenario)} has not returned None after {limit} epochs: return it where the "
        "pretraining ends, or change --pretraining.max_epochs or --trainer.epochs"
    )


def _asks_for_history(scenario: Any) -> bool:
    return "history" in inspect.signature(scenario.params_for_epoch).parameters


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
    """

    stages: Sequence[PlannedStage]
    is_complete: bool = True

    @property
    def has_stages(self) -> bool:
        """True if the run has, or may have, more than its main stage."""
        return not self.is_complete or len(self.stages) > 1

    def table(self) -> list[str]:
        """Return a line per stage, below a header: name, first and last epoch, and what it has of its own."""
        rows = [("stage", "epochs", "what differs from the plain params")]
        for stage in self.stages:
            first, last = stage.first_epoch, stage.last_epoch
            epochs = "-" if last < first else f"{first}-{last}" if last > first else str(first)
            rows.append((stage.name, epochs, stage.describe()))
        if not self.is_complete:
            rows.append(("...", "", "known when it is reached"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        left_out, half = len(lines) - _MAX_ROWS, _MAX_ROWS // 2
        return lines if left_out <= 0 else [*lines[:half], f"... {left_out} more stages", *lines[-half:]]

    def log(self) -> None:
        """Log the table of the stages."""
        log.info("stages:\n%s", "\n".join(self.table()))


def preview_stages(params: Any, scenario: Any) -> Preview:
    """Return the stages of a run up to the first result that its program reads.

    Args:
        params: the trainer params.
        scenario: the scenario or its class.

    Raises:
        UsageError: if a stage cannot work; one line that names it.
    """
    stages: list[PlannedStage] = []
    program, is_open = planned_stages(params, scenario, PENDING), _may_use_all_epochs(scenario)
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
